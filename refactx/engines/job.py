"""A job: one text that a scheduler writes, with what it asks for and what it has taken so far."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from refactx.decoding.lookups import Lookup
from refactx.engines.engine import Engine, Feed, FeedTree
from refactx.engines.requests import CloseTree, Forget, KeepPath, OpenTree, Request, Steps
from refactx.tree.children import Children


@dataclass(slots=True, eq=False, kw_only=True)
class Job:
    """A text to write.

    `steps`: its requests (`RowWriter.write`); `begin`: called between two passes, returns its sequence in the engine;
    `children`: answers its lookups; `examples`: sequences that have read examples, which the job's trees may continue;
    `end`: called with its sequence when the text has ended; `room`: the most ids that it may need in the engine, besides
    what it shares with others.

    `continued`: sequences of others that it continues, which stay as long as it runs; `passes`: how many forward passes
    read ids for it; `seconds`: from its beginning to its end, when it `is_done`; `error`: what ended it before its end;
    `is_cancelled`: set this to end it before the next pass; `cancelled`: asked before each pass, from any thread, ends it
    once it returns True.
    """

    steps: Steps[None]
    begin: Callable[[], int]
    children: Callable[[Sequence[int]], Children]
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

    def look(self) -> None:
        """Continue up to a request that needs the engine. This may run in any thread, beside passes of the engine.

        An error ends the job; one that is not an Exception, such as KeyboardInterrupt, is raised too.
        """
        try:
            while True:
                self.request = self.steps.send(self._answer)
                if not isinstance(self.request, Lookup):
                    self._answer = None
                    return
                self._answer = [self.children(prefix) for prefix in self.request.prefixes]
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
        return self.sequence, Feed(left, asked.last)

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
