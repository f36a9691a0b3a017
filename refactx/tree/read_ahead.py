"""The rows of many prefixes, read level by level: one round trip a level, where walks would take one a prefix.

Each walk goes as far as the cache allows and names the row that it needs next. The rows that all walks need are read
at once, and the walks continue.
"""

from collections.abc import Iterable, Sequence
from copy import copy

from refactx.tree.children import Path
from refactx.tree.lookup import AHEAD
from refactx.tree.stored import StoredTree


class _RowNeeded(Exception):  # noqa: N818  # no error: a walk ends with it
    def __init__(self, key: bytes) -> None:
        self.key = key


class _NoRows:
    """A source of rows that says which row is needed."""

    def fetch(self, key: bytes) -> bytes | None:
        raise _RowNeeded(key)

    def fetch_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        raise _RowNeeded(keys[0])


def read_ahead(tree: StoredTree, prefixes: Iterable[Path]) -> None:
    """Read the rows for `tree.children` of some prefixes into the cache, with a round trip for 256 rows of a level.

    A cache that is too small for them makes no difference to results. Raises as `StoredTree.children` does.
    """
    cached_only = copy(tree)  # shares the cache
    cached_only._rows = _NoRows()
    waiting = list(prefixes)
    for _ in range(tree.root_key[0] + 1):  # a row of each level
        needed: dict[bytes, list[Path]] = {}
        for prefix in waiting:
            try:
                cached_only.children(prefix)
            except _RowNeeded as row:
                needed.setdefault(row.key, []).append(prefix)
        keys = list(needed)
        for low in range(0, len(keys), AHEAD):
            tree.load(keys[low : low + AHEAD])
        waiting = [prefix for some in needed.values() for prefix in some]
        if not waiting:
            return
