"""States on disk: a folder of files by key, each with a digest, bounded in bytes; those used least recently go first.

llama.cpp may read out of bounds in data that is damaged, so nothing is returned whose digest differs. A file is moved
into place by a rename: processes may write the same one at once, and a killed one leaves a file that nobody reads.
Keeping a state is a convenience: errors of the disk are logged at debug level, and never raised.
"""

import hashlib
import logging
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path

MOST_BYTES = 1 << 30
"""All files of a folder together."""

_FORM = b"RFXSTAT1"
_DIGEST = hashlib.sha256
_HEADER = len(_FORM) + _DIGEST().digest_size
_SUFFIX, _PARTIAL = ".state", ".partial"
_ABANDONED = 3600
"""Seconds after which a file that is not complete is taken for that of a killed process."""
_log = logging.getLogger(__name__)


class StateFiles:
    """The files of a `folder`, which is made when it is needed. `most`: the bytes of all files."""

    def __init__(self, folder: Path, *, most: int = MOST_BYTES) -> None:
        self._folder, self._most = folder, most

    def read(self, key: bytes) -> memoryview | None:
        """Return the state of a key; None if there is none, or if its file is damaged."""
        path = self._path(key)
        try:
            if path.stat().st_size > _HEADER + self._most:
                return None
            content = memoryview(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, MemoryError) as error:
            _log.debug("cannot read %s: %r", path, error)
            return None
        state = content[_HEADER:]
        if content[:_HEADER] != _header(key, state):
            _log.debug("%s is damaged, and ignored", path)
            return None
        with suppress(OSError):  # a folder that cannot be written to
            os.utime(path)
        return state

    def write(self, key: bytes, state: memoryview) -> None:
        """Keep the state of a key, if it can be written, and remove files beyond the bound."""
        if len(state) > self._most:
            return
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write(self._path(key), _header(key, state), state)
            self._tidy()
        except OSError as error:
            _log.debug("cannot keep a state in %s: %r", self._folder, error)

    def _path(self, key: bytes) -> Path:
        return self._folder / f"{key.hex()}{_SUFFIX}"

    def _write(self, path: Path, header: bytes, state: memoryview) -> None:
        number, name = tempfile.mkstemp(_PARTIAL, dir=self._folder)
        partial = Path(name)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(header)
                file.write(state)
            partial.replace(path)
        except BaseException:
            with suppress(OSError):
                partial.unlink()
            raise

    def _tidy(self) -> None:
        """Remove the files used least recently beyond the bound, and those of killed processes."""
        found, now = [], time.time()
        for path in self._folder.iterdir():
            with suppress(OSError):  # another process has removed it
                stat = path.lstat()
                if path.suffix == _SUFFIX:
                    found.append((stat.st_mtime_ns, stat.st_size, path))
                elif path.suffix == _PARTIAL and now - stat.st_mtime > _ABANDONED:
                    path.unlink()
        total = 0
        for _, size, path in sorted(found, reverse=True):
            total += size
            if total > self._most:
                with suppress(OSError):
                    path.unlink()


def _header(key: bytes, state: memoryview) -> bytes:
    """Return what a file begins with: its form, and a digest that only this state has under this key."""
    digest = _DIGEST(key)
    digest.update(state)
    return _FORM + digest.digest()
