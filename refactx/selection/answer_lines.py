"""The lines after a fact that a channel has chosen: facts with its other objects, then another fact or the answer.

A question may have several answers, so the other facts of a subject and property follow the first. Then the model
chooses between another fact and its answer alone, since small models tend to end the text there. If no fact makes the
question much likelier than it is without one (its pointwise mutual information with the question is low), the facts
answer something else, and the answer is the prompt's "I don't know".
"""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from refactx.decoding.machine import Machine
from refactx.decoding.states import Closing, Free, InFact, State, Written
from refactx.engines.engine import IdPath, Logits
from refactx.fact import split_fact


class AnswerLines:
    """The continuation of a text after facts.

    `marker`: the text that begins the answer; a line after facts begins with it or with another fact. If empty, such
    lines are the model's. `unknown`: the answer if no fact answers the question; if empty, the model writes it.
    `values`, `again`, `min_confidence`: as in `refactx.selection.channel.ChannelOptions`. `room`: the most ids from the first
    fact to the end of the text, None if there is no limit: facts end while there is room for the answer.

    `evidence`: for each chosen fact (its ids up to the end of its property), how much likelier it makes the question, a
    difference of log-probabilities, with what words of the question count for.
    """

    def __init__(
        self, *, marker: str, unknown: str, values: int, again: float, min_confidence: float, room: int | None = None
    ) -> None:
        self._marker, self.unknown, self._values, self._again = marker, unknown, values, again
        self._min_confidence, self._room = min_confidence, room
        self.evidence: dict[IdPath, float] = {}

    def first_line(self, machine: Machine) -> Sequence[int]:
        """Return the ids with which a text begins, a fact's: an answer without one would be made up, as models do that read
        bare answers before the question. Empty if the answer without proof is the model's."""
        return tuple(machine.source.tokenizer.encode(machine.source.trigger)) if self._marker and self.unknown else ()

    def unknown_line(self, machine: Machine) -> Sequence[int]:
        """Return the ids of the answer that no fact tells it."""
        return tuple(machine.source.tokenizer.encode(f"{self._marker} {self.unknown}"))

    def after_fact(self, machine: Machine, state: State) -> Sequence[int]:
        """Return the ids directly after a fact: another one of its subject and property begins, if one is left, or the line
        ends."""
        if not isinstance(state, Free) or not state.facts:
            return ()
        encode, at_line = machine.source.tokenizer.encode, state.tail.endswith(b"\n")
        begins = up_to_object(machine, state.facts[-1].tokens)
        same = sum(fact.tokens[: len(begins)] == begins for fact in state.facts)
        is_wanted = begins and same < self._values and self.fits(machine, state.facts, 1)
        if is_wanted and _has_facts_left(machine, state.facts, begins):
            trigger = encode(machine.source.trigger if at_line else f"\n{machine.source.trigger}")
            after = machine.follow(state, trigger)
            if isinstance(after, InFact):  # else the limit of facts is reached
                return (*trigger, *begins)
        return () if at_line or not self._marker else tuple(encode("\n"))

    def end_of_fact(self, machine: Machine, state: State) -> Sequence[int]:
        """Return the terminator of a fact that is whole and not the prefix of another.

        Of the several ways to write it, this is the tokenizer's before a line end: there is nothing for the model to
        choose.
        """
        if not (self._marker and isinstance(state, InFact) and state.is_whole):
            return ()
        ids = machine.source.tokenizer.encode(f"{machine.source.terminator}\n")
        for count, token in enumerate(ids, 1):
            state = machine.advance(state, token, 0)
            if isinstance(state, Free | Closing):
                return ids[:count]
        return ()

    def exhausted(self, machine: Machine, facts: tuple[Written, ...]) -> dict[IdPath, int]:
        """Return the pairs of subject and property with as many facts in the text as `values` allows.

        A key is the ids up to the end of the property, a value the number of facts that the pair has left.
        """
        begun = Counter(up_to_object(machine, fact.tokens) for fact in facts)
        found = dict[IdPath, int]()
        for ids in [ids for ids, count in begun.items() if ids and count >= self._values]:
            start = machine.begin(0, facts)
            end = machine.follow(start, ids)
            if isinstance(end, InFact) and end.children.total:
                found[ids] = end.children.total
        return found

    def next_line(self, machine: Machine, state: State, logits: Logits) -> Sequence[int]:
        """Return the ids with which the line after facts begins: another fact's if one is left, or the answer's.

        Empty if the text does not end after a line of facts. `logits`: float32[vocabulary], after the text.
        """
        if not self._marker or not isinstance(state, Free) or not state.facts:
            return ()
        # Whether `tail` has been cut: else it has all of the text after the fact.
        is_cut = len(machine.trigger.tail(state.tail + b".")) == len(state.tail)
        if is_cut or not state.tail.isspace() or not state.tail.endswith(b"\n"):
            return ()
        fact, answer = (machine.source.tokenizer.encode(text) for text in (machine.source.trigger, self._marker))
        if _has_facts_left(machine, state.facts, ()) and self.fits(machine, state.facts, 1):
            if fact[0] == answer[0]:
                return ()
            if float(logits[fact[0]] - logits[answer[0]]) > self._again:
                return fact
        return answer if self._is_answered(machine, state) else self.unknown_line(machine)

    def fits(self, machine: Machine, facts: Sequence[Written], more: int) -> bool:
        """Return whether there is room for so many more facts and the answer, each as long as the longest so far; half of
        that is to spare, since objects differ."""
        if self._room is None:
            return True
        encode, names = machine.source.tokenizer.encode, list(dict.fromkeys(_objects(machine, facts)))
        trigger, longest = encode(f"\n{machine.source.trigger}"), max(fact.stop - fact.start for fact in facts)
        answer = encode(f"\n{self._marker} {'; '.join([*names, *more * [max(names, key=len, default='')]])}\n")
        have = len(trigger) + facts[-1].stop - facts[0].start
        return have + more * (len(trigger) + longest) + len(answer) + longest // 2 <= self._room

    def is_answer(self, machine: Machine, line: Sequence[int]) -> bool:
        """Return whether the beginning of a line, from `next_line`, is that of the answer that the facts give."""
        return bool(line) and list(line) == machine.source.tokenizer.encode(self._marker)

    def draft(self, machine: Machine, state: State, ids: NDArray[np.int64]) -> Sequence[int]:
        """Return draft tokens for the rest of the line after facts in which `ids`, int64[n], end: the facts' objects, or
        `unknown`."""
        if not self._marker or not isinstance(state, Free) or not state.facts:
            return ()
        tokenizer, have = machine.source.tokenizer, ids[state.facts[-1].stop :].tolist()
        written = tokenizer.decode(have)
        line = written.lstrip()
        if "\n" in line or not (line or (state.tail.isspace() and state.tail.endswith(b"\n"))):
            return ()
        names = dict.fromkeys(filter(None, _objects(machine, state.facts)))
        answer = "; ".join(names) if self._is_answered(machine, state) else self.unknown
        whole_line = f"{self._marker} {answer}"
        if not whole_line.startswith(line):
            return ()
        more = whole_line[len(line) :]
        whole = tokenizer.encode(written + more)
        return whole[len(have) :] if whole[: len(have)] == have else tokenizer.encode(more)

    def _is_answered(self, machine: Machine, state: Free) -> bool:
        """Return whether a fact of the text answers the question. A fact that the channel did not choose does."""
        if not self.unknown:
            return True
        evidence = (self.evidence.get(up_to_object(machine, fact.tokens), math.inf) for fact in state.facts)
        return max(evidence) >= self._min_confidence


def _objects(machine: Machine, facts: Sequence[Written]) -> list[str]:
    """Return the objects of facts, without descriptions."""
    found = (split_fact(machine.text_of(fact.tokens).decode("utf-8", "replace")) for fact in facts)
    return [fact[2].partition(" (")[0] for fact in found if fact is not None]


def up_to_object(machine: Machine, tokens: Sequence[int]) -> IdPath:
    """Return a fact's ids up to the closing bracket of its property; empty if an id extends into the object."""
    closed = 0
    for count, token in enumerate(tokens, 1):
        piece = machine.bytes_of(token)
        closed += piece.count(b">")
        if closed >= 2:
            rest = piece.rpartition(b">")[2].strip()
            return tuple(tokens[:count]) if closed == 2 and rest in (b"", b"<") else ()
    return ()


def _has_facts_left(machine: Machine, facts: tuple[Written, ...], prefix: Sequence[int]) -> bool:
    """Return whether facts with a prefix are left that are not among `facts`."""
    start = machine.begin(0, facts)
    state = machine.follow(start, prefix)
    return isinstance(state, InFact) and state.children.total > 0
