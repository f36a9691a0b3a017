"""The statements of one text: which of a subject and property are written after it, and the answer that they give.

Of a question that asks for statements (`refactx.selection.statements`) the rest of the text follows from its subject and
property: the facts with their qualifiers, and the answer. Its number, or yes or no, is computed; the model has no part in it.
"""

from collections.abc import Sequence
from functools import cached_property
from heapq import nlargest
from itertools import combinations, islice
from typing import NamedTuple

from refactx.decoding.machine import Machine
from refactx.engines.engine import Steps
from refactx.fact import verbalise
from refactx.linking.names import bare_name
from refactx.selection.channel import Channel
from refactx.selection.conditions import Base, predicates_of
from refactx.selection.mentions import Mention, ValueSpans
from refactx.selection.queries import QuerySearch
from refactx.selection.query_lines import line_of
from refactx.selection.statements import Pattern, StatementAnswer, StatementChoice
from refactx.walks.language import FactSet, Hop, Predicate, Query, Statement
from refactx.walks.statements import TimeNames, statements_of

MOST_READ = 200
"""How many statements of a property are looked at for what the question names."""
COMPARING: tuple[Pattern, ...] = ("earlier", "later", "before", "after")
"""What words of a question have to say of two things, or their statements are not compared."""


class _Placed(NamedTuple):
    """An answer of statements at a time or place: the `line` of a query that means it, its `prior` in nats, what was `found`,
    and the `facts` that prove it."""

    line: str
    prior: float
    found: StatementAnswer
    facts: Sequence[str]


class StatementAnswers:
    """The statements of one text. `search`: what the question names."""

    def __init__(
        self, machine: Machine, channel: Channel, facts: FactSet, search: QuerySearch, end: Sequence[int]
    ) -> None:
        self._machine, self._channel, self._facts, self._search, self._end = machine, channel, facts, search, end

    def begin(self) -> Steps[Sequence[int]]:
        """Return the ids of a whole text about the likeliest subject and property of which a number, yes or no, or the first
        is asked for; empty if none has statements that answer."""
        search, weights, of_two = self._search, self._channel.weights, list[Base]()
        if not self._facts.has_statements:
            return ()
        if any(search.words.statements.has(one, search.question) for one in COMPARING):
            of_two = yield from self._of_two()
        of_values, bases, is_told = self._of_values(), of_two, {"ask", "count"}.isdisjoint(search.heads)
        if search.heads != ["list"]:
            found = yield from search.bases("ask" if "ask" in search.heads else "list")
            bases = [*of_two, *found[: 2 * weights.extended]]
        placed = self._of_places() if is_told and not of_two else []
        if not (bases or of_values or placed):
            return ()
        without, *scores = yield from search.likelihoods("", *(line for line, *_ in (*of_values, *placed)))
        of_places = [score + one.prior for score, one in zip(scores[len(of_values) :], placed, strict=True)]
        for confidence, (_, answer, *of) in zip((score - without for score in scores), of_values, strict=False):
            if confidence >= weights.min_confidence and answer.values:
                return self._whole(self._text_of_members(answer, *of), confidence)
        if placed and max(of_places) - without >= weights.min_confidence:
            best = max(range(len(placed)), key=of_places.__getitem__)
            return self._whole(self._with_answer(placed[best].facts, placed[best].found), of_places[best] - without)
        for base in bases:
            confidence = base.score - without
            found_answer = (
                self._answer(base.start.name, base.predicate.name) if confidence >= weights.min_confidence else None
            )
            if found_answer is not None and found_answer.values:
                return self._whole(self._text(base.start.name, base.predicate.name, found_answer), confidence)
        return ()

    def _whole(self, text: str, confidence: float) -> Sequence[int]:
        source = self._machine.source
        self._channel.evidence[()] = confidence
        trigger = source.tokenizer.encode(source.trigger)
        return (*trigger, *source.tokenizer.encode_after(source.trigger, text), *self._end)

    def after_property(self, ids: Sequence[int], confidence: float | None) -> Sequence[int]:
        """Return the ids of the rest of a text after the first fact up to its property, `ids`; empty if its facts follow as
        others do. `confidence`: how much likelier the fact makes the question, in nats."""
        least = self._channel.weights.min_confidence
        if not self._facts.has_statements or (confidence is not None and self._channel.unknown and confidence < least):
            return ()
        parts = self._machine.text_of(ids).decode("utf-8", "replace").split(">")
        if len(parts) != 3 or parts[2].strip():
            return ()
        subject, predicate = (part.strip().removeprefix("<") for part in parts[:2])
        # (A subject that the question does not name may be what is asked for.)
        is_named = any(one.name == subject for one in self._search.mentions.entities)
        found = self._answer(subject, predicate) if is_named else None
        if found is None:
            return ()
        source = self._machine.source
        whole = source.tokenizer.encode_after(source.trigger, self._text(subject, predicate, found, begun=True))
        return (*whole[len(ids) :], *self._end) if list(whole[: len(ids)]) == list(ids) else ()

    def names(self, subject: str, predicate: str) -> bool:
        """Return whether the question names an object of a subject and predicate, or the value of a qualifier."""
        facts, entities = self._facts, self._search.mentions.entities
        if not facts.has_statements:
            return False
        own = [one for one in entities if one.name == subject]
        others = {one.name for one in entities if all(map(one.is_apart, own))}
        if any(facts.hold([(subject, predicate, name) for name in others])):
            return True
        described = facts.describe([predicate]).get(predicate)
        if described is not None and described.inverse:
            return False
        read = islice(facts.statements([subject], predicate), MOST_READ)
        some = [Statement(value, qualifiers) for _, value, qualifiers in read]
        named = self._choice(subject, some).named
        return any(not named.isdisjoint(_values(one)) for one in some)

    def _of_values(self) -> list[tuple[str, StatementAnswer, str, str]]:
        """Return what statements of a class's members answer that have a literal which the question names: the line of a
        query that means them, the answer with members as objects, the predicate and the literal."""
        search, facts, found = self._search, self._facts, list[tuple[str, StatementAnswer, str, str]]()
        for class_ in search.classes:
            base = search.conditions.base_of(class_)
            for one in search.conditions.of_values(base):
                value, predicate = one.which.value, one.which.hops[0].predicate
                some = [
                    Statement(member, stated.qualifiers)
                    for member in one.members
                    for stated in statements_of(facts, member, predicate)
                    if stated.object == value
                ]
                answer = self._choice(value, some).answer(some) if any(each.qualifiers for each in some) else None
                if answer is not None:
                    query = Query("list", class_.name, (Hop(base.predicate.name),), (one.which,))
                    found.append((line_of(query, class_, one.mention), answer, predicate, value))
        return found

    def _of_places(self) -> list[_Placed]:
        """Return the numbered statements at the time, or the place in their order, that the question names, by properties of
        what it names, and what facts about their object say: who was the sixth president, and where was he born."""
        search, facts, placed = self._search, self._facts, list[_Placed]()
        for start in search.mentions.entities:
            place, ordinal = self._choice(start.name, ()).place
            for one, near in search.nearest(start, "list") if place else ():
                is_long = facts.counts([start.name], one.name)[0] > MOST_READ
                found = None if is_long else self._answer(start.name, one.name)
                numbers = [] if found is None else [each.values(self._times.ordinals) for each in found.statements]
                if found is None or not numbers or not all(some and ordinal in ("", *some) for some in numbers):
                    continue
                line = f"list <{start.called}> <{one.name}> {place}"
                first = _Placed(line, near, found, self._lines(start.name, one.name, found))
                placed += [first, *self._beyond(first, start)]
        return placed

    def _beyond(self, first: _Placed, start: Mention) -> list[_Placed]:
        """Return what facts say of the object of placed statements of a start, by the properties that are nearest to the
        question; nothing if these have several objects."""
        search, facts, weights, placed = self._search, self._facts, self._channel.weights, list[_Placed]()
        thing, *others = {one.object for one in first.found.statements}
        after = [] if others else predicates_of(facts, thing)
        ways = zip(search.meanings([one.name for one in after], start), after, strict=True)
        for near, one in nlargest(weights.likely_properties, ways, key=lambda way: way[0]):
            read = islice(facts.objects([thing], one.name), weights.facts_of_property)
            if start.name not in (values := [value for _, value in read]):
                told = StatementAnswer("objects", tuple(values), first.found.statements)
                shown = [*first.facts, *(verbalise(thing, one.name, value) for value in values)]
                line, prior = f"{first.line} <{one.name}>", max(first.prior, near) - weights.filter_gain
                placed.append(_Placed(line, prior, told, shown))
        return placed

    def _of_two(self) -> Steps[list[Base]]:
        """Return the starts and predicates that lead to two things which the question names, the likeliest first."""
        search, found = self._search, list[tuple[Mention, Predicate]]()
        entities = search.mentions.entities
        for start in entities:
            others = [one for one in entities if one.is_apart(start)]
            if any(first.is_apart(second) for first, second in combinations(others, 2)):
                for predicate in predicates_of(self._facts, start.name):
                    held = [
                        one
                        for one, holds in zip(
                            others,
                            self._facts.hold([(start.name, predicate.name, one.name) for one in others]),
                            strict=True,
                        )
                        if holds
                    ]
                    if any(first.is_apart(second) for first, second in combinations(held, 2)):
                        found.append((start, predicate))
        scores = yield from search.likelihoods(*(f"list <{start.called}> <{one.name}>" for start, one in found))
        bases = [Base(start, one, score) for (start, one), score in zip(found, scores, strict=True)]
        return sorted(bases, key=lambda one: -one.score)

    def _answer(self, subject: str, predicate: str) -> StatementAnswer | None:
        statements = statements_of(self._facts, subject, predicate)
        if not any(one.qualifiers for one in statements):
            return None
        return self._choice(subject, statements).answer(statements)

    def _choice(self, subject: str, statements: Sequence[Statement]) -> StatementChoice:
        search, words = self._search, self._search.words
        own = [one for one in search.mentions.entities if one.name == subject]
        others = [one for one in search.mentions.entities if all(map(one.is_apart, own))]
        known = [one for one in (*own, *others) if one.is_title(search.question) and not one.called.isdecimal()]
        called = {text for one in known for text in (one.name, search.question[one.start : one.stop])}
        named = {one.name for one in others}
        for value in {value for one in statements for value in _values(one)} - {subject}:
            place = self._spans.find(bare_name(value)) if any(map(str.isalpha, value)) else None
            if place is not None and all(one.stop <= place[0] or place[1] <= one.start for one in own):
                named.add(value)
                called.add(search.question[slice(*place)])

        def nearness(names: Sequence[str]) -> list[float]:
            return search.meanings(names, *own, *others)

        return StatementChoice(
            question=search.question,
            words=words.statements,
            names=self._times,
            named=frozenset(named),
            called=called,
            heads=search.heads,
            nearness=nearness,
            yes=words.yes,
            no=words.no,
        )

    @cached_property
    def _spans(self) -> ValueSpans:
        return ValueSpans(self._search.words, self._search.question)

    @cached_property
    def _times(self) -> TimeNames:
        return TimeNames.of(self._facts)

    def _text(self, subject: str, predicate: str, found: StatementAnswer, *, begun: bool = False) -> str:
        """Return the rest of a text after the trigger: facts, each once, and the answer."""
        return self._with_answer(self._lines(subject, predicate, found, begun=begun), found)

    def _lines(self, subject: str, predicate: str, found: StatementAnswer, *, begun: bool = False) -> list[str]:
        """Return the facts of an answer. Those that read a property backwards are written forwards, where their qualifiers are.
        `begun`: a fact of the subject and predicate has begun."""
        channel, facts = self._channel, self._facts
        shown = (found.statements or statements_of(facts, subject, predicate)[:1])[
            : max(1, channel.weights.facts_of_property)
        ]
        described = facts.describe([predicate]).get(predicate)
        forwards = facts.inverse_of(predicate) if described is not None and described.inverse else None
        if forwards is None:
            lines = [verbalise(subject, predicate, one.object, one.qualifiers) for one in shown]
        else:
            lines = [verbalise(subject, predicate, shown[0].object)] if begun else []
            lines += [verbalise(one.object, forwards, subject, one.qualifiers) for one in shown]
        return lines

    def _text_of_members(self, found: StatementAnswer, predicate: str, value: str) -> str:
        """Return the text after the trigger of members of a class as objects of an answer, which all have a value."""
        most = max(1, self._channel.weights.facts_of_property)
        lines = [verbalise(one.object, predicate, value, one.qualifiers) for one in found.statements[:most]]
        return self._with_answer(lines, found)

    def _with_answer(self, lines: Sequence[str], found: StatementAnswer) -> str:
        channel, source = self._channel, self._machine.source
        text = f"{source.terminator}\n{source.trigger}".join(dict.fromkeys(lines))
        values = "; ".join(channel.in_language(found.values)) if found.values else channel.unknown
        return f"{text}{source.terminator}\n{channel.marker} {values}"


def _values(one: Statement) -> list[str]:
    return [one.object, *(value for _, value in one.qualifiers)]
