"""The text of a query, in one line, and back.

    line     = head [number] <start> hop* filter* ["by" ["count"] <predicate>] " ."
    hop      = <predicate> ["+" | "*"]
    filter   = "which" hop* [operator] <value>
    operator = "is" | "equals" | "over" | "under" | "starts with" | "contains"

`is` is left out after hops. For a question of yes or no about the start itself, the first filter has no `which`, and
others have `and`: `ask <Ann> <spouse> <Bob> .`, `ask <Ann> <age> over <30> and <spouse> <Bob> .`
"""

import re
from collections.abc import Iterator

from refactx.fact import written_part
from refactx.query.walk import HEADS, OPERATORS, By, Closure, Head, Hop, Operator, Query, QueryError, Which

TERMINATOR = " ."
_TOKEN = re.compile(r"\s*(?:<([^<>]*)>([+*]?)|(starts\s+with|[A-Za-z]+|\d+|\.)(?=\s|<|$))")
_BEGINS = re.compile(rf"\s*(?:{'|'.join(HEADS)})(?:\s+\d+)?\s*<")
LONGEST, _DIGITS, _SHOWN = 10_000, 9, 200
_EXAMPLE = "count <Louisiana> <nickname> ."


def write_line(query: Query) -> str:
    """Return the text of a query, without the terminator.

    >>> write_line(Query("count", "Louisiana", (Hop("nickname"),)))
    'count <Louisiana> <nickname>'
    >>> write_line(Query("ask", "Ann", which=(Which((Hop("spouse"),), "is", "Bob"),)))
    'ask <Ann> <spouse> <Bob>'
    """
    parts: list[str] = [query.head]
    if query.limit > 1:
        parts.append(str(query.limit))
    parts += [f"<{query.start}>", *map(_hop, query.hops)]
    for number, which in enumerate(query.which):
        joins = "which" if query.hops or query.head != "ask" else "and" if number else ""
        operator = "" if which.operator == "is" and which.hops else which.operator
        parts += [joins, *map(_hop, which.hops), operator, f"<{which.value}>"]
    if query.by is not None:
        parts += ["by", "count" if query.by.counted else "", f"<{query.by.predicate}>"]
    return " ".join(part for part in parts if part)


def is_line(text: str) -> bool:
    """Return whether a text begins as the line of a query, and is no question in words.

    >>> is_line("most 3 <river> <has instance> by <length>"), is_line("count the nicknames of Louisiana")
    (True, False)
    """
    return _BEGINS.match(text) is not None


def read_line(text: str) -> Query:
    """Return the query that a line is, with or without its terminator.

    Raises QueryError, which says what was found and what was expected.

    >>> read_line("most 3 <river> <has instance> which <continent> <Africa> by <length> .")
    ... # doctest: +NORMALIZE_WHITESPACE
    Query(head='most', start='river', hops=(Hop(predicate='has instance', closure=''),),
        which=(Which(hops=(Hop(predicate='continent', closure=''),), operator='is', value='Africa'),),
        by=By(predicate='length', counted=False), limit=3)
    """
    if len(text) > LONGEST:
        raise QueryError(f"the query has {len(text):,} characters: write it with at most {LONGEST:,}")
    return _Reader(text).query()


def _hop(hop: Hop) -> str:
    return f"<{hop.predicate}>{hop.closure}"


class _Reader:
    """The tokens of a line: names in brackets with the sign after them, and words."""

    def __init__(self, text: str) -> None:
        self._text, self._tokens, self._at = text.strip(), list(_tokens(text)), 0

    def query(self) -> Query:
        head = self._word(HEADS)
        if head is None:
            raise self._error(f"one of {', '.join(HEADS)}")
        limit = int(self._tokens[self._at][0][: _DIGITS + 1]) if self._is_number() else None
        if limit is not None and limit >= 10**_DIGITS:
            raise QueryError(f"a number of members has at most {_DIGITS} digits")
        self._at += limit is not None
        units = self._units()
        if not units:
            raise self._error("a name in brackets to start from")
        if units[0].closure:
            raise QueryError(f"{units[0].closure} stands after a predicate, not after the start <{units[0].predicate}>")
        start, hops, which = units[0].predicate, units[1:], list[Which]()
        if head == "ask" and (len(hops) > 1 or self._peek(OPERATORS)):
            which, hops = [self._filter(hops)], []
        joins = ("and", "which") if which else ("which",)
        while self._word(joins):
            which.append(self._filter(self._units()))
        by = self._by() if self._word(("by",)) else None
        self._end()
        return Query(_head(head), start, tuple(hops), tuple(which), by, 1 if limit is None else limit)

    def _filter(self, hops: list[Hop]) -> Which:
        """Read the rest of a filter after its hops, of which the last is its value if no operator follows."""
        operator = self._word(OPERATORS)
        values = self._units() if operator else hops[-1:]
        if len(values) != 1 or values[0].closure:
            raise self._error("a value in brackets")
        if not operator:
            hops = hops[:-1]
            if not hops:
                raise self._error(f"an operator ({', '.join(OPERATORS)}) or another name in brackets")
        return Which(tuple(hops), _operator(operator or "is"), values[0].predicate)

    def _by(self) -> By:
        counted = self._word(("count",)) is not None
        units = self._units()
        if len(units) != 1 or units[0].closure:
            raise self._error("one predicate in brackets after `by`")
        return By(units[0].predicate, counted)

    def _end(self) -> None:
        if self._at < len(self._tokens) and self._tokens[self._at][0] == ".":
            self._at += 1
        if self._at < len(self._tokens):
            raise self._error("the end, ` .`")

    def _units(self) -> list[Hop]:
        found: list[Hop] = []
        while self._at < len(self._tokens) and (hop := self._tokens[self._at][1]) is not None:
            found.append(hop)
            self._at += 1
        return found

    def _peek(self, words: tuple[str, ...]) -> str | None:
        if self._at < len(self._tokens):
            word, hop = self._tokens[self._at]
            return word if hop is None and word in words else None
        return None

    def _word(self, words: tuple[str, ...]) -> str | None:
        found = self._peek(words)
        self._at += found is not None
        return found

    def _is_number(self) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at][0].isdecimal()

    def _error(self, expected: str) -> QueryError:
        found = "the end" if self._at >= len(self._tokens) else repr(self._tokens[self._at][0])
        return QueryError(
            f"the query {self._text[:_SHOWN]!r} has {found} in place of {expected}: write as in {_EXAMPLE!r}"
        )


def _tokens(text: str) -> Iterator[tuple[str, Hop | None]]:
    """Yield the tokens of a line: their text, and a hop for a name in brackets."""
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise QueryError(f"the query {text.strip()[:_SHOWN]!r} cannot be read from {text[at:].strip()[:40]!r} on")
        name, closure, word = match.groups()
        if word is not None:
            yield " ".join(word.split()), None
        else:
            part = written_part(name)
            if not part:
                raise QueryError(f"the query {text.strip()[:_SHOWN]!r} has a name without visible text")
            yield f"<{part}>", Hop(part, _closure(closure))
        at = match.end()


def _head(word: str) -> Head:
    return HEADS[HEADS.index(word)]


def _operator(word: str) -> Operator:
    return OPERATORS[OPERATORS.index(word)]


def _closure(sign: str) -> Closure:
    return "+" if sign == "+" else "*" if sign == "*" else ""
