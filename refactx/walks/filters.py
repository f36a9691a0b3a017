"""The filters of a query: which members they admit, and why.

The hops of a filter are made forwards from all members together, so classes that they share are read once and a
hierarchy is climbed from its leaves. Then matches are propagated back, from the values to the members.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from refactx.walks.language import Hop, QueryError, ValueKind, WalkFilter
from refactx.walks.sets import Members, Trail, Walks
from refactx.walks.values import Comparison

MOST_COMPARED = 1000
"""The most values of another set that members are compared with."""


class CompiledFilter:
    """A filter of members. `kind`: that of the members, for a filter without hops.

    Raises QueryError if its values cannot be compared so.
    """

    def __init__(self, walks: Walks, which: WalkFilter, kind: ValueKind) -> None:
        self._walks, self.which = walks, which
        hops = which.hops
        compared, place = (walks.kind_after(hops[-1]), f"<{hops[-1].predicate}>") if hops else (kind, "the set")
        if which.counted:
            compared, place = "quantity", f"count <{hops[-1].predicate}>"
        self._values: Members = dict.fromkeys(which.values)
        if which.than:
            self._values = self._other_set()
        self._comparisons = (
            []
            if which.operator == "is" and which.than
            else [(Comparison(which.operator, value, compared, place), value) for value in self._values]
        )
        self._has_compared, self._odd = False, ""

    def matching(self, members: Sequence[str]) -> Members:
        """Return the members that match, in order, each with the way from it to a value that does."""
        admitted = self._counted(members) if self.which.counted else self._reaching(members)
        if (self.which.negated or self.which.counted) and self._walks.budget.reason:
            word = "not" if self.which.negated else "which count"
            raise QueryError(f"`{word}` needs all facts of each member, but {self._walks.budget.reason}: add a filter")
        if self.which.negated:
            return {member: None for member in members if member not in admitted}
        return admitted

    def _other_set(self) -> Members:
        """Return the values of the set that members are compared with, or their number."""
        members: Members = {self.which.value: None}
        for hop in self.which.than:
            members = self._walks.follow(members, hop)
        if self._walks.budget.reason:
            raise QueryError(f"the set after `{self.which.operator}` is needed whole, but {self._walks.budget.reason}")
        if self.which.counted:
            return {str(len(members)): None}
        if len(members) > MOST_COMPARED and self.which.operator != "is":
            raise QueryError(
                f"the set after `{self.which.operator}` has {len(members):,} members: give one with at most {MOST_COMPARED:,}"
            )
        return members

    def _counted(self, members: Sequence[str]) -> Members:
        (hop, *others), walks = self.which.hops, self._walks
        if others or hop.closure or hop.has_statements:
            counts = [len(ends) for ends in walks.ends(members, self.which.hops).values()]
        else:
            counts = walks.counts(members, hop.predicate)
        return {
            member: None
            for member, count in zip(members, counts, strict=True)
            if self._compares(str(count)) is not None
        }

    def _reaching(self, members: Sequence[str]) -> Members:
        hops, looks_up = self.which.hops, False
        if (
            self.which.operator == "is"
            and hops
            and not (hops[-1].closure or hops[-1].has_statements or self.which.than or self.which.also)
        ):
            hops, looks_up = hops[:-1], True
        layers, graphs = [list(members)], list[Mapping[str, Sequence[str]]]()
        for hop in hops:
            following, graph = self._walks.expand(layers[-1], hop)
            layers.append(following)
            graphs.append(graph)
        if looks_up:
            good = self._walks.hold(layers[-1], self.which.hops[-1].predicate, self.which.value)
        else:
            values = ((end, self._compares(end)) for end in layers[-1])
            good = {end: self._values[value] for end, value in values if value is not None}
        for hop, nodes, graph in reversed(list(zip(hops, layers[:-1], graphs, strict=True))):
            good = self._before(good, nodes, graph, hop)
        return {member: good[member] for member in members if member in good}

    def finish(self) -> None:
        """Raise QueryError if there were values, but none that could be compared."""
        if self._odd and not self._has_compared:
            self._comparisons[0][0].check([self._odd])

    def _compares(self, text: str) -> str | None:
        """Return the value with which a text compares as asked; None if it compares with none."""
        if not self._comparisons:
            return text if text in self._values else None
        for comparison, value in self._comparisons:
            matches = comparison.matches(text)
            if matches is None:
                self._odd = self._odd or text
            else:
                self._has_compared = True
            if matches:
                return value
        return None

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
                    fact, qualifiers = self._walks.proof(subject, hop, member)
                    found[subject] = Trail(fact, ways[member], qualifiers)
                    if hop.closure and subject not in ways:
                        ways[subject] = found[subject]
                        waiting.append(subject)
        if hop.closure == "*":
            found |= good
        return {node: found[node] for node in nodes if node in found}
