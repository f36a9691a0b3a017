"""The mark of an index: which index it is, and which of its tables it consists of.

What is derived from an index, such as a store of triples, keeps the mark of what it was derived from, and is compared
by it. Numbers of tables alone would not do: a database that is restored from a backup gives the same ones again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from refactx.postgres.catalogue_entry import CatalogueEntry

if TYPE_CHECKING:
    from refactx.postgres.locks import Connection  # marks of files are made without psycopg

Stamp = tuple[int, str]
"""The number of an index or of a table in the catalogue, and when it was made (ISO 8601, UTC, microseconds)."""


@dataclass(frozen=True, slots=True)
class IndexMark:
    """The index, its ready segments, and the ready name tables of its knowledge base, both in the order of numbers.

    Two marks are equal if and only if the index has the same facts and names.
    """

    index: Stamp
    segments: tuple[Stamp, ...]
    names: tuple[Stamp, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the mark as JSON has it: lists in place of tuples.

        >>> mark = IndexMark((3, "2026-01-01T00:00:00.000000+00:00"), (), ())
        >>> mark.to_json(), IndexMark.from_json(mark.to_json()) == mark
        ({'index': [3, '2026-01-01T00:00:00.000000+00:00'], 'segments': [], 'names': []}, True)
        """
        return {
            "index": list(self.index),
            "segments": [list(stamp) for stamp in self.segments],
            "names": [list(stamp) for stamp in self.names],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "IndexMark":
        """Return the mark of a JSON document. Raises KeyError, TypeError or ValueError if it is not one."""
        return cls(
            _from_json(document["index"]),
            tuple(map(_from_json, document["segments"])),
            tuple(map(_from_json, document["names"])),
        )


def mark_of(
    entry: CatalogueEntry, segments: Iterable[tuple[int, datetime]], names: Iterable[tuple[int, datetime]]
) -> IndexMark:
    """Return the mark of an index, given the numbers and times of its tables in any order."""
    return IndexMark(_stamp((entry.id, entry.created)), _stamps(segments), _stamps(names))


def read_mark(connection: "Connection", entry: CatalogueEntry) -> IndexMark:
    """Return the mark of an index as a connection, maybe in a transaction, sees it now."""
    segments = connection.execute(
        "SELECT id, created FROM refactx.segments WHERE index_id = %s AND ready", [entry.id], binary=True
    )
    names = connection.execute(
        "SELECT id, created FROM refactx.name_tables WHERE knowledge_base = %s AND ready",
        [entry.knowledge_base],
        binary=True,
    )
    return mark_of(entry, segments.fetchall(), names.fetchall())


def after_compactions(mark: IndexMark, changes: Iterable[Mapping[str, Any]]) -> IndexMark:
    """Return the mark that an index with the same facts has now, given the account of its changes, the oldest first.

    A compaction gives an index other tables without changing its facts. It is noted with the marks `before` and `after`
    it; a mark that is not the one before it stays as it is.
    """
    for change in changes:
        if change.get("before") == mark.to_json() and "after" in change:
            mark = IndexMark.from_json(change["after"])
    return mark


def _stamps(rows: Iterable[tuple[int, datetime]]) -> tuple[Stamp, ...]:
    return tuple(sorted(map(_stamp, rows)))


def _stamp(row: tuple[int, datetime]) -> Stamp:
    number, created = row
    return number, created.astimezone(UTC).isoformat(timespec="microseconds")


def _from_json(pair: Any) -> Stamp:
    number, created = pair
    if not isinstance(number, int) or not isinstance(created, str):
        raise TypeError(f"{pair!r} is not a number and a time")
    return number, created
