"""A function applied to many items in processes side by side: each is a Python that runs `refactx.ingest.parallel.child`.

Parent and child send pickles through pipes: first the function and what all items share, then an item at a time, and for
each its result, or the error that it ended with. A child whose parent is gone ends after its item.
(`multiprocessing` would run the main module of the user's program again.)
"""

import os
import pickle
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

CHILD = "refactx.ingest.parallel.child"

AHEAD = 2
"""The most results a process that wait to be taken."""

_Item = TypeVar("_Item")
_Shared = TypeVar("_Shared")
_Result = TypeVar("_Result")


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
    setup = pickle.dumps((function, shared), pickle.HIGHEST_PROTOCOL)
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(processes))
        waiting, free, begun = deque[Future[_Result]](), SimpleQueue[_Process](), 0
        stack.callback(lambda: [future.cancel() for future in waiting])

        def run(item: _Item) -> _Result:
            process = free.get()
            try:
                result: _Result = process.run(item)
                return result
            finally:
                free.put(process)

        for item in items:
            if begun < processes:
                free.put(stack.enter_context(_Process(setup)))
                begun += 1
            waiting.append(pool.submit(run, item))
            if len(waiting) > AHEAD * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


class _Process:
    """A process that runs one item at a time. Use it in a `with` block."""

    def __init__(self, setup: bytes) -> None:
        self._setup = setup

    def __enter__(self) -> "_Process":
        path = os.pathsep.join(filter(None, sys.path))
        self._process = subprocess.Popen(
            # -P: nothing is imported from the working folder, which may be of others.
            [sys.executable, "-P", "-m", CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, item: object) -> Any:
        """Return the result of an item. Raises as `in_processes`."""
        given, found = self._process.stdin, self._process.stdout
        if given is None or found is None:
            raise ValueError("the process has no pipes")
        try:
            if self._setup:
                given.write(self._setup)
                self._setup = b""
            pickle.dump(item, given, pickle.HIGHEST_PROTOCOL)
            given.flush()
            is_right, result = pickle.load(found)  # noqa: S301 (the other end of the pipe is a child)
        except (BrokenPipeError, EOFError, pickle.UnpicklingError) as error:
            status = self._process.wait()
            ended = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
            raise RefactxError(
                f"a process of the ingest {ended}: if memory is short, give fewer --workers; the same command continues"
            ) from error
        if is_right:
            return result
        raise result
