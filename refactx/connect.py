"""The connection to the database: a server of the user's, or the embedded one."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from refactx.index.index import CACHE_BYTES, Index
from refactx.postgres.catalogue import find_index
from refactx.postgres.database import Database
from refactx.postgres.limits import Limits


def connect(db: str | None = None, limits: Limits | None = None) -> tuple[Database, Callable[[], object]]:
    """Open the database at the libpq URL `db`; by default at `$REFACTX_DB`, else the embedded server's.

    Return it with a function to call after closing it, which ends the use of the embedded server. `limits`: how long
    lookups and outages may last; by default what the environment says. Raises DatabaseError if the database cannot be
    reached.
    """
    url = db or os.environ.get("REFACTX_DB")
    if url:
        return Database(url, limits), lambda: None
    from refactx.postgres.embedded import server as embedded  # needed by this branch alone

    server = embedded.start()
    try:
        # After a server process was killed, whoever misses it starts it again. That use is closed at once, since
        # this one keeps the server running.
        return Database(server.url, limits, lambda: embedded.start().close()), server.close
    except BaseException:
        server.close()
        raise


@contextmanager
def database(db: str | None = None) -> Iterator[Database]:
    """Open the database as `connect` does, and close it at the end of the block."""
    opened, close = connect(db)
    try:
        yield opened
    finally:
        opened.close()
        close()


def open_index(
    name: str = "default", db: str | None = None, cache_bytes: int = CACHE_BYTES, limits: Limits | None = None
) -> Index:
    """Open an index for reading: the one called `name` in the database at the libpq URL `db`.

    By default, the database is that at `$REFACTX_DB`, else the embedded server's, which is started if need be.
    `cache_bytes`: memory for pieces of the tree, at most. `limits`: how long lookups and outages may last; by default
    what the environment says.

    Raises IndexNotFoundError if no ready index has that name, DatabaseError if the database cannot be reached.
    """
    opened, close = connect(db, limits)
    try:
        return Index(opened, find_index(opened, name), cache_bytes=cache_bytes, on_close=close)
    except BaseException:
        opened.close()
        close()
        raise
