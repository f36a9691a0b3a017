"""A primary server with a standby, and an index on both."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ingest.living_index import FIRST, MORE, LivingIndex
from support.postgres.replicas import Replicated, replicated


@pytest.fixture(scope="module")
def pair() -> Iterator[Replicated]:
    """Two servers, for all tests of a module."""
    with replicated() as servers:
        yield servers


@pytest.fixture
def living(pair: Replicated, tmp_path: Path) -> LivingIndex:
    """The index `default` with `FIRST` and `MORE` in two segments, which the standby has too."""
    made = LivingIndex(pair.primary.url, tmp_path)
    made.ingest(*FIRST, replace=True)
    made.append(*MORE)
    pair.catch_up()
    return made
