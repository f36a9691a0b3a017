"""A memo of what was computed from an index, with a bound, which is forgotten when the index changes."""

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Memo(Generic[Value]):
    """A memo of at most `most` values; the one that was not used for the longest time leaves first.

    `state`: returns a value that changes whenever all others have to be computed again. Safe to share between threads.

    >>> memo = Memo(2, lambda: None)
    >>> [memo.get(key, lambda: key.upper()) for key in "aba"]
    ['A', 'B', 'A']
    """

    def __init__(self, most: int, state: Callable[[], object]) -> None:
        self._most, self._state_of, self._state = most, state, state()
        self._lock = threading.Lock()
        self._values: dict[Hashable, Value] = {}  # the one used last at the end

    def get(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """Return the value of a key, which `compute` returns if it is not there. Raises as `compute` does."""
        state = self._state_of()
        with self._lock:
            if state != self._state:
                self._state, self._values = state, {}
            if key in self._values:
                value = self._values[key] = self._values.pop(key)
                return value
        value = compute()  # without the lock, since it may wait for the database
        with self._lock:
            if state == self._state:
                self._values[key] = value
                while len(self._values) > self._most:
                    del self._values[next(iter(self._values))]
        return value
