"""The walk language: queries as values, their lines, and the protocol of facts that they are asked of.

A walk begins at an entity and follows predicates, as facts are written: `<Louisiana> <nickname>` is the set of objects
of all facts that begin so. So a query needs no variables, its parts are names of the index, and the tree answers it.
Predicates that read a property backwards (`director of`) have names of their own, so each hop goes from subject to
object. `refactx.walks.language` writes walks as text, `refactx.walks.sparql_text` as SPARQL,
`refactx.walks.evaluate` answers them.

line     = head [number] <start> hop* filter* ["by" ["count"] <predicate>] " ."
    hop      = <predicate> ["+" | "*"]
    filter   = "which" hop* [operator] <value>
    operator = "is" | "equals" | "over" | "under" | "starts with" | "contains"

`is` is left out after hops. For a question of yes or no about the start itself, the first filter has no `which`, and
others have `and`: `ask <Ann> <spouse> <Bob> .`, `ask <Ann> <age> over <30> and <spouse> <Bob> .`

`refactx.walks.facts` implements it on the tree of an index; tests implement it on Python sets. Names are those of
the index, as parts of facts. A literal is the text that facts have (`refactx.walks.values` compares them).
"""

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from refactx.errors import InputError
from refactx.fact import Link, Qualifiers, written_part

Head = Literal["list", "count", "ask", "most", "least"]
"""What is asked: the members of the set, their number, whether there are any, or those that come last or first."""

Closure = Literal["", "+", "*"]
"""How often a hop is made: once, at least once, or any number of times."""

Operator = Literal["is", "equals", "over", "under", "starts with", "contains"]
"""How a filter compares: `is` compares names, `equals`, `over` and `under` compare values, the others compare text."""

HEADS: tuple[Head, ...] = get_args(Head)
OPERATORS: tuple[Operator, ...] = get_args(Operator)
TERMINATOR = " ."
_TOKEN = re.compile(r"\s*(?:<([^<>]*)>([+*]?)|(starts\s+with|[A-Za-z]+|\d+|\.)(?=\s|<|$))")
_BEGINS = re.compile(rf"\s*(?:{'|'.join(HEADS)})(?:\s+\d+)?\s*<")
LONGEST, _DIGITS, _SHOWN = 10_000, 9, 200
_EXAMPLE = "count <Louisiana> <nickname> ."


class QueryError(InputError):
    """A query that cannot be read, or cannot be answered in the index."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A step from each member of a set to the objects of its facts with a predicate.

    `predicate`: its name in the index; `closure`: how often the step is made.
    """

    predicate: str
    closure: Closure = ""


@dataclass(frozen=True, slots=True)
class WalkFilter:
    """A filter: the members from which `hops` lead to an object that compares with `value`.

    Without hops the member itself is compared. `value`: an entity's name for `is`, or a literal as facts have it. Text
    is compared without the case of letters, and without the description in a name.
    """

    hops: tuple[Hop, ...]
    operator: Operator
    value: str


@dataclass(frozen=True, slots=True)
class OrderBy:
    """What members are sorted by: the values of their facts with a predicate, or (`counted`) how many there are."""

    predicate: str
    counted: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """A query. `start`: the name of an entity; `hops`: the steps from it to the set; `which`: its filters, of which all
    have to hold; `by`: for the heads `most` and `least` alone, of which the first `limit` are asked for.

        >>> Query("count", "Louisiana", (Hop("nickname"),)).head
        'count'

    Raises QueryError if the parts do not fit together.
    """

    head: Head
    start: str
    hops: tuple[Hop, ...] = ()
    which: tuple[WalkFilter, ...] = ()
    by: OrderBy | None = None
    limit: int = 1

    def __post_init__(self) -> None:
        if self.head not in HEADS:
            raise QueryError(f"a query begins with one of {', '.join(HEADS)}, not with {self.head!r}")
        if self.limit < 1:
            raise QueryError(f"the {self.limit} first members were asked for: give at least 1")
        if (self.by is not None) != (self.head in ("most", "least")):
            raise QueryError("queries for most and least end in `by <predicate>`, and others do not")
        if self.limit > 1 and self.by is None:
            raise QueryError("only queries for most and least have a number of members")
        if not self.hops and (self.head != "ask" or not self.which):
            raise QueryError(
                f"a query goes from its start over at least one predicate: write one after <{self.start}>, as in "
                "`list <Louisiana> <nickname>`"
            )
        if self.head == "ask" and len(self.hops) > 1:
            raise QueryError("a query for ask has at most one predicate before `which`")


def write_line(query: Query) -> str:
    """Return the text of a query, without the terminator.

    >>> write_line(Query("count", "Louisiana", (Hop("nickname"),)))
    'count <Louisiana> <nickname>'
    >>> write_line(Query("ask", "Ann", which=(WalkFilter((Hop("spouse"),), "is", "Bob"),)))
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
        which=(WalkFilter(hops=(Hop(predicate='continent', closure=''),), operator='is', value='Africa'),),
        by=OrderBy(predicate='length', counted=False), limit=3)
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
        word = self._tokens[self._at][0] if self._at < len(self._tokens) else ""
        limit = int(word[: _DIGITS + 1]) if word.isdecimal() else None
        if limit is not None and limit >= 10**_DIGITS:
            raise QueryError(f"a number of members has at most {_DIGITS} digits")
        self._at += limit is not None
        units = self._units()
        if not units:
            raise self._error("a name in brackets to start from")
        if units[0].closure:
            raise QueryError(f"{units[0].closure} stands after a predicate, not after the start <{units[0].predicate}>")
        start, hops, which = units[0].predicate, units[1:], list[WalkFilter]()
        if head == "ask" and (len(hops) > 1 or self._peek(OPERATORS)):
            which, hops = [self._filter(hops)], []
        joins = ("and", "which") if which else ("which",)
        while self._word(joins):
            which.append(self._filter(self._units()))
        by = None
        if self._word(("by",)):
            counted, units = self._word(("count",)) is not None, self._units()
            if len(units) != 1 or units[0].closure:
                raise self._error("one predicate in brackets after `by`")
            by = OrderBy(units[0].predicate, counted)
        self._end()
        return Query(HEADS[HEADS.index(head)], start, tuple(hops), tuple(which), by, 1 if limit is None else limit)

    def _filter(self, hops: list[Hop]) -> WalkFilter:
        """Read the rest of a filter after its hops, of which the last is its value if no operator follows."""
        operator = self._word(OPERATORS)
        values = self._units() if operator else hops[-1:]
        if len(values) != 1 or values[0].closure:
            raise self._error("a value in brackets")
        if not operator:
            hops = hops[:-1]
            if not hops:
                raise self._error(f"an operator ({', '.join(OPERATORS)}) or another name in brackets")
        return WalkFilter(tuple(hops), OPERATORS[OPERATORS.index(operator or "is")], values[0].predicate)

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
            yield f"<{part}>", Hop(part, "+" if closure == "+" else "*" if closure == "*" else "")
        at = match.end()


ValueKind = Literal["entity", "mixed", "time", "quantity", "coordinates", "text", "literal"]
"""The kind of a predicate's objects. `literal`: literals of several kinds, or of one that is not known."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate of the index: its `name`, the `id` of its property (`P57`; None: it has none), whether it reads that
    property backwards, and the kind of its objects.

    `also`: the ids of properties whose facts it has too, read backwards, since it is their inverse property (P1696):
    `child` has those of `father` and `mother`.
    """

    name: str
    id: str | None
    inverse: bool
    kind: ValueKind
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """A fact's object with its qualifiers: pairs of a name and a value, in the order in which they are written."""

    object: str
    qualifiers: Qualifiers = ()

    def values(self, names: Container[str]) -> list[str]:
        """Return the values of qualifiers with one of some names."""
        return [value for name, value in self.qualifiers if name in names]


class FactSet(Protocol):
    """Facts, by name. All methods raise as `refactx.Index.children` does."""

    def predicates(self, subject: str) -> Mapping[str, int]:
        """Return the predicates of a subject's facts, with the number of facts of each; empty if it has none.

        Those of a hub's inverse facts, which the index does not have, are there with the number of subjects.
        """
        ...

    def describe(self, predicates: Sequence[str]) -> Mapping[str, Predicate]:
        """Return predicates by name, without the names that are no predicate of the index."""
        ...

    def inverse_of(self, predicate: str) -> str | None:
        """Return the predicate that has the same facts, read the other way; None if there is none."""
        ...

    def link(self, name: str, id_: str | None) -> Link:
        """Return the link of a name and its id, with the address of its page."""
        ...

    def counts(self, subjects: Sequence[str], predicate: str) -> Sequence[int]:
        """Return how many facts each subject has with a predicate; a hub's inverse facts are counted too."""
        ...

    def is_hub(self, subject: str, predicate: str) -> bool:
        """Return whether the facts of a subject with a predicate are counted, but not in the index: a hub's inverse."""
        ...

    def objects(self, subjects: Sequence[str], predicate: str) -> Iterator[tuple[str, str]]:
        """Yield pairs of a subject and an object of its facts with a predicate, one subject after another, in order.

        They are read while they are taken, so a part of many is cheap. A hub's inverse facts are not among them.
        """
        ...

    @property
    def has_statements(self) -> bool:
        """Whether some facts have qualifiers."""
        ...

    def statements(self, subjects: Sequence[str], predicate: str) -> Iterator[tuple[str, str, Qualifiers]]:
        """Yield the subject, the object and the qualifiers of all facts with a predicate: none for a plain fact, which comes
        before those that it begins."""
        ...

    def hold(self, facts: Sequence[tuple[str, str, str]]) -> Sequence[bool]:
        """Return which facts (subject, predicate, object) exist."""
        ...

    def origins(self, subject: str, predicate: str, object_: str) -> Sequence[str]:
        """Return the indexes that have a fact, of several that are read as one; empty for a single one."""
        ...

    @property
    def size(self) -> int:
        """How many facts a scan reads."""
        ...

    @property
    def base(self) -> str | None:
        """The beginning of all IRIs of a Wikibase other than Wikidata; None of another graph."""
        ...

    def scan(
        self, ends: Sequence[tuple[str, str]], lasts: Callable[[], bool], most: int | None = None
    ) -> Sequence[tuple[str, str, str]]:
        """Return the facts (subject, predicate, object) that end in one of some pairs of a predicate and an object.

        All facts are read: for hubs, whose inverse facts do not exist. The scan stops if `lasts`, which is called now
        and then, returns False, and after `most` such facts.
        """
        ...

    def ids(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return the ids of entities and properties by name, without names that have none."""
        ...

    def names(self, ids: Sequence[str], *, inverse: bool = False) -> Mapping[str, str]:
        """Return the names of entities and properties by id, without ids that the index does not name.

        With `inverse`: the names of predicates that read these properties backwards. Such a predicate may be that of
        another property.
        """
        ...
