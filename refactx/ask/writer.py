"""The writer of texts over an engine, and the sequences that texts share.

A text is a job of the engine's scheduler. It sees the index as it was when the text began (`PinnedSource`). Prefixes and
examples of prompts are read once for all texts (`SharedEngine`), and what was read of a conversation is kept for its next
turn.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from refactx.ask.thinking import ThinkingChooser, Thought
from refactx.decoding.machine import Machine
from refactx.decoding.states import Constraint, FactLimit, FactSource, Free, FreeText, LineConstraint, Written
from refactx.decoding.stream import Partial
from refactx.decoding.thoughts import ThoughtTokens
from refactx.engines.engine import Engine, FactChooser, LanguageModel
from refactx.engines.scheduler import Job, Scheduler
from refactx.engines.writer import (
    GREEDY_SAMPLING,
    Capabilities,
    Hooks,
    Row,
    Sampler,
    Sampling,
    ScoreLog,
    TextWriter,
    common_length,
)
from refactx.errors import IndexNotFoundError, RefactxError
from refactx.fact import Fact
from refactx.selection.beams import FactBeams, choose_strategy
from refactx.selection.channel import Channel
from refactx.selection.plain import FreeChooser, PlainChooser
from refactx.selection.query_answers import OwnQueries, QueryWriter
from refactx.tree.tree import Children

MOST_SHARED = 8
"""The most sequences that texts of an engine continue, such as prefixes and examples of prompts."""
MOST_KEPT = 8
"""The most ended texts of an engine whose sequences are kept for texts that begin like them."""
LEAST_KEPT = 16
"""The fewest ids in common with a kept text that are worth continuing it."""
TREE_IDS = 2500
"""The most ids that the trees of a text are taken to have at a time: candidates with the question after each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRequest:
    """A text to write after the ids of a `prompt`: at most `max_new_tokens` ids.

    `channel`: as in `GroundedModel.generate`; `queries`: those that the model writes by itself, in place of a channel;
    `thought`: how many of the ids a thought may take before it is closed, if the prompt opens one, else 0. The answer does
    not take what the thought leaves.
    """

    prompt: Sequence[int]
    max_new_tokens: int
    channel: Channel | None = None
    queries: OwnQueries | None = None
    thought: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingOptions:
    """Options of writing texts.

    `prefix`: ids with which all prompts begin, whose keys and values are computed once; `keeps`: without a prefix,
    continue what was read of an earlier text that begins alike, and keep what is read for later ones, as far as there
    is room (for conversations that grow); `free`: without facts;
    `sampling`: how ids are picked; `num_beams`: beams over the whole text.

    `is_end`: takes the ids of a text after its prompt, int64[n], and returns whether it has ended; `answer_line`: for
    texts without facts, as `refactx.selection.plain.Line`, but with the ids after the prompt, and for the likeliest next id.
    `until`: called with the ids so far, int64[rows, length], after each id, ends all texts once it returns True;
    `cancelled`: asked before each pass of the model, ends them once it returns True; `streamer`: gets the ids as that of
    Transformers' `generate` does; if it has `scores`, a `refactx.engines.writer.ScoreLog`, that gets how likely they were.

    `thoughts`: the marks of thoughts, None if the model has none: `is_end` and `answer_line` then get the ids after a
    thought, or those so far. The others are for texts with facts, as in `GroundedModel.generate`.
    """

    is_end: Callable[[NDArray[np.int64]], bool]
    answer_line: Callable[[Sequence[int], int], Sequence[int]]
    prefix: Sequence[int] = ()
    keeps: bool = False
    free: bool = False
    sampling: Sampling = GREEDY_SAMPLING
    num_beams: int = 1
    until: Callable[[Any], bool] | None = None
    cancelled: Callable[[], bool] | None = None
    streamer: Any = None
    fact_beams: FactBeams | None = None
    max_facts: int | None = None
    after_facts: str = ""
    thoughts: ThoughtTokens | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenText:
    """A text: its `ids` after the prompt, its `facts`, whether it is whole or an error ended it, whether it was
    interrupted (`until`, `cancelled`), the forward `passes` that read ids for it, the `seconds` that it took, and how
    many ids were `forced`: by the index or a rule, without a choice of the model's. `thought`: what it says before its
    answer, and `thought_ids`, how many of the ids that took, marks included."""

    ids: list[int]
    facts: tuple[Fact, ...]
    is_whole: bool
    is_interrupted: bool
    passes: int
    seconds: float
    forced: int = 0
    thought: str = ""
    thought_ids: int = 0

    @property
    def answer_ids(self) -> list[int]:
        """The ids after the thought."""
        return self.ids[self.thought_ids :]


class WritingError(Exception):
    """The error that ended texts before their ends, with the `texts` so far."""

    def __init__(self, error: RefactxError, texts: Sequence[WrittenText]) -> None:
        super().__init__(str(error))
        self.error, self.texts = error, list(texts)


class Writer(Protocol):
    """A writer of texts with one model, over one index or none."""

    @property
    def machine(self) -> Machine | None:
        """The grammar of the facts of the index; None without an index."""
        ...

    def write(self, orders: Sequence[TextRequest], options: WritingOptions, at_once: int = 1) -> Iterator[WrittenText]:
        """Write texts, `at_once` at a time. Yield them in order.

        After `options.until` has returned True, no other text is begun, and the iteration ends with the last one that
        was. Raises WritingError if an error of the index ends a text; it has all texts that were begun and not yielded.
        """
        ...


class PinnedSource:
    """A source of facts as it is at this moment. Of an index, that is its snapshot.

    So a fact that is forgotten while a text writes it does not break the text. If the index is compacted, the tables of
    its snapshot are gone, and the text continues with the index as it is then.
    """

    def __init__(self, source: FactSource) -> None:
        self._source, self._snapshot = source, getattr(source, "snapshot", None)
        self.tokenizer, self.trigger, self.terminator = source.tokenizer, source.trigger, source.terminator

    def children(self, prefix: Sequence[int]) -> Children:
        """Return the continuations of `prefix` (token ids) in the tree."""
        if self._snapshot is not None:
            try:
                found: Children = self._snapshot.tree.children(prefix)
            except IndexNotFoundError:
                self._snapshot = None  # gone for good: each lookup in it would be a query that fails
            else:
                return found
        return self._source.children(prefix)


class SharedEngine:
    """An engine with its scheduler, and the sequences that texts of several writers continue.

    `calls`: held while a function of a caller runs, `until` or a streamer. All methods may be called between two passes
    alone, as the functions of a job are.
    """

    def __init__(self, engine: Engine) -> None:
        self.scheduler, self.calls = Scheduler(engine), Lock()
        self._shared: dict[tuple[int, ...], int] = {}  # by what they have read, the one used last at the end
        self._kept: dict[tuple[int, ...], int] = {}  # likewise; they have what room jobs leave

    def continued(self, job: Job, texts: Sequence[Sequence[int]]) -> list[int]:
        """Return sequences that have read these texts, in their order. They stay at least as long as the job runs."""
        keys, scheduler = [tuple(ids) for ids in texts], self.scheduler
        for key in keys:
            if key in self._shared:
                self._shared[key] = self._shared.pop(key)
                job.continued.append(self._shared[key])
        for key in keys:
            if key not in self._shared:
                for old in self._unused()[: max(0, len(self._shared) + 1 - MOST_SHARED)]:
                    self._release(old)
                scheduler.reserved += len(key)
                try:
                    self.make_room()
                    self._shared[key] = scheduler.engine.prefill(key)
                except BaseException:
                    scheduler.reserved -= len(key)
                    raise
                job.continued.append(self._shared[key])
        return [self._shared[key] for key in keys]

    def begun_like(self, ids: Sequence[int]) -> tuple[int, int]:
        """Return a sequence of the caller's that has read the first ids of a text, and how many; not all of them.

        It continues the kept text that has most of them in common, and has read none without such a text.
        """
        engine, near, most = self.scheduler.engine, None, LEAST_KEPT - 1
        for kept in self._kept:
            if (common := min(common_length(kept, ids), len(ids) - 1)) > most:
                near, most = kept, common
        if near is None:
            self.make_room()
            return engine.prefill(()), 0
        self.make_room(but=near)
        is_continued = 2 * most >= len(near)  # else others may continue it
        sequence = self._kept.pop(near) if is_continued or self._is_crowded() else engine.fork(self._kept[near])
        if len(near) > most:
            engine.forget(sequence, len(near) - most)
        return sequence, most

    def keep(self, sequence: int, ids: Sequence[int]) -> None:
        """Keep a copy of a sequence that has read ids, for texts that begin like them, while there is room for it."""
        engine = self.scheduler.engine
        if len(ids) < LEAST_KEPT or not engine.can_forget:
            return
        if (old := self._kept.pop(tuple(ids), None)) is not None:
            engine.drop(old)
        while len(self._kept) >= MOST_KEPT:
            engine.drop(self._kept.pop(next(iter(self._kept))))
        self._kept[tuple(ids)] = engine.fork(sequence)

    def make_room(self, but: tuple[int, ...] | None = None) -> None:
        """Release kept texts, then shared sequences that no running job continues, the oldest first, as far as running
        jobs and the other shared sequences may need their room.

        `but`: ids of a kept text that stays.
        """
        for old in [old for old in self._kept if old != but]:
            if not self._is_crowded():
                return
            self.scheduler.engine.drop(self._kept.pop(old))
        for old in self._unused():
            if not self._is_crowded():
                return
            self._release(old)

    def _unused(self) -> list[tuple[int, ...]]:
        """Return the ids of shared sequences that no running job continues, the one used last at the end."""
        used = {number for job in self.scheduler.running for number in job.continued}
        return [ids for ids, number in self._shared.items() if number not in used]

    def _release(self, ids: tuple[int, ...]) -> None:
        """Release a shared sequence."""
        self.scheduler.engine.drop(self._shared.pop(ids))
        self.scheduler.reserved -= len(ids)

    def _is_crowded(self) -> bool:
        """Whether running jobs may need more room than shared sequences and kept texts leave."""
        scheduler, capacity = self.scheduler, self.scheduler.engine.capacity
        taken = scheduler.reserved + sum(job.room for job in scheduler.running) + sum(map(len, self._kept))
        return capacity is not None and taken > capacity


_engines: WeakKeyDictionary[LanguageModel, SharedEngine] = WeakKeyDictionary()
_engines_lock = Lock()


def share(model: LanguageModel) -> SharedEngine:
    """Return a model's engine with its scheduler, the same one for each writer: one thread at a time uses an engine.

    Raises ValueError for a model without an engine.
    """
    with _engines_lock:
        if model not in _engines:
            if model.engine is None:
                raise ValueError("the model has no engine: its texts are written by generate")
            _engines[model] = SharedEngine(model.engine)
        return _engines[model]


class BatchWriter:
    """A `refactx.ask.writer.Writer` over a model's engine. Threads may share it: their texts are written together.

    `queries`: as in `refactx.Machine`; `constraint`: that of the texts, if it is not facts of an index. Raises ModelError
    as `refactx.Machine` does.
    """

    def __init__(
        self,
        model: LanguageModel,
        index: FactSource | None = None,
        *,
        queries: LineConstraint[Any] | None = None,
        constraint: Constraint[Any] | None = None,
    ) -> None:
        self._ends, self.shared = frozenset(model.ends), share(model)
        self._model = model
        self.machine = None if index is None else Machine(index, queries)
        self.constraint = constraint if self.machine is None else self.machine

    @property
    def token_bytes(self) -> Sequence[bytes]:
        """The bytes of each id, by id; empty for special tokens."""
        return self._model.token_bytes if self.machine is None else self.machine.token_bytes

    @property
    def scheduler(self) -> Scheduler:
        """The engine's scheduler."""
        return self.shared.scheduler

    def write(self, orders: Sequence[TextRequest], options: WritingOptions, at_once: int = 1) -> Iterator[WrittenText]:
        waiting, begun = deque(orders), deque[_Text]()
        try:
            while waiting or begun:
                is_stopped = any(text.is_interrupted for text in begun)
                while waiting and not is_stopped and sum(not text.job.is_done for text in begun) < at_once:
                    self._begin(waiting.popleft(), options, begun)
                if not begun:
                    return
                running = [text.job for text in begun if not text.job.is_done]
                if running:
                    self.scheduler.run_until(lambda: any(job.is_done for job in running))  # noqa: B023  # called at once
                while begun and begun[0].job.is_done and begun[0].job.error is None:
                    text = begun.popleft()
                    if text.is_interrupted:
                        waiting.clear()
                    yield text.written()
                failed = next((text for text in begun if text.job.error is not None), None)
                if failed is not None:
                    self._stop(begun)
                    raise self._error(failed.job.error, begun)
        except (Exception, GeneratorExit):
            self._stop(begun)
            raise
        except BaseException:  # such as KeyboardInterrupt: the texts leave at the next pass
            self._cancel(begun)
            raise

    def write_one(self, order: TextRequest, options: WritingOptions) -> WrittenText:
        """Write one text. Raise the error of the index that ends it."""
        try:
            (written,) = self.write([order], options)
        except WritingError as failed:
            raise failed.error from None
        return written

    @staticmethod
    def _cancel(texts: Collection["_Text"]) -> None:
        for text in texts:
            text.job.is_cancelled = True

    def _stop(self, texts: Collection["_Text"]) -> None:
        """End texts. In a function that is called while a text is written, they leave at the next pass."""
        self._cancel(texts)
        if not self.scheduler.is_passing:
            self.scheduler.run_until(lambda: all(text.job.is_done for text in texts))

    def _error(self, error: BaseException | None, texts: Collection["_Text"]) -> BaseException:
        """Return the error to raise for one that ended a text, with the texts so far."""
        if not isinstance(error, RefactxError):
            return error or RuntimeError("a text was ended by no error")
        if error.partial is None and texts:
            width = max(text.row.length for text in texts)
            ids = np.array([np.pad(text.row.written, (0, width - text.row.length)) for text in texts])
            facts = tuple(text.written().facts for text in texts)
            error.partial = Partial(ids=ids, lengths=tuple(text.row.length for text in texts), facts=facts)
        return WritingError(error, [text.written() for text in texts])

    def _begin(self, order: TextRequest, options: WritingOptions, begun: deque["_Text"]) -> None:
        try:
            text = _Text(self, order, options, self._ends)
        except RefactxError as error:  # its prompt may end in a fact that has to be looked up
            self._stop(begun)
            raise self._error(error, begun) from error
        begun.append(text)
        self.scheduler.submit([text.job])


class _Text:
    """A text that is written: its row and its job."""

    def __init__(self, writer: BatchWriter, order: TextRequest, options: WritingOptions, ends: frozenset[int]) -> None:
        self._writer, self._order, self._options, self._ends = writer, order, options, ends
        self._is_stopped = False
        self._scores: ScoreLog | None = getattr(options.streamer, "scores", None)
        prompt, length = order.prompt, len(order.prompt)
        machine = None if options.free else writer.machine
        if machine is not None:
            machine = machine.over(PinnedSource(machine.source))
        if machine is not None and options.max_facts is not None:
            encode = machine.source.tokenizer.encode
            machine = machine.limited(FactLimit.of(encode, options.max_facts, options.after_facts, sorted(ends)[:1]))
        self._machine = machine
        self._constraint: Constraint[Any] = FreeText()
        if not options.free:
            self._constraint = machine or writer.constraint or self._constraint
        self._thought = self._new_thought()
        shared = len(options.prefix)
        self._prefix = options.prefix if shared < length and list(prompt[:shared]) == list(options.prefix) else ()
        self._most = length + order.max_new_tokens
        state = self._constraint.start(prompt)
        if self._thought is not None and isinstance(state, Free):
            state = Free()  # a mark ends the prompt, whose token may have no text: no word goes on after it
        self.row = Row(prompt, state, capacity=self._most, unread=length - len(self._prefix))
        self.job = self._new_job()
        if options.streamer is not None:
            self._stream(options.streamer, self.row.written[None].copy())

    @property
    def is_interrupted(self) -> bool:
        """Whether it was ended by `until`, or by `cancelled`: then its job is done, and it is not."""
        return self._is_stopped or (self.job.is_done and self.job.error is None and not self.row.done)

    def written(self) -> WrittenText:
        """Return the text so far."""
        row, job, thought = self.row, self.job, self._thought
        return WrittenText(
            ids=row.written[len(self._order.prompt) :].tolist(),
            facts=() if self._machine is None else self._machine.facts_of(Free(facts=self._facts)),
            is_interrupted=self.is_interrupted,
            is_whole=row.done,
            passes=job.passes,
            seconds=job.seconds,
            forced=row.forced,
            thought="" if thought is None else thought.text,
            thought_ids=self._answer_start - len(self._order.prompt),
        )

    @property
    def _facts(self) -> tuple[Written, ...]:
        """The facts so far, those of a thought before those after it, each once."""
        own: tuple[Written, ...] = self.row.state.facts
        written = {fact.tokens for fact in own}
        earlier = () if self._thought is None else self._thought.facts
        return (*(fact for fact in earlier if fact.tokens not in written), *own)

    @property
    def _answer_start(self) -> int:
        """Where in the row the answer begins, after the prompt and a thought."""
        return len(self._order.prompt) + (0 if self._thought is None else self._thought.stop)

    def _new_thought(self) -> Thought | None:
        options, most = self._options, self._order.thought
        if options.thoughts is None:
            return None
        machine, answer = self._machine, list[int]()
        if machine is not None and options.after_facts:
            answer = machine.source.tokenizer.encode(options.after_facts)
        return Thought(options.thoughts, most=most, is_begun=most > 0, answer=answer)

    def _new_job(self) -> Job:
        options, engine, shared = self._options, self._writer.scheduler.engine, self._writer.shared
        chooser, queries = self._new_chooser(), self._order.queries
        if queries is not None and self._machine is not None:
            chooser = QueryWriter(self._machine, queries)
        if self._thought is not None:
            chooser = ThinkingChooser(self._thought, self._new_chooser(), chooser, self._ends, self._line)
        if engine.trees < chooser.needs:
            chooser = chooser.without_trees()
        writer = TextWriter(
            self.row,
            constraint=self._constraint,
            chooser=chooser,
            picker=Sampler(options.sampling, self._constraint.allowed, self._scores),
            hooks=Hooks(self._is_done, self._put),
            max_length=self._most,
            capabilities=Capabilities(trees=engine.trees, drafts=engine.can_forget),
        )

        def begin() -> int:
            texts = [*chooser.examples, self._prefix] if self._prefix else chooser.examples
            found = shared.continued(job, texts)
            job.examples = found[: len(chooser.examples)]
            if options.keeps and not self._prefix:
                sequence, read = shared.begun_like(self._order.prompt)
                self.row.pending = list(self._order.prompt[read:])
                return sequence
            shared.make_room()
            return engine.fork(found[-1]) if self._prefix else engine.prefill(())

        def end(sequence: int) -> None:
            if self.row.done and options.keeps and not self._prefix:
                read = self.row.length - len(self.row.pending)
                shared.keep(sequence, self.row.written[:read].tolist())

        job = Job(
            steps=writer.write(),
            begin=begin,
            end=end,
            room=self._most - len(self._prefix) + (TREE_IDS if chooser.needs else 0),
        )
        if options.cancelled is not None:
            job.cancelled = options.cancelled
        return job

    def _new_chooser(self) -> FactChooser:
        if self._machine is not None:
            return choose_strategy(self._machine, self._options.fact_beams, self._order.channel)
        return FreeChooser(self._line) if isinstance(self._constraint, FreeText) else PlainChooser(self._constraint)

    def _line(self, ids: NDArray[np.int64], likeliest: int) -> Sequence[int]:
        return self._options.answer_line(ids[self._answer_start :].tolist(), likeliest)

    def _put(self, token: int) -> None:
        if self._scores is not None:
            self._scores.add(token)
        if self._thought is not None:
            row, table = self.row, self._writer.token_bytes
            piece = table[token] if token < len(table) else b""
            row.state = self._thought.add(token, piece, row.state, row.at_fact_end)
        if self._options.streamer is not None:
            with self._writer.shared.calls:
                self._stream(self._options.streamer, np.array([token]))

    def _stream(self, streamer: Any, ids: NDArray[np.int64]) -> None:
        """Give ids to a streamer, and the state after them to one that would look it up."""
        put_in_state = getattr(streamer, "put_in_state", None)
        if put_in_state is None:
            streamer.put(ids)
        else:
            put_in_state(ids, self.row.state)

    @property
    def _limit(self) -> int:
        """The most ids of the row, as far as its thought is written."""
        tokens, thought = self._options.thoughts, self._thought
        if tokens is None or thought is None or thought.is_open:
            return self._most
        reserved = self._order.thought + len(tokens.closing) if self._order.thought else 0
        return min(self._most, self._answer_start + self._order.max_new_tokens - reserved)

    def _is_done(self, row: Row) -> bool:
        options, thought = self._options, self._thought
        with self._writer.shared.calls:
            if options.until is not None and options.until(row.written[None].copy()):
                self._is_stopped = True
            ends = self._constraint.can_end(row.state)
            if thought is not None and thought.is_open:  # it does not end the text: it is closed
                thought.repeats = thought.repeats or (ends and options.is_end(row.written[len(self._order.prompt) :]))
                ends = False
            ends = ends and (int(row.written[-1]) in self._ends or options.is_end(row.written[self._answer_start :]))
            done = ends or self._is_stopped or row.length >= self._limit
            if done and options.streamer is not None:
                options.streamer.end()
        return done
