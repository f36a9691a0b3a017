"""A ready index held for changing, and its segments begun, shown, and removed where their writer was killed.

A new segment's table is committed empty and not ready, then filled and shown in one transaction: readers see all of it or
nothing, and what a killed writer leaves can be found. The next change removes it, and `refactx index drop`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from psycopg.types.json import Jsonb

from refactx.errors import CorruptIndexError
from refactx.index.index import find_index
from refactx.ingest.parsers.wikidata.statements import entity_number
from refactx.ingest.selection import is_property
from refactx.postgres.building import numbers
from refactx.postgres.database import Database
from refactx.postgres.locks import Connection, knowledge_base_lock, name_lock, when_unread
from refactx.postgres.tables import drop_tables


@contextmanager
def changing(connection: Connection, database: Database, name: str) -> Iterator[dict[str, Any]]:
    """The catalogue's entry of a ready index, which nobody else changes in the block, nor the names of its knowledge base.

    Raises IndexNotFoundError if there is none, IndexExistsError if another process is writing it.
    """
    with name_lock(connection, name):
        entry = find_index(database, name)
        with knowledge_base_lock(connection, entry["knowledge_base"]):
            remove_unfinished(connection, entry)
            yield entry


def remove_unfinished(connection: Connection, entry: dict[str, Any], patience: float = 0) -> None:
    """Remove the segments and name tables that killed writers and compactions left. Only under both locks, and outside a
    transaction. Where somebody reads one of them for all of `patience` seconds, all are left to the next change."""

    def remove() -> None:
        segments = numbers(
            connection, "DELETE FROM refactx.segments WHERE index_id = %s AND NOT ready RETURNING id", [entry["id"]]
        )
        tables = numbers(
            connection,
            "DELETE FROM refactx.name_tables WHERE knowledge_base = %s AND NOT ready RETURNING id",
            [entry["knowledge_base"]],
        )
        drop_tables(connection, "pieces", segments)
        drop_tables(connection, "names", tables)

    when_unread(connection, remove, patience)


def note_change(
    connection: Connection, entry: dict[str, Any], change: dict[str, Any], sources: Sequence[str] = ()
) -> None:
    """Add a change to the account of an index (`report["changes"]`), and its sources to those of the index."""
    done = connection.execute(
        """UPDATE refactx.indexes SET source = source || %s,
            report = report || jsonb_build_object('changes', coalesce(report -> 'changes', '[]') || %s::jsonb)
        WHERE id = %s""",
        [list(sources), Jsonb([change]), entry["id"]],
    )
    if done.rowcount != 1:
        raise AssertionError("an index was dropped under its lock")


def inverse_properties(entry: dict[str, Any]) -> dict[int, int]:
    """The properties whose inverse facts are another property's, and which, in the account of an index, by their numbers.

    Raises CorruptIndexError if they are no pairs of properties.
    """
    pairs = entry["report"].get("inverse_properties", {})
    if not isinstance(pairs, dict) or not all(
        isinstance(other, str) and is_property(one) and is_property(other) for one, other in pairs.items()
    ):
        raise CorruptIndexError(
            f"index {entry['name']!r}: the inverse properties in its account are damaged: {pairs!r:.100}, not pairs such as "
            "P22 and P40. Ingest the index again"
        )
    return {entity_number(one): entity_number(other) for one, other in pairs.items()}


def add_inverse_properties(connection: Connection, entry: dict[str, Any], found: Mapping[str, str]) -> int:
    """Add to the account of an index those of some inverse properties (`Report.inverse_properties`) that it has not; gives how
    many these are."""
    known = entry["report"].get("inverse_properties", {})
    new = {one: other for one, other in found.items() if one not in known}
    if new:
        connection.execute(
            """UPDATE refactx.indexes SET report = report ||
                jsonb_build_object('inverse_properties', coalesce(report -> 'inverse_properties', '{}') || %s::jsonb)
            WHERE id = %s""",
            [Jsonb(new), entry["id"]],
        )
    return len(new)


def name_tables(connection: Connection, entry: dict[str, Any]) -> tuple[int, ...]:
    """The ready name tables of an index's knowledge base, the oldest first."""
    return tuple(
        numbers(
            connection,
            "SELECT id FROM refactx.name_tables WHERE knowledge_base = %s AND ready ORDER BY id",
            [entry["knowledge_base"]],
        )
    )
