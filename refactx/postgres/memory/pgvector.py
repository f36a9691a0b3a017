"""pgvector, PostgreSQL's extension for vectors: whether a database has it, and in which schema."""

from typing import Any

import psycopg
from psycopg import sql

from refactx.errors import DatabaseError

OLDEST = (0, 7)
"""The first version with `halfvec`: half the room, and embeddings of up to 4,000 numbers in an HNSW index."""
MOST_NUMBERS = 4000
"""The widest embedding that an HNSW index takes."""

_INSTALLED = """SELECT e.extversion, n.nspname FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace
WHERE e.extname = 'vector'"""
_OTHERWISE = "Without it names are found as they are written, or by their letters: leave out the memory"


def find_pgvector(connection: psycopg.Connection[Any]) -> str:
    """Return the schema in which a database has pgvector. Raises DatabaseError if it has none, or one that is too old."""
    row = connection.execute(_INSTALLED).fetchone()
    database = connection.info.dbname
    if row is None:
        raise DatabaseError(
            f"database {database} has no extension vector (pgvector), which a memory needs. {_OTHERWISE}"
        )
    version, schema = row
    if _numbers(version) < OLDEST:
        raise DatabaseError(
            f"database {database} has pgvector {version}, and a memory needs {OLDEST[0]}.{OLDEST[1]} or newer: have an "
            f"administrator upgrade it, and run ALTER EXTENSION vector UPDATE"
        )
    return str(schema)


def make_pgvector(connection: psycopg.Connection[Any]) -> str:
    """Do the same, and create the extension first if the server has it and the database does not."""
    if connection.execute(_INSTALLED).fetchone() is None:
        database = connection.info.dbname
        try:
            # Not in the schema refactx, which comes first for a role of this name.
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
        except psycopg.errors.UniqueViolation:  # another session has created it this moment
            pass
        except (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile):
            raise DatabaseError(
                "this PostgreSQL server has no pgvector, which a memory needs: have an administrator install it (the "
                f"embedded server has it). {_OTHERWISE}"
            ) from None
        except psycopg.errors.InsufficientPrivilege:
            raise DatabaseError(
                f"role {connection.info.user} may not create the extension vector: have a superuser run CREATE EXTENSION "
                f"vector in database {database}"
            ) from None
    return find_pgvector(connection)


def halfvec(schema: str) -> sql.Identifier:
    """Return the type of embeddings, by its schema."""
    return sql.Identifier(schema, "halfvec")


def _numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers.

    >>> _numbers("0.8.5") >= OLDEST, _numbers("0.6.2") >= OLDEST
    (True, False)
    """
    return tuple(int(part) for part in version.split(".") if part.isdigit())
