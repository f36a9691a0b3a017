"""The evaluation of queries: which members a set has, within limits.

It is what the same query in SPARQL with DISTINCT gives, as far as limits allow (`refactx.walks.sets`): `list` and
`count` then say "at least", `ask` without a match says that none was found so far, and what needs all members is refused.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice, repeat
from typing import Any

from refactx.fact import Qualifiers, verbalise
from refactx.walks.checks import check_hops, check_predicate, check_start, check_statements
from refactx.walks.filters import CompiledFilter
from refactx.walks.language import FactSet, Groups, Hop, MemberValue, Query, QueryError, ValueKind, Walk, WalkFilter
from refactx.walks.measures import (
    Measure,
    Measured,
    bounded,
    combined,
    difference,
    group_numbers,
    grouped,
    table,
)
from refactx.walks.sets import (
    LITERALS,
    Budget,
    Members,
    Proof,
    StatementEdge,
    Trail,
    Triple,
    WalkLimits,
    Walks,
    facts_of,
    read_base,
)
from refactx.walks.values import written_number

AT_ONCE = 1024
"""Members that are decided together: between two such batches the time is checked."""
DEFAULT_LIMITS = WalkLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The answer to a query.

    `values`: for `list`, `most` and `least` the members, distinct, as names or literals: those of a list in the order
    of the facts, the others by what they were sorted by, which `sorted_by` has (a literal or a count for each). For groups
    they are the groups, with their numbers in `sorted_by`; for sum, average and difference the one literal. `columns`: the
    names of further columns of a table, with the values in `cells`, for each of `values`, which has a member once for each
    of its statements if qualifiers are shown.
    `count`: the number of members for `list` and `count`, else None; `truth`: for `ask`, else None. `facts`: facts that
    prove the answer, for as many members as the limit allows, with `qualifiers` for each. `kind`: that of the values.
    `is_complete`: whether no limit was reached; else `reason` says which, and there may be more members.
    """

    values: tuple[str, ...] = ()
    sorted_by: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    cells: tuple[tuple[tuple[str, ...], ...], ...] = ()
    count: int | None = None
    truth: bool | None = None
    facts: tuple[Triple, ...] = ()
    qualifiers: tuple[Qualifiers, ...] = ()
    kind: ValueKind = "entity"
    is_complete: bool = True
    reason: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """The facts as they are written, with their qualifiers."""
        pairs = zip(self.facts, self.qualifiers or repeat(()), strict=False)
        return tuple(verbalise(*fact, some).strip() for fact, some in pairs)


def evaluate_walk(query: Query, facts: FactSet, limits: WalkLimits = DEFAULT_LIMITS) -> Result:
    """Answer a query.

        denote(read_line("count <Louisiana> <nickname>"), TreeFacts(index)).count  # 4

    A predicate that no member has is an error for `list`, `most` and `least`; `count` is then 0 and `ask` no, if the
    index has such a predicate at all. Raises QueryError if the query cannot be answered: an unknown name, a predicate
    that no member has, facts of a hub in an index that is too large to be scanned for them, values that do not compare,
    more members than can be compared. Raises whatever the set of facts does.
    """
    return _Evaluation(query, facts, limits).result()


_Match = tuple[str, Sequence[Trail | None]]
"""A member that matches all filters, and its way through each."""
_Ways = Mapping[str, Sequence[Trail | None]]
"""The ways of members that match."""


class _QuerySet:
    """The set of a query without its filters. `values`: those of its members that are asked for: if qualifiers are among them,
    the members are those of all statements of the last hop, of whatever rank."""

    def __init__(
        self,
        walks: Walks,
        starts: Sequence[str],
        hops: Sequence[Hop],
        which: Sequence[WalkFilter] = (),
        values: Iterable[MemberValue | None] = (),
    ) -> None:
        self._walks, self._starts, self._hops, self._which = walks, starts, hops, which
        self._has_its = any(one.its for one in values if one is not None)

    @cached_property
    def members(self) -> Members:
        if not self._has_its:
            return read_base(self._walks, self._starts, self._hops, self._which)
        found: Members = {}
        for subject, edge in self._steps:
            if edge.member not in found and self._walks.budget.admits(len(found) + 1):
                found[edge.member] = Trail(edge.proof[0], self._subjects[subject], edge.proof[1])
        return found

    @cached_property
    def edges(self) -> Mapping[str, Sequence[StatementEdge]]:
        """The statements of the last hop, by the member to which they lead."""
        found = dict[str, list[StatementEdge]]()
        for _, edge in self._steps:
            found.setdefault(edge.member, []).append(edge)
        return found

    @cached_property
    def _subjects(self) -> Members:
        return read_base(self._walks, self._starts, self._hops[:-1], ())

    @property
    def _steps(self) -> Iterator[tuple[str, StatementEdge]]:
        edges = self._walks.edges(list(self._subjects), self._hops[-1])
        return ((subject, edge) for subject in self._subjects for edge in edges[subject])

    def measure(self, by: MemberValue) -> Measure:
        return Measure(self._walks, by, self._hops[-1] if self._hops else None, self.edges if by.its else None)


class _Evaluation:
    def __init__(self, query: Query, facts: FactSet, limits: WalkLimits) -> None:
        self._query, self._budget = query, Budget(limits)
        self._walks = Walks(facts, self._budget)
        self._starts = (query.start, *query.also)
        self._set = _QuerySet(self._walks, self._starts, query.hops, query.which, (query.by, *query.show))
        others = [] if query.minus is None else [query.minus.start]
        for start in (*self._starts, *others, *(one.value for one in query.which if one.than)):
            check_start(facts, start)
        self._kind = self._kind_after(query.hops, "entity")
        of_groups = () if query.per is None else query.per.hops
        for hops, kind in (
            *((which.hops, self._kind) for which in query.which),
            *((which.than, "entity") for which in query.which),
            (query.minus.hops if query.minus else (), "entity"),
            (of_groups, self._kind),
            *((one.hops, self._kind) for one in (query.by, *query.show) if one and not one.its),
        ):
            self._kind_after(hops, kind)
        self._filters = [CompiledFilter(self._walks, which, self._kind) for which in query.which]

    def result(self) -> Result:
        query = self._query
        if query.minus is not None:
            return self._difference(query.minus)
        plain = (
            Query(query.head, query.start, query.hops[:1]) if query.head in ("count", "ask") and query.hops else None
        )
        if query == plain and not (query.hops[0].closure or query.hops[0].has_statements):
            return self._by_count(query.hops[0].predicate)
        if not self._set.members:
            check_hops(self._walks, query.hops, self._starts, must_have=self._must_have)
        if query.head == "ask":
            found = next(self._matches(), None)
            return self._done([found] if found else [], truth=found is not None)
        matches = list(self._matches())
        if query.per is not None:
            return self._grouped(dict(matches), query.per)
        if query.by is not None:
            answer = self._ranked if query.head in ("most", "least") else self._combined
            return answer(dict(matches), self._set.measure(query.by))
        values = tuple(member for member, _ in matches) if query.head == "list" else ()
        return self._table(self._done(matches, values=values, count=len(matches)))

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

    def _ranked(self, ways: _Ways, measure: Measure) -> Result:
        found = measure.ranked(list(ways), most=self._query.head == "most", limit=self._query.limit)
        self._need_all()
        return self._table(
            self._done(
                proof=self._measured_facts(found, ways, measure),
                values=tuple(one.member for one in found),
                sorted_by=tuple(one.value for one in found),
            )
        )

    def _combined(self, ways: _Ways, measure: Measure) -> Result:
        found, unit = measure.numbers(list(ways))
        self._need_all()
        average = self._query.head == "average"
        values = () if average and not found else (combined((number for number, _ in found), unit, average=average),)
        self._kind = "quantity"
        return self._done(proof=self._measured_facts([one for _, one in found], ways, measure), values=values)

    def _grouped(self, ways: _Ways, per: Groups) -> Result:
        groups = grouped(self._walks, list(ways), per.hops)
        self._need_all()
        if ways and not groups:
            check_hops(self._walks, per.hops, list(ways), must_have=True)
        measure = self._set.measure(self._query.by) if self._query.by else None
        if measure is not None and self._query.head in ("most", "least"):
            return self._best_of_groups(ways, groups, per, measure)
        numbers, unit, values = group_numbers(groups, measure, average=self._query.head == "average")
        rows = bounded(numbers, per, unit)
        self._need_all()
        self._kind = self._kind_after(per.hops, self._kind)
        shown = {group: groups[group] for group, _ in rows}
        members = ((name, ways[name]) for names in shown.values() for name in names)
        return self._done(
            proof=chain(
                self._group_facts(shown, per), values, (fact for one in members for fact in self._facts_of(one))
            ),
            values=tuple(shown),
            sorted_by=tuple(written_number(number, unit) for _, number in rows),
        )

    def _best_of_groups(
        self, ways: _Ways, groups: Mapping[str, Sequence[str]], per: Groups, measure: Measure
    ) -> Result:
        query, having = self._query, {one.member for one in measure.of(list(ways))}
        best = [
            (group, one)
            for group, some in groups.items()
            if any(name in having for name in some)
            for one in measure.ranked(some, most=query.head == "most", limit=query.limit)
        ]
        self._need_all()
        of_groups = self._group_facts({group: [one.member] for group, one in best}, per)
        return self._done(
            proof=chain(self._measured_facts([one for _, one in best], ways, measure), of_groups),
            values=tuple(one.member for _, one in best),
            sorted_by=tuple(one.value for _, one in best),
            columns=(per.hops[-1].predicate,),
            cells=tuple(((group,),) for group, _ in best),
        )

    def _difference(self, minus: Walk) -> Result:
        by, values, proof = self._query.by, list[list[str]](), list[Proof]()
        for start, hops in ((self._query.start, self._query.hops), (minus.start, minus.hops)):
            side = _QuerySet(self._walks, (start,), hops, (), (by,))
            members = list(side.members)
            if not members:
                check_hops(self._walks, hops, [start], must_have=True)
            proof += [fact for one in side.members.values() for fact in reversed(list(facts_of(one)))]
            if by is None:
                place, kind = f"<{hops[-1].predicate}>", self._walks.kind_after(hops[-1])
                values.append(members)
                continue
            measure = side.measure(by)
            found = measure.of(members)
            if not found and not by.counted:
                measure.check(members)
            proof += [fact for one in found for fact in one.proof]
            values.append([one.value for one in found] or (["0"] if by.counted else []))
            place, kind = measure.place, measure.kind
        self._need_all()
        self._kind = "quantity"
        return self._done(proof=proof, values=(difference(values[0], values[1], kind, place),))

    def _table(self, found: Result) -> Result:
        """Return an answer with the columns that are asked for: a row for each member, or for each of its statements."""
        show = [self._set.measure(one) for one in self._query.show]
        if not show:
            return found
        edges = self._set.edges if any(one.by.its for one in show) else None
        rows, proof = table(found.values, show, edges)
        done = self._done(proof=chain(zip(found.facts, found.qualifiers, strict=True), proof))
        return replace(
            found,
            values=tuple(found.values[row.place] for row in rows),
            sorted_by=tuple(found.sorted_by[row.place] for row in rows) if found.sorted_by else (),
            columns=tuple(one.title for one in show),
            cells=tuple(row.cells for row in rows),
            facts=done.facts,
            qualifiers=done.qualifiers,
            is_complete=done.is_complete,
            reason=done.reason,
        )

    def _need_all(self) -> None:
        """Raise QueryError if a limit was reached: the answer would be one of a part of the members."""
        if self._budget.reason:
            what = "the table of groups" if self._query.per else self._query.head
            raise QueryError(
                f"{what} needs all members of a set, but {self._budget.reason}: add a filter, or raise the limits"
            )

    def _done(self, matches: Iterable[_Match] = (), proof: Iterable[Proof] | None = None, **answer: Any) -> Result:
        if proof is None:
            proof = (fact for match in matches for fact in self._facts_of(match))
        shown = tuple(islice(_distinct(proof), self._budget.limits.facts))
        reason = "" if answer.get("truth") else self._budget.reason  # one match is enough
        return Result(
            facts=tuple(fact for fact, _ in shown),
            qualifiers=tuple(qualifiers for _, qualifiers in shown),
            kind=self._kind,
            is_complete=not reason,
            reason=reason,
            **answer,
        )

    # --- Members

    def _matches(self) -> Iterator[_Match]:
        """Yield the members that match all filters, as far as the budget lasts."""
        names, is_empty = list(self._set.members), True
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
            if is_empty and not one.which.negated:
                check_hops(self._walks, one.which.hops[:1], names, must_have=self._must_have)

    @property
    def _must_have(self) -> bool:
        return self._query.head not in ("count", "ask")

    def _kind_after(self, hops: Sequence[Hop], kind: ValueKind) -> ValueKind:
        """Return the kind of what hops lead to. Raise QueryError if one would start at literals."""
        check_statements(self._walks.facts, hops)
        for hop in hops:
            after = self._walks.kind_after(hop)
            if kind in LITERALS or (hop.closure and after in LITERALS):
                again = " again" if kind not in LITERALS else ""
                raise QueryError(f"<{hop.predicate}> cannot be followed{again} from literals, which have no facts")
            kind = after
        return kind

    # --- Proof

    def _facts_of(self, match: _Match) -> Iterator[Proof]:
        member, ways = match
        yield from reversed(list(facts_of(self._set.members[member])))
        for way in ways:
            yield from facts_of(way)

    def _measured_facts(self, found: Sequence[Measured], ways: _Ways, measure: Measure) -> Iterator[Proof]:
        for one in found:
            yield from self._facts_of((one.member, ways[one.member]))
            yield from one.proof or self._facts_with(one.member, measure.by.predicate)

    def _group_facts(self, groups: Mapping[str, Sequence[str]], per: Groups) -> Iterator[Proof]:
        """Yield the facts that put members in groups, if one hop does."""
        if len(per.hops) == 1 and not per.hops[0].closure:
            for group, members in groups.items():
                for member in members:
                    yield self._walks.proof(member, per.hops[0], group)

    def _facts_with(self, subject: str, predicate: str) -> Iterator[Proof]:
        if not self._walks.facts.is_hub(subject, predicate):
            for _, member in self._walks.facts.objects([subject], predicate):
                yield (subject, predicate, member), ()


def _distinct(facts: Iterable[Proof]) -> Iterator[Proof]:
    seen = set[Proof]()
    for fact in facts:
        if fact not in seen:
            seen.add(fact)
            yield fact
