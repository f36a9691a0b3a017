"""File locks that the kernel releases when their holder dies, however it dies.

They are ``flock`` locks: they belong to the open file, so a forked child shares its parent's lock, which is free when
the last of them has closed it. The descriptors are not inherited by programs that are started (close-on-exec).
"""

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path

_log = logging.getLogger(__name__)


def open_file(path: Path, flags: int) -> int:
    """A descriptor of the file, made if it is missing: readable by its owner alone, owned by the owner of its folder.

    So that what root makes in the home of another user stays usable for that user.
    """
    fd = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if os.geteuid() == 0:
        folder = path.parent.stat()
        if os.fstat(fd).st_uid != folder.st_uid:
            os.fchown(fd, folder.st_uid, folder.st_gid)
    return fd


def share(path: Path) -> int:
    """A descriptor that holds a shared lock on the file until it is closed; waits for an exclusive one to end."""
    return _acquire(path, fcntl.LOCK_SH)


def try_exclusive(path: Path) -> int | None:
    """A descriptor that holds an exclusive lock on the file until it is closed; None where another holds one."""
    try:
        return _acquire(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Holds an exclusive lock on the file; waits for it."""
    fd = try_exclusive(path)
    if fd is None:
        _log.info("waiting for another process that starts or stops the database server")
        fd = _acquire(path, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)  # closing alone would leave it to a child forked meanwhile by another thread
        os.close(fd)


def _acquire(path: Path, operation: int) -> int:
    fd = open_file(path, os.O_RDWR)
    try:
        fcntl.flock(fd, operation)
    except BaseException:
        os.close(fd)
        raise
    return fd
