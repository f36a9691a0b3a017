"""The work database: what its users see of DuckDB's errors."""

from pathlib import Path
from threading import Timer

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
