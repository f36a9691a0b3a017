"""Ctrl-C as a wish: a generation ends behind the id that is being computed, and what it wrote is kept."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """For the length of the block the first Ctrl-C only makes the function that this gives return True.

    The second one raises KeyboardInterrupt, as without the block. For the main thread.
    """
    wished = False

    def wish(number: int, frame: FrameType | None) -> None:
        nonlocal wished
        if wished:
            raise KeyboardInterrupt
        wished = True

    before = signal.signal(signal.SIGINT, wish)
    try:
        yield lambda: wished
    finally:
        signal.signal(signal.SIGINT, before)
