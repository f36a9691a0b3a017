"""The changes of a ready index: its locks, the removal of unfinished segments, and the account of its changes.

A new segment's table is committed empty and not ready, then filled and shown in one transaction. So readers see all of
it or nothing, and what a killed writer leaves is found and removed by the next change or by `refactx index drop`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from psycopg.types.json import Jsonb

from refactx.postgres.catalogue import find_index, numbers
from refactx.postgres.catalogue_entry import CatalogueEntry
from refactx.postgres.database import Database
from refactx.postgres.locks import Connection, drop_when_unread, knowledge_base_lock, name_lock
from refactx.postgres.tables import drop_tables


@contextmanager
def changing(connection: Connection, database: Database, name: str) -> Iterator[CatalogueEntry]:
    """Hold a ready index and the names of its knowledge base for a change, and return its catalogue entry.

    Raises IndexNotFoundError if there is no such index, IndexExistsError if another process is writing it.
    """
    with name_lock(connection, name):
        entry = find_index(database, name)
        with knowledge_base_lock(connection, entry.knowledge_base):
            remove_unfinished(connection, entry)
            yield entry


def remove_unfinished(connection: Connection, entry: CatalogueEntry, patience: float = 0) -> None:
    """Remove the segments and name tables of an index that are not ready: those of killed writers and of compactions.

    The caller holds both locks and is in no transaction. If a reader uses one of the tables for all of `patience`
    seconds, all are left to the next change.
    """

    def remove() -> None:
        segments = numbers(
            connection, "DELETE FROM refactx.segments WHERE index_id = %s AND NOT ready RETURNING id", [entry.id]
        )
        tables = numbers(
            connection,
            "DELETE FROM refactx.name_tables WHERE knowledge_base = %s AND NOT ready RETURNING id",
            [entry.knowledge_base],
        )
        drop_tables(connection, "pieces", segments)
        drop_tables(connection, "names", tables)

    drop_when_unread(connection, remove, patience)


def note_change(
    connection: Connection, entry: CatalogueEntry, change: dict[str, Any], sources: Sequence[str] = ()
) -> None:
    """Add a change to the account of an index (`report["changes"]`), and its sources to those of the index."""
    done = connection.execute(
        """UPDATE refactx.indexes SET source = source || %s,
            report = report || jsonb_build_object('changes', coalesce(report -> 'changes', '[]') || %s::jsonb)
        WHERE id = %s""",
        [list(sources), Jsonb([change]), entry.id],
    )
    if done.rowcount != 1:
        raise AssertionError("an index was dropped while its lock was held")


def add_to_report(connection: Connection, entry: CatalogueEntry, key: str, added: Mapping[str, str]) -> None:
    """Add entries to the object `report[key]` in the account of an index. Make the object if it is missing."""
    connection.execute(
        """UPDATE refactx.indexes SET
            report = report ||
                jsonb_build_object(%(key)s::text, coalesce(report -> %(key)s::text, '{}') || %(added)s::jsonb)
        WHERE id = %(id)s""",
        {"key": key, "added": Jsonb(dict(added)), "id": entry.id},
    )


def name_tables(connection: Connection, entry: CatalogueEntry) -> tuple[int, ...]:
    """Return the ready name tables of an index's knowledge base, the oldest first."""
    return tuple(
        numbers(
            connection,
            "SELECT id FROM refactx.name_tables WHERE knowledge_base = %s AND ready ORDER BY id",
            [entry.knowledge_base],
        )
    )
