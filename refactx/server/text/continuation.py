"""Continuations of texts: what a model writes after a prompt as it is, without a conversation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from refactx.asking.options import Generation
from refactx.choosing.beam_search import FactBeams
from refactx.decoding.states import FactSource
from refactx.engines.language_model import LanguageModel
from refactx.errors import InputError, ModelError
from refactx.query import AnsweredQuery
from refactx.server.text.counting import CountedStream
from refactx.writing import Ordered, TextWriter, WritingError, WritingOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """How a text ended, and what it says: see `refactx.Answer`. Continuations of prompts have no `answer`."""

    reason: Literal["stop", "length"]
    forced_tokens: int
    forward_passes: int
    answer: str = ""
    queries: tuple[AnsweredQuery, ...] = ()
    told: float | None = None
    turns_left_out: int = 0


class Continuing:
    """The writing of continuations, by the model itself or by beams: without a question, there is no channel."""

    def __init__(self, model: LanguageModel, tokenizer: Any, index: FactSource) -> None:
        self._model, self._tokenizer, self._index = model, tokenizer, index

    @cached_property
    def _writer(self) -> TextWriter:
        return TextWriter(self._model, self._index)

    def write(
        self,
        prompt: str | Sequence[int],
        generation: Generation,
        free: bool,
        stream: CountedStream,
        cancelled: Callable[[], bool],
    ) -> Continuation:
        """Write the text after a prompt, given as text or ids, which may end within a fact.

        Raises InputError for a prompt that is empty, too long, or has ids that the model does not have.
        """
        ids = self._ids(prompt)
        room = self._model.room
        if room is not None and len(ids) >= room:
            raise InputError(
                f"the prompt has {len(ids)} tokens, but the model takes at most {room}: give a shorter one"
            )
        most = generation.max_new_tokens if room is None else min(generation.max_new_tokens, room - len(ids))
        beams = generation.fact_beams
        options = WritingOptions(
            is_end=lambda ids: False,
            answer_line=lambda ids, likeliest: (),
            free=free,
            sampling=generation.sampling,
            cancelled=cancelled,
            streamer=stream,
            fact_beams=FactBeams(beams, length_penalty=generation.fact_length_penalty) if beams else None,
            max_facts=generation.max_facts,
        )
        if self._model.engine is None:
            raise ModelError("continuations of prompts need a decoder-only model with a cache that can be shared")
        try:
            (written,) = self._writer.write([Ordered(prompt=ids, max_new_tokens=most)], options)
        except WritingError as failed:
            raise failed.error from None
        stream.end()
        has_ended = bool(written.ids) and written.ids[-1] in self._model.ends
        return Continuation(
            reason="stop" if has_ended else "length", forced_tokens=written.forced, forward_passes=written.passes
        )

    def _ids(self, prompt: str | Sequence[int]) -> list[int]:
        if isinstance(prompt, str):
            ids = self._tokenizer.encode(prompt.encode("utf-8", "replace").decode())
        else:
            ids, known = list(prompt), len(self._model.token_bytes)
            if not all(0 <= number < known for number in ids):
                raise InputError(f"the prompt has ids that the model does not have: give ids of 0 to {known - 1}")
        if not ids:
            raise InputError("the prompt is empty: give at least one token")
        return list(map(int, ids))
