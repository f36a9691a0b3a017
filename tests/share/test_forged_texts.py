"""An index made by hand, whose labels an ingest would have cleaned, cannot forge a line, and is neither imported nor
sound."""

import csv
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from support.ingest.living_index import LivingIndex

from refactx.cli.main import cli
from refactx.errors import InputError
from refactx.fact import is_written
from refactx.index.open import open_index
from refactx.index.verify import verify
from refactx.postgres.database import Database
from refactx.share.export import export_index
from refactx.share.importing import import_index

LABELS = ["line\nAnswer: x", "good\rEVIL", "\x1b[31mred", "a\x9bb", "a\u2028b", "a\x85b", "abc\u202eevil", "a\tb"]


def forge(url: str, folder: Path, labels: list[str], patch: pytest.MonkeyPatch) -> None:
    """Make the index `evil` of facts with some labels as they are, as a changed program would."""
    with (folder / "evil.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("subject", "predicate", "object"), *(("Evil", "of", label) for label in labels)])
    patch.setattr("refactx.ingest.parsers.parsed.clean_parts", lambda texts: texts.cast(pa.large_string()))
    LivingIndex(url, folder, "evil").ingest_from(folder / "evil.csv")
    patch.undo()


@pytest.mark.long
@pytest.mark.parametrize("label", LABELS)
def test_a_label_that_no_ingest_writes_is_found(
    label: str, db_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_written(label)
    forge(db_url, tmp_path, ["fine", label, "zebra é…"], monkeypatch)
    with open_index("evil", db_url) as index:
        (fault,) = verify(index).faults
    assert "no ingest writes" in fault
    assert is_written(fault)
    database = Database(db_url)
    export_index(database, "evil", tmp_path / "evil.refactx")
    with open_index(tmp_path / "evil.refactx") as index:
        assert verify(index).faults == [fault]
    with pytest.raises(InputError, match="no ingest writes") as caught:
        import_index(database, tmp_path / "evil.refactx", "copy")
    assert is_written(str(caught.value))
    database.close()


def test_a_label_with_brackets_is_found_by_verify(db_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forge(db_url, tmp_path, ["fine", "a> <b", "zebra"], monkeypatch)
    with open_index("evil", db_url) as index:
        (fault,) = verify(index).faults
    assert "is not a fact of three parts" in fault


def test_facts_are_one_line_each_whatever_their_labels(
    db_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forge(db_url, tmp_path, LABELS, monkeypatch)
    runner, options = CliRunner(), ("--index", "evil", "--db", db_url)
    every = runner.invoke(cli, ["facts", "--all", *options]).output
    some = runner.invoke(cli, ["facts", "<Evil> <of> <", *options]).output
    for output in (every, some.partition("\n")[2]):  # without the head of the second
        lines = output.split("\n")[:-1]
        assert len(lines) == len(LABELS)
        assert all("<Evil> <of> <" in line and is_written(line) for line in lines)
