"""The constraint of SPARQL with the names of an index, in a line after `SPARQL:`.

A state is the ways to read the ids of a line. Nearly always there is one. Two ways arise where one token may begin a name
as well as the text of another part. A way is at a `GrammarPoint` between two parts of the grammar's, or within the text of a
placeholder after such a point.

llguidance says which tokens of SPARQL's text may follow, and where a name or a variable may stand. There, the tree of the
index and the variables so far say which tokens may follow. A state is a pure function of the ids after the trigger.
"""

from collections.abc import Container, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field

import numpy as np

from refactx.decoding.matching import Matcher, OpenPart, matcher_of
from refactx.decoding.names import Begun
from refactx.decoding.states import FactSource, LineConstraint
from refactx.index.index import Index
from refactx.lazy import require
from refactx.sparql.constrained.variables import PartTexts, Scope
from refactx.tree.tree import NO_TOKENS, Path, Tokens
from refactx.walks.decoding.names import TreeNames

TRIGGER = "SPARQL:"
END = b"\n"
_WORDS = {OpenPart.OPENS: b" SELECT", OpenPart.CLOSES: b" }"}


@dataclass(frozen=True, slots=True)
class GrammarPoint:
    """What is written and whole. `parts`: the tokens with text, and placeholders as negative numbers; `end`: the last
    byte; `matcher`: the grammar there, a function of the parts."""

    parts: Path
    scope: Scope
    end: bytes
    matcher: Matcher = field(compare=False, repr=False)

    @property
    def tokens(self) -> Tokens:
        """The tokens with text that may follow, int32[n], ascending."""
        return NO_TOKENS if self._must_group else self.matcher.allowed.tokens

    @property
    def placeholders(self) -> tuple[OpenPart, ...]:
        """The placeholders that may follow."""
        return (OpenPart.GROUPED,) if self._must_group else self.matcher.allowed.placeholders

    @property
    def _must_group(self) -> bool:
        allowed = OpenPart.GROUPED in self.matcher.allowed.placeholders
        return allowed and bool(self.scope.frames[-1].ungrouped)


@dataclass(frozen=True, slots=True)
class LineReading:
    """A way to read a line: the `ids` after a point, of the text of a `placeholder`; None at a point.

    `begun`: what continues that text; `whole`: the point after it, if it is whole.
    """

    point: GrammarPoint
    placeholder: OpenPart | None = None
    ids: Path = ()
    begun: Begun | None = field(default=None, compare=False, repr=False)
    whole: GrammarPoint | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparqlState:
    """In a line of SPARQL. `ways`: those to read it, none after its end.

    `following`: the ids that may come next, a function of the other fields.
    """

    ways: tuple[LineReading, ...] = ()
    following: Tokens = field(default_factory=lambda: NO_TOKENS, compare=False, repr=False)


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
        self._names, self._texts = TreeNames(index), PartTexts(self._token_bytes)
        self._start = matcher_of(index.tokenizer)

    def start(
        self, prompt: Sequence[int] = (), padding: Container[int] | None = None, *, after_space: bool = False
    ) -> SparqlState | None:
        """Return the state directly after the trigger. If the index has no facts, the text stays free."""
        if not self._source.children(()).total:
            return SparqlState()
        return self._state([LineReading(GrammarPoint((), Scope(), b" " if after_space else b":", self._start))])

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
        found: list[LineReading] = []
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

    def _state(self, ways: Iterable[LineReading]) -> SparqlState | None:
        followed: list[tuple[LineReading, Tokens]] = []
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

    def _from_point(self, point: GrammarPoint, token: int) -> list[LineReading]:
        found: list[LineReading] = []
        at = int(np.searchsorted(point.tokens, token))
        if at < len(point.tokens) and point.tokens[at] == token:
            matcher = point.matcher.after(token)
            if matcher is not None:
                end = self._token_bytes[token][-1:]
                found.append(LineReading(GrammarPoint((*point.parts, token), point.scope, end, matcher)))
        for placeholder in point.placeholders:
            way = self._within(point, placeholder, (token,))
            found += [] if way is None else [way]
        return found

    def _within(self, point: GrammarPoint, placeholder: OpenPart, ids: Path) -> LineReading | None:
        """Return the way to read ids as the text of a placeholder; None if no such text begins so."""
        begun = self._begun(point, placeholder, ids)
        if not begun.is_possible:
            return None
        whole = None if begun.unit is None else self._after(point, placeholder, ids, begun.unit)
        if whole is not None and not len(begun.tokens):
            return LineReading(whole)
        return LineReading(point, placeholder, ids, begun, whole)

    def _after(self, point: GrammarPoint, placeholder: OpenPart, ids: Path, text: str) -> GrammarPoint | None:
        """Return the point after the whole text of a placeholder."""
        matcher: Matcher | None = point.matcher.after_placeholder(placeholder)
        if matcher is None:
            return None
        scope = point.scope.after(placeholder, text)
        return GrammarPoint((*point.parts, -1 - placeholder), scope, self._token_bytes[ids[-1]][-1:], matcher)

    def _begun(self, point: GrammarPoint, placeholder: OpenPart, ids: Path) -> Begun:
        """Return the beginning of the text of a placeholder, whose unit is a name without brackets or `?`."""
        if placeholder in (OpenPart.SUBJECT, OpenPart.ENTITY):
            begun = self._names.subjects.after(ids, self._source)
            return Begun(begun.tokens, None if begun.unit is None else begun.unit[1:-1])
        if placeholder is OpenPart.OWN_PROPERTY:
            return self._names.properties_of(point.scope.subject or "").after(ids)
        if placeholder is OpenPart.PROPERTY:
            return self._names.all_properties().after(ids)
        if placeholder in _WORDS:
            return self._texts.word(_WORDS[placeholder], ids)
        return self._texts.variable(point.scope.choice(placeholder), ids, point.end == b"(")
