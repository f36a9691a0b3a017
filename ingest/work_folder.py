"""The work folder of an ingest: kept while the ingest can be continued, removed when its index is published."""

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
    """Return what identifies a connection's database: host, port and name."""
    info = connection.info
    return info.host, str(info.port), info.dbname


@contextmanager
def work_folder(parent: Path, *names: str) -> Iterator[Path]:
    """Open the folder in `parent` (made if missing) of the ingest with these names: of its database and index, say.

    It is removed if the block ends without an error. After an error it is removed if it has no manifest
    (`refactx.ingest.manifest`); otherwise, and after a kill, it stays for the next ingest with these names.

    Raises:
        InputError: it cannot be made.
        IndexExistsError: another process is using it.
    """
    digest = hashlib.sha256("\0".join(names).encode()).hexdigest()
    folder = parent / f"ingest-{digest[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"cannot work in {parent} ({error}): give --work-dir a folder that you can write to") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held until this process ends, however it ends
    except BlockingIOError:
        os.close(lock)
        raise IndexExistsError(
            f"another process is using {folder}: wait until it ends, or give another --work-dir"
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
