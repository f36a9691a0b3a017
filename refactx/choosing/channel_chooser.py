"""The choice of facts by the noisy channel, with the lines of the answer after them."""

import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from refactx.choosing.channel import Channel
from refactx.choosing.guesses import draft_tokens, end_of_fact
from refactx.choosing.plain import PlainChooser
from refactx.decoding.machine import Machine
from refactx.decoding.states import Free, InFact, State
from refactx.engines.chooser import Chosen, FactChooser, Reading
from refactx.engines.engine import TreeReading
from refactx.engines.requests import Steps

_log = logging.getLogger(__name__)

USUAL = 0.99
"""An id is worth a draft if more than this share of the facts continue with it."""

LONGEST_ANSWER = 48
"""The most draft tokens of an answer: most of them are right, and a wrong one costs little."""


class ChannelChooser:
    """A `refactx.engines.chooser.FactChooser` that chooses each fact's subject and property by the question."""

    needs = TreeReading.ROWS

    def __init__(self, machine: Machine, channel: Channel) -> None:
        self._machine, self._channel, self.examples = machine, channel, channel.examples
        self._queries, self._trees, self._has_begun = channel.queries, TreeReading.NONE, False

    def without_trees(self) -> FactChooser:
        _log.warning(
            "the facts are not chosen by the question: that needs a decoder-only model with position ids and a dynamic "
            "cache of keys and values without a sliding window"
        )
        return PlainChooser(self._machine)

    def decides(self, state: State) -> bool:
        return self._channel.decides(self._machine, state)

    def choose(self, state: State, reading: Reading) -> Steps[Chosen]:
        has_begun, self._has_begun, self._trees = self._has_begun, True, reading.trees
        if self._queries is not None and not has_begun and isinstance(state, Free):
            whole = yield from self._queries.begin(self._machine, reading.trees)
            if whole:
                return Chosen(whole)
        if isinstance(state, InFact) and self.decides(state):
            return (yield from self._channel.choose(self._machine, state, reading))
        line = yield from self._channel.lines.next_line(self._machine, state, reading.logits[0])
        if self._queries is not None and isinstance(state, Free) and self._channel.lines.is_answer(self._machine, line):
            line = (yield from self._queries.objects(self._machine, state)) or line
        return Chosen(line)

    def following(self, state: State, at_fact_end: bool) -> Steps[Sequence[int]]:
        """Return the forced id, or the ids that the channel writes at the end of a fact and after it."""
        token = self._machine.forced(state)
        if token is not None:
            return (token,)
        if at_fact_end and self._queries is not None and isinstance(state, Free):
            rest = yield from self._queries.after_fact(self._machine, state, self._trees, self._channel.told)
            if rest:
                return rest
        lines = self._channel.lines
        return (yield from (lines.after_fact if at_fact_end else lines.end_of_fact)(self._machine, state))

    def guess(self, state: State, ids: NDArray[np.int64], unread: int, greedy: bool) -> Steps[Sequence[int]]:
        if not greedy:
            return ()
        answer = self._channel.lines.draft(self._machine, state, ids)[:LONGEST_ANSWER]
        guess = answer or draft_tokens(self._machine, state, ids, unread) or end_of_fact(self._machine, state, ids)
        return (yield from self._cut_at_choice(state, list(guess), len(ids)))

    def _cut_at_choice(self, state: State, guess: list[int], position: int) -> Steps[list[int]]:
        """Return draft tokens up to the first state that the channel decides, and the usual id after it.

        After an id within a fact that the channel does not decide, the draft is not cut.
        """
        for count in range(len(guess) + 1):
            if isinstance(state, InFact) and self.decides(state):
                return guess[:count] + usual_id(state)
            if count == len(guess) or not isinstance(state, Free):
                break
            state = yield from self._machine.advancing(state, guess[count], position + count)
        return guess


def usual_id(state: InFact) -> list[int]:
    """Return the id with which nearly all facts continue after a state, as a list; empty if there is none."""
    often = state.children.leaves > USUAL * state.children.total
    ids: list[int] = state.children.tokens[often].tolist()
    return ids
