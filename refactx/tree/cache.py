"""A cache bounded in bytes, cheap to read, safe to share between threads."""

import threading
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    @property
    def nbytes(self) -> int:
        """Bytes of memory that the value takes."""
        ...


Value = TypeVar("Value", bound=Sized)


class ByteCache(Generic[Value]):
    """Two generations, an approximation of least-recently-used: what is read in the old one moves to the young one; when
    the young one holds half of `limit` bytes it becomes the old one, and what was left in that is forgotten.

    A read of a young entry is one dictionary look-up without a lock. Another `limit` holds from the next `put` on.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._young: dict[Hashable, Value] = {}
        self._old: dict[Hashable, Value] = {}
        self._young_bytes = self._old_bytes = 0

    def get(self, key: Hashable) -> Value | None:
        """The value, or None."""
        value = self._young.get(key)
        if value is None:
            value = self._old.get(key)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: Hashable, value: Value) -> None:
        """Keep a value, unless it alone would take more than half of the cache."""
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
        """Forget everything."""
        with self._lock:
            self._young, self._old = {}, {}
            self._young_bytes = self._old_bytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes held now (an entry that moved up counts in both generations)."""
        return self._young_bytes + self._old_bytes
