"""Guesses at what greedy text goes on with: what followed the last time that its latest ids stood there; what follows a fact.

An answer repeats the fact that proves it, a fact the last one's subject, and a small model its examples. A guess goes
through the model with the ids that it needs to see anyway, in one pass, and each id counts only if the model would have
chosen it (Saxena, Prompt Lookup Decoding, 2023; Leviathan et al., arXiv 2211.17192): the text stays the same.
"""

import numpy as np
from numpy.typing import NDArray

from refactx.choosing.answer_lines import Lines
from refactx.decoding.machine import Free, InFact, Machine, State

MATCHED, MATCHED_BESIDE_FEW = 3, 5
"""Ids that have to be the same, and how many where the pass is over `FEW` ids or less without the guess: there it costs more
than an id or two that are right save. (Of guesses behind 3 or 4 matched ids, beside 1 or 2, one id was right, rarely 3.)"""

FEW = 3

MOST = 8
"""Ids guessed at once: 8 more take a pass over several ids a quarter longer, and one over a single id up to three times as long
on a CPU (docs/benchmarks.md, "Decoding")."""

MOST_OF_ANSWER = 48
"""Ids guessed of an answer: most are right, and of a wrong one a pass costs little."""


def drafted(
    machine: Machine,
    state: State,
    ids: NDArray[np.int64],
    pending: int,
    lines: Lines | None = None,
    searches: bool = False,
) -> list[int]:
    """What `ids`, int64[n], may go on with; `state`: behind them.

    `pending`: how many of them the pass has to go over without the guess. `lines`: of a channel; `searches`: whether facts are
    searched with beams.
    """
    if lines is not None and (answer := lines.draft(machine, state, ids)):
        return list(answer[:MOST_OF_ANSWER])
    if _has_another_object(machine, state):
        return []
    again = guess(ids, MOST, MATCHED if pending > FEW else MATCHED_BESIDE_FEW)
    return again or (another_line(machine, state, ids) if searches else behind_fact(machine, state, ids))


def behind_fact(machine: Machine, state: State, ids: NDArray[np.int64]) -> list[int]:
    """What may go on from `ids`, int64[n], where they end in a fact that is whole but for its terminator: that, as it stands
    behind the last fact, and a line end. Nothing elsewhere.
    """
    if not (isinstance(state, InFact) and state.is_whole):
        return []
    if not state.facts:
        return machine.source.tokenizer.encode(f"{machine.source.terminator}\n")
    last = state.facts[-1]
    behind: list[int] = ids[last.start + len(last.tokens) : last.stop + 1][:MOST].tolist()
    return behind


def another_line(machine: Machine, state: State, ids: NDArray[np.int64]) -> list[int]:
    """What may go on from `ids`, int64[n], right behind a fact: what stands behind the one before; behind the first, another
    line's trigger. Nothing elsewhere.
    """
    if not isinstance(state, Free) or not state.facts or state.facts[-1].stop != len(ids):
        return []
    if len(state.facts) == 1:
        return machine.source.tokenizer.encode(f"\n{machine.source.trigger}")
    behind: list[int] = ids[state.facts[-2].stop :][:MOST].tolist()
    return behind


def _has_another_object(machine: Machine, state: State) -> bool:
    """Whether a fact is in its object, and one with the same subject and property was written: what stood there is wrong."""
    return isinstance(state, InFact) and bool(state.rivals) and machine.text_of(state.prefix).count(b">") == 2


def guess(ids: NDArray[np.int64], most: int = MOST, matched: int = MATCHED) -> list[int]:
    """At most `most` ids that may go on from `ids`, int64[n]; none if its last `matched` stand nowhere before.

    >>> guess(np.array([5, 1, 2, 3, 8, 9, 1, 2, 3]))
    [8, 9, 1, 2, 3]
    """
    if len(ids) <= matched or most < 1:
        return []
    before = ids[:-1]
    found = np.ones(len(before) - matched + 1, np.bool_)
    for at in range(matched):
        found &= before[at : len(before) - matched + 1 + at] == ids[at - matched]
    where = found.nonzero()[0]
    if not len(where):
        return []
    begin = int(where[-1]) + matched
    return [int(number) for number in ids[begin : begin + most]]
