"""The engine on the store of an index, whose queries run in processes of their own.

A call into pyoxigraph cannot be stopped, takes any memory, and may end its process. So a query runs in a process that has
the store open, one query at a time, with limits of memory and seconds: the process is ended where a query goes beyond
them, and the next query has another one. There are few of them for all threads; they begin when they are needed, and
stay. Who waits has a turn in the order of coming; while somebody waits, a query has `SHARE` seconds.
"""

import os
import pickle
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from refactx.ingest.parallel import Process, ProcessEndedError, pickled
from refactx.iris import PREFIXES
from refactx.sparql.engines.engine import EngineError, EngineTimeoutError, QueryRefusedError, Result
from refactx.sparql.engines.store import (
    FAILURES,
    DamagedStoreError,
    ResultSizeError,
    answer,
    failed,
    standard_of,
    too_long,
)
from refactx.sparql.store.folder import damaged
from refactx.sparql.store.triples import not_compared

PROCESSES = 4
"""The most processes. An idle one takes 38 MB."""
SHARE = 5.0
"""The seconds of a query while others wait."""
_OF_VALUES = ("wdt", "ps", "pq")
_OF_DATES = re.compile(r"\bFILTER\b.*(?:dateTime|\b(?:YEAR|MONTH|DAY|NOW)\s*\()", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What a query may take: `memory`, bytes of its process; `result`, bytes of its rows, None for any number; `is_public`:
    whether it is of somebody who cannot change the limits, nor run commands here."""

    memory: int
    result: int | None = None
    is_public: bool = False


PUBLIC = QueryLimits(1 << 30, 32 << 20, is_public=True)
"""For queries of others. A DISTINCT of 2 million pairs takes 0.45 GiB."""


def own_limits() -> QueryLimits:
    """Return the limits of a user's own queries: half of the memory of this machine."""
    if not hasattr(os, "sysconf"):  # Windows
        return PUBLIC
    return QueryLimits(max(PUBLIC.memory, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2))


class _OverShareError(Exception):
    """A query that was ended so that others have their turn."""


@dataclass(eq=False, slots=True)
class _PoolMember:
    """A process of the pool: the folder of its version, its limit of memory, and when its query began."""

    path: Path
    memory: int
    process: Process
    begun: float = 0.0
    is_stopped: bool = False


@dataclass(slots=True)
class Pool:
    """At most `most` processes, each with a store open."""

    most: int = PROCESSES
    share: float = SHARE
    _idle: list[_PoolMember] = field(default_factory=list)
    _running: list[_PoolMember] = field(default_factory=list)
    _queue: deque[object] = field(default_factory=deque)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def run(self, path: Path, memory: int, item: object, seconds: float | None) -> Any:
        """Return what `answer` returns for an item.

        Raises as `answer` and `Process.run` do; the seconds count from now, so also while others have their turn.
        """
        end = None if seconds is None else time.monotonic() + seconds
        with self._member(path, memory, end) as member:
            try:
                return member.process.run(item, None if end is None else max(0.0, end - time.monotonic()))
            except ProcessEndedError:
                if member.is_stopped:
                    raise _OverShareError from None
                raise

    def end_idle(self, folder: Path, but: Path | None = None) -> None:
        """End the idle processes that have another version of a folder's store open, which then leaves the disk."""
        with self._changed:
            old = [member for member in self._idle if member.path.parent == folder and member.path != but]
            self._idle = [member for member in self._idle if member not in old]
        for member in old:
            member.process.close()

    @contextmanager
    def _member(self, path: Path, memory: int, end: float | None) -> Iterator[_PoolMember]:
        """Have a process during the block. It is ended if the block raises what its process may not have survived."""
        member, is_well = self._take(path, memory, end), False
        try:
            yield member
            is_well = True
        except (*FAILURES, QueryRefusedError, ResultSizeError) as error:
            is_well = not isinstance(error, TimeoutError)  # which is an OSError
            raise
        finally:
            if not is_well:
                member.process.close()
            with self._changed:
                self._running.remove(member)
                self._idle += [member] if is_well and not member.is_stopped else []
                self._changed.notify_all()

    def _take(self, path: Path, memory: int, end: float | None) -> _PoolMember:
        turn = object()
        with self._changed:
            self._queue.append(turn)
            try:
                while self._queue[0] is not turn or len(self._running) >= self.most:
                    self._wait(turn, end)
                member = self._of_idle(path, memory) or _PoolMember(
                    path, memory, Process(pickled(answer, str(path)), memory)
                )
                member.begun = time.monotonic()
                self._running.append(member)
                return member
            finally:
                self._queue.remove(turn)
                self._changed.notify_all()

    def _of_idle(self, path: Path, memory: int) -> _PoolMember | None:
        """Return an idle process with this store, and end one of others if there would be too many."""
        self._idle = [member for member in self._idle if not member.process.has_ended()]
        found = next((one for one in reversed(self._idle) if (one.path, one.memory) == (path, memory)), None)
        if found is not None:
            self._idle.remove(found)
        elif len(self._running) + len(self._idle) >= self.most:
            self._idle.pop(0).process.close()
        return found

    def _wait(self, turn: object, end: float | None) -> None:
        """Wait for a change. The first one who waits ends the query that has had its share. Raises TimeoutError."""
        now = time.monotonic()
        if end is not None and end <= now:
            raise TimeoutError
        until = [] if end is None else [end]
        if self._queue[0] is turn and (running := [member for member in self._running if not member.is_stopped]):
            oldest = min(running, key=lambda member: member.begun)
            if oldest.begun + self.share <= now and len(running) == self.most:
                oldest.is_stopped = True
                oldest.process.kill()
            else:
                until.append(oldest.begun + self.share)
        self._changed.wait(min(until) - now if until else None)


POOL = Pool()


class IsolatedEngine:
    """An engine on the store of an index. Several threads may use it, and their queries run side by side.

    By default a query has all the time it needs.
    """

    name = "store"

    def __init__(
        self,
        index: str,
        path: Path,
        limits: QueryLimits,
        on_close: Callable[[], object],
        odd_dates: Mapping[str, str],
    ) -> None:
        """`index`: its name; `path`: the folder of the database, which stays there until `on_close` is called; `odd_dates`:
        dates that are not compared, one for each IRI of a predicate."""
        self._index, self._path, self._limits = index, path, limits
        self._on_close, self._odd_dates = on_close, odd_dates

    def run(self, query: str, *, limit: int | None = None, seconds: float | None = None) -> Result:
        """Run a SELECT or ASK, as `refactx.sparql.engines.SparqlEngine` says. SERVICE is refused.

        Raises QueryRefusedError also for a query that takes more memory than it may, or whose rows are too large.
        """
        standard = standard_of(query)
        try:
            found = POOL.run(self._path, self._limits.memory, (standard, limit, self._limits.result), seconds)
            result: Result = pickle.loads(found)  # noqa: S301 (the other end of the pipe is a child)
        except TimeoutError:
            raise too_long(seconds or 0.0) from None
        except FAILURES as error:
            raise failed(query, error) from None
        except (MemoryError, ProcessEndedError, ResultSizeError, _OverShareError, DamagedStoreError) as error:
            raise self._ended(error) from None
        if isinstance(result, bool):
            return result
        return replace(result, note="; ".join(filter(None, (result.note, *self._notes_on(standard.sparql)))))

    def _ended(self, error: Exception) -> Exception:
        """Return the error for a query that did not end by itself."""
        if isinstance(error, _OverShareError):
            return EngineTimeoutError(
                f"the query was ended after {POOL.share:g} seconds, since other queries wait: bind more, or try again later"
            )
        if isinstance(error, ResultSizeError):
            return QueryRefusedError(
                f"the rows of this query have more than {(self._limits.result or 0) >> 20} MiB: ask for fewer rows (LIMIT) "
                "or columns"
            )
        if isinstance(error, DamagedStoreError):
            if self._limits.is_public:
                return EngineError("the store of this index cannot be read: tell the people who run this server")
            return damaged(self._index, str(error))
        if "SIGSEGV" in str(error):  # the stack ended
            return QueryRefusedError(
                "the query is nested too deeply, or its paths are too long: write it in several queries"
            )
        return QueryRefusedError(
            f"the query takes more than {self._limits.memory / (1 << 30):.3g} GiB of memory: bind more, or have shorter texts "
            "and fewer rows to sort, count or compare"
        )

    def _notes_on(self, query: str) -> Iterator[str]:
        """Yield what is to be said of dates that a query compares and that do not compare."""
        for iri, text in self._odd_dates.items() if _OF_DATES.search(query) else ():
            name = next(
                (iri.replace(PREFIXES[use], f"{use}:") for use in _OF_VALUES if iri.startswith(PREFIXES[use])), iri
            )
            if iri in query or re.search(rf"{re.escape(name)}\b", query):
                yield not_compared(name, text)

    def close(self) -> None:
        """Release the store. Its processes stay for the next engine."""
        self._on_close()
