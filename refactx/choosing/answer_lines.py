"""The lines of a text whose facts a channel chooses: the other values of a fact, then another fact or the answer.

A question may have several answers, so the other facts of a subject and property follow the first. Then the model chooses
between another fact and its answer, and nothing else: small ones tend to end the text there. Where none of the facts makes the
question much likelier than no fact does (their pointwise mutual information with it is low), they answer something else, and
the answer is that nobody knows.
"""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from refactx.choosing.answer_draft import listed
from refactx.decoding.machine import Closing, Free, InFact, Machine, State, Written
from refactx.fact import split_fact
from refactx.tree.children import Path


class Lines:
    """What follows facts. `marker`: the text that begins the answer, as a line behind facts does unless it begins another fact;
    empty: such lines are free. `unknown`: what follows it where no fact tells what was asked; empty: whatever the model writes.
    `values`, `again`, `tells`: as in `ChannelOptions`.

    `told`: how much likelier each fact that was chosen makes the question, a difference of logarithms, by its ids to the end
    of its property.
    """

    def __init__(self, marker: str, unknown: str, values: int, again: float, tells: float) -> None:
        self._marker, self.unknown, self._values, self._again, self._tells = marker, unknown, values, again, tells
        self.told: dict[Path, float] = {}

    def follow(self, machine: Machine, state: State) -> Sequence[int]:
        """What is to be written right behind a fact: the beginning of another of its subject and property, if one is left,
        else the end of the line.
        """
        if not isinstance(state, Free) or not state.facts:
            return ()
        encode, at_line = machine.source.tokenizer.encode, state.tail.endswith(b"\n")
        begins = _until_object(machine, state.facts[-1].tokens)
        same = sum(fact.tokens[: len(begins)] == begins for fact in state.facts)
        if begins and same < self._values and _left(machine, state.facts, begins):
            trigger = encode(machine.source.trigger if at_line else f"\n{machine.source.trigger}")
            if isinstance(after(machine, state, trigger), InFact):  # else a limit of facts is reached
                return (*trigger, *begins)
        return () if at_line or not self._marker else tuple(encode("\n"))

    def end(self, machine: Machine, state: State) -> Sequence[int]:
        """The terminator of a fact that is whole and goes on in no other, written as the tokenizer does in front of a line end:
        there are several ways to, and in these lines the model has nothing to choose by them.
        """
        if not (self._marker and isinstance(state, InFact) and state.is_whole):
            return ()
        ids = machine.source.tokenizer.encode(f"{machine.source.terminator}\n")
        for count, token in enumerate(ids, 1):
            state = machine.advance(state, token, 0)
            if isinstance(state, Free | Closing):
                return ids[:count]
        return ()

    def full(self, machine: Machine, facts: tuple[Written, ...]) -> dict[Path, int]:
        """The subjects with a property that have had all the facts they may have, as ids to the end of the property,
        and how many facts each has left.
        """
        begun = Counter(_until_object(machine, fact.tokens) for fact in facts)
        ends = {
            ids: after(machine, machine.begin(0, facts), ids) for ids, n in begun.items() if ids and n >= self._values
        }
        return {ids: end.children.total for ids, end in ends.items() if isinstance(end, InFact) and end.children.total}

    def next_line(self, machine: Machine, state: State, logits: torch.Tensor) -> Sequence[int]:
        """The line's first ids right behind facts: another fact's, if one is left, or the answer's; none elsewhere."""
        if not self._marker or not isinstance(state, Free) or not state.facts:
            return ()
        cut = len(machine.trigger.tail(state.tail + b".")) == len(state.tail)  # else that is all that stands behind it
        if cut or not state.tail.isspace() or not state.tail.endswith(b"\n"):
            return ()
        texts = machine.source.trigger, self._marker, f"{self._marker} {self.unknown}"
        fact, answer, unknown = (machine.source.tokenizer.encode(text) for text in texts)
        if _left(machine, state.facts, ()):
            if fact[0] == answer[0]:
                return ()
            if float(logits[0, -1, fact[0]] - logits[0, -1, answer[0]]) > self._again:
                return fact
        return answer if self._is_told(machine, state) else unknown

    def draft(self, machine: Machine, state: State, ids: NDArray[np.int64]) -> Sequence[int]:
        """A guess at the rest of the line that `ids`, int64[n], end in, right behind facts: an answer that names their objects,
        or that nobody knows.
        """
        if not self._marker or not isinstance(state, Free) or not state.facts:
            return ()
        tokenizer, have = machine.source.tokenizer, ids[state.facts[-1].stop :].tolist()
        behind = tokenizer.decode(have)
        line = behind.lstrip()
        if "\n" in line or not (line or (state.tail.isspace() and state.tail.endswith(b"\n"))):
            return ()
        facts = (split_fact(machine.text_of(fact.tokens).decode("utf-8", "replace")) for fact in state.facts)
        names = [fact[2].partition(" (")[0] for fact in facts if fact is not None]
        if self._marker.startswith(line):
            answer = listed("", names) if self._is_told(machine, state) else f" {self.unknown}"
            more = self._marker[len(line) :] + answer
        elif line.startswith(self._marker):
            more = listed(line[len(self._marker) :], names)
        else:
            return ()
        whole = tokenizer.encode(behind + more)
        return whole[len(have) :] if whole[: len(have)] == have else tokenizer.encode(more)

    def _is_told(self, machine: Machine, state: Free) -> bool:
        """Whether a fact of the text tells what was asked; one that the channel did not choose counts as if it did."""
        if not self.unknown:
            return True
        told = (self.told.get(_until_object(machine, fact.tokens), math.inf) for fact in state.facts)
        return max(told) >= self._tells


def _until_object(machine: Machine, tokens: Sequence[int]) -> tuple[int, ...]:
    """A fact's ids up to where its property is closed; none where an id goes on into the object."""
    closed = 0
    for count, token in enumerate(tokens, 1):
        piece = machine.bytes_of(token)
        closed += piece.count(b">")
        if closed >= 2:
            behind = piece.rpartition(b">")[2].strip()
            return tuple(tokens[:count]) if closed == 2 and behind in (b"", b"<") else ()
    return ()


def _left(machine: Machine, facts: tuple[Written, ...], prefix: Sequence[int]) -> bool:
    """Whether there are facts under a prefix that are not among `facts`."""
    state = after(machine, machine.begin(0, facts), prefix)
    return isinstance(state, InFact) and state.children.total > 0


def after(machine: Machine, state: State, ids: Sequence[int]) -> State:
    """The state behind some more ids, wherever they stand."""
    for token in ids:
        state = machine.advance(state, token, 0)
    return state
