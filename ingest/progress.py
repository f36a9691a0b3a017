"""Progress bars and durations of the steps of a command."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

Advance = Callable[[str, int, int], object]
"""Called with a step's name, how much of it was done since the last call, and how much there is in total."""


class Clock:
    """The durations of steps, in seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure a block as a step."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = time.perf_counter() - start


def timings(seconds: dict[str, float]) -> dict[str, Any]:
    """Return seconds by step as the commands print them.

    >>> timings({"read": 1.0, "join": 0.25})
    {'seconds': 1.25, 'seconds_by_step': {'read': 1.0, 'join': 0.25}}
    """
    return {
        "seconds": round(sum(seconds.values()), 3),
        "seconds_by_step": {step: round(each, 3) for step, each in seconds.items()},
    }


class ProgressBars:
    """Progress bars on standard error, one for each step, if `shown` and if that is a terminal."""

    def __init__(self, shown: bool) -> None:
        self._disable = None if shown else True
        self._bars: dict[str, tqdm[Any]] = {}

    def advance(self, step: str, done: int, total: int) -> None:
        """Move the bar of a step by `done` of `total`; an `Advance`."""
        if step not in self._bars:
            self._bars[step] = tqdm(total=total, desc=step, unit=" facts", unit_scale=True, disable=self._disable)
        self._bars[step].update(done)

    def __enter__(self) -> "ProgressBars":
        return self

    def __exit__(self, *exception: object) -> None:
        for bar in self._bars.values():
            bar.close()
        self._bars.clear()
