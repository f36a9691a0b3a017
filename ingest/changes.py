"""A ready index held for changing, and its segments begun, shown, and removed where their writer was killed.

A new segment's table is committed empty and not ready, then filled and shown in one transaction: readers see all of it or
nothing, and what a killed writer leaves can be found. The next change removes it, and `refactx index drop`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from psycopg.types.json import Jsonb

from refactx.index import find_index
from refactx.postgres import Database

from .catalogue import numbers
from .locks import Connection, knowledge_base_lock, name_lock, when_unread
from .stored_tables import drop_tables


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
    connection: Connection,
    entry: dict[str, Any],
    change: dict[str, Any],
    sources: Sequence[str] = (),
    inverse_properties: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Add a change to the account of an index (`report["changes"]`), its sources to those of the index, and the inverse
    properties (`Report.inverse_properties`) that it found to those that are known."""
    done = connection.execute(
        """UPDATE refactx.indexes SET source = source || %s,
            report = report || jsonb_build_object(
                'changes', coalesce(report -> 'changes', '[]') || %s::jsonb,
                'inverse_properties', %s::jsonb || coalesce(report -> 'inverse_properties', '{}')
            )
        WHERE id = %s""",
        [list(sources), Jsonb([change]), Jsonb(dict(inverse_properties)), entry["id"]],
    )
    if done.rowcount != 1:
        raise AssertionError("an index was dropped under its lock")


def name_tables(connection: Connection, entry: dict[str, Any]) -> tuple[int, ...]:
    """The ready name tables of an index's knowledge base, the oldest first."""
    return tuple(
        numbers(
            connection,
            "SELECT id FROM refactx.name_tables WHERE knowledge_base = %s AND ready ORDER BY id",
            [entry["knowledge_base"]],
        )
    )
