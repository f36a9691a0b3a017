"""The side from which the members of a set are read: from its start, or backwards from the value of a filter.

`list <human> <has instance> which <director of> <X>` is read from X: the humans are too many, and a hub has no list of
them. What is read from the other side are candidates; all filters decide them again.
"""

from collections.abc import Sequence

from refactx.query.sets import Members, Walks
from refactx.query.walk import Hop, QueryError, Which

FEW = 64
"""With at most this many members there is nothing to save."""
FEWER = 8
"""The other side is taken if it has this many times fewer members: each of them is looked up besides."""

_UNKNOWN = 1 << 60
"""A number of candidates that is not known: over all limits."""


def read_base(walks: Walks, start: str, hops: Sequence[Hop], which: Sequence[Which]) -> Members:
    """Return the set to which the hops lead from the start; members that no filter can admit may be missing.

    Raises QueryError if a hub's facts are needed.
    """
    if len(hops) != 1 or hops[0].closure:
        members: Members = {start: None}
        for hop in hops:
            members = walks.follow(members, hop)
        return members
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
    def of(cls, walks: Walks, which: Which) -> "_Side | None":
        """Return the way back through a filter; None if there is none."""
        if which.operator != "is" or (which.hops and walks.kind(which.hops[-1].predicate) != "entity"):
            return None  # nothing leads back from a literal
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
