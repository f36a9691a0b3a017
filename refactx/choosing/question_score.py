"""How likely a fact makes a question: log p(question | examples, fact), by a few passes over many facts."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refactx.choosing.continuations import behind_prefix
from refactx.decoding.machine import InFact, Machine
from refactx.engines.hf.prefix import Prefix
from refactx.tree.children import Path

DESCRIBED = 4
"""So many words of a subject's description are read: the first say what kind of thing it is, and each id costs time."""

FIRST, RACED = 0.25, 8
"""At least `RACED` texts are compared behind so much of the question: one pass more costs as much as some 16 ids
(`refactx.engines.hf.chunked.PASS_IDS`)."""


class QuestionScore:
    """Of one question. `question`: its ids, behind what introduces it; `lead`: how many of them introduce it and are not
    scored. `examples`: facts with their questions, run through the model once.

    What the question's score is behind a text is remembered: when a text goes on with another fact, mostly of the same
    subject, the same texts are compared again. Threads may share it.
    """

    def __init__(self, model: Any, examples: Prefix, question: Sequence[int], lead: int) -> None:
        self._model, self._examples, self._question, self._lead = model, examples, tuple(question), lead
        self._known: dict[Path, NDArray[np.float64]] = {}  # of the question's first ids, as far as read behind a text

    def likelihoods(
        self, texts: Sequence[Path], besides: NDArray[np.float64] | None = None, hopeless: float = math.inf
    ) -> NDArray[np.float64]:
        """The log-probability of the question behind the examples and each of some texts: float64[len(texts)].

        Of many texts those that lie behind the best by more than `hopeless` once a quarter of the question is read are read no
        further, and get minus infinity; `besides`, float64[len(texts)], is added to all for that.
        """
        scored = len(self._question) - self._lead
        first = max(1, math.ceil(FIRST * scored)) if len(texts) >= RACED and hopeless < math.inf else scored
        behind = behind_prefix(self._model, self._examples)

        def read(some: Sequence[Path], count: int) -> None:
            """Of the question's first `count` ids behind some texts, those that were not read yet."""
            known = {text: self._known.get(text, np.empty(0)) for text in some}
            missing = {text: scores for text, scores in known.items() if len(scores) < count}
            ids = self._question[: self._lead + count]
            found = behind.of_last([((*text, *ids), count - len(scores)) for text, scores in missing.items()])
            for (text, scores), more in zip(missing.items(), found, strict=True):
                self._known[text] = np.append(scores, more)  # not to what it has now: another thread may have been here

        read(texts, first)
        early = np.array([self._known[text][:first].sum() for text in texts]) + (0 if besides is None else besides)
        left = early >= early.max(initial=-math.inf) - (hopeless if first < scored else math.inf)
        read([text for text, goes_on in zip(texts, left, strict=True) if goes_on], scored)
        return np.array([self._known[text].sum() if n else -math.inf for text, n in zip(texts, left, strict=True)])


def nothing(machine: Machine) -> Path:
    """The ids of no fact, where one might stand."""
    return tuple(machine.source.tokenizer.encode(machine.source.trigger))


def so_far(machine: Machine, state: InFact, alias: str = "") -> Path:
    """The ids of a fact so far, from its trigger on. `state`: behind its subject; `alias`: what else to call that, if not by
    its name.

    Who asks says an alias where one led there. Of a description the first words are read. Where a fact of the text led to the
    subject, as its object, it comes first: a question of two steps asks for both.
    """
    reason = _reason(machine, state)
    before = [*nothing(machine), *reason, *machine.source.tokenizer.encode("\n")] if reason else []
    return (*before, *nothing(machine), *_briefly(machine, state.prefix, alias))


def _briefly(machine: Machine, prefix: Sequence[int], alias: str) -> Sequence[int]:
    """The ids of a fact so far, with the first words of its subject's description alone, and with an alias for its name."""
    text = machine.text_of(prefix).decode("utf-8", "replace")
    subject, bracket, behind = text.partition(">")
    name, opened, described = subject.partition(" (")
    words = described.split(" ") if opened and described.endswith(")") else []
    if not bracket or (not alias and len(words) <= DESCRIBED):
        return prefix
    brief = f" <{alias}" if alias else name
    if words:
        brief += f" ({' '.join(words[:DESCRIBED])}" + ")" * (len(words) > DESCRIBED)
    return machine.source.tokenizer.encode_after(machine.source.trigger, f"{brief}>{behind}")


def _reason(machine: Machine, state: InFact) -> tuple[int, ...]:
    """The last fact that leads to the subject of this one, as its object."""
    subject = machine.text_of(state.prefix).partition(b">")[0].strip()
    for fact in reversed(state.facts):
        if machine.text_of(fact.tokens).strip().removesuffix(b">").endswith(subject):
            return (*fact.tokens, *machine.source.tokenizer.encode(machine.source.terminator))
    return ()
