"""A model of our engines that can write nothing but SPARQL of a pack."""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from refactx.engines.language_model import LanguageModel
from refactx.errors import InputError, ModelError
from refactx.nl2sparql.held.grammar import END, TRIGGER, PackGrammar
from refactx.nl2sparql.pack import Pack
from refactx.tokenizer import FactTokenizer
from refactx.tree.children import OFF_TREE, Children
from refactx.writing import Ordered, TextWriter, WritingError, WritingOptions
from refactx.writing.conversation import Message, conversation_ids, without_control


class HeldTextModel:
    """A `refactx.sparql.policies.TextModel` whose replies are one query each, held to a pack's grammar. Threads may share it.

    `cancelled`: asked before each pass of the model, ends texts with a ModelError once it returns True. Raises ModelError
    for a model that our engines cannot run, InputError if llguidance is not installed.
    """

    def __init__(self, model: LanguageModel, pack: Pack, cancelled: Callable[[], bool] | None = None) -> None:
        if model.engine is None:
            raise ModelError(
                "SPARQL is held to its grammar for models whose attention takes masks of four dimensions, or GGUF files: give "
                "another model, or --no-grammar"
            )
        self._model, self._cancelled = model, cancelled
        self._writer = TextWriter(model, _NoFacts(model), queries=PackGrammar(pack))
        if self._writer.machine is None:
            raise ValueError("a writer with a source has a machine")
        self._machine = self._writer.machine

    def generate(self, messages: Sequence[Message], max_new_tokens: int) -> str:
        """Return the query that the model writes after a conversation, greedily, on one line.

        It is cut if it has more than `max_new_tokens` tokens. Raises InputError for a conversation that is too long.
        """
        tokenizer, room = self._model.tokenizer, self._model.room
        said = [one | {"content": without_control(tokenizer, one["content"])} for one in messages]
        begun: Any = tokenizer.encode(TRIGGER, add_special_tokens=False)
        ids = [*conversation_ids(tokenizer, said), *begun]
        if room is not None and len(ids) >= room:
            raise InputError(
                f"question and prompt have {len(ids)} tokens, but the model takes at most {room}: give a larger --context, or "
                "fewer examples"
            )
        order = Ordered(
            prompt=ids, max_new_tokens=max_new_tokens if room is None else min(max_new_tokens, room - len(ids))
        )
        options = WritingOptions(
            is_end=self._is_end, answer_line=lambda _, __: (), keeps=True, cancelled=self._cancelled
        )
        try:
            (text,) = self._writer.write([order], options)
        except WritingError as failed:
            raise failed.error from None
        if text.is_interrupted:
            raise ModelError("the text was ended before its end, as was asked")
        return self._machine.text_of(text.ids).partition(END)[0].decode("utf-8", "replace").strip()

    def cancelled_by(self, cancelled: Callable[[], bool]) -> "HeldTextModel":
        """Return the same model for texts that end once `cancelled` returns True as well."""
        own, other = self._cancelled, copy(self)
        other._cancelled = cancelled if own is None else lambda: own() or cancelled()
        return other

    def _is_end(self, ids: NDArray[np.int64]) -> bool:
        return END in self._machine.bytes_of(int(ids[-1]))


class _NoFacts:
    """A `refactx.decoding.states.FactSource` without facts, over a model's own tokenizer."""

    trigger, terminator = "Fact:", " ."

    def __init__(self, model: LanguageModel) -> None:
        self.tokenizer = cast(FactTokenizer, _ModelTokenizer(model))

    def children(self, prefix: Sequence[int]) -> Children:
        return OFF_TREE


class _ModelTokenizer:
    """What a state machine needs of a tokenizer: the bytes of ids, and the ids of texts."""

    def __init__(self, model: LanguageModel) -> None:
        self.token_bytes = list(model.token_bytes)
        self._tokenizer = model.tokenizer

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        return b"".join(self.token_bytes[number] for number in ids if number < len(self.token_bytes))
