"""The engine on frozen data."""

from collections.abc import Callable, Collection

from pyoxigraph import Store

from refactx.nl2sparql.frozen.rewriting import rewritten, without_limit
from refactx.sparql.engines import Result, StoreEngine


class FrozenEngine:
    """A `SparqlEngine` on a store in which services are graphs. Several threads may use it, as with `StoreEngine`.

    The LIMIT of a query is left out, which leaves to chance which rows there are: so rows of two queries can be compared.
    """

    name = "frozen"

    def __init__(
        self, store: Store, services: Collection[str] = (), on_close: Callable[[], object] = lambda: None
    ) -> None:
        """`services`: the IRIs of those that the store has."""
        self._engine, self._services = StoreEngine(store, on_close), frozenset(services)

    def run(self, query: str, *, limit: int | None = None, seconds: float | None = None) -> Result:
        """Run a SELECT or ASK, as `refactx.sparql.engines.SparqlEngine` says; SERVICE too, for services of the store."""
        return self._engine.run(without_limit(rewritten(query, self._services)), limit=limit, seconds=seconds)

    def close(self) -> None:
        """Release the store."""
        self._engine.close()
