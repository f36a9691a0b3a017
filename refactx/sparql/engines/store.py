"""The engine on a store of pyoxigraph that is open in this process, such as the triples of a file."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import islice

from pyoxigraph import NamedNode, QueryBoolean, QuerySolutions, Store

from refactx.iris import PREFIXES
from refactx.sparql.engines.checking import GEOSPARQL, check_alone, check_query, read_query
from refactx.sparql.engines.engine import (
    EngineError,
    EngineTimeoutError,
    QueryRefusedError,
    Result,
    Rows,
    Term,
    Worker,
)
from refactx.sparql.syntax.paths import from_known_ends
from refactx.sparql.syntax.wikidata import GEO_FUNCTIONS, Standard, absent_in, label_functions, to_standard

_AT_ONCE = 1024
FAILURES = (SyntaxError, OSError, RuntimeError, ValueError)
"""What pyoxigraph raises for a query."""


class StoreEngine:
    """An engine on a store in this process. Several threads may use it; queries with a time limit wait for each other.

    By default a query has all the time it needs. One that takes too long, or is interrupted, uses a core until it ends or
    the process does: pyoxigraph cannot stop one that has found no row yet. So queries of others have no place here, see
    `refactx.sparql.engines.processes`.
    """

    name = "store"

    def __init__(self, store: Store) -> None:
        self._store, self._worker = store, Worker()

    def run(self, query: str, *, limit: int | None = None, seconds: float | None = None) -> Result:
        """Run a SELECT or ASK, as `refactx.sparql.engines.SparqlEngine` says. SERVICE is refused."""
        standard = standard_of(query)
        try:
            if seconds is None:
                return solve(self._store, standard, limit)
            return self._worker.run(lambda call: solve(self._store, standard, limit, call.check), seconds)
        except TimeoutError:
            raise too_long(seconds or 0.0) from None
        except FAILURES as error:
            raise failed(query, error) from None

    def close(self) -> None:
        """Release the store."""
        self._worker.close()


def standard_of(query: str) -> Standard:
    """Return a query as `solve` runs it. Raises as `read_query` and `check_alone` do."""
    standard = to_standard(read_query(query))
    check_alone(standard.sparql)
    if GEOSPARQL in standard.sparql:  # some of its functions give no value, without an error
        check_query(standard.sparql)
    return replace(standard, sparql=from_known_ends(standard.sparql))


def failed(query: str, error: Exception) -> EngineError:
    """Return the error for what pyoxigraph raised. Raises SparqlSyntaxError or QueryRefusedError, if a query is wrong."""
    if isinstance(error, SyntaxError) or "custom function" in str(error):
        check_query(to_standard(read_query(query)).sparql)
    return EngineError(f"the store cannot run this query: {' '.join(str(error).split())}")


def too_long(seconds: float) -> EngineTimeoutError:
    return EngineTimeoutError(
        f"the query takes more than {seconds:g} seconds on the store: bind more",
        command=", or give it more time (--timeout)",
    )


def solve(store: Store, standard: Standard, limit: int | None, check: Callable[[], object] = lambda: None) -> Result:
    """Run a query on a store. `check` is called now and then, and may raise to end it. Raises one of `FAILURES`, and
    QueryRefusedError for a query whose result is a graph."""
    query, other_languages = standard.sparql, set[str]()
    used = {prefix: iri for prefix, iri in PREFIXES.items() if f"{prefix}:" in query}  # each takes 1 µs
    labels = label_functions(store, other_languages) if standard.labels else {}
    found = store.query(query, prefixes=used, custom_functions=GEO_FUNCTIONS | labels)
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
    notes = [standard.note]
    if other_languages:
        notes.append(f"labels are in {', '.join(sorted(other_languages))} where there are none as the query asks for")
    return Rows(variables, rows[:limit], truncated=is_cut, note="; ".join(filter(None, notes)))


class DamagedStoreError(Exception):
    """A store that a process cannot open."""


class ResultSizeError(Exception):
    """A result that is larger than it may be."""


@cache
def _open(path: str) -> Store:
    return Store.read_only(path)


def _is_in(store: Store, term: NamedNode) -> bool:
    return any(next(store.quads_for_pattern(None, *pair), None) is not None for pair in ((term, None), (None, term)))


def answer(path: str, asked: tuple[Standard, int | None, int | None]) -> bytes:
    """Return the pickled result of a query on the store at a path: a standard query, the most rows, and the most bytes.

    It runs in a process of `refactx.sparql.engines.processes`. Raises as `solve` does, DamagedStoreError and ResultSizeError.
    """
    standard, limit, most = asked
    try:
        store = _open(path)
    except (OSError, RuntimeError) as error:
        raise DamagedStoreError(" ".join(str(error).split())) from None
    found = solve(store, standard, limit)
    if isinstance(found, Rows):
        absent = absent_in(standard.sparql, lambda iri: _is_in(store, NamedNode(iri)))
        found = replace(found, note="; ".join(filter(None, (found.note, absent))))
    result = pickle.dumps(found, pickle.HIGHEST_PROTOCOL)
    if most is not None and len(result) > most:
        raise ResultSizeError
    return result
