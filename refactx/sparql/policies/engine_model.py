"""A language model of our own engines as a `TextModel`: plain text, without facts."""

from collections.abc import Callable, Sequence
from copy import copy
from threading import Lock

from refactx.ask.chat import Message, conversation_ids, without_control
from refactx.ask.writer import MOST_SHARED, BatchWriter, TextRequest, Writer, WritingError, WritingOptions
from refactx.engines.engine import LanguageModel
from refactx.errors import InputError, ModelError
from refactx.models.loading import check_chat_template

LEAST = 64
"""The fewest tokens of room for a reply: with less, most queries would be cut."""


class EngineTextModel:
    """A `TextModel` that Transformers or llama.cpp runs. Threads may share it.

    What conversations with the same messages before the last one have in common is read once, from the second one on,
    and a conversation continues what was read of the one before it.
    `cancelled`: asked before each pass of the model, ends texts with a ModelError once it returns True. Raises ModelError
    for a tokenizer without a chat template.
    """

    def __init__(self, model: LanguageModel, cancelled: Callable[[], bool] | None = None) -> None:
        check_chat_template(model.tokenizer)
        self._model, self._cancelled = model, cancelled
        self._writer: Writer = _generating(model) if model.engine is None else BatchWriter(model, None)
        self._prefixes: dict[tuple[str, ...], list[int] | None] = {}  # by messages, those that came last at the end
        self._lock = Lock()

    def generate(self, messages: Sequence[Message], max_new_tokens: int) -> str:
        """Return the reply to a conversation, as `TextModel` says."""
        *before, last = messages
        last = last | {"content": without_control(self._model.tokenizer, last["content"])}
        ids = conversation_ids(self._model.tokenizer, [*before, last])
        room = self._model.room
        if room is not None and len(ids) + min(LEAST, max_new_tokens) > room:
            raise InputError(
                f"question and prompt have {len(ids)} tokens, but with the reply the model takes at most {room}: ask more "
                "briefly, give a prompt with fewer examples, or a GGUF file more --context"
            )
        order = TextRequest(
            prompt=ids, max_new_tokens=max_new_tokens if room is None else min(max_new_tokens, room - len(ids))
        )
        options = WritingOptions(
            is_end=lambda _: False,
            answer_line=lambda _, __: (),
            prefix=self._prefix(before),
            keeps=True,
            free=True,
            cancelled=self._cancelled,
        )
        try:
            (text,) = self._writer.write([order], options)
        except WritingError as failed:
            raise failed.error from None
        if text.is_interrupted:
            raise ModelError("the text was ended before its end, as was asked")
        written: str = self._model.tokenizer.decode(
            text.ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return written.strip()

    def cancelled_by(self, cancelled: Callable[[], bool]) -> "EngineTextModel":
        """Return the same model for texts that end once `cancelled` returns True as well."""
        own, other = self._cancelled, copy(self)
        other._cancelled = cancelled if own is None else lambda: own() or cancelled()
        return other

    def _prefix(self, before: Sequence[Message]) -> list[int]:
        """Return the ids with which nearly all conversations with these messages begin; none for messages that are new.

        What is read once takes a part of the model's room for good, so messages have to come back first.
        """
        key = tuple(message["content"] for message in before)
        with self._lock:
            is_new, found = key not in self._prefixes, self._prefixes.pop(key, None)
            self._prefixes[key] = found
            while len(self._prefixes) > MOST_SHARED:
                self._prefixes.pop(next(iter(self._prefixes)))
        if is_new:
            return []
        if found is None:
            one, other = (
                conversation_ids(self._model.tokenizer, [*before, {"role": "user", "content": text}])
                for text in ("0", "?")
            )
            length = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
            found = one[:length]
            with self._lock:
                self._prefixes[key] = found
        return found


def _generating(model: LanguageModel) -> Writer:
    """Return a writer for a model without an engine: by Transformers' `generate`."""
    from refactx.ask.grounded import GenerateWriter
    from refactx.engines.transformers.rows import TransformersModel

    if not isinstance(model, TransformersModel):
        raise TypeError("a model without an engine is one of Transformers")
    return GenerateWriter(model, None)
