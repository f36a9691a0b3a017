"""Where the database is: a server of the user's, or the embedded one."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from refactx.index.index import CACHE_BYTES, Index, find_index
from refactx.postgres.database import Database
from refactx.postgres.limits import Limits


def connect(db: str | None = None, limits: Limits | None = None) -> tuple[Database, Callable[[], object]]:
    """The database at a libpq URL `db`; without one at `REFACTX_DB`; without that the embedded server, started if need be.

    Gives it with what is to be called when it is no longer used. `limits`: how long lookups and outages may take; by default
    what the environment says. Raises DatabaseError if it cannot be reached.
    """
    url = db or os.environ.get("REFACTX_DB")
    if url:
        return Database(url, limits), lambda: None
    from refactx.postgres.embedded import server as embedded  # only where a server is needed

    server = embedded.start()
    try:
        # Killed, it is started again by whoever misses it: closing that use leaves this one.
        return Database(server.url, limits, lambda: embedded.start().close()), server.close
    except BaseException:
        server.close()
        raise


@contextmanager
def database(db: str | None = None) -> Iterator[Database]:
    """`connect` for the length of a block."""
    opened, close = connect(db)
    try:
        yield opened
    finally:
        opened.close()
        close()


def open_index(
    name: str = "default", db: str | None = None, cache_bytes: int = CACHE_BYTES, limits: Limits | None = None
) -> Index:
    """Open a ready index for reading. `db`, `limits`: see `connect`; `cache_bytes` bounds the memory for pieces of the tree.

    Raises IndexNotFoundError if there is none of that name, DatabaseError if the database cannot be reached.
    """
    opened, close = connect(db, limits)
    try:
        return Index(opened, find_index(opened, name), cache_bytes, close)
    except BaseException:
        opened.close()
        close()
        raise
