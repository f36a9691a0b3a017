"""Whether the database of an index answers: asked in a thread, every few seconds."""

import logging
import math
from collections.abc import Callable
from threading import Event, Thread
from time import monotonic

from refactx.connect import connect
from refactx.errors import DatabaseError, RefactxError
from refactx.paths import is_file_name
from refactx.postgres.limits import Limits
from refactx.server.http.errors import api_error

_log = logging.getLogger(__name__)

USUAL_SECONDS, AWAY_SECONDS = 2.0, 0.5
"""The time between two questions to a database that answers, and to one that does not."""
LIMITS = Limits(lookup=2.0, outage=0.0)


class Availability:
    """The state of a database. `ask`: raises RefactxError if it does not answer; None: there is no database.

    Requests are refused at once while it is away, instead of waiting for it; the embedded server is started again.
    """

    def __init__(self, ask: Callable[[], object] | None) -> None:
        self._ask, self._stop = ask, Event()
        self._error: RefactxError | None = None
        self._since = monotonic()
        self._thread = Thread(target=self._watch, name="refactx-database", daemon=True)
        if ask is not None:
            self._thread.start()

    @property
    def error(self) -> RefactxError | None:
        """Why the database does not answer; None if it does."""
        return self._error

    def check(self) -> None:
        """Raise ApiError (503) while the database does not answer."""
        if (error := self._error) is not None:
            raise api_error(DatabaseError(str(error)))

    def note(self, error: BaseException) -> None:
        """Take note of the error of a request: if it is that the database is away, others are refused from now on."""
        if isinstance(error, DatabaseError) and self._ask is not None:
            self._error = error

    def close(self) -> None:
        """Ask no more."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(math.ceil(LIMITS.lookup or 0) + 2)

    def _watch(self) -> None:
        while not self._stop.wait(USUAL_SECONDS if self._error is None else AWAY_SECONDS):
            before, self._error = self._error, self._asked()
            if (before is None) != (self._error is None):
                seconds, self._since = monotonic() - self._since, monotonic()
                state = "answers again" if self._error is None else f"does not answer ({self._error})"
                _log.warning("the database %s, after %.1f s", state, seconds)

    def _asked(self) -> RefactxError | None:
        try:
            if self._ask is not None:
                self._ask()
        except RefactxError as error:
            return error
        return None


def database_check(index: str, db: str | None) -> tuple[Callable[[], object] | None, Callable[[], object]]:
    """Return what asks the database whether it has an index (None if the index is a file), and what ends the use of the
    database.

    Raises DatabaseError if it cannot be reached now.
    """
    if is_file_name(index):
        return None, lambda: None
    from refactx.postgres.catalogue import find_index  # psycopg, which a file does not need

    database, release = connect(db, LIMITS)

    def close() -> None:
        database.close()
        release()

    return (lambda: find_index(database, index)), close
