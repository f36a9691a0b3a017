"""Exports and imports of the index `small`, stopped on the way, and what they leave in a database."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg

from refactx.postgres.catalogue import list_indexes
from refactx.share.export import ExportResult, export_index
from support.shared_index import opened

_TRANSFER = """
import os, signal, sys
from pathlib import Path
from refactx.share.export import export_index
from refactx.share.importing import import_index
from refactx.postgres.database import Database

what, url, path, calls = sys.argv[1:]
left = int(calls)

def progress(done, total):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

if what == "export":
    export_index(Database(url), "small", Path(path), progress=progress)
else:
    import_index(Database(url), Path(path), step_bytes=1, progress=progress)
"""


def export_small(url: str, path: Path, **options: Any) -> ExportResult:
    """Export the index `small`. `options`: others of `export_index`."""
    with opened(url) as database:
        return export_index(database, "small", path, **options)


def kill_transfer(what: str, url: str, path: Path, calls: int) -> None:
    """Run an export or import in a process that kills itself at its report of progress number `calls`."""
    arguments = [what, url, str(path), str(calls)]
    done = subprocess.run([sys.executable, "-c", _TRANSFER, *arguments], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def index_states(url: str) -> list[tuple[str, str]]:
    """The name and state of every index in a database."""
    with psycopg.connect(url) as connection:
        return [(entry.name, entry.state) for entry in list_indexes(connection, every=True)]


def count_tables(url: str) -> int:
    """The number of tables of rows and names in a database."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_class WHERE relname ~ '^(pieces|names)_[0-9]+$' AND relkind = 'r'"
        ).fetchone()
        return int(row[0]) if row else 0
