"""Filters: which members lead to a matching value, decided for many members at once.

The hops of a filter are made forwards from all members together, so classes that they share are read once and a
hierarchy is climbed from its leaves. Then matches are propagated back, from the values to the members.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from refactx.query.fact_set import ValueKind
from refactx.query.sets import Members, Trail, Walks
from refactx.query.values import Comparison
from refactx.query.walk import Hop, Which

AT_ONCE = 1024
"""Members that are decided together: between two such batches the time is checked."""


class Filter:
    """A filter of members. `kind`: that of the members, for a filter without hops.

    Raises QueryError if its values cannot be compared so.
    """

    def __init__(self, walks: Walks, which: Which, kind: ValueKind) -> None:
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
