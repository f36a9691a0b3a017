"""Opening: the connection to a database, the user's server or the embedded one, and an index there or in a file."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refactx.errors import InputError
from refactx.index.file import FileSource
from refactx.index.index import CACHE_BYTES, Index
from refactx.locking import require_posix
from refactx.paths import is_file_name
from refactx.postgres.entry import Limits

if TYPE_CHECKING:
    from refactx.postgres.database import Database


def connect(db: str | None = None, limits: Limits | None = None) -> "tuple[Database, Callable[[], object]]":
    """Open the database at the libpq URL `db`; by default at `$REFACTX_DB`, else the embedded server's.

    Return it with a function to call after closing it, which ends the use of the embedded server. `limits`: how long
    lookups and outages may last; by default what the environment says. Raises DatabaseError if the database cannot be
    reached.
    """
    from refactx.postgres.database import Database  # psycopg, which a file does not need

    if db is not None and not (isinstance(db, str) and db.strip()):
        raise InputError(
            f"the database's address is {db!r}: give a URL such as postgresql://host/database, or leave it out"
        )
    url = db or os.environ.get("REFACTX_DB")
    if url:
        return Database(url, limits), lambda: None
    require_posix(
        "the embedded PostgreSQL", "give a running server with --db or REFACTX_DB, or an index file with --index"
    )
    from refactx.postgres.connections import without_environment
    from refactx.postgres.embedded import server as embedded  # needed by this branch alone

    server = embedded.start()
    try:
        # After a server process was killed, whoever misses it starts it again. That use is closed at once, since
        # this one keeps the server running.
        url = without_environment(server.url)
        return Database(url, limits, lambda: embedded.start().close(), server.diagnosis), server.close
    except BaseException:
        server.close()
        raise


@contextmanager
def database(db: str | None = None) -> Iterator["Database"]:
    """Open the database as `connect` does, and close it at the end of the block."""
    opened, close = connect(db)
    try:
        yield opened
    finally:
        opened.close()
        close()


def opened(index: Any) -> Any:
    """Return an index that is open, or open one by its name or the path of its file."""
    return open_index(index) if isinstance(index, str | Path) else index


def open_index(
    name: str | Path = "default", db: str | None = None, cache_bytes: int = CACHE_BYTES, limits: Limits | None = None
) -> Index:
    """Open an index for reading: the one called `name` in the database at the libpq URL `db`, or the file at a path.

    By default, the database is that at `$REFACTX_DB`, else the embedded server's, which is started if need be. A `Path`
    is that of a file of `refactx index export`, which is read in place, without any database; a `str` is one if it ends
    with `.refactx`, begins with `/`, `./` or `../`, or has a slash and names a file. `cache_bytes`: memory for pieces
    of the tree, at most. `limits`: how long lookups and outages may last; by default what the environment says.

        with refactx.open_index("wikidata.refactx") as index:
            index.complete("<Danny Boyle> <")

    Names with commas between them are several indexes, which are read as one (`refactx.index.joined`).

    Raises IndexNotFoundError if no ready index has that name, DatabaseError if the database cannot be reached;
    InputError if the file cannot be read, is damaged or too old to be read in place.
    """
    if not isinstance(name, str | Path) or not str(name).strip() or "\0" in str(name):
        raise InputError(f"{name!r} names no index: give its name, or the path of a file of `refactx index export`")
    if not isinstance(cache_bytes, int):
        raise InputError(f"cache_bytes is {cache_bytes!r}: give a number of bytes")
    if not isinstance(limits, Limits | None):
        raise InputError(f"limits is {limits!r}: give a refactx.Limits, or leave it out")
    if isinstance(name, str) and "," in name and not Path(name).is_file():
        return _open_joined(name, db, cache_bytes, limits)
    if isinstance(name, Path) or is_file_name(name):
        if db is not None:
            raise InputError(
                f"{name} is an index file, which needs no database: leave out the database, or give a name"
            )
        return Index(FileSource(Path(name)), cache_bytes=cache_bytes)
    from refactx.index.database import DatabaseSource  # psycopg, which a file does not need
    from refactx.postgres.catalogue import find_index

    opened, close = connect(db, limits)
    try:
        return Index(DatabaseSource(opened, find_index(opened, name), close), cache_bytes=cache_bytes)
    except BaseException:
        opened.close()
        close()
        raise


def _open_joined(names: str, db: str | None, cache_bytes: int, limits: Limits | None) -> Index:
    """Open several indexes as one."""
    from refactx.index.joined import JoinedIndex  # which one index does not need

    given = [name.strip() for name in names.split(",")]
    if len(set(given)) < len(given) or not all(given):
        raise InputError(f"{names!r} does not name several indexes: give the name of each once, as wikidata,mine")
    with ExitStack() as opened:
        parts = []
        for name in given:
            own = None if is_file_name(name) else db
            parts.append(opened.enter_context(open_index(name, own, cache_bytes // len(given), limits)))
        joined = JoinedIndex(parts, cache_bytes=cache_bytes)
        opened.pop_all()
        return joined
