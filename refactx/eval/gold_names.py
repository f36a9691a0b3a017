"""What an index calls the entities behind gold answers."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Protocol

from refactx.index.names import Named


class NameTable(Protocol):
    """An index's names, in blocks (`refactx.index.index.Index`)."""

    def name_rows(self) -> list[tuple[bytes, bytes]]:
        """Keys and blocks of all names."""
        ...

    def unpack_names(self, key: bytes, block: bytes) -> dict[str, Named]:
        """All names of a block."""
        ...


def gold_names(index: NameTable, ids: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The names of the given ids, by id; an id that the index doesn't have is left out.

    One pass over all names, since an index finds ids by names and not names by ids.
    """
    wanted = frozenset(ids)
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name, number in _named(index) if wanted else ():
        if number in wanted and name not in found[number]:  # a later name table says of some names what it says anew
            found[number].append(name)
    return {number: tuple(names) for number, names in found.items()}


def _named(index: NameTable) -> Iterable[tuple[str, str]]:
    for key, block in index.name_rows():
        for name, named in index.unpack_names(key, block).items():
            yield name, named.id
