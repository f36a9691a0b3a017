"""Prefixes on disk: the states of sequences that have read the ids that the texts of every process begin with."""

import glob
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import platformdirs

from refactx.engines.llamacpp.context import Context
from refactx.engines.llamacpp.library import library, package_version
from refactx.engines.llamacpp.state_files import StateFiles

LEAST = 16
"""The fewest ids to keep. 16 are loaded in 0.5 ms, kept in 1 ms, and read by a small model in 50 ms (docs/decisions/0030)."""


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
