"""The state after a prompt: whether it ends in a trigger, in a fact or in a terminator.

A fact has no line break, so only triggers without a line break after them matter (apart from white space directly after
the trigger). The last such trigger with an unfinished fact after it decides.
"""

from collections.abc import Container, Iterator, Sequence
from typing import Protocol

import numpy as np

from refactx.decoding.markers import Trigger
from refactx.decoding.states import Dead, Free, InFact, InTerminator, State


class Walker(Protocol):
    """The part of a state machine that reading a prompt needs."""

    @property
    def trigger(self) -> Trigger:
        """The trigger of facts."""
        ...

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes of an id."""
        ...

    def begin(self, position: int, *, after_space: bool = False) -> InFact:
        """Return the state after a trigger, at `position` in the sequence; `after_space`: and a space."""
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
    text, size = b"".join(pieces), len(machine.trigger.text)
    ends = np.cumsum([len(piece) for piece in pieces])
    position, left = 0, b""
    for at in reversed(list(_open_triggers(text, machine.trigger.text))):
        first = int(np.searchsorted(ends, at + size))  # the token that completes the trigger
        rest = text[at + size : int(ends[first])]
        if first < position or not machine.trigger.is_delimited(text[:at], rest):
            continue
        state, position = _walk(machine, prompt, first + 1, stop, padding, rest.endswith(b" "))
        if isinstance(state, InFact | InTerminator):
            return state, b""
        left = text[at + size :] if isinstance(state, Dead) else b""
    return Free(machine.trigger.tail(text)), left


def _open_triggers(text: bytes, trigger: bytes) -> Iterator[int]:
    """Yield the positions of triggers that have no line break after them, the last one first."""
    at = text.rfind(trigger)
    while at >= 0 and b"\n" not in text[at + len(trigger) :].lstrip():
        yield at
        at = text.rfind(trigger, 0, at + len(trigger) - 1)


def _walk(
    machine: Walker, prompt: Sequence[int], first: int, stop: int, padding: Container[int] | None, after_space: bool
) -> tuple[State, int]:
    """Walk the tree from position `first`. Return the state and the position at which the prompt or the fact ends.

    `after_space`: the trigger's last token ends in a space.

    Padding within the prompt is skipped: it comes after a prefix that several prompts share.
    """
    state: State = machine.begin(first, after_space=after_space)
    for position in range(first, stop):
        token = prompt[position]
        at_trigger = isinstance(state, InFact) and not state.prefix
        if _is_padding(machine, token, padding):
            state = machine.begin(position + 1, after_space=after_space) if at_trigger else state
            continue
        after = machine.advance(state, token, position)
        if isinstance(after, Dead) and at_trigger and machine.bytes_of(token).isspace():
            after_space = machine.bytes_of(token).endswith(b" ")  # white space directly after the trigger
            after = machine.begin(position + 1, after_space=after_space)
        state = after
        if not isinstance(state, InFact | InTerminator):
            return state, position
    if isinstance(state, InFact) and state.children.total == 0:  # the index has no facts
        return Free(), stop
    return state, stop


def _is_padding(machine: Walker, token: int, padding: Container[int] | None) -> bool:
    return not machine.bytes_of(token) and (padding is None or token in padding)
