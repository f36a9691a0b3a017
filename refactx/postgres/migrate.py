"""An older catalogue made one of this version, in one transaction: done whole or not at all, and safe to repeat."""

from contextlib import ExitStack

from refactx.errors import IndexNotFoundError
from refactx.postgres.database import CATALOGUE_VERSION, catalogue_version, check_catalogue
from refactx.postgres.locks import Connection, name_lock
from refactx.postgres.rights import check_rights
from refactx.sql import query


def migrate(connection: Connection) -> int:
    """Bring the catalogue of a database up to `CATALOGUE_VERSION`; gives the version it had.

    Raises IndexNotFoundError if there is none, IndexExistsError while an index is being written, DatabaseError if the role
    may not, RefactxError if the catalogue is newer than this.
    """
    check_rights(connection)
    with ExitStack() as held, connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('refactx'))")
        version = catalogue_version(connection)
        if version is None:
            raise IndexNotFoundError("there is nothing to migrate: this database has no index. Is --db right?")
        if version >= CATALOGUE_VERSION:
            check_catalogue(connection)
            return version
        for (name,) in connection.execute("SELECT DISTINCT name FROM refactx.indexes ORDER BY name").fetchall():
            held.enter_context(name_lock(connection, name))
        connection.execute(query("schema").encode())
        connection.execute(query("migrate_to_2").encode())
        return version
