"""The state after a prompt: whether it ends in a trigger, in a fact, in a query or in a terminator.

A fact has no line break, so only triggers without a line break after them matter (apart from white space directly after
the trigger). The last such trigger with an unfinished fact after it decides. The same holds for queries.
"""

from collections.abc import Container, Sequence
from typing import Protocol

import numpy as np

from refactx.decoding.markers import Trigger
from refactx.decoding.states import Dead, Free, InFact, InQuery, InTerminator, State


class Walker(Protocol):
    """The part of a state machine that reading a prompt needs."""

    @property
    def triggers(self) -> Sequence[Trigger]:
        """The trigger of facts, and those of other grammars."""
        ...

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes of an id."""
        ...

    def tail_of(self, text: bytes) -> bytes:
        """Return the end of a text that is needed to recognise triggers."""
        ...

    def open(self, number: int, position: int, *, after_space: bool = False) -> State:
        """Return the state after the trigger with a number, at `position` in the sequence; `after_space`: and a space.

        It is Free if nothing can follow the trigger.
        """
        ...

    def advance(self, state: State, token: int, position: int) -> State:
        """Return the state after one more token."""
        ...


def state_after_prompt(machine: Walker, prompt: Sequence[int], padding: Container[int] | None) -> tuple[State, bytes]:
    """Return the state after a prompt, and the text after its last trigger if that is not in the tree (else empty)."""
    stop = len(prompt)
    while stop and _is_padding(machine, prompt[stop - 1], padding):
        stop -= 1
    pieces = [machine.bytes_of(token) for token in prompt[:stop]]
    text = b"".join(pieces)
    ends = np.cumsum([len(piece) for piece in pieces])
    position, left = 0, b""
    for at, number in _open_triggers(text, machine.triggers):
        trigger = machine.triggers[number]
        size = len(trigger.text)
        first = int(np.searchsorted(ends, at + size))  # the token that completes the trigger
        rest = text[at + size : int(ends[first])]
        if first < position or not trigger.is_delimited(text[:at], rest):
            continue
        state, position = _walk(machine, prompt, number, first + 1, stop, padding, rest.endswith(b" "))
        if isinstance(state, InFact | InTerminator | InQuery):
            return state, b""
        left = text[at + size :] if isinstance(state, Dead) else b""
    return Free(machine.tail_of(text)), left


def _open_triggers(text: bytes, triggers: Sequence[Trigger]) -> list[tuple[int, int]]:
    """Return the positions of triggers that have no line break after them, each with its number, in order."""
    found: list[tuple[int, int]] = []
    for number, trigger in enumerate(triggers):
        size = len(trigger.text)
        at = text.rfind(trigger.text)
        while at >= 0 and b"\n" not in text[at + size :].lstrip():
            found.append((at, number))
            at = text.rfind(trigger.text, 0, at + size - 1)
    return sorted(found)


def _walk(
    machine: Walker,
    prompt: Sequence[int],
    number: int,
    first: int,
    stop: int,
    padding: Container[int] | None,
    after_space: bool,
) -> tuple[State, int]:
    """Walk from position `first`, after the trigger with a number. Return the state and the position at which the
    prompt, the fact or the query ends.

    `after_space`: the trigger's last token ends in a space.

    Padding within the prompt is skipped: it comes after a prefix that several prompts share.
    """
    state, at_trigger = machine.open(number, first, after_space=after_space), True
    if isinstance(state, Free):
        return state, first
    for position in range(first, stop):
        token = prompt[position]
        if _is_padding(machine, token, padding):
            state = machine.open(number, position + 1, after_space=after_space) if at_trigger else state
            continue
        after = machine.advance(state, token, position)
        if isinstance(after, Dead) and at_trigger and machine.bytes_of(token).isspace():
            after_space = machine.bytes_of(token).endswith(b" ")  # white space directly after the trigger
            state = machine.open(number, position + 1, after_space=after_space)
            continue
        state, at_trigger = after, False
        if not isinstance(state, InFact | InTerminator | InQuery):
            return state, position
    return state, stop


def _is_padding(machine: Walker, token: int, padding: Container[int] | None) -> bool:
    return not machine.bytes_of(token) and (padding is None or token in padding)
