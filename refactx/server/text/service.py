"""The model, the prompt and the index of a server, and the texts that they write for requests."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from refactx.asking.answer import final_answer, marker_start, unlinked
from refactx.asking.asker import Asker, FactIndex
from refactx.asking.models import language_model
from refactx.asking.options import Generation
from refactx.asking.prompt import Example, Prompt, load_prompt
from refactx.decoding.stream import TextPiece
from refactx.fact import LinkedFact
from refactx.index.index import Index
from refactx.query import TreeFacts
from refactx.server.availability import Availability
from refactx.server.following import Following
from refactx.server.http.slots import Slot, Slots
from refactx.server.metrics import Metrics
from refactx.server.options import ServerOptions
from refactx.server.text.continuation import Continuation, Continuing
from refactx.server.text.counting import CountedStream
from refactx.server.text.events import CitedFact, Delta, Event, Finished, Record
from refactx.server.text.live import LiveWork, Piece, Value, Work
from refactx.server.text.transcript import Passed, Span, Transcript

if TYPE_CHECKING:
    from refactx.nl2sparql import Translator

LOOKUP_THREADS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A text that a request asks for: the answer to `question`, or if there is a `prompt`, its continuation.

    `history`, `system`, `free`: as in `Asker.ask`; `stop`: texts that end it, outside of facts.
    """

    generation: Generation
    question: str = ""
    history: Sequence[Example] = ()
    system: str = ""
    prompt: str | Sequence[int] | None = None
    free: bool = False
    stop: Sequence[str] = ()


class TextService:
    """The texts of one model over one index. Close it.

    `availability`: of the index's database; `translator`: by the same model, for the endpoint of a domain pack.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        index: FactIndex,
        options: ServerOptions,
        *,
        prompt: Prompt | None = None,
        availability: Availability | None = None,
        translator: "Translator | None" = None,
    ) -> None:
        self.prompt, self.index, self.options = prompt or load_prompt(), index, options
        self.model = language_model(model, tokenizer)
        self.asker = Asker(self.model, tokenizer, index, self.prompt)
        self.availability = availability or Availability(None)
        # Models without an engine write one text at a time.
        self.slots = Slots(1 if self.model.engine is None else options.max_running, options.max_waiting)
        self.metrics = Metrics(options.name, self.slots, index)
        self.is_warm, self.translator = False, translator
        self.facts = TreeFacts(index) if isinstance(index, Index) else None
        """The facts as queries need them; None if they are in no database."""
        self._following = Following(index, self.availability, options.refresh) if isinstance(index, Index) else None
        self._continuing = Continuing(self.model, tokenizer, index)
        self._writers = ThreadPoolExecutor(options.max_running, thread_name_prefix="refactx-text")
        self.lookups = ThreadPoolExecutor(LOOKUP_THREADS, thread_name_prefix="refactx-facts")

    def warm_up(self) -> None:
        """Let the model read what all prompts have in common, so that the first request need not wait for it."""
        self.asker.ask("?", max_new_tokens=1)
        self.is_warm = True

    def close(self) -> None:
        """End its threads, which must have nothing to do any more."""
        self._writers.shutdown(wait=False, cancel_futures=True)
        self.lookups.shutdown(wait=False, cancel_futures=True)
        if self._following is not None:
            self._following.close()
        self.availability.close()

    def take_slot(self, order: Order) -> Slot:
        """Return a place for a text. Raise ApiError if there is none, or if the database is away."""
        if not order.free:
            self.availability.check()
        return self.slots.take()

    async def look_up(self, read: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that looks up facts, in a thread. Raise what it raises."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self.lookups, read, *arguments)
        except Exception as error:
            self.availability.note(error)
            raise

    @asynccontextmanager
    async def live(self, work: Work[Piece, Value], slot: Slot) -> AsyncIterator[LiveWork[Piece, Value]]:
        """Begin work that needs the model, in a thread, when its turn has come.

        The slot is released when the thread has ended; the work is told to end when the block is left.
        """
        slot.is_used, live = True, cast("LiveWork[Piece, Value] | None", None)
        try:
            await slot.turn()
            live = LiveWork(self._writers, work, slot.release)
            yield live
        except Exception as error:
            self.availability.note(error)
            raise
        finally:
            if live is None:
                slot.release()
            else:
                live.cancel()

    async def compute(self, work: Callable[[Callable[[], bool]], Value], slot: Slot) -> Value:
        """Call `work` as `live` does, given what says whether to end. Return what it returns."""
        whole: Work[object, Value] = lambda _, stops: work(stops)  # noqa: E731 - its type
        async with self.live(whole, slot) as live:
            async for _ in live.bursts():
                pass
            return live.value

    async def write(self, order: Order, slot: Slot) -> AsyncGenerator[Event, None]:
        """Write a text when its turn has come. Yield its pieces, and what it was at the end.

        The slot is released when it has ended; if the iteration is closed, it ends before the next pass of the model.
        Raises RefactxError as `Asker.ask` does.
        """
        stream, facts = CountedStream(), list[CitedFact]()
        transcript = Transcript("" if order.free else self._trigger, order.stop, strips=order.prompt is None)
        work: Work[TextPiece, Continuation] = lambda put, stops: self._written(order, stream, put, stops)  # noqa: E731
        async with self.live(work, slot) as live:
            record = Record()
            async for burst in live.bursts():
                record.first = record.first or time.monotonic()
                for passed in _joined([one for piece in burst for one in transcript.add(piece)]):
                    yield await self._delta(passed, facts)
                if transcript.is_stopped:
                    live.cancel()
            written = live.value
            for passed in _joined(transcript.end(is_whole=written.reason == "stop")):
                yield await self._delta(passed, facts)
            record.finished = self._finished(order, transcript, facts, written, stream)
            self.metrics.record(record)
            yield record.finished

    @property
    def _trigger(self) -> str:
        return str(getattr(self.index, "trigger", self.prompt.trigger))

    def _written(
        self,
        order: Order,
        stream: CountedStream,
        put: Callable[[TextPiece], None],
        stops: Callable[[], bool],
    ) -> Continuation:
        """Write a text, in a thread."""
        stream.begin(self.asker.stream(put, order.free))
        if order.prompt is not None:
            return self._continuing.write(order.prompt, order.generation, order.free, stream, stops)
        answer = self.asker.ask(
            order.question,
            order.generation,
            history=order.history,
            system=order.system,
            free=order.free,
            streamer=stream,
            cancelled=stops,
        )
        if answer.finish_reason == "interrupted":
            stream.end()
        return Continuation(
            answer=answer.answer,
            queries=answer.queries,
            told=answer.told,
            reason="stop" if answer.finish_reason == "stop" else "length",
            forced_tokens=answer.forced_tokens,
            forward_passes=answer.forward_passes,
            turns_left_out=answer.turns_left_out,
        )

    async def _delta(self, passed: Passed, facts: list[CitedFact]) -> Delta:
        if passed.span is None:
            return Delta(text=passed.text, in_fact=passed.in_fact)
        span: Span = passed.span
        linked: LinkedFact = await self.look_up(self._links, span.fact)
        facts.append(CitedFact(fact=span.fact, linked=linked, start=span.start, stop=span.stop))
        return Delta(text=passed.text, in_fact=True, fact=facts[-1])

    def _links(self, fact: Any) -> LinkedFact:
        links = getattr(self.index, "links", unlinked)
        return links(fact)

    def _finished(
        self,
        order: Order,
        transcript: Transcript,
        facts: Sequence[CitedFact],
        written: Continuation,
        stream: CountedStream,
    ) -> Finished:
        text, marker, unknown = transcript.text, self.prompt.marker, self.prompt.unknown
        start = marker_start(text, marker, *transcript.after_facts)
        answer, reason = written.answer, written.reason
        if transcript.is_stopped:
            answer = (
                ""
                if order.prompt is not None
                else final_answer(text, marker, [one.fact for one in facts], self._trigger)
            )
            reason = "stop"
        return Finished(
            text=text,
            answer=answer,
            answer_start=len(text) if start is None else start,
            facts=tuple(facts),
            queries=written.queries,
            unknown=bool(unknown) and answer == unknown,
            told=written.told,
            reason=reason,
            prompt_tokens=stream.prompt_tokens,
            tokens=stream.tokens,
            forced_tokens=written.forced_tokens,
            forward_passes=written.forward_passes,
            turns_left_out=written.turns_left_out,
        )


def _joined(passed: Sequence[Passed]) -> list[Passed]:
    """Return the same text in as few pieces as possible: a piece ends with each fact.

    >>> [one.text for one in _joined([Passed("a"), Passed("b"), Passed("c", in_fact=True)])]
    ['ab', 'c']
    """
    found: list[Passed] = []
    for one in passed:
        last = found[-1] if found else None
        if last is not None and last.span is None and last.in_fact == one.in_fact:
            found[-1] = Passed(last.text + one.text, one.in_fact, one.span)
        else:
            found.append(one)
    return found
