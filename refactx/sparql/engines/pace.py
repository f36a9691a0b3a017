"""The pace of queries to services that many people share: one at a time, and some time between them."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SHARED = "wikidata.org"
"""The domain of services that are asked at this pace. Wikidata's policy asks tools not to send queries side by side."""
INTERVAL = 1.0
"""Seconds from the end of a query to the next one."""


class Pace:
    """The pace of one service, for all threads of a process.

    `interval`: in seconds; `sleep`, `clock`: functions that wait, and tell the time in seconds.
    """

    def __init__(
        self,
        interval: float,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval, self._sleep, self._clock = interval, sleep, clock
        self._lock, self._next = threading.Lock(), 0.0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for one's turn, and have it during the block."""
        with self._lock:
            wait = self._next - self._clock()
            if wait > 0:
                self._sleep(wait)
            try:
                yield
            finally:
                self._next = self._clock() + self._interval


class _NoPace(Pace):
    @contextmanager
    def turn(self) -> Iterator[None]:
        yield


_FREE, _SHARED = _NoPace(0.0), Pace(INTERVAL)


def pace_of(host: str) -> Pace:
    """Return the pace at which a host is asked.

    >>> pace_of("query.wikidata.org") is pace_of("www.wikidata.org"), pace_of("localhost") is pace_of("wikidata.org")
    (True, False)
    """
    return _SHARED if host == SHARED or host.endswith(f".{SHARED}") else _FREE
