"""Beam search over the tree: the best whole fact, while the text around it is greedy or sampled.

At each trigger, the search continues from the model's cache with a few hypotheses. Each step makes all of them one id
longer, as in `num_beams`, but the model may have read further, and results are stored by path. So the outcome is that
of the plain search, in far fewer passes. A pass reads the ids that hypotheses need and the forced tokens after them; if
fewer hypotheses need ids than there are beams, also the ids that others will need; and in the first pass of a search
the paths of the last fact's search, since the facts of a text are often about one subject.

A hypothesis is finished once its terminator is complete. Its score is the sum of the log-probabilities of its ids, over
the whole vocabulary as in the paper, or over the allowed ids alone (`renormalise`), divided by its length to the power
of `length_penalty` (Wu et al., arXiv 1609.08144, in the form that Transformers uses): 0 prefers short facts, 1 takes
the mean. Other logits processors do not affect the search, and it does not sample.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refactx.decoding.machine import Machine
from refactx.decoding.states import Closing, Dead, Free, InFact, InQuery, InTerminator, State
from refactx.engines.engine import (
    NOTHING,
    Choice,
    FactChooser,
    IdPath,
    KeepPath,
    Logits,
    OpenTree,
    ScoreReading,
    Steps,
    TreeReading,
)
from refactx.errors import InputError, ModelError
from refactx.selection.channel import Channel
from refactx.selection.chooser import ChannelChooser
from refactx.selection.plain import PlainChooser, draft_tokens, line_after_fact
from refactx.selection.scores import log_sum, read_tree
from refactx.tree.tree import NO_TOKENS, Tokens

_Node = tuple[IdPath, State]

MOST_DRAFTED = 64
"""The most ids of the last search's paths that the first pass of a search reads. For facts of one subject, 48 to 128
take the same time."""


_UNABLE = (
    "fact beams need a decoder-only model with position ids and a dynamic cache of keys and values alone, without ALiBi, "
    "attention sdpa or eager, no scores or attentions returned, no guidance and no SynthID watermark: leave out "
    "fact_beams, or use num_beams"
)


@dataclass(frozen=True, slots=True)
class FactBeams:
    """The options of the beam search for a fact.

    `beams`: how many hypotheses it has. `renormalise`: take log-probabilities over the allowed ids alone, and not over
    the whole vocabulary. `length_penalty`: divide the sum of log-probabilities by the number of ids to this power; 0
    prefers short facts, 1 takes the mean.

        grounded.generate(**inputs, fact_beams=refactx.FactBeams(5, length_penalty=1.0))

    Raises InputError for fewer than one beam or a negative penalty.
    """

    beams: int
    renormalise: bool = False
    length_penalty: float = 0.0

    def __post_init__(self) -> None:
        if self.beams < 1:
            raise InputError(f"{self.beams} fact beams: give at least 1")
        if self.length_penalty < 0:
            raise InputError(f"length penalty {self.length_penalty}: give 0 (the sum) or more (1: the mean)")

    def score(self, total: float, length: int) -> float:
        """Return the score of a finished fact with `length` ids, its terminator included; `total`: the sum.

        >>> FactBeams(3, length_penalty=1.0).score(-6.0, 12)
        -0.5
        """
        return float(total / length**self.length_penalty)


@dataclass(frozen=True, slots=True)
class _Hypothesis:
    """The ids of a fact so far, the state after them, and the sum of their log-probabilities."""

    tokens: IdPath
    state: State
    total: float


@dataclass(frozen=True, slots=True)
class FoundFact:
    """The best fact: its `ids`, terminator included; the model has `read` the first of them (a number).

    `paths`: those of the search, short ones first, for the next search.
    """

    ids: Sequence[int]
    read: int
    paths: Sequence[IdPath]


def search_fact(
    machine: Machine,
    state: InFact | InTerminator,
    reading: ScoreReading,
    options: FactBeams,
    earlier: Sequence[IdPath] = (),
) -> Steps[FoundFact]:
    """Return the best fact that continues `state`. The sequence has afterwards read the first `FoundFact.read` ids.

    If no fact ends within `reading.room` ids, return the beginning of the best one. `earlier`: the `paths` of the last
    search, which change the number of passes alone.
    """
    return (yield from _FactSearch(machine, reading, options).run(state, earlier))


class _FactSearch:
    """The search for one fact."""

    def __init__(self, machine: Machine, reading: ScoreReading, options: FactBeams) -> None:
        self._machine, self._reading, self._options = machine, reading, options
        self._room, self._position = reading.room, reading.position
        self._tree, self._has_read = -1, {reading.ahead[:n] for n in range(len(reading.ahead) + 1)}
        self._choices: dict[IdPath, tuple[Tokens, NDArray[np.float32]]] = {}  # after the paths that were read
        self._best: tuple[float, IdPath] | None = None

    def run(self, state: InFact | InTerminator, earlier: Sequence[IdPath]) -> Steps[FoundFact]:
        """Return the best fact that continues `state`."""
        self._tree = yield OpenTree(self._reading.ahead)
        running, ahead = [_Hypothesis((), state, 0.0)], self._reading.ahead
        along = self._nodes_along(state, [ahead[: n + 1] for n in range(len(ahead))])
        known = [((), state), *along]
        self._learn(known, self._reading.logits[: len(known)])
        along = self._nodes_along(state, earlier)
        drafted = [node for node in along if node[0] not in self._has_read][:MOST_DRAFTED]
        paths: list[IdPath] = []
        while True:
            while any(self._waits(hypothesis) for hypothesis in running):
                yield from self._read(self._to_read(running), drafted)
                drafted = []
            grown, finished = self._grow(running)
            for hypothesis in finished:
                self._finish(hypothesis)
            if self._best is not None:  # which others cannot beat: sums fall, and lengths are at most `room`
                least = self._best[0]
                grown = [one for one in grown if self._options.score(one.total, self._room) > least]
            if not grown:
                break
            running = grown
            paths += [hypothesis.tokens for hypothesis in running]
            if len(running[0].tokens) == self._room:
                break
        found = self._best[1] if self._best is not None else running[0].tokens
        return FoundFact(found, (yield KeepPath(self._tree, found[:-1])), paths)

    def _nodes_along(self, state: State, paths: Sequence[IdPath]) -> list[_Node]:
        """Return the given paths (short ones first) that stay within a fact, with their states."""
        states: dict[IdPath, State] = {(): state}
        for path in paths:
            before = states.get(path[:-1])
            if before is not None and len(path) < self._room:
                after = self._machine.advance(before, path[-1], self._position + len(path) - 1)
                if isinstance(after, InFact | InTerminator):
                    states[path] = after
        return list(states.items())[1:]

    def _waits(self, hypothesis: _Hypothesis) -> bool:
        """Return whether the model has to read a hypothesis before it can grow."""
        return hypothesis.tokens not in self._choices and not self._is_given(hypothesis.state)

    def _is_given(self, state: State) -> bool:
        """Return whether the next id is forced and does not change the sum, so that no logits are needed."""
        return self._options.renormalise and self._machine.forced(state) is not None

    def _grow(self, running: Sequence[_Hypothesis]) -> tuple[list[_Hypothesis], list[_Hypothesis]]:
        """Return the best hypotheses with one more id, best first, and those that this id completes."""
        options: list[tuple[float, int, int]] = []  # negative total, hypothesis, id: of equal ones the first is taken
        for number, hypothesis in enumerate(running):
            if self._is_given(hypothesis.state):
                options.append((-hypothesis.total, number, self._machine.forced(hypothesis.state) or 0))
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

    def _endings(self, state: State) -> Tokens:
        """Return the ids that begin, continue or complete the terminator after a state, int32[n]."""
        if isinstance(state, InTerminator):
            return self._machine.terminator.tokens[state.done]
        may_end = isinstance(state, InFact) and state.children.terminal > 0
        return self._machine.terminator.tokens[0] if may_end else NO_TOKENS

    def _finish(self, hypothesis: _Hypothesis) -> None:
        """Take a finished hypothesis as the best one if its score is higher."""
        score = self._options.score(hypothesis.total, len(hypothesis.tokens))
        if self._best is None or score > self._best[0]:
            self._best = (score, hypothesis.tokens)

    def _to_read(self, running: Sequence[_Hypothesis]) -> list[_Hypothesis]:
        """Return the hypotheses to read next: those that wait.

        If these are fewer than the beams, add those that the search would come to next without them.
        """
        wanted: list[_Hypothesis] = []
        while running and len(wanted) < self._options.beams and len(running[0].tokens) < self._room:
            wanted += [hypothesis for hypothesis in running if self._waits(hypothesis)]
            running, _ = self._grow([hypothesis for hypothesis in running if not self._waits(hypothesis)])
        return wanted[: self._options.beams]

    def _read(self, hypotheses: Sequence[_Hypothesis], drafted: Sequence[_Node]) -> Steps[None]:
        """Read paths that may follow, and the unread ids of hypotheses with the forced tokens after them."""
        nodes = dict(drafted)
        for hypothesis in hypotheses:
            unread = self._unread(hypothesis)
            nodes |= {path: state for path, state in unread.items() if path not in nodes}

        def learn(paths: list[IdPath], logits: Logits) -> None:
            self._learn([(path, nodes[path]) for path in paths], logits)

        yield from read_tree(self._tree, list(nodes), range(len(nodes)), learn)
        self._has_read |= set(nodes)

    def _unread(self, hypothesis: _Hypothesis) -> dict[IdPath, State]:
        """Return the unread paths to a hypothesis, and those along the forced tokens after it, within `room`."""
        path, state = hypothesis.tokens, hypothesis.state
        leading = [path[:n] for n in range(1, len(path)) if path[:n] not in self._has_read]
        found: dict[IdPath, State] = dict.fromkeys(leading, Dead())  # there is no choice after these
        found[path] = state
        while len(path) < self._room and (token := self._machine.forced(state)) is not None:
            state = self._machine.advance(state, token, self._position + len(path))
            if not isinstance(state, InFact | InTerminator):
                break
            path = (*path, token)
            found[path] = state
        return found

    def _learn(self, nodes: Sequence[_Node], logits: Logits) -> None:
        """Store the choices after paths, from the logits after each, [paths, vocabulary]."""
        for (path, state), after in zip(nodes, logits, strict=True):
            if isinstance(state, InFact | InTerminator):
                self._choices[path] = self._best_of(state, after)

    def _best_of(self, state: State, logits: Logits) -> tuple[Tokens, NDArray[np.float32]]:
        """Return the best ids after a state and their log-probabilities, from the logits, [vocabulary].

        They are as many as there are beams, and besides all that may end the fact.
        """
        tokens = self._machine.allowed(state)
        if tokens is None:
            raise ValueError("the search is for states in facts, where few ids are allowed")
        tokens = tokens[tokens < len(logits)]
        scores = logits[tokens]
        scores = scores - (np.logaddexp.reduce(scores) if self._options.renormalise else log_sum(logits))
        ends = np.flatnonzero(np.isin(tokens, list(self._endings(state))))
        most = self._options.beams + len(ends)  # ids that end the fact do not take the place of a beam
        if len(tokens) > most:
            best = np.union1d(np.argpartition(-scores, most - 1)[:most], ends)
            tokens, scores = tokens[best], scores[best]
        return tokens, scores


class BeamChooser:
    """A `refactx.engines.engine.FactChooser` that searches for each fact with beams."""

    needs = TreeReading.SHARED
    examples: Sequence[IdPath] = ()

    def __init__(self, machine: Machine, options: FactBeams) -> None:
        self._machine, self._options = machine, options
        self._earlier: Sequence[IdPath] = ()  # the paths of the last fact's search

    def without_trees(self) -> FactChooser:
        raise ModelError(_UNABLE)

    def decides(self, state: State) -> bool:
        return isinstance(state, InFact | InTerminator)

    def choose(self, state: State, reading: ScoreReading) -> Steps[Choice]:
        if not isinstance(state, InFact | InTerminator):
            return NOTHING
        found = yield from search_fact(self._machine, state, reading, self._options, self._earlier)
        self._earlier = found.paths
        return Choice(found.ids, found.read)

    def following(self, state: State, at_fact_end: bool) -> Steps[Sequence[int]]:
        """Return the forced id after the last fact that a limit allows, or in a query; the search writes those of facts."""
        token = self._machine.forced(state) if isinstance(state, Closing | InQuery) else None
        return () if token is None else (token,)
        yield

    def draft(self, state: State, ids: NDArray[np.int64], unread: int, greedy: bool) -> Sequence[int]:
        if isinstance(state, InFact):  # the first pass of the search reads this id anyway
            token = self._machine.forced(state)
            return () if token is None else (token,)
        if not greedy:
            return ()
        return draft_tokens(self._machine, state, ids, unread) or line_after_fact(self._machine, state, ids)


def choose_strategy(machine: Machine, beams: FactBeams | None, channel: Channel | None) -> FactChooser:
    """Return beam search with the options `beams`, the noisy `channel`, or, if neither is given, the model's own choice."""
    if beams is not None:
        return BeamChooser(machine, beams)
    return PlainChooser(machine) if channel is None else ChannelChooser(machine, channel)
