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
from refactx.selection.channel import Channel


class AnswerLines:
    """The continuation of one text after facts."""

    def __init__(self, machine: Machine, channel: Channel) -> None:
        self._machine, self._channel, self._encode = machine, channel, machine.source.tokenizer.encode
        self._trigger, self._marker, self._most = (
            machine.source.trigger,
            channel.marker,
            channel.weights.facts_of_property,
        )

    @property
    def first_line(self) -> Sequence[int]:
        """The ids with which a text begins, a fact's: an answer without one would be made up, as models do that read bare
        answers before the question. Empty if the answer without proof is the model's."""
        return tuple(self._encode(self._trigger)) if self._marker and self._channel.unknown else ()

    @property
    def unknown_line(self) -> Sequence[int]:
        """The ids of the answer that no fact gives it."""
        return tuple(self._encode(f"{self._marker} {self._channel.unknown}"))

    def after_fact(self, state: State) -> Sequence[int]:
        """Return the ids directly after a fact: another one of its subject and property begins, if one is left, or the line
        ends."""
        if not isinstance(state, Free) or not state.facts:
            return ()
        at_line, begins = state.tail.endswith(b"\n"), up_to_object(self._machine, state.facts[-1].tokens)
        same = sum(fact.tokens[: len(begins)] == begins for fact in state.facts)
        if begins and same < self._most and self.fits(state.facts, 1) and self._has_facts_left(state.facts, begins):
            trigger = self._encode(self._trigger if at_line else f"\n{self._trigger}")
            after = self._machine.follow(state, trigger)
            if isinstance(after, InFact):  # else the limit of facts is reached
                return (*trigger, *begins)
        return () if at_line or not self._marker else tuple(self._encode("\n"))

    def end_of_fact(self, state: State) -> Sequence[int]:
        """Return the terminator of a fact that is whole and not the prefix of another.

        Of the several ways to write it, this is the tokenizer's before a line end: there is nothing for the model to
        choose.
        """
        if not (self._marker and isinstance(state, InFact) and state.is_whole):
            return ()
        ids = self._encode(f"{self._machine.source.terminator}\n")
        for count, token in enumerate(ids, 1):
            state = self._machine.advance(state, token, 0)
            if isinstance(state, Free | Closing):
                return ids[:count]
        return ()

    def exhausted(self, facts: tuple[Written, ...]) -> dict[IdPath, int]:
        """Return the pairs of subject and property with as many facts in the text as it may have.

        A key is the ids up to the end of the property, a value the number of facts that the pair has left.
        """
        begun = Counter(up_to_object(self._machine, fact.tokens) for fact in facts)
        found = dict[IdPath, int]()
        for ids in [ids for ids, count in begun.items() if ids and count >= self._most]:
            end = self._machine.follow(self._machine.begin(0, facts), ids)
            if isinstance(end, InFact) and end.children.total:
                found[ids] = end.children.total
        return found

    def next_line(self, state: State, logits: Logits) -> Sequence[int]:
        """Return the ids with which the line after facts begins: another fact's if one is left, or the answer's.

        Empty if the text does not end after a line of facts. `logits`: float32[vocabulary], after the text.
        """
        if not self._marker or not isinstance(state, Free) or not state.facts:
            return ()
        # Whether `tail` has been cut: else it has all of the text after the fact.
        is_cut = len(self._machine.trigger.tail(state.tail + b".")) == len(state.tail)
        if is_cut or not state.tail.isspace() or not state.tail.endswith(b"\n"):
            return ()
        fact, answer = self._encode(self._trigger), self._encode(self._marker)
        if self._has_facts_left(state.facts, ()) and self.fits(state.facts, 1):
            if fact[0] == answer[0]:
                return ()
            if float(logits[fact[0]] - logits[answer[0]]) > self._channel.weights.another_fact_gain:
                return fact
        return answer if self._is_answered(state) else self.unknown_line

    def fits(self, facts: Sequence[Written], more: int) -> bool:
        """Return whether there is room for so many more facts and the answer, each as long as the longest so far; half of
        that is to spare, since objects differ."""
        if self._channel.room is None:
            return True
        names = list(dict.fromkeys(self._objects(facts)))
        trigger, longest = self._encode(f"\n{self._trigger}"), max(fact.stop - fact.start for fact in facts)
        answer = self._encode(f"\n{self._marker} {'; '.join([*names, *more * [max(names, key=len, default='')]])}\n")
        have = len(trigger) + facts[-1].stop - facts[0].start
        return have + more * (len(trigger) + longest) + len(answer) + longest // 2 <= self._channel.room

    def is_answer(self, line: Sequence[int]) -> bool:
        """Return whether the beginning of a line, from `next_line`, is that of the answer that the facts give."""
        return bool(line) and list(line) == self._encode(self._marker)

    def draft(self, state: State, ids: NDArray[np.int64]) -> Sequence[int]:
        """Return draft tokens for the rest of the line after facts in which `ids`, int64[n], end: the facts' objects, or
        `unknown`."""
        if not self._marker or not isinstance(state, Free) or not state.facts:
            return ()
        have = ids[state.facts[-1].stop :].tolist()
        written = self._machine.source.tokenizer.decode(have)
        line = written.lstrip()
        if "\n" in line or not (line or (state.tail.isspace() and state.tail.endswith(b"\n"))):
            return ()
        names = dict.fromkeys(filter(None, self._objects(state.facts)))
        answer = "; ".join(names) if self._is_answered(state) else self._channel.unknown
        whole_line = f"{self._marker} {answer}"
        if not whole_line.startswith(line):
            return ()
        more = whole_line[len(line) :]
        whole = self._encode(written + more)
        return whole[len(have) :] if whole[: len(have)] == have else self._encode(more)

    def _is_answered(self, state: Free) -> bool:
        """Return whether a fact of the text answers the question. A fact that the channel did not choose does."""
        if not self._channel.unknown:
            return True
        evidence = self._channel.evidence
        found = (evidence.get(up_to_object(self._machine, fact.tokens), math.inf) for fact in state.facts)
        return max(found) >= self._channel.weights.min_confidence

    def _objects(self, facts: Sequence[Written]) -> list[str]:
        """Return the objects of facts, without descriptions."""
        found = (split_fact(self._machine.text_of(fact.tokens).decode("utf-8", "replace")) for fact in facts)
        return [fact[2].partition(" (")[0] for fact in found if fact is not None]

    def _has_facts_left(self, facts: tuple[Written, ...], prefix: Sequence[int]) -> bool:
        """Return whether facts with a prefix are left that are not among `facts`."""
        state = self._machine.follow(self._machine.begin(0, facts), prefix)
        return isinstance(state, InFact) and state.children.total > 0


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
