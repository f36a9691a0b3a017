"""Sorted sequences written to files as they come, and then read like those of `ingest.encode`."""

from pathlib import Path

import numpy as np

from refactx.tree.arrays import Offsets
from refactx.tree.children import Tokens

from ..encoding.encoded import WholeFacts


class SpilledFacts:
    """Takes ascending, distinct sequences; `finish` gives them as facts, whose files in `folder` must live as long."""

    def __init__(self, folder: Path) -> None:
        self._paths = folder / "chosen-tokens", folder / "chosen-offsets"
        self._tokens, self._offsets = (path.open("wb") for path in self._paths)
        self._end = 0
        self._offsets.write(bytes(8))

    def append(self, tokens: Tokens, offsets: Offsets) -> None:
        """More sequences, as tokens and offsets, behind those already there."""
        ends = offsets[1:] - offsets[0] + self._end
        self._tokens.write(tokens[offsets[0] : offsets[-1]].astype(np.int32).tobytes())
        self._offsets.write(ends.astype(np.int64).tobytes())
        if len(ends):
            self._end = int(ends[-1])

    def finish(self) -> WholeFacts:
        """All that was appended, as memory maps."""
        self._tokens.close()
        self._offsets.close()
        tokens, offsets = self._paths
        none: Tokens = np.empty(0, np.int32)
        return WholeFacts(np.memmap(tokens, np.int32, "r") if self._end else none, np.memmap(offsets, np.int64, "r"))
