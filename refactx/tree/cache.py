"""A cache with a bound in bytes, cheap to read, safe to share between threads."""

import threading
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    """A value that a cache can hold."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the value takes."""
        ...


Value = TypeVar("Value", bound=Sized)


class ByteCache(Generic[Value]):
    """A cache of at most `limit` bytes in two generations, an approximation of least recently used.

    An entry of the old generation moves to the young one when it is read. When the young one has half of `limit`
    bytes, it becomes the old one, and the entries that are left in the old one are dropped. Reading a young entry is
    one dictionary lookup without a lock. If `limit` is set, the next `put` uses it.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._young: dict[Hashable, Value] = {}
        self._old: dict[Hashable, Value] = {}
        self._young_bytes = self._old_bytes = 0

    def get(self, key: Hashable) -> Value | None:
        """Return the value under a key, or None."""
        value = self._young.get(key)
        if value is None:
            value = self._old.get(key)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: Hashable, value: Value) -> None:
        """Store a value, unless it would take more than half of the cache by itself."""
        size = value.nbytes
        if 2 * size > self.limit:
            return
        with self._lock:
            if key in self._young:
                return
            if 2 * (self._young_bytes + size) > self.limit:
                self._old, self._old_bytes = self._young, self._young_bytes
                self._young, self._young_bytes = {}, 0
            self._young[key] = value
            self._young_bytes += size

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._young, self._old = {}, {}
            self._young_bytes = self._old_bytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the values take (an entry that moved counts in both generations)."""
        return self._young_bytes + self._old_bytes
