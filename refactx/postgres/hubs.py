"""The hubs of an index: pairs of an object and a predicate for which it has no inverse facts, since there are too many.

They are rows of the table `refactx.hubs`, by the names that facts use. `subjects` is the number of facts
`<...> <predicate> <object>` in the index, which each change keeps exact in its own transaction.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from refactx.errors import IndexNotFoundError
from refactx.postgres.catalogue_entry import CatalogueEntry
from refactx.postgres.locks import Connection

_FIND = """
SELECT h.object, h.inverse, sum(h.subjects)::bigint FROM refactx.indexes AS i LEFT JOIN LATERAL (
    SELECT object, inverse, subjects FROM unnest(%s::text[]) AS wanted (name) JOIN refactx.hubs
    ON index_id = i.id AND hashtextextended(object, 0) = hashtextextended(name, 0) AND object = name
) AS h ON true WHERE i.id = %s AND i.state = 'ready' GROUP BY h.object, h.inverse
"""
_CHANGE = """
UPDATE refactx.hubs AS h SET subjects = h.subjects + c.more
FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS c (object, predicate, more)
WHERE h.index_id = %s AND hashtextextended(h.object, 0) = hashtextextended(c.object, 0) AND h.object = c.object
    AND h.predicate = c.predicate
"""


@dataclass(frozen=True, slots=True)
class Hub:
    """A hub: its `object`, the `predicate` of its facts, the predicate of the `inverse` facts that the index does not
    have, and the number of its `subjects`."""

    object: str
    predicate: str
    inverse: str
    subjects: int


def knows_hubs(entry: CatalogueEntry) -> bool:
    """Return whether the hubs of an index are stored: not if it was ingested before there was a table of them."""
    return isinstance(entry.report.get("hubs"), int)


def read_hubs(connection: Connection, index: int) -> list[Hub]:
    """Return all hubs of an index, given its id."""
    statement = "SELECT object, predicate, inverse, subjects FROM refactx.hubs WHERE index_id = %s"
    return [Hub(*row) for row in connection.execute(statement, [index]).fetchall()]


def find_hubs(connection: Connection, entry: CatalogueEntry, objects: Iterable[str]) -> dict[str, dict[str, int]]:
    """Return the subjects of some objects that are hubs, by object and inverse predicate. Takes one query.

    Raises IndexNotFoundError if the index was dropped or replaced.
    """
    names = sorted({name for name in objects if "\0" not in name})
    rows = connection.execute(_FIND.encode(), [names, entry.id]).fetchall()
    if not rows:
        raise IndexNotFoundError(f"index {entry.name!r} was dropped or replaced: open it again")
    found: dict[str, dict[str, int]] = {}
    for object_, inverse, subjects in rows:
        if object_ is not None:
            found.setdefault(object_, {})[inverse] = subjects
    return found


def add_hubs(connection: Connection, index: int, hubs: Iterable[Hub]) -> None:
    """Add hubs to an index, in the caller's transaction."""
    with (
        connection.cursor() as cursor,
        cursor.copy("COPY refactx.hubs (index_id, object, predicate, inverse, subjects) FROM STDIN") as copy,
    ):
        for hub in hubs:
            copy.write_row((index, hub.object, hub.predicate, hub.inverse, hub.subjects))


def change_hubs(connection: Connection, index: int, more: Mapping[tuple[str, str], int]) -> None:
    """Add to the subjects of hubs, in the caller's transaction; a hub without any is none any more.

    `more`: by object and predicate, how many facts an append has added, or, negative, how many were forgotten.
    """
    columns = [[object_ for object_, _ in more], [predicate for _, predicate in more], list(more.values())]
    connection.execute(_CHANGE.encode(), [*columns, index])
    connection.execute("DELETE FROM refactx.hubs WHERE index_id = %s AND subjects = 0", [index])
