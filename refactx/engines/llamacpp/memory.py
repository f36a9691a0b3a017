"""How large a context is: from what a text needs, and the memory that is free.

llama.cpp allocates a context as a whole. Time does not depend on its size, but on the cells that are in use.
"""

import os
from pathlib import Path

from refactx.errors import ModelError

CELLS_A_TEXT = 1000 + 1100 + 1000 + 2500
"""Ids of a prompt, of both examples of the noisy channel, of an answer, and of a tree of continuations."""
_MULTIPLE = 256
"""llama.cpp makes contexts in multiples of it."""
_HALF = 2
"""A context may by default take the half of the free memory."""


def cells(asked: int | None, texts: int, bytes_a_cell: int, free: int | None) -> int:
    """Return the number of cells of a context: `asked`, or else what `texts` texts at once need, if memory is enough.

    `free`: bytes of free memory; None: not known. Raises ModelError if there is too little of it.

    >>> cells(None, 1, 23_040, 8 << 30), cells(None, 100, 23_040, 8 << 30)
    (5632, 186368)
    """
    wanted = _rounded(CELLS_A_TEXT * texts if asked is None else asked)
    least = wanted if asked is not None else _rounded(CELLS_A_TEXT)
    if free is None:
        return wanted
    if least * bytes_a_cell > free:
        raise ModelError(
            f"a context of {least:,} ids takes {_gigabytes(least * bytes_a_cell)} of this model, and "
            f"{_gigabytes(free)} of memory are free: ask for a smaller context, or choose a smaller model"
        )
    return max(least, min(wanted, free // _HALF // bytes_a_cell // _MULTIPLE * _MULTIPLE))


def cores() -> int:
    """Return the number of physical cores that this process may use: more threads make a pass slower."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    own = os.sched_getaffinity(0)
    files = (Path(f"/sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list") for n in own)
    try:
        return len({file.read_text(encoding="ascii") for file in files})
    except OSError:
        return len(own)


def _rounded(number: int) -> int:
    return max(1, -(-number // _MULTIPLE)) * _MULTIPLE


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
