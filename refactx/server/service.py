"""The model, the prompt and the index of a server, and the texts that they write for requests."""

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Event as Flag
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from refactx.ask.answer import final_answer, marker_start, unlinked
from refactx.ask.asker import Asker, FactIndex, language_model
from refactx.ask.chat_server import ChatServer
from refactx.ask.checked import ONLY_CHATS, CheckedAsker
from refactx.ask.examples import prompt_for
from refactx.ask.prompt import Example, Generation, Prompt
from refactx.ask.writer import BatchWriter, TextRequest, WritingOptions
from refactx.decoding.stream import FormPiece, TextPiece
from refactx.engines.engine import LanguageModel
from refactx.engines.writer import ScoreLog
from refactx.errors import DatabaseError, InputError, RefactxError
from refactx.index.index import Index
from refactx.index.open import connect
from refactx.paths import is_file_name
from refactx.postgres.entry import Limits
from refactx.selection.beams import FactBeams
from refactx.server.forms import Forms, JsonForm
from refactx.server.http import RETRY_SECONDS, ApiError, RequestSlot, RequestSlots, api_error, bad_request
from refactx.server.metrics import Metrics
from refactx.server.texts import (
    CitedFact,
    CountedStream,
    Event,
    Finished,
    Piece,
    ServingOptions,
    ThreadedStream,
    Transcripts,
    Value,
    Work,
    answer_alone,
    joined,
    scores_of,
)
from refactx.server.tools import ToolOrder, Tools
from refactx.walks import TreeFacts

if TYPE_CHECKING:
    from refactx.ingest import FactWriter
    from refactx.postgres.database import Database
    from refactx.sparql.packs.translator import Translator


_log = logging.getLogger(__name__)

USUAL_SECONDS, AWAY_SECONDS = 2.0, 0.5
"""The time between two questions to a database that answers, and to one that does not."""
LIMITS = Limits(lookup=2.0, outage=0.0)
LOOKUP_THREADS = 4
QUERY_THREADS, MOST_QUERIES = 16, 64
"""Queries of SPARQL that run or wait for a process, and those together with the ones that wait for a thread."""


class Availability:
    """The state of a database. `ask`: raises RefactxError if it does not answer; None: there is no database. Services of one
    index may share it.

    Requests are refused at once while it is away, instead of waiting for it; the embedded server is started again.
    """

    def __init__(self, ask: Callable[[], object] | None) -> None:
        self._ask, self._stop = ask, Flag()
        self._error: RefactxError | None = None
        self._since, self._followed = monotonic(), dict[int, Thread]()
        self._thread = Thread(target=self._watch, name="refactx-database", daemon=True)
        if ask is not None:
            self._thread.start()

    @property
    def error(self) -> RefactxError | None:
        """Why the database does not answer; None if it does."""
        return self._error

    def check(self) -> None:
        """Raise ApiError (503) while the database does not answer."""
        if (error := self._error) is not None:
            raise api_error(DatabaseError(str(error)))

    def note(self, error: BaseException) -> None:
        """Take note of the error of a request: if it is that the database is away, others are refused from now on."""
        if isinstance(error, DatabaseError) and self._ask is not None:
            self._error = error

    def follow(self, index: Index, seconds: float) -> None:
        """Refresh an index every few `seconds`, once for all that follow it here, while the database answers."""
        if id(index) not in self._followed:
            thread = Thread(target=self._refresh, args=(index, seconds), name="refactx-following", daemon=True)
            self._followed[id(index)] = thread
            thread.start()

    def close(self) -> None:
        """Ask no more, and refresh nothing."""
        self._stop.set()
        for thread in self._followed.values():
            thread.join(5)
        if self._thread.is_alive():
            self._thread.join(math.ceil(LIMITS.lookup or 0) + 2)

    def _refresh(self, index: Index, seconds: float) -> None:
        """Refresh an index. An error is logged when it is new: requests have it too."""
        reported = ""
        while not self._stop.wait(seconds):
            if self._error is not None:
                continue
            try:
                index.refresh()
                reported = ""
            except RefactxError as error:
                if (text := f"{type(error).__name__}: {error}") != reported:
                    reported = text
                    _log.warning("the index cannot be refreshed: %s", error)

    def _watch(self) -> None:
        while not self._stop.wait(USUAL_SECONDS if self._error is None else AWAY_SECONDS):
            before, self._error = self._error, self._asked()
            if (before is None) != (self._error is None):
                seconds, self._since = monotonic() - self._since, monotonic()
                state = "answers again" if self._error is None else f"does not answer ({self._error})"
                _log.warning("the database %s, after %.1f s", state, seconds)

    def _asked(self) -> RefactxError | None:
        try:
            if self._ask is not None:
                self._ask()
        except RefactxError as error:
            return error
        return None


class DatabaseChecks:
    """Questions to a database, over connections that all share, which are opened when the first is needed. Close it."""

    def __init__(self, db: str | None) -> None:
        self._db, self._opened = db, cast("tuple[Database, Callable[[], object]] | None", None)

    def of(self, index: str) -> Callable[[], object] | None:
        """Return what asks the database whether it has an index, or several; None if all are files.

        Raises DatabaseError if it cannot be reached now.
        """
        names = [name.strip() for name in index.split(",") if not is_file_name(name.strip())]
        if not names:
            return None
        from refactx.postgres.catalogue import find_index  # psycopg, which a file does not need

        self._opened = self._opened or connect(self._db, LIMITS)
        database, _ = self._opened
        return lambda: [find_index(database, name) for name in names]

    def close(self) -> None:
        if self._opened is not None:
            database, release = self._opened
            database.close()
            release()


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationOrder:
    """A text that a request asks for: the answer to `question`, or if there is a `prompt`, its continuation.

    `history`, `system`, `free`: as in `Asker.ask`; `stop`: texts that end it, outside of facts; `answer_alone`: what stands
    before the answer is reasoning; `form`: that of the answer, before which all else is reasoning;
    `calls`: those of tools that may come in place of a text; `scores`: how many likeliest tokens are told at each place,
    with how likely each one of the text was; None: none.
    """

    generation: Generation
    question: str = ""
    history: Sequence[Example] = ()
    system: str = ""
    prompt: str | Sequence[int] | None = None
    free: bool = False
    stop: Sequence[str] = ()
    answer_alone: bool = False
    form: JsonForm | None = None
    calls: ToolOrder | None = None
    scores: int | None = None


class Scoring:
    """What writes by the scores of tokens: a `model` of ours or on a server that scores ids, its `asker`, and what writes
    continuations, answers in forms and calls of tools. `name`: that of the model, for errors."""

    def __init__(self, model: LanguageModel, tokenizer: Any, index: FactIndex, prompt: Prompt, name: str) -> None:
        self.model, self.asker = model, Asker(model, tokenizer, index, prompt)
        self.forms = Forms(model, self.asker, index)
        self.tools = Tools(model, self.forms, index, name)
        self._tokenizer, self._index = tokenizer, index

    @cached_property
    def _writer(self) -> BatchWriter:
        return BatchWriter(self.model, self._index)

    def continuation(
        self,
        prompt: str | Sequence[int],
        order: GenerationOrder,
        stream: CountedStream,
        cancelled: Callable[[], bool],
    ) -> Finished:
        """Write the text after a prompt, given as text or ids, which may end within a fact: by the model itself or by beams,
        as there is no channel without a question.

        Raises InputError for a prompt that is empty, too long, or has ids that the model does not have, and for a model
        without an engine.
        """
        generation = order.generation
        if self.model.engine is None:
            raise InputError("continuations of prompts need a decoder-only model with a cache that can be shared")
        ids = self._ids(prompt)
        room = self.model.room
        if room is not None and len(ids) >= room:
            raise InputError(
                f"the prompt has {len(ids)} tokens, but the model takes at most {room}: give a shorter one"
            )
        most = generation.max_new_tokens if room is None else min(generation.max_new_tokens, room - len(ids))
        beams = generation.fact_beams
        options = WritingOptions(
            is_end=lambda ids: False,
            answer_line=lambda ids, likeliest: (),
            free=order.free,
            sampling=generation.sampling,
            cancelled=cancelled,
            streamer=stream,
            fact_beams=FactBeams(beams, length_penalty=generation.fact_length_penalty) if beams else None,
            max_facts=generation.max_facts,
        )
        written = self._writer.write_one(TextRequest(prompt=ids, max_new_tokens=most), options)
        stream.end()
        has_ended = bool(written.ids) and written.ids[-1] in self.model.ends
        return Finished(
            reason="stop" if has_ended else "length", forced_tokens=written.forced, forward_passes=written.passes
        )

    def _ids(self, prompt: str | Sequence[int]) -> list[int]:
        if isinstance(prompt, str):
            ids = self._tokenizer.encode(prompt.encode("utf-8", "replace").decode())
        else:
            ids, known = list(prompt), len(self.model.token_bytes)
            if not all(0 <= number < known for number in ids):
                raise InputError(f"the prompt has ids that the model does not have: give ids of 0 to {known - 1}")
        if not ids:
            raise InputError("the prompt is empty: give at least one token")
        return list(map(int, ids))


def writes_together(model: LanguageModel | ChatServer) -> bool:
    """Return whether several texts can be written at a time: models of ours without an engine write one."""
    return isinstance(model, ChatServer) or model.engine is not None


class TextService:
    """The texts of one model, which may be on a server that only chats, over one index. Close it.

    `availability`: of the index's database; `translator`: by the same model, for the endpoint of a domain pack; `slots`:
    those of other services, which share their limits, None: of its own.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        index: FactIndex,
        options: ServingOptions,
        *,
        prompt: Prompt | None = None,
        availability: Availability | None = None,
        translator: "Translator | None" = None,
        slots: RequestSlots | None = None,
    ) -> None:
        self.prompt, self.index, self.options = prompt or prompt_for(None, index), index, options
        self.index_name = index.name if isinstance(index, Index) else None
        self.model: LanguageModel | ChatServer = model
        self.asker: Asker | CheckedAsker
        self._scoring: Scoring | None = None
        if isinstance(model, ChatServer):
            self.asker = CheckedAsker(model, cast(Index, index), self.prompt)
        else:
            self.model = language_model(model, tokenizer)
            self._scoring = Scoring(self.model, tokenizer, index, self.prompt, options.name)
            self.asker = self._scoring.asker
        if options.think and not self.asker.can_think:
            raise InputError("the model cannot be told to think before it answers: leave out think")
        self.availability = availability or Availability(None)
        self.slots = slots or RequestSlots(
            options.max_running if writes_together(self.model) else 1, options.max_waiting
        )
        self.metrics = Metrics(options.short or options.name, self.index_name or "")
        self.is_warm, self.translator = False, translator
        self.facts = TreeFacts(index) if isinstance(index, Index) else None
        """The facts as queries need them; None if they are in no database."""
        self.writer: FactWriter | None = None
        """What writes single facts; None: nobody may."""
        if isinstance(index, Index):
            self.availability.follow(index, options.refresh)
        self._writers = ThreadPoolExecutor(options.max_running, thread_name_prefix="refactx-text")
        self.lookups = ThreadPoolExecutor(LOOKUP_THREADS, thread_name_prefix="refactx-facts")
        self._queries = ThreadPoolExecutor(QUERY_THREADS, thread_name_prefix="refactx-sparql")
        self._queries_left = MOST_QUERIES

    def warm_up(self) -> None:
        """Let the model read what all prompts have in common, so that the first request need not wait for it."""
        if self._scoring is not None:
            self._scoring.asker.ask("?", max_new_tokens=1, think=min(1, self.options.think))
        self.is_warm = True

    def scoring(self, field: str) -> Scoring:
        """Return what writes by scores. Raise ApiError (400) about a `field` of a request if the model only chats."""
        if self._scoring is None:
            raise bad_request(ONLY_CHATS.format(field), field, "unsupported_parameter")
        return self._scoring

    def close(self) -> None:
        """End its threads, which must have nothing to do any more."""
        self._writers.shutdown(wait=False, cancel_futures=True)
        self.lookups.shutdown(wait=False, cancel_futures=True)
        self._queries.shutdown(wait=False, cancel_futures=True)
        self.availability.close()

    def take_slots(self, orders: Sequence[GenerationOrder]) -> list[RequestSlot]:
        """Return a place for each of the texts of one request. Raise ApiError if there is none for one of them, or if the
        database is away."""
        found = list[RequestSlot]()
        try:
            for order in orders:
                if not order.free:
                    self.availability.check()
                found.append(self.slots.take())
        except ApiError:
            for slot in found:
                slot.release()
            raise
        return found

    async def look_up(self, read: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that looks up facts, in a thread. Raise what it raises."""
        return await self._in_thread(self.lookups, read, *arguments)

    async def run_query(self, read: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that runs a query of SPARQL, in a thread beside those of look-ups. Raise what it raises, and
        ApiError (429) if too many wait."""
        if self._queries_left == 0:
            said = f"{MOST_QUERIES} queries run or wait: send this one again in {RETRY_SECONDS} s"
            raise ApiError(429, said, code="rate_limit_exceeded", headers={"Retry-After": str(RETRY_SECONDS)})
        self._queries_left -= 1
        try:
            return await self._in_thread(self._queries, read, *arguments)
        finally:
            self._queries_left += 1

    async def _in_thread(self, threads: ThreadPoolExecutor, read: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, read, *arguments)
        except Exception as error:
            self.availability.note(error)
            raise

    @asynccontextmanager
    async def live(self, work: Work[Piece, Value], slot: RequestSlot) -> AsyncIterator[ThreadedStream[Piece, Value]]:
        """Begin work that needs the model, in a thread, when its turn has come.

        The slot is released when the thread has ended; the work is told to end when the block is left.
        """
        slot.is_used, live = True, cast("ThreadedStream[Piece, Value] | None", None)
        try:
            await slot.turn()
            live = ThreadedStream(self._writers, work, slot.release)
            yield live
        except Exception as error:
            self.availability.note(error)
            raise
        finally:
            if live is None:
                slot.release()
            else:
                live.cancel()

    async def compute(self, work: Callable[[Callable[[], bool]], Value], slot: RequestSlot) -> Value:
        """Call `work` as `live` does, given what says whether to end. Return what it returns."""
        whole: Work[object, Value] = lambda _, stops: work(stops)  # noqa: E731 - its type
        async with self.live(whole, slot) as live:
            async for _ in live.bursts():
                pass
            return live.value

    def write(self, order: GenerationOrder, slot: RequestSlot) -> AsyncGenerator[Event, None]:
        """Write a text when its turn has come. Yield its pieces, and what it was at the end.

        The slot is released when it has ended; if the iteration is closed, it ends before the next pass of the model.
        Raises RefactxError as `Asker.ask` does.
        """
        events = self._events(order, slot)
        if order.form is not None:
            return answer_alone(events, None)
        return answer_alone(events, self.prompt.marker) if order.answer_alone else events

    async def _events(self, order: GenerationOrder, slot: RequestSlot) -> AsyncGenerator[Event, None]:
        stream, facts = CountedStream(None if order.scores is None else ScoreLog(order.scores)), list[CitedFact]()
        transcripts = Transcripts("" if order.free else self._trigger, order.stop, strips=order.prompt is None)
        work: Work[TextPiece | FormPiece, Finished] = lambda put, stops: self._written(order, stream, put, stops)  # noqa: E731
        async with self.live(work, slot) as live:
            started, first = time.monotonic(), cast("float | None", None)
            async for burst in live.bursts():
                first = first or time.monotonic()
                for passed in joined(one for piece in burst for one in transcripts.add(piece)):
                    yield await self._linked(passed, facts)
                if transcripts.answer.is_stopped:
                    live.cancel()
            written = live.value
            for passed in joined(transcripts.end(is_whole=written.reason == "stop")):
                yield await self._linked(passed, facts)
            finished = self._finished(order, transcripts, facts, written, stream)
            self.metrics.record(finished, started, first)
            yield finished

    @property
    def _trigger(self) -> str:
        return str(getattr(self.index, "trigger", self.prompt.trigger))

    def _written(
        self,
        order: GenerationOrder,
        stream: CountedStream,
        put: Callable[[TextPiece | FormPiece], None],
        stops: Callable[[], bool],
    ) -> Finished:
        """Write a text, in a thread. What stands before a form may take half of the tokens."""
        if isinstance(self.asker, CheckedAsker):
            return self._checked(self.asker, order, stream, put, stops)
        own, generation = self.scoring("model"), order.generation
        if order.prompt is not None:
            stream.begin(own.asker.stream(put, order.free, think=None))
            return own.continuation(order.prompt, order, stream, stops)
        if order.calls is not None:
            stream.begin(own.asker.stream(put, order.free, think=None))
            replies = order.form is None
            called = own.tools.write(order.calls, generation, stream, stops, free=order.free, replies=replies)
            if called is not None:
                return called
        stream.begin(own.asker.stream(put, order.free, think=generation.think))
        most = generation.max_new_tokens
        answer = own.asker.ask(
            order.question,
            generation if order.form is None else replace(generation, max_new_tokens=max(1, most // 2)),
            history=order.history,
            system=order.system,
            free=order.free,
            streamer=stream,
            cancelled=stops,
        )
        finished = Finished(
            reason="stop" if answer.finish_reason == "stop" else "length",
            forced_tokens=answer.forced_tokens,
            forward_passes=answer.forward_passes,
        )
        if answer.finish_reason == "interrupted":
            stream.end()
        elif order.form is not None:
            left = max(1, most - (answer.tokens - answer.thought_tokens))
            options = replace(generation, max_new_tokens=left)
            finished = own.forms.write(
                order.form, answer, options, put, history=order.history, system=order.system, cancelled=stops
            )
        return replace(
            finished,
            answer=answer.answer,
            named=answer.named,
            queries=answer.queries,
            confidence=answer.confidence,
            turns_left_out=answer.turns_left_out,
            thought_tokens=answer.thought_tokens,
        )

    @staticmethod
    def _checked(
        asker: CheckedAsker,
        order: GenerationOrder,
        stream: CountedStream,
        put: Callable[[TextPiece], None],
        stops: Callable[[], bool],
    ) -> Finished:
        """Let a model that only chats write a text, and pass it on when its facts were checked."""
        given = order.question, order.generation, order.history, order.system
        written = asker.write(*given, free=order.free, cancelled=stops)
        stream.prompt_tokens, stream.tokens = written.usage.prompt, written.usage.written
        for piece in written.pieces:
            put(piece)
        return Finished(
            answer=written.answer.answer,
            reason="stop" if written.answer.finish_reason == "stop" else "length",
            forced_tokens=0,
            forward_passes=written.answer.forward_passes,
        )

    async def _linked(self, piece: TextPiece | FormPiece, facts: list[CitedFact]) -> TextPiece | FormPiece:
        """Return a piece; one that ends a fact has its ids, and is added to `facts`."""
        if isinstance(piece, CitedFact):
            piece = replace(piece, linked=await self.look_up(getattr(self.index, "links", unlinked), piece.fact))
            facts.append(piece)
        return piece

    def _finished(
        self,
        order: GenerationOrder,
        transcripts: Transcripts,
        facts: Sequence[CitedFact],
        written: Finished,
        stream: CountedStream,
    ) -> Finished:
        transcript = transcripts.answer
        text, marker, unknown = transcript.text, self.prompt.marker, self.prompt.unknown
        start = marker_start(text, marker, *transcript.after_facts)
        own = {one.fact.text for one in facts if not one.in_thought}
        answer, reason = written.answer, written.reason
        if transcript.is_stopped:
            answer = (
                ""
                if order.prompt is not None
                else final_answer(text, marker, [one.fact for one in facts if not one.in_thought], self._trigger)
            )
            reason = "stop"
        scores = stream.scores
        return replace(
            written,
            text=text,
            answer=answer,
            answer_start=len(text) if start is None or order.form else start,
            facts=tuple(one for one in facts if not one.in_thought or one.fact.text not in own),
            unknown=bool(unknown) and (written.named or answer) == unknown,
            reason=reason,
            prompt_tokens=stream.prompt_tokens,
            tokens=stream.tokens + written.tokens,
            thought=transcripts.thought.text,
            calls=() if transcript.is_stopped else written.calls,
            scores=None
            if scores is None
            else scores_of(scores.found, self.scoring("logprobs").model.token_bytes, text),
            form=None if order.form is None else written.form or "",
            unheld={} if order.calls is None else order.calls.form.unheld,
        )
