"""The folder for the files of one ingest: kept while it can be gone on with, removed when its index is published."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from refactx.errors import IndexExistsError, InputError
from refactx.postgres.locks import Connection


def names_of(connection: Connection) -> tuple[str, str, str]:
    """What tells a connection's database from others: host, port, and its name."""
    info = connection.info
    return info.host, str(info.port), info.dbname


@contextmanager
def work_folder(parent: Path, *names: str) -> Iterator[Path]:
    """The folder in `parent` (made if need be) of the ingest with these names: the database's and the index's, say.

    It is removed if the block ends well. If it doesn't, or the process is killed, what has a manifest (`ingest.steps`) is
    there for the next ingest with these names; a folder without one is removed.

    Raises:
        InputError: it can't be made.
        IndexExistsError: another process is at work in it.
    """
    digest = hashlib.sha256("\0".join(names).encode()).hexdigest()
    folder = parent / f"ingest-{digest[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"cannot work in {parent} ({error}): give --work-dir a folder you can write") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held until this process ends, however it ends
    except BlockingIOError:
        os.close(lock)
        raise IndexExistsError(
            f"another process is at work in {folder}: wait for it, or give another --work-dir"
        ) from None
    try:
        yield folder
    except BaseException:
        if not any(folder.glob("*.json")):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
