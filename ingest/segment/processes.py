"""Ranges of facts, cut by processes side by side: each is a Python that runs this module.

Parent and child send pickles through pipes: first what all ranges share, then a range at a time, and for each its
pieces, or the error that they ended with. A child whose parent is gone ends after its range.
(`multiprocessing` would run the main module of the user's program again.)
"""

import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from queue import SimpleQueue
from typing import BinaryIO

from refactx.errors import RefactxError
from refactx.ingest.segment.levels import Entries
from refactx.ingest.segment.packing import Packing, Shape
from refactx.ingest.segment.ranges import CutRange, cut_range

AHEAD = 2
"""The most ranges a process that are cut and wait to be taken: each has some 15 MB of rows."""


def cut_in_processes(
    facts: Entries, ranges: Sequence[tuple[int, int]], packing: Packing, shape: Shape, processes: int
) -> Iterator[CutRange]:
    """Yield the pieces of ranges, in order, as `cut_range` returns them. `facts` can be pickled.

    Raises RefactxError if a process is killed, and whatever `cut_range` raises.
    """
    setup = pickle.dumps((facts, packing, shape))
    with ExitStack() as stack:
        free = SimpleQueue[_Cutter]()
        for _ in range(min(processes, len(ranges))):
            free.put(stack.enter_context(_Cutter(setup)))
        pool = stack.enter_context(ThreadPoolExecutor(processes))
        waiting = deque[Future[CutRange]]()
        stack.callback(lambda: [future.cancel() for future in waiting])

        def cut(bounds: tuple[int, int]) -> CutRange:
            cutter = free.get()
            try:
                return cutter.cut(*bounds)
            finally:
                free.put(cutter)

        left = iter(ranges)
        for bounds in left:
            waiting.append(pool.submit(cut, bounds))
            if len(waiting) > AHEAD * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


class _Cutter:
    """A process that cuts ranges, one at a time. Use it in a `with` block."""

    def __init__(self, setup: bytes) -> None:
        self._setup = setup

    def __enter__(self) -> "_Cutter":
        path = os.pathsep.join(filter(None, sys.path))
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def cut(self, start: int, stop: int) -> CutRange:
        """Return the pieces of a range. Raises as `cut_in_processes`."""
        given, found = self._process.stdin, self._process.stdout
        if given is None or found is None:
            raise ValueError("the process has no pipes")
        try:
            if self._setup:
                given.write(self._setup)
                self._setup = b""
            given.write(pickle.dumps((start, stop)))
            given.flush()
            result = pickle.load(found)  # noqa: S301 (the other end of the pipe is this module)
        except (BrokenPipeError, EOFError, pickle.UnpicklingError) as error:
            status = self._process.wait()
            ended = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
            raise RefactxError(
                f"a process that cuts the tree {ended}: if memory is short, give fewer --workers; the same command continues"
            ) from error
        if isinstance(result, BaseException):
            raise result
        if not isinstance(result, CutRange):
            raise TypeError(f"a process that cuts the tree sent {type(result).__name__}")
        return result


def _serve(given: BinaryIO, out: BinaryIO) -> None:
    """Cut the ranges that the parent asks for, until it closes the pipe."""
    facts, packing, shape = pickle.load(given)  # noqa: S301 (as above)
    with suppress(EOFError, BrokenPipeError):
        while True:
            start, stop = pickle.load(given)  # noqa: S301 (as above)
            result: CutRange | Exception
            try:
                result = cut_range(facts, start, stop, packing, shape)
            except Exception as error:
                result = error
            pickle.dump(result, out, pickle.HIGHEST_PROTOCOL)
            out.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal: the parent ends this one
    _serve(sys.stdin.buffer, sys.stdout.buffer)
