"""The choice of a fact: its best subject and the best property of that, by the channel.

The candidates (`refactx.selection.candidates`) are the names that the model itself finds likely, and the properties of
these subjects in the tree that are nearest to the question in meaning, or likely after the text. First the subjects are
compared, then the properties of the best ones. Of subjects with the same name, which differ in the parenthesis after it,
those with more facts are meant more often: the prior of a subject is its share of the facts. A few passes score all of
them.
"""

import heapq
import logging
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from refactx.decoding.machine import Machine
from refactx.decoding.states import Free, InFact, State
from refactx.engines.engine import Choice, FactChooser, IdPath, ScoreReading, Steps, TreeReading
from refactx.fact import DESCRIPTIONS
from refactx.linking.names import bare_name, unaccented
from refactx.selection.answer_lines import AnswerLines
from refactx.selection.candidates import (
    CandidateSearch,
    PropertyCandidate,
    SubjectCandidate,
    properties_of,
    property_name,
)
from refactx.selection.channel import Channel, ComparedProperty
from refactx.selection.plain import PlainChooser, draft_tokens, end_of_fact
from refactx.selection.query_answers import QueryAnswers
from refactx.selection.scores import ScoredContinuations, fact_so_far, no_fact

MOST_EARLIER = 64
"""The most paths of the last choice that the first pass of the next one reads: in vain if that has another subject."""

OBJECT_IDS = 16
"""The most ids of an object that is added to compare properties: as many as a title has, not a paragraph."""

USUAL = 0.99
"""An id is worth a draft if more than this share of the facts continue with it."""

LONGEST_ANSWER = 48
"""The most draft tokens of an answer: most of them are right, and a wrong one costs little."""

NOT_CHOSEN = (
    "the facts are not chosen by the question: that needs a decoder-only model whose whole state is in its cache"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ScoredSubject:
    """A candidate for the subject, and its `score` without the question: the other terms, in nats."""

    subject: SubjectCandidate
    score: float = 0.0


class FactChoice:
    """The choice of subjects and properties in one text. `queries`: those that may take the place of facts, if any."""

    def __init__(self, machine: Machine, channel: Channel, lines: AnswerLines, queries: QueryAnswers | None) -> None:
        self._machine, self._channel, self._lines, self._queries = machine, channel, lines, queries
        self._weights, self._score = channel.weights, channel.score
        self._earlier: Sequence[IdPath] = ()  # those that the last choice needed, from the first id of the fact

    def decides(self, state: State) -> bool:
        """Return whether the next ids are those of a subject or of a property."""
        if not isinstance(state, InFact):
            return False
        return self._machine.text_of(state.prefix).partition(b">")[2].strip() in (b"", b"<")

    def choose(self, state: InFact, reading: ScoreReading) -> Steps[Choice]:
        """Return the next ids after a state that the channel `decides`: a subject with a property, or a property.

        Empty if there are no candidates, so that the model chooses the next id.
        """
        begun, begin = tuple(state.prefix), len(state.prefix)
        spans = () if self._queries is None else self._queries.subject_spans
        named = [span.ids[begin:] for span in spans if span.ids[:begin] == begun]
        earlier = dict.fromkeys(path[begin:] for path in self._earlier if path[:begin] == begun)
        earlier |= dict.fromkeys(path[:end] for path in named for end in range(len(path)))
        search = CandidateSearch(
            machine=self._machine,
            position=reading.position,
            continuations=ScoredContinuations.of(reading, [path for path in earlier if path][:MOST_EARLIER]),
            # A later fact may be about what an earlier one has led to.
            weights=replace(self._weights, unnamed_name_gap=math.inf) if state.facts else self._weights,
            named=named,
            exhausted=self._lines.exhausted(state.facts),
        )
        chosen = yield from self._choose_path(state, search, reading.trees)
        yield from self._score.close()
        self._earlier = [(*begun, *path) for path in search.continuations.asked]
        rest: Sequence[int] = ()
        if self._queries is not None and not state.facts and chosen:
            rest = self._queries.of_statements((*begun, *chosen), self._channel.confidence)
        return Choice((*chosen, *rest), (yield from search.continuations.keep(chosen[:-1])))

    def _choose_path(self, state: InFact, search: CandidateSearch, trees: TreeReading) -> Steps[IdPath]:
        if b">" in self._machine.text_of(state.prefix):
            known = [ScoredSubject(SubjectCandidate(ids=(), state=state))]
            return (yield from self._best_property(known, search, trees))
        matching: dict[IdPath, ScoredSubject] = {}
        found = yield from search.subjects(state)
        is_named = {one.ids for one in found if one.is_named}  # by one of the names that lead to it
        for one in found:
            subject = replace(one, is_named=one.ids in is_named)
            score = self._weights.name_weight * one.own + self._weights.share_weight * math.log(one.share)
            scored = ScoredSubject(subject, score)
            matching[one.ids] = max(scored, matching.get(one.ids, scored), key=lambda way: way.score)
        if not matching:
            return ()
        fresh = [  # that have facts left which are not of exhausted properties
            one
            for one in matching.values()
            if (after := one.subject.state).children.total
            != sum(left for path, left in search.exhausted.items() if path[: len(after.prefix)] == after.prefix)
        ]
        likely = self._likely(fresh or list(matching.values()), is_first=not state.facts)
        return (yield from self._best_property(self._told_apart(likely, search.named), search, trees))

    def _likely(self, matching: Sequence[ScoredSubject], *, is_first: bool) -> list[ScoredSubject]:
        """Return the subjects that are not far below the best without the question: of the first fact, nearer if the question
        has names, but not theirs. (A later one may be about what an earlier one has led to.)"""
        least = max(one.score for one in matching) - self._weights.subject_gap
        named = max((one.score for one in matching if one.subject.is_named), default=-math.inf)
        least_unnamed = max(least, named - self._weights.unnamed_subject_gap) if is_first else least
        if is_first and self._queries is not None and self._queries.antecedent == "before" and named > -math.inf:
            least_unnamed = math.inf
        return [one for one in matching if one.score >= (least if one.subject.is_named else least_unnamed)]

    def _told_apart(self, matching: Sequence[ScoredSubject], named: Collection[IdPath]) -> list[ScoredSubject]:
        """Return the subjects without those all of whose properties a namesake with more facts has: no property tells that they
        are meant. They stay if the question has their id (`named` has their ids), or a word of their description that the
        namesake's lacks."""
        queries, names = self._channel.queries, [self._subject_name(one.subject) for one in matching]
        said = {word for word in _words(self._channel.text) if queries is None or not queries.words.is_function(word)}
        bare, words = list(map(bare_name, names)), [_words(name) & said for name in names]
        facts = [one.subject.state.children.total for one in matching]
        own = {
            n: set(properties_of(self._machine, one.subject).values())
            for n, one in enumerate(matching)
            if bare.count(bare[n]) > 1
        }

        def has_all_of(n: int, other: int) -> bool:
            is_namesake = bare[n] == bare[other] and facts[n] > facts[other]
            return is_namesake and own[n] >= own[other] and words[n] >= words[other]

        return [
            one
            for n, one in enumerate(matching)
            if one.subject.ids in named or not any(has_all_of(other, n) for other in range(len(names)))
        ]

    def _best_property(
        self, matching: Sequence[ScoredSubject], search: CandidateSearch, trees: TreeReading
    ) -> Steps[IdPath]:
        """Return the ids of the best subject with its best property; of the first subject alone if there is no property.
        Exhausted pairs of subject and property are left out if there are others."""
        machine, weights, score = self._machine, self._weights, self._score
        without = [no_fact(machine)] if self._channel.unknown else []
        texts_so_far = [fact_so_far(machine, one.subject.state, one.subject.alias) for one in matching]
        if len(matching) > 1:
            scores = yield from score.likelihoods([*texts_so_far, *without], trees)
            near = self._nearest(matching, scores[: len(matching)])
            matching, texts_so_far = [matching[n] for n in near], [texts_so_far[n] for n in near]
        subjects = [one.subject for one in matching]
        meanings = [self.meanings(one, search.exhausted) for one in subjects]
        found = yield from search.properties(subjects, [self.nearest(some) for some in meanings])
        found = [one for one in found if one.ids in meanings[one.subject]]
        if not found:
            return subjects[0].ids
        of_meaning = np.array([meanings[one.subject][one.ids] for one in found])
        priors = (
            np.array([weights.property_weight * one.own + matching[one.subject].score for one in found]) + of_meaning
        )
        texts = [(*texts_so_far[one.subject], *one.ids) for one in found]
        likely = yield from score.likelihoods(texts, trees, priors, weights.drop_below)
        objects = self._objects_of_best(subjects, found, likely, priors)
        total, tied = likely + priors, list(objects)
        if len(tied) > 1:
            longer = [(*texts[n], *ids) for n, ids in objects.items()]
            total[tied] = (likely[tied] + (yield from score.likelihoods(longer, trees))) / 2 + priors[tied]
        best = max(tied, key=lambda n: float(total[n]))
        subject, ids = subjects[found[best].subject], found[best].ids
        if without:
            [of_no_fact] = yield from score.likelihoods(without, trees)
            compared = [
                ComparedProperty(
                    subject=self._subject_name(subjects[one.subject]),
                    name=property_name(machine, one.ids),
                    subject_score=matching[one.subject].score,
                    own=one.own,
                    meaning=float(of_meaning[n]),
                    likelihood=float(likely[n]),
                    gain=float(likely[n] - of_no_fact),
                )
                for n, one in enumerate(found)
            ]
            self._channel.compared.append([compared[n] for n in np.argsort(-total, kind="stable")])
            self._channel.evidence[(*subject.state.prefix, *ids)] = float(likely[best] + of_meaning[best] - of_no_fact)
        return (*subject.ids, *ids)

    def _objects_of_best(
        self,
        subjects: Sequence[SubjectCandidate],
        found: Sequence[PropertyCandidate],
        likely: NDArray[np.float64],
        priors: NDArray[np.float64],
    ) -> dict[int, IdPath]:
        """Return the numbers of the best property and of those in a tie with it, each with the ids of an object.

        The prior of one whose only object is the subject, or its name, is lowered here: mostly that answers nothing. So is that
        of one with objects of another class than the question asks for.
        """
        machine, ends = self._machine, dict[int, State]()
        while True:
            total = likely + priors
            near: list[int] = np.flatnonzero(total >= total.max() - self._weights.tie_gap).tolist()
            if ends.keys() >= set(near):
                return {n: _example_object(machine, ends[n]) if len(near) > 1 else () for n in near}
            for n in [n for n in near if n not in ends]:
                before = subjects[found[n].subject].state
                ends[n], name = machine.follow(before, found[n].ids), _last_name(machine.text_of(before.prefix))
                if len(found) > 1 and _only_object(machine, ends[n]) in (name, name.partition(b" (")[0]):
                    priors[n] -= self._weights.self_reference_penalty
                if self._queries is not None and self._queries.is_of_other_class(
                    name.decode("utf-8", "replace"), property_name(machine, found[n].ids)
                ):
                    priors[n] -= self._weights.other_class_penalty

    def nearest(self, meanings: Mapping[IdPath, float]) -> list[IdPath]:
        """Return the properties that are compared whatever the model finds likely, the nearest in meaning first."""
        return heapq.nlargest(self._weights.nearest_properties, meanings, key=lambda ids: meanings[ids])

    def meanings(self, subject: SubjectCandidate, exhausted: Mapping[IdPath, int]) -> dict[IdPath, float]:
        """Return what the meaning of the question says of the properties of a subject that have facts left, in nats, by their
        ids after the subject's. Descriptions are left out if there are others, since they seldom answer a question."""
        machine, begun = self._machine, tuple(subject.state.prefix)
        found = properties_of(machine, subject)
        done = {path[len(begun) :] for path in exhausted if path[: len(begun)] == begun}
        found = {ids: name for ids, name in found.items() if not any(one[: len(ids)] == ids for one in done)} or found
        found = {ids: name for ids, name in found.items() if name not in DESCRIPTIONS} or found
        name = self._subject_name(subject)
        spans = [] if self._queries is None else self._queries.mentions.entities
        texts = [self._channel.text[one.start : one.stop] for one in spans if one.name == name and one.is_named]
        meanings = self._channel.meanings(list(found.values()), texts or [subject.alias or bare_name(name)])
        if self._queries is not None:
            gain = self._weights.named_value_gain
            meanings += [gain * self._queries.names_value(name, predicate) for predicate in found.values()]
        return dict(zip(found, meanings.tolist(), strict=True))

    def _subject_name(self, subject: SubjectCandidate) -> str:
        text = self._machine.text_of(subject.state.prefix).decode("utf-8", "replace")
        return text.partition(">")[0].strip().removeprefix("<")

    def _nearest(self, matching: Sequence[ScoredSubject], likely: NDArray[np.float64]) -> list[int]:
        """Return the numbers of the subjects whose properties are compared, the best first, given the question's likelihoods.

        Of those that the question names, two are among them: the best one, since `Australian dollar` alone makes a question
        about the money of Australia likelier than `Australia`, and the best one without the question's likelihoods.
        """
        own, weights = np.array([one.score for one in matching]), self._weights
        scores = likely + own
        order = np.argsort(-scores, kind="stable").tolist()
        best = scores[order[0]]
        near = [n for n in order[: weights.compared_subjects] if scores[n] >= best - weights.keep_within]
        named = [n for n in order if matching[n].subject.is_named and scores[n] >= best - weights.keep_named_within]
        favourite = max((n for n in order if matching[n].subject.is_named), key=lambda n: own[n], default=None)
        return list(dict.fromkeys([*near, *named[:1], *(() if favourite is None else (favourite,))]))


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", unaccented(text)))


def _last_name(text: bytes) -> bytes:
    """Return the last whole name of a text, with the parenthesis after it, without brackets."""
    return text.rpartition(b">")[0].rpartition(b"<")[2]


def _only_object(machine: Machine, state: State) -> bytes:
    """Return the object after a property that has one; empty if it has several."""
    while isinstance(state, InFact) and state.children.total == 1 and len(state.children.tokens) == 1:
        state = machine.advance(state, int(state.children.tokens[0]), 0)
    return _last_name(machine.text_of(state.prefix)) if isinstance(state, InFact) and state.is_whole else b""


def _example_object(machine: Machine, state: State) -> IdPath:
    """Return at most `OBJECT_IDS` ids of an object after a property, at each fork along most facts, without a description."""
    path: IdPath = ()
    while isinstance(state, InFact) and len(state.children.tokens) and len(path) < OBJECT_IDS:
        if any(end in machine.text_of(path) for end in (b">", b" (")):
            break
        token = int(state.children.tokens[state.children.leaves.argmax()])
        path, state = (*path, token), machine.advance(state, token, 0)
    return path


class ChannelChooser:
    """A `refactx.engines.engine.FactChooser` that chooses each fact's subject and property by the question."""

    needs = TreeReading.ROWS

    def __init__(self, machine: Machine, channel: Channel) -> None:
        self._machine, self._channel, self.examples = machine, channel, channel.examples
        self._queries = None if channel.queries is None else QueryAnswers(machine, channel, channel.queries)
        self._lines = AnswerLines(machine, channel)
        self._facts = FactChoice(machine, channel, self._lines, self._queries)
        self._trees, self._has_begun = TreeReading.NONE, False

    def without_trees(self) -> FactChooser:
        _log.warning(NOT_CHOSEN)
        return PlainChooser(self._machine)

    def decides(self, state: State) -> bool:
        return self._facts.decides(state)

    def choose(self, state: State, reading: ScoreReading) -> Steps[Choice]:
        has_begun, self._has_begun, self._trees = self._has_begun, True, reading.trees
        queries, lines = self._queries, self._lines
        if queries is not None and not has_begun and isinstance(state, Free):
            if queries.antecedent == "missing" and self._channel.unknown:
                return Choice((*lines.unknown_line, *queries.end))
            whole = yield from queries.begin(reading.trees)
            if whole:
                return Choice(whole)
        if not has_begun and isinstance(state, Free):
            return Choice(lines.first_line)
        if isinstance(state, InFact) and self.decides(state):
            return (yield from self._facts.choose(state, reading))
        line = lines.next_line(state, reading.logits[0])
        if queries is not None and isinstance(state, Free) and lines.is_answer(line):
            line = queries.objects(state, lines.unknown_line if self._channel.unknown else ()) or line
        return Choice(line)

    def following(self, state: State, at_fact_end: bool) -> Steps[Sequence[int]]:
        """Return the forced id, or the ids that the channel writes at the end of a fact and after it."""
        token = self._machine.forced(state)
        if token is not None:
            return (token,)
        if at_fact_end and self._queries is not None and isinstance(state, Free):
            fits = partial(self._lines.fits, state.facts)
            rest = yield from self._queries.after_fact(state, self._trees, fits)
            if rest:
                return rest
        return (self._lines.after_fact if at_fact_end else self._lines.end_of_fact)(state)

    def draft(self, state: State, ids: NDArray[np.int64], unread: int, greedy: bool) -> Sequence[int]:
        if not greedy:
            return ()
        answer = self._lines.draft(state, ids)[:LONGEST_ANSWER]
        draft = answer or draft_tokens(self._machine, state, ids, unread) or end_of_fact(self._machine, state, ids)
        return self._cut_at_choice(state, list(draft), len(ids))

    def _cut_at_choice(self, state: State, draft: list[int], position: int) -> list[int]:
        """Return draft tokens up to the first state that the channel decides, and the usual id after it. After an id
        within a fact that the channel does not decide, the draft is not cut."""
        for count in range(len(draft) + 1):
            if isinstance(state, InFact) and self.decides(state):
                return draft[:count] + usual_id(state)
            if count == len(draft) or not isinstance(state, Free):
                break
            state = self._machine.advance(state, draft[count], position + count)
        return draft


def usual_id(state: InFact) -> list[int]:
    """Return the id with which nearly all facts continue after a state, as a list; empty if there is none."""
    often = state.children.leaves > USUAL * state.children.total
    return [int(token) for token in state.children.tokens[often]]
