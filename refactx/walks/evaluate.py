"""The evaluation of queries: which members a set has, within limits.

It is what the same query in SPARQL with DISTINCT gives, as far as limits allow (`refactx.walks.sets`): `list` and
`count` then say "at least", `ask` without a match says that none was found so far, `most` and `least` are refused.

The hops of a filter are made forwards from all members together, so classes that they share are read once and a
hierarchy is climbed from its leaves. Then matches are propagated back, from the values to the members.

As in SPARQL with ORDER BY, members without such facts are left out, and of several values of a member the best counts.
Members that are equal are in the order of their names.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Protocol, runtime_checkable

from refactx.linking.linker import Linker, did_you_mean
from refactx.linking.names import alike
from refactx.walks.language import FactSet, Hop, MemberValue, Query, QueryError, ValueKind, WalkFilter
from refactx.walks.sets import LITERALS, Budget, Members, Trail, Triple, WalkLimits, Walks, facts_of, read_base
from refactx.walks.values import Comparison, order_of, sort_key

AT_ONCE = 1024
"""Members that are decided together: between two such batches the time is checked."""
NEAR = 5
"""The most names that an error proposes."""
DEFAULT_LIMITS = WalkLimits()


class CompiledFilter:
    """A filter of members. `kind`: that of the members, for a filter without hops.

    Raises QueryError if its values cannot be compared so.
    """

    def __init__(self, walks: Walks, which: WalkFilter, kind: ValueKind) -> None:
        self._walks, self.which = walks, which
        hops = which.hops
        compared, place = (walks.kind(hops[-1].predicate), f"<{hops[-1].predicate}>") if hops else (kind, "the set")
        self._comparison = Comparison(which.operator, which.value, compared, place)
        self._has_compared, self._odd = False, ""

    def matching(self, members: Sequence[str]) -> Members:
        """Return the members that match, in order, each with the way from it to a value that does."""
        hops, looks_up = self.which.hops, False
        if self.which.operator == "is" and hops and not hops[-1].closure:
            hops, looks_up = hops[:-1], True
        layers, graphs = [list(members)], list[Mapping[str, Sequence[str]]]()
        for hop in hops:
            following, graph = self._expand(layers[-1], hop)
            layers.append(following)
            graphs.append(graph)
        if looks_up:
            good = self._walks.hold(layers[-1], self.which.hops[-1].predicate, self.which.value)
        else:
            good = dict.fromkeys(filter(self._compares, layers[-1]))
        for hop, nodes, graph in reversed(list(zip(hops, layers[:-1], graphs, strict=True))):
            good = self._before(good, nodes, graph, hop)
        return {member: good[member] for member in members if member in good}

    def finish(self) -> None:
        """Raise QueryError if there were values, but none that could be compared."""
        if self._odd and not self._has_compared:
            self._comparison.check([self._odd])

    def _compares(self, text: str) -> bool:
        matches = self._comparison.matches(text)
        if matches is None:
            self._odd = self._odd or text
        else:
            self._has_compared = True
        return bool(matches)

    def _expand(self, nodes: Sequence[str], hop: Hop) -> tuple[list[str], Mapping[str, Sequence[str]]]:
        """Return the nodes that a hop reaches, and the objects of all nodes from which it is made on the way."""
        graph, new = dict[str, Sequence[str]](), list(nodes)
        reached = dict.fromkeys(nodes if hop.closure == "*" else ())
        while new:
            objects = self._walks.objects(new, hop.predicate)
            graph.update((node, objects[node]) for node in new)
            found = dict.fromkeys(member for node in new for member in objects[node])
            reached |= found
            new = [member for member in found if member not in graph] if hop.closure else []
        return list(reached), graph

    def _before(self, good: Members, nodes: Iterable[str], graph: Mapping[str, Sequence[str]], hop: Hop) -> Members:
        """Return the nodes from which a hop leads to good ones, each with the way to a match."""
        subjects = defaultdict[str, list[str]](list)
        for subject, objects in graph.items():
            for member in objects:
                subjects[member].append(subject)
        found: Members = {}
        waiting = list(good)
        ways = dict(good)
        for member in waiting:  # grows in a closure
            for subject in subjects.get(member, ()):
                if subject not in found:
                    found[subject] = Trail(self._walks.fact(subject, hop.predicate, member), ways[member])
                    if hop.closure and subject not in ways:
                        ways[subject] = found[subject]
                        waiting.append(subject)
        if hop.closure == "*":
            found |= good
        return {node: found[node] for node in nodes if node in found}


@runtime_checkable
class LinkedFactSet(Protocol):
    """A set of facts that finds what names are like."""

    @property
    def linker(self) -> Linker:
        """What names mean in the index."""
        ...


def check_start(facts: FactSet, start: str) -> None:
    """Raise QueryError, with names that are near, if a name is neither an entity's nor the subject of a fact."""
    if facts.predicates(start) or facts.ids([start]):
        return
    near = facts.linker.suggestions(start, NEAR) if isinstance(facts, LinkedFactSet) else ()
    raise QueryError(f"no fact begins with <{start}>{did_you_mean(near)}")


def check_predicate(walks: Walks, predicate: str, members: Sequence[str], *, must_have: bool) -> None:
    """Raise QueryError, with predicates that are near, if none of some members has a predicate.

    `must_have`: also for a predicate of the index, which members might have had.
    """
    if not members or any(walks.facts.counts(members, predicate)):
        return
    is_known = walks.is_known(predicate)
    if is_known and not must_have:
        return
    whose = f"<{members[0]}>" + (f" and the {len(members) - 1:,} others" if len(members) > 1 else "")
    if is_known:
        raise QueryError(
            f"no fact of {whose} has the predicate <{predicate}>{did_you_mean(_near(walks, predicate, members))}"
        )
    hint, command = did_you_mean(_near(walks, predicate, members)), ""
    own = walks.facts.describe(list(walks.facts.predicates(members[0])))
    reads_backwards = predicate.endswith((" of", " by", "(inverse)")) or predicate.startswith("has ")
    if reads_backwards and own and not any(described.inverse for described in own.values()):
        hint, command = f"{hint}. It has no inverse facts", ": does the index (`ingest --inverse`)?"
    raise QueryError(f"<{predicate}> is no predicate of {whose}{hint}", command=command)


def _near(walks: Walks, predicate: str, members: Sequence[str]) -> list[str]:
    """Return the predicates of some members that are like a name, or the ones with most facts."""
    own: dict[str, int] = {}
    for member in members[:NEAR]:
        for name, count in walks.facts.predicates(member).items():
            own[name] = own.get(name, 0) + count
    return alike(predicate, own, NEAR) or sorted(own, key=lambda name: -own[name])[:NEAR]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A member with what it was sorted by: a literal or a count, and the fact with that literal."""

    member: str
    by: str
    fact: Triple | None


def ranked(walks: Walks, members: Sequence[str], by: MemberValue, *, most: bool, limit: int) -> list[Ranked]:
    """Return at most `limit` members, those with the most or least first.

    Raises QueryError if the values have no common order, or if no member has any.
    """
    names = sorted(members)
    if by.counted:
        counts = walks.counts(names, by.predicate)
        counted = [(count, name) for count, name in zip(counts, names, strict=True) if count]
        counted.sort(key=lambda one: one[0], reverse=most)
        found = [Ranked(name, str(count), None) for count, name in counted]
    else:
        found = _by_values(walks, names, by.predicate, most)
    if not found:
        check_predicate(walks, by.predicate, members, must_have=True)
    return found[:limit]


def _by_values(walks: Walks, names: Sequence[str], predicate: str, most: bool) -> list[Ranked]:
    kind, place = walks.kind(predicate), f"<{predicate}>"
    order_of((), kind, place)  # before anything is read: some kinds have no order
    pairs = list(walks.pairs(names, predicate))
    order = order_of((value for _, value in pairs), kind, place)
    best: dict[str, tuple[Any, str]] = {}  # keys of one kind: all times or all quantities
    for name, value in pairs:
        key: Any = sort_key(value, order)
        if key is not None and (name not in best or (key > best[name][0] if most else key < best[name][0])):
            best[name] = key, value
    if pairs and not best:
        raise QueryError(f"the values of <{predicate}> cannot be sorted: <{pairs[0][1]}> is no {order}")
    in_order = sorted(best.items(), key=lambda one: one[1][0], reverse=most)
    return [Ranked(name, value, (name, predicate, value)) for name, (_, value) in in_order]


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


class _Evaluation:
    def __init__(self, query: Query, facts: FactSet, limits: WalkLimits) -> None:
        self._query, self._budget = query, Budget(limits)
        self._walks = Walks(facts, self._budget)
        self._members: Members = {}
        check_start(facts, query.start)
        self._kind = self._kind_after(query.hops, "entity")
        for which in query.which:
            self._kind_after(which.hops, self._kind)
        if query.by is not None:
            self._kind_after((Hop(query.by.predicate),), self._kind)
        self._filters = [CompiledFilter(self._walks, which, self._kind) for which in query.which]

    def result(self) -> Result:
        query = self._query
        if query.head in ("count", "ask") and len(query.hops) == 1 and not (query.hops[0].closure or query.which):
            return self._by_count(query.hops[0].predicate)
        self._members = read_base(self._walks, query.start, query.hops, query.which)
        if not self._members:
            members: Members = {query.start: None}
            for hop in query.hops:  # the error says which of them no member has
                if hop.closure != "*":
                    check_predicate(self._walks, hop.predicate, list(members), must_have=self._must_have)
                members = self._walks.follow(members, hop)
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

    def _ranked(self, matches: Sequence[_Match], by: MemberValue) -> Result:
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
