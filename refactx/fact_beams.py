"""Beam search over the tree: the best whole fact, while the text around it is greedy or sampled.

At each trigger the search goes on from the model's cache with a few hypotheses. All are one id longer at each step, as in
`num_beams`, but ids that have no alternative need no forward pass of their own: a pass takes in a hypothesis's chosen id
and the forced chain behind it, and gives the log-probabilities along the chain at once. Hypotheses that have their next
log-probability already wait; so the result is that of the plain search, in far fewer passes.

A hypothesis is finished where its terminator is complete. Its score is the sum of its ids' log-probabilities, of the
whole vocabulary's distribution as in the paper, or (`renormalise`) of the allowed ids' alone, over its length to the
power of `length_penalty` (Wu et al., arXiv 1609.08144, in the form that Transformers uses): 0 prefers short facts, 1 takes
the mean. Other logits processors, sampling among them, take no part in the search.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from refactx.chunks import ChunkedModel
from refactx.errors import InputError
from refactx.mask import allowed, forced
from refactx.state import Closing, Free, InFact, InTerminator, Machine, State
from refactx.tree import Tokens


@dataclass(frozen=True, slots=True)
class FactBeams:
    """How to search for a fact: `beams` hypotheses; see the module for the others.

    Raises InputError for fewer than one beam or a negative penalty.
    """

    beams: int
    renormalise: bool = False
    length_penalty: float = 0.0

    def __post_init__(self) -> None:
        if self.beams < 1:
            raise InputError(f"{self.beams} fact beams: there must be at least 1")
        if self.length_penalty < 0:
            raise InputError(f"length penalty {self.length_penalty}: give 0 (the sum) or more (1: the mean)")

    def score(self, total: float, length: int) -> float:
        """The score of a finished fact of `length` ids, its terminator's among them.

        >>> FactBeams(3, length_penalty=1.0).score(-6.0, 12)
        -0.5
        """
        return float(total / length**self.length_penalty)


@dataclass(slots=True)
class _Hypothesis:
    """`tokens` so far with their summed log-probability, and what is known of the next.

    `ahead`: the forced ids behind `tokens` that the model has read, each with its log-probability; `scores`: the
    log-probabilities behind all of these, once the model has read them. `row`: its row in the branched model.
    """

    tokens: tuple[int, ...]
    state: State
    total: float
    row: int
    ahead: list[tuple[int, float]] = field(default_factory=list)
    scores: NDArray[np.float32] | None = None


def best_fact(
    machine: Machine,
    state: InFact | InTerminator,
    position: int,
    model: ChunkedModel,
    logits: torch.Tensor,
    options: FactBeams,
    room: int,
) -> Sequence[int]:
    """The ids of the best fact that goes on from `state`, terminator and all.

    `logits`: float[1, 1, vocabulary], behind the last id that the model has read, which stands before `position`. `model`
    is left as it is. `room`: at most so many ids; where no fact ends within it, the beginning of the best one.
    """
    search = _Search(machine, position, model.branch(), options, room)
    return search.run(_Hypothesis((), state, 0.0, 0, scores=search.log_probabilities(logits[0, -1])))


class _Search:
    def __init__(self, machine: Machine, position: int, model: ChunkedModel, options: FactBeams, room: int) -> None:
        self._machine, self._position, self._model = machine, position, model
        self._options, self._room = options, room
        self._best: tuple[float, tuple[int, ...]] | None = None

    def run(self, first: _Hypothesis) -> Sequence[int]:
        running = [first]
        while True:
            grown = [hypothesis for hypothesis in self._grow(running) if self._can_win(hypothesis)]
            if not grown:
                break
            running = grown
            if len(running[0].tokens) == self._room:
                break
            if any(not hypothesis.ahead and hypothesis.scores is None for hypothesis in running):
                self._read(running)
        return self._best[1] if self._best is not None else running[0].tokens

    def log_probabilities(self, logits: torch.Tensor) -> NDArray[np.float32]:
        """Of the whole vocabulary, float32[vocabulary]; the logits themselves where they are normalised later on."""
        logits = logits.to(torch.float32)
        found: NDArray[np.float32] = (logits if self._options.renormalise else logits.log_softmax(-1)).numpy(force=True)
        return found

    def _can_win(self, hypothesis: _Hypothesis) -> bool:
        """Whether it may still beat the best finished one: sums fall, and lengths end at `room`."""
        return self._best is None or self._options.score(hypothesis.total, self._room) > self._best[0]

    def _grow(self, running: Sequence[_Hypothesis]) -> list[_Hypothesis]:
        """The best hypotheses that are one id longer, best first; those that end their fact are taken out."""
        options: list[tuple[float, int, int]] = []  # negative total, hypothesis, id: a tie goes to the first
        for number, hypothesis in enumerate(running):
            if hypothesis.ahead:
                token, score = hypothesis.ahead[0]
                options.append((-(hypothesis.total + score), number, token))
            else:
                tokens, scores = self._choices(hypothesis.state, hypothesis.scores)
                totals = (-(hypothesis.total + scores.astype(np.float64))).tolist()
                options += zip(totals, [number] * len(totals), tokens.tolist(), strict=True)
        options.sort()
        grown: list[_Hypothesis] = []
        for negative, number, token in options:
            parent = running[number]
            if len(grown) == self._options.beams and token not in self._endings(parent.state):
                continue
            at = self._position + len(parent.tokens)
            state = self._machine.advance(parent.state, token, at)
            child = _Hypothesis((*parent.tokens, token), state, -negative, parent.row)
            if isinstance(state, Free | Closing):
                self._finish(child)
            elif len(grown) < self._options.beams:
                if parent.ahead:
                    child.ahead, child.scores = parent.ahead[1:], parent.scores
                grown.append(child)
        return grown

    def _choices(self, state: State, scores: NDArray[np.float32] | None) -> tuple[Tokens, NDArray[np.float32]]:
        """The ids worth looking at behind a state, of the `scores` of all: as many as there are beams, besides all that may
        end the fact.
        """
        tokens = allowed(self._machine, state)
        if tokens is None or scores is None:  # free text, or not read: `_grow` has neither
            raise ValueError("a hypothesis stands where no choice is to be made")
        tokens = tokens[tokens < len(scores)]
        scores = scores[tokens]
        if self._options.renormalise:
            scores = scores - np.logaddexp.reduce(scores)
        ends = np.flatnonzero(np.isin(tokens, list(self._endings(state))))
        most = self._options.beams + len(ends)  # those that end the fact take no beam's place
        if len(tokens) > most:
            kept = np.union1d(np.argpartition(-scores, most - 1)[:most], ends)
            tokens, scores = tokens[kept], scores[kept]
        return tokens, scores

    def _endings(self, state: State) -> Mapping[int, int]:
        """The ids that begin, go on with or complete the terminator here."""
        if isinstance(state, InTerminator):
            return self._machine.terminator.steps[state.done]
        may_end = isinstance(state, InFact) and state.children.terminal > 0
        return self._machine.terminator.steps[0] if may_end else {}

    def _finish(self, hypothesis: _Hypothesis) -> None:
        score = self._options.score(hypothesis.total, len(hypothesis.tokens))
        if self._best is None or score > self._best[0]:
            self._best = (score, hypothesis.tokens)

    def _read(self, running: Sequence[_Hypothesis]) -> None:
        """One pass for all hypotheses that the model has not read to their end, each with its forced chain."""
        chunks = [self._chain(h) if not h.ahead and h.scores is None else [] for h in running]
        self._model.select([hypothesis.row for hypothesis in running])
        logits = self._model.feed(chunks, every=True)
        for row, (hypothesis, chunk) in enumerate(zip(running, chunks, strict=True)):
            hypothesis.row = row
            if chunk:
                behind = logits[row, -len(chunk) :]
                hypothesis.scores = self.log_probabilities(behind[-1])
                hypothesis.ahead = list(zip(chunk[1:], self._along(chunk[1:], behind), strict=True))

    def _chain(self, hypothesis: _Hypothesis) -> list[int]:
        """The last id of a hypothesis and what is forced behind it, no further than there is room."""
        chunk, state = [hypothesis.tokens[-1]], hypothesis.state
        while len(hypothesis.tokens) + len(chunk) - 1 < self._room and isinstance(state, InFact | InTerminator):
            token = forced(self._machine, state)
            if token is None:
                break
            chunk.append(token)
            state = self._machine.advance(state, token, 0)
        return chunk

    def _along(self, forced_ids: Sequence[int], logits: torch.Tensor) -> list[float]:
        """The log-probability of each forced id, from the logits in front of it."""
        if self._options.renormalise or not forced_ids:
            return [0.0] * len(forced_ids)
        scores = logits[: len(forced_ids)].to(torch.float32).log_softmax(-1)
        index = torch.tensor(forced_ids, device=scores.device)[:, None]
        found: list[float] = scores.gather(1, index)[:, 0].tolist()
        return found
