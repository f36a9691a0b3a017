"""Questions to a model: prompt, generate, and read the facts and the final answer off what it wrote.

Decoding is greedy unless `Generation` says otherwise. Of the model's `generation_config.json` only the ids of special
tokens count, since penalties and sampling there were chosen for chat and would bend the names inside facts.
"""

import copy
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

from refactx.asking.answer import Answer, FinishReason, final_answer
from refactx.asking.around_model import chance_of, forward_passes
from refactx.asking.inputs import Asked, PromptInputs
from refactx.asking.options import GREEDY, Generation
from refactx.asking.prompt import Example, Prompt, load_prompt
from refactx.decoding.machine import FactSource
from refactx.decoding.partial import Partial, answered, kept, unlinked
from refactx.decoding.stream import FactStream, Piece
from refactx.errors import InputError, ModelError
from refactx.fact import Fact, clean_part
from refactx.index.links import LinkedFact
from refactx.models.loading import check_chat_template
from refactx.tokenizer import FactTokenizer

__all__ = ["Answer", "Asker", "FactIndex", "final_answer"]

_log = logging.getLogger(__name__)


_SCORED = 64
"""Most ids of a question, its last, by which facts are chosen: each property costs a pass over so many."""


class FactIndex(FactSource, Protocol):
    """An index that also knows the ids behind a fact."""

    def links(self, fact: Fact) -> LinkedFact:
        """The parts of a fact of this index with their ids."""
        ...


class Asker:
    """Asks one model questions, over one index or (None) none.

    Holds no state between questions. Raises ModelError for a tokenizer without a chat template, InputError for an index
    without facts, and whatever `refactx.ground` raises for a model that doesn't fit the index.
    """

    def __init__(self, model: Any, tokenizer: Any, index: FactIndex | None, prompt: Prompt | None = None) -> None:
        import transformers  # seconds

        from refactx.grounded.model import ground  # imports torch and transformers

        check_chat_template(tokenizer)
        if index is not None and not index.children(()).total:
            raise InputError("the index has no facts to answer with: add some with `refactx ingest --append`")
        self._tokenizer, self._index, self._prompt = tokenizer, index, prompt or load_prompt()
        generation_config: Any = transformers.GenerationConfig  # it has no types
        # `generate` fills whatever a call leaves open from the model's own generation config, and takes no "leave it".
        # So the config is replaced, on a shallow copy: weights and hooks are shared, the caller's model stays as it is.
        given = model.generation_config
        self._stop = _ids(given.eos_token_id) | _ids(tokenizer.eos_token_id)
        pad = given.pad_token_id if given.pad_token_id is not None else tokenizer.pad_token_id
        self._pad = pad if pad is not None else min(self._stop, default=0)
        self._model = copy.copy(model)
        self._model.generation_config = generation_config(
            bos_token_id=given.bos_token_id,
            eos_token_id=sorted(self._stop) or None,
            pad_token_id=self._pad if pad is not None or self._stop else None,
        )
        self._grounded = None if index is None else ground(self._model, tokenizer, index)
        self._inputs = PromptInputs(self._model, tokenizer, self._prompt, self._pad)

    def stream(self, on_piece: Callable[[Piece], object], free: bool = False) -> FactStream:
        """A streamer for one call of `ask`: `on_piece` gets the text as it comes, told apart into free text and facts."""
        machine = None if free or self._grounded is None else self._grounded.machine
        return FactStream(self._fact_tokenizer, machine, on_piece)

    def count_facts(self, ids: Sequence[int], prompt_length: int) -> int:
        """How many facts a sequence has completed behind its prompt."""
        return 0 if self._grounded is None else len(self._grounded.facts([ids], prompt_length)[0])

    @cached_property
    def _fact_tokenizer(self) -> FactTokenizer:
        return FactTokenizer.from_transformers(self._tokenizer) if self._index is None else self._index.tokenizer

    def ask(
        self,
        question: str,
        options: Generation = GREEDY,
        *,
        history: Sequence[Example] = (),
        free: bool = False,
        streamer: Any = None,
        until: Callable[[Any], bool] | None = None,
        **changes: Any,
    ) -> Answer:
        """Ask one question. `options`, and `changes` to them by name: how to write, see `Generation`.

        `history`: earlier turns of the conversation; the oldest are left out if the model has no room for them. Their
        facts may be written again. `free`: the same model and prompt without constraint, and so without facts;
        greedy text that would end without a final answer goes on to it.
        `streamer`: a Transformers streamer, not with `num_beams`. `until`: called with the ids so far after each; once it
        returns True the generation ends. The beginning of the prompt, the same for all questions, is computed with the
        first alone.

        Raises InputError for a question without visible text, one too long for the model, options that don't fit, or no
        index where one is needed.
        """
        options = replace(options, **changes)
        self._check(options, free, streamer)
        started = time.perf_counter()
        asked = self._inputs.asked(question, options.max_new_tokens, history)
        return self._answers([asked], options, free, streamer, until, started)[0]

    def ask_all(
        self,
        questions: Sequence[str],
        options: Generation = GREEDY,
        *,
        batch_size: int = 1,
        free: bool = False,
        until: Callable[[Any], bool] | None = None,
        **changes: Any,
    ) -> Iterator[Answer | InputError]:
        """Ask many questions, `batch_size` at a time; the answers come in order, each batch's together.

        Greedy answers are those that `ask` gives. A question that cannot be asked has its InputError in place of an
        answer. The other arguments are those of `ask`.
        """
        options = replace(options, **changes)
        self._check(options, free, None)
        if batch_size < 1:
            raise InputError(f"batches of {batch_size}: give at least 1")
        if options.uses_channel and self._has_channel and not free:
            batch_size = 1  # a channel is for one question
        for first in range(0, len(questions), batch_size):
            yield from self._batch(questions[first : first + batch_size], options, free, until)

    def _batch(
        self, questions: Sequence[str], options: Generation, free: bool, until: Callable[[Any], bool] | None
    ) -> list[Answer | InputError]:
        started = time.perf_counter()
        outcomes: list[Answer | InputError | Asked] = []
        for question in questions:
            try:
                outcomes.append(self._inputs.asked(question, options.max_new_tokens, ()))
            except InputError as error:
                outcomes.append(error)
        asked = [outcome for outcome in outcomes if isinstance(outcome, Asked)]
        answers = iter(self._answers(asked, options, free, None, until, started) if asked else ())
        return [next(answers) if isinstance(outcome, Asked) else outcome for outcome in outcomes]

    def _answers(
        self,
        asked: Sequence[Asked],
        options: Generation,
        free: bool,
        streamer: Any,
        until: Callable[[Any], bool] | None,
        started: float,
    ) -> list[Answer]:
        from transformers import LogitsProcessorList, StoppingCriteriaList

        from refactx.asking.answer_line import AnswerLine
        from refactx.asking.endings import AnswerLoop
        from refactx.asking.until import Until
        from refactx.choosing.beam_search import FactBeams

        prefix = self._inputs.shared(asked)
        inputs = self._inputs.batch(asked, 0 if prefix is None else prefix.ids.shape[1])
        length = inputs["input_ids"].shape[1]
        settings = options.for_transformers()
        if self._inputs.room is not None:
            settings["max_new_tokens"] = min(
                options.max_new_tokens, self._inputs.room - max(len(one.ids) for one in asked)
            )
        ending = Until(until or (lambda _: False))
        loop = AnswerLoop(self._tokenizer, self._prompt.marker, length)
        criteria = StoppingCriteriaList([ending, loop] if until else [loop])
        settings |= {"streamer": streamer, "stopping_criteria": criteria}
        limit: dict[str, Any] = {"max_facts": options.max_facts, "after_facts": self._prompt.marker}
        channel = self._channel(asked[0].question) if options.uses_channel and not free else None
        with (
            forward_passes(self._model) as passes,
            answered(lambda partial: self._so_far(asked, partial, length, passes.calls, started)),
            chance_of(options, self._model.device),
        ):
            if free or self._grounded is None:
                cache = None if prefix is None else prefix.cache_for(inputs["input_ids"], options.num_beams)
                line = AnswerLine(self._tokenizer, self._prompt.marker, self._stop, length)
                out = self._model.generate(
                    **inputs, **settings, past_key_values=cache, logits_processor=LogitsProcessorList([line])
                )
            else:
                beams = options.fact_beams and FactBeams(options.fact_beams, length_penalty=options.fact_length_penalty)
                out = self._grounded.generate(
                    **inputs, **settings, fact_beams=beams, channel=channel, prefix=prefix, **limit
                )
            found: tuple[tuple[Fact, ...], ...] = ((),) * len(asked)
            with kept(lambda: Partial.of(out, found)):
                if not free and self._grounded is not None:
                    found = tuple(map(tuple, self._grounded.facts(out)))
                links = unlinked if self._index is None else self._index.links
                seconds = (time.perf_counter() - started) / len(asked)
                return [
                    self._answer(one, *self._written(ids, length, ending, loop), facts, links, passes.calls, seconds)
                    for one, ids, facts in zip(asked, out.tolist(), found, strict=True)
                ]

    def _so_far(
        self, asked: Sequence[Asked], partial: Partial, length: int, passes: int, started: float
    ) -> Iterator[Answer]:
        """What there is of the answers; of a beam search, the best beams."""
        beams, seconds = len(partial.ids) // len(asked), (time.perf_counter() - started) / len(asked)
        for n, one in enumerate(asked):
            ids = partial.ids[n * beams, length : partial.lengths[n * beams]].tolist()
            reason: FinishReason = "stop" if self._stop & set(ids) else "interrupted"
            yield self._answer(one, ids, reason, partial.facts[n * beams], unlinked, passes, seconds)

    @cached_property
    def _examples(self) -> Any:
        """The prompt's questions for facts, computed once; None where there are none, or the model cannot share them."""
        from refactx.engines.hf.prefix import prefill

        if self._index is None or not self._prompt.channel.strip():
            return None
        ids = self._index.tokenizer.encode(self._prompt.channel.strip() + "\n")
        try:
            return prefill(self._model, [ids])
        except ModelError:
            _log.warning("the facts are not chosen by the question: of this model no examples can be computed ahead")
            return None

    @property
    def _has_channel(self) -> bool:
        return self._examples is not None

    def _channel(self, question: str) -> Any:
        from refactx.choosing.channel import Channel, ChannelOptions

        if self._index is None or not self._has_channel:
            return None
        lead = self._index.tokenizer.encode(self._prompt.asks)
        ids = self._index.tokenizer.encode(f" {clean_part(question)}")[-_SCORED:]
        options, unknown = ChannelOptions(), self._prompt.unknown
        return Channel(self._model, self._examples, [*lead, *ids], len(lead), self._prompt.marker, options, unknown)

    def _written(self, row: list[int], prompt_length: int, ending: Any, loop: Any) -> tuple[list[int], FinishReason]:
        """What a row has behind its prompt, up to the first end of sequence and without padding; and why it ended.

        (The end of sequence may pad rows too, so that only `ending` and `loop` know where the rows end that they ended; without
        an end of sequence Transformers goes on with such a row until all are done.)
        """
        looped = next((own for own in loop.rows if row[: len(own)] == own), None)
        ended = (own for own in ending.rows if row[: len(own)] == own and set(row[len(own) :]) <= {self._pad})
        ids = (looped or next(ended, row))[prompt_length:]
        end = next((position for position, number in enumerate(ids) if number in self._stop), None)
        if end is not None:
            return ids[: end + 1], "stop"
        if looped:
            return ids, "stop"
        return ids, "interrupted" if ending.met else "length"

    def _answer(
        self,
        asked: Asked,
        ids: list[int],
        reason: FinishReason,
        facts: tuple[Fact, ...],
        links: Callable[[Fact], LinkedFact],
        passes: int,
        seconds: float,
    ) -> Answer:
        text = self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False).strip()
        if facts and self._index is not None and reason == "stop":  # one fact more than `max_facts` was begun
            text = text.removesuffix(self._index.trigger).rstrip()
        return Answer(
            question=asked.question,
            answer=final_answer(text, self._prompt.marker, facts),
            text=text,
            facts=facts,
            links=tuple(map(links, facts)),
            tokens=len(ids),
            forward_passes=passes,
            seconds=seconds,
            finish_reason=reason,
            turns_left_out=asked.left_out,
        )

    def _check(self, options: Generation, free: bool, streamer: Any) -> None:
        if streamer is not None and options.num_beams > 1:
            raise InputError("beam search cannot stream, since it decides at the end: use num_beams=1")
        if free and replace(options, channel=False) != options.free:  # the channel is there unless it is left out
            raise InputError("free text has no facts: leave out free, or fact beams and the limit of facts")
        if not free and self._index is None:
            raise InputError("there is no index to take facts from: give one, or ask freely (free=True)")


def _ids(value: int | list[int] | None) -> set[int]:
    if value is None:
        return set()
    return {value} if isinstance(value, int) else set(value)
