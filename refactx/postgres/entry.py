"""An index as the catalogue describes it: its entry and its mark; and time limits of readers. Without psycopg.

What is derived from an index, such as a store of triples, keeps the mark of what it was derived from, and is compared
by it. Numbers of tables alone would not do: a database that is restored from a backup gives the same ones again.

REFACTX_LOOKUP_SECONDS and REFACTX_OUTAGE_SECONDS set them, or a value in the code. For lookups
`options=-c statement_timeout=...` in the database's address takes precedence over both.
"""

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from refactx.errors import InputError

if TYPE_CHECKING:
    from refactx.postgres.locks import Connection

LOOKUP_SECONDS = 10.0
"""A lookup takes far less than a millisecond. One that takes 10 s waits for a lock or an overloaded disk."""

OUTAGE_SECONDS = 60.0
"""A restart takes some seconds, a failover less than a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry:
    """One index in the catalogue.

    `state` is `building` until the index can be read. `knowledge_base` is the id of the one that has its names. `facts`
    and `tokens` (token ids without terminators) are signed sums over the ready segments; `segments` is the number of
    those. `unfinished` is the number of segments that are being written or were left by a killed writer. `levels` is
    the height of the tallest tree, `cut` the most facts in one row of a tree. `report` is the account of the ingest,
    with later changes of the index under its key `changes`.
    """

    id: int
    name: str
    state: Literal["building", "ready"]
    format: int
    tokenizer: str
    fingerprint: str
    vocabulary_size: int
    trigger: str
    terminator: str
    source: tuple[str, ...]
    report: dict[str, Any]
    created: datetime
    knowledge_base: int
    segments: int
    unfinished: int
    facts: int
    tokens: int
    levels: int
    cut: int
    table_bytes: int
    index_bytes: int
    toast_bytes: int
    names_bytes: int

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "CatalogueEntry":
        """Return the entry of a row of `sql/list_indexes.sql`, given as a mapping of its columns."""
        return cls(**{**row, "source": tuple(row["source"])})

    @property
    def tree_bytes(self) -> int:
        """The bytes of the tree on disk: tables, B-trees and TOAST of all ready segments, without the names."""
        return self.table_bytes + self.index_bytes + self.toast_bytes


Stamp = tuple[int, str]
"""The number of an index or of a table in the catalogue, and when it was made (ISO 8601, UTC, microseconds)."""


@dataclass(frozen=True, slots=True)
class IndexVersion:
    """The index, its ready segments, and the ready name tables of its knowledge base, both in the order of numbers.

    Two marks are equal if and only if the index has the same facts and names.
    """

    index: Stamp
    segments: tuple[Stamp, ...]
    names: tuple[Stamp, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the mark as JSON has it: lists in place of tuples.

        >>> mark = IndexVersion((3, "2026-01-01T00:00:00.000000+00:00"), (), ())
        >>> mark.to_json(), IndexVersion.from_json(mark.to_json()) == mark
        ({'index': [3, '2026-01-01T00:00:00.000000+00:00'], 'segments': [], 'names': []}, True)
        """
        return {
            "index": list(self.index),
            "segments": [list(stamp) for stamp in self.segments],
            "names": [list(stamp) for stamp in self.names],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "IndexVersion":
        """Return the mark of a JSON document. Raises KeyError, TypeError or ValueError if it is not one."""
        return cls(
            _from_json(document["index"]),
            tuple(map(_from_json, document["segments"])),
            tuple(map(_from_json, document["names"])),
        )


def version_of(
    entry: CatalogueEntry, segments: Iterable[tuple[int, datetime]], names: Iterable[tuple[int, datetime]]
) -> IndexVersion:
    """Return the mark of an index, given the numbers and times of its tables in any order."""
    return IndexVersion(_stamp((entry.id, entry.created)), _stamps(segments), _stamps(names))


def read_mark(connection: "Connection", entry: CatalogueEntry) -> IndexVersion:
    """Return the mark of an index as a connection, maybe in a transaction, sees it now."""
    segments = connection.execute(
        "SELECT id, created FROM refactx.segments WHERE index_id = %s AND ready", [entry.id], binary=True
    )
    names = connection.execute(
        "SELECT id, created FROM refactx.name_tables WHERE knowledge_base = %s AND ready",
        [entry.knowledge_base],
        binary=True,
    )
    return version_of(entry, segments.fetchall(), names.fetchall())


def after_compactions(mark: IndexVersion, changes: Iterable[Mapping[str, Any]]) -> IndexVersion:
    """Return the mark that an index with the same facts has now, given the account of its changes, the oldest first.

    A compaction gives an index other tables without changing its facts. It is noted with the marks `before` and `after`
    it; a mark that is not the one before it stays as it is.
    """
    for change in changes:
        if change.get("before") == mark.to_json() and "after" in change:
            mark = IndexVersion.from_json(change["after"])
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


@dataclass(frozen=True, slots=True)
class Limits:
    """The time limits of a reader, in seconds.

    `lookup`: the time that a lookup may take; 0: no limit; None: the limit that the server's settings have, otherwise
    `LOOKUP_SECONDS`. `outage`: the time to wait for a database that went away; 0: do not wait.

    Raises InputError if a value is not a number of seconds from 0 to 1,000,000.
    """

    lookup: float | None = None
    outage: float = OUTAGE_SECONDS

    def __post_init__(self) -> None:
        for name, seconds in (("lookup", self.lookup), ("outage", self.outage)):
            if seconds is not None and not (0 <= seconds <= 1e6):
                raise InputError(f"{seconds} is not a limit for {name}: give a number of seconds, 0 to 1,000,000")


def limits_of_environment() -> Limits:
    """Return the limits of the environment. Raises InputError if a variable is not a number of seconds."""
    outage = _seconds("REFACTX_OUTAGE_SECONDS")
    return Limits(_seconds("REFACTX_LOOKUP_SECONDS"), OUTAGE_SECONDS if outage is None else outage)


def _seconds(variable: str) -> float | None:
    text = os.environ.get(variable)
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= 1e6:
        raise InputError(f"{variable} is {text!r}: set it to a number of seconds, such as 30, or unset it")
    return seconds
