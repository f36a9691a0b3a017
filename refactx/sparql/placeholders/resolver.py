"""The resolver: the ids of a query's mentions, by a memory and by which patterns can match; or a refusal.

A label that the memory has means what has it: of several the one with the description, or else the one whose patterns
match and whose description is nearest. Of other mentions the nearest entries are candidates. All mentions of a query are
chosen together (`JointChoice`). What is only near, or has the label and another description, has to be
similar enough, or the query is refused: what it means may be missing.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Protocol

from refactx.index.index import Index
from refactx.iris import split_uri
from refactx.sparql.placeholders.entry import (
    PAPER,
    How,
    Match,
    Memory,
    MemoryEntry,
    MentionChoice,
    Refused,
    ResolvedMentions,
    Thresholds,
    WeighedChoice,
    is_described,
    mention_text,
)
from refactx.sparql.placeholders.text import PgmrQuery, Placeholder, Refusal
from refactx.sparql.syntax.parser import read_sparql
from refactx.sparql.syntax.view import iri_of, view_of
from refactx.walks.facts import TreeFacts

_PROPERTY = "http://www.wikidata.org/prop/"
_OF_SUBJECT = (f"{_PROPERTY}direct/", _PROPERTY)
"""Namespaces of properties whose subject is the entity: that of claims, and that which leads to statements."""
_OF_OBJECT = (f"{_PROPERTY}direct/", f"{_PROPERTY}statement/")
"""Namespaces of properties whose object is the value: that of claims, and that of statements."""
_NEEDED = ("select", "group", "graph", "lateral")
"""Groups that answers have to match."""
Reading = tuple[str, bool]
"""The id of a property, and whether it is read backwards, from its values."""
KEPT = 10_000
"""The entities whose properties are kept: some 20 MB."""
COMBINATIONS = 20_000
"""The most combinations of candidates that are compared for one query: 0.1 s."""
MATCH = 0.5
"""How much similarity a pattern that matches outweighs."""
FACTS = 0.2
"""How much similarity the facts of a candidate outweigh, if all facts of the candidates of its mention are its own."""
CANDIDATES = 10
"""The nearest entries of a mention that are candidates."""
NAMESAKES = 30
"""The most entries with a mention's label that are candidates."""


@dataclass(frozen=True, slots=True)
class MentionPattern:
    """A triple pattern, by placeholders: an entity has a relation, or (`inverse`) is the value of one.

    >>> MentionPattern("entity1", "relation1").inverse
    False
    """

    entity: str
    relation: str
    inverse: bool = False


def patterns_of(query: PgmrQuery) -> tuple[MentionPattern, ...]:
    """Return the patterns of a query that relate a placeholder of an entity with one of a relation.

    Those are left out that answers may match or not: in OPTIONAL, MINUS, FILTER and SERVICE, on one side of a UNION or
    of `|`, below `*`; and qualifiers. Raises QueryError if the query is not SPARQL.

        patterns_of(read_pgmr("SELECT ?x { ?x wdt:relation1 entity1 } ..."))  # (Pattern("entity1", "relation1", True),)
    """
    view, found = view_of(read_sparql(query.sparql)), dict[MentionPattern, None]()
    for one in view.patterns:
        property_ = iri_of(one.predicate)
        if property_ is None or one.closure in ("*", "?") or any(g.kind not in _NEEDED for g in view.around(one.group)):
            continue
        namespace, relation = split_uri(property_)
        for end, inverse, spaces in ((one.subject, False, _OF_SUBJECT), (one.object, True, _OF_OBJECT)):
            entity = split_uri(iri_of(end) or "")[1]
            if namespace in spaces and {entity, relation} <= query.mentions.keys():
                found[MentionPattern(entity, relation, inverse)] = None
    return tuple(found)


class Feasible(Protocol):
    """What is known of the facts of entities. Methods raise as `refactx.Index.children` does."""

    def readings(self, ids: Sequence[str]) -> Mapping[str, Mapping[Reading, int]]:
        """Return the properties that entities have, or are the values of, with numbers of facts, by the entities' ids."""
        ...

    def is_known(self, reading: Reading) -> bool:
        """Return whether all facts of a property are found, read so. Those read backwards may be unknown."""
        ...


class FactFeasibility:
    """The properties of entities in an open index: a `Feasible`.

    Safe to share between threads. Louisiana has four nicknames:

        FactFeasibility(index).readings(["Q1588"])["Q1588"]["P1449", False]  # 4
    """

    def __init__(self, index: Index) -> None:
        self._index, self._facts = index, TreeFacts(index)
        self._lock = threading.Lock()
        self._state: object = None
        self._readings: dict[str, Mapping[Reading, int]] = {}
        self._inverse: dict[str, bool] = {}

    def readings(self, ids: Sequence[str]) -> dict[str, Mapping[Reading, int]]:
        """Return the properties that entities have, or are the values of, with numbers of facts, by the entities' ids.

        An entity that the index does not name has none.
        """
        with self._lock:
            self._renew()
            unknown = [one for one in dict.fromkeys(ids) if one not in self._readings]
            names = self._index.names_of(unknown) if unknown else {}
            counts = {id_: self._facts.predicates(name) for id_, name in names.items()}
            described = self._facts.describe(list({name for some in counts.values() for name in some}))
            for id_ in unknown:
                some: dict[Reading, int] = {}
                for name, count in counts.get(id_, {}).items():
                    predicate = described.get(name)
                    if predicate is None or predicate.id is None:
                        continue
                    for reading in _readings(predicate.id, predicate.inverse, predicate.also):
                        some[reading] = some.get(reading, 0) + count
                self._readings[id_] = some
            return {id_: self._readings[id_] for id_ in ids}

    def is_known(self, reading: Reading) -> bool:
        """Return whether all facts of a property are found, read so: backwards, if the index has its inverse facts."""
        property_, inverse = reading
        with self._lock:
            self._renew()
            if inverse and property_ not in self._inverse:
                self._inverse[property_] = property_ in self._index.names_of([property_], inverse=True)
            return not inverse or self._inverse[property_]

    def _renew(self) -> None:
        """Forget what was read if the index has changed, or if it is much."""
        state = (self._index.name_tables, *(id(tree) for _, tree in self._index.segments))
        if state != self._state or len(self._readings) > KEPT:
            self._state, self._readings, self._inverse = state, {}, {}


def _readings(property_: str, inverse: bool, also: Iterable[str]) -> list[Reading]:
    return [(property_, inverse), *((other, not inverse) for other in also)]


class JointChoice:
    """The candidates of a query's mentions, and the patterns between these, by placeholder. Each mention has at least
    one candidate, those with most weight first.

    A combination of candidates is as good as the sum of their weights, with `MATCH` for each pattern that matches facts.
    Entities that have more facts are likelier (`FACTS`). Raises as `feasible` does.
    """

    def __init__(
        self, feasible: Feasible, options: Mapping[str, Sequence[WeighedChoice]], patterns: Sequence[MentionPattern]
    ) -> None:
        self._feasible, self._options, self._patterns = feasible, options, patterns
        entities = [
            option.choice.entry.id
            for name, some in options.items()
            if len(some) > 1 or any(pattern.entity == name for pattern in patterns)
            for option in some
            if option.choice.mention.kind == "entity"
        ]
        self._readings = feasible.readings(entities) if entities else {}

    def best(self) -> dict[str, MentionChoice]:
        """Return the choice of each mention."""
        weighted = {name: self._weighted(some) for name, some in self._options.items()}
        bound = {name for pattern in self._patterns for name in (pattern.entity, pattern.relation)}
        chosen = {name: some[0].choice for name, some in weighted.items() if name not in bound}
        together = _trimmed({name: some for name, some in weighted.items() if name in bound})
        combinations = (dict(zip(together, some, strict=True)) for some in product(*together.values()))
        chosen |= {name: option.choice for name, option in max(combinations, key=self._worth).items()}
        return {name: chosen[name] for name in self._options}

    def matches(self, pattern: MentionPattern, chosen: Mapping[str, MentionChoice]) -> bool:
        """Return whether a pattern matches a fact, or may match one that is not known."""
        return self._match(pattern, chosen[pattern.entity].entry.id, chosen[pattern.relation].entry.id)

    def _worth(self, combination: Mapping[str, WeighedChoice]) -> float:
        ids = {name: option.choice.entry.id for name, option in combination.items()}
        matches = sum(self._match(one, ids[one.entity], ids[one.relation]) for one in self._patterns)
        return sum(option.weight for option in combination.values()) + MATCH * matches

    def _match(self, pattern: MentionPattern, entity: str, relation: str) -> bool:
        reading: Reading = (relation, pattern.inverse)
        return bool(self._readings[entity].get(reading)) or not self._feasible.is_known(reading)

    def _weighted(self, options: Sequence[WeighedChoice]) -> list[WeighedChoice]:
        """Return options with more weight for those with more facts, in order."""
        facts = [sum(self._readings.get(option.choice.entry.id, {}).values()) for option in options]
        total = sum(facts)
        if len(options) < 2 or not total:
            return list(options)
        weighted = [
            WeighedChoice(option.choice, option.weight + FACTS * count / total)
            for option, count in zip(options, facts, strict=True)
        ]
        return sorted(weighted, key=lambda one: -one.weight)


def _trimmed(options: Mapping[str, Sequence[WeighedChoice]]) -> dict[str, list[WeighedChoice]]:
    """Return options without those of least weight of the mentions that have most, until there are few combinations.

    >>> options = [WeighedChoice(None, weight) for weight in range(1000)]
    >>> [len(some) for some in _trimmed({"a": options, "b": options[:5]}).values()]
    [1000, 5]
    """
    kept = {name: list(some) for name, some in options.items()}
    while prod(map(len, kept.values())) > COMBINATIONS:
        max(kept.values(), key=len).pop()
    return kept


class MemoryResolver:
    """A resolver of mentions by a memory (`refactx.sparql.placeholders.Resolver`).

    `tau`: the least similarity, for all kinds of choices or by kind; else: the memory's own thresholds. `feasible`: what
    is known of facts, None: nothing. `ignore_case`: for text in lower case, where case does not tell labels apart.
    `must_match`: refuse queries with a pattern that matches no fact.

        resolver = MemoryResolver(open_memory(index), feasible=FactFeasibility(index))
        found = resolver.resolve_query(read_pgmr(text))
        found.ids if isinstance(found, Resolved) else found.reason

    Safe to share between threads if its memory is.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        tau: Thresholds | None = None,
        feasible: Feasible | None = None,
        ignore_case: bool = False,
        must_match: bool = False,
    ) -> None:
        self._memory, self._feasible, self._ignore_case, self._must_match = memory, feasible, ignore_case, must_match
        self._least_of: dict[Match, float] = dict(memory.thresholds)
        if tau is not None:
            self._least_of |= tau if isinstance(tau, Mapping) else dict.fromkeys(PAPER, tau)

    def resolve_query(self, query: PgmrQuery) -> ResolvedMentions | Refused:
        """Return what the placeholders of a query stand for, or why it is refused.

        Raises QueryError if the query is not SPARQL, and as the memory does.
        """
        return self.resolve_mentions(query.mentions, patterns_of(query) if self._feasible is not None else ())

    def resolve_mentions(
        self, mentions: Mapping[str, Placeholder], patterns: Sequence[MentionPattern] = ()
    ) -> ResolvedMentions | Refused:
        """Return what mentions stand for, or why their query is refused. Mentions and patterns are by placeholder."""
        options = dict(zip(mentions, self._options(list(mentions.values())), strict=True))
        refusals = [
            refused for name, mention in mentions.items() if (refused := self._refusal(name, mention, options[name]))
        ]
        if refusals:
            return min(refusals, key=lambda one: one.similarity)
        options = {name: self._passing(some) for name, some in options.items()}
        patterns = [one for one in patterns if {one.entity, one.relation} <= options.keys()]
        if self._feasible is None:
            return ResolvedMentions({name: some[0].choice for name, some in options.items()})
        joint = JointChoice(self._feasible, options, patterns)
        chosen = joint.best()
        unmatched = [pattern for pattern in patterns if not joint.matches(pattern, chosen)]
        if unmatched and self._must_match:
            first = unmatched[0]
            entity, relation = chosen[first.entity], chosen[first.relation]
            says = "is the value of no fact with" if first.inverse else "has no fact with"
            reason = f"<{entity.entry.text}> {says} <{relation.entry.label}>"
            return Refused(first.entity, entity, entity.similarity, reason)
        concerned = {name: [one for one in patterns if name in (one.entity, one.relation)] for name in chosen}
        return ResolvedMentions(
            {
                name: replace(choice, feasible=not set(unmatched) & set(concerned[name]) if concerned[name] else None)
                for name, choice in chosen.items()
            }
        )

    def resolve(self, mentions: Sequence[Placeholder]) -> list[str | Refusal]:
        """Return the id of each mention, chosen on its own, or why it has none."""
        found: list[str | Refusal] = []
        for mention, options in zip(mentions, self._options(mentions), strict=True):
            refused = self._refusal("", mention, options)
            found.append(self._passing(options)[0].choice.entry.id if refused is None else Refusal(refused.reason))
        return found

    def candidates(self, mention: Placeholder) -> list[MentionChoice]:
        """Return what a mention may mean, the likeliest first: whatever has its label, or else what is nearest."""
        (options,) = self._options([mention])
        return [option.choice for option in options]

    def _options(self, mentions: Sequence[Placeholder]) -> list[list[WeighedChoice]]:
        """Return the candidates of each mention, those with most weight first."""
        options = [
            self._with_label(mention, entries)
            for mention, entries in zip(mentions, self._memory.exact(mentions), strict=True)
        ]
        others = [at for at, some in enumerate(options) if not some]
        nearest = self._memory.nearest([mentions[at] for at in others], CANDIDATES) if others else []
        for at, some in zip(others, nearest, strict=True):
            choices = [MentionChoice(mentions[at], near.entry, near.similarity, "nearest") for near in some]
            options[at] = [WeighedChoice(choice, choice.similarity) for choice in choices]
        return options

    def _with_label(self, mention: Placeholder, entries: Sequence[MemoryEntry]) -> list[WeighedChoice]:
        """Return the entries with a mention's label that it may mean."""
        if not self._ignore_case:
            entries = [one for one in entries if mention.label in (one.label, one.text)] or entries
        described = [one for one in entries if is_described(one, mention)]
        by_id: dict[str, MemoryEntry] = {}
        for one in described or entries:
            if one.id not in by_id or not one.is_alias:
                by_id[one.id] = one
        chosen = list(by_id.values())[:NAMESAKES]
        likeness = [1.0] * len(chosen)
        if mention.description and (len(chosen) > 1 or not described):
            likeness = [min(one, 1.0) for one in self._memory.similarities(mention, chosen)]
        options = []
        for one, alike in zip(chosen, likeness, strict=True):
            how: How = "name" if described else "alias" if one.is_alias else "label"
            described_otherwise = bool(one.description) or len(chosen) > 1
            differs = how != "name" and mention.kind == "entity" and bool(mention.description) and described_otherwise
            options.append(WeighedChoice(MentionChoice(mention, one, alike if differs else 1.0, how), alike))
        return sorted(options, key=lambda one: -one.weight)

    def _least(self, choice: MentionChoice) -> float:
        return 0.0 if choice.match is None else self._least_of[choice.match]

    def _passing(self, options: Sequence[WeighedChoice]) -> list[WeighedChoice]:
        """Return the options that are what was asked for, or similar enough to it."""
        return [one for one in options if one.choice.similarity >= self._least(one.choice)]

    def _refusal(self, name: str, mention: Placeholder, options: Sequence[WeighedChoice]) -> Refused | None:
        if self._passing(options):
            return None
        what, text = "entity" if mention.kind == "entity" else "property", mention_text(mention)
        if not options:
            return Refused(name, None, 0.0, f"no {what} of the memory is like <{text}>")
        best = options[0].choice
        reason = (
            f"no {what} of the memory is like <{text}>: the nearest is <{best.entry.text}>, with a similarity of "
            f"{best.similarity:.2f}, and {self._least(best):.2f} is needed"
        )
        return Refused(name, best, best.similarity, reason)
