"""Locks of files by `flock`, which say what a home's processes do.

A lock belongs to the open file, so a forked child shares its parent's lock, which is released when both have closed the
file. Programs that are started inherit a descriptor only if they are told to (close-on-exec).
"""

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path

_log = logging.getLogger(__name__)
_claimed: set[int] = set()
os.register_at_fork(after_in_child=lambda: list(map(os.close, _claimed)))


def open_file(path: Path, flags: int) -> int:
    """Open a file and return its descriptor. Make it if it is missing, readable by its owner alone.

    The owner of its folder becomes its owner, so that a user can use the files that root makes in the user's home.
    """
    fd = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if os.geteuid() == 0:
        folder = path.parent.stat()
        if os.fstat(fd).st_uid != folder.st_uid:
            os.fchown(fd, folder.st_uid, folder.st_gid)
    return fd


def share(path: Path) -> int:
    """Wait for a shared lock on a file. Return a descriptor that holds it until it is closed."""
    return _acquire(path, fcntl.LOCK_SH)


def try_exclusive(path: Path) -> int | None:
    """Return a descriptor that holds an exclusive lock on a file until it is closed; None if the file is locked."""
    try:
        return _acquire(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None


def claim(path: Path) -> int | None:
    """Return a descriptor as `try_exclusive` does, for programs to inherit; children that are forked do not keep it."""
    fd = try_exclusive(path)
    if fd is not None:
        _claimed.add(fd)
    return fd


def release(fd: int) -> None:
    """Close a descriptor of `claim`. The lock stays until the programs that have inherited it have ended."""
    _claimed.discard(fd)
    os.close(fd)


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Wait for an exclusive lock on a file, and hold it."""
    fd = try_exclusive(path)
    if fd is None:
        _log.info("waiting for another process that starts or stops the database server")
        fd = _acquire(path, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)  # not only closed: another thread may have forked a child, which would keep it
        os.close(fd)


def _acquire(path: Path, operation: int) -> int:
    fd = open_file(path, os.O_RDWR)
    try:
        fcntl.flock(fd, operation)
    except BaseException:
        os.close(fd)
        raise
    return fd
