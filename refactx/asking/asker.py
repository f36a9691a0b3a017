"""The asker: prompt → generation → answer, with facts of an index as proof, or without facts.

The same question with and without an index differs in nothing but the constraint.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from refactx.asking.answer import Answer, FinishReason, final_answer, unlinked
from refactx.asking.endings import AnswerLine, RepeatedAnswer
from refactx.asking.inputs import Asked, PromptInputs
from refactx.asking.options import GREEDY, Generation
from refactx.asking.prompt import Example, Prompt, load_prompt
from refactx.decoding.partial import Partial, attach_partial
from refactx.decoding.states import FactSource
from refactx.decoding.stream import FactStream, TextPiece
from refactx.errors import InputError, ModelError, RefactxError
from refactx.fact import Fact, LinkedFact, clean_part
from refactx.tokenizer import FactTokenizer

if TYPE_CHECKING:  # they import torch: seconds
    from refactx.choosing.channel import Channel
    from refactx.grounded.writer import PaddedPrompts, WrittenTexts

_log = logging.getLogger(__name__)

_SCORED = 64
"""The most ids of a question (its last ones) that a channel scores: it reads them after each candidate."""


class FactIndex(FactSource, Protocol):
    """An index that also knows the ids of a fact's parts."""

    def links(self, fact: Fact) -> LinkedFact:
        """Return the parts of a fact of this index with their ids."""
        ...


class Asker:
    """A model, a prompt and an index (or None) together, which answers questions. It has no state between questions.

        model, tokenizer = refactx.load_model("demo")
        with refactx.open_index("demo") as index:
            answer = refactx.Asker(model, tokenizer, index).ask("What is the capital of Alaska?")
        print(answer.answer, answer.facts)

    `prompt`: by default the built-in one for Wikidata. Raises ModelError for a tokenizer without a chat template,
    InputError for an index without facts, and as `refactx.ground` does for a model that does not fit the index.
    """

    def __init__(self, model: Any, tokenizer: Any, index: FactIndex | None, prompt: Prompt | None = None) -> None:
        from refactx.grounded.writer import TextWriter  # imports torch and transformers
        from refactx.models.loading import check_chat_template

        check_chat_template(tokenizer)
        if index is not None and not index.children(()).total:
            raise InputError("the index has no facts to answer with: add some with `refactx ingest --append`")
        self._tokenizer, self._index, self._prompt = tokenizer, index, prompt or load_prompt()
        self._writer = TextWriter(model, tokenizer, index)
        self._lock = Lock()  # for what is computed with the first question
        self._inputs = PromptInputs(self._writer, tokenizer, self._prompt)

    def stream(self, on_piece: Callable[[TextPiece], object], free: bool = False) -> FactStream:
        """Return a streamer for one call of `ask`, which calls `on_piece` with pieces of text and of facts.

        `free`: as in that call.
        """
        return FactStream(self._fact_tokenizer, None if free else self._writer.machine, on_piece)

    def count_facts(self, ids: Sequence[int], prompt_length: int) -> int:
        """Return how many facts a sequence has completed after its prompt."""
        return self._writer.count_facts(ids, prompt_length)

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
        """Ask one question and return its answer.

        `options`, and `changes` to them by name: how to write, see `Generation`. `history`: earlier turns of the
        conversation; the oldest are left out if the model has no room for them, and their facts may be written again.
        `free`: without constraint, and so without facts; if greedy text would end without a final answer, `Answer:`
        follows. `streamer`: a Transformers streamer, not together with `num_beams`. `until`: called with the ids so far
        after each id; the generation ends once it returns True.

        The beginning of the prompt is the same for all questions, and computed with the first question alone.

        Raises InputError for a question that has no visible text or is too long for the model, for options that exclude
        each other, and without an index unless `free`. Errors of the index have the answer so far as `partial`.
        """
        options = replace(options, **changes)
        self._check(options, free, streamer)
        started = time.perf_counter()
        asked = self._inputs.encode(question, options.max_new_tokens, history)
        return self._answer_all([asked], options, free, streamer, until, started)[0]

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
        """Ask many questions, `batch_size` at a time. Yield their answers in order, those of a batch together.

        Greedy answers are the same as those of `ask`. A question that cannot be asked has its InputError in place of an
        answer. The other arguments are those of `ask`.
        """
        options = replace(options, **changes)
        self._check(options, free, None)
        if batch_size < 1:
            raise InputError(f"batches of {batch_size} questions: give a batch_size of at least 1")
        if options.uses_channel and self._examples is not None and not free:
            batch_size = 1  # a channel is for a single row
        for first in range(0, len(questions), batch_size):
            yield from self._ask_batch(questions[first : first + batch_size], options, free, until)

    def _ask_batch(
        self, questions: Sequence[str], options: Generation, free: bool, until: Callable[[Any], bool] | None
    ) -> list[Answer | InputError]:
        started = time.perf_counter()
        outcomes: list[Answer | InputError | Asked] = []
        for question in questions:
            try:
                outcomes.append(self._inputs.encode(question, options.max_new_tokens, ()))
            except InputError as error:
                outcomes.append(error)
        asked = [outcome for outcome in outcomes if isinstance(outcome, Asked)]
        answers = iter(self._answer_all(asked, options, free, None, until, started) if asked else ())
        return [next(answers) if isinstance(outcome, Asked) else outcome for outcome in outcomes]

    def _answer_all(
        self,
        asked: Sequence[Asked],
        options: Generation,
        free: bool,
        streamer: Any,
        until: Callable[[Any], bool] | None,
        started: float,
    ) -> list[Answer]:
        from refactx.choosing.beam_search import FactBeams
        from refactx.grounded.writer import WritingOptions

        repeated, marker = RepeatedAnswer(self._tokenizer, self._prompt.marker), self._prompt.marker
        prompts = self._inputs.batch(asked)
        writing = WritingOptions(
            settings=options.for_transformers() | {"max_new_tokens": self._inputs.limit(asked, options.max_new_tokens)},
            is_end=repeated.is_end,
            next_id=AnswerLine(self._tokenizer, marker, self._writer.ends).next_id,
            interrupt=until,
            streamer=streamer,
            seed=options.seed,
            fact_beams=FactBeams(options.fact_beams, length_penalty=options.fact_length_penalty)
            if options.fact_beams
            else None,
            channel=self._channel(asked[0].question) if options.uses_channel and not free else None,
            max_facts=options.max_facts,
            after_facts=marker,
        )

        def seconds() -> float:
            return (time.perf_counter() - started) / len(asked)

        def so_far(partial: Partial) -> Iterator[Answer]:
            """Yield the answers so far; under beam search, those of the best beams."""
            beams, each = len(partial.ids) // len(asked), seconds()
            for n, one in enumerate(asked):
                ids = partial.ids[n * beams, prompts.length : partial.lengths[n * beams]].tolist()
                reason: FinishReason = "stop" if self._writer.ends & set(ids) else "interrupted"
                facts = partial.facts[n * beams]
                yield self._answer(one, ids, reason, facts, map(unlinked, facts), counter.passes, each)

        with self._writer.count_passes() as counter, attach_answers(so_far):
            texts = self._writer.write(prompts, writing, free)
            facts, each = tuple(map(tuple, texts.facts)), seconds()
            with attach_partial(lambda: Partial(ids=texts.ids, lengths=tuple(texts.lengths), facts=facts)):
                links = unlinked if self._index is None else self._index.links
                answers = []
                for n, (one, own) in enumerate(zip(asked, facts, strict=True)):
                    ids, reason = self._end_of(texts, n, prompts, repeated)
                    answers.append(self._answer(one, ids, reason, own, map(links, own), counter.passes, each))
                return answers

    def _end_of(
        self, texts: "WrittenTexts", row: int, prompts: "PaddedPrompts", repeated: RepeatedAnswer
    ) -> tuple[list[int], FinishReason]:
        """Return the ids of a row after its prompt, up to the first end of sequence, and the reason why it ended."""
        ids: list[int] = texts.ids[row, prompts.length : texts.lengths[row]].tolist()
        cut = list(repeated.cut(ids))
        end = next((position for position, number in enumerate(cut) if number in self._writer.ends), None)
        if end is not None:
            return cut[: end + 1], "stop"
        if repeated.is_end(cut):
            return cut, "stop"
        return ids, "interrupted" if texts.is_interrupted else "length"

    def _answer(
        self,
        asked: Asked,
        ids: list[int],
        reason: FinishReason,
        facts: tuple[Fact, ...],
        links: Iterable[LinkedFact],
        passes: int,
        seconds: float,
    ) -> Answer:
        text = self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False).strip()
        if facts and self._index is not None and reason == "stop":  # the text began one fact more than `max_facts`
            text = text.removesuffix(self._index.trigger).rstrip()
        return Answer(
            question=asked.question,
            answer=final_answer(text, self._prompt.marker, facts),
            text=text,
            facts=facts,
            links=tuple(links),
            tokens=len(ids),
            forward_passes=passes,
            seconds=seconds,
            finish_reason=reason,
            turns_left_out=asked.left_out,
        )

    @cached_property
    def _fact_tokenizer(self) -> FactTokenizer:
        return FactTokenizer.from_transformers(self._tokenizer) if self._index is None else self._index.tokenizer

    @property
    def _examples(self) -> int | None:
        with self._lock:
            return self._read_examples

    @cached_property
    def _read_examples(self) -> int | None:
        """The sequence that has read the prompt's facts with their questions; None if the prompt has none, or if the
        model's cache cannot be shared."""
        if self._index is None or not self._prompt.channel.strip():
            return None
        try:
            return self._writer.engine.prefill(self._index.tokenizer.encode(self._prompt.channel.strip() + "\n"))
        except ModelError:
            _log.warning("the facts are not chosen by the question: the cache of this model cannot be shared")
            return None

    def _channel(self, question: str) -> "Channel | None":
        from refactx.choosing.channel import Channel

        if self._index is None or self._examples is None:
            return None
        lead = self._index.tokenizer.encode(self._prompt.asks)
        ids = self._index.tokenizer.encode(f" {clean_part(question)}")[-_SCORED:]
        return Channel(
            engine=self._writer.engine,
            examples=self._examples,
            question=[*lead, *ids],
            lead=len(lead),
            marker=self._prompt.marker,
            unknown=self._prompt.unknown,
        )

    def _check(self, options: Generation, free: bool, streamer: Any) -> None:
        if streamer is not None and options.num_beams > 1:
            raise InputError("beam search cannot stream, since it decides at the end: leave out streamer or num_beams")
        if free and replace(options, channel=False) != options.free:  # `channel` is True by default
            raise InputError("free text has no facts: leave out free, or leave out fact_beams and max_facts")
        if not free and self._index is None:
            raise InputError("there is no index to take facts from: give one, or ask without facts (free=True)")


@contextmanager
def attach_answers(answers: Callable[[Partial], Iterable[Answer]]) -> Iterator[None]:
    """Add answers to the partial output of an error that leaves the block; `answers` makes them from that output."""
    try:
        yield
    except RefactxError as error:
        if isinstance(error.partial, Partial):
            error.partial = replace(error.partial, answers=tuple(answers(error.partial)))
        raise
