"""The migration of an older catalogue to this version, in one transaction. It can be repeated."""

from contextlib import ExitStack

from refactx.errors import IndexNotFoundError
from refactx.postgres.catalogue import CATALOGUE_VERSION, catalogue_version, check_catalogue
from refactx.postgres.locks import Connection, name_lock
from refactx.postgres.rights import check_rights
from refactx.sql import query


def migrate(connection: Connection) -> int:
    """Migrate the catalogue of a database to `CATALOGUE_VERSION`. Return the version that it had.

    Raises IndexNotFoundError if there is no catalogue, IndexExistsError while an index is being written, DatabaseError
    if the role lacks a right, RefactxError if the catalogue is newer.
    """
    check_rights(connection)
    with ExitStack() as locks, connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('refactx'))")
        version = catalogue_version(connection)
        if version is None:
            raise IndexNotFoundError("there is nothing to migrate: this database has no index. Is --db right?")
        if version >= CATALOGUE_VERSION:
            check_catalogue(connection)
            return version
        for (name,) in connection.execute("SELECT DISTINCT name FROM refactx.indexes ORDER BY name").fetchall():
            locks.enter_context(name_lock(connection, name))
        connection.execute(query("schema").encode())
        if version < 2:
            connection.execute(query("migrate_to_2").encode())
        connection.execute("UPDATE refactx.catalogue SET version = %s", [CATALOGUE_VERSION])
        return version
