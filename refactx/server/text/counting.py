"""A streamer that counts the tokens of a text."""

from typing import Any

from refactx.decoding.states import State
from refactx.decoding.stream import FactStream


class CountedStream:
    """A streamer for one text, which counts and passes on what it is given.

    `prompt_tokens`, `tokens`: how many ids the prompt had, and the text so far.
    """

    def __init__(self) -> None:
        self.prompt_tokens = self.tokens = 0
        self._stream: FactStream | None = None
        self._has_ended = False

    def begin(self, stream: FactStream) -> None:
        """Begin to pass on to a stream."""
        self._stream = stream

    def put(self, value: Any) -> None:
        """Take the ids of the prompt, then each id."""
        self._count(value)
        if self._stream is not None:
            self._stream.put(value)

    def put_in_state(self, value: Any, state: State) -> None:
        """Take ids as `put` does, with the state after them."""
        self._count(value)
        if self._stream is not None:
            self._stream.put_in_state(value, state)

    def _count(self, value: Any) -> None:
        if self.prompt_tokens:
            self.tokens += len(value.flatten())
        else:
            self.prompt_tokens = int(value.shape[-1])

    def end(self) -> None:
        """Pass on what is left of the text."""
        if self._stream is not None and not self._has_ended:
            self._has_ended = True
            self._stream.end()
