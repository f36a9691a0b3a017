"""The reason why a query has no rows: the pattern, the patterns together, or the condition that nothing matches.

Parts of the query are asked for with ASK. What is reported was asked for in just this form, so it is true of the engine's
data. Patterns come first (triples, unions, VALUES, groups, subqueries), alone and then together; then conditions (FILTER,
MINUS) on rows that all patterns have; then what follows the patterns.
"""

import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from refactx.fact import visible
from refactx.iris import id_of_term, id_within
from refactx.linking.names import alike
from refactx.sparql.engines import EngineError, QueryRefusedError, Result, SparqlEngine, SparqlSyntaxError
from refactx.sparql.labels import Labelled
from refactx.sparql.syntax.parser import ParsedQuery, ParseError, parse
from refactx.sparql.syntax.tree import Block, Element, Group, Nested, TriplePattern, groups_of, path_text
from refactx.walks.facts import TreeFacts

SECONDS = 10.0
ASKED = 60
"""The most questions to the engine."""
_CONDITIONS = ("filter", "minus")
_LOOSE = ("optional", "bind", *_CONDITIONS)
"""Parts without which no rows are lost, or without which there may be more."""
_SHOWN = 120
NOT_FOUND = "why there are no rows was not found"
NEAR = 5
"""The most properties that a hint shows."""
_LANGUAGE = "en"
_TERM = re.compile(r"wdt?:\w+|<[A-Za-z][A-Za-z0-9+.-]*:[^<>]*>", re.ASCII)
"""An id in a query with IRIs in place of labels."""


def is_empty(result: Result) -> bool:
    """Return whether a result has nothing: no row, or one row in which every value is zero or missing, or false."""
    if isinstance(result, bool):
        return not result
    return not result.rows or (
        len(result.rows) == 1 and all(term is None or getattr(term, "value", "") == "0" for term in result.rows[0])
    )


def explain_empty(
    query: Labelled, engine: SparqlEngine, facts: TreeFacts | None = None, seconds: float = SECONDS
) -> str:
    """Return why a query without rows has none, as one line; it says so if that was not found.

        explain_empty(with_iris("SELECT ?x { <Louisiana> <capital of> ?x }", facts), engine, facts)
        # "nothing matches `<Louisiana> <capital of> ?x`: the other way round it does"

    `facts`: of the index, for hints. Raises as `Index.children` does; failures of the engine end the search.
    """
    try:
        parsed = parse(query.tokens)
    except ParseError:
        return f"{NOT_FOUND}: the query is beyond SPARQL 1.1"
    where = parsed.query.where
    if where is None:
        return f"{NOT_FOUND}: the query has no patterns"
    search = _ReasonSearch(query, parsed, engine, facts, seconds)
    return search.reason(where) or f"{NOT_FOUND}: {search.end}"


class _GroupPart(NamedTuple):
    """A part of a group that can be asked for: an element, or one triple of a block."""

    element: Element
    triple: TriplePattern | None = None


def _parts(group: Group) -> list[_GroupPart]:
    found = list[_GroupPart]()
    for element in group.elements:
        own = element.own if isinstance(element, Block) else ()
        found += [_GroupPart(element, triple) for triple in own] or [_GroupPart(element)]
    return found


class _ReasonSearch:
    """A search for the part of a query that has no rows."""

    def __init__(
        self, query: Labelled, parsed: ParsedQuery, engine: SparqlEngine, facts: TreeFacts | None, seconds: float
    ) -> None:
        self._query, self._tree, self._engine, self._facts = query, parsed.query, engine, facts
        self._end, self._left, self._refusal = time.monotonic() + seconds, ASKED, ""
        self._prologue = query.of((0, parsed.prologue.body))

    @property
    def end(self) -> str:
        """Why the search ended without a reason."""
        if self._left == 0:
            return f"the query has many parts, of which {ASKED} were asked for"
        if time.monotonic() >= self._end:
            return "to ask for its parts alone takes too long"
        if self._refusal:
            return f"one of its parts alone could not be run ({self._refusal})"
        return "each part of it matches something, and all parts together"

    def reason(self, group: Group) -> str:
        parts = _parts(group)
        patterns = [
            part
            for part in parts
            if part.element.kind not in _LOOSE
            and (part.element.kind != "service" or "wikibase:label" not in self._query.of(part.element.span))
        ]
        for part in patterns:
            if self._has_rows([part]) is False:
                return self._of_one(part)
        if self._has_rows(patterns) is False:
            least = _least(patterns, self._has_rows)
            return f"each of these matches something, but not together: {' and '.join(map(self._shown, least))}"
        conditions = [part for part in parts if part.element.kind in _CONDITIONS]
        others = [part for part in parts if part.element.kind not in _CONDITIONS]
        if self._has_rows(others) is not True:
            return ""

        def passes(some: Sequence[_GroupPart]) -> bool | None:
            kept = {id(part) for part in some}
            return self._has_rows([p for p in parts if p.element.kind not in _CONDITIONS or id(p) in kept])

        for part in conditions:
            if passes([part]) is False:
                return f"the patterns match, but nothing passes {self._shown(part)}"
        if passes(conditions) is False:
            least = _least(conditions, passes)
            return f"the patterns match, but nothing passes all of {' and '.join(map(self._shown, least))}"
        after = " ".join(self._query.of(self._tree.after).split())
        if group is self._tree.where and after and passes(conditions):
            return f"the patterns match, but {_cut(after)} leaves no row"
        return ""

    def _of_one(self, part: _GroupPart) -> str:
        """Return the reason for a part that has no rows alone."""
        element = part.element
        is_one = isinstance(element, Nested) and element.kind in ("group", "graph")
        if is_one and (inner := self.reason(groups_of(element)[0])):
            return inner
        if element.kind == "union":
            return f"no branch of {self._shown(part)} matches anything"
        found = f"nothing matches {self._shown(part)}"
        if part.triple is not None and (hint := self._hint(part.triple)):
            return f"{found}: {hint}"
        return found

    def _has_rows(self, parts: Sequence[_GroupPart]) -> bool | None:
        """Return whether some parts have rows together; None if the engine does not tell."""
        ends = ((part, " ." if part.element.kind == "triples" else "") for part in parts)
        return self._asks("\n".join(_of(part, self._query) + end for part, end in ends)) if parts else True

    def _asks(self, body: str) -> bool | None:
        left = self._end - time.monotonic()
        if self._left == 0 or left <= 0:
            return None
        self._left -= 1
        try:
            found = self._engine.run(f"{self._prologue} ASK {{ {body}\n}}", seconds=left)
        except (EngineError, QueryRefusedError, SparqlSyntaxError) as error:
            self._refusal = self._refusal or _cut(str(error))
            return None
        return found if isinstance(found, bool) else None

    def _shown(self, part: _GroupPart) -> str:
        """Return a part as it was written, on one line."""
        return f"`{_cut(_of(part, Labelled(self._query.tokens, {})))}`"

    def _hint(self, triple: TriplePattern) -> str:
        """Return what may be wrong with a triple that nothing matches; empty if nothing is known."""
        subject, object_ = (self._query.of(term.span).strip() for term in (triple.subject, triple.object))
        path = path_text(triple.path, self._query.of)
        term = triple.object
        is_plain_string = term.kind == "literal" and not term.language and not term.datatype
        if is_plain_string and self._asks(f"{subject} {path} {object_}@{_LANGUAGE} ."):
            return f"its text has a language there, write {object_}@{_LANGUAGE}"
        if self._facts is not None:
            for what, text in (("nothing", subject), ("nothing", object_), ("no property", path)):
                if (id_ := _id_of(text)) is not None and id_ not in self._facts.names([id_]):
                    return f"the index has {what} with the id {id_}"
        if triple.object.kind != "literal" and self._asks(f"{object_} {path} {subject} ."):
            return "the other way round it does"
        return "" if self._facts is None else _properties_of(subject, path, self._facts)


def _of(part: _GroupPart, query: Labelled) -> str:
    """Return the text of a part in a query."""
    triple = part.triple
    if triple is None:
        return query.of(part.element.span)
    return f"{query.of(triple.subject.span)} {path_text(triple.path, query.of)} {query.of(triple.object.span)}"


def _id_of(text: str) -> str | None:
    """Return the id that a term of a query is; None if it is none, or one of a vocabulary.

    >>> _id_of("wdt:P57"), _id_of("<http://e.org/a>"), _id_of("?x")
    ('P57', 'http://e.org/a', None)
    """
    if _TERM.fullmatch(text) is None:
        return None
    return id_within(text[1:-1]) if text.startswith("<") else id_of_term(text)


def _properties_of(subject: str, path: str, facts: TreeFacts) -> str:
    """Return a hint with the properties that a subject has, those that are like a predicate first."""
    name = _name_of(subject, facts)
    if not name:
        return ""
    own = facts.predicates(name)
    described = facts.describe(list(own))
    straight = [one for one in own if one in described and not described[one].inverse and described[one].id]
    if not straight:
        return f"<{name}> has no properties in the index"
    meant = _name_of(path, facts)
    if meant in straight:
        return ""
    shown = alike(meant, straight, NEAR) or sorted(straight, key=lambda one: -own[one])[:NEAR]
    return (
        f"<{name}> has {', '.join(f'<{one}>' for one in shown)}{'' if len(straight) <= len(shown) else ' and others'}"
    )


def _name_of(term: str, facts: TreeFacts) -> str:
    """Return the name of what a term is; empty if it has none."""
    id_ = _id_of(term)
    return "" if id_ is None else facts.names([id_]).get(id_, "")


def _least(parts: Iterable[_GroupPart], has_rows: Callable[[Sequence[_GroupPart]], bool | None]) -> list[_GroupPart]:
    """Return the fewest of some parts that have no rows together, in the sense that each of them is needed."""
    least = list(parts)
    for part in list(least):
        without = [other for other in least if other is not part]
        if has_rows(without) is False:
            least = without
    return least


def _cut(text: str) -> str:
    line = " ".join(visible(text).split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
