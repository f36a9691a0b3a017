"""The texts of encoded facts, by the thousand."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from refactx.tokenizer import FactTokenizer
from refactx.tree.arrays import Offsets, offsets_of, ragged
from refactx.tree.children import Tokens


def decode_texts(tokenizer: FactTokenizer, tokens: Tokens, offsets: Offsets) -> pa.LargeBinaryArray:
    """Return the texts of n facts, such as ` <s> <p> <o>`, as large_binary[n].

    `tokens`: int32; `offsets`: int64[n + 1]. A tokenizer that loses characters may give any bytes.
    """
    table = tokenizer.token_bytes
    sizes = np.fromiter(map(len, table), np.int64, len(table))
    joined: NDArray[np.uint8] = np.frombuffer(b"".join(table), np.uint8)
    data = joined[ragged(offsets_of(sizes)[tokens], sizes[tokens])]
    ends = offsets_of(sizes[tokens])[offsets]
    buffers = [None, pa.py_buffer(ends.astype(np.int64).tobytes()), pa.py_buffer(data.tobytes())]
    return pa.Array.from_buffers(pa.large_binary(), len(ends) - 1, buffers)
