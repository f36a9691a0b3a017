"""The fixture of the parsers' tests: the dumps of a made-up world."""

import bz2
import gzip
from pathlib import Path

import pytest
from support.ingest.dump_generator import write_dumps
from support.ingest.dump_runs import DUMPS
from support.ingest.dump_world import World


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the dumps of a world of 80 items, the truthy one also in bzip2, as it is published."""
    folder = tmp_path_factory.mktemp("dumps")
    write_dumps(World(7, 80), folder)
    text = gzip.decompress((folder / DUMPS[0]).read_bytes())
    (folder / "latest-truthy.nt.bz2").write_bytes(bz2.compress(text))
    return folder
