"""A folder for the files of one ingest, removed when it ends; by the next ingest if this one was killed."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from refactx.errors import InputError


@contextmanager
def work_folder(parent: Path) -> Iterator[Path]:
    """A new folder in `parent` (made if need be). Those whose process has ended are removed first."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for old in parent.glob("ingest-*"):
            _remove_if_abandoned(old)
        folder = Path(tempfile.mkdtemp(dir=parent, prefix="ingest-"))
        lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"cannot work in {parent} ({error}): give --work-dir a folder you can write") from None
    fcntl.flock(lock, fcntl.LOCK_EX)  # held until this process ends, however it ends
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _remove_if_abandoned(folder: Path) -> None:
    with suppress(OSError):  # somebody else's, or being removed by somebody else
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
