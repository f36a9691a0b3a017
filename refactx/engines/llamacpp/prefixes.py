"""What a prefix left in a context of llama.cpp, kept in a file.

llama.cpp may read out of bounds in data that is damaged, so nothing is taken whose digest differs. A file is moved into
place by a rename: processes may write the same one at once, and a killed one leaves a file that nobody reads. Errors of
the disk are logged at debug level, and never raised.
"""

import glob
import hashlib
import logging
import os
import re
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import platformdirs

from refactx.engines.llamacpp.library import Context, library, package_version

MOST_BYTES = 1 << 30
"""All files of a folder together."""

_FORM = b"RFXSTAT1"
_DIGEST = hashlib.sha256
_HEADER = len(_FORM) + _DIGEST().digest_size
_SUFFIX, _PARTIAL = ".state", ".partial"
_ABANDONED = 3600
"""Seconds after which a file that is not complete is taken for that of a killed process."""
_log = logging.getLogger(__name__)

LEAST = 16
"""The fewest ids to keep. 16 are loaded in 0.5 ms, kept in 1 ms, and read by a small model in 50 ms (docs/decisions/0030)."""


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


class Prefixes:
    """The prefixes of a context in `files`. `kind`: what decides their states besides the ids, see `kind_of_states`."""

    def __init__(self, context: Context, files: StateFiles, kind: str, *, least: int = LEAST) -> None:
        self._context, self._files, self._least = context, files, least
        self._kind = hashlib.sha256(kind.encode("utf-8", "surrogateescape")).digest()

    def load(self, slot: int, ids: Sequence[int]) -> bool:
        """Let an empty slot have the cells of ids. Return False if they are not kept, or if there is no room."""
        if len(ids) < self._least:
            return False
        state = self._files.read(self._key(ids))
        return state is not None and self._context.restore(slot, state, len(ids))

    def save(self, slot: int, ids: Sequence[int]) -> None:
        """Keep the cells of a slot that has read ids, if they can be written."""
        if len(ids) >= self._least and (state := self._context.state(slot)):
            self._files.write(self._key(ids), state)

    def _key(self, ids: Sequence[int]) -> bytes:
        return hashlib.sha256(self._kind + np.array(ids, "<i4").tobytes()).digest()


def user_folder() -> Path:
    """Return the folder in the user's cache."""
    return platformdirs.user_cache_path("refactx") / "prefixes"


def kind_of_states(file: str, context: Context, gpu_layers: int, long: bool) -> str:
    """Describe what decides the states of a context. `file`: from `file_identity`, before the model was loaded.

    `long`: whether the context is longer than the one that the model was trained with first: some models rotate by
    other factors then. Neither the number of cells nor that of threads matters.
    """
    features = library().llama_print_system_info().decode("utf-8", "replace")
    return repr((file, package_version(), features, context.exact, context.ids, gpu_layers, long))


def file_identity(path: Path) -> str:
    """Identify the contents of a model's files without reading them: by paths, sizes, and times of changes."""
    split = re.fullmatch(r"(.+-)\d{5}(-of-\d{5}\.gguf)", path.name)
    files = sorted(path.parent.glob(f"{glob.escape(split[1])}*{split[2]}")) if split else [path]
    stats = [(file.resolve(), file.stat()) for file in files]
    return repr([(str(file), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for file, stat in stats])
