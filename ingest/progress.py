"""How far a step is, and how long it took."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

Advance = Callable[[str, int, int], object]
"""Called with the step, how much of it was done since its last call, and how much there is in all."""


class Clock:
    """How long each step took, in seconds."""

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
    """Seconds by step, as the commands print them."""
    return {
        "seconds": round(sum(seconds.values()), 3),
        "seconds_by_step": {step: round(each, 3) for step, each in seconds.items()},
    }


class Progress:
    """A progress bar a step, on standard error, where that is a terminal."""

    def __init__(self, quiet: bool) -> None:
        self._disable = True if quiet else None
        self._bars: dict[str, tqdm[Any]] = {}

    def advance(self, step: str, done: int, total: int) -> None:
        """So much more of a step is done."""
        if step not in self._bars:
            self._bars[step] = tqdm(total=total, desc=step, unit=" facts", unit_scale=True, disable=self._disable)
        self._bars[step].update(done)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exception: object) -> None:
        for bar in self._bars.values():
            bar.close()
        self._bars.clear()
