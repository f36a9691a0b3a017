"""A language model of our engines that replies to a conversation: free text, or what a constraint allows.

Constrained text is one line, such as a query. `ChatServer` (`refactx.ask.chat_server`) is a model on a server.
"""

from collections.abc import Callable, Sequence
from copy import copy
from threading import Lock
from typing import Any, Self, cast

from refactx.ask.conversation import Message, conversation_ids, without_control
from refactx.ask.writer import MOST_SHARED, BatchWriter, TextRequest, Writer, WritingError, WritingOptions
from refactx.engines.engine import LanguageModel
from refactx.engines.writer import common_length
from refactx.errors import InputError, ModelError
from refactx.models.loading import check_chat_template

LEAST = 64
"""The fewest tokens of room for a reply: with less, most queries would be cut."""
END = b"\n"
"""The end of a constrained text."""


class ChatModel:
    """A `TextModel` that Transformers or llama.cpp runs. Threads may share it.

    What conversations with the same messages before the last one have in common is read once, from the second one on
    (with `is_alike`, from the first one on), and a conversation continues what was read of the one before it.

    `writer`: of constrained text, by default of free text; `begins`: the text, such as `SPARQL:`, with which the reply
    begins, and after which constrained text is one line; `is_alike`: whether all conversations begin with the same messages;
    `cancelled`: asked before each pass of the model, ends texts with a ModelError once it returns True. Raises ModelError
    for a tokenizer without a chat template, of constrained text when it is written.
    """

    def __init__(
        self,
        model: LanguageModel,
        writer: BatchWriter | None = None,
        *,
        begins: str = "",
        is_alike: bool = False,
        cancelled: Callable[[], bool] | None = None,
    ) -> None:
        if writer is None:
            check_chat_template(model.tokenizer)
        self._model, self._begins, self._is_alike, self._cancelled = model, begins, is_alike, cancelled
        self._is_free = writer is None
        self._writer: Writer
        if writer is not None or model.engine is not None:
            self._writer = writer or BatchWriter(model)
        else:
            from refactx.ask.grounded import GenerateWriter  # by Transformers' `generate`

            self._writer = GenerateWriter(cast(Any, model), None)
        self._prefixes: dict[tuple[str, ...], list[int] | None] = {}  # by messages, those that came last at the end
        self._lock = Lock()

    def generate(self, messages: Sequence[Message], max_new_tokens: int) -> str:
        """Return the reply to a conversation, as `TextModel` says: constrained text on one line, without `begins`."""
        tokenizer = self._model.tokenizer
        said = [one | {"content": without_control(tokenizer, one["content"])} for one in messages]
        begun: Any = tokenizer.encode(self._begins, add_special_tokens=False) if self._begins else ()
        return self._reply([*conversation_ids(tokenizer, said), *begun], max_new_tokens, self._prefix(said[:-1]))

    def cancelled_by(self, cancelled: Callable[[], bool]) -> Self:
        """Return the same model for texts that end once `cancelled` returns True as well."""
        own, other = self._cancelled, copy(self)
        other._cancelled = cancelled if own is None else lambda: own() or cancelled()
        return other

    def _reply(self, ids: Sequence[int], max_new_tokens: int, prefix: Sequence[int] = ()) -> str:
        """Return the text that the model writes after some ids. `prefix`: the first ones, which are read once."""
        room = self._model.room
        if room is not None and len(ids) + min(LEAST, max_new_tokens) > room:
            raise InputError(
                f"question and prompt have {len(ids)} tokens, but with the reply the model takes at most {room}: ask more "
                "briefly, give a prompt with fewer examples, or a GGUF file more --context"
            )
        most = max_new_tokens if room is None else min(max_new_tokens, room - len(ids))
        options = WritingOptions(
            is_end=lambda written: not self._is_free and END in self._model.token_bytes[int(written[-1])],
            answer_line=lambda _, __: (),
            prefix=prefix,
            keeps=True,
            free=self._is_free,
            cancelled=self._cancelled,
        )
        try:
            (text,) = self._writer.write([TextRequest(prompt=ids, max_new_tokens=most)], options)
        except WritingError as failed:
            raise failed.error from None
        if text.is_interrupted:
            raise ModelError("the text was ended before its end, as was asked")
        if self._is_free:
            written: str = self._model.tokenizer.decode(
                text.ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
            return written.strip()
        line, end, _ = b"".join(self._model.token_bytes[token] for token in text.ids).partition(END)
        return line.decode("utf-8", "replace").strip() if end else self._cut_line(ids, text.ids)

    def _cut_line(self, prompt: Sequence[int], ids: Sequence[int]) -> str:
        """Return the line that some ids after a prompt begin, which has more tokens than it may have."""
        return b"".join(self._model.token_bytes[token] for token in ids).decode("utf-8", "replace").strip()

    def _prefix(self, before: Sequence[Message]) -> list[int]:
        """Return the ids with which nearly all conversations with these messages begin; none for messages that are new.

        What is read once takes a part of the model's room for good, so messages have to come back first.
        """
        key = tuple(message["content"] for message in before)
        with self._lock:
            is_new, found = key not in self._prefixes and not self._is_alike, self._prefixes.pop(key, None)
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
            found = one[: common_length(one, other)]
            with self._lock:
                self._prefixes[key] = found
        return found
