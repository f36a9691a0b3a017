"""The limits of how many texts are written at once, and how many requests wait for their turn."""

import asyncio
import math
import time
from collections import deque
from typing import cast

from refactx.server.http.errors import ApiError

LONGEST_RETRY = 60
"""The most seconds after which a client is told to ask again."""


class Slots:
    """The turns of requests: `most_running` at once, in the order in which they came, and `most_waiting` that wait.

    It is used by one event loop.
    """

    def __init__(self, most_running: int, most_waiting: int) -> None:
        self._most_running, self._most_waiting = most_running, most_waiting
        self._queue: deque[asyncio.Future[None]] = deque()
        self.running = 0
        self._seconds = 1.0  # of a text, on the average of the last ones

    @property
    def waiting(self) -> int:
        """How many requests wait for their turn."""
        return len(self._queue)

    def take(self) -> "Slot":
        """Return a place: its turn comes at once, or when others have ended. Raise ApiError (429) if too many wait."""
        if self.running >= self._most_running and self.waiting >= self._most_waiting:
            rounds = (self.waiting + 1) / self._most_running
            retry = max(1, min(LONGEST_RETRY, math.ceil(rounds * self._seconds)))
            raise ApiError(
                429,
                f"{self.running} texts are being written and {self.waiting} requests wait: ask again in {retry} s",
                code="rate_limit_exceeded",
                headers={"Retry-After": str(retry)},
            )
        return Slot(self)

    def enter(self) -> "asyncio.Future[None]":
        """Return what is done when the turn has come."""
        turn = asyncio.get_running_loop().create_future()
        if self.running < self._most_running:
            self.running += 1
            turn.set_result(None)
        else:
            self._queue.append(turn)
        return turn

    def leave(self, turn: "asyncio.Future[None]", seconds: float | None) -> None:
        """Give a turn back. `seconds`: how long its text took, None if none was written."""
        if turn in self._queue:
            self._queue.remove(turn)
            return
        if seconds is not None:
            self._seconds += 0.2 * (seconds - self._seconds)
        if self._queue:
            self._queue.popleft().set_result(None)
        else:
            self.running -= 1


class Slot:
    """A place of one request. Release it once, also if its turn has not come."""

    def __init__(self, slots: Slots) -> None:
        self._slots: Slots | None = slots
        self._turn, self._started = slots.enter(), cast("float | None", None)
        self.is_used = False
        """Whether what it was taken for has begun, which then releases it."""

    async def turn(self) -> None:
        """Wait for the turn."""
        await asyncio.shield(self._turn)
        self._started = time.monotonic()

    def release(self) -> None:
        """Give the place back."""
        slots, self._slots = self._slots, None
        if slots is not None:
            slots.leave(self._turn, None if self._started is None else time.monotonic() - self._started)
