"""A thread that runs one call after another, and is left behind by a call that takes too long.

A call into pyoxigraph cannot be stopped, and Ctrl-C does not reach it. So it runs in a thread of its own, while the
caller waits as long as it wants to. A process does not wait for such threads when it ends.
"""

import threading
import traceback
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

Value = TypeVar("Value")


class Left(Exception):  # noqa: N818  # not an error, but that nobody waits any more
    """Raised in a call that nobody waits for."""


class Call:
    """A call that runs in a worker. `check`: raises Left if nobody waits for it any more."""

    def __init__(self, function: "Callable[[Call], Any]") -> None:
        self.function, self.is_left = function, False
        self.outcome: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def check(self) -> None:
        if self.is_left:
            raise Left


class Worker:
    """A thread for calls. Several threads may use it: their calls wait for each other.

    >>> within(60, lambda: 1 + 1)
    2
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Call | None] | None = None
        self._lock = threading.Lock()

    def run(self, function: Callable[[Call], Value], seconds: float) -> Value:
        """Return what a function returns, or raise what it raises. Raises TimeoutError after some seconds.

        Then, and after an interrupt, the call is left alone, and the next one has another thread.
        """
        call = Call(function)
        with self._lock:
            if self._calls is None:
                self._calls = SimpleQueue()
                threading.Thread(target=_work, args=(self._calls,), daemon=True).start()
            self._calls.put(call)
            try:
                value, error = call.outcome.get(timeout=seconds)
            except BaseException as stopped:
                call.is_left, self._calls = True, None
                if isinstance(stopped, Empty):
                    raise TimeoutError from None
                raise
        if error is not None:
            raise error
        result: Value = value
        return result

    def close(self) -> None:
        """End the thread after its call."""
        with self._lock:
            if self._calls is not None:
                self._calls.put(None)
                self._calls = None


def within(seconds: float, function: Callable[[], Value]) -> Value:
    """Return what a function returns that runs in a thread of its own. Raises as `Worker.run` does."""
    worker = Worker()
    try:
        return worker.run(lambda call: function(), seconds)
    finally:
        worker.close()


def _work(calls: "SimpleQueue[Call | None]") -> None:
    while (call := calls.get()) is not None:
        try:
            call.outcome.put((call.function(call), None))
        except BaseException as error:  # the caller's to handle
            # Results of pyoxigraph, which its frames hold, must end in the thread that made them.
            traceback.clear_frames(error.__traceback__)
            call.outcome.put((None, error))
        if call.is_left:
            return
        del call
