"""Lookups of one text: in the index as it was when the text began, also if it is refreshed meanwhile."""

from collections.abc import Callable, Sequence
from typing import Any

from refactx.decoding.states import FactSource
from refactx.errors import IndexNotFoundError
from refactx.tree.children import Children


def pinned(source: FactSource) -> Callable[[Sequence[int]], Children]:
    """Return `children` of a source at this moment. Of an index, that is its snapshot.

    So a fact that is forgotten while a text writes it does not break the text. If the index is compacted, the tables of
    its snapshot are gone, and the text continues with the index as it is then.
    """
    snapshot: Any = getattr(source, "snapshot", None)

    def children(prefix: Sequence[int]) -> Children:
        nonlocal snapshot
        if snapshot is None:
            return source.children(prefix)
        try:
            found: Children = snapshot.tree.children(prefix)
        except IndexNotFoundError:
            snapshot = None  # gone for good: each lookup in it would be a query that fails
            return source.children(prefix)
        return found

    return children
