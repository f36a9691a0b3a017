"""Sets of members, each with the facts by which it was reached, and hops from one set to the next.

`list <human> <has instance> which <director of> <X>` is read from X: the humans are too many, and a hub has no list of
them. What is read from the other side are candidates; all filters decide them again.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from refactx.fact import Qualifiers
from refactx.walks.language import DURATION, FactSet, Hop, QueryError, Statement, ValueKind, WalkFilter
from refactx.walks.statements import TimeNames, admitted, statements_of

LITERALS: tuple[ValueKind, ...] = ("time", "quantity", "coordinates", "text", "literal")
"""The kinds of objects that have no facts of their own."""
FEW = 64
"""With at most this many members there is nothing to save."""
FEWER = 8
"""The other side is taken if it has this many times fewer members: each of them is looked up besides."""
_UNKNOWN = 1 << 60
"""A number of candidates that is not known: over all limits."""


@dataclass(frozen=True, slots=True)
class WalkLimits:
    """The limits of an answer to a query.

    `members`: the most members of a set; `reads`: the most facts that are read on the way, for all sets and filters;
    `facts`: the most facts that are shown as proof; `seconds`: the most time; `scanned`: the most facts of an index that
    is scanned as a whole for those of hubs.

    An answer beyond them is a part of the whole one, and says so; what needs all members is refused.
    """

    members: int = 20_000
    reads: int = 500_000
    facts: int = 100
    seconds: float = 10.0
    scanned: int = 5_000_000


class Budget:
    """What is left of limits. `reason`: the limit that was reached first; empty if none was."""

    def __init__(self, limits: WalkLimits) -> None:
        self.limits, self.reason, self._is_spent = limits, "", False
        self._end, self._reads = time.monotonic() + limits.seconds, limits.reads

    def spend(self, reads: int = 0) -> bool:
        """Take some reads, and return whether anything is left: else nothing more should be read.

        >>> budget = Budget(WalkLimits(reads=3))
        >>> budget.spend(2), budget.spend(2), budget.spend(), budget.reason
        (True, False, False, 'more than 3 facts have to be read')
        """
        self._reads -= reads
        if self._reads < 0:
            self._stop(f"more than {self.limits.reads:,} facts have to be read")
        elif time.monotonic() > self._end:
            self._stop(f"it takes more than {self.limits.seconds:g} seconds")
        return not self._is_spent

    def half(self) -> "Budget":
        """Return a budget with half of what is left, and no scan, for an attempt that may fail."""
        seconds = (self._end - time.monotonic()) / 2
        limits = replace(self.limits, reads=self._reads // 2, seconds=seconds, scanned=0)
        return Budget(limits)

    def scan(self, lookups: float = 0.2) -> "Budget":
        """Return a budget for a scan, which leaves a share of the time to look up what its members lead to."""
        return Budget(replace(self.limits, seconds=(self._end - time.monotonic()) * (1 - lookups)))

    def settle(self, scan: "Budget") -> None:
        """Take a scan into account: a part of its facts may be missing."""
        if scan.reason:
            self.reason = self.reason or f"all facts cannot be scanned in {self.limits.seconds:g} seconds"

    def admits(self, members: int) -> bool:
        """Return whether a set may have so many members."""
        if members > self.limits.members:
            self.reason = self.reason or f"a set has more than {self.limits.members:,} members"
            return False
        return True

    def _stop(self, reason: str) -> None:
        self.reason, self._is_spent = self.reason or reason, True


Triple = tuple[str, str, str]


Proof = tuple[Triple, Qualifiers]
"""A fact that an answer follows from, with the qualifiers of a statement."""


class Trail(NamedTuple):
    """A fact and those that follow on the way."""

    fact: Triple
    rest: "Trail | None"
    qualifiers: Qualifiers = ()


Members = dict[str, Trail | None]
"""Members in order, each with the way that leads to it or from it; None if there are no facts on the way."""


def facts_of(trail: Trail | None) -> Iterator[Proof]:
    """Yield the facts of a trail, the first one first."""
    while trail is not None:
        yield trail.fact, trail.qualifiers
        trail = trail.rest


class StatementEdge(NamedTuple):
    """A member to which a statement leads, and the proof of it."""

    member: str
    statement: Statement
    proof: Proof


class Walks:
    """Hops on a set of facts within a budget. Objects that were read once are kept. `qualifiers`: those of the statements that
    were read, by predicate.

    Methods raise QueryError for the facts of a hub if the budget admits no scan for them, and whatever the set of facts
    raises.
    """

    def __init__(self, facts: FactSet, budget: Budget) -> None:
        self.facts, self.budget = facts, budget
        self._objects: dict[str, dict[str, list[str]]] = {}
        self._edges: dict[Hop, dict[str, list[StatementEdge]]] = {}
        self.qualifiers: dict[str, dict[str, None]] = {}
        self._hub_facts: dict[tuple[str, str], dict[str, Triple]] = {}

    def kind(self, predicate: str) -> ValueKind:
        """Return the kind of a predicate's objects; `mixed` if it is not known."""
        described = self.facts.describe([predicate]).get(predicate)
        return described.kind if described else "mixed"

    @cached_property
    def names(self) -> TimeNames:
        """The names of qualifiers with times."""
        return TimeNames.of(self.facts)

    def kind_after(self, hop: Hop) -> ValueKind:
        """Return the kind of what a hop leads to."""
        return self.kind(hop.predicate) if hop.its is None else self.kind_of_qualifier(hop.its)

    def kind_of_qualifier(self, name: str) -> ValueKind:
        """Return the kind of a qualifier's values: tables do not say that of `start`."""
        kind = "quantity" if name == DURATION else self.kind(name)
        return "time" if name in self.names.all and kind not in ("quantity", "entity") else kind

    def is_known(self, predicate: str) -> bool:
        """Return whether the index names a predicate so. (An index of ready-made facts names none.)"""
        return predicate in self.facts.describe([predicate])

    def pairs(self, subjects: Sequence[str], predicate: str) -> Iterator[tuple[str, str]]:
        """Yield pairs of a subject and an object, as long as the budget lasts."""
        hubs = self._hubs(subjects, predicate)
        if hubs:
            self._scan(sorted(hubs), predicate)
        for is_hub, some in groupby(subjects, hubs.__contains__):
            own = [(hub, member) for hub in some for member in self._hub_facts[hub, predicate]] if is_hub else None
            for pair in self.facts.objects(list(some), predicate) if own is None else own:
                if not self.budget.spend(1):
                    return
                yield pair

    def counts(self, subjects: Sequence[str], predicate: str) -> list[int]:
        """Return how many facts each subject has with a predicate.

        The stored number of a hub is that of the facts that lead to it. If its predicate has others, or not all of
        these, they are found one by one.
        """
        found = list(self.facts.counts(subjects, predicate))
        described = self.facts.describe([predicate]).get(predicate)
        if described is None or (described.inverse and self._backwards(predicate)):
            return found
        hubs = self._hubs(subjects, predicate)
        objects = self.objects(sorted(hubs), predicate) if hubs else {}
        return [len(objects[one]) if one in hubs else count for one, count in zip(subjects, found, strict=True)]

    def fact(self, subject: str, predicate: str, member: str) -> Triple:
        """Return the fact by which a member was reached: of a hub, that which leads back."""
        known = self._hub_facts.get((subject, predicate))
        return (subject, predicate, member) if known is None else known[member]

    def _scan(self, hubs: Sequence[str], predicate: str) -> None:
        """Find the facts that lead back to some hubs, and those that lead away from them. All are found by one scan."""
        new = [hub for hub in hubs if (hub, predicate) not in self._hub_facts]
        back = self._backwards(predicate)
        if not new:
            return
        if not back or self.facts.size > self.budget.limits.scanned:
            raise self._refused(new[0], predicate)
        found = {hub: dict[str, Triple]() for hub in new}
        for subject, member in self.facts.objects(new, predicate):
            found[subject][member] = (subject, predicate, member)
        ends = [(name, hub) for name in back for hub in new]
        scan = self.budget.scan()
        for subject, name, hub in self.facts.scan(ends, scan.spend):
            found[hub].setdefault(subject, (subject, name, hub))
        self.budget.settle(scan)
        self._hub_facts.update(((hub, predicate), members) for hub, members in found.items())

    def _backwards(self, predicate: str) -> list[str]:
        """Return the predicates whose facts with a hub as object are missing from those of a predicate.

        None, if they have facts of further properties too.
        """
        described = self.facts.describe([predicate]).get(predicate)
        if described is None or described.id is None:
            return []
        names = list(self.facts.names(described.also or (described.id,)).values())
        both = set() if described.inverse else {described.id}
        return names if all(both.issuperset(one.also) for one in self.facts.describe(names).values()) else []

    def _refused(self, hub: str, predicate: str) -> QueryError:
        todo, command = "Narrow the set to members of another entity", ", or ingest with a larger --inverse-limit"
        if not self._backwards(predicate):
            return QueryError(
                f"<{hub}> has too many facts with <{predicate}>: they are not in the index, and no others tell them. {todo}",
                command=command,
            )
        (count,) = self.facts.counts([hub], predicate)
        return QueryError(
            f"<{hub}> has {count:,} facts with <{predicate}>: they are counted, but not in the index, and to look for them "
            f"is to scan {self.facts.size:,} facts. {todo}",
            command=command,
        )

    def objects(self, subjects: Sequence[str], predicate: str) -> dict[str, list[str]]:
        """Return the objects of each subject, as far as the budget lasts; each subject is read once."""
        known = self._objects.setdefault(predicate, {})
        new = [subject for subject in subjects if subject not in known]
        known.update((subject, []) for subject in new)
        for subject, member in self.pairs(new, predicate):
            known[subject].append(member)
        return known

    def edges(self, subjects: Sequence[str], hop: Hop) -> Mapping[str, Sequence[StatementEdge]]:
        """Return where the statements of each subject lead by which a hop is made, as far as the budget lasts. Those that
        read a property backwards are of the facts that lead to the subject."""
        known = self._edges.setdefault(hop, {})
        described = self.facts.describe([hop.predicate]).get(hop.predicate)
        forwards = self.facts.inverse_of(hop.predicate) if described and described.inverse else None
        for subject in subjects:
            if subject in known:
                continue
            known[subject] = []
            objects = [member for _, member in self.pairs([subject], hop.predicate)] if forwards else []
            found = statements_of(self.facts, subject, hop.predicate, objects) if self.budget.spend(1) else []
            self.budget.spend(len(found))
            names = self.qualifiers.setdefault(hop.predicate, {})
            names.update(dict.fromkeys(name for one in found for name, _ in one.qualifiers))
            for one in admitted(found, hop.where, self.names, self.kind_of_qualifier):
                back = bool(forwards and one.qualifiers)
                fact = (one.object, forwards or "", subject) if back else self.fact(subject, hop.predicate, one.object)
                for member in [one.object] if hop.its is None else self.names.values(one, hop.its):
                    known[subject].append(StatementEdge(member, one, (fact, one.qualifiers)))
        return known

    def leads(self, subjects: Sequence[str], hop: Hop) -> Mapping[str, Sequence[str]]:
        """Return what a hop that is made once leads to from each subject, as far as the budget lasts."""
        if not hop.has_statements:
            return self.objects(subjects, hop.predicate)
        edges = self.edges(subjects, hop)
        return {subject: list(dict.fromkeys(edge.member for edge in edges[subject])) for subject in subjects}

    def proof(self, subject: str, hop: Hop, member: str) -> Proof:
        """Return the fact by which a member was reached."""
        if hop.has_statements:
            return next(edge.proof for edge in self._edges[hop][subject] if edge.member == member)
        return self.fact(subject, hop.predicate, member), ()

    def expand(self, nodes: Sequence[str], hop: Hop) -> tuple[list[str], Mapping[str, Sequence[str]]]:
        """Return the nodes that a hop reaches, and what it leads to from all nodes from which it is made on the way."""
        graph, new = dict[str, Sequence[str]](), list(nodes)
        reached = dict.fromkeys(nodes if hop.closure == "*" else ())
        while new:
            led = self.leads(new, hop)
            graph.update((node, led[node]) for node in new)
            found = dict.fromkeys(member for node in new for member in led[node])
            reached |= found
            new = [member for member in found if member not in graph] if hop.closure else []
        return list(reached), graph

    def ends(self, members: Sequence[str], hops: Sequence[Hop]) -> dict[str, list[str]]:
        """Return what hops lead to from each of some members, as far as the budget lasts."""
        ends = {member: [member] for member in members}
        for hop in hops:
            _, graph = self.expand(list(dict.fromkeys(node for nodes in ends.values() for node in nodes)), hop)
            for member, nodes in ends.items():
                found, waiting = dict.fromkeys(nodes if hop.closure == "*" else ()), list(nodes)
                for node in waiting:  # grows in a closure
                    new = [one for one in graph[node] if one not in found]
                    found.update(dict.fromkeys(new))
                    waiting += new if hop.closure else []
                ends[member] = list(found)
                self.budget.spend(len(found))
        return ends

    def follow(self, members: Members, hop: Hop) -> Members:
        """Return the set to which a hop leads from a set. The trail of a member leads back from it."""
        reached: Members = dict(members) if hop.closure == "*" else {}
        begin, expanded = dict(members), set[str]()
        while begin:
            expanded.update(begin)
            following: Members = {}
            for subject, member in self._steps(list(begin), hop):
                if member in reached:
                    continue
                if not self.budget.admits(len(reached) + 1):
                    return reached
                fact, qualifiers = self.proof(subject, hop, member)
                reached[member] = following[member] = Trail(fact, begin[subject], qualifiers)
            if not hop.closure:
                break
            begin = {member: trail for member, trail in following.items() if member not in expanded}
        return reached

    def _steps(self, subjects: Sequence[str], hop: Hop) -> Iterator[tuple[str, str]]:
        if not hop.has_statements:
            return self.pairs(subjects, hop.predicate)
        edges = self.edges(subjects, hop)
        return ((subject, edge.member) for subject in subjects for edge in edges[subject])

    def hold(self, subjects: Sequence[str], predicate: str, value: str) -> Members:
        """Return the subjects that have a fact with a predicate and a value, each with that fact.

        A hub's facts are looked up from the other side.
        """
        hubs = self._hubs(subjects, predicate)
        return self._proved({one: self._ways(one, predicate, value, one in hubs) for one in subjects})

    def reached(self, subject: str, predicate: str, members: Sequence[str]) -> Members:
        """Return those of some members that are objects of a subject's facts with a predicate, each with that fact.

        A hub's facts are looked up from the other side.
        """
        is_hub = self.facts.is_hub(subject, predicate)
        return self._proved({one: self._ways(subject, predicate, one, is_hub) for one in members})

    def _ways(self, subject: str, predicate: str, member: str, is_hub: bool) -> list[Triple]:
        """Return the facts of which each states that a subject has a member."""
        back = self._backwards(predicate) if is_hub else []
        if is_hub and not back:
            raise self._refused(subject, predicate)
        return [(subject, predicate, member), *((member, name, subject) for name in back)]

    def _proved(self, ways: Mapping[str, Sequence[Triple]]) -> Members:
        """Return the names of which one of their facts exists, each with that fact."""
        flags = iter(self.facts.hold([fact for some in ways.values() for fact in some]))
        proved = {name: [fact for fact in some if next(flags)] for name, some in ways.items()}
        return {name: Trail(facts[0], None) for name, facts in proved.items() if facts}

    def _hubs(self, subjects: Sequence[str], predicate: str) -> set[str]:
        """Return the subjects whose facts with a predicate are not in the index."""
        described = self.facts.describe([predicate]).get(predicate)
        if described is not None and not (described.inverse or described.also):
            return set()
        if len(subjects) > 1:
            self.facts.counts(subjects, predicate)  # looks up all hubs at once, before each is asked for
        return {subject for subject in subjects if self.facts.is_hub(subject, predicate)}


def read_base(walks: Walks, starts: Sequence[str], hops: Sequence[Hop], which: Sequence[WalkFilter]) -> Members:
    """Return the set to which the hops lead from the starts; members that no filter can admit may be missing.

    Raises QueryError if a hub's facts are needed.
    """
    if len(starts) != 1 or len(hops) != 1 or hops[0].closure or hops[0].has_statements:
        members: Members = dict.fromkeys(starts)
        for hop in hops:
            members = walks.follow(members, hop)
        return members
    start = starts[0]
    (hop,) = hops
    count = walks.facts.counts([start], hop.predicate)[0]
    is_hub = walks.facts.is_hub(start, hop.predicate)
    must = is_hub or count > walks.budget.limits.members
    if must or count > FEW:
        sides = [side for one in which if (side := _Side.of(walks, one)) is not None]
        # If hubs are not known, a way over several hops may miss those of one on the way.
        sides = [side for side in sides if is_hub or side.count < _UNKNOWN]
        for side in sorted(sides, key=lambda side: side.count):
            if must or side.count * FEWER < count:
                candidates = side.candidates(walks)
                if candidates is not None:
                    return walks.reached(start, hop.predicate, candidates)
    return walks.follow({start: None}, hop)


class _Side:
    """The way back from a filter's value. `count`: how many candidates it has, or `_UNKNOWN`."""

    def __init__(self, value: str, hops: Sequence[Hop], count: int) -> None:
        self.value, self.hops, self.count = value, hops, count

    @classmethod
    def of(cls, walks: Walks, which: WalkFilter) -> "_Side | None":
        """Return the way back through a filter; None if there is none."""
        if which.operator != "is" or (which.hops and walks.kind(which.hops[-1].predicate) != "entity"):
            return None  # nothing leads back from a literal
        if which.negated or which.than or which.also or any(hop.has_statements for hop in which.hops):
            return None
        # Describes what leads away from the value: an index may know the inverse of a predicate by that alone.
        walks.facts.describe(list(walks.facts.predicates(which.value)))
        back = [(walks.facts.inverse_of(hop.predicate), hop.closure) for hop in reversed(which.hops)]
        hops = [Hop(predicate, closure) for predicate, closure in back if predicate is not None]
        if len(hops) < len(back):
            return None
        if not hops:
            return cls(which.value, hops, 1)
        if len(hops) > 1 or hops[0].closure:
            return cls(which.value, hops, _UNKNOWN)
        if walks.facts.is_hub(which.value, hops[0].predicate):
            return None
        # No fact at all may mean that a hub's are missing.
        count = walks.facts.counts([which.value], hops[0].predicate)[0]
        return cls(which.value, hops, count) if count else None

    def candidates(self, walks: Walks) -> list[str] | None:
        """Return the members from which the hops lead to the value; None if these are not all in the index."""
        attempt, members = Walks(walks.facts, walks.budget.half()), Members({self.value: None})
        try:
            for hop in self.hops:
                members = attempt.follow(members, hop)
        except QueryError:  # a hub
            return None
        return None if attempt.budget.reason else list(members)
