"""The constraint of SPARQL with the names of an index, in a line after `SPARQL:`.

llguidance says which tokens of SPARQL's text may follow, and where a name or a variable may stand. There, the tree of the
index and the variables so far say which tokens may follow. A state is a pure function of the ids after the trigger.
"""

from collections.abc import Container, Iterable, Sequence
from copy import copy

import numpy as np

from refactx.decoding.states import FactSource, LineConstraint
from refactx.index.index import Index
from refactx.lazy import require
from refactx.query.decoding.slots import Begun
from refactx.sparql.decoding.matching import Matcher, matcher_of
from refactx.sparql.decoding.names import TreeNames
from refactx.sparql.decoding.placeholder import Placeholder
from refactx.sparql.decoding.scope import Scope
from refactx.sparql.decoding.states import Point, SparqlState, Way
from refactx.sparql.decoding.variables import Texts
from refactx.tree.tree import NO_TOKENS, Path, Tokens

TRIGGER = "SPARQL:"
END = b"\n"
_WORDS = {Placeholder.OPENS: b" SELECT", Placeholder.CLOSES: b" }"}


class SparqlGrammar(LineConstraint[SparqlState | None]):
    """The constraint of SPARQL on an index: after `SPARQL:` a text has only a query, on one line.

        machine = refactx.Machine(index, queries=refactx.sparql.SparqlGrammar(index))
        machine.queries(ids, prompt_length)  # such as ["SELECT ?x { <Louisiana> <nickname> ?x }"]

    A query is SPARQL with names in angle brackets, as `refactx sparql` takes it: names of subjects of the index, and of
    properties; directly after a subject, of those that it has. It ends at the end of the line. Threads may share it.

    Raises ModelError if the tokenizer joins parts of facts in one token, or if llguidance refuses it. Methods raise as
    `Index.children` does. A state is None after an id that was not allowed.
    """

    trigger = TRIGGER

    def __init__(self, index: Index) -> None:
        require("llguidance", "sparql")
        self._source: FactSource = index
        self._token_bytes = index.tokenizer.token_bytes
        self._names, self._texts = TreeNames(index), Texts(self._token_bytes)
        self._start = matcher_of(index.tokenizer)

    def start(
        self, prompt: Sequence[int] = (), padding: Container[int] | None = None, *, after_space: bool = False
    ) -> SparqlState | None:
        """Return the state directly after the trigger. If the index has no facts, the text stays free."""
        if not self._source.children(()).total:
            return SparqlState()
        return self._state([Way(Point((), Scope(), b" " if after_space else b":", self._start))])

    def allowed(self, state: SparqlState | None) -> Tokens | None:
        if state is None:
            return NO_TOKENS
        return state.following if state.ways else None

    def over(self, source: FactSource) -> "SparqlGrammar":
        other = copy(self)
        other._source = source
        return other

    def advance(self, state: SparqlState | None, token: int, position: int) -> SparqlState | None:
        if state is None or not state.ways:
            return state
        text = self._token_bytes[token] if token < len(self._token_bytes) else b""
        if not text:
            return None
        found: list[Way] = []
        for way in state.ways:
            if way.placeholder is None:
                found += self._from_point(way.point, token)
                continue
            longer = self._within(way.point, way.placeholder, (*way.ids, token))
            found += [] if longer is None else [longer]
            if way.whole is not None:
                found += self._from_point(way.whole, token)
        if not found:
            return None
        if END in text:
            return SparqlState()
        return self._state(dict.fromkeys(found))

    def _state(self, ways: Iterable[Way]) -> SparqlState | None:
        followed: list[tuple[Way, Tokens]] = []
        for way in ways:
            point = way.point if way.placeholder is None else way.whole
            found = [] if way.begun is None else [way.begun.tokens]
            if point is not None:
                found.append(point.tokens)
                for placeholder in point.placeholders:
                    found.append(self._begun(point, placeholder, ()).tokens)
            tokens = found[0] if len(found) == 1 else np.unique(np.concatenate(found))
            if len(tokens):
                followed.append((way, tokens))
        if not followed:
            return None
        arrays = [tokens for _, tokens in followed]
        following = arrays[0] if len(arrays) == 1 else np.unique(np.concatenate(arrays))
        return SparqlState(ways=tuple(way for way, _ in followed), following=following)

    def _from_point(self, point: Point, token: int) -> list[Way]:
        found: list[Way] = []
        at = int(np.searchsorted(point.tokens, token))
        if at < len(point.tokens) and point.tokens[at] == token:
            matcher = point.matcher.after(token)
            if matcher is not None:
                end = self._token_bytes[token][-1:]
                found.append(Way(Point((*point.parts, token), point.scope, end, matcher)))
        for placeholder in point.placeholders:
            way = self._within(point, placeholder, (token,))
            found += [] if way is None else [way]
        return found

    def _within(self, point: Point, placeholder: Placeholder, ids: Path) -> Way | None:
        """Return the way to read ids as the text of a placeholder; None if no such text begins so."""
        begun = self._begun(point, placeholder, ids)
        if not begun.is_possible:
            return None
        whole = None if begun.unit is None else self._after(point, placeholder, ids, begun.unit)
        if whole is not None and not len(begun.tokens):
            return Way(whole)
        return Way(point, placeholder, ids, begun, whole)

    def _after(self, point: Point, placeholder: Placeholder, ids: Path, text: str) -> Point | None:
        """Return the point after the whole text of a placeholder."""
        matcher: Matcher | None = point.matcher.after_placeholder(placeholder)
        if matcher is None:
            return None
        scope = point.scope.after(placeholder, text)
        return Point((*point.parts, -1 - placeholder), scope, self._token_bytes[ids[-1]][-1:], matcher)

    def _begun(self, point: Point, placeholder: Placeholder, ids: Path) -> Begun:
        """Return the beginning of the text of a placeholder, whose unit is a name without brackets or `?`."""
        if placeholder in (Placeholder.SUBJECT, Placeholder.ENTITY):
            begun = self._names.subjects.after(ids, self._source)
            return Begun(begun.tokens, None if begun.unit is None else begun.unit[1:-1])
        if placeholder is Placeholder.OWN_PROPERTY:
            return self._names.properties_of(point.scope.subject or "").after(ids)
        if placeholder is Placeholder.PROPERTY:
            return self._names.all_properties().after(ids)
        if placeholder in _WORDS:
            return self._texts.word(_WORDS[placeholder], ids)
        return self._texts.variable(point.scope.choice(placeholder), ids, point.end == b"(")
