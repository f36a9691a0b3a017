"""The writer of texts over an engine: a text is a job of its scheduler."""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refactx.choosing.free import FREE, FreeChooser, FreeGrammar
from refactx.choosing.strategy import choose_strategy
from refactx.decoding.machine import Machine
from refactx.decoding.partial import Partial
from refactx.decoding.second_grammar import SecondGrammar
from refactx.decoding.states import FactLimit, FactSource, InFact, InQuery, InTerminator
from refactx.engines.chooser import FactChooser
from refactx.engines.job import Job
from refactx.engines.language_model import LanguageModel
from refactx.engines.row import Abilities, Grammar, Hooks, Row, RowWriter
from refactx.engines.sampling import Sampler
from refactx.engines.scheduler import Scheduler
from refactx.errors import RefactxError
from refactx.tree.children import OFF_TREE
from refactx.writing.pinned import pinned
from refactx.writing.shared import share
from refactx.writing.texts import Ordered, WritingError, WritingOptions, WrittenText

TREE_IDS = 2500
"""The most ids that the trees of a text are taken to have at a time: candidates with the question after each."""


class TextWriter:
    """A `refactx.writing.texts.Writer` over a model's engine. Threads may share it: their texts are written together.

    `queries`: a second grammar for the index. Raises ModelError as `refactx.Machine` does.
    """

    def __init__(self, model: LanguageModel, index: FactSource | None, *, queries: SecondGrammar | None = None) -> None:
        self._ends, self.shared = frozenset(model.ends), share(model)
        self.machine = None if index is None else Machine(index, queries)

    @property
    def scheduler(self) -> Scheduler:
        """The engine's scheduler."""
        return self.shared.scheduler

    def write(self, orders: Sequence[Ordered], options: WritingOptions, at_once: int = 1) -> Iterator[WrittenText]:
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
                    self._run_until_one_is_done(running)
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

    def _run_until_one_is_done(self, jobs: Sequence[Job]) -> None:
        self.scheduler.run_until(lambda: any(job.is_done for job in jobs))

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

    def _begin(self, order: Ordered, options: WritingOptions, begun: deque["_Text"]) -> None:
        try:
            text = _Text(self, order, options, self._ends)
        except RefactxError as error:  # its prompt may end in a fact that has to be looked up
            self._stop(begun)
            raise self._error(error, begun) from error
        begun.append(text)
        self.scheduler.submit([text.job])


class _Text:
    """A text that is written: its row and its job."""

    def __init__(self, writer: TextWriter, order: Ordered, options: WritingOptions, ends: frozenset[int]) -> None:
        self._writer, self._order, self._options, self._ends = writer, order, options, ends
        self._is_stopped = False
        prompt, length = order.prompt, len(order.prompt)
        machine = None if options.free else writer.machine
        if machine is not None and options.max_facts is not None:
            encode = machine.source.tokenizer.encode
            machine = machine.limited(FactLimit.of(encode, options.max_facts, options.after_facts, sorted(ends)[:1]))
        self._machine = machine
        shared = len(options.prefix)
        self._prefix = options.prefix if shared < length and list(prompt[:shared]) == list(options.prefix) else ()
        state = FREE if machine is None else machine.run(prompt, length)
        self._most = length + order.max_new_tokens
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
        row, job = self.row, self.job
        return WrittenText(
            ids=row.written[len(self._order.prompt) :].tolist(),
            facts=() if self._machine is None else self._machine.facts_of(row.state),
            is_interrupted=self.is_interrupted,
            is_whole=row.done,
            passes=job.passes,
            seconds=job.seconds,
            forced=row.forced,
        )

    def _new_job(self) -> Job:
        options, engine, machine, shared = (
            self._options,
            self._writer.scheduler.engine,
            self._machine,
            self._writer.shared,
        )
        grammar: Grammar = FreeGrammar()
        chooser: FactChooser = FreeChooser(self._line)
        if machine is not None:
            grammar, chooser = machine, choose_strategy(machine, options.fact_beams, self._order.channel)
        if engine.trees < chooser.needs:
            chooser = chooser.without_trees()
        writer = RowWriter(
            self.row,
            grammar=grammar,
            chooser=chooser,
            picker=Sampler(options.sampling, None if machine is None else machine.allowed),
            hooks=Hooks(self._is_done, self._put),
            max_length=self._most,
            abilities=Abilities(trees=engine.trees, drafts=engine.can_forget),
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
            children=(lambda prefix: OFF_TREE) if machine is None else pinned(machine.source),
            room=self._most - len(self._prefix) + (TREE_IDS if chooser.needs else 0),
        )
        if options.cancelled is not None:
            job.cancelled = options.cancelled
        return job

    def _line(self, ids: NDArray[np.int64], likeliest: int) -> Sequence[int]:
        return self._options.answer_line(ids[len(self._order.prompt) :].tolist(), likeliest)

    def _put(self, token: int) -> None:
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

    def _is_done(self, row: Row) -> bool:
        options, length = self._options, len(self._order.prompt)
        with self._writer.shared.calls:
            if options.until is not None and options.until(row.written[None].copy()):
                self._is_stopped = True
            within = isinstance(
                row.state, InFact | InTerminator | InQuery
            )  # an id that ends texts may be part of a fact
            ends = not within and (int(row.written[-1]) in self._ends or options.is_end(row.written[length:]))
            done = ends or self._is_stopped or row.length >= self._most
            if done and options.streamer is not None:
                options.streamer.end()
        return done
