"""Choosing a fact by the question: what would make somebody ask it?

Small models write a fact badly by themselves: "what did einstein do?" begins `<Ein`, which the tree takes to `Einsatzgruppen`;
"what timezone is arizona in?" wants `located in time zone`, which begins like `located in ...`. Turned around it is easy: of
all facts that the model may mean, the question is likeliest behind the right one. So a subject, and a property of it, is
chosen by

    log p(question | examples, fact so far)  +  weights * log p(of the model's own choice)

the noisy channel (Min et al., arXiv 2108.04106), with the same model. Its own choice gives the candidates
(`refactx.choosing.candidates`): the names that it would write, the properties that each has in the tree. First the subjects are
compared, then the properties of those that come near the best. Of subjects with the same name, told apart by what stands in
brackets behind it, the one with more facts is meant more often: its share of the facts is its prior. A few passes score them
all. Everything written still comes from the tree.

What follows a fact is in `refactx.choosing.answer_lines`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from refactx.choosing.answer_lines import Lines, after
from refactx.choosing.candidates import Limits, Property, Subject, properties, subjects
from refactx.choosing.continuations import Continuations, continuations
from refactx.choosing.question_score import QuestionScore, nothing, so_far
from refactx.decoding.machine import InFact, Machine, State
from refactx.engines.hf.chunked import ChunkedModel
from refactx.engines.hf.prefix import Prefix
from refactx.fact import DESCRIPTIONS
from refactx.tree.children import Path

USUAL = 0.99
"""An id with which more than this share of the facts go on is worth guessing."""

MOST_EARLIER = 64
"""So many of the paths that a choice has asked for are read ahead of the next: for nothing where that has another subject."""

OBJECT_IDS = 16
"""Most ids of an object by which properties are told apart: a title's, and not a paragraph's."""


@dataclass(frozen=True, slots=True)
class ChannelOptions:
    """Weights of logarithms, beside the question's: `own` of the model's own choice of a property, `name` of that of a name,
    `prior` of a subject's share of the facts.

    `candidates`: which subjects the model may mean. One whose score without the question is more than `doubtful` below the
    best's is not scored by the question. Properties are scored of the best `meant` of them, none of which is worse than the
    best by more than `within`: `properties` of each at most, none that its own choice finds less likely than its
    favourite by more than `unlikely`; one that is behind the best by more than `hopeless` once a quarter of the question is
    read is given up, and those as near to the best as `tie` are compared again, with an object each. `values`: most facts of
    one subject and property; `again`: how much likelier than the answer another fact has to be behind these (small
    models go on for ever). `tells`: how much likelier than no fact one has to make the question, for an answer. Differences
    are of logarithms.
    """

    own: float = 0.3
    name: float = 0.7
    prior: float = 0.5
    candidates: Limits = field(default_factory=Limits)
    properties: int = 64
    unlikely: float = 9.0
    hopeless: float = 5.0
    tie: float = 1.0
    doubtful: float = 4.0
    meant: int = 2
    within: float = 2.0
    values: int = 6
    again: float = 4.0
    tells: float = 4.0


@dataclass(frozen=True, slots=True)
class _Meant:
    """A subject that may be meant, and what speaks for it beside the question, as a log-probability."""

    subject: Subject
    score: float = 0.0


class Channel:
    """The choice of facts for one question, in one text.

    `question`: its ids, behind what introduces it; `lead`: how many of `question`'s ids introduce it and are not scored.
    `examples`: facts with their questions, run through the model once. `marker`, `unknown`: as for `lines`, what follows
    facts. Threads may share it.
    """

    def __init__(
        self,
        model: Any,
        examples: Prefix,
        question: Sequence[int],
        lead: int,
        marker: str = "",
        options: ChannelOptions | None = None,
        unknown: str = "",
    ) -> None:
        self._score = QuestionScore(model, examples, question, lead)
        self._options = options or ChannelOptions()
        # What was asked of the model in the last choice, as ids from the fact's first on.
        self._earlier: Sequence[Path] = ()
        self.lines = Lines(marker, unknown, self._options.values, self._options.again, self._options.tells)

    def decides(self, machine: Machine, state: State) -> bool:
        """Whether a subject or a property is to be chosen here, from a model that has read the text and no more."""
        if not isinstance(state, InFact):
            return False
        return machine.text_of(state.prefix).partition(b">")[2].strip() in (b"", b"<")

    def choose(
        self,
        machine: Machine,
        state: InFact,
        position: int,
        model: ChunkedModel,
        logits: torch.Tensor,
        ahead: Sequence[int] = (),
    ) -> tuple[Path, int]:
        """The next ids in a fact where the channel `decides`: its subject with a property, or the property; none where the
        model is to choose by itself. And how many of them `model` has read then.

        `logits`: float[1 + len(ahead), vocabulary], behind the text, whose next id has `position`, and behind each of the ids
        `ahead` that the model has read beyond it.
        """
        begin = len(state.prefix)
        earlier = dict.fromkeys(path[begin:] for path in self._earlier if path[:begin] == state.prefix)
        behind = continuations(model, logits, ahead, [path for path in earlier if path][:MOST_EARLIER])
        chosen = self._chosen(machine, state, position, behind)
        self._earlier = [(*state.prefix, *path) for path in behind.asked]
        return chosen, behind.keep(chosen[:-1])

    def _chosen(self, machine: Machine, state: InFact, position: int, behind: Continuations) -> Path:
        full, weights = self.lines.full(machine, state.facts), self._options
        if b">" in machine.text_of(state.prefix):
            return self._best(machine, [_Meant(Subject((), state))], full, position, behind)
        meant: dict[Path, _Meant] = {}
        for one in subjects(machine, state, position, behind, weights.candidates):
            way = _Meant(one, weights.name * one.own + weights.prior * math.log(one.share))
            meant[one.ids] = max(way, meant.get(one.ids, way), key=lambda way: way.score)
        if not meant:
            return ()
        meant = {ids: way for ids, way in meant.items() if not _is_spent(way.subject.state, full)} or meant
        least = max(way.score for way in meant.values()) - weights.doubtful
        return self._best(machine, [way for way in meant.values() if way.score >= least], full, position, behind)

    def _best(
        self,
        machine: Machine,
        meant: Sequence[_Meant],
        full: Mapping[Path, int],
        position: int,
        behind: Continuations,
    ) -> Path:
        """The ids of the best of some subjects with its best property, none of `full` while there are others; those of the
        subject alone if it has none to choose.
        """
        weights, behind_nothing = self._options, [nothing(machine)] if self.lines.unknown else []
        told = [so_far(machine, one.subject.state, one.subject.alias) for one in meant]
        if len(meant) > 1:
            likely = self._score.likelihoods([*told, *behind_nothing])[: len(told)]
            near = self._nearest(likely + [one.score for one in meant])
            meant, told = [meant[n] for n in near], [told[n] for n in near]
        named = [one.subject for one in meant]
        found = properties(machine, named, position, behind, weights.properties, weights.unlikely, full)
        found = [one for number in range(len(meant)) for one in _that_answer(machine, found, number)]
        if not found:
            return meant[0].subject.ids
        besides = np.array([weights.own * one.own + meant[one.subject].score for one in found])
        texts = [(*told[one.subject], *one.ids) for one in found]
        likely = self._score.likelihoods(texts, besides, weights.hopeless)
        total = likely + besides
        near = np.flatnonzero(total >= total.max() - weights.tie).tolist()
        if len(near) > 1:
            objects = (_an_object(machine, after(machine, named[found[n].subject].state, found[n].ids)) for n in near)
            longer = [(*texts[n], *path) for n, path in zip(near, objects, strict=True)]
            total[near] = (likely[near] + self._score.likelihoods(longer)) / 2 + besides[near]
        best = max(near, key=lambda n: float(total[n]))
        subject, ids = named[found[best].subject], found[best].ids
        if behind_nothing:
            of_nothing = self._score.likelihoods(behind_nothing)[0]
            self.lines.told[(*subject.state.prefix, *ids)] = float(likely[best] - of_nothing)
        return (*subject.ids, *ids)

    def _nearest(self, scores: NDArray[np.float64]) -> list[int]:
        """The numbers of those subjects whose properties are worth comparing, by their scores, the best first."""
        order = np.argsort(-scores, kind="stable")[: self._options.meant].tolist()
        return [n for n in order if scores[n] >= scores[order[0]] - self._options.within]


def usual_id(state: InFact) -> list[int]:
    """The id with which nearly all facts go on from a state, if there is one."""
    often = state.children.leaves > USUAL * state.children.total
    ids: list[int] = state.children.tokens[often].tolist()
    return ids


def _an_object(machine: Machine, state: State) -> Path:
    """The ids of one of the objects behind a property, one of those with most facts, without its description; of a long one the
    first.
    """
    path: Path = ()
    while isinstance(state, InFact) and len(state.children.tokens) and len(path) < OBJECT_IDS:
        if any(end in machine.text_of(path) for end in (b">", b" (")):
            break
        token = int(state.children.tokens[state.children.leaves.argmax()])
        path, state = (*path, token), machine.advance(state, token, 0)
    return path


def _is_spent(subject: InFact, full: Mapping[Path, int]) -> bool:
    """Whether all that is left of a subject are facts of properties that are `full`."""
    begin = len(subject.prefix)
    return subject.children.total == sum(left for ids, left in full.items() if ids[:begin] == subject.prefix)


def _that_answer(machine: Machine, found: Sequence[Property], subject: int) -> Sequence[Property]:
    """Those of a subject, without descriptions, which answer nothing while there are other properties."""
    found = [one for one in found if one.subject == subject]
    names = (
        machine.text_of(one.ids).partition(b">")[0].strip().removeprefix(b"<") for one in found
    )  # an id may be `> <`
    return [
        one for one, name in zip(found, names, strict=True) if name.decode("utf-8", "replace") not in DESCRIPTIONS
    ] or found
