"""What PostgreSQL's errors mean: whether the database is gone, or refuses, and how to say so to those who read it."""

import psycopg

from refactx.errors import DatabaseError, IndexNotFoundError, RefactxError, without_password

_GONE = ("08", "57", "53300", "40001")
"""SQLSTATEs after which a lookup is worth trying again: connection lost, shutdown, too many connections, and a standby that
had to cancel. (57014, cancelled by the statement timeout, is not: `explained`.)"""


def is_gone(error: psycopg.Error) -> bool:
    """Whether the database, not the statement, is the reason of an error."""
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError)
    return state.startswith(_GONE) and state != "57014"


def explained(error: psycopg.Error, index: str | None, seconds: float) -> RefactxError:
    """A refusal of PostgreSQL's for those who read it."""
    name = "the index" if index is None else f"index {index!r}"
    reason = without_password(" ".join(str(error).split()))
    match error.sqlstate:
        case "42P01":  # undefined_table
            return IndexNotFoundError(f"{name} was dropped or replaced: open it again")
        case "57014":  # query_canceled
            return DatabaseError(
                f"PostgreSQL stopped a lookup in {name} after {seconds:.1f} s ({reason}): the server is overloaded or locked; "
                "ask again, or allow more (the user or the database may have a limit of its own) with REFACTX_LOOKUP_SECONDS, "
                "or with ?options=-c%20statement_timeout%3D60s at the end of --db"
            )
        case "42501":  # insufficient_privilege
            return DatabaseError(
                f"the user of --db may not read {name} ({reason}): GRANT USAGE ON SCHEMA refactx and GRANT SELECT ON ALL "
                "TABLES IN SCHEMA refactx to that user, with ALTER DEFAULT PRIVILEGES for tables to come, as docs/database.md "
                "shows"
            )
    return DatabaseError(f"PostgreSQL refused to read {name}: {reason}. See the server's log")
