"""The walk language: queries as values, their lines, and the protocol of facts that they are asked of.

A walk begins at an entity and follows predicates, as facts are written: `<Louisiana> <nickname>` is the set of objects
of all facts that begin so. So a query needs no variables, its parts are names of the index, and the tree answers it.
Predicates that read a property backwards (`director of`) have names of their own, so each hop goes from subject to
object. `refactx.walks.language` writes walks as text, `refactx.walks.sparql_text` as SPARQL,
`refactx.walks.evaluate` answers them.

line      = head [number] walk filter* ["by" value] ["per" hop+ groups] ["show" value+] " ."
          | "difference" walk "and" walk ["by" value] " ."
    walk      = <start> ("or" <start>)* hop*
    hop       = <predicate> ["+" | "*"] statement* ["its" qualifier]
    statement = "at" <time> | "between" <time> "and" <time> | "now" | "earliest" | "latest" | "being" <object>
              | "with" <qualifier> [operator] <value>
    qualifier = <qualifier> | "duration"
    filter    = "which" ["not"] ["count"] hop* [operator] (<value> ("or" <value>)* | <start> hop+)
    value     = ["count"] (<predicate> "/")* <predicate> | "its" qualifier
    groups    = [operator <number>] [("most" | "least") [number]]
    operator  = "is" | "equals" | "over" | "under" | "from" | "up to" | "starts with" | "contains"

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
from refactx.fact import Link, LinkedFact, Qualifiers, written_part

Head = Literal["list", "count", "ask", "most", "least", "sum", "average", "difference"]
"""What is asked: the members of the set, their number, whether there are any, those that come last or first, the sum or the
average of what they have, or how much more one has than another."""

Closure = Literal["", "+", "*"]
"""How often a hop is made: once, at least once, or any number of times."""

Operator = Literal["is", "equals", "over", "under", "from", "up to", "starts with", "contains"]
"""How a filter compares: `is` compares names, `equals` to `up to` compare values, the others compare text."""

StatementWord = Literal["at", "between", "now", "earliest", "latest", "being", "with"]
"""Which statements a hop is made by: those that hold at a time, now, first or last, of an object, or with a qualifier."""

HEADS: tuple[Head, ...] = get_args(Head)
ASKED_HEADS: tuple[Head, ...] = ("list", "count", "ask", "most", "least")
"""The heads of the queries that questions are given, and that models write."""
OPERATORS: tuple[Operator, ...] = get_args(Operator)
_VALUES: dict[StatementWord, int] = {"at": 1, "between": 2, "now": 0, "earliest": 0, "latest": 0, "being": 1, "with": 2}
BOUNDS: tuple[Operator, ...] = ("over", "under", "from", "up to")
"""The operators of what has an order. `from` and `up to` admit their value too."""
_OF_NUMBERS: tuple[Operator, ...] = ("equals", *BOUNDS)
_MEASURED = ("most", "least", "sum", "average")
DURATION = ""
"""In place of a qualifier's name: how long a statement holds."""
TERMINATOR = " ."
_TOKEN = re.compile(r"\s*(?:<([^<>]*)>([+*]?)|(/|(?:starts\s+with|up\s+to|[A-Za-z]+|\d+|\.)(?=\s|<|$)))")
_BEGINS = re.compile(rf"\s*(?:{'|'.join(HEADS)})(?:\s+\d+)?\s*<")
LONGEST, _DIGITS, _SHOWN = 10_000, 9, 200
_EXAMPLE = "count <Louisiana> <nickname> ."


class QueryError(InputError):
    """A query that cannot be read, or cannot be answered in the index."""


@dataclass(frozen=True, slots=True)
class StatementFilter:
    """A condition on the statements that a hop is made by.

    `values`: the time after `at`, the two after `between`, the object after `being`, the qualifier and its value after
    `with`; `operator`: how `with` compares. Raises QueryError for another number of values.
    """

    word: StatementWord
    values: tuple[str, ...] = ()
    operator: Operator = "is"

    def __post_init__(self) -> None:
        if len(self.values) != _VALUES[self.word] or (self.operator != "is" and self.word != "with"):
            raise QueryError(f"`{self.word}` is followed by {_VALUES[self.word]} names, not by {len(self.values)}")


@dataclass(frozen=True, slots=True)
class Hop:
    """A step from each member of a set to the objects of its facts with a predicate.

    `predicate`: its name in the index; `closure`: how often the step is made; `where`: what the statements say by which
    it is made; `its`: the qualifier of theirs that it leads to in place of the object, or `DURATION`. Raises QueryError for
    a closure over statements.
    """

    predicate: str
    closure: Closure = ""
    where: tuple[StatementFilter, ...] = ()
    its: str | None = None

    def __post_init__(self) -> None:
        if self.closure and self.has_statements:
            raise QueryError(f"<{self.predicate}>{self.closure} is made any number of times: leave out its statements")

    @property
    def has_statements(self) -> bool:
        """Whether qualifiers are read."""
        return bool(self.where) or self.its is not None


@dataclass(frozen=True, slots=True)
class Walk:
    """The set to which hops lead from a start."""

    start: str
    hops: tuple[Hop, ...] = ()


@dataclass(frozen=True, slots=True)
class WalkFilter:
    """A filter: the members from which `hops` lead to an object that compares with `value`.

    Without hops the member itself is compared. `value`: an entity's name for `is`, or a literal as facts have it. Text
    is compared without the case of letters, and without the description in a name. `than`: hops from an entity `value` to
    what is compared with, of which one has to compare. `counted`: the numbers of what hops lead to are compared;
    `negated`: the members are those that the filter does not admit. `also`: further values.
    """

    hops: tuple[Hop, ...]
    operator: Operator
    value: str
    than: tuple[Hop, ...] = ()
    counted: bool = False
    negated: bool = False
    also: tuple[str, ...] = ()

    @property
    def values(self) -> tuple[str, ...]:
        """The values of which one has to compare."""
        return (self.value, *self.also)

    def __post_init__(self) -> None:
        if self.also and (self.counted or self.than):
            raise QueryError("`or` stands between values, not after a set or a number: write one filter for each")
        if self.counted and not (self.hops and self.operator in _OF_NUMBERS):
            raise QueryError(f"`which count` is followed by predicates, and then {', '.join(_OF_NUMBERS)}")


@dataclass(frozen=True, slots=True)
class MemberValue:
    """What members are sorted by, summed or shown with: the values of their facts with a predicate, or (`counted`) how many
    there are. `its`: the predicate is a qualifier, or `DURATION`, of the statements of the last hop to the set. `via`: the
    predicates that lead from members to what has the values, as a price has an amount."""

    predicate: str
    counted: bool = False
    its: bool = False
    via: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.counted and self.its:
            raise QueryError("facts are counted, not qualifiers: write `by count <predicate>`")
        if self.its and self.via:
            raise QueryError("qualifiers are those of the members' own statements: write `its <qualifier>` alone")

    @property
    def path(self) -> tuple[str, ...]:
        """The predicates from a member to its values."""
        return (*self.via, self.predicate)

    @property
    def hops(self) -> tuple[Hop, ...]:
        """The hops from a member to its values."""
        return tuple(map(Hop, self.path))


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of members by what `hops` lead to from them. `operator`, `value`: the bound on the number of a group, if it has
    one; `order`: whether those with the most or least come first, else they are in their own order; `limit`: how many; 0:
    all."""

    hops: tuple[Hop, ...]
    operator: Operator | None = None
    value: str = ""
    order: Literal["", "most", "least"] = ""
    limit: int = 0

    def __post_init__(self) -> None:
        if not self.hops:
            raise QueryError("groups need a predicate in brackets after `per`")
        if self.operator not in (None, *_OF_NUMBERS):
            raise QueryError(f"groups are bounded by {', '.join(_OF_NUMBERS)}, not by {self.operator}")
        if self.limit and not self.order:
            raise QueryError("a number of groups follows `most` or `least`")


@dataclass(frozen=True, slots=True)
class Query:
    """A query. `start`: the name of an entity; `hops`: the steps from it to the set; `which`: its filters, of which all
    have to hold; `by`: what `most`, `least`, `sum` and `average` are about, and maybe `difference`; of `most` and `least`
    the first `limit` are asked for. `also`: further starts; `per`: what members are grouped by; `show`: the columns of a
    table of them; `minus`: the set that `difference` is to.

        >>> Query("count", "Louisiana", (Hop("nickname"),)).head
        'count'

    Raises QueryError if the parts do not fit together.
    """

    head: Head
    start: str
    hops: tuple[Hop, ...] = ()
    which: tuple[WalkFilter, ...] = ()
    by: MemberValue | None = None
    limit: int = 1
    also: tuple[str, ...] = ()
    per: Groups | None = None
    show: tuple[MemberValue, ...] = ()
    minus: Walk | None = None

    def __post_init__(self) -> None:
        if self.head not in HEADS:
            raise QueryError(f"a query begins with one of {', '.join(HEADS)}, not with {self.head!r}")
        if self.limit < 1:
            raise QueryError(f"the {self.limit} first members were asked for: give at least 1")
        if (self.by is not None) != (self.head in _MEASURED) and not (self.by and self.head == "difference"):
            raise QueryError(
                "queries for most and least, sum and average end in `by <predicate>`, those for a difference may, and others "
                "do not"
            )
        if self.limit > 1 and self.head not in ("most", "least"):
            raise QueryError("only queries for most and least have a number of members")
        self._check_sets()
        self._check_tables()

    @property
    def walks(self) -> tuple[Walk, ...]:
        """All walks in it: from its starts, from the values of filters, and those of filters and groups, which have no
        start of their own (an empty name)."""
        found = [Walk(start, self.hops) for start in (self.start, *self.also)]
        found += [self.minus] if self.minus else []
        found += [Walk(one.value, one.than) for one in self.which if one.than]
        found += [Walk("", one.hops) for one in self.which]
        return (*found, Walk("", self.per.hops)) if self.per else tuple(found)

    def _check_sets(self) -> None:
        if self.head == "difference":
            if self.minus is None or self.which or self.also:
                raise QueryError("a difference is one of two walks: write `difference <A> <height> and <B> <height>`")
            if not self.by and not (self.hops and self.minus.hops):
                raise QueryError("a difference is one of values: write `difference <A> and <B> by <height>`")
        elif self.minus is not None:
            raise QueryError("only a difference has two walks: give several starts with `or`")
        elif not self.hops and not self.also and (self.head != "ask" or not self.which):
            raise QueryError(
                f"a query goes from its start over at least one predicate: write one after <{self.start}>, as in "
                "`list <Louisiana> <nickname>`"
            )
        if self.head == "ask" and len(self.hops) > 1:
            raise QueryError("a query for ask has at most one predicate before `which`")

    def _check_tables(self) -> None:
        if self.per is not None and self.head not in ("count", *_MEASURED):
            raise QueryError("groups (`per <predicate>`) are those of count, sum, average, most and least")
        if self.per is not None and self.head in ("most", "least") and (self.per.operator or self.per.order):
            raise QueryError(
                f"the groups of {self.head} have no bound and no order: give them to count, sum or average"
            )
        if self.show and (self.head not in ("list", "most", "least") or self.per is not None):
            raise QueryError("columns (`show <predicate>`) are those of list, most and least, without groups")
        if any(one.its for one in (*self.show, *([self.by] if self.by else []))) and (
            not self.hops or self.hops[-1].closure
        ):
            raise QueryError("`its` is about the statements of the last predicate, which is made once: write one")


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
    parts += [" or ".join(f"<{start}>" for start in (query.start, *query.also)), *map(_hop, query.hops)]
    if query.minus is not None:
        parts += ["and", f"<{query.minus.start}>", *map(_hop, query.minus.hops)]
    for number, which in enumerate(query.which):
        parts += ["which" if query.hops or query.head != "ask" else "and" if number else "", *_filter_parts(which)]
    if query.by is not None:
        parts += ["by", _value(query.by)]
    if query.per is not None:
        parts += ["per", *map(_hop, query.per.hops)]
        parts += [query.per.operator, f"<{query.per.value}>"] if query.per.operator else []
        parts += [query.per.order, str(query.per.limit or "")]
    if query.show:
        parts += ["show", *map(_value, query.show)]
    return " ".join(part for part in parts if part)


def _filter_parts(which: WalkFilter) -> Iterator[str]:
    yield "not" if which.negated else ""
    yield "count" if which.counted else ""
    yield from map(_hop, which.hops)
    yield "" if which.operator == "is" and which.hops and not which.than else which.operator
    yield " or ".join(f"<{value}>" for value in which.values)
    yield from map(_hop, which.than)


def _hop(hop: Hop) -> str:
    parts = [f"<{hop.predicate}>{hop.closure}"]
    for one in hop.where:
        names = [f"<{value}>" for value in one.values]
        between = {"between": "and", "with": "" if one.operator == "is" else one.operator}.get(one.word, "")
        parts += [one.word, *names[:1], between, *names[1:]]
    parts += [] if hop.its is None else ["its", _qualifier(hop.its)]
    return " ".join(part for part in parts if part)


def _value(value: MemberValue) -> str:
    if value.its:
        return f"its {_qualifier(value.predicate)}"
    return ("count " if value.counted else "") + "/".join(f"<{name}>" for name in value.path)


def _qualifier(name: str) -> str:
    return f"<{name}>" if name else "duration"


def is_line(text: str) -> bool:
    """Return whether a text begins as the line of a query, and is no question in words.

    >>> is_line("most 3 <river> <has instance> by <length>"), is_line("count the nicknames of Louisiana")
    (True, False)
    """
    return _BEGINS.match(text) is not None


def read_line(text: str) -> Query:
    """Return the query that a line is, with or without its terminator.

    Raises QueryError, which says what was found and what was expected.

    >>> query = read_line("most 3 <river> <has instance> which <continent> <Africa> by <length> .")
    >>> query.head, query.start, query.limit, query.by.predicate
    ('most', 'river', 3, 'length')
    >>> query.which == (WalkFilter((Hop("continent"),), "is", "Africa"),)
    True
    """
    if len(text) > LONGEST:
        raise QueryError(f"the query has {len(text):,} characters: write it with at most {LONGEST:,}")
    return _Reader(text).query()


class _Reader:
    """The tokens of a line: names in brackets with the sign after them, and words."""

    def __init__(self, text: str) -> None:
        self._text, self._tokens, self._at = text.strip(), list(_tokens(text)), 0

    def query(self) -> Query:
        head = self._word(HEADS)
        if head is None:
            raise self._error(f"one of {', '.join(HEADS)}")
        limit = self._number()
        starts = [self._name("a name in brackets to start from")]
        while self._word(("or",)):
            starts.append(self._name("another start in brackets"))
        hops, which, minus = self._hops(), list[WalkFilter](), None
        if head == "ask" and (len(hops) > 1 or self._peek((*OPERATORS, "not", "count"))):
            which, hops = [self._filter(hops)], []
        if head == "difference" and self._word(("and",)):
            minus = Walk(self._name("a name in brackets to start from"), tuple(self._hops()))
        joins = ("and", "which") if which else ("which",)
        while self._word(joins):
            which.append(self._filter())
        by = self._value("one predicate in brackets after `by`") if self._word(("by",)) else None
        per = self._groups() if self._word(("per",)) else None
        show = tuple(self._columns()) if self._word(("show",)) else ()
        self._end()
        return Query(
            HEADS[HEADS.index(head)],
            starts[0],
            tuple(hops),
            tuple(which),
            by,
            1 if limit is None else limit,
            tuple(starts[1:]),
            per,
            show,
            minus,
        )

    def _filter(self, hops: Sequence[Hop] = ()) -> WalkFilter:
        """Read the rest of a filter after its hops, of which the last is its value if no operator follows."""
        negated = not hops and self._word(("not",)) is not None
        counted = not hops and self._word(("count",)) is not None
        hops = hops or self._hops()
        operator = self._word(OPERATORS)
        if operator:
            value, than = self._name("a value in brackets"), self._hops()
        else:
            if hops and hops[-1] != Hop(hops[-1].predicate):
                raise self._error("a value in brackets")
            if len(hops) < 2:
                raise self._error(f"an operator ({', '.join(OPERATORS)}) or another name in brackets")
            value, than, hops = hops[-1].predicate, [], hops[:-1]
        also = list[str]()
        while self._word(("or",)):
            also.append(self._name("another value in brackets"))
        how = OPERATORS[OPERATORS.index(operator or "is")]
        return WalkFilter(tuple(hops), how, value, tuple(than), counted, negated, tuple(also))

    def _value(self, expected: str) -> MemberValue:
        if self._word(("its",)):
            return MemberValue(self._qualifier(), its=True)
        counted, path = self._word(("count",)) is not None, [self._name(expected)]
        while self._word(("/",)):
            path.append(self._name("a predicate in brackets after `/`"))
        return MemberValue(path[-1], counted, via=tuple(path[:-1]))

    def _columns(self) -> Iterator[MemberValue]:
        yield self._value("a predicate in brackets after `show`")
        while self._is_name() or self._peek(("its", "count")):
            yield self._value("a predicate in brackets after `show`")

    def _groups(self) -> Groups:
        hops = tuple(self._hops())
        operator = self._word(_OF_NUMBERS)
        value = self._name("a number in brackets") if operator else ""
        order, limit = self._word(("most", "least")), None
        if order:
            limit = self._number()
        return Groups(
            hops,
            OPERATORS[OPERATORS.index(operator)] if operator else None,
            value,
            "most" if order == "most" else "least" if order else "",
            limit or 0,
        )

    def _statements(self) -> Iterator[StatementFilter]:
        while (word := self._word(tuple(_VALUES))) is not None:
            kind, values, operator = next(one for one in _VALUES if one == word), list[str](), None
            if _VALUES[kind]:
                values.append(self._name(f"a name in brackets after `{word}`"))
            if kind == "with":
                operator = self._word(OPERATORS)
            elif kind == "between" and not self._word(("and",)):
                raise self._error("`and` and another time")
            if _VALUES[kind] == 2:
                values.append(self._name("a value in brackets"))
            yield StatementFilter(kind, tuple(values), OPERATORS[OPERATORS.index(operator or "is")])

    def _qualifier(self) -> str:
        return (
            DURATION if self._word(("duration",)) else self._name("a qualifier in brackets, or `duration`, after `its`")
        )

    def _number(self) -> int | None:
        word = self._tokens[self._at][0] if self._at < len(self._tokens) else ""
        if not word.isdecimal():
            return None
        if len(word) > _DIGITS:
            raise QueryError(f"a number of members has at most {_DIGITS} digits")
        self._at += 1
        return int(word)

    def _end(self) -> None:
        if self._at < len(self._tokens) and self._tokens[self._at][0] == ".":
            self._at += 1
        if self._at < len(self._tokens):
            raise self._error("the end, ` .`")

    def _is_name(self) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at][1] is not None

    def _name(self, expected: str) -> str:
        hop = self._tokens[self._at][1] if self._at < len(self._tokens) else None
        if hop is None:
            raise self._error(expected)
        if hop.closure:
            raise QueryError(f"{hop.closure} stands after a predicate to follow, not after the start <{hop.predicate}>")
        self._at += 1
        return hop.predicate

    def _hops(self) -> list[Hop]:
        found: list[Hop] = []
        while self._at < len(self._tokens) and (hop := self._tokens[self._at][1]) is not None:
            self._at += 1
            where = tuple(self._statements())
            its = self._qualifier() if self._word(("its",)) else None
            found.append(Hop(hop.predicate, hop.closure, where, its))
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
    """A fact's object with its qualifiers: pairs of a name and a value, in the order in which they are written. `is_best`:
    whether the plain fact exists too, as it does for statements of the best rank."""

    object: str
    qualifiers: Qualifiers = ()
    is_best: bool = True

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

    def with_references(self, facts: Sequence[LinkedFact]) -> Sequence[LinkedFact]:
        """Return facts with their references."""
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
