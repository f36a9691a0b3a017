"""A function applied to many items in processes side by side: each is a Python that runs `refactx.ingest.parallel.child`.

Parent and child send pickles through pipes: first the function and what all items share, then an item at a time, and for
each its result, or the error that it ended with. A child whose parent is gone ends after its item. What strangers send is run
in a process with limits of memory and seconds (`Process`): then neither takes the parent along.
(`multiprocessing` would run the main module of the user's program again.)
"""

import os
import pickle
import select
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Any, TypeVar

from refactx.errors import RefactxError
from refactx.locking import require_posix

CHILD = "refactx.ingest.parallel.child"

AHEAD = 2
"""The most results a process that wait to be taken."""

_Item = TypeVar("_Item")
_Shared = TypeVar("_Shared")
_Result = TypeVar("_Result")
ALONE = 5.0
"""Seconds beyond its time after which a process ends by itself, if its parent is gone."""
FEW_THREADS = {"OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
"""The environment of a process with a limit of memory: NumPy's threads reserve 64 MB, and a limit counts what is reserved."""
LONGEST = 1e6
"""The most seconds that the system's timers take."""


def in_processes(
    function: Callable[[_Shared, _Item], _Result], shared: _Shared, items: Iterable[_Item], processes: int
) -> Iterator[_Result]:
    """Yield function(shared, item) for each item, in order, from at most so many processes.

    `function`: one of a module, which is imported there; `shared` is sent to each process once. All values are pickled.
    Raises RefactxError if a process is killed, and whatever the function raises.

    >>> import operator
    >>> list(in_processes(operator.mul, 2, [1, 2, 3], 2))
    [2, 4, 6]
    """
    setup = pickled(function, shared)
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(processes))
        waiting, free, begun = deque[Future[_Result]](), SimpleQueue[Process](), 0
        stack.callback(lambda: [future.cancel() for future in waiting])

        def run(item: _Item) -> _Result:
            process = free.get()
            try:
                result: _Result = process.run(item)
                return result
            except ProcessEndedError as error:
                raise RefactxError(
                    f"a process of the ingest {error}: if memory is short, give fewer --workers; the same command continues"
                ) from error
            finally:
                free.put(process)

        for item in items:
            if begun < processes:
                free.put(stack.enter_context(Process(setup)))
                begun += 1
            waiting.append(pool.submit(run, item))
            if len(waiting) > AHEAD * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


class ProcessEndedError(Exception):
    """A process that ended before its item did. The message is a predicate: `was killed by SIGKILL`."""


def pickled(function: Callable[[_Shared, _Item], object], shared: _Shared) -> bytes:
    """Return what a process is given first: a function of a module, and what all its items share."""
    return pickle.dumps((function, shared), pickle.HIGHEST_PROTOCOL)


class Process:
    """A process that runs one item at a time. Close it, or use it in a `with` block.

    `setup`: its function and what items share (`pickled`); `memory`: the most bytes of its data. With that, what it says on
    standard error is left out, and it yields to other processes.

    >>> import operator
    >>> with Process(pickled(operator.mul, 2), memory=1 << 30) as process:
    ...     process.run(21, seconds=60)
    42
    """

    def __init__(self, setup: bytes, memory: int | None = None) -> None:
        self._setup = setup
        if memory is not None:
            require_posix("a process with limits of memory and seconds", "on Windows, run refactx in WSL")
        path = os.pathsep.join(filter(None, sys.path))
        self._process = subprocess.Popen(
            # -P: nothing is imported from the working folder, which may be of others.
            [sys.executable, "-P", "-m", CHILD, *([] if memory is None else [str(memory)])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if memory is None else subprocess.DEVNULL,  # a library that is out of memory tells its stack
            env={**os.environ, "PYTHONPATH": path, **({} if memory is None else FEW_THREADS)},
        )

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.communicate()

    def kill(self) -> None:
        """Have the process ended, from any thread: `run` raises ProcessEndedError."""
        self._process.kill()

    def has_ended(self) -> bool:
        """Return whether the process was killed between two items."""
        return self._process.poll() is not None

    def run(self, item: object, seconds: float | None = None) -> Any:
        """Return the result of an item.

        Raises what the function raises, TimeoutError after some seconds, and ProcessEndedError. After these two, and after
        an interrupt, the process is of no more use: close it.
        """
        given, found = self._process.stdin, self._process.stdout
        if given is None or found is None:
            raise ValueError("the process has no pipes")
        seconds = None if seconds is None else min(seconds, LONGEST)
        try:
            given.write(self._setup)
            self._setup = b""
            pickle.dump((item, None if seconds is None else seconds + ALONE), given, pickle.HIGHEST_PROTOCOL)
            given.flush()
            if seconds is not None:
                poll = select.poll()
                poll.register(found.fileno(), select.POLLIN)  # something to read, or the end
                if not poll.poll(seconds * 1000):
                    raise TimeoutError
            is_right, result = pickle.load(found)  # noqa: S301 (the other end of the pipe is a child)
        except (BrokenPipeError, EOFError, pickle.UnpicklingError) as error:
            status = self._process.wait()
            ended = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
            raise ProcessEndedError(ended) from error
        if is_right:
            return result
        raise result
