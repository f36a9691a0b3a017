"""Samples of sets: a few members show which predicates, values and hops can follow.

A set of at most `MOST_MEMBERS` members is its own sample. Of a larger one, what the sample shows is taken for all. So a
query may have an empty answer, or be refused when it is answered, such as for a hub that the sample does not have.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from refactx.walks.decoding.memo import Memo
from refactx.walks.evaluate import CompiledFilter
from refactx.walks.language import FactSet, Hop, Predicate, QueryError, ValueKind, WalkFilter
from refactx.walks.sets import LITERALS, Budget, Limits, Walks
from refactx.walks.values import Ordered, order_of, parse_quantity, parse_time, sort_key

MOST_MEMBERS = 200
"""The most members of a sample: each is looked up by itself."""
MOST_VALUES = 1000
"""The most values of a filter that are offered one by one, and that are read to find their order."""
PROBED = 2
"""The most objects that are looked at to decide whether a hop can be made again."""


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
        walks = Walks(self.facts, Budget(Limits(scanned=0)))
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
