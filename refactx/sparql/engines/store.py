"""The engine on a pyoxigraph store, such as the one that is derived from an index."""

import re
from collections.abc import Callable, Mapping
from itertools import islice

from pyoxigraph import QueryBoolean, QuerySolutions, Store

from refactx.query.pgmr.uris import PREFIXES
from refactx.sparql.engines.engine import EngineError, EngineTimeoutError, QueryRefusedError, Result, Rows, Term
from refactx.sparql.engines.worker import Worker
from refactx.sparql.store.terms import not_compared
from refactx.sparql.syntax.check import check_alone, check_query, read_query

_AT_ONCE = 1024
_OF_DATES = re.compile(r"\bFILTER\b.*(?:dateTime|\b(?:YEAR|MONTH|DAY|NOW)\s*\()", re.IGNORECASE | re.DOTALL)


class StoreEngine:
    """An engine on a store. Several threads may use it; queries with a time limit wait for each other.

    By default a query has all the time it needs. One that takes too long, or is interrupted, uses a core until it ends or
    the process does: pyoxigraph cannot stop one that has found no row yet.
    """

    name = "store"

    def __init__(
        self, store: Store, on_close: Callable[[], object] = lambda: None, odd_dates: Mapping[str, str] | None = None
    ) -> None:
        """`on_close`: called by `close`; `odd_dates`: dates that are not compared, one for each IRI of a predicate."""
        self._store, self._on_close, self._odd_dates = store, on_close, odd_dates or {}
        self._worker = Worker()

    def run(self, query: str, *, limit: int | None = None, seconds: float | None = None) -> Result:
        """Run a SELECT or ASK, as `refactx.sparql.engines.SparqlEngine` says. SERVICE is refused."""
        query = read_query(query)
        check_alone(query)
        try:
            if seconds is None:
                return self._run(query, limit, lambda: None)
            return self._worker.run(lambda call: self._run(query, limit, call.check), seconds)
        except TimeoutError:
            raise EngineTimeoutError(
                f"the query takes more than {seconds:g} seconds on the store: give it more time (--timeout), or bind more"
            ) from None
        except (OSError, RuntimeError, ValueError) as error:
            raise EngineError(f"the store cannot run this query: {' '.join(str(error).split())}") from None

    def _run(self, query: str, limit: int | None, check: Callable[[], object]) -> Result:
        used = {prefix: iri for prefix, iri in PREFIXES.items() if f"{prefix}:" in query}  # each takes 1 µs
        try:
            found = self._store.query(query, prefixes=used)
        except SyntaxError as error:
            check_query(query)
            raise EngineError(f"the store cannot run this query: {error}") from None
        if isinstance(found, QueryBoolean):
            return bool(found)
        if not isinstance(found, QuerySolutions):
            check_query(query)  # raises, since the result is a graph
            raise QueryRefusedError("the result of this query has no rows: write SELECT or ASK")
        variables = tuple(variable.value for variable in found.variables)
        rows = list[tuple[Term | None, ...]]()
        wanted = None if limit is None else limit + 1
        while some := [
            tuple(row) for row in islice(found, _AT_ONCE if wanted is None else min(_AT_ONCE, wanted - len(rows)))
        ]:
            rows += some
            check()
        is_cut = limit is not None and len(rows) > limit
        return Rows(variables, rows[:limit], truncated=is_cut, note=self._note_on(query))

    def _note_on(self, query: str) -> str:
        """Return what is to be said of dates if a query compares some that do not compare."""
        if not self._odd_dates or not _OF_DATES.search(query):
            return ""
        found = list[str]()
        for iri, text in self._odd_dates.items():
            name = iri.replace(PREFIXES["wdt"], "wdt:")
            if iri in query or re.search(rf"{re.escape(name)}\b", query):
                found.append(not_compared(name, text))
        return "; ".join(found)

    def close(self) -> None:
        """Release the store."""
        self._worker.close()
        self._on_close()
