"""The queries of one text: which question needs one, and the text with its result and the answer.

A question for a number, for yes or no, or for the highest has a query in place of facts, if the question's words name
what it is about. A list that is longer than the facts that are written, or that the question narrows, has a query after
its first fact. The answer after a query is the query's result: the model has no part in it.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import takewhile
from typing import Literal

from refactx.decoding.machine import Machine
from refactx.decoding.states import Free, InQuery, State
from refactx.engines.engine import Steps, TreeReading
from refactx.english import open_pronoun, plural
from refactx.fact import split_fact
from refactx.linking.names import bare_name, unaccented
from refactx.selection.answer_lines import up_to_object
from refactx.selection.channel import Channel, QuerySources
from refactx.selection.mentions import (
    Mention,
    Mentions,
    MentionSpan,
    classes_among,
    find_mentions,
    kinds_among,
    named_spans,
    part_spans,
    unnamed,
    widest_names,
    words_of,
)
from refactx.selection.plain import PlainChooser
from refactx.selection.queries import QuerySearch
from refactx.selection.query_lines import Candidate, LineScores
from refactx.selection.scores import QuestionScore
from refactx.selection.statement_answers import StatementAnswers
from refactx.selection.tables import TableSearch
from refactx.walks.answered import AnsweredQuery, answer_query
from refactx.walks.checks import LinkedFactSet
from refactx.walks.decoding import QueryGrammar
from refactx.walks.evaluate import DEFAULT_LIMITS
from refactx.walks.language import TERMINATOR, FactSet, Query, QueryError, read_line
from refactx.walks.sets import WalkLimits
from refactx.walks.values import TRUTH

TRIGGER = "Query:"
LONGEST_TURN = 300
"""The most characters of an earlier turn that are looked at for names."""

Antecedent = Literal["none", "missing", "before"]


class QueryAnswers:
    """The queries of one text. `sources`: what they are made of; `score`: the likelihoods of the question after them."""

    def __init__(
        self, machine: Machine, channel: Channel, sources: QuerySources, score: QuestionScore | None = None
    ) -> None:
        self._machine, self.channel, self._question = machine, channel, channel.text
        self._score, self._weights = score or channel.score_of_queries, channel.weights
        self.facts, self._words, self._tokens = sources.facts, sources.words, sources.tokens
        self.end = tuple(sources.end)

    def begin(self, trees: TreeReading) -> Steps[Sequence[int]]:
        """Return the ids of a whole text with a query; empty if facts are to be written."""
        search = self.search(trees)
        whole = yield from self._statements(search).begin()
        heads = [head for head in search.heads if head != "list"]
        found = [] if whole else (yield from self.tables(search).candidates())
        if whole or not (heads or found):
            yield from self._score.close()
            return whole
        best_list = -math.inf  # as likely a list, which begins with facts
        if not heads:
            best_list = max((one.score for one in (yield from search.candidates("list"))), default=-math.inf)
            best_list -= self._weights.left_out_penalty * any(one.query.per for one in found)
        for head in heads:
            found += yield from search.candidates(head)
        [without] = yield from search.likelihoods("")
        yield from self._score.close()
        found = sorted((one for one in found if one.score > best_list), key=lambda one: -one.score)
        answered = self._first_answer(search, found, without)
        return self._write(answered) if answered is not None else ()

    def after_fact(
        self, state: Free, trees: TreeReading, fits: Callable[[int], bool] = lambda more: True
    ) -> Steps[Sequence[int]]:
        """Return the ids after the first fact: a query for the whole list, with its answer; empty if none is needed.

        A list of a class that the question names takes the place of that fact if it makes the question likelier still.
        `fits`: whether there is room for so many more facts.
        """
        machine, confidence = self._machine, self.channel.confidence
        if len(state.facts) != 1 or self.channel.answered:
            return ()
        parts = split_fact(machine.text_of(state.facts[0].tokens).decode("utf-8", "replace"))
        if parts is None:
            return ()
        subject, predicate, value = parts
        search = self.search(trees)
        known = [one for one in search.mentions.entities if one.name == subject]
        start = known[0] if known else unnamed(subject)
        [whole, *narrower], others = search.narrower(start, predicate), search.of_class(start)
        is_count = whole.query.head == "count"  # it says what the fact says
        [count] = self.facts.counts([subject], predicate)
        is_long = count > self._weights.facts_of_property or (count > 1 and not fits(count - 1))
        two = search.by_two(start)
        if not (narrower or others or is_count or is_long or two):
            return ()
        [near] = search.meanings([predicate], start)
        narrower = [one._replace(prior=one.prior + near) for one in narrower]
        listed, without = yield from search.likelihoods(whole.line, "")
        listed += near - search.left_out(whole.query)
        least = listed if confidence is None else max(listed, without + confidence - search.left_out(whole.query))
        found = (yield from search.rank(narrower, listed)) + (yield from search.rank(others, least))[:1]
        found.sort(key=lambda one: -one.score)
        if two:
            is_right = search.is_asked_class([value])  # else the objects of the fact are no answer
            found = (yield from search.rank(two, least if is_right else -math.inf))[:1] + found
            found.sort(key=lambda one: -one.score if is_right else 0.0)
        yield from self._score.close()
        if is_count or is_long:
            found.append(Candidate(whole.query, whole.line, least if is_count else listed))
        answered = self._first_answer(search, found, without)
        if answered is None:
            return ()
        newline = () if state.tail.endswith(b"\n") else tuple(machine.source.tokenizer.encode("\n"))
        return (*newline, *self._write(answered))

    def of_statements(self, ids: Sequence[int], confidence: float | None) -> Sequence[int]:
        """Return the ids of the rest of a text with statements (`StatementAnswers.after_property`)."""
        return self._own_statements.after_property(ids, confidence)

    def names_value(self, subject: str, predicate: str) -> bool:
        """Return whether the question names an object of a subject and predicate or the value of a qualifier, of statements."""
        return self.facts.has_statements and self._own_statements.names(subject, predicate)

    @cached_property
    def _own_statements(self) -> StatementAnswers:
        return self._statements(self._search)

    def _statements(self, search: QuerySearch) -> StatementAnswers:
        return StatementAnswers(self._machine, self.channel, self.facts, search, self.end)

    def objects(self, state: Free, unknown: Sequence[int] = ()) -> Sequence[int]:
        """Return the ids of an answer that lists the objects of the last facts, with their subject and property, or with
        another property of it, of facts before, that makes the question likelier; to a question for yes or no, whether it
        names one of them. `unknown`: those of an answer if the objects say nothing.

        Empty if the question names neither that subject nor one that led to it: the subject may then be the answer.
        """
        machine, mentions = self._machine, self.mentions
        facts = [split_fact(machine.text_of(fact.tokens).decode("utf-8", "replace")) for fact in state.facts]
        found = [fact for fact in facts if fact is not None]
        if not found:
            return ()
        subject, predicate, _ = found[-1]
        gains = dict[str, float]()
        for one, fact in zip(state.facts, facts, strict=True):
            gain = self.channel.evidence.get(up_to_object(machine, one.tokens))
            if fact is not None and fact[0] == subject and gain is not None:
                gains[fact[1]] = gain
        if predicate in gains:
            predicate = max(reversed(gains), key=lambda name: gains[name])
        words = set(re.findall(r"\w+", unaccented(self._question)))
        is_named = any(one.name == subject for one in mentions.entities) or any(
            word in words and not self._words.is_function(word)
            for word in re.findall(r"\w+", unaccented(bare_name(subject)))
        )
        if not is_named and all(value != subject for _, _, value in found):
            return ()
        names = [value for one, of, value in found if (one, of) == (subject, predicate)]
        search = self._search
        if search.heads == ["ask"]:
            known = words_of(f"{bare_name(subject)} {predicate}")
            asked = [one for one in re.findall(r"\w+", self._question) if not self._words.is_function(one)]
            asks_for_any = all(word in known for one in asked for word in words_of(one))
            values = {name: bare_name(name) for name in names}
            mentioned = {one.name for one in mentions.entities} - {subject}
            true = any(
                TRUTH.get(value.lower(), name in mentioned or self._names(value, subject, predicate))
                for name, value in values.items()
            )
            is_plain = all(value.lower() not in TRUTH for value in values.values())
            true = true or (asks_for_any and is_plain)  # "Has Ann an email?"
            names = ["yes" if true else "no"]
        elif unknown and self._says_nothing(search, subject, predicate, names):
            return (*unknown, *self.end)
        answer = "; ".join(self.channel.in_language(names))
        return (*machine.source.tokenizer.encode(f"{self.channel.marker} {answer}"), *self.end)

    def _names(self, value: str, subject: str, predicate: str) -> bool:
        """Return whether the question has at least half of the words of an object, without those of its subject and
        predicate: `olives` names the `Olive Topping` that a pizza `has topping`."""
        known = set(words_of(f"{bare_name(subject)} {predicate}"))
        words = [word for word in words_of(value) if word not in known and not self._words.is_function(word)]
        return bool(words) and 2 * len(set(words) & set(words_of(self._question))) >= len(words)

    @property
    def _has_or(self) -> bool:
        return bool(re.search(rf"\b{re.escape(self._words.either)}\b", self._question))

    @cached_property
    def mentions(self) -> Mentions:
        """What the question names, and the places of which its adjectives are."""
        found = find_mentions(self._machine, self.facts, self._question, self.spans)
        if not isinstance(self.facts, LinkedFactSet):
            return found
        linker, places = self.facts.linker, list[Mention]()
        for start, stop, place in self._words.places_of(self._question):
            named = max(linker.namesakes(place), key=linker.count, default=None)
            places += [] if named is None else [Mention(start, stop, named, self._question[start:stop], 1.0)]
        return replace(found, entities=[*found.entities, *places]) if places else found

    @property
    def spans(self) -> Sequence[MentionSpan]:
        """The names at the beginning of facts that stand in the question; if it has none, or a pronoun for what it does not
        name, then also those of the latest turn that has some, in place of that pronoun or of the first word."""
        return self._named[0]

    @property
    def subject_spans(self) -> Sequence[MentionSpan]:
        """The spans of what facts may be about: no predicate alone, and where the question names a thing, no class in small
        letters, which says only what kind of thing is meant, or asked for."""
        kinds = kinds_among(self.facts, self._words, self._question, self.mentions.entities)
        entities = {(one.start, one.stop) for one in self.mentions.entities}
        places = {(one.start, one.stop) for one in kinds}
        some = [one for one in self.mentions.entities if one not in kinds and one not in self._search.classes]
        others = {(one.start, one.stop) for one in some}
        return [
            one
            for one in self.spans
            if (one.start, one.stop) in entities
            and (not others or (one.start, one.stop) in others or (one.start, one.stop) not in places)
        ]

    @property
    def antecedent(self) -> Antecedent:
        """Whether a pronoun of the question stands for something `before` it, or is `missing` that."""
        return self._named[1]

    @cached_property
    def _named(self) -> tuple[Sequence[MentionSpan], Antecedent]:
        machine = self._machine
        own = named_spans(machine, self._tokens, self._words, self._question, self.facts)
        entities = find_mentions(machine, self.facts, self._question, own).entities
        classes = classes_among(self.facts, self._words, [one.name for one in entities])
        things = [(one.start, one.stop) for one in entities if one.name not in classes]
        kinds = kinds_among(self.facts, self._words, self._question, entities)
        if parts := self._parts(own, has_things=any(one not in kinds and one.name not in classes for one in entities)):
            own = [*own, *parts]
            entities = find_mentions(machine, self.facts, self._question, own).entities
            things = [(one.start, one.stop) for one in entities if one.name not in classes]
        is_english = self._words.language in ("", "en")  # whose pronouns are known
        pronoun = open_pronoun(self._question, things, self._words.is_function) if is_english else None
        start, stop = pronoun or (0, len(self._question.partition(" ")[0]))
        before: list[MentionSpan] = []
        for text in reversed(self.channel.earlier) if pronoun or not entities else ():
            found = named_spans(machine, self._tokens, self._words, text[:LONGEST_TURN], self.facts)
            if before := [replace(one, start=start, stop=stop) for one in found]:
                break
        return [*own, *before], "none" if not pronoun else "before" if before else "missing"

    def _parts(self, own: Sequence[MentionSpan], *, has_things: bool) -> list[MentionSpan]:
        """Return the names of which words of the question are a part, where these are no name and no value of others."""
        if not isinstance(self.facts, LinkedFactSet):
            return []
        taken = [(one.start, one.stop) for one in own]
        found = part_spans(self._machine, self.facts.linker, self._words, self._question, taken, only_titles=has_things)
        if not found:
            return []
        names = {self._machine.text_of(one.state.prefix).decode("utf-8", "replace").strip()[1:-1] for one in found}
        search = self._search_of(find_mentions(self._machine, self.facts, self._question, own), TreeReading.NONE)
        bases = map(search.conditions.base_of, search.classes)
        values = [
            one.mention
            for base in bases
            for one in search.conditions.of_values(base)
            if not names.issuperset(one.members)
        ]
        return [one for one in found if all(one.stop <= value.start or value.stop <= one.start for value in values)]

    def is_of_other_class(self, start: str, predicate: str) -> bool:
        """Return whether the objects of a fact are of another class than the question asks for."""
        return self._search.is_of_other_class(start, predicate)

    @cached_property
    def _search(self) -> QuerySearch:
        """A search that reads nothing."""
        return self.search(TreeReading.NONE)

    def search(self, trees: TreeReading) -> QuerySearch:
        """Return the search for candidates, given what the question names."""
        return self._search_of(self.mentions, trees)

    def tables(self, search: QuerySearch) -> TableSearch:
        """Return the search for groups, sums and tables."""
        return TableSearch(search, self.facts, DEFAULT_LIMITS)

    def _search_of(self, mentions: Mentions, trees: TreeReading) -> QuerySearch:
        return QuerySearch(
            facts=self.facts,
            words=self._words,
            question=self._question,
            mentions=mentions,
            scores=LineScores(self._machine.source.tokenizer, self._score, trees, TRIGGER),
            weights=self._weights,
            widest=partial(widest_names, self._machine),
            nearness=None if self.channel.ranker is None else self.channel.meanings,
        )

    def _first_answer(
        self, search: QuerySearch, candidates: Iterable[Candidate], without: float
    ) -> AnsweredQuery | None:
        """Return the first candidate that has an answer, up to one that tells too little."""
        confidence = ((one.query, one.score - without) for one in candidates)
        likely = takewhile(lambda one: one[1] >= self._weights.min_confidence, confidence)
        return first_answer(likely, self.facts, is_answer=partial(self._is_answer, search))

    def _is_answer(self, search: QuerySearch, answered: AnsweredQuery) -> bool:
        """Return whether a result answers the question (`_says_nothing`)."""
        query = answered.query
        if query.head not in ("list", "most", "least") or query.per or query.show:
            return True
        predicate = query.hops[0].predicate if query.head == "list" and len(query.hops) == 1 and not query.which else ""
        return not self._says_nothing(search, query.start, predicate, answered.result.values)

    def _says_nothing(self, search: QuerySearch, start: str, predicate: str, values: Collection[str]) -> bool:
        """Return whether the objects of a start answer nothing: what the question itself names, unless it asks which of
        some; its own name; things of other classes than it asks for; many, if it asks for the first; or all members of a
        class, if the question asks for one, or for those with something.

        `values`: the objects, by their names.
        """
        entities = search.mentions.entities
        if values and {one.name for one in entities}.issuperset(values) and not self._has_or:
            return True
        if (
            values
            and {start, bare_name(start)}.issuperset(values)
            and max(search.meanings([predicate]), default=0) <= 0
        ):
            return True
        asked = search.asked_class
        if (
            search.conditions.reads_values
            and asked is not None
            and asked.name != start
            and search.conditions.are_of_others(values, asked.name)
        ):
            return True
        if len(values) > self._weights.facts_of_property and set(search.heads) <= {"most", "least"}:
            return True
        if predicate != search.conditions.instances or len(values) < 2:
            return False
        own = [one for one in entities if one.name == start]
        asked_for = [one for one in entities if one not in own and search.is_asked_for(one)]
        if any(plural(text) == text for text in (self._question[one.start : one.stop] for one in asked_for)):
            own = []  # which values of it there are
        texts = [unaccented(self._question[one.start : one.stop]) for one in own]
        said = set(words_of(bare_name(start)))  # `cheese` does not narrow the `Sharpness of Cheese Code`
        others = [
            one
            for one in entities
            if all(map(one.is_apart, own))
            and one not in search.classes
            and not search.is_asked_for(one)
            and not said.issuperset(words_of(self._question[one.start : one.stop]))
        ]
        return any(plural(text) != text for text in texts) or bool(others) or search.heads != ["list"]

    def _write(self, answered: AnsweredQuery) -> Sequence[int]:
        self.channel.answered.append(answered)
        answer = answered.answer_in(self.channel.in_language)
        text = f"{TRIGGER} {answered.line}{TERMINATOR}\n{self.channel.marker} {answer}"
        return (*self._machine.source.tokenizer.encode(text), *self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnQueries:
    """The queries that a model writes by itself in one text, held to `grammar`, and what follows them.

    `facts`: what they are answered with; `marker`: the text before the answer, `unknown`: that of a query without one;
    `end`: the ids that end a text. `answered`: the queries that the text has.
    """

    grammar: QueryGrammar
    facts: FactSet
    marker: str
    unknown: str
    end: Sequence[int]
    answered: list[AnsweredQuery] = field(default_factory=list)


class QueryWriter(PlainChooser):
    """A chooser that leaves every choice to the model, queries too: after one, its result is the answer, and the end."""

    def __init__(self, machine: Machine, queries: OwnQueries) -> None:
        super().__init__(machine)
        self._encode, self._queries = machine.source.tokenizer.encode, queries
        self._before: State = Free()

    def following(self, state: State, at_fact_end: bool) -> Steps[Sequence[int]]:
        before, self._before = self._before, state
        if not (isinstance(before, InQuery) and isinstance(state, Free)):
            return (yield from super().following(state, at_fact_end))
        queries, answer = self._queries, self._queries.unknown
        answered = try_answer(read_line(queries.grammar.line_of(before.line)), queries.facts)
        if answered is not None:
            queries.answered.append(answered)
            answer = answered.answer
        return (*self._encode(f"\n{queries.marker} {answer}"), *queries.end)


def first_answer(
    queries: Iterable[tuple[Query, float]],
    facts: FactSet,
    limits: WalkLimits = DEFAULT_LIMITS,
    is_answer: Callable[[AnsweredQuery], bool] = lambda answered: True,
) -> AnsweredQuery | None:
    """Return the first query that has an answer, with it; None if there is none.

    `queries`: the likeliest first, each with what it told. That one alone may take a scan of the index. `is_answer`: whether
    a result answers what is asked.
    """
    for query, confidence in queries:
        answered = try_answer(query, facts, confidence, limits)
        if answered is not None and is_answer(answered):
            return answered
        limits = replace(limits, scanned=0)
    return None


def try_answer(
    query: Query, facts: FactSet, confidence: float | None = None, limits: WalkLimits = DEFAULT_LIMITS
) -> AnsweredQuery | None:
    """Return a query with its answer; None if it has none, since nothing matches or values do not compare."""
    try:
        found = answer_query(query, facts, limits, confidence)
    except QueryError:
        return None
    result = found.result
    return found if result.values or result.count or result.truth is not None else None
