"""The errors of PostgreSQL for a reader: whether the database is gone, and what a refusal means."""

import psycopg

from refactx.errors import DatabaseError, IndexNotFoundError, RefactxError, without_password

_GONE = ("08", "57", "53300", "40001")
"""SQLSTATEs after which a lookup is tried again: connection lost, shutdown, too many connections, and a conflict on a
standby. (Not 57014, cancelled by the statement timeout: `read_error`.)"""


def is_gone(error: psycopg.Error) -> bool:
    """Return whether the reason of an error is the database and not the statement."""
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError)
    return state.startswith(_GONE) and state != "57014"


def read_error(error: psycopg.Error, index: str | None, seconds: float) -> RefactxError:
    """Return the error to raise if PostgreSQL refuses to read an index (None: any), after some seconds."""
    name = "the index" if index is None else f"index {index!r}"
    reason = without_password(" ".join(str(error).split()))
    match error.sqlstate:
        case "42P01":  # undefined_table
            return IndexNotFoundError(f"{name} was dropped or replaced: open it again")
        case "57014":  # query_canceled
            return DatabaseError(
                f"PostgreSQL stopped a lookup in {name} after {seconds:.1f} s ({reason}): the server is overloaded, or "
                "a table is locked. Ask again, or allow more time (the user or the database may have its own limit) "
                "with REFACTX_LOOKUP_SECONDS, or with ?options=-c%20statement_timeout%3D60s at the end of --db"
            )
        case "42501":  # insufficient_privilege
            return DatabaseError(
                f"the user of --db may not read {name} ({reason}): GRANT USAGE ON SCHEMA refactx and GRANT SELECT ON "
                "ALL TABLES IN SCHEMA refactx to that user, with ALTER DEFAULT PRIVILEGES for future tables, as in "
                "docs/how-to/roles-and-limits.md"
            )
    return DatabaseError(f"PostgreSQL refused to read {name}: {reason}. See the server's log")
