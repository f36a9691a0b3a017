"""The filters for sets of one question: by entities and literals that it names, as far as some members match them."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice

from refactx.entity_ids import is_wikidata_property
from refactx.fact import ALIAS_OF, DESCRIPTIONS
from refactx.linking.names import bare_name
from refactx.selection.mentions import Mention, Mentions, QueryWords, ValueSpans, class_predicates, unnamed
from refactx.walks.language import FactSet, Hop, Predicate, WalkFilter
from refactx.walks.values import TRUTH

NEVER_QUERIED = frozenset((*DESCRIPTIONS, ALIAS_OF))
"""Predicates that no query has."""

STEPS_TO_WIDER = 6
"""How many steps up from a member's class are made to find a class that the question names."""

MAX_PREDICATES_OF_ENTITY = 4
"""The most predicates that lead to one entity."""

LEAST_SHARE = 0.2
"""The least share of the members that lead to an entity by one predicate, of those that do by the most usual one."""

MAX_FILTER_PAIRS = 8
"""The most pairs of filters of a set."""

FEW_MEMBERS, MANY_TIMES = 20, 4
"""A class with at most so many members of its own stands for a narrower one with many times as many."""

MORE_MEMBERS = 400
"""How many members of a large set are compared with an entity to which more subjects lead than are read."""

NEAREST_SUBJECTS = 200
"""How many subjects of each predicate of a named entity are looked for among the members of a large set."""


@dataclass(frozen=True, slots=True)
class Base:
    """A start and a predicate of it, the set that they lead to, with the score of that in nats."""

    start: Mention
    predicate: Predicate
    score: float = 0.0


def predicates_of(facts: FactSet, subject: str) -> list[Predicate]:
    """Return the predicates of a subject that queries may have."""
    names = [name for name in facts.predicates(subject) if name not in NEVER_QUERIED]
    described = facts.describe(names)
    return [described.get(name, Predicate(name, None, False, "literal")) for name in names]


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter by an entity that the question names, and some members that match it. `share`: how many do, of those of the
    predicate by which most match that entity."""

    mention: Mention
    which: WalkFilter
    members: Sequence[str]
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class _WayTo:
    """A predicate that leads to an entity. `subjects`: some of those from which it does; `are_all`: whether there are no
    more."""

    predicate: str
    subjects: Sequence[str]
    are_all: bool


class Conditions:
    """The filters for sets of one question. `sample`: how many members stand for a set.

    `reads_values`: literals that the question names are filters too. A graph that is not Wikidata's has few other things:
    the cells of a table are literals.
    """

    def __init__(self, facts: FactSet, words: QueryWords, mentions: Mentions, sample: int, question: str = "") -> None:
        self._facts, self._mentions, self._sample = facts, mentions, sample
        self._question, self._either = question, words.either
        self._spans, self._by_values = ValueSpans(words, question), dict[tuple[str, str], list[Condition]]()
        self._ways, self._more = dict[str, list[_WayTo]](), dict[tuple[str, str], list[str]]()
        self._class_of, self._wider, self.instances = class_predicates(facts, words)
        """The predicate from a class to what it is the class of; None if the index has none."""
        self.class_ways = {self._class_of, self._wider, self.instances} - {None}
        """The predicates between things and classes."""
        names = facts.names([*words.class_of.split(), *words.subclass_of.split()])
        self.reads_values = self.instances is not None and not any(map(is_wikidata_property, names))

    def of(self, base: Base) -> list[Condition]:
        """Return the filters that some member of a set matches."""
        members, found = self.members(base), list[Condition]()
        words = base.predicate.name.lower().split()
        said = {"".join(words[a:b]) for a, b in combinations(range(len(words) + 1), 2)}
        for other in self._mentions.entities:
            if not other.is_apart(base.start) or other.name == base.start.name:
                continue
            if other.called.lower().replace(" ", "") in said:  # what is `located in time zone` is a timezone
                continue
            matching = {
                way.predicate: some
                for way in self._ways_to(other.name)
                if (some := self._matching(base, members, way, other.name))
            }
            likely = sorted(matching.items(), key=lambda one: -len(one[1]))[:MAX_PREDICATES_OF_ENTITY]
            likely = [one for one in likely if len(one[1]) >= LEAST_SHARE * len(likely[0][1])]
            found += [
                Condition(other, WalkFilter(self.hops_to(name), "is", other.name), some, len(some) / len(likely[0][1]))
                for name, some in likely
            ]
            if self._class_of is not None and self._class_of not in matching:
                some = self._of_class(members, other.name)
                if some:
                    found.append(Condition(other, WalkFilter(self.hops_to(self._class_of), "is", other.name), some))
        found += self.of_values(base)
        return found + list(self._alternatives(found))

    def _alternatives(self, found: Sequence[Condition]) -> Iterator[Condition]:
        """Yield filters by one of two values that the question has with `or` between them: "in France or Germany"."""
        for first, second in combinations(sorted(found, key=lambda one: one.mention.start), 2):
            (one, other), which = (first.mention, second.mention), first.which
            is_between = self._question[one.stop : other.start].strip().casefold() == self._either
            if is_between and (which.hops, which.operator) == (second.which.hops, second.which.operator):
                members = list(dict.fromkeys([*first.members, *second.members]))
                place = replace(one, stop=other.stop)
                both = replace(which, also=(second.which.value,))
                yield Condition(place, both, members, max(first.share, second.share))

    def leading(self, name: str) -> set[str | None]:
        """Return the ids of properties that lead to an entity from any subject: of a yes or no about one subject, those from
        that alone would always give yes."""
        described = self._facts.describe(list(self._facts.predicates(name)))
        found = {one.id for one in described.values() if one.inverse}
        if self.reads_values and self._class_of is not None and self._wider is not None:
            ways = {one.id for one in self._facts.describe([self._class_of, self._wider]).values()}
            found |= set() if found.isdisjoint(ways) else ways
        return found

    def of_class_of(self, start: Mention) -> list[Condition]:
        """Return the filters by literals for what an entity is one of."""
        if not self.reads_values:
            return []
        classes = [class_ for _, class_ in self._facts.objects([start.name], self._class_of or "")]
        return [one for class_ in classes for one in self.of_values(self.base_of(unnamed(class_)))]

    def base_of(self, class_: Mention, score: float = 0.0) -> Base:
        """Return the members of a class."""
        return Base(class_, Predicate(self.instances or "", None, True, "entity"), score)

    def larger_part(self, class_: str, count: int) -> str | None:
        """Return the narrower class with most things, if a class has `count` of its own, few, and that one many times as
        many: a `football club` is mostly an `association football club`."""
        narrower = None if self._wider is None or self.instances is None else self._facts.inverse_of(self._wider)
        if narrower is None or count > FEW_MEMBERS:
            return None
        names = [name for _, name in islice(self._facts.objects([class_], narrower), self._sample)]
        counts = self._facts.counts(names, self.instances or "")
        most, name = max(zip(counts, names, strict=True), default=(0, ""))
        return name if most > FEW_MEMBERS + MANY_TIMES * count else None

    def are_of(self, names: Sequence[str], class_: str) -> bool:
        """Return whether some entity is of a class, or of a part of it."""
        direct = (one for _, one in self._facts.objects(names, self._class_of or ""))
        return class_ in direct or bool(self._of_class(names, class_))

    def are_of_others(self, names: Collection[str], class_: str) -> bool:
        """Return whether entities have classes, but none is of this one."""
        have = {name for name, _ in self._facts.objects(list(names), self._class_of or "")}
        return bool(names) and have.issuperset(names) and not self.are_of(list(names), class_)

    def of_values(self, base: Base) -> list[Condition]:
        """Return the filters by literals that some member of a set has, and that words of the question name which name no
        entity; `true` and the like are named by their predicate."""
        key = base.start.name, base.predicate.name
        if not self.reads_values or key in self._by_values:
            return self._by_values.get(key, [])
        facts, found = self._facts, self._by_values.setdefault(key, [])
        sample = self.members(base)
        names = {name for member in sample for name in facts.predicates(member)} - NEVER_QUERIED
        members = [member for _, member in facts.objects(list(key[:1]), key[1])] if sample else []
        for name, one in sorted(facts.describe(sorted(names)).items()):
            having = defaultdict[str, list[str]](list)
            for member, value in facts.objects(members, name) if one.kind != "entity" else ():
                having[value].append(member)
            for value, some in having.items():
                place = self._spans.find(bare_name(name) if TRUTH.get(value.lower()) else value)
                mention = None if place is None else Mention(*place, value, value, 1.0)
                if mention is not None and all(map(mention.is_apart, self._mentions.entities)):
                    found.append(Condition(mention, WalkFilter((Hop(name),), "is", value), some))
        return found

    def pairs(self, conditions: Sequence[Condition]) -> list[tuple[Condition, Condition]]:
        """Return pairs of filters that some member matches both of, those that more of the question names first."""
        found = [
            (first, second)
            for first, second in combinations(conditions, 2)
            if first.mention.is_apart(second.mention) and not set(first.members).isdisjoint(second.members)
        ]
        return sorted(found, key=lambda pair: -sum(one.mention.stop - one.mention.start for one in pair))[
            :MAX_FILTER_PAIRS
        ]

    def _ways_to(self, name: str) -> list[_WayTo]:
        """Return the predicates that lead to an entity, whatever the set that they are to narrow."""
        if (known := self._ways.get(name)) is not None:
            return known
        facts, found = self._facts, self._ways.setdefault(name, [])
        for predicate in predicates_of(facts, name):
            forwards = facts.inverse_of(predicate.name) if predicate.inverse else None
            if forwards is None:
                continue
            subjects: list[str] = []
            if not facts.is_hub(name, predicate.name):
                subjects = [one for _, one in islice(facts.objects([name], predicate.name), 4 * self._sample)]
            found.append(_WayTo(forwards, subjects, len(subjects) == facts.counts([name], predicate.name)[0]))
        return found

    def _matching(self, base: Base, members: Sequence[str], way: _WayTo, other: str) -> list[str]:
        """Return members from which a way leads to an entity, as far as they are in a sample of the set or of the way's
        subjects."""
        facts = self._facts
        if way.are_all:
            found = sorted(set(way.subjects) & set(members))
        else:
            if len(members) == self._sample:  # of a large set, few may lead to one of many things
                members = self._more_members(base)
            holds = facts.hold([(member, way.predicate, other) for member in members])
            found = [member for member, true in zip(members, holds, strict=True) if true]
        backwards = facts.inverse_of(base.predicate.name)
        if found or backwards is None or 0 < len(members) < self._sample:
            return found
        near = way.subjects[:NEAREST_SUBJECTS]
        holds = facts.hold([(subject, backwards, base.start.name) for subject in near])
        return [subject for subject, true in zip(near, holds, strict=True) if true]

    def _more_members(self, base: Base) -> list[str]:
        key = base.start.name, base.predicate.name
        if key not in self._more:
            self._more[key] = [one for _, one in islice(self._facts.objects([key[0]], key[1]), MORE_MEMBERS)]
        return self._more[key]

    def hops_to(self, predicate: str) -> tuple[Hop, ...]:
        """Return the hops of a filter by a predicate: classes count with those that they are part of."""
        if predicate == self._class_of and self._wider is not None:
            return Hop(predicate), Hop(self._wider, "*")
        return (Hop(predicate, "+" if self.reads_values and predicate == self._wider else ""),)

    def _of_class(self, members: Sequence[str], name: str) -> list[str]:
        """Return members with a class that is part of an entity, which has classes of its own; those of the nearest
        classes alone."""
        if self._class_of is None or self._wider is None or not members:
            return []
        if self._facts.inverse_of(self._wider) not in self._facts.predicates(name):
            return []
        classes, seen = defaultdict[str, set[str]](set), set[str]()  # the members of each class
        for member, one in self._facts.objects(members, self._class_of):
            classes[one].add(member)
        for _ in range(STEPS_TO_WIDER):
            if not classes or name in classes:
                break
            seen |= classes.keys()
            wider = defaultdict[str, set[str]](set)
            for narrow, wide in self._facts.objects(sorted(classes), self._wider):
                if wide not in seen:
                    wider[wide] |= classes[narrow]
            classes = wider
        return [member for member in members if member in classes.get(name, ())]

    def scanned(self, base: Base, most: int) -> list[str]:
        """Return some members of a set: of a hub, the first that a scan finds, if the index has at most `most` facts."""
        facts, start, predicate = self._facts, base.start.name, base.predicate.name
        if not facts.is_hub(start, predicate):
            return self.members(base)
        forwards = facts.inverse_of(predicate)
        if forwards is None or facts.size > most:
            return []
        return [subject for subject, _, _ in facts.scan([(forwards, start)], lambda: True, self._sample)]

    def members(self, base: Base) -> list[str]:
        """Return some members of a set; none if it has literals, or is that of a hub."""
        if base.predicate.kind not in ("entity", "mixed") or self._facts.is_hub(base.start.name, base.predicate.name):
            return []
        pairs = self._facts.objects([base.start.name], base.predicate.name)
        return [member for _, member in islice(pairs, self._sample)]
