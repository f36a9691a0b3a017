"""The noisy channel: the choice of the fact after which the question is likeliest.

Small models write facts badly by themselves: "what did einstein do?" begins `<Ein`, which the tree continues to
`Einsatzgruppen`; "what timezone is arizona in?" needs `located in time zone`, which begins like `located in ...`. The
reverse is easy: of all candidates, the question is likeliest after the right fact. So a subject and a property of it
are chosen by

    log p(question | examples, fact so far)  +  weights * log p(the model's own choice)

the noisy channel (Min et al., arXiv 2108.04106), with one model for all terms. The candidates
(`refactx.selection.candidates`) are the names that the model itself finds likely, and the properties that these subjects
have in the tree. First the subjects are compared, then the properties of the best ones. Of subjects with the same name,
which differ in the parenthesis after it, those with more facts are meant more often: the prior of a subject is its
share of the facts. A few passes score all of them. Everything written still comes from the tree.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from refactx.decoding.machine import Machine
from refactx.decoding.states import Free, InFact, State
from refactx.engines.engine import Choice, FactChooser, IdPath, ScoreReading, Steps, TreeReading
from refactx.fact import DESCRIPTIONS
from refactx.selection.answer_lines import AnswerLines
from refactx.selection.candidates import Property, Subject, SubjectLimits, find_properties, find_subjects
from refactx.selection.plain import PlainChooser, draft_tokens, end_of_fact
from refactx.selection.query_answers import MIN_CONFIDENCE, QueryAnswers
from refactx.selection.scores import QuestionScore, ScoredContinuations, fact_so_far, no_fact
from refactx.walks.answered import AnsweredQuery

MOST_EARLIER = 64
"""The most paths of the last choice that the first pass of the next one reads: in vain if that has another subject."""

OBJECT_IDS = 16
"""The most ids of an object that is added to compare properties: as many as a title has, not a paragraph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelOptions:
    """The weights and limits of the channel. Scores and differences are in nats (natural logarithms).

    Weights of terms besides the question's, which is 1: `own`, the model's log-probability of a property; `name`, that
    of a name; `prior`, the logarithm of a subject's share of the facts. (What words of the question count for:
    `QueryAnswers.in_words`.)

    Subjects: `candidates`, limits on the candidates; `doubtful`: a subject is not scored with the question if its other
    terms are this much below the best subject's; `unnamed`: in the first fact, the same for one that the question does not
    name, below the best one that it names; `meant`: how many of the best subjects have their properties compared;
    `within`: only those whose scores are at most this much below the best; `named`: the same for the best one that the
    question names, which comes besides, and so does the likeliest of those without the question.

    Properties: `properties`, the most of each subject; `unlikely`: leave out those whose log-probability is this much
    below the likeliest one's; `apart`: the same for those that have no word in common with the question; `hopeless`: drop
    those this much below the best after a quarter of the question; `says_itself`: what one loses whose only object is the
    subject or its name; `tie`: those at most this much below the best are compared again, with an object.

    Lines: `values`, the most facts of one subject and property; `again`: how much likelier than the answer another fact
    must be to follow (small models would continue for ever); `min_confidence`: how much likelier than no fact a fact must make
    the question to count as its answer, with its words, and than no query a query to be asked.
    """

    own: float = 0.3
    name: float = 0.7
    prior: float = 0.5
    candidates: SubjectLimits = field(default_factory=SubjectLimits)
    properties: int = 64
    unlikely: float = 9.0
    apart: float = 7.0
    hopeless: float = 4.0
    says_itself: float = 3.0
    tie: float = 1.0
    doubtful: float = 4.0
    unnamed: float = 2.0
    meant: int = 2
    within: float = 2.0
    named: float = 8.0
    values: int = 6
    again: float = 4.0
    min_confidence: float = MIN_CONFIDENCE


@dataclass(frozen=True, slots=True)
class _Meant:
    """A candidate for the subject, and its `score` without the question: the other terms, in nats."""

    subject: Subject
    score: float = 0.0


class Channel:
    """The choice of facts for one question, in one text.

    `examples`: the ids of facts with their questions, after which the model scores the question; `of_queries`: those of
    queries, empty if there are none. (Beside examples of queries, models choose worse facts.) `question`: the ids between
    a fact and the end of the question; `lead`: how many of them introduce the question (`Question:`) and are
    not scored. `marker`, `unknown`, `room`: as in `AnswerLines`.

    `score`, `score_of_queries`: the likelihoods of the question; `queries`: the queries that may take the place of facts.
    """

    queries: QueryAnswers | None = None

    def __init__(
        self,
        *,
        examples: Sequence[int],
        of_queries: Sequence[int] = (),
        question: Sequence[int],
        lead: int,
        marker: str = "",
        unknown: str = "",
        options: ChannelOptions | None = None,
        room: int | None = None,
    ) -> None:
        self.examples = [tuple(one) for one in (examples, of_queries) if one]
        self.score = QuestionScore(question=question, lead=lead)
        self.score_of_queries = QuestionScore(question=question, lead=lead, examples=1)
        self._options = own = options or ChannelOptions()
        self._earlier: Sequence[IdPath] = ()  # those that the last choice needed, from the first id of the fact
        self.lines = AnswerLines(
            marker=marker,
            unknown=unknown,
            values=own.values,
            again=own.again,
            min_confidence=own.min_confidence,
            room=room,
        )

    @property
    def answered(self) -> Sequence[AnsweredQuery]:
        """The queries that the text has, with their answers."""
        return () if self.queries is None else self.queries.answered

    @property
    def confidence(self) -> float | None:
        """How much likelier what the text has makes the question: its last query, or else the best fact, in nats, with what
        words of the question count for. None if the channel has chosen none, or did not compare them with none at all."""
        if self.answered:
            return self.answered[-1].confidence
        return max(self.lines.evidence.values(), default=None)

    def decides(self, machine: Machine, state: State) -> bool:
        """Return whether the next ids are those of a subject or of a property."""
        if not isinstance(state, InFact):
            return False
        return machine.text_of(state.prefix).partition(b">")[2].strip() in (b"", b"<")

    def choose(self, machine: Machine, state: InFact, reading: ScoreReading) -> Steps[Choice]:
        """Return the next ids after a state that the channel `decides`: a subject with a property, or a property.

        Empty if there are no candidates, so that the model chooses the next id.
        """
        begin, named = len(state.prefix), self._named(machine, state)
        earlier = dict.fromkeys(path[begin:] for path in self._earlier if path[:begin] == state.prefix)
        earlier |= dict.fromkeys(path[:end] for path in named for end in range(len(path)))
        continuations = ScoredContinuations.of(reading, [path for path in earlier if path][:MOST_EARLIER])
        chosen = yield from self._choose_path(machine, state, named, reading, continuations)
        yield from self.score.close()
        self._earlier = [(*state.prefix, *path) for path in continuations.asked]
        return Choice(chosen, (yield from continuations.keep(chosen[:-1])))

    def _named(self, machine: Machine, state: InFact) -> list[IdPath]:
        """Return the ids after a state of the names that the question names."""
        begun = tuple(state.prefix)
        spans = () if self.queries is None else self.queries.spans(machine)
        return [span.ids[len(begun) :] for span in spans if span.ids[: len(begun)] == begun]

    def _choose_path(
        self,
        machine: Machine,
        state: InFact,
        named: Sequence[IdPath],
        reading: ScoreReading,
        continuations: ScoredContinuations,
    ) -> Steps[IdPath]:
        weights = self._options
        exhausted = self.lines.exhausted(machine, state.facts)
        if b">" in machine.text_of(state.prefix):
            known = [_Meant(Subject(ids=(), state=state))]
            return (yield from self._best_property(machine, known, exhausted, reading, continuations))
        meant: dict[IdPath, _Meant] = {}
        limits = weights.candidates if not state.facts else replace(weights.candidates, unnamed=math.inf)
        found = yield from find_subjects(machine, state, reading.position, continuations, limits, named)
        is_named = {one.ids for one in found if one.is_named}  # by one of the names that lead to it
        for one in found:
            subject = replace(one, is_named=one.ids in is_named)
            candidate = _Meant(subject, weights.name * one.own + weights.prior * math.log(one.share))
            meant[one.ids] = max(candidate, meant.get(one.ids, candidate), key=lambda way: way.score)
        if not meant:
            return ()
        fresh = [  # that have facts left which are not of exhausted properties
            one
            for one in meant.values()
            if (after := one.subject.state).children.total
            != sum(left for path, left in exhausted.items() if path[: len(after.prefix)] == after.prefix)
        ]
        likely = self._likely(fresh or list(meant.values()), is_first=not state.facts)
        return (yield from self._best_property(machine, likely, exhausted, reading, continuations))

    def _likely(self, meant: Sequence[_Meant], *, is_first: bool) -> list[_Meant]:
        """Return the subjects that are not far below the best without the question: of the first fact, nearer if the question
        has names, but not theirs. (A later one may be about what an earlier one has led to.)"""
        least = max(one.score for one in meant) - self._options.doubtful
        named = max((one.score for one in meant if one.subject.is_named), default=-math.inf)
        least_unnamed = max(least, named - self._options.unnamed) if is_first else least
        if is_first and self.queries is not None and self.queries.antecedent == "before" and named > -math.inf:
            least_unnamed = math.inf
        return [one for one in meant if one.score >= (least if one.subject.is_named else least_unnamed)]

    def _best_property(
        self,
        machine: Machine,
        meant: Sequence[_Meant],
        exhausted: Mapping[IdPath, int],
        reading: ScoreReading,
        continuations: ScoredContinuations,
    ) -> Steps[IdPath]:
        """Return the ids of the best subject with its best property; of the first subject alone if there is no property.
        Exhausted pairs of subject and property are left out if there are others."""
        weights, without = self._options, [no_fact(machine)] if self.lines.unknown else []
        texts_so_far = [fact_so_far(machine, one.subject.state, one.subject.alias) for one in meant]
        if len(meant) > 1:
            scores = yield from self.score.likelihoods([*texts_so_far, *without], reading.trees)
            near = self._nearest(meant, scores[: len(meant)])
            meant, texts_so_far = [meant[n] for n in near], [texts_so_far[n] for n in near]
        subjects = [one.subject for one in meant]
        properties = yield from find_properties(
            machine,
            subjects,
            reading.position,
            continuations,
            most=weights.properties,
            unlikely=weights.unlikely,
            exhausted=exhausted,
        )
        found = [one for number in range(len(meant)) for one in self._worth_reading(machine, properties, number)]
        if not found:
            return meant[0].subject.ids
        in_words = (lambda name: 0.0) if self.queries is None else self.queries.in_words
        words = np.array([in_words(_name_of(machine, one)) for one in found])
        priors = np.array([weights.own * one.own + meant[one.subject].score for one in found]) + words
        texts = [(*texts_so_far[one.subject], *one.ids) for one in found]
        likely = yield from self.score.likelihoods(texts, reading.trees, priors, weights.hopeless)
        objects = self._objects_of_best(machine, subjects, found, likely, priors)
        total, near = likely + priors, list(objects)
        if len(near) > 1:
            longer = [(*texts[n], *ids) for n, ids in objects.items()]
            total[near] = (likely[near] + (yield from self.score.likelihoods(longer, reading.trees))) / 2 + priors[near]
        best = max(near, key=lambda n: float(total[n]))
        subject, ids = subjects[found[best].subject], found[best].ids
        if without:
            [of_no_fact] = yield from self.score.likelihoods(without, reading.trees)
            self.lines.evidence[(*subject.state.prefix, *ids)] = float(likely[best] + words[best] - of_no_fact)
        return (*subject.ids, *ids)

    def _objects_of_best(
        self,
        machine: Machine,
        subjects: Sequence[Subject],
        found: Sequence[Property],
        likely: NDArray[np.float64],
        priors: NDArray[np.float64],
    ) -> dict[int, IdPath]:
        """Return the numbers of the best property and of those in a tie with it, each with the ids of an object.

        The prior of one whose only object is the subject, or its name, is lowered here: mostly that answers nothing.
        """
        ends = dict[int, State]()
        while True:
            total = likely + priors
            near: list[int] = np.flatnonzero(total >= total.max() - self._options.tie).tolist()
            if ends.keys() >= set(near):
                return {n: _example_object(machine, ends[n]) if len(near) > 1 else () for n in near}
            for n in [n for n in near if n not in ends]:
                before = subjects[found[n].subject].state
                ends[n], name = machine.follow(before, found[n].ids), _last_name(machine.text_of(before.prefix))
                if len(found) > 1 and _only_object(machine, ends[n]) in (name, name.partition(b" (")[0]):
                    priors[n] -= self._options.says_itself

    def _worth_reading(self, machine: Machine, found: Sequence[Property], subject: int) -> list[Property]:
        """Return the properties of a subject that the question is read after. Descriptions are left out if there are others,
        since they seldom answer a question, and so are unlikely properties that have no word in common with it."""
        named = [(one, _name_of(machine, one)) for one in found if one.subject == subject]
        named = [(one, name) for one, name in named if name not in DESCRIPTIONS] or named
        least = max((one.own for one, _ in named), default=0.0) - self._options.apart
        is_common = (lambda name: True) if self.queries is None else self.queries.has_word_of
        return [one for one, name in named if one.own >= least or is_common(name)]

    def _nearest(self, meant: Sequence[_Meant], likely: NDArray[np.float64]) -> list[int]:
        """Return the numbers of the subjects whose properties are compared, the best first, given the question's likelihoods.

        Of those that the question names, two are among them: the best one, since `Australian dollar` alone makes a question
        about the money of Australia likelier than `Australia`, and the best one without the question's likelihoods.
        """
        own, weights = np.array([one.score for one in meant]), self._options
        scores = likely + own
        order = np.argsort(-scores, kind="stable").tolist()
        near = [n for n in order[: weights.meant] if scores[n] >= scores[order[0]] - weights.within]
        named = [n for n in order if meant[n].subject.is_named and scores[n] >= scores[order[0]] - weights.named]
        favourite = max((n for n in order if meant[n].subject.is_named), key=lambda n: own[n], default=None)
        return list(dict.fromkeys([*near, *named[:1], *(() if favourite is None else (favourite,))]))


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


def _name_of(machine: Machine, property_: Property) -> str:
    """Return the name of a property."""
    name = machine.text_of(property_.ids).partition(b">")[0].strip().removeprefix(b"<")  # (`> <` may be one id.)
    return name.decode("utf-8", "replace")


_log = logging.getLogger(__name__)

NOT_CHOSEN = (
    "the facts are not chosen by the question: that needs a decoder-only model whose whole state is in its cache"
)

USUAL = 0.99
"""An id is worth a draft if more than this share of the facts continue with it."""

LONGEST_ANSWER = 48
"""The most draft tokens of an answer: most of them are right, and a wrong one costs little."""


class ChannelChooser:
    """A `refactx.engines.engine.FactChooser` that chooses each fact's subject and property by the question."""

    needs = TreeReading.ROWS

    def __init__(self, machine: Machine, channel: Channel) -> None:
        self._machine, self._channel, self.examples = machine, channel, channel.examples
        self._queries, self._trees, self._has_begun = channel.queries, TreeReading.NONE, False

    def without_trees(self) -> FactChooser:
        _log.warning(NOT_CHOSEN)
        return PlainChooser(self._machine)

    def decides(self, state: State) -> bool:
        return self._channel.decides(self._machine, state)

    def choose(self, state: State, reading: ScoreReading) -> Steps[Choice]:
        has_begun, self._has_begun, self._trees = self._has_begun, True, reading.trees
        if self._queries is not None and not has_begun and isinstance(state, Free):
            self._queries.spans(self._machine)
            if self._queries.antecedent == "missing" and self._channel.lines.unknown:
                return Choice((*self._channel.lines.unknown_line(self._machine), *self._queries.end))
            whole = yield from self._queries.begin(self._machine, reading.trees)
            if whole:
                return Choice(whole)
        if not has_begun and isinstance(state, Free):
            return Choice(self._channel.lines.first_line(self._machine))
        if isinstance(state, InFact) and self.decides(state):
            return (yield from self._channel.choose(self._machine, state, reading))
        line = self._channel.lines.next_line(self._machine, state, reading.logits[0])
        if self._queries is not None and isinstance(state, Free) and self._channel.lines.is_answer(self._machine, line):
            unknown = self._channel.lines.unknown_line(self._machine) if self._channel.lines.unknown else ()
            line = self._queries.objects(self._machine, state, unknown) or line
        return Choice(line)

    def following(self, state: State, at_fact_end: bool) -> Steps[Sequence[int]]:
        """Return the forced id, or the ids that the channel writes at the end of a fact and after it."""
        token = self._machine.forced(state)
        if token is not None:
            return (token,)
        if at_fact_end and self._queries is not None and isinstance(state, Free):
            fits = partial(self._channel.lines.fits, self._machine, state.facts)
            rest = yield from self._queries.after_fact(
                self._machine, state, self._trees, self._channel.confidence, fits
            )
            if rest:
                return rest
        lines = self._channel.lines
        return (lines.after_fact if at_fact_end else lines.end_of_fact)(self._machine, state)

    def draft(self, state: State, ids: NDArray[np.int64], unread: int, greedy: bool) -> Sequence[int]:
        if not greedy:
            return ()
        answer = self._channel.lines.draft(self._machine, state, ids)[:LONGEST_ANSWER]
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
