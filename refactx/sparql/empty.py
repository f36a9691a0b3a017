"""The reason why a query has no rows: the pattern, the patterns together, or the condition that nothing matches.

Parts of the query are asked for with ASK. What is reported was asked for in just this form, so it is true of the engine's
data. Patterns come first (triples, unions, VALUES, groups, subqueries), alone and then together; then conditions (FILTER,
MINUS) on rows that all patterns have; then what follows the patterns.
"""

import time
from collections.abc import Callable, Iterable, Sequence

from refactx.fact import visible
from refactx.sparql.engines import EngineError, QueryRefusedError, Result, SparqlEngine, SparqlSyntaxError
from refactx.sparql.hints import hint_of
from refactx.sparql.labels import Labelled
from refactx.sparql.names import Names
from refactx.sparql.syntax import Element, Group, Shape, ShapeError, shape_of

SECONDS = 10.0
ASKED = 60
"""The most questions to the engine."""
_CONDITIONS = ("filter", "minus")
_LOOSE = ("optional", "bind", *_CONDITIONS)
"""Parts without which no rows are lost, or without which there may be more."""
_SHOWN = 120


def is_empty(result: Result) -> bool:
    """Return whether a result has nothing: no row, or one row in which every value is zero or missing, or false."""
    if isinstance(result, bool):
        return not result
    return not result.rows or (
        len(result.rows) == 1 and all(term is None or getattr(term, "value", "") == "0" for term in result.rows[0])
    )


def explain_empty(query: Labelled, engine: SparqlEngine, names: Names | None = None, seconds: float = SECONDS) -> str:
    """Return why a query without rows has none, as one line; empty if that cannot be told.

        explain_empty(with_iris("SELECT ?x { <Louisiana> <capital of> ?x }", names), engine, names)
        # "nothing matches `<Louisiana> <capital of> ?x`: the other way round it does"

    `names`: of the index, for hints. Raises as `Index.children` does; failures of the engine end the search.
    """
    try:
        shape = shape_of(query.tokens)
    except ShapeError:
        return ""
    return "" if shape.where is None else _Search(query, shape, engine, names, seconds).reason(shape.where)


class _Search:
    """A search for the part of a query that has no rows."""

    def __init__(
        self, query: Labelled, shape: Shape, engine: SparqlEngine, names: Names | None, seconds: float
    ) -> None:
        self._query, self._shape, self._engine, self._names = query, shape, engine, names
        self._end, self._left = time.monotonic() + seconds, ASKED
        self._prologue = query.of(shape.prologue)

    def reason(self, group: Group) -> str:
        patterns = [element for element in group.elements if not self._is_loose(element)]
        for element in patterns:
            if self._has_rows([element]) is False:
                return self._of_one(element)
        if self._has_rows(patterns) is False:
            least = _least(patterns, self._has_rows)
            return f"each of these matches something, but not together: {' and '.join(map(self._shown, least))}"
        conditions = [element for element in group.elements if element.kind in _CONDITIONS]
        others = [element for element in group.elements if element.kind not in _CONDITIONS]
        if self._has_rows(others) is not True:
            return ""

        def passes(some: Sequence[Element]) -> bool | None:
            return self._has_rows([e for e in group.elements if e not in conditions or e in some])

        for element in conditions:
            if passes([element]) is False:
                return f"the patterns match, but nothing passes {self._shown(element)}"
        if passes(conditions) is False:
            least = _least(conditions, passes)
            return f"the patterns match, but nothing passes all of {' and '.join(map(self._shown, least))}"
        after = " ".join(self._query.of(self._shape.modifiers).split())
        if group is self._shape.where and after and passes(conditions):
            return f"the patterns match, but {_cut(after)} leaves no row"
        return ""

    def _of_one(self, element: Element) -> str:
        """Return the reason for a part that has no rows alone."""
        if element.kind in ("group", "graph") and (inner := self.reason(element.groups[0])):
            return inner
        if element.kind == "union":
            return f"no branch of {self._shown(element)} matches anything"
        found = f"nothing matches {self._shown(element)}"
        if element.triple is not None and (hint := hint_of(self._query, element.triple, self._asks, self._names)):
            return f"{found}: {hint}"
        return found

    def _is_loose(self, element: Element) -> bool:
        is_labels = element.kind == "service" and "wikibase:label" in self._query.of(element.span)
        return element.kind in _LOOSE or is_labels

    def _has_rows(self, elements: Sequence[Element]) -> bool | None:
        """Return whether some parts have rows together; None if the engine does not tell."""
        return self._asks("\n".join(self._text(element) for element in elements)) if elements else True

    def _asks(self, body: str) -> bool | None:
        left = self._end - time.monotonic()
        if self._left == 0 or left <= 0:
            return None
        self._left -= 1
        try:
            found = self._engine.run(f"{self._prologue} ASK {{ {body}\n}}", seconds=left)
        except (EngineError, QueryRefusedError, SparqlSyntaxError):
            return None
        return found if isinstance(found, bool) else None

    def _text(self, element: Element) -> str:
        triple = element.triple
        if triple is None or triple.subject is None:
            return self._query.of(element.span) + (" ." if element.kind == "triple" else "")
        return " ".join(self._query.of(span) for span in (triple.subject, triple.path, triple.object)) + " ."

    def _shown(self, element: Element) -> str:
        """Return a part as it was written, on one line."""
        written = Labelled(self._query.tokens, {})
        triple = element.triple
        if triple is None or triple.subject is None:
            return f"`{_cut(written.of(element.span))}`"
        return f"`{_cut(' '.join(written.of(span) for span in (triple.subject, triple.path, triple.object)))}`"


def _least(elements: Iterable[Element], has_rows: Callable[[Sequence[Element]], bool | None]) -> list[Element]:
    """Return the fewest of some parts that have no rows together, in the sense that each of them is needed."""
    least = list(elements)
    for element in list(least):
        without = [other for other in least if other is not element]
        if has_rows(without) is False:
            least = without
    return least


def _cut(text: str) -> str:
    line = " ".join(visible(text).split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
