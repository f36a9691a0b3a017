"""Candidates for the query of a question, found from its words and the facts, and scored by a model.

All parts come from the question's words and from the facts: a start that the question names, predicates that it has,
filters that some members match, objects that the predicate has for somebody. So candidates can be answered, except
those that need all facts of a hub in an index that is too large to be scanned for them. No candidate takes such a scan;
for the sets of superlatives it is begun, for a sample.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from heapq import nlargest
from itertools import islice, product

import numpy as np
from numpy.typing import NDArray

from refactx.engines.engine import Steps
from refactx.english import plural
from refactx.selection.conditions import NEVER_QUERIED, Base, Condition, Conditions, predicates_of
from refactx.selection.mentions import (
    Mention,
    Mentions,
    QueryWords,
    name_spans,
    unnamed,
    words_of,
)
from refactx.selection.query_lines import Candidate, LineScores, UnscoredQuery, line_of
from refactx.selection.weights import Weights
from refactx.walks.language import BOUNDS, FactSet, Head, Hop, MemberValue, Operator, Predicate, Query, WalkFilter
from refactx.walks.sets import WalkLimits
from refactx.walks.values import parse_quantity, parse_time

MAX_BETWEEN = 10
"""How many things between two others are looked at."""

_COUNTS = re.compile(r"(?i)\b(most|least|fewest|many|number|busiest|largest|biggest|greatest|smallest|popular)\b")
"""Words of a superlative that may be of how many there are."""

_YEAR, _DECADE = re.compile("1[0-9]{3}|20[0-9]{2}"), re.compile(r"\b((?:1[0-9]|20)[0-9]0)s\b")
_OF_ADJECTIVE = re.compile(r"(?i)\b(?:most|least) (\w+)")
""""The most expensive": the adjective is of a value, where that after "most" in "the most games" is no adjective."""

_BOTH_WAYS: dict[Head, tuple[Head, Head]] = {"most": ("most", "least"), "least": ("least", "most")}

NARROWED = 3
"""The most predicates that a bound is tried with beside another filter, those nearest in meaning."""

LARGEST_CLASSES = 3
"""How many classes are tried for a question that names none."""


class QuerySearch:
    """The search for the query of one question, given what the question names and the scores of lines.

    `widest`: returns the names with most facts, for the classes among them.
    """

    def __init__(
        self,
        *,
        facts: FactSet,
        words: QueryWords,
        question: str,
        mentions: Mentions,
        scores: LineScores,
        weights: Weights | None = None,
        widest: Callable[[], Sequence[str]] = tuple,
        nearness: Callable[[Sequence[str], Sequence[str]], NDArray[np.float64]] | None = None,
    ) -> None:
        self._facts, self.words, self.question, self.mentions = facts, words, question, mentions
        self._scores, self.weights, self._widest = scores, weights or Weights(), widest
        self.conditions = Conditions(facts, words, mentions, self.weights.sampled_members, question)
        self._nearness = nearness

    @cached_property
    def heads(self) -> list[Head]:
        """The heads that the question's words name, `list` if there is none: words of names ask for nothing, as those of
        the predicates `phone number` and `first name` of what the question is about."""
        found = self.words.heads_of(self.question)
        return found if found == ["list"] else self.words.heads_of(self.question, self.name_spans)

    @cached_property
    def name_spans(self) -> list[tuple[int, int]]:
        """The places of names in the question: of entities, and of predicates of what it is about."""
        question = self.question
        titles = [(one.start, one.stop) for one in self.mentions.entities if one.is_title(question)]
        about = [one.name for one in self.mentions.entities]
        about += [one for class_ in self.classes for one in self.conditions.members(self.conditions.base_of(class_))]
        names = {name for one in about for name in self._facts.predicates(one)} | self.mentions.predicates
        return [*titles, *name_spans(question, sorted(names - NEVER_QUERIED))]

    def candidates(self, head: Head) -> Steps[list[Candidate]]:
        """Return the candidates with a head, the likeliest first; none if the question names no start.

        Of a count of quantities the values are meant, so these are lists.
        """
        if head == "ask":
            found = yield from self._asked()
        elif head in ("most", "least"):
            found = yield from self._superlatives(head)
        else:
            found = yield from self._sets(head)
        return sorted(found, key=lambda one: -one.score)

    def narrower(self, start: Mention, predicate: str) -> list[UnscoredQuery]:
        """Return the list of a start's facts with a predicate, and the same with filters that the question names.

        The list itself is first. Where literals are filters, it is a count if the question asks for that.
        """
        described = self._facts.describe([predicate]).get(predicate, Predicate(predicate, None, False, "literal"))
        counts = self.conditions.reads_values and self.heads == ["count"]
        head: Head = "count" if counts and described.kind in ("entity", "mixed") else "list"
        query = Query(head, start.name, (Hop(predicate),))
        base = Base(start, described)
        return [
            UnscoredQuery(query, line_of(query, start), 0.0),
            *self.filtered(base, query, self.conditions.of(base)),
        ]

    def of_class(self, subject: Mention | None = None) -> list[UnscoredQuery]:
        """Return lists with a filter, if the question names a class and another entity: from each start that it names
        by all predicates that lead to members with the filter.

        Where literals are filters, also those of the members of a class; of a question for yes or no, whether `subject` has
        one of them.
        """
        classes, ways = self.classes, list[UnscoredQuery]()
        for start in self.mentions.entities:
            others = any(one.is_named and one.is_apart(start) and one.name != start.name for one in classes)
            for predicate in predicates_of(self._facts, start.name) if others else ():
                query = Query("list", start.name, (Hop(predicate.name),))
                base = Base(start, predicate)
                ways += self.filtered(base, query, self.conditions.of(base))
            if start in classes and self._titles and not self.conditions.reads_values:
                base = self.conditions.base_of(start)
                query = Query("list", start.name, (Hop(base.predicate.name),))
                ways += self.filtered(base, query, self.conditions.of(base))
        heads = self.heads if self.conditions.reads_values else []
        if heads == ["ask"] and subject is not None:
            ways += self._values_asked(subject, predicates_of(self._facts, subject.name))
        if heads == ["list"]:
            for base in map(self.conditions.base_of, classes):
                query = Query("list", base.start.name, (Hop(base.predicate.name),))
                ways += self.filtered(base, query, self.conditions.of_values(base))
            for start in self.mentions.entities:
                for predicate in predicates_of(self._facts, start.name) if self.mentions.numbers else ():
                    query = Query("list", start.name, (Hop(predicate.name),))
                    base = Base(start, predicate)
                    ways += self._compared(base, query, self.conditions.members(base))
        unique = {one.query: one for one in ways}.values()
        scored = [one._replace(prior=one.prior + self._of_meaning(one.query)) for one in unique]
        best = dict[frozenset[str], float]()  # by the predicates of queries
        for one in scored:
            best[_predicates(one.query)] = max(one.prior, best.get(_predicates(one.query), one.prior))
        kept = nlargest(self.weights.nearest_properties, best, key=lambda some: best[some])
        return [one for one in scored if _predicates(one.query) in kept]

    @cached_property
    def asked_class(self) -> Mention | None:
        """The class of which the question asks which, what, how many or all; None without one."""
        return next((one for one in self.classes if self.is_asked_for(one)), None)

    def is_asked_for(self, mention: Mention) -> bool:
        """Return whether a mention stands behind which, what, how many or all."""
        before = [word for word in re.findall(r"\w+", self.question[: max(mention.start, 0)].lower()) if word != "the"]
        return bool(before) and before[-1] in self.words.asking

    def is_of_other_class(self, start: str, predicate: str) -> bool:
        """Return whether the objects of a predicate are of classes, but none of them is of the class that is asked for."""
        asked = self.asked_class
        if asked is None or asked.name == start:
            return False
        known = self._facts.describe([predicate]).get(predicate)
        if known is not None and known.kind == "quantity":  # of which words of the class say the number: `what number`
            return set(words_of(asked.called)).isdisjoint(words_of(predicate)) and not asked.is_title(self.question)
        base = Base(unnamed(start), Predicate(predicate, None, False, "entity"))
        return self.conditions.are_of_others(self.conditions.members(base)[:MAX_BETWEEN], asked.name)

    def is_asked_class(self, names: Sequence[str]) -> bool:
        """Return whether one of some things is of the class that is asked for."""
        return self.asked_class is not None and self.conditions.are_of(names, self.asked_class.name)

    def by_two(self, start: Mention) -> list[UnscoredQuery]:
        """Return the sets of the class that is asked for to which a thing leads by two predicates, of which the first leads to
        others: the departments whose members have an expertise."""
        facts, conditions, ways, asked = self._facts, self.conditions, list[UnscoredQuery](), self.asked_class
        if (
            not conditions.reads_values
            or asked is None
            or asked.name == start.name
            or self.heads not in (["list"], ["count"])
        ):
            return []
        for base in [Base(start, one) for one in predicates_of(facts, start.name)]:
            members = conditions.members(base)[:MAX_BETWEEN]
            if base.predicate.name in conditions.class_ways or conditions.are_of(members, asked.name):
                continue
            names = {name for member in members for name in facts.predicates(member)} - NEVER_QUERIED
            for name in sorted(names - {*conditions.class_ways, facts.inverse_of(base.predicate.name)}):
                ends = [end for _, end in islice(facts.objects(members, name), MAX_BETWEEN)]
                if ends and conditions.are_of(ends, asked.name):
                    query = Query(self.heads[0], start.name, (Hop(base.predicate.name), Hop(name)))
                    ways.append(
                        UnscoredQuery(query, line_of(query, start), self._of_meaning(query) - self.weights.filter_gain)
                    )
        return ways

    def meanings(self, names: Sequence[str], *starts: Mention) -> list[float]:
        """Return what the meaning of the question says of predicates of some starts, in nats."""
        if self._nearness is None:
            return [0.0] * len(names)
        called = [self.question[one.start : one.stop] for one in starts if one.is_named]
        found: list[float] = self._nearness(names, called).tolist()
        return found

    def _is_near(self, meaning: float) -> bool:
        """Return whether a name is near to the question; any name is, if there is no ranker."""
        return self._nearness is None or meaning >= self.weights.least_nearness * self.weights.meaning

    def _of_meaning(self, query: Query) -> float:
        """Return what the meaning of the question says of the nearest predicate of a query, in nats."""
        names = sorted(_predicates(query) - self.conditions.class_ways)
        named = {query.start, *(one.value for one in query.which)}
        return max(self.meanings(names, *(one for one in self.mentions.entities if one.name in named)), default=0.0)

    def likelihoods(self, *lines: str) -> Steps[list[float]]:
        """Return the log-probability of the question after each line, and after no query for an empty one."""
        found: list[float] = (yield from self._scores.likelihoods(lines)).tolist()
        return found

    def rank(self, ways: Iterable[UnscoredQuery], least: float = -math.inf) -> Steps[list[Candidate]]:
        """Return queries with their scores, the likeliest first: without hopeless ones, those of more than `least`."""
        some = [way._replace(prior=way.prior - self.left_out(way.query)) for way in ways]
        return (yield from self._scores.rank(some, self.weights.drop_queries_below, least))

    def left_out(self, query: Query) -> float:
        """Return what it counts, in nats, that a query leaves out names and numbers of the question."""
        said = {query.start, *query.also, *(value for one in query.which for value in one.values)}
        said |= {query.minus.start} if query.minus else {query.per.value} if query.per else set()
        places = [(one.start, one.stop, one.name in said) for one in self._titles]
        used = [(start, stop) for start, stop, is_said in places if is_said]
        unused = {
            (start, stop) for start, stop, _ in places if all(stop <= first or last <= start for first, last in used)
        }
        numbers = {number for some in self._bounds for _, number in some} - said
        return self.weights.left_out_penalty * (len(unused) + bool(numbers))

    @cached_property
    def _titles(self) -> list[Mention]:
        """The entities that the question spells as names."""
        return [one for one in self.mentions.entities if one.is_named and one.is_title(self.question)]

    @cached_property
    def _bounds(self) -> list[tuple[tuple[Operator, str], ...]]:
        """The bounds that the question sets with its numbers, of which one is meant; a year alone is a time in which
        something is."""
        operators, numbers = self.words.operators_of(self.question), self.mentions.numbers
        bounds: list[tuple[tuple[Operator, str], ...]] = [
            (one,) for one in product([one for one in operators if one in BOUNDS], numbers)
        ]
        if len(numbers) > 1 and {"over", "under"}.issubset(operators):
            least, *_, most = sorted(numbers, key=float)
            bounds.append((("over", least), ("under", most)))
        for one in _DECADE.finditer(self.question):
            bounds.append((("over", str(int(one[1]) - 1)), ("under", str(int(one[1]) + 10))))
        return bounds or [(("equals", one),) for one in numbers if _YEAR.fullmatch(one)]

    def prior(self, *mentions: Mention) -> float:
        return self.weights.share_weight * sum(math.log(max(one.share, 1e-9)) for one in mentions)

    # --- Starts and predicates

    @cached_property
    def classes(self) -> list[Mention]:
        """The classes with several members that the question names; if it names none and literals are filters, the nearest
        in meaning, then the largest."""
        instances, entities = self.conditions.instances, self.mentions.entities
        if instances is None:
            return []
        counts = [self._facts.counts([one.name], instances)[0] for one in entities]
        named = [one for one, count in zip(entities, counts, strict=True) if count > 1]
        named += [
            replace(one, name=name)
            for one, count in zip(entities, counts, strict=True)
            if not self.conditions.reads_values and (name := self.conditions.larger_part(one.name, count))
        ]
        return named or self.unnamed_classes

    @cached_property
    def unnamed_classes(self) -> list[Mention]:
        """Where literals are filters, the classes that are nearest to the question in meaning, then the largest."""
        instances, entities = self.conditions.instances, self.mentions.entities
        if instances is None or not self.conditions.reads_values:
            return []
        names = self._widest()
        sizes = {
            name: count for name, count in zip(names, self._facts.counts(names, instances), strict=True) if count > 1
        }
        near = dict(zip(sizes, self.meanings(list(sizes), *entities), strict=True))
        order = sorted(sizes, key=lambda name: (-near[name] if self._is_near(near[name]) else 0.0, -sizes[name]))
        return [unnamed(name) for name in order[:LARGEST_CLASSES]]

    def class_bases(self, head: Head) -> Steps[list[Base]]:
        """Return the members of classes, those of the likeliest class first."""
        instances, starts = self.conditions.instances, self.classes
        lines = [f"{head} <{one.called}> <{instances}>" for one in starts]
        scores = (yield from self._scores.likelihoods(lines, [self.prior(one) for one in starts])).tolist()
        found = [self.conditions.base_of(start, score) for start, score in zip(starts, scores, strict=True)]
        return sorted(found, key=lambda one: -one.score)

    def bases(self, head: Head) -> Steps[list[Base]]:
        """Return pairs of a start and a predicate, the likeliest first."""
        weights, starts = self.weights, self.mentions.entities
        if not starts:
            return []
        lines = [f"{head} <{one.called}>" for one in starts]
        scores = (yield from self._scores.likelihoods(lines, [self.prior(one) for one in starts])).tolist()
        order = sorted(range(len(starts)), key=lambda at: -scores[at])
        likely = [
            starts[at] for at in order[: weights.starts] if scores[at] >= scores[order[0]] - weights.keep_starts_within
        ]
        pairs = [(start, one, near) for start in likely for one, near in self.nearest(start, head)]
        pairs = [pair for pair in pairs if self._is_named(pair[1])] or pairs
        single = frozenset[tuple[Mention, Predicate]]()
        if head == "count" and self.conditions.reads_values:
            single = frozenset(pair[:2] for pair in pairs if self._facts.counts([pair[0].name], pair[1].name)[0] == 1)
            pairs = [pair for pair in pairs if pair[:2] not in single or pair[1].kind != "text"]
        if not pairs:
            return []
        lines = [f"{_head_for(head, one)} <{start.called}> <{one.name}>" for start, one, _ in pairs]
        priors = [
            self.prior(start)
            + near
            - weights.count_of_one_gain * ((start, one) in single and _head_for(head, one) == head)
            for start, one, near in pairs
        ]
        scores = (yield from self._scores.likelihoods(lines, priors, weights.drop_queries_below)).tolist()
        found = [Base(start, one, score) for (start, one, _), score in zip(pairs, scores, strict=True)]
        return sorted((one for one in found if one.score > -math.inf), key=lambda one: -one.score)

    def nearest(self, start: Mention, head: Head) -> list[tuple[Predicate, float]]:
        """Return the predicates of a start that are nearest to the question in meaning, and those that it names, with what
        their meaning says, in nats."""
        found = predicates_of(self._facts, start.name)
        if head in ("most", "least"):
            found = [one for one in found if one.kind in ("entity", "mixed")]
        near = zip(found, self.meanings([one.name for one in found], start), strict=True)
        order = sorted(near, key=lambda pair: -pair[1])
        most = self.weights.nearest_properties
        return [pair for rank, pair in enumerate(order) if rank < most or self._is_named(pair[0])]

    def _is_named(self, predicate: Predicate) -> bool:
        if predicate.name in self.mentions.predicates:
            return True
        return predicate.inverse and self._facts.inverse_of(predicate.name) in self.mentions.predicates

    # --- Sets: list and count

    def _sets(self, head: Head) -> Steps[list[Candidate]]:
        found: list[Candidate] = []
        bases = (yield from self.bases(head))[: self.weights.extended]
        if self.conditions.reads_values or self._titles or self._bounds:
            known = {(one.start.name, one.predicate.name) for one in bases}
            classes = yield from self.class_bases(head)
            bases += [one for one in classes if (one.start.name, one.predicate.name) not in known]
        for base in bases:
            query = Query(_head_for(head, base.predicate), base.start.name, (Hop(base.predicate.name),))
            if query.head != "list" or not self._facts.is_hub(base.start.name, base.predicate.name):
                found.append(Candidate(query, line_of(query, base.start), base.score - self.left_out(query)))
            found += yield from self.rank(self.filtered(base, query, self.conditions.of(base)))
        return found

    def filtered(self, base: Base, query: Query, conditions: Sequence[Condition]) -> list[UnscoredQuery]:
        """Return the queries that a query becomes by filters with other entities and numbers that the question names."""
        ways: list[UnscoredQuery] = []
        for some in (*((one,) for one in conditions), *self.conditions.pairs(conditions)):
            named = [one.mention for one in some]
            narrow = replace(query, which=tuple(one.which for one in some))
            prior = self.prior(base.start, *named) - self.weights.filter_gain * len(some) + self._of_shares(some)
            ways.append(UnscoredQuery(narrow, line_of(narrow, base.start, *named), prior))
            if self._bounds and query.head == "count":
                members = [one for one in some[0].members if all(one in other.members for other in some[1:])]
                ways += self._compared(base, narrow, members, some)
        return ways + self._compared(base, query, self.conditions.members(base))

    def _compared(
        self, base: Base, query: Query, members: Sequence[str], others: Sequence[Condition] = ()
    ) -> list[UnscoredQuery]:
        """Return a query with filters by numbers of the question, with which values of members compare. `others`: its other
        filters."""
        ways, named = list[UnscoredQuery](), [one.mention for one in others]
        if not members or not self._bounds:
            return ways
        times = {one.name for one in self._facts.describe(self._predicates_of(members)).values() if one.kind == "time"}
        for by, of_measure in self.measures(members, base.start, *named)[: NARROWED if named else None]:
            for some in self._bounds if not by.counted else ():
                if some[0][0] == "equals" and (
                    by.predicate not in times or (query.head == "list" and not self._begins(members, by, some[0][1]))
                ):
                    continue
                which = tuple(WalkFilter(by.hops, operator, number) for operator, number in some)
                narrow = replace(query, which=(*query.which, *which))
                prior = self.prior(base.start, *named) - self.weights.filter_gain * (len(others) + 1)
                prior += self._of_shares(others)
                ways.append(UnscoredQuery(narrow, line_of(narrow, base.start, *named), prior + of_measure))
        return ways

    def _begins(self, members: Sequence[str], by: MemberValue, year: str) -> bool:
        """Return whether some member has a time in a year."""
        return any(value.startswith(year) for value in self.values(members, by.path))

    def _of_shares(self, conditions: Sequence[Condition]) -> float:
        return self.weights.share_weight * sum(math.log(one.share) for one in conditions)

    def _predicates_of(self, members: Sequence[str]) -> list[str]:
        return list(dict.fromkeys(name for one in members for name in self._facts.predicates(one)))

    # --- Yes or no

    def _asked(self) -> Steps[list[Candidate]]:
        """Return queries of two entities, or of an entity and a number, that the question names."""
        ways: dict[Query, UnscoredQuery] = {}
        for start in self.mentions.entities:
            predicates = predicates_of(self._facts, start.name)
            near = dict(zip(predicates, self.meanings([one.name for one in predicates], start), strict=True))
            named = [predicate for predicate in predicates if self._is_named(predicate)]
            for number in self.mentions.numbers:
                for predicate in named or predicates:
                    if self._is_near(near[predicate]) and self._compares(start.name, predicate, number):
                        for operator in self.words.operators_of(self.question):
                            query = Query(
                                "ask", start.name, (), (WalkFilter((Hop(predicate.name),), operator, number),)
                            )
                            prior = self.prior(start) + near[predicate]
                            ways[query] = UnscoredQuery(query, line_of(query, start), prior)
            for other in self.mentions.entities:
                if not other.is_apart(start) or other.name == start.name:
                    continue
                # Questions mostly name the subject first.
                prior = self.prior(start, other) + self.weights.subject_first * (start.start < other.start)
                leading = self.conditions.leading(other.name)
                for one in [one for one in predicates if not one.inverse and one.id in leading]:
                    hops = self.conditions.hops_to(one.name) if self.conditions.reads_values else (Hop(one.name),)
                    query = Query("ask", start.name, (), (WalkFilter(hops, "is", other.name),))
                    ways[query] = UnscoredQuery(query, line_of(query, start, other), prior + near[one])
            ways |= {one.query: one for one in self._values_asked(start, named or predicates)}
        found = yield from self._scores.rank(ways.values())
        return found + (yield from self._joined(found))

    def _values_asked(self, start: Mention, predicates: Sequence[Predicate]) -> list[UnscoredQuery]:
        """Return whether a start has a literal that the question names, by predicates with which others of its class do."""
        names, ways = {one.name for one in predicates}, list[UnscoredQuery]()
        for one in self.conditions.of_class_of(start):
            if one.which.hops[0].predicate in names:
                query = Query("ask", start.name, (), (one.which,))
                prior = self.prior(start) + self.weights.subject_first * (start.start < one.mention.start)
                ways.append(UnscoredQuery(query, line_of(query, start), prior))
        return ways

    def _joined(self, found: Sequence[Candidate]) -> Steps[list[Candidate]]:
        """Return the best candidates with a second object of the same predicate."""
        by_name, ways = {one.name: one for one in self.mentions.entities}, dict[Query, UnscoredQuery]()
        for best in found[: self.weights.extended]:
            for one in found:
                pair = (best.query.which[0], one.query.which[0])
                if one.query.start != best.query.start or pair[0].hops != pair[1].hops:
                    continue
                if any(which.operator != "is" or which.value not in by_name for which in pair):
                    continue
                first, second = sorted((by_name[which.value] for which in pair), key=lambda mention: mention.start)
                if first.is_apart(second):
                    start = by_name[best.query.start]
                    query = replace(
                        best.query, which=tuple(replace(pair[0], value=each.name) for each in (first, second))
                    )
                    prior = self.prior(start, first, second) - self.weights.filter_gain
                    ways[query] = UnscoredQuery(query, line_of(query, start, first, second), prior)
        return (yield from self._scores.rank(ways.values()))

    def _compares(self, subject: str, predicate: Predicate, number: str) -> bool:
        """Return whether a subject's objects of a predicate compare with a number: quantities, or times with a year."""
        compared = [parse for parse in (parse_quantity, parse_time) if parse(number) is not None]
        if predicate.kind in ("quantity", "time"):
            return (parse_time if predicate.kind == "time" else parse_quantity) in compared
        if predicate.kind not in ("literal", "mixed"):
            return False
        some = islice(self._facts.objects([subject], predicate.name), self.weights.sampled_members)
        return any(parse(value) is not None for _, value in some for parse in compared)

    # --- Superlatives

    def _superlatives(self, head: Head) -> Steps[list[Candidate]]:
        """Return the first of sets: of others than the classes that the question names, if these have nothing to compare, in a
        graph that is not Wikidata's."""
        found = yield from self._first_of((yield from self._ranked_sets(head)), head)
        if not found and self.conditions.reads_values:
            found = yield from self._first_of((yield from self.bases(head)), head)
        return found

    def _first_of(self, bases: Iterable[Base], head: Head) -> Steps[list[Candidate]]:
        """Return the first of the likeliest sets that have something to compare."""
        found, left = list[Candidate](), self.weights.extended
        for base in bases:
            ways = [
                *self._sorted(head, base, None),
                *(way for one in self.conditions.of(base) for way in self._sorted(head, base, one)),
            ]
            found += yield from self.rank(ways)
            left -= bool(ways)
            if not left:
                break
        return found

    def _ranked_sets(self, head: Head) -> Steps[list[Base]]:
        """Return the sets of which the question may ask for the first: the members of a class that it names, or else
        other sets."""
        found = yield from self.class_bases(head)
        if not any(one.start.is_named for one in found):
            found = sorted([*(yield from self.bases(head)), *found], key=lambda one: -one.score)
        return found[: self.weights.extended]

    def _sorted(self, head: Head, base: Base, condition: Condition | None) -> list[UnscoredQuery]:
        """Return the queries for the first of a set, maybe with a filter, by all that its members can be sorted by."""
        filters = () if condition is None else (condition.which,)
        members = self.conditions.scanned(base, WalkLimits().scanned) if condition is None else condition.members
        named = (base.start,) if condition is None else (base.start, condition.mention)
        prior = self.prior(*named) - self.weights.filter_gain * len(filters)
        prior += 0.0 if condition is None else self._of_shares([condition])
        ways: list[UnscoredQuery] = []
        for by, of_measure in self.measures(members, *named, head=head):
            query = Query(head, base.start.name, (Hop(base.predicate.name),), filters, by)
            ways.append(UnscoredQuery(query, line_of(query, *named), prior + of_measure))
        return ways

    @cached_property
    def counts(self) -> bool:
        """Whether a superlative of the question may be of how many there are: not "the most expensive", nor "the oldest"."""

        def without(found: re.Match[str]) -> str:
            word = found[1]
            is_adjective = not (_COUNTS.fullmatch(word) or plural(word) == word or self.words.is_function(word))
            return " " if is_adjective else found[0]

        return _COUNTS.search(_OF_ADJECTIVE.sub(without, self.question)) is not None

    def measures(
        self, members: Sequence[str], *named: Mention, head: Head | None = None
    ) -> list[tuple[MemberValue, float]]:
        """Return what members can be sorted by, the nearest to the question in meaning first, with a prior in nats: by its
        meaning, and by the share of members that have it. These are predicates with numbers or times, those of what a member
        alone leads to (the amount of its price), and how many facts of a predicate there are if the question names that, or if
        literals are filters.

        Of a superlative those that its adjective compares are nearest, and those that it compares the other way are left out:
        the oldest has the highest age, and the least date. The last such word of a name counts: `years ago` is an age.
        """
        counts: Counter[str] = Counter()
        for member in members:
            counts.update(self._facts.predicates(member).keys())
        said, other_way = (
            self.words.measures_of(self.question, one) if head else frozenset[str]()
            for one in _BOTH_WAYS[head or "most"]
        )
        described = self._facts.describe([name for name in counts if name not in NEVER_QUERIED])
        found: list[MemberValue] = []
        for name, one in described.items():
            if self._is_sortable(one, members):
                found.append(MemberValue(name))
                continue
            found += self._of_part(one, members)
            if (one.name in self.mentions.predicates and (self.counts or not (said or other_way))) or (
                self.conditions.reads_values
                and self.counts  # the heaviest has a weight, however many it has of anything
                and one.kind in ("entity", "mixed")
                and max(self._facts.counts(members, one.name)) > 1
            ):
                found.append(MemberValue(name, counted=True))
        compared = [[word for word in words_of(" ".join(by.path)) if word in said | other_way][-1:] for by in found]
        pairs = [(by, some) for by, some in zip(found, compared, strict=True) if said.issuperset(some)]
        found = [by for by, _ in pairs]
        near = self.meanings([" ".join(by.path) for by in found], *named)
        near = [one + self.weights.meaning * bool(some) for one, (_, some) in zip(near, pairs, strict=True)]
        priors = [
            meaning + self.weights.share_weight * math.log(counts[by.path[0]] / len(members))
            for by, meaning in zip(found, near, strict=True)
        ]
        order = sorted(zip(found, priors, strict=True), key=lambda pair: -pair[1])
        return order[: self.weights.nearest_properties]

    def values(self, members: Sequence[str], path: Sequence[str]) -> Sequence[str]:
        """Return what predicates lead to from members, one after the other."""
        for name in path:
            members = [value for _, value in self._facts.objects(members, name)]
        return members

    def _is_sortable(self, one: Predicate, members: Sequence[str]) -> bool:
        """Return whether a predicate leads from members to numbers alone, or to times alone."""
        if one.kind not in ("literal", "mixed"):
            return one.kind in ("quantity", "time")
        values = self.values(members, [one.name])
        return any(None not in map(parse, values) for parse in (parse_quantity, parse_time))

    def _of_part(self, one: Predicate, members: Sequence[str]) -> list[MemberValue]:
        """Return the numbers and times of what a predicate leads to, if that is a part of a member, such as its price with an
        amount: it is of no other member, and leads to values alone."""
        if not self.conditions.reads_values or one.kind != "entity" or one.inverse:
            return []
        parts = self.values(members, [one.name])
        if len(set(parts)) < len(parts):
            return []
        names = set(self._predicates_of(parts[:MAX_BETWEEN])) - NEVER_QUERIED - self.conditions.class_ways
        described = self._facts.describe(sorted(names)).values()
        if any(each.kind == "entity" and not each.inverse for each in described):
            return []
        return [MemberValue(each.name, via=(one.name,)) for each in described if self._is_sortable(each, parts)]


def _predicates(query: Query) -> frozenset[str]:
    return frozenset(hop.predicate for hops in (query.hops, *(one.hops for one in query.which)) for hop in hops)


def _head_for(head: Head, predicate: Predicate) -> Head:
    """Return the head for the facts of a predicate: how many people live somewhere is a value, not a count."""
    return "list" if head == "count" and predicate.kind in ("quantity", "time") else head
