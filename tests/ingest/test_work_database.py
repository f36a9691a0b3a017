"""The work database: what its users see of DuckDB's errors."""

from pathlib import Path
from threading import Timer

import duckdb
import pytest

from refactx.errors import RefactxError
from refactx.ingest.work import Resources, open_work_database


def test_an_interrupted_statement_is_ctrl_c(tmp_path: Path) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        open_work_database(tmp_path, Resources(memory="100MB", workers=1)) as work,
    ):
        Timer(0.5, work._connection.interrupt).start()
        work.number("SELECT sum(hash(a.range + b.range)) FROM range(10000000) a, range(1000000) b")


def test_a_statement_that_fails_reports_the_folder_and_what_to_do(tmp_path: Path) -> None:
    with (
        pytest.raises(RefactxError, match=r"cannot build .*free disk space"),
        open_work_database(tmp_path, Resources(memory="100MB", workers=1)) as work,
    ):
        work.execute("SELECT * FROM missing")


def test_distinct_texts_are_numbered_in_less_memory_than_they_need_at_once(tmp_path: Path) -> None:
    texts = "SELECT 'the text of number ' || range % 3000000 AS text FROM range(3100000)"
    with open_work_database(tmp_path, Resources(memory="30MB", workers=2)) as work:
        with pytest.raises(duckdb.OutOfMemoryException):
            work.table("found", f"SELECT DISTINCT text FROM ({texts})")
        work.numbered("units", texts, "unit")
        found = dict[int, str]()
        for batch in work.batches("SELECT unit, text FROM units", 100_000):  # to sort it may need more memory
            found.update(zip(batch["unit"].to_pylist(), batch["text"].to_pylist(), strict=True))
        assert work.rows("SELECT count(*), min(unit), max(unit) FROM units") == [(3_000_000, 0, 2_999_999)]
    assert found == dict(enumerate(sorted(f"the text of number {number}" for number in range(3_000_000))))
