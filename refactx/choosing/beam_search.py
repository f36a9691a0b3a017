"""Beam search over the tree: the best whole fact, while the text around it is greedy or sampled.

At each trigger the search goes on from the model's cache with a few hypotheses. All are one id longer at each step, as in
`num_beams`, but the model may have read further than that, and what it has read is kept by its path (`refactx.engines.hf.trees`):
so the result is that of the plain search, in far fewer passes. A pass takes in, beside the ids that hypotheses wait for,
what is forced behind them; where fewer wait than there are beams, the ids that the others will come to; and in a search's
first pass the paths along which the last fact's search went, since a text's facts are often about one subject.

A hypothesis is finished where its terminator is complete. Its score is the sum of its ids' log-probabilities, of the
whole vocabulary's distribution as in the paper, or (`renormalise`) of the allowed ids' alone, over its length to the
power of `length_penalty` (Wu et al., arXiv 1609.08144, in the form that Transformers uses): 0 prefers short facts, 1 takes
the mean. Other logits processors, sampling among them, take no part in the search.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from refactx.decoding.machine import Closing, Dead, Free, InFact, InTerminator, Machine, State
from refactx.decoding.mask import allowed, forced
from refactx.engines.hf.chunked import ChunkedModel
from refactx.engines.hf.trees import Branches, IdPath
from refactx.errors import InputError
from refactx.tree.children import Tokens

_Node = tuple[IdPath, State]

MOST_GUESSED = 64
"""Ids of the last search's paths that another begins with, at most. For facts of one subject 48 to 128 take the same time."""


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


@dataclass(frozen=True, slots=True)
class _Hypothesis:
    """`tokens` so far with their summed log-probability."""

    tokens: IdPath
    state: State
    total: float


@dataclass(frozen=True, slots=True)
class Found:
    """The best fact: its `ids`, terminator and all, of which the model has `read` as many. `beams`: the paths that the search
    went along, short ones first, which another may go along too.
    """

    ids: Sequence[int]
    read: int
    beams: Sequence[IdPath]


def best_fact(
    machine: Machine,
    state: InFact | InTerminator,
    position: int,
    model: ChunkedModel,
    logits: torch.Tensor,
    options: FactBeams,
    room: int,
    ahead: Sequence[int] = (),
    earlier: Sequence[IdPath] = (),
) -> Found:
    """The best fact that goes on from `state`; `model` has then read what `Found` says of it.

    `logits`: float[1, 1 + len(ahead), vocabulary], behind the text, whose next id has `position`, and behind each of the ids
    `ahead` that the model has read beyond it. `room`: at most so many ids; where no fact ends within it, the beginning of
    the best one. `earlier`: `beams` of the search before; they change nothing but the number of passes.
    """
    search = _Search(machine, position, Branches(model, ahead), options, room)
    return search.run(state, ahead, logits[0], earlier)


class _Search:
    def __init__(self, machine: Machine, position: int, branches: Branches, options: FactBeams, room: int) -> None:
        self._machine, self._position, self._branches = machine, position, branches
        self._options, self._room = options, room
        self._choices: dict[IdPath, tuple[Tokens, NDArray[np.float32]]] = {}  # behind the paths that were read
        self._best: tuple[float, IdPath] | None = None

    def run(
        self,
        state: InFact | InTerminator,
        ahead: Sequence[int],
        logits: torch.Tensor,
        earlier: Sequence[IdPath],
    ) -> Found:
        running = [_Hypothesis((), state, 0.0)]
        known = [((), state), *self._walked(state, [tuple(ahead[: n + 1]) for n in range(len(ahead))])]
        self._learn(known, logits[: len(known)])
        guessed = [node for node in self._walked(state, earlier) if node[0] not in self._branches][:MOST_GUESSED]
        beams: list[IdPath] = []
        while True:
            while any(self._waits(hypothesis) for hypothesis in running):
                self._read(self._wanted(running), guessed)
                guessed = []
            grown, finished = self._grow(running)
            for hypothesis in finished:
                self._finish(hypothesis)
            grown = [hypothesis for hypothesis in grown if self._can_win(hypothesis)]
            if not grown:
                break
            running = grown
            beams += [hypothesis.tokens for hypothesis in running]
            if len(running[0].tokens) == self._room:
                break
        found = self._best[1] if self._best is not None else running[0].tokens
        return Found(found, self._branches.keep(found[:-1]), beams)

    def _walked(self, state: State, paths: Sequence[IdPath]) -> list[_Node]:
        """Those of some paths, short ones first, that stay within a fact, and their states."""
        states: dict[IdPath, State] = {(): state}
        for path in paths:
            before = states.get(path[:-1])
            if before is not None and len(path) < self._room:
                after = self._machine.advance(before, path[-1], self._position + len(path) - 1)
                if isinstance(after, InFact | InTerminator):
                    states[path] = after
        return list(states.items())[1:]

    def _can_win(self, hypothesis: _Hypothesis) -> bool:
        """Whether it may still beat the best finished one: sums fall, and lengths end at `room`."""
        return self._best is None or self._options.score(hypothesis.total, self._room) > self._best[0]

    def _waits(self, hypothesis: _Hypothesis) -> bool:
        """Whether the model has to read it before it can grow."""
        return hypothesis.tokens not in self._choices and not self._is_given(hypothesis.state)

    def _is_given(self, state: State) -> bool:
        """Whether the next id costs nothing, so that nothing need be known of it."""
        return self._options.renormalise and forced(self._machine, state) is not None

    def _grow(self, running: Sequence[_Hypothesis]) -> tuple[list[_Hypothesis], list[_Hypothesis]]:
        """The best hypotheses that are one id longer, best first, and those that end their fact with that id."""
        options: list[tuple[float, int, int]] = []  # negative total, hypothesis, id: a tie goes to the first
        for number, hypothesis in enumerate(running):
            if self._is_given(hypothesis.state):
                options.append((-hypothesis.total, number, forced(self._machine, hypothesis.state) or 0))
                continue
            tokens, scores = self._choices[hypothesis.tokens]
            totals = (-(hypothesis.total + scores.astype(np.float64))).tolist()
            options += zip(totals, [number] * len(totals), tokens.tolist(), strict=True)
        options.sort()
        grown: list[_Hypothesis] = []
        finished: list[_Hypothesis] = []
        for negative, number, token in options:
            parent = running[number]
            if len(grown) == self._options.beams and token not in self._endings(parent.state):
                continue
            state = self._machine.advance(parent.state, token, self._position + len(parent.tokens))
            child = _Hypothesis((*parent.tokens, token), state, -negative)
            if isinstance(state, Free | Closing):
                finished.append(child)
            elif len(grown) < self._options.beams:
                grown.append(child)
        return grown, finished

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

    def _wanted(self, running: Sequence[_Hypothesis]) -> list[_Hypothesis]:
        """What to read next: the hypotheses that wait, and if these are fewer than the beams, those that the search will come
        to if they lead nowhere.
        """
        wanted: list[_Hypothesis] = []
        while running and len(wanted) < self._options.beams and len(running[0].tokens) < self._room:
            wanted += [hypothesis for hypothesis in running if self._waits(hypothesis)]
            running, _ = self._grow([hypothesis for hypothesis in running if not self._waits(hypothesis)])
        return wanted[: self._options.beams]

    def _read(self, hypotheses: Sequence[_Hypothesis], guessed: Sequence[_Node]) -> None:
        """One pass over guesses, and over what the model has not read of some hypotheses and is forced behind them."""
        nodes = dict(guessed)
        for hypothesis in hypotheses:
            nodes |= {path: state for path, state in self._unread(hypothesis).items() if path not in nodes}
        self._learn(list(nodes.items()), self._branches.read(list(nodes)))

    def _unread(self, hypothesis: _Hypothesis) -> dict[IdPath, State]:
        """The paths to and behind a hypothesis that are to be read, no further than there is room."""
        path, state = hypothesis.tokens, hypothesis.state
        given = [path[:n] for n in range(1, len(path)) if path[:n] not in self._branches]
        found: dict[IdPath, State] = dict.fromkeys(given, Dead())  # nothing is to be chosen behind these
        found[path] = state
        while len(path) < self._room and (token := forced(self._machine, state)) is not None:
            state = self._machine.advance(state, token, self._position + len(path))
            if not isinstance(state, InFact | InTerminator):
                break
            path = (*path, token)
            found[path] = state
        return found

    def _learn(self, nodes: Sequence[_Node], logits: torch.Tensor) -> None:
        """Note the choices behind paths, from the logits behind each, [paths, vocabulary]."""
        logits = logits.to(torch.float32)
        wholes = [0.0] * len(nodes) if self._options.renormalise else logits.logsumexp(-1).tolist()
        for (path, state), row, whole in zip(nodes, logits.numpy(force=True), wholes, strict=True):
            if isinstance(state, InFact | InTerminator):
                self._choices[path] = self._best_of(state, row, whole)

    def _best_of(self, state: State, logits: NDArray[np.float32], whole: float) -> tuple[Tokens, NDArray[np.float32]]:
        """The ids worth looking at behind a state, and their log-probabilities: as many as there are beams, besides all that
        may end the fact. `whole`: the logarithm of what the logits, of all ids, sum up to.
        """
        tokens = allowed(self._machine, state)
        if tokens is None:
            raise ValueError("nothing is chosen outside of facts")
        tokens = tokens[tokens < len(logits)]
        scores = logits[tokens]
        scores = scores - (np.logaddexp.reduce(scores) if self._options.renormalise else np.float32(whole))
        ends = np.flatnonzero(np.isin(tokens, list(self._endings(state))))
        most = self._options.beams + len(ends)  # those that end the fact take no beam's place
        if len(tokens) > most:
            kept = np.union1d(np.argpartition(-scores, most - 1)[:most], ends)
            tokens, scores = tokens[kept], scores[kept]
        return tokens, scores
