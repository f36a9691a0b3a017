"""The text of one request: the state of decoding after its ids, and the ids that may follow.

Nothing here raises: vLLM ends its engine, with every request in it, at an exception of a logits processor. A request
for which the index cannot be read, or which is off the tree, is *closed*: a note with the reason is forced, then the
end of sequence. So the reason is in the log and in the text, and no text is unconstrained after a trigger.
"""

import logging
from collections.abc import Iterable, Sequence

import numpy as np

from refactx.decoding.machine import Machine
from refactx.decoding.states import State
from refactx.errors import (
    CorruptIndexError,
    DatabaseError,
    IndexChangedError,
    IndexNotFoundError,
    InputError,
    ModelError,
    RefactxError,
    without_password,
)
from refactx.tree.children import Tokens

_log = logging.getLogger(__name__)

_REASONS = (  # for whoever sent the request: the log has the rest, such as the address of the database
    (DatabaseError, "the database of the facts cannot be reached"),
    (IndexChangedError, "the fact being written was retracted"),
    (IndexNotFoundError, "the index of the facts was dropped or replaced"),
    (CorruptIndexError, "the index of the facts is damaged"),
    (InputError, "an option of the request is wrong"),
)


class OffTreeError(RefactxError):
    """A text has an id that was not allowed: another component of vLLM chose it."""


class RequestText:
    """The ids of one request, prompt and output, as far as they were read.

    `end`: the id that ends the request. `vocabulary`: the number of the model's logits. `error`: why the request is
    closed from the start, if it is. One thread at a time may use it; threads share `machine`.
    """

    def __init__(self, machine: Machine, *, end: int, vocabulary: int, error: Exception | None = None) -> None:
        self._machine, self._vocabulary = machine, vocabulary
        self._end, self._error = np.array([end], np.int32), error
        self._state: State | None = None  # None: the prompt is not read yet
        self._read = 0  # how many ids the state is after
        self._closed_at: int | None = None  # how many ids there were when the request was closed
        self._note: list[int] = []

    def first_unread(self, length: int) -> int:
        """Return the position of the first id that `masks` needs, given how many ids there are.

        If there are fewer than were read, all are needed again. If there are no more than when the request was closed,
        the id after them was discarded (its prompt was not complete), and it is open again.
        """
        if self._closed_at is not None:
            if length > self._closed_at:
                return length
            self._closed_at = None
        if length < self._read:
            self._state, self._read = None, 0
        return self._read

    def may_look_up(self, unread: Iterable[int]) -> bool:
        """Return whether reading these ids may need a lookup in the index."""
        if self._state is None or not self._machine.is_free(self._state):
            return True
        last = self._machine.trigger.text[-1]
        return any(last in self._machine.bytes_of(token) for token in unread)

    def masks(
        self, length: int, prompt_length: int, unread: Sequence[int], drafts: Sequence[int] = ()
    ) -> list[Tokens | None]:
        """Return the ids that may follow, and those that may follow each of `drafts`: int32[n], ascending, never empty.

        None: any id may follow. `unread`: the ids from `first_unread(length)` to `length`, the first `prompt_length` of
        all are the prompt. `drafts`: ids that may follow (draft tokens); they are not read.
        """
        if self._closed_at is None:
            try:
                if self._error is not None:
                    raise self._error
                self._follow(unread, prompt_length)
                return [self._mask(self._state), *self._masks_after(drafts)]
            except Exception as error:
                self._close(error, length)
        return [self._note_at(length + number) for number in range(1 + len(drafts))]

    def _follow(self, unread: Sequence[int], prompt_length: int) -> None:
        rest = unread
        if any(token < 0 for token in unread):
            raise ModelError(
                "vLLM passed placeholders in place of token ids, as it does to a logits processor that is an entry "
                "point: load it with --logits-processors"
            )
        if self._state is None:
            self._state = self._machine.start(unread[:prompt_length], frozenset())
            self._read, rest = prompt_length, unread[prompt_length:]
        for token in rest:
            self._state = self._machine.advance(self._state, token, self._read)
            self._read += 1

    def _mask(self, state: State | None) -> Tokens | None:
        """Return the ids that may follow a state. Raises OffTreeError if none may."""
        tokens = None if state is None else self._machine.allowed(state)
        if tokens is None:
            return None
        tokens = tokens[tokens < self._vocabulary]
        if not len(tokens):
            raise OffTreeError("the text has a token that the facts do not allow: another part of vLLM forced it")
        return tokens

    def _masks_after(self, drafts: Sequence[int]) -> list[Tokens | None]:
        """Return the ids that may follow each draft token; the end alone after one that is not allowed."""
        found: list[Tokens | None] = []
        state = self._state
        try:
            for position, token in enumerate(drafts, self._read):
                if state is None or token < 0:
                    break
                state = self._machine.advance(state, token, position)
                found.append(self._mask(state))
        except Exception as error:  # the same happens without drafts if these ids are chosen
            _log.debug("refactx: no facts after draft tokens: %s", error)
        return found + [self._end] * (len(drafts) - len(found))

    def _close(self, error: Exception, length: int) -> None:
        said = without_password(str(error))
        if isinstance(error, RefactxError):
            _log.error("refactx: a request was ended: %s", said)
        else:
            _log.exception("refactx: a request was ended by an unexpected %s: %s", type(error).__name__, said)
        off_tree = "the text left the facts" if isinstance(error, OffTreeError) else "unexpected error"
        reason = next((text for kind, text in _REASONS if isinstance(error, kind)), off_tree)
        self._closed_at = length
        self._note = self._machine.source.tokenizer.encode(f"\n[refactx: {reason}]")

    def _note_at(self, length: int) -> Tokens:
        """Return the id of the note that follows `length` ids, or the end."""
        done = length - (self._closed_at or 0)
        return np.array(self._note[done : done + 1], np.int32) if done < len(self._note) else self._end
