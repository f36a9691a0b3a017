"""Queries to an endpoint that is unknown: each with a limit of rows and seconds, and all together with one of number."""

from collections.abc import Sequence

from refactx.errors import InputError
from refactx.sparql.engines.engine import EngineError, Rows, SparqlEngine, Term, UnreachableError


class BoundedQueries:
    """Runs queries that may fail: then there are no rows, and a note says why. UnreachableError is raised.

    `queries`: the most that are run; `seconds`: the most time of each. `notes`: what failed, in order, each once.
    """

    def __init__(self, engine: SparqlEngine, *, queries: int, seconds: float) -> None:
        self._engine, self._seconds = engine, seconds
        self.left = queries
        self.notes = list[str]()

    def rows(self, query: str, limit: int) -> Sequence[tuple[Term | None, ...]] | None:
        """Return at most `limit` rows of a SELECT; None if it failed, or if no query is left."""
        if self.left <= 0:
            self._note("the number of queries is used up: what was not looked at is missing in the pack")
            return None
        self.left -= 1
        try:
            found = self._engine.run(query, limit=limit, seconds=self._seconds)
        except UnreachableError:
            raise
        except (EngineError, InputError) as error:
            self._note(str(error))
            return None
        return found.rows[:limit] if isinstance(found, Rows) else None

    def holds(self, query: str) -> bool | None:
        """Return the answer to an ASK; None if it failed, or if no query is left."""
        if self.left <= 0:
            return None
        self.left -= 1
        try:
            found = self._engine.run(query, seconds=self._seconds)
        except UnreachableError:
            raise
        except (EngineError, InputError) as error:
            self._note(str(error))
            return None
        return found if isinstance(found, bool) else None

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
