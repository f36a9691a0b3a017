"""A writer's session with the database: one connection, which holds the locks, and errors that say what failed where."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from refactx.errors import DatabaseError, RefactxError, without_password
from refactx.postgres.database import Database, open_session
from refactx.postgres.locks import Connection
from refactx.postgres.rights import check_rights


@contextmanager
def writing(database: Database, index: str, work: Path) -> Iterator[Connection]:
    """A connection in autocommit and without limits of time, not the pool's, to write an index with files in `work`.

    Raises DatabaseError where the role lacks a right or PostgreSQL refuses, and RefactxError where `work` can't be written.
    """
    try:
        with open_session(database.url) as connection:
            check_rights(connection, index)
            yield connection
    except psycopg.Error as error:
        reason = without_password(" ".join(str(error).split()))
        raise DatabaseError(
            f"PostgreSQL could not take index {index!r}: {reason.rstrip('.')}. Nothing is half-written: "
            "the same command can be run again"
        ) from error
    except OSError as error:
        raise RefactxError(
            f"cannot write in {work} ({error}): free disk space there, or give another --work-dir"
        ) from error
