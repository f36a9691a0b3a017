"""The ways to read the units of a query's line so far, and the units that may follow each.

A *unit* is a word, or a name in brackets with the sign after it: `count`, `<nickname>`, `<part of>+`, `which`. A line can
have two readings: in `ask <Ann> <spouse>`, the predicate is a hop to the set, or one of a filter whose value follows. The
units that may follow a line are those of all its readings, and a unit leads to the readings that have it.

Each reading is one that `refactx.walks.language` has too, with limits: at most two hops to the set and two in a filter, three
filters, and no filters of text (`starts with`, `contains`). A hop to the set may have one condition on its statements (not
`between`), and may lead to a qualifier; sums, groups, columns and differences are not written.

A *literal* is ` <`, a quantity or a time as facts write it, and `>`. It need not be one of the index, since `over <30>`
compares with any number. Its tokens are not those of a tokenizer's own encoding alone: any tokens that write it will do.

What can follow a set is seen in a *sample*, a few members. A set of at most `MOST_MEMBERS` members is its own sample; of a
larger one, what the sample shows is taken for all. So a query may have an empty answer, or be refused when it is
answered, such as for a hub that the sample does not have.
"""

import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Generic, TypeVar

import numpy as np

from refactx.tree.tree import Tokens
from refactx.walks.filters import CompiledFilter
from refactx.walks.language import (
    ASKED_HEADS,
    TERMINATOR,
    Closure,
    FactSet,
    Head,
    Hop,
    Operator,
    Predicate,
    QueryError,
    StatementFilter,
    StatementWord,
    ValueKind,
    WalkFilter,
)
from refactx.walks.sets import LITERALS, Budget, StatementEdge, WalkLimits, Walks
from refactx.walks.values import Ordered, order_of, parse_quantity, parse_time, sort_key

Value = TypeVar("Value")
_MONTH, _DAY = r"(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12]\d|3[01])"
_WHOLE: dict[Ordered, re.Pattern[str]] = {
    "quantity": re.compile(r"-?\d{1,15}(\.\d{1,9})?", re.ASCII),
    "time": re.compile(rf"\d{{1,4}}( BCE|-{_MONTH}(-{_DAY})?)?", re.ASCII),
}
_BEGUN: dict[Ordered, re.Pattern[str]] = {
    "quantity": re.compile(r"-?(\d{1,15}(\.\d{0,9})?)?", re.ASCII),
    "time": re.compile(rf"\d{{0,4}}|\d{{1,4}}( (B(CE?)?)?|-([01]|{_MONTH})?|-{_MONTH}-([0-3]|{_DAY})?)", re.ASCII),
}
_PIECE = re.compile(rb" ?<?[-0-9. BCE]*>?")
_OPENED, _CLOSED = " <", ">"
MOST_MEMBERS = 200
"""The most members of a sample: each is looked up by itself."""
MOST_VALUES = 1000
"""The most values of a filter that are offered one by one, and that are read to find their order."""
PROBED = 2
"""The most objects that are looked at to decide whether a hop can be made again."""
END = TERMINATOR.strip()
MOST_HOPS = 2
MOST_CONDITIONS = 1
"""The most conditions on the statements of a hop."""
_UNTIMED: tuple[StatementWord, ...] = ("now", "earliest", "latest")
MOST_FILTERS = 3
MOST_LIMIT = 100
"""The most members that `most` and `least` ask for."""
MOST_RANKED = WalkLimits().members
"""The most members of a set of which the first ones can be found."""
_OPERATORS: tuple[Operator, ...] = ("is", "equals", "over", "under")
_SIGNS: tuple[Closure, ...] = ("", "+", "*")


class Memo(Generic[Value]):
    """A memo of at most `most` values; the one that was not used for the longest time leaves first.

    `state`: returns a value that changes whenever all others have to be computed again. Safe to share between threads.

    >>> memo = Memo(2, lambda: None)
    >>> [memo.get(key, lambda: key.upper()) for key in "aba"]
    ['A', 'B', 'A']
    """

    def __init__(self, most: int, state: Callable[[], object]) -> None:
        self._most, self._state_of, self._state = most, state, state()
        self._lock = threading.Lock()
        self._values: dict[Hashable, Value] = {}  # the one used last at the end

    def get(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """Return the value of a key, which `compute` returns if it is not there. Raises as `compute` does."""
        state = self._state_of()
        with self._lock:
            if state != self._state:
                self._state, self._values = state, {}
            if key in self._values:
                value = self._values[key] = self._values.pop(key)
                return value
        value = compute()  # without the lock, since it may wait for the database
        with self._lock:
            if state == self._state:
                self._values[key] = value
                while len(self._values) > self._most:
                    del self._values[next(iter(self._values))]
        return value


@dataclass(frozen=True, slots=True)
class Choices:
    """The units that may follow: `texts`; with `subjects` also the name of any subject of the index, in brackets; with
    `literals` also numbers or times that a model writes by itself."""

    texts: frozenset[str] = frozenset()
    subjects: bool = False
    literals: frozenset[Ordered] = frozenset()

    def __or__(self, other: "Choices") -> "Choices":
        return Choices(self.texts | other.texts, self.subjects or other.subjects, self.literals | other.literals)

    def __bool__(self) -> bool:
        return bool(self.texts or self.subjects or self.literals)


def name_of(unit: str) -> str:
    """Return the name in a unit."""
    return unit[1:-1]


def unit_of(hop: Hop) -> str:
    """Return a hop as a unit.

    >>> unit_of(Hop("part of", "+"))
    '<part of>+'
    """
    return f"<{hop.predicate}>{hop.closure}"


def hop_of(unit: str) -> Hop:
    """Return the hop that a unit is.

    >>> hop_of("<part of>+") == Hop("part of", "+"), hop_of("<c++>").predicate
    (True, 'c++')
    """
    sign = next(sign for sign in ("+", "*", "") if unit.endswith(f">{sign}"))
    return Hop(unit[1:].removesuffix(f">{sign}"), "+" if sign == "+" else "*" if sign == "*" else "")


class Literals:
    """The tokens that write quantities and times in brackets. `token_bytes`: the bytes of each id, by id."""

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        self._token_bytes = token_bytes

    def text_of(self, ids: Iterable[int]) -> str | None:
        """Return the text of ids; None if one of them has no text, as special tokens."""
        table = self._token_bytes
        pieces = [table[token] if token < len(table) else b"" for token in ids]
        return b"".join(pieces).decode("utf-8", "replace") if all(pieces) else None

    def after(self, begun: str, kinds: Collection[Ordered]) -> Tokens:
        """Return the ids that may continue a value of which `begun` is written: int32[n], ascending.

        >>> literals = Literals([b" <", b" ", b"<", b"1", b"x", b"90>", b">", b"-"])
        >>> literals.after("", ["time"]).tolist(), literals.after(" <", ["time"]).tolist()
        ([0, 1], [3, 5])
        >>> literals.after(" <1", ["time"]).tolist(), literals.after(" <1", ["quantity"]).tolist()
        ([1, 3, 5, 6, 7], [3, 5, 6])
        """
        found = [token for token, piece in self._pieces if may_begin(begun + piece, kinds)]
        return np.array(found, np.int32)

    @cached_property
    def _pieces(self) -> list[tuple[int, str]]:
        return [
            (token, piece.decode())
            for token, piece in enumerate(self._token_bytes)
            if piece and _PIECE.fullmatch(piece)
        ]


def may_begin(text: str, kinds: Collection[Ordered]) -> bool:
    """Return whether a text is the beginning of a value of one of some kinds, or all of it.

    >>> may_begin(" <199", ["time"]), may_begin(" <1990-13", ["time"]), may_begin(" <>", ["quantity"])
    (True, False, False)
    """
    if len(text) <= len(_OPENED):
        return _OPENED.startswith(text)
    body = text.removeprefix(_OPENED)
    if body == text:
        return False
    patterns = _WHOLE if body.endswith(_CLOSED) else _BEGUN
    return any(patterns[kind].fullmatch(body.removesuffix(_CLOSED)) for kind in kinds)


@dataclass(frozen=True, slots=True)
class Sample:
    """Some members of a set, in order. `is_whole`: whether they are all of it; `kind`: that of the members."""

    members: tuple[str, ...]
    is_whole: bool = True
    kind: ValueKind = "entity"

    @property
    def has_facts(self) -> bool:
        """Whether members may have facts of their own."""
        return self.kind not in LITERALS


class Samples:
    """Samples of the sets of an index. `predicates`: keeps those of subjects. Methods raise as those of `facts` do."""

    def __init__(self, facts: FactSet, predicates: Memo[dict[str, int]]) -> None:
        self.facts, self._predicates = facts, predicates

    def predicates(self, subject: str) -> dict[str, int]:
        """Return the predicates of a subject, each with its number of facts, those of a hub too."""
        return self._predicates.get(subject, lambda: dict(self.facts.predicates(subject)))

    def kind(self, predicate: str) -> ValueKind:
        """Return the kind of a predicate's objects; `mixed` if it is not known."""
        described = self._described(predicate)
        return described.kind if described else "mixed"

    def all_predicates(self, sample: Sample) -> dict[str, int]:
        """Return the predicates of the members of a sample, each with the number of their facts, those of hubs too."""
        found: dict[str, int] = {}
        for member in sample.members[:MOST_MEMBERS] if sample.has_facts else ():
            for predicate, count in self.predicates(member).items():
                found[predicate] = found.get(predicate, 0) + count
        return found

    def readable(self, sample: Sample) -> dict[str, int]:
        """Return the predicates of the members whose facts are all in the index, each with the number of these."""
        members = sample.members[:MOST_MEMBERS]
        return {name: n for name, n in self.all_predicates(sample).items() if not self._has_hub(members, name)}

    def follow(self, sample: Sample, hop: Hop, most: int = MOST_MEMBERS) -> Sample | None:
        """Return a sample of the set to which a hop leads; None if the facts of a hub would be needed."""
        begin = sample.members[:MOST_MEMBERS]
        if hop.has_statements:
            members = tuple(dict.fromkeys(edge.member for edge in self._edges(sample, hop)))
            kind = Walks(self.facts, Budget(WalkLimits())).kind_after(hop)
            return Sample(members[:most], sample.is_whole and len(sample.members) == len(begin), kind)
        found, seen = dict.fromkeys(begin if hop.closure == "*" else ()), set(begin)
        new: Sequence[str] = begin
        while new and len(found) <= most:
            having = [member for member in new if hop.predicate in self.predicates(member)]
            if self._has_hub(having, hop.predicate):
                return None
            new = []
            for _, member in self.facts.objects(having, hop.predicate) if having else ():
                found[member] = None
                if len(found) > most:
                    break
                if hop.closure and member not in seen:
                    seen.add(member)
                    new.append(member)
        is_whole = sample.is_whole and len(sample.members) == len(begin) and len(found) <= most
        return Sample(tuple(islice(found, most)), is_whole, self.kind(hop.predicate))

    def qualifiers(self, sample: Sample, hop: Hop) -> list[str]:
        """Return the qualifiers of the statements that a hop is made by, in their order; none if it is made by plain facts."""
        if hop.closure or not self.facts.has_statements:
            return []
        stated = self._edges(sample, replace(hop, its=None))
        return list(dict.fromkeys(name for edge in stated for name, _ in edge.statement.qualifiers))

    def _edges(self, sample: Sample, hop: Hop) -> list[StatementEdge]:
        walks = Walks(self.facts, Budget(WalkLimits(scanned=0)))
        members = [one for one in sample.members[:MOST_MEMBERS] if hop.predicate in self.predicates(one)]
        try:
            found = walks.edges(members, hop)
        except QueryError:  # a hub, or values that do not compare
            return []
        return [edge for member in members for edge in found[member]]

    def can_repeat(self, sample: Sample, predicate: str) -> bool:
        """Return whether a hop over a predicate can be made again after it, as a closure does: a few objects show it.

        Those of an inverse predicate are all followed, since one of them may be a hub.
        """
        if self.kind(predicate) in LITERALS:
            return False
        having = [member for member in sample.members[:MOST_MEMBERS] if predicate in self.predicates(member)]
        few = replace(sample, members=tuple(having[:PROBED]))
        once = self.follow(few, Hop(predicate), PROBED)
        if once is None or not any(predicate in self.predicates(member) for member in once.members):
            return False
        described = self._described(predicate)
        is_inverse = described is not None and described.inverse
        return not is_inverse or self.follow(sample, Hop(predicate, "+")) is not None

    def narrow(self, sample: Sample, which: WalkFilter) -> Sample:
        """Return the members that a filter admits; all, if it admits none."""
        walks = Walks(self.facts, Budget(WalkLimits(scanned=0)))
        try:
            members = tuple(CompiledFilter(walks, which, sample.kind).matching(sample.members))
        except QueryError:
            return sample
        return replace(sample, members=members) if members else sample

    def with_facts(self, sample: Sample) -> Sample:
        """Return the members that have facts: no others can be sorted."""
        members = [member for member in sample.members if self.predicates(member)] if sample.has_facts else []
        return replace(sample, members=tuple(members))

    def is_ordered(self, sample: Sample, predicate: str) -> bool:
        """Return whether members can be sorted by the values of a predicate. Text is not read: too many are names."""
        kind, place = self.kind(predicate), f"<{predicate}>"
        if kind == "text":
            return False
        try:
            order_of((), kind, place)  # before any is read: some kinds have no order
            values = self.follow(sample, Hop(predicate), MOST_VALUES)
            members = values.members if values else ()
            order = order_of(members, kind, place)
        except QueryError:
            return False
        return any(sort_key(value, order) is not None for value in members)

    def _has_hub(self, members: Sequence[str], predicate: str) -> bool:
        described = self._described(predicate)
        if described is None or not described.inverse:
            return False
        having = [member for member in members if predicate in self.predicates(member)]
        if len(having) > 1:
            self.facts.counts(having, predicate)  # looks up all hubs at once, before each is asked for
        return any(self.facts.is_hub(member, predicate) for member in having)

    def _described(self, predicate: str) -> Predicate | None:
        return self.facts.describe([predicate]).get(predicate)


def orders_of(values: Iterable[str], kind: ValueKind) -> frozenset[Ordered]:
    """Return the ordered kinds that some values can be read as, given the kind of a predicate's objects.

    >>> sorted(orders_of(["1990", "1990-05"], "literal")), sorted(orders_of(["1990"], "time"))
    (['quantity', 'time'], ['time'])
    """
    present, found = list(values), set[Ordered]()
    if kind in ("time", "literal", "mixed") and any(parse_time(value) is not None for value in present):
        found.add("time")
    if kind in ("quantity", "literal", "mixed") and any(parse_quantity(value) is not None for value in present):
        found.add("quantity")
    return frozenset(found)


class Reading(ABC):
    """A way to read the units of a line so far."""

    __slots__ = ()

    @abstractmethod
    def choices(self, samples: Samples) -> Choices:
        """Return the units that may follow."""

    @abstractmethod
    def after(self, unit: str, samples: Samples) -> Iterator["Reading"]:
        """Yield the readings after one more unit; none if it may not follow."""


@dataclass(frozen=True, slots=True)
class Beginning(Reading):
    """A line before its start. `head`: None at its beginning; `has_limit`: after the number of members."""

    head: Head | None = None
    has_limit: bool = False

    def choices(self, samples: Samples) -> Choices:
        if self.head is None:
            return Choices(frozenset(ASKED_HEADS))
        return Choices(self._limits, subjects=True)

    def after(self, unit: str, samples: Samples) -> Iterator[Reading]:
        if self.head is None:
            yield from (Beginning(head) for head in ASKED_HEADS if head == unit)
        elif unit in self._limits:
            yield Beginning(self.head, has_limit=True)
        else:
            yield Walked(self.head, Sample((name_of(unit),)))

    @property
    def _limits(self) -> frozenset[str]:
        is_ranked = self.head in ("most", "least") and not self.has_limit
        return frozenset(map(str, range(2, MOST_LIMIT + 1))) if is_ranked else frozenset()


@dataclass(frozen=True, slots=True)
class Walked(Reading):
    """A line up to its start, its last hop or its last filter. `members`: those of the set so far.

    `hops`, `filters`: how many it has; `start`: None before the first hop; `is_hub`: the set is counted, but not in the
    index.
    """

    head: Head
    members: Sample
    hops: int = 0
    filters: int = 0
    start: str | None = None
    is_hub: bool = False

    def choices(self, samples: Samples) -> Choices:
        return Choices(frozenset([*self._words(samples), *map(unit_of, self._hops(samples))]))

    def after(self, unit: str, samples: Samples) -> Iterator[Reading]:
        if unit == END:
            yield Ended()
        elif unit in ("which", "and"):
            yield Filtering(self, self.members, has_word=unit == "which")
        elif unit == "by":
            yield Sorting(self)
        elif self._may_hop and unit.startswith("<") and hop_of(unit).predicate in samples.all_predicates(self.members):
            yield self.walked(hop_of(unit), samples)
            if not self.is_ranked and samples.qualifiers(self.members, hop_of(unit)):
                yield Stating(self, hop_of(unit))
            if self.head == "ask" and not self.hops:
                yield from Filtering(self, self.members).after(unit, samples)

    @property
    def is_ranked(self) -> bool:
        """Whether members are sorted."""
        return self.head in ("most", "least")

    @property
    def _may_hop(self) -> bool:
        return not self.filters and not self.is_hub and self.hops < (1 if self.head == "ask" else MOST_HOPS)

    def _words(self, samples: Samples) -> Iterator[str]:
        if not (self.hops or self.filters):
            return
        yield "by" if self.is_ranked else END
        if not self.is_hub and self.filters < MOST_FILTERS:
            word = "which" if self.hops else "and"
            if Filtering(self, self.members, has_word=word == "which").is_possible(samples):
                yield word

    def _hops(self, samples: Samples) -> list[Hop]:
        if not self._may_hop:
            return []
        readable = samples.readable(self.members)
        found = [
            Hop(predicate, sign)
            for predicate, count in readable.items()
            for sign in (_SIGNS if samples.can_repeat(self.members, predicate) else ("",))
            if not self.is_ranked
            or (
                count <= MOST_RANKED
                and (reached := samples.follow(self.members, Hop(predicate, sign))) is not None
                and (reached.is_whole or not sign)  # a closure has few members
                and samples.with_facts(reached).members
            )
        ]
        if not self.hops:
            (start,) = self.members.members
            if self.head in ("count", "ask") or not found:  # the facts of hubs are counted
                found += [Hop(predicate) for predicate in samples.predicates(start) if Hop(predicate) not in found]
        return found

    def walked(self, hop: Hop, samples: Samples) -> "Walked":
        reached = samples.follow(self.members, hop)
        start = self.members.members[0] if self.start is None else self.start
        if reached is None:
            return replace(self, members=Sample(()), hops=self.hops + 1, start=start, is_hub=True)
        members = samples.with_facts(reached) if self.is_ranked else reached
        return replace(self, members=members, hops=self.hops + 1, start=start)


@dataclass(frozen=True, slots=True)
class Stating(Reading):
    """A line after a hop of `of` whose statements may be narrowed, or after a `word` that says by which it is made."""

    of: Walked
    hop: Hop
    word: str = ""
    names: tuple[str, ...] = ()

    def choices(self, samples: Samples) -> Choices:
        qualifiers = samples.qualifiers(self.of.members, self.hop)
        if not self.word:
            may_narrow = len(self.hop.where) < MOST_CONDITIONS
            return Choices(frozenset(["its", *(("at", "being", "with", *_UNTIMED) if may_narrow else ())]))
        if self.word == "at":
            return Choices(literals=frozenset(["time"]))
        if self.word == "being":
            reached = samples.follow(self.of.members, self.hop)
            return Choices(frozenset(f"<{one}>" for one in (reached.members if reached else ())))
        if self.word == "its" or not self.names:
            return Choices(frozenset(f"<{one}>" for one in qualifiers))
        values = samples.follow(self.of.members, replace(self.hop, its=self.names[0]), MOST_VALUES)
        return Choices(frozenset(f"<{one}>" for one in (values.members if values else ())))

    def after(self, unit: str, samples: Samples) -> Iterator[Reading]:
        if not self.word:
            if unit in ("at", "being", "with", "its"):
                yield replace(self, word=unit)
            yield from (
                found for word in _UNTIMED if word == unit for found in self._narrowed(samples, StatementFilter(word))
            )
            return
        name = name_of(unit)
        if self.word == "its":
            yield self.of.walked(replace(self.hop, its=name), samples)
        elif self.word == "with" and not self.names:
            yield replace(self, names=(name,))
        else:
            word: StatementWord = "with" if self.word == "with" else "at" if self.word == "at" else "being"
            yield from self._narrowed(samples, StatementFilter(word, (*self.names, name)))

    def _narrowed(self, samples: Samples, one: StatementFilter) -> Iterator[Reading]:
        hop = replace(self.hop, where=(*self.hop.where, one))
        yield self.of.walked(hop, samples)
        if samples.qualifiers(self.of.members, hop):
            yield Stating(self.of, hop)


@dataclass(frozen=True, slots=True)
class Filtering(Reading):
    """A line within a filter of the set `of`, after its `hops`. `ends`: what these lead to, the members without any.

    `has_word`: it follows `which`, so members may be compared themselves.
    """

    of: Walked
    ends: Sample
    hops: tuple[Hop, ...] = ()
    has_word: bool = False

    def choices(self, samples: Samples) -> Choices:
        texts = list(map(unit_of, self._following(samples)))
        texts += [operator for operator in self._operators if self.values(operator)]
        own = self.values("is") if self.hops else Choices()
        return own | Choices(frozenset(texts))

    def is_possible(self, samples: Samples) -> bool:
        """Return whether any unit may follow."""
        return any(map(self.values, self._operators)) or any(True for _ in self._following(samples))

    def after(self, unit: str, samples: Samples) -> Iterator[Reading]:
        if not unit.startswith("<"):
            yield from (Comparing(self, operator) for operator in self._operators if operator == unit)
            return
        if self.hops:
            yield from Comparing(self, "is").after(unit, samples)
        hop = hop_of(unit)
        if len(self.hops) < MOST_HOPS and hop.predicate in samples.readable(self.ends) and self._allows(hop, samples):
            reached = samples.follow(self.ends, hop, MOST_VALUES)
            if reached is not None:
                yield replace(self, ends=reached, hops=(*self.hops, hop))

    def values(self, operator: Operator) -> Choices:
        """Return the values that an operator may compare with.

        For yes or no, any entity may be asked for: if only the true ones could, each answer would be yes. Any entity
        may also be the value if the sample does not have all values.
        """
        ends, is_asked = self.ends, self.of.head == "ask"
        if operator != "is":
            return Choices(literals=orders_of(ends.members, ends.kind))
        if is_asked and not ends.has_facts:
            return Choices()
        names = frozenset(f"<{member}>" for member in ends.members)
        return Choices(names, subjects=ends.has_facts and (is_asked or not ends.is_whole))

    @property
    def _operators(self) -> tuple[Operator, ...]:
        if self.hops:
            return _OPERATORS[1:]  # `is` is left out
        return _OPERATORS if self.has_word and not self.of.is_ranked else ()

    def _following(self, samples: Samples) -> Iterator[Hop]:
        """Yield the hops that may follow."""
        if len(self.hops) < MOST_HOPS:
            every = (Hop(name, sign) for name in samples.readable(self.ends) for sign in _SIGNS)
            yield from (hop for hop in every if self._allows(hop, samples))

    def _allows(self, hop: Hop, samples: Samples) -> bool:
        """Return whether values can follow a hop, given that members have its predicate."""
        if hop.closure:
            return samples.can_repeat(self.ends, hop.predicate)
        if self.of.head != "ask":
            return True
        reached = samples.follow(self.ends, hop, MOST_VALUES)
        return reached is not None and (reached.has_facts or bool(orders_of(reached.members, reached.kind)))


@dataclass(frozen=True, slots=True)
class Comparing(Reading):
    """A line before the value of a filter, after its operator."""

    filter: Filtering
    operator: Operator

    def choices(self, samples: Samples) -> Choices:
        return self.filter.values(self.operator)

    def after(self, unit: str, samples: Samples) -> Iterator[Reading]:
        values, name, of = self.choices(samples), name_of(unit), self.filter.of
        if unit in values.texts or values.literals or (values.subjects and samples.predicates(name)):
            members = samples.narrow(of.members, WalkFilter(self.filter.hops, self.operator, name))
            yield replace(of, members=members, filters=of.filters + 1)


@dataclass(frozen=True, slots=True)
class Sorting(Reading):
    """A line after `by`, and maybe `count`."""

    of: Walked
    is_counted: bool = False

    def choices(self, samples: Samples) -> Choices:
        predicates = samples.all_predicates(self.of.members) or samples.predicates(self.of.start or "")
        if not self.is_counted:
            predicates = {name: n for name, n in predicates.items() if samples.is_ordered(self.of.members, name)}
        return Choices(frozenset([*(f"<{name}>" for name in predicates), *([] if self.is_counted else ["count"])]))

    def after(self, unit: str, samples: Samples) -> Iterator[Reading]:
        yield replace(self, is_counted=True) if unit == "count" else Sorted()


@dataclass(frozen=True, slots=True)
class Sorted(Reading):
    """A line before its end."""

    def choices(self, samples: Samples) -> Choices:
        return Choices(frozenset([END]))

    def after(self, unit: str, samples: Samples) -> Iterator[Reading]:
        yield Ended()


@dataclass(frozen=True, slots=True)
class Ended(Reading):
    """A whole line."""

    def choices(self, samples: Samples) -> Choices:
        return Choices()

    def after(self, unit: str, samples: Samples) -> Iterator[Reading]:
        yield from ()
