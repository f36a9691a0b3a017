"""The scheduler: it writes texts, each a job, with few passes of the model for all of them.

A text is a job whose generator yields requests. Between two passes, jobs join as far as the engine has room for them,
continue with what the pass found, and leave when they are done or cancelled. They continue in threads, together, since
they look up facts, and beside a pass of other jobs if that takes long.

A pass takes what the jobs want, in an amount that lets nobody wait for long: a job with many ids to read, such as a
newcomer with its prompt, reads them in chunks while others write.
"""

import copy
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Condition, Lock, get_ident
from typing import Any

from refactx.engines.engine import CloseTree, Engine, Feed, FeedTree, Forget, KeepPath, OpenTree, Request, Steps
from refactx.errors import RefactxError

PASS_IDS = 16
"""The fixed cost of a pass, as the number of ids that take as long (docs/results/benchmarks.md, "Engines")."""

CHUNK_IDS = 256
"""The most ids that a pass reads of the chunks of several jobs, unless each has one id alone."""

LONGEST_PASS = 1024
"""The most ids of a single job that a pass reads: the memory of a pass grows with their square."""

PASS_SECONDS = 0.005
"""For how many seconds a pass waits for a job that looks up facts."""

THREADS = min(8, 2 * (os.cpu_count() or 1))


@dataclass(slots=True, eq=False, kw_only=True)
class Job:
    """A text to write.

    `steps`: its requests (`TextWriter.write`); `begin`: called between two passes, returns its sequence in the engine;
    `examples`: sequences that have read examples, which the job's trees may continue;
    `end`: called with its sequence when the text has ended; `room`: the most ids that it may need in the engine, besides
    what it shares with others.

    `continued`: sequences of others that it continues, which stay as long as it runs; `passes`: how many forward passes
    read ids for it; `seconds`: from its beginning to its end, when it `is_done`; `error`: what ended it before its end;
    `is_cancelled`: set this to end it before the next pass; `cancelled`: asked before each pass, from any thread, ends it
    once it returns True.
    """

    steps: Steps[None]
    begin: Callable[[], int]
    examples: Sequence[int] = ()
    end: Callable[[int], object] = lambda sequence: None
    room: int = 0
    continued: list[int] = field(default_factory=list)
    passes: int = 0
    seconds: float = 0.0
    error: BaseException | None = None
    is_done: bool = False
    is_cancelled: bool = False
    cancelled: Callable[[], bool] = lambda: False
    has_ended: bool = field(default=False, init=False)
    request: Request | None = field(default=None, init=False)
    _sequence: int | None = field(default=None, init=False)
    _trees: set[int] = field(default_factory=set, init=False)
    _answer: Any = field(default=None, init=False)
    _started: float = field(default=0.0, init=False)
    _read: int = field(default=0, init=False)

    @property
    def sequence(self) -> int:
        """Its sequence in the engine. Raise ValueError before it has begun and after its end."""
        if self._sequence is None:
            raise ValueError("the job has no sequence: it has not begun, or it has ended")
        return self._sequence

    @property
    def is_to_leave(self) -> bool:
        """Whether it is to end before the next pass."""
        return self.has_ended or self.is_cancelled or self.cancelled()

    @property
    def unread(self) -> int:
        """How many ids of its `Feed` the model has not read; 0 if it asks for something else."""
        return len(self.request.ids) - self._read if isinstance(self.request, Feed) else 0

    def start(self) -> None:
        """Take a sequence of the engine."""
        self._started = time.perf_counter()
        self._sequence = self.begin()

    def proceed(self) -> None:
        """Continue up to the next request. This may run in any thread, beside passes of the engine.

        An error ends the job; one that is not an Exception, such as KeyboardInterrupt, is raised too.
        """
        try:
            self.request = self.steps.send(self._answer)
            self._answer = None
        except StopIteration:
            self.has_ended = True
        except BaseException as error:
            self.fail(error)
            if not isinstance(error, Exception):
                raise

    def fail(self, error: BaseException) -> None:
        """End the job before its end."""
        self.error, self.has_ended = error, True

    def manage(self, engine: Engine) -> bool:
        """Answer a request that needs the engine but no pass. Return whether there was one."""
        match self.request:
            case Forget(count):
                engine.forget(self.sequence, count)
            case OpenTree(ahead, of_examples):
                self._answer = self._open(engine, ahead, of_examples)
            case KeepPath(tree, path):
                self._trees.discard(tree)
                self._answer = engine.keep(tree, path)
            case CloseTree(tree):
                self._trees.discard(tree)
                engine.close(tree)
            case _:
                return False
        return True

    def feed(self, width: int) -> tuple[int, Feed]:
        """Return what a pass reads of its `Feed`: at most `width` ids, unless logits are wanted after more."""
        asked = self.request
        if not isinstance(asked, Feed):
            raise ValueError(f"the job asks for {asked}, not for ids to be read")
        left = asked.ids[self._read :]
        if len(left) > max(width, asked.last):
            left = left[: max(1, min(width, len(left) - asked.last))]
            self._read += len(left)
            return self.sequence, Feed(left)
        self._read = len(asked.ids)
        return self.sequence, Feed(left, asked.last, asked.allowed)

    def take(self, found: Any) -> bool:
        """Take what a pass found for it. Return whether that is the answer: else a part of its `Feed` is left."""
        self.passes += 1
        if isinstance(self.request, Feed):
            if self._read < len(self.request.ids):
                return False
            self._read = 0
        elif not isinstance(self.request, FeedTree):
            raise ValueError(f"the job asks for {self.request}, which no pass reads")
        self._answer = found
        return True

    def release(self, engine: Engine) -> None:
        """Give back what it has in the engine. Then it is done; an error is in it."""
        try:
            self.steps.close()
            if self.error is None and self._sequence is not None:
                self.end(self._sequence)
        except Exception as error:
            self.fail(error)
        finally:
            self._give_back(engine)

    def _give_back(self, engine: Engine) -> None:
        self.seconds = time.perf_counter() - self._started if self._started else 0.0
        trees, sequence, self._sequence = list(self._trees), self._sequence, None
        self._trees.clear()
        try:
            for tree in trees:
                engine.close(tree)
            if sequence is not None:
                engine.drop(sequence)
        except Exception as error:
            self.fail(error)
        finally:
            self.is_done = True

    def _open(self, engine: Engine, ahead: Sequence[int], of_examples: int | None) -> int:
        if of_examples is not None and of_examples >= len(self.examples):
            raise ValueError(f"a tree of examples {of_examples} was asked for, but the job has {len(self.examples)}")
        tree = engine.tree(self.sequence if of_examples is None else self.examples[of_examples], ahead)
        self._trees.add(tree)
        return tree


class Scheduler:
    """The jobs of one engine. Any number of threads may call `run`; one at a time makes a pass, for the jobs of all.

    `reserved`: how many ids sequences besides those of jobs hold in the engine. `in_threads`: let several jobs continue
    in threads of their own; else they continue in the thread that makes the pass, as functions of a caller may expect.

        scheduler = Scheduler(engine)
        scheduler.run([job, another])
        job.error  # None if it came to its end
    """

    def __init__(self, engine: Engine, *, in_threads: bool = True) -> None:
        self.engine, self.reserved, self._in_threads = engine, 0, in_threads
        self._turn, self._door = Condition(), Lock()
        self._passing: int | None = None  # the thread that makes a pass: it changes with `_turn`
        self._waiting: list[Job] = []  # they have not begun
        self._running: list[Job] = []
        self._looking: dict[Future[None], Job] = {}  # those of `_running` that look up facts in a thread
        self._pool: ThreadPoolExecutor | None = None

    def submit(self, jobs: Iterable[Job]) -> None:
        """Let jobs join. They are written by the passes of `run`, whoever calls it."""
        with self._door:
            self._waiting += jobs

    def run(self, jobs: Sequence[Job]) -> None:
        """Write jobs to their ends, with those of other threads. Their errors are in them.

        An exception of the engine ends all jobs that the pass has read for. One that is not an Exception, such as
        KeyboardInterrupt, ends all jobs that have begun, and is raised.
        """
        self.submit(jobs)
        try:
            self.run_until(lambda: all(job.is_done for job in jobs))
        except BaseException:
            for job in jobs:
                job.is_cancelled = True
            raise

    def run_until(self, is_enough: Callable[[], bool]) -> None:
        """Write the jobs that were submitted until `is_enough` returns True. Errors are as in `run`.

        Raises RuntimeError if a function that is called while a text is written calls this, or if no job is left.
        """
        if self.is_passing:
            raise RuntimeError("a function that is called while a text is written cannot write another with this model")
        while True:
            try:
                with self._turn:
                    self._turn.wait_for(lambda: self._passing is None or is_enough())
                    if is_enough():
                        return
                    if not (self._running or self._waiting):
                        raise RuntimeError("no text is left to write, and what was waited for has not happened")
                    self._passing = get_ident()
                self._pass()
            finally:
                with self._turn:
                    if self.is_passing:
                        self._passing = None
                        self._turn.notify_all()

    @property
    def is_passing(self) -> bool:
        """Whether this thread makes a pass."""
        return self._passing == get_ident()

    @property
    def running(self) -> Sequence[Job]:
        """The jobs that have begun and not ended. It is asked for between two passes alone."""
        return self._running

    def _pass(self) -> None:
        """Let the jobs continue, and make one pass for those that want to read."""
        try:
            self._admit()
            self._continue()
            ready = [job for job in self._running if job not in self._looking.values()]
            if ready:
                try:
                    self._read(ready)
                except Exception as error:
                    self._fail(ready, error)
            elif self._looking:
                wait(self._looking, timeout=PASS_SECONDS, return_when=FIRST_COMPLETED)
        except BaseException as error:
            self._fail(self._running, error)
            raise

    def _fail(self, jobs: Sequence[Job], error: BaseException) -> None:
        """End jobs before their ends. Those that look up facts leave after that."""
        for job in jobs:
            own = error
            if isinstance(error, RefactxError):  # a copy, since each job adds the output of its own to it
                own = copy.copy(error).with_traceback(error.__traceback__)
                own.partial, own.__cause__ = None, error.__cause__
            job.fail(own)
        self._leave()

    def _admit(self) -> None:
        """Let waiting jobs begin, in their order, as far as there is room."""
        while (job := self._next()) is not None:
            if job not in self._running:
                job.release(self.engine)
                continue
            try:
                job.start()
            except Exception as error:
                job.fail(error)

    def _next(self) -> Job | None:
        """Take a waiting job: one that is cancelled, or the first if there is room for it."""
        with self._door:
            cancelled = job = next((job for job in self._waiting if job.is_to_leave), None)
            if job is None and self._waiting:
                first, capacity, most = self._waiting[0], self.engine.capacity, self.engine.most_texts
                room = self.reserved + sum(other.room for other in self._running) + first.room
                fits = (most is None or len(self._running) < most) and (capacity is None or room <= capacity)
                job = first if fits or not self._running else None
            if job is not None:
                if job is not cancelled:
                    self._running.append(job)
                self._waiting.remove(job)
            return job

    def _continue(self) -> None:
        """Let all jobs that have an answer continue to their next request for a pass, or to their end."""
        self._take_looked()
        fresh = [job for job in self._running if job.request is None]
        while True:
            self._look([job for job in fresh if not (job.has_ended or job in self._looking.values())])
            fresh = [job for job in self._running if self._manage(job)]
            if not fresh:
                return self._leave()

    def _manage(self, job: Job) -> bool:
        """Answer a request of a job that needs the engine but no pass. Return whether there was one."""
        if job.has_ended or job in self._looking.values():
            return False
        try:
            return job.manage(self.engine)
        except Exception as error:
            job.fail(error)
            return False

    def _look(self, jobs: Sequence[Job]) -> None:
        """Let jobs continue to requests that need the engine: the only one in this thread, several in threads.

        Those whose lookups take long go on beside the next passes.
        """
        if (len(self._running) == 1 or not self._in_threads) and jobs:
            for job in jobs:
                job.proceed()
            return None
        if self._pool is None and jobs:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="refactx-lookups")
        begun = {self._pool.submit(job.proceed): job for job in jobs} if self._pool is not None else {}
        self._looking |= begun
        left, has_progress = set(begun), True
        while left and has_progress:
            done, left = wait(left, timeout=PASS_SECONDS, return_when=FIRST_COMPLETED)
            has_progress = bool(done)
        return self._take_looked()

    def _take_looked(self) -> None:
        """Take those jobs back that have looked up their facts. Raise what one raised that is not an Exception."""
        done = [future for future in self._looking if future.done()]
        for future in done:
            del self._looking[future]
        for future in done:
            future.result()

    def _read(self, jobs: Sequence[Job]) -> None:
        """Make one pass for jobs that ask for one."""
        feeding = [job for job in jobs if isinstance(job.request, Feed)]
        asking = [job for job in jobs if isinstance(job.request, FeedTree)]
        unread = [job.unread for job in feeding]
        width = 1  # the most ids of a job that the pass reads
        if unread:
            width = best_width(unread) if self.engine.pads else max(unread)
            width = min(width, LONGEST_PASS if len(self._running) == 1 else fair_width(unread, CHUNK_IDS))
        feeds = [job.feed(width) for job in feeding]
        trees = [job.request for job in asking if isinstance(job.request, FeedTree)]
        logits, found = self.engine.feed(feeds, trees)
        for job, answer in (*zip(feeding, logits, strict=True), *zip(asking, found, strict=True)):
            if job.take(answer):
                job.request = None

    def _leave(self) -> None:
        """Let jobs leave that are done or cancelled."""
        for job in [job for job in self._running if job not in self._looking.values()]:
            if job.is_to_leave:
                job.release(self.engine)
                self._running.remove(job)


def run_jobs(scheduler: Scheduler, jobs: Sequence[Job]) -> None:
    """Write jobs to their ends. Raise the first error that ended one, after all have ended."""
    scheduler.run(jobs)
    for job in jobs:
        if job.error is not None:
            raise job.error


def fair_width(unread: Sequence[int], most: int) -> int:
    """Return how many ids of each job a pass reads at most, so that they are at most `most` together; at least 1.

    Jobs with few unread ids are read whole, and those with many share what is left.

    >>> fair_width([1, 1, 100, 300], 256), fair_width([5, 5], 256), fair_width([9] * 999, 256)
    (154, 5, 1)
    """
    left = most
    for place, count in enumerate(sorted(unread)):
        share = left // (len(unread) - place)
        if count > share:
            return max(1, share)
        left -= count
    return max(unread)


def best_width(unread: Sequence[int]) -> int:
    """Return the most efficient width of a pass that reads a rectangle, the most ids per time, given the number of
    unread ids of each row.

    The width is the most ids of a row that a pass reads. Rows with fewer ids are padded.

    >>> best_width([1, 1, 1, 30]), best_width([30])
    (30, 30)
    >>> best_width([1] * 15 + [30])
    1
    """

    def rate(width: int) -> float:
        return sum(min(count, width) for count in unread) / (PASS_IDS + width * len(unread))

    return max(sorted(set(unread)), key=rate)
