"""The session in which a memory is built or dropped, and its errors."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from refactx.errors import DatabaseError, IndexNotFoundError
from refactx.postgres.database import Database
from refactx.postgres.locks import Connection
from refactx.postgres.rights import check_rights


@contextmanager
def memory_session(database: Database, index: str) -> Iterator[Connection]:
    """Open a connection, in autocommit mode and without time limits, to write the memories of an index.

    Raises DatabaseError if the role lacks a right or PostgreSQL refuses, IndexNotFoundError if the index is dropped
    meanwhile.
    """
    try:
        with database.session() as connection:
            check_rights(connection, index)
            yield connection
    except (psycopg.errors.UndefinedTable, psycopg.errors.ForeignKeyViolation) as error:
        raise IndexNotFoundError(
            f"index {index!r}, or its memory, was dropped meanwhile: run the command again"
        ) from error
    except psycopg.Error as error:
        raise DatabaseError(
            f"PostgreSQL could not store a memory of index {index!r}: {database.reason(error)}. What is stored stays: run the "
            "same command again"
        ) from error
