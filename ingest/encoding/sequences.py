"""Files of sorted sequences of ids."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute

from refactx.ingest.encoding.encoded import open_sequences
from refactx.ingest.encoding.words import from_keys
from refactx.tree.arrays import Offsets, offsets_of
from refactx.tree.children import Tokens


class SequenceWriter:
    """Writes ascending sequences to two files in `work`, called after `name`; equal ones once.

    So their query sorts, and does nothing else: DISTINCT or a rank beside it would hold all of them in memory once more.
    """

    def __init__(self, work: Path, name: str) -> None:
        self._work, self._name = work, name
        self._lengths, self._last = list[NDArray[np.int32]](), None
        self._path = work / f"{name}-tokens"
        self._path.write_bytes(b"")  # in place of what a killed run wrote

    def write(self, keys: pa.Array) -> NDArray[np.bool_]:
        """Write the sequences of keys (`as_keys`), and return which differ from the one before: bool[n]."""
        is_new = np.ones(len(keys), np.bool_)
        if len(keys):
            is_new[0] = keys[0].as_py() != self._last
            is_new[1:] = compute.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
            self._last = keys[-1].as_py()
        tokens, offsets = from_keys(keys.filter(pa.array(is_new)))
        with self._path.open("ab") as out:
            out.write(tokens.tobytes())
        self._lengths.append(np.diff(offsets).astype(np.int32))
        return is_new

    def finish(self) -> tuple[Tokens, Offsets]:
        """Return the ids of all sequences, and their offsets."""
        np.save(self._work / f"{self._name}-offsets.npy", offsets_of(np.concatenate(self._lengths).astype(np.int64)))
        return open_sequences(self._work, self._name)
