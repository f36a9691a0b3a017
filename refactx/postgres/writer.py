"""The session of a writer: one connection, which holds the locks, and its errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from refactx.errors import DatabaseError, RefactxError
from refactx.postgres.catalogue import check_catalogue
from refactx.postgres.database import Database
from refactx.postgres.locks import Connection
from refactx.postgres.rights import check_rights


@contextmanager
def writing(database: Database, index: str, work: Path) -> Iterator[Connection]:
    """Open a connection, in autocommit mode and without time limits, to write an index with files in `work`.

    Raises DatabaseError if the role lacks a right or PostgreSQL refuses, and RefactxError if `work` cannot be written
    or the catalogue has another version.
    """
    try:
        with database.session() as connection:
            check_rights(connection, index)
            check_catalogue(connection)
            yield connection
    except psycopg.Error as error:
        raise DatabaseError(
            f"PostgreSQL could not store index {index!r}: {database.reason(error)}. Readers see no "
            "incomplete change: run the same command again"
        ) from error
    except OSError as error:
        raise RefactxError(
            f"cannot write in {work} ({error}): free disk space there, or give another --work-dir"
        ) from error
