"""The vocabulary of a GGUF file: the bytes of each id, control tokens, and the ids that end a text."""

import ctypes
from functools import cached_property
from typing import Any

from refactx.engines.llamacpp.library import library

_UNUSED, _NORMAL, _CONTROL, _USER_DEFINED = 1 << 1, 1 << 2, 1 << 3, 1 << 4  # LLAMA_TOKEN_ATTR_...
_LONGEST = 4096  # bytes of a token


class Vocabulary:
    """The vocabulary of a model, given its pointer and the `owner` to keep alive. The tables are made when needed."""

    def __init__(self, model: Any, owner: object) -> None:
        self._lib, self._owner = library(), owner
        self._pointer = self._lib.llama_model_get_vocab(model)
        self._size = int(self._lib.llama_vocab_n_tokens(self._pointer))

    def __len__(self) -> int:
        return self._size

    @cached_property
    def token_bytes(self) -> list[bytes]:
        """The bytes of each id, by id; of a control token, those of its name. 0.15 s for 150,000 ids."""
        piece, buffer = self._lib.llama_token_to_piece, ctypes.create_string_buffer(_LONGEST)
        return [
            ctypes.string_at(buffer, max(0, piece(self._pointer, number, buffer, _LONGEST, 0, True)))
            for number in range(len(self))
        ]

    @cached_property
    def added(self) -> dict[int, str]:
        """The control and user-defined tokens by id: texts that a tokenizer finds before it splits the others."""
        found = [number for number, kind in enumerate(self._kinds) if kind & (_CONTROL | _USER_DEFINED)]
        return {number: self.token_bytes[number].decode("utf-8", "replace") for number in found}

    @cached_property
    def control(self) -> frozenset[int]:
        """The ids of control tokens, which are no text."""
        return frozenset(number for number, kind in enumerate(self._kinds) if kind & _CONTROL and not kind & _NORMAL)

    @cached_property
    def unused(self) -> frozenset[int]:
        """The ids that no text has; they have no bytes."""
        return frozenset(number for number, kind in enumerate(self._kinds) if kind & _UNUSED)

    @cached_property
    def ends(self) -> frozenset[int]:
        """The ids that end a text, as llama.cpp sees it: the file's end of sequence, of turn, and those of known names.

        Without those that the file calls ordinary text (`</s>` in Qwen2.5), since facts may have them.
        """
        is_end = self._lib.llama_vocab_is_eog
        known = {number for number in self.control if is_end(self._pointer, number)}
        return frozenset(known | {number for number in (self.end, self._known("eot")) if number is not None})

    @property
    def begin(self) -> int | None:
        """The id of the begin of a sequence."""
        return self._known("bos")

    @property
    def end(self) -> int | None:
        """The id of the end of a sequence."""
        return self._known("eos")

    @property
    def padding(self) -> int | None:
        """The id that pads rows."""
        return self._known("pad")

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text by llama.cpp's own tokenizer; the names of added tokens become these tokens."""
        data = text.encode("utf-8", "replace")
        room = len(data) + 16
        ids = (self._lib.llama_token * room)()
        count = self._lib.llama_tokenize(self._pointer, data, len(data), ids, room, False, True)
        return list(ids[: max(0, count)])

    @cached_property
    def _kinds(self) -> list[int]:
        kind = self._lib.llama_vocab_get_attr
        return [int(kind(self._pointer, number)) for number in range(len(self))]

    def _known(self, name: str) -> int | None:
        number = int(getattr(self._lib, f"llama_vocab_{name}")(self._pointer))
        return None if number < 0 else number
