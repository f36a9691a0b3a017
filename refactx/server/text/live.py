"""Work in a thread whose pieces, such as those of a text, an event loop reads while it is done."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from threading import Event
from typing import Generic, TypeVar

Piece = TypeVar("Piece")
Value = TypeVar("Value")
Work = Callable[[Callable[[Piece], None], Callable[[], bool]], Value]
"""A function that is given what takes its pieces, and what says whether to end; it returns what came of it."""


class LiveWork(Generic[Piece, Value]):
    """Work that is done in a thread of `pool`. `on_end`: called in the event loop when the thread has ended."""

    def __init__(self, pool: Executor, work: Work[Piece, Value], on_end: Callable[[], object] = lambda: None) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), Event()
        self._queue: asyncio.Queue[Piece | None] = asyncio.Queue()
        self._on_end = on_end
        self._future: Future[Value] = pool.submit(work, self._put, self._stop.is_set)
        self._future.add_done_callback(lambda _: self._call(self._end))

    async def bursts(self) -> AsyncIterator[list[Piece]]:
        """Yield the pieces, those that came at a time together. Raise what the thread raised."""
        while True:
            burst = [await self._queue.get()]
            while not self._queue.empty():
                burst.append(self._queue.get_nowait())
            pieces = [piece for piece in burst if piece is not None]
            if pieces:
                yield pieces
            if len(pieces) < len(burst):
                self._future.result()
                return

    @property
    def value(self) -> Value:
        """What the work returned, after the last piece."""
        return self._future.result()

    def cancel(self) -> None:
        """Let the work end: a text does before the next pass of the model."""
        self._stop.set()

    def _put(self, piece: Piece) -> None:
        self._call(self._queue.put_nowait, piece)

    def _end(self) -> None:
        self._queue.put_nowait(None)
        self._on_end()

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop was closed: nobody reads
            self._loop.call_soon_threadsafe(function, *arguments)
