"""What the data has where a query without rows looks: properties of the same subjects. One bounded search, by SELECT."""

import time
from collections import defaultdict
from collections.abc import Iterator

from pyoxigraph import NamedNode

from refactx.nl2sparql.pack import Pack
from refactx.nl2sparql.parsed import Pattern, parse
from refactx.sparql.engines import EngineError, QueryRefusedError, Rows, SparqlEngine, SparqlSyntaxError, Term

SHOWN = 30
"""The most properties."""
ASKED = 12
"""The most queries."""


def explore(sparql: str, engine: SparqlEngine, pack: Pack, seconds: float) -> list[str]:
    """Return properties, as prefixed names, of what a query asks about: IRIs alone, never text from the data.

    Of each subject, those patterns count that match something by themselves. Failures of the engine leave them out.
    """
    search = _Search(engine, seconds)
    by_subject: defaultdict[tuple[str, str | None, str | None], list[Pattern]] = defaultdict(list)
    for pattern in parse(sparql).patterns:
        by_subject[pattern.subject, pattern.graph, pattern.service].append(pattern)
    found: dict[str, None] = {}
    for (subject, graph, service), patterns in by_subject.items():
        alone = [
            one.text
            for one in patterns
            if subject.startswith("?") and search.matches(_within(one.text, graph, service))
        ]
        if not alone and subject.startswith("?"):
            continue
        body = " . ".join([*alone, f"{subject} ?property ?value"])
        found |= dict.fromkeys(search.properties(_within(body, graph, service)))
    return [pack.shorten(iri) for iri in list(found)[:SHOWN]]


def _within(body: str, graph: str | None, service: str | None) -> str:
    if graph is not None:
        body = f"GRAPH {graph} {{ {body} }}"
    return body if service is None else f"SERVICE {service} {{ {body} }}"


class _Search:
    def __init__(self, engine: SparqlEngine, seconds: float) -> None:
        self._engine, self._end, self._left = engine, time.monotonic() + seconds, ASKED

    def matches(self, body: str) -> bool:
        return bool(list(self._rows(f"SELECT * {{ {body} }} LIMIT 1")))

    def properties(self, body: str) -> Iterator[str]:
        for row in self._rows(f"SELECT DISTINCT ?property {{ {body} }} LIMIT {SHOWN}"):
            if isinstance(row[0], NamedNode):
                yield row[0].value

    def _rows(self, query: str) -> Iterator[tuple[Term | None, ...]]:
        left = self._end - time.monotonic()
        if self._left == 0 or left <= 0:
            return
        self._left -= 1
        try:
            result = self._engine.run(query, limit=SHOWN, seconds=left)
        except (EngineError, QueryRefusedError, SparqlSyntaxError):
            return
        if isinstance(result, Rows):
            yield from result.rows
