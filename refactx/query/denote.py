"""The answer to a query on a set of facts.

It is what the same query in SPARQL with DISTINCT gives, as far as limits allow (`refactx.query.budget`): `list` and
`count` then say "at least", `ask` without a match says that none was found so far, `most` and `least` are refused.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from refactx.query.budget import Budget, Limits
from refactx.query.fact_set import FactSet, ValueKind
from refactx.query.filters import AT_ONCE, Filter
from refactx.query.sets import LITERALS, Members, Trail, Triple, Walks, facts_of
from refactx.query.sides import read_base
from refactx.query.superlatives import ranked
from refactx.query.unknown import check_predicate, check_start
from refactx.query.walk import By, Hop, Query, QueryError

DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The answer to a query.

    `values`: for `list`, `most` and `least` the members, distinct, as names or literals: those of a list in the order
    of the facts, the others by what they were sorted by, which `sorted_by` has (a literal or a count for each).
    `count`: the number of members for `list` and `count`, else None; `truth`: for `ask`, else None. `facts`: facts that
    prove the answer, for as many members as the limit allows. `kind`: that of the members. `is_complete`: whether
    no limit was reached; else `reason` says which, and there may be more members.
    """

    values: tuple[str, ...] = ()
    sorted_by: tuple[str, ...] = ()
    count: int | None = None
    truth: bool | None = None
    facts: tuple[Triple, ...] = ()
    kind: ValueKind = "entity"
    is_complete: bool = True
    reason: str = ""


def denote(query: Query, facts: FactSet, limits: Limits = DEFAULT_LIMITS) -> Result:
    """Answer a query.

        denote(read_line("count <Louisiana> <nickname>"), TreeFacts(index)).count  # 4

    A predicate that no member has is an error for `list`, `most` and `least`; `count` is then 0 and `ask` no, if the
    index has such a predicate at all. Raises QueryError if the query cannot be answered: an unknown name, a predicate
    that no member has, facts of a hub in an index that is too large to be scanned for them, values that do not compare,
    more members than can be compared. Raises whatever the set of facts does.
    """
    return _Answer(query, facts, limits).result()


_Match = tuple[str, Sequence[Trail | None]]
"""A member that matches all filters, and its way through each."""


class _Answer:
    def __init__(self, query: Query, facts: FactSet, limits: Limits) -> None:
        self._query, self._budget = query, Budget(limits)
        self._walks = Walks(facts, self._budget)
        self._members: Members = {}
        check_start(facts, query.start)
        self._kind = self._kind_after(query.hops, "entity")
        for which in query.which:
            self._kind_after(which.hops, self._kind)
        if query.by is not None:
            self._kind_after((Hop(query.by.predicate),), self._kind)
        self._filters = [Filter(self._walks, which, self._kind) for which in query.which]

    def result(self) -> Result:
        query = self._query
        if query.head in ("count", "ask") and len(query.hops) == 1 and not (query.hops[0].closure or query.which):
            return self._by_count(query.hops[0].predicate)
        self._members = read_base(self._walks, query.start, query.hops, query.which)
        if not self._members:
            self._check_hops()
        if query.head == "ask":
            found = next(self._matches(), None)
            return self._done([found] if found else [], truth=found is not None)
        matches = list(self._matches())
        if query.by is not None:
            return self._ranked(matches, query.by)
        values = tuple(member for member, _ in matches) if query.head == "list" else ()
        return self._done(matches, values=values, count=len(matches))

    # --- Heads

    def _by_count(self, predicate: str) -> Result:
        """Answer by the number of facts alone: the objects of one subject and predicate are distinct."""
        start = self._query.start
        (count,) = self._walks.counts([start], predicate)
        if not count:
            check_predicate(self._walks, predicate, [start], must_have=False)
        proof = self._facts_with(start, predicate)
        if self._query.head == "ask":
            return self._done(proof=proof, truth=count > 0)
        return self._done(proof=proof, count=count)

    def _ranked(self, matches: Sequence[_Match], by: By) -> Result:
        ways, most = dict(matches), self._query.head == "most"
        found = ranked(self._walks, list(ways), by, most=most, limit=self._query.limit)
        if self._budget.reason:
            raise QueryError(
                f"{self._query.head} needs all members of a set, but {self._budget.reason}: add a filter, or raise the limits"
            )
        proof = (
            fact
            for one in found
            for fact in chain(
                self._facts_of((one.member, ways[one.member])),
                [one.fact] if one.fact else self._facts_with(one.member, by.predicate),
            )
        )
        return self._done(
            proof=proof, values=tuple(one.member for one in found), sorted_by=tuple(one.by for one in found)
        )

    def _done(self, matches: Iterable[_Match] = (), proof: Iterable[Triple] | None = None, **answer: Any) -> Result:
        if proof is None:
            proof = (fact for match in matches for fact in self._facts_of(match))
        shown = tuple(islice(_distinct(proof), self._budget.limits.facts))
        reason = "" if answer.get("truth") else self._budget.reason  # one match is enough
        return Result(facts=shown, kind=self._kind, is_complete=not reason, reason=reason, **answer)

    # --- Members

    def _matches(self) -> Iterator[_Match]:
        """Yield the members that match all filters, as far as the budget lasts."""
        names, is_empty = list(self._members), True
        for low in range(0, len(names), AT_ONCE):
            some, ways = names[low : low + AT_ONCE], list[Members]()
            for one in self._filters:
                ways.append(one.matching(some))
                some = list(ways[-1])
            for name in some:
                is_empty = False
                yield name, [way[name] for way in ways]
            if self._filters and not self._budget.spend():
                return
        for one in self._filters:
            one.finish()
            first = one.which.hops[:1]
            if is_empty and first and first[0].closure != "*":
                check_predicate(self._walks, first[0].predicate, names, must_have=self._must_have)

    @property
    def _must_have(self) -> bool:
        return self._query.head not in ("count", "ask")

    def _check_hops(self) -> None:
        """Raise QueryError if no member has the predicate of a hop; say which."""
        members: Members = {self._query.start: None}
        for hop in self._query.hops:
            if hop.closure != "*":
                check_predicate(self._walks, hop.predicate, list(members), must_have=self._must_have)
            members = self._walks.follow(members, hop)

    def _kind_after(self, hops: Sequence[Hop], kind: ValueKind) -> ValueKind:
        """Return the kind of what hops lead to. Raise QueryError if one would start at literals."""
        for hop in hops:
            after = self._walks.kind(hop.predicate)
            if kind in LITERALS or (hop.closure and after in LITERALS):
                again = " again" if kind not in LITERALS else ""
                raise QueryError(f"<{hop.predicate}> cannot be followed{again} from literals, which have no facts")
            kind = after
        return kind

    # --- Proof

    def _facts_of(self, match: _Match) -> Iterator[Triple]:
        member, ways = match
        yield from reversed(list(facts_of(self._members[member])))
        for way in ways:
            yield from facts_of(way)

    def _facts_with(self, subject: str, predicate: str) -> Iterator[Triple]:
        if not self._walks.facts.is_hub(subject, predicate):
            for _, member in self._walks.facts.objects([subject], predicate):
                yield subject, predicate, member


def _distinct(facts: Iterable[Triple]) -> Iterator[Triple]:
    seen = set[Triple]()
    for fact in facts:
        if fact not in seen:
            seen.add(fact)
            yield fact
