"""A text that a thread writes, read by an event loop while it is written."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from threading import Event
from typing import Generic, TypeVar

from refactx.decoding.stream import TextPiece

Value = TypeVar("Value")
Write = Callable[[Callable[[TextPiece], None], Callable[[], bool]], Value]
"""A function that writes a text: it is given what takes pieces, and what says whether to end."""


class LiveText(Generic[Value]):
    """A text that `write` writes in a thread of `pool`. `on_end`: called in the event loop when the thread has ended."""

    def __init__(self, pool: Executor, write: Write[Value], on_end: Callable[[], object] = lambda: None) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), Event()
        self._queue: asyncio.Queue[TextPiece | None] = asyncio.Queue()
        self._on_end = on_end
        self._future: Future[Value] = pool.submit(write, self._put, self._stop.is_set)
        self._future.add_done_callback(lambda _: self._call(self._end))

    async def bursts(self) -> AsyncIterator[list[TextPiece]]:
        """Yield the pieces of the text, those that came at a time together. Raise what the thread raised."""
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
        """What `write` returned, after the last piece."""
        return self._future.result()

    def cancel(self) -> None:
        """End the text before the next pass of the model."""
        self._stop.set()

    def _put(self, piece: TextPiece) -> None:
        self._call(self._queue.put_nowait, piece)

    def _end(self) -> None:
        self._queue.put_nowait(None)
        self._on_end()

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop was closed: nobody reads
            self._loop.call_soon_threadsafe(function, *arguments)
