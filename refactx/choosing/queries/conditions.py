"""Filters that a question names: other entities that some member of a set leads to."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from refactx.choosing.queries.candidate import Base, predicates_of
from refactx.choosing.queries.mentions import Mention, Mentions
from refactx.choosing.queries.words import QueryWords
from refactx.query.fact_set import FactSet
from refactx.query.walk import Hop, Which

WIDER = 6
"""How many steps up from a member's class are made to find a class that the question names."""

WAYS = 4
"""The most predicates that lead to one entity."""


@dataclass(slots=True)
class Conditions:
    """The filters for sets of one question. `sample`: how many members stand for a set."""

    facts: FactSet
    words: QueryWords
    mentions: Mentions
    sample: int

    def of(self, base: Base) -> list[tuple[Mention, Which]]:
        """Return filters that some member of a set matches: (mention, filter)."""
        others = [one for one in self.mentions.entities if one.is_apart(base.start) and one.name != base.start.name]
        backwards = self.facts.inverse_of(base.predicate.name)
        members = self.members(base)
        found: list[tuple[Mention, Which]] = []
        for other in others:
            asked: list[tuple[str, tuple[str, str, str]]] = []
            for predicate in predicates_of(self.facts, other.name):
                forwards = self.facts.inverse_of(predicate.name)
                if forwards is None or not predicate.inverse:
                    continue
                asked += [(forwards, (member, forwards, other.name)) for member in members]
                if backwards is not None and not self.facts.is_hub(other.name, predicate.name):
                    near = islice(self.facts.objects([other.name], predicate.name), 4 * self.sample)
                    asked += [(forwards, (member, backwards, base.start.name)) for _, member in near]
            holds = self.facts.hold([fact for _, fact in asked])
            names = Counter(name for (name, _), true in zip(asked, holds, strict=True) if true)
            found += [(other, Which(self._hops_to(name), "is", other.name)) for name, _ in names.most_common(WAYS)]
            if self._class_hops and self._class_hops[0].predicate not in names and self._is_class(members, other.name):
                found.append((other, Which(self._class_hops, "is", other.name)))
        return found

    def _hops_to(self, predicate: str) -> tuple[Hop, ...]:
        """Return the hops of a filter by a predicate: classes count with those that they are part of."""
        own = self._class_hops
        return own if own and own[0].predicate == predicate else (Hop(predicate),)

    @property
    def _class_hops(self) -> tuple[Hop, ...]:
        names = self.facts.names([self.words.class_of, self.words.subclass_of])
        if self.words.class_of not in names:
            return ()
        wider = names.get(self.words.subclass_of)
        return (Hop(names[self.words.class_of]), *([] if wider is None else [Hop(wider, "*")]))

    def _is_class(self, members: Sequence[str], name: str) -> bool:
        """Return whether some member has a class that is part of an entity, which has classes of its own."""
        wider = self.facts.names([self.words.subclass_of]).get(self.words.subclass_of)
        if wider is None or not members or self.facts.inverse_of(wider) not in self.facts.predicates(name):
            return False
        classes = {one for _, one in self.facts.objects(members, self._class_hops[0].predicate)}
        seen = set(classes)
        for _ in range(WIDER):
            if name in classes:
                return True
            classes = {one for _, one in self.facts.objects(sorted(classes), wider)} - seen
            seen |= classes
        return False

    def members(self, base: Base) -> list[str]:
        """Return some members of a set; none if it has literals, or is that of a hub."""
        if base.predicate.kind not in ("entity", "mixed") or self.facts.is_hub(base.start.name, base.predicate.name):
            return []
        pairs = self.facts.objects([base.start.name], base.predicate.name)
        return [member for _, member in islice(pairs, self.sample)]
