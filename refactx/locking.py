"""Locks of open files, on every system, and what is not to be had on all of them.

A lock is held until the file is closed or the process ends, however it ends.
"""

import sys
from typing import IO

from refactx.errors import InputError

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes
    from msvcrt import get_osfhandle

    class _Overlapped(ctypes.Structure):
        """Where LockFileEx locks: far beyond the end of any file, since nobody else may read a locked range."""

        _fields_ = (
            *(("internal", ctypes.c_void_p), ("internal_high", ctypes.c_void_p)),
            *(("offset", wintypes.DWORD), ("offset_high", wintypes.DWORD), ("event", wintypes.HANDLE)),
        )

    _IN_USE = (33, 997)  # ERROR_LOCK_VIOLATION, ERROR_IO_PENDING


def lock_file(file: int | IO[str] | IO[bytes], *, wait: bool = False, shared: bool = False) -> None:
    """Lock an open file, or a descriptor of one: exclusively, or `shared` with others that do so.

    Raises BlockingIOError if another process or open file has it locked otherwise, unless it may `wait` for that.

    >>> from tempfile import TemporaryFile
    >>> with TemporaryFile() as file:
    ...     lock_file(file)
    """
    descriptor = file if isinstance(file, int) else file.fileno()
    if sys.platform == "win32":
        flags = (0 if wait else 1) | (0 if shared else 2)
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        place, handle = _Overlapped(offset_high=0x7FFFFFFF), wintypes.HANDLE(get_osfhandle(descriptor))
        if not kernel.LockFileEx(handle, flags, 0, 1, 0, ctypes.byref(place)):
            if ctypes.get_last_error() in _IN_USE:
                raise BlockingIOError("the file is locked")
            raise ctypes.WinError(ctypes.get_last_error())
    else:
        from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock  # here, so that modules can be imported without it

        flock(descriptor, (LOCK_SH if shared else LOCK_EX) | (0 if wait else LOCK_NB))


def require_posix(what: str, instead: str) -> None:
    """Raise InputError where Python has no `fcntl`, as on Windows. `instead`: what to do there.

    >>> require_posix("the embedded PostgreSQL", "give a running server with --db")
    """
    try:
        import fcntl  # noqa: F401
    except ModuleNotFoundError:
        raise InputError(f"{what} needs Linux or macOS: {instead}") from None
