"""Candidates for the query that a question asks, scored by the noisy channel: log p(question | examples, query).

All parts come from the question's words and from the facts: a start that the question names, predicates that it has,
filters that some members match, objects that the predicate has for somebody. So candidates can be answered, except
those that need all facts of a hub in an index that is too large to be scanned for them. No candidate takes such a scan;
for the sets of superlatives it is begun, for a sample.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from refactx.choosing.queries.candidate import UNASKED, Base, Candidate, SearchOptions, predicates_of
from refactx.choosing.queries.conditions import Condition, Conditions
from refactx.choosing.queries.mentions import Mention, Mentions
from refactx.choosing.queries.scores import LineScores, Way, line_of
from refactx.choosing.queries.words import QueryWords
from refactx.engines.requests import Steps
from refactx.query.fact_set import FactSet, Predicate
from refactx.query.values import parse_quantity, parse_time
from refactx.query.walk import By, Head, Hop, Query, Which


class QuerySearch:
    """The search for the query of one question, given what the question names and the scores of lines."""

    def __init__(
        self,
        *,
        facts: FactSet,
        words: QueryWords,
        question: str,
        mentions: Mentions,
        scores: LineScores,
        options: SearchOptions | None = None,
    ) -> None:
        self._facts, self._words, self._question, self.mentions = facts, words, question, mentions
        self._scores, self._options = scores, options or SearchOptions()
        self._conditions = Conditions(facts, words, mentions, self._options.sample)

    def candidates(self, head: Head) -> Steps[list[Candidate]]:
        """Return the candidates with a head, the likeliest first; none if the question names no start.

        Of a count of quantities the values are meant, so these are lists.
        """
        if not self.mentions.entities:
            return []
        if head == "ask":
            found = yield from self._asked()
        elif head in ("most", "least"):
            found = yield from self._superlatives(head)
        else:
            found = yield from self._sets(head)
        return sorted(found, key=lambda one: -one.score)

    def narrower(self, start: Mention, predicate: str) -> Steps[list[Candidate]]:
        """Return the list of a start's facts with a predicate, and the same with filters that the question names.

        The list itself is first.
        """
        described = self._facts.describe([predicate]).get(predicate, Predicate(predicate, None, False, "literal"))
        query = Query("list", start.name, (Hop(predicate),))
        [whole] = yield from self._scores.rank([Way(query, line_of(query, start), 0.0)])
        return [whole, *(yield from self._narrowed(Base(start, described), query))]

    def of_class(self) -> Steps[list[Candidate]]:
        """Return lists with a filter, if the question names a class and another entity: from each start that it names
        by all predicates that lead to members with the filter. The likeliest is first."""
        entities, instances = self.mentions.entities, self._conditions.instances
        if instances is None:
            return []
        counts = [self._facts.counts([one.name], instances)[0] for one in entities]
        classes = [one for one, count in zip(entities, counts, strict=True) if count > 1]
        ways: list[Way] = []
        for start in entities:
            if not any(one.is_apart(start) and one.name != start.name for one in classes):
                continue
            for predicate in predicates_of(self._facts, start.name):
                query = Query("list", start.name, (Hop(predicate.name),))
                ways += self._filtered(Base(start, predicate), query)
        return (yield from self._scores.rank(ways, self._options.hopeless))

    def without(self) -> Steps[float]:
        """Return the log-probability of the question after no query."""
        [score] = yield from self._scores.likelihoods([""])
        return float(score)

    def _prior(self, *mentions: Mention) -> float:
        return self._options.prior * sum(math.log(max(one.share, 1e-9)) for one in mentions)

    # --- Starts and predicates

    def _bases(self, head: Head) -> Steps[list[Base]]:
        """Return pairs of a start and a predicate, the likeliest first."""
        options, starts = self._options, self.mentions.entities
        lines = [f"{head} <{one.called}>" for one in starts]
        scores = (yield from self._scores.likelihoods(lines, [self._prior(one) for one in starts])).tolist()
        order = sorted(range(len(starts)), key=lambda at: -scores[at])
        likely = [starts[at] for at in order[: options.starts] if scores[at] >= scores[order[0]] - options.within]
        pairs = [(start, one) for start in likely for one in predicates_of(self._facts, start.name)]
        if head in ("most", "least"):
            pairs = [(start, one) for start, one in pairs if one.kind in ("entity", "mixed")]
        pairs = [(start, one) for start, one in pairs if self._is_named(one)] or pairs
        if not pairs:
            return []
        lines = [f"{_head_for(head, one)} <{start.called}> <{one.name}>" for start, one in pairs]
        priors = [self._prior(start) for start, _ in pairs]
        scores = (yield from self._scores.likelihoods(lines, priors, options.hopeless)).tolist()
        found = [Base(start, one, score) for (start, one), score in zip(pairs, scores, strict=True)]
        return sorted((one for one in found if one.score > -math.inf), key=lambda one: -one.score)

    def _is_named(self, predicate: Predicate) -> bool:
        if predicate.name in self.mentions.predicates:
            return True
        return predicate.inverse and self._facts.inverse_of(predicate.name) in self.mentions.predicates

    # --- Sets: list and count

    def _sets(self, head: Head) -> Steps[list[Candidate]]:
        found: list[Candidate] = []
        for base in (yield from self._bases(head))[: self._options.bases]:
            query = Query(_head_for(head, base.predicate), base.start.name, (Hop(base.predicate.name),))
            if query.head != "list" or not self._facts.is_hub(base.start.name, base.predicate.name):
                found.append(Candidate(query, line_of(query, base.start), base.score))
            found += yield from self._narrowed(base, query)
        return found

    def _narrowed(self, base: Base, query: Query) -> Steps[list[Candidate]]:
        """Return a query with filters by other entities that the question names."""
        return (yield from self._scores.rank(self._filtered(base, query)))

    def _filtered(self, base: Base, query: Query) -> list[Way]:
        ways: list[Way] = []
        for one in self._conditions.of(base):
            narrow = replace(query, which=(one.which,))
            prior = self._prior(base.start, one.mention) - self._options.filter
            ways.append(Way(narrow, line_of(narrow, base.start, one.mention), prior))
        return ways

    # --- Yes or no

    def _asked(self) -> Steps[list[Candidate]]:
        """Return queries of two entities, or of an entity and a number, that the question names."""
        ways: dict[Query, Way] = {}
        for start in self.mentions.entities:
            predicates = predicates_of(self._facts, start.name)
            named = [predicate for predicate in predicates if self._is_named(predicate)]
            for number in self.mentions.numbers:
                for predicate in named or predicates:
                    if self._compares(start.name, predicate, number):
                        for operator in self._words.operators_of(self._question):
                            query = Query("ask", start.name, (), (Which((Hop(predicate.name),), operator, number),))
                            ways[query] = Way(query, line_of(query, start), self._prior(start))
            for other in self.mentions.entities:
                if other.is_apart(start) and other.name != start.name:
                    # Questions mostly name the subject first.
                    prior = self._prior(start, other) + (start.start < other.start)
                    for name in self._leading_to(predicates, other):
                        query = Query("ask", start.name, (), (Which((Hop(name),), "is", other.name),))
                        ways[query] = Way(query, line_of(query, start, other), prior)
        found = yield from self._scores.rank(ways.values())
        return found + (yield from self._joined(found))

    def _joined(self, found: Sequence[Candidate]) -> Steps[list[Candidate]]:
        """Return the best candidates with a second object of the same predicate."""
        by_name, ways = {one.name: one for one in self.mentions.entities}, dict[Query, Way]()
        for best in found[: self._options.bases]:
            for one in found:
                pair = (best.query.which[0], one.query.which[0])
                if one.query.start != best.query.start or pair[0].hops != pair[1].hops:
                    continue
                if any(which.operator != "is" for which in pair):
                    continue
                first, second = sorted((by_name[which.value] for which in pair), key=lambda mention: mention.start)
                if first.is_apart(second):
                    start = by_name[best.query.start]
                    query = replace(
                        best.query, which=tuple(replace(pair[0], value=each.name) for each in (first, second))
                    )
                    prior = self._prior(start, first, second) - self._options.filter
                    ways[query] = Way(query, line_of(query, start, first, second), prior)
        return (yield from self._scores.rank(ways.values()))

    def _leading_to(self, predicates: Sequence[Predicate], other: Mention) -> list[str]:
        """Return those predicates that lead to an entity, from any subject: not from this one alone, or the answer
        would always be yes."""
        described = self._facts.describe(list(self._facts.predicates(other.name)))
        properties = {one.id for one in described.values() if one.inverse}
        return [one.name for one in predicates if not one.inverse and one.id in properties]

    def _compares(self, subject: str, predicate: Predicate, number: str) -> bool:
        """Return whether a subject's objects of a predicate compare with a number: quantities, or times with a year."""
        compared = [parse for parse in (parse_quantity, parse_time) if parse(number) is not None]
        if predicate.kind in ("quantity", "time"):
            return (parse_time if predicate.kind == "time" else parse_quantity) in compared
        if predicate.kind not in ("literal", "mixed"):
            return False
        some = islice(self._facts.objects([subject], predicate.name), self._options.sample)
        return any(parse(value) is not None for _, value in some for parse in compared)

    # --- Superlatives

    def _superlatives(self, head: Head) -> Steps[list[Candidate]]:
        found: list[Candidate] = []
        for base in (yield from self._ranked_sets(head)):
            ways = [
                *self._sorted(head, base, None),
                *(way for one in self._conditions.of(base) for way in self._sorted(head, base, one)),
            ]
            found += yield from self._scores.rank(ways, self._options.hopeless)
        return found

    def _ranked_sets(self, head: Head) -> Steps[list[Base]]:
        """Return the sets of which the question may ask for the first: the members of a class that it names, or else
        other sets."""
        options, instances = self._options, self._conditions.instances
        if instances is not None:
            predicate = Predicate(instances, None, True, "entity")
            starts = [one for one in self.mentions.entities if self._facts.counts([one.name], instances)[0] > 1]
            lines = [f"{head} <{one.called}> <{instances}>" for one in starts]
            scores = (yield from self._scores.likelihoods(lines, [self._prior(one) for one in starts])).tolist()
            found = [Base(start, predicate, score) for start, score in zip(starts, scores, strict=True)]
            if found:
                return sorted(found, key=lambda one: -one.score)[: options.bases]
        return (yield from self._bases(head))[: options.bases]

    def _sorted(self, head: Head, base: Base, condition: Condition | None) -> list[Way]:
        """Return the queries for the first of a set, maybe with a filter, by all that its members can be sorted by."""
        filters = () if condition is None else (condition.which,)
        members = self._conditions.scanned(base, self._options.scanned) if condition is None else condition.members
        named = (base.start,) if condition is None else (base.start, condition.mention)
        prior = self._prior(*named) - self._options.filter * len(filters)
        ways: list[Way] = []
        for by, share in self._measures(members):
            query = Query(head, base.start.name, (Hop(base.predicate.name),), filters, by)
            ways.append(Way(query, line_of(query, *named), prior + self._options.prior * math.log(share)))
        return ways

    def _measures(self, members: Sequence[str]) -> list[tuple[By, float]]:
        """Return what members can be sorted by, with the share of them that has it: predicates with numbers or times,
        and how many facts of a predicate there are if the question names that."""
        counts: Counter[str] = Counter()
        for member in members:
            counts.update(self._facts.predicates(member).keys())
        described = self._facts.describe([name for name in counts if name not in UNASKED])
        found: list[tuple[By, float]] = []
        for name, one in described.items():
            if self._is_sortable(members, one):
                found.append((By(name), counts[name] / len(members)))
            elif one.name in self.mentions.predicates:
                found.append((By(name, counted=True), counts[name] / len(members)))
        return found

    def _is_sortable(self, members: Sequence[str], predicate: Predicate) -> bool:
        """Return whether members have numbers alone with a predicate, or times alone."""
        if predicate.kind not in ("literal", "mixed"):
            return predicate.kind in ("quantity", "time")
        values = [value for _, value in self._facts.objects(members, predicate.name)]
        return any(all(parse(value) is not None for value in values) for parse in (parse_quantity, parse_time))


def _head_for(head: Head, predicate: Predicate) -> Head:
    """Return the head for the facts of a predicate: how many people live somewhere is a value, not a count."""
    return "list" if head == "count" and predicate.kind in ("quantity", "time") else head
