"""The likelihood of a question after facts: log p(question | examples, fact), for many facts in a few passes."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from refactx.choosing.continuations import Continuations
from refactx.decoding.machine import Machine
from refactx.decoding.states import InFact
from refactx.engines.engine import IdPath, TreeReading
from refactx.engines.requests import Steps

DESCRIBED = 4
"""The number of words of a subject's description that are read: the first ones say what kind of thing it is, and each
id takes time."""

FIRST, RACED = 0.25, 8
"""From `RACED` texts on, all are first compared by the share `FIRST` of the question. (The additional pass takes as
long as some 16 ids: `refactx.engines.scheduler.PASS_IDS`.)"""


class QuestionScore:
    """The likelihoods of one question after texts.

    `question`: the ids between a text and the end of the question; `lead`: how many of them introduce the question and are
    not scored; `examples`: the number of the examples before each text, of those that the text's job has read
    (`refactx.engines.job.Job`).

    Likelihoods are remembered: the next fact of a text is mostly of the same subject, and the same texts are compared
    again.
    """

    def __init__(self, *, question: Sequence[int], lead: int, examples: int = 0) -> None:
        self._question, self._lead, self._examples = tuple(question), lead, examples
        self._known: dict[IdPath, NDArray[np.float64]] = {}  # by text: of the question's first ids, as far as read

    def likelihoods(
        self,
        texts: Sequence[IdPath],
        trees: TreeReading,
        priors: NDArray[np.float64] | None = None,
        hopeless: float = math.inf,
    ) -> Steps[NDArray[np.float64]]:
        """Return the log-probability of the question after the examples and each text: float64[len(texts)].

        If there are many texts, those that are more than `hopeless` below the best after a quarter of the question are
        dropped and get minus infinity. `priors`, float64[len(texts)], are added for that comparison. `trees`: how the
        engine reads trees.
        """
        scored = len(self._question) - self._lead
        first = max(1, math.ceil(FIRST * scored)) if len(texts) >= RACED and hopeless < math.inf else scored
        continuations = Continuations(trees, of_examples=self._examples)
        yield from self._read(continuations, texts, first)
        early = np.array([self._known[text][:first].sum() for text in texts]) + (0 if priors is None else priors)
        left = early >= early.max(initial=-math.inf) - (hopeless if first < scored else math.inf)
        yield from self._read(continuations, [text for text, stays in zip(texts, left, strict=True) if stays], scored)
        yield from continuations.close()
        return np.array([self._known[text].sum() if n else -math.inf for text, n in zip(texts, left, strict=True)])

    def _read(self, continuations: Continuations, texts: Sequence[IdPath], count: int) -> Steps[None]:
        """Read the question's first `count` scored ids after each text, except those that were read before."""
        known = {text: self._known.get(text, np.empty(0)) for text in texts}
        missing = {text: scores for text, scores in known.items() if len(scores) < count}
        ids = self._question[: self._lead + count]
        found = yield from continuations.log_probabilities(
            [((*text, *ids), count - len(scores)) for text, scores in missing.items()]
        )
        for (text, scores), more in zip(missing.items(), found, strict=True):
            self._known[text] = np.append(scores, more)


def no_fact(machine: Machine) -> IdPath:
    """Return the ids of a trigger without a fact, after which the question is scored for comparison."""
    return tuple(machine.source.tokenizer.encode(machine.source.trigger))


def fact_so_far(machine: Machine, state: InFact, alias: str = "") -> IdPath:
    """Return the ids of a fact so far, with its trigger, as the question is scored after them.

    `state`: that after the subject. `alias`: the alias that led to the subject and takes the place of its name, since
    the question uses it. A description is cut to its first words. If an earlier fact of the text has the subject as
    object, that fact comes first: a question of two steps is about both.
    """
    reason = _fact_that_led_to(machine, state)
    before = [*no_fact(machine), *reason, *machine.source.tokenizer.encode("\n")] if reason else []
    return (*before, *no_fact(machine), *_shorten(machine, state.prefix, alias))


def _shorten(machine: Machine, prefix: Sequence[int], alias: str) -> Sequence[int]:
    """Return the ids of a fact so far with the first words of its subject's description, and with `alias` as the name
    unless that is empty."""
    text = machine.text_of(prefix).decode("utf-8", "replace")
    subject, bracket, rest = text.partition(">")
    name, opened, described = subject.partition(" (")
    words = described.split(" ") if opened and described.endswith(")") else []
    if not bracket or (not alias and len(words) <= DESCRIBED):
        return prefix
    short = f" <{alias}" if alias else name
    if words:
        short += f" ({' '.join(words[:DESCRIBED])}" + ")" * (len(words) > DESCRIBED)
    return machine.source.tokenizer.encode_after(machine.source.trigger, f"{short}>{rest}")


def _fact_that_led_to(machine: Machine, state: InFact) -> tuple[int, ...]:
    """Return the ids of the last fact whose object is the subject of this one; empty if there is none."""
    subject = machine.text_of(state.prefix).partition(b">")[0].strip()
    for fact in reversed(state.facts):
        if machine.text_of(fact.tokens).strip().removesuffix(b">").endswith(subject):
            return (*fact.tokens, *machine.source.tokenizer.encode(machine.source.terminator))
    return ()
