"""The protocol of engines that run SPARQL, and their results.

The terms of results are pyoxigraph's: `NamedNode`, `BlankNode`, `Literal` (with `datatype` and `language`) and, in
RDF 1.2, `Triple`. They compare as RDF terms do and can be used as keys; `str` writes one as N-Triples does.

A call into pyoxigraph cannot be stopped, and Ctrl-C does not reach it. So it runs in a thread of its own, while the
caller waits as long as it wants to. A process does not wait for such threads when it ends.
"""

import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeAlias, TypeVar

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from refactx.errors import InputError, RefactxError

Term: TypeAlias = NamedNode | BlankNode | Literal | Triple
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Rows:
    """The result of a SELECT.

    `variables`: the names of the columns, without `?`; `rows`: a term for each column, None for a variable without a
    value, in the order of the engine, with duplicates; `truncated`: whether there are more rows, which the limit left
    out. An engine may also be unable to tell that all were found: then `reason` says why, and `truncated` is true.
    `note`: what else is to be known of them.
    """

    variables: tuple[str, ...]
    rows: Sequence[tuple[Term | None, ...]]
    truncated: bool = False
    reason: str = ""
    note: str = ""


Result: TypeAlias = Rows | bool
"""The result of a query: the rows of a SELECT, or the truth of an ASK."""


class SparqlEngine(Protocol):
    """What runs queries. `name`: what messages call it: `tree`, `store`, or an endpoint's URL without its password."""

    @property
    def name(self) -> str: ...

    def run(self, query: str, *, limit: int | None = None, seconds: float | None = None) -> Result:
        """Run a SELECT or ASK with IRIs (`wd:Q42`, not names) and return its result.

        The usual prefixes of Wikidata need no declaration. `limit`: the most rows, None for all; `seconds`: the most
        time, None for the engine's default.

        Raises SparqlSyntaxError if the query is not SPARQL; QueryRefusedError if it is neither SELECT nor ASK, or more
        than this engine can answer; EngineTimeoutError after `seconds`; EngineError if the engine fails otherwise.
        """
        ...

    def close(self) -> None:
        """Release connections and files. The engine cannot be used afterwards."""
        ...


class SparqlSyntaxError(InputError):
    """A query that is not SPARQL. The message has the line and the column of the error."""


class QueryRefusedError(InputError):
    """A query that is SPARQL, but not for this engine: an update, or a part that it cannot answer."""


class UnknownFunctionError(QueryRefusedError):
    """A query with a function that is not one of SPARQL 1.1."""


class EngineError(RefactxError):
    """An engine that cannot answer now: an endpoint that is down or refuses, a store that is damaged."""


class UnavailableError(EngineError):
    """An endpoint that answers no query now: it is down, has had too many, is at another address, or refuses access."""


class UnreachableError(UnavailableError):
    """An endpoint to which no connection can be made."""


class EngineTimeoutError(EngineError):
    """A query that takes longer than it may."""


class Left(Exception):  # noqa: N818  # not an error, but that nobody waits any more
    """Raised in a call that nobody waits for."""


class WorkerCall:
    """A call that runs in a worker. `check`: raises Left if nobody waits for it any more."""

    def __init__(self, function: "Callable[[WorkerCall], Any]") -> None:
        self.function, self.is_left = function, False
        self.outcome: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def check(self) -> None:
        if self.is_left:
            raise Left


class Worker:
    """A thread for calls. Several threads may use it: their calls wait for each other.

    >>> within(60, lambda: 1 + 1)
    2
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[WorkerCall | None] | None = None
        self._lock = threading.Lock()

    def run(self, function: Callable[[WorkerCall], Value], seconds: float) -> Value:
        """Return what a function returns, or raise what it raises. Raises TimeoutError after some seconds.

        Then, and after an interrupt, the call is left alone, and the next one has another thread.
        """
        call = WorkerCall(function)
        with self._lock:
            if self._calls is None:
                self._calls = SimpleQueue()
                threading.Thread(target=_work, args=(self._calls,), daemon=True).start()
            self._calls.put(call)
            try:
                value, error = call.outcome.get(timeout=min(seconds, threading.TIMEOUT_MAX))
            except BaseException as stopped:
                call.is_left, self._calls = True, None
                if isinstance(stopped, Empty):
                    raise TimeoutError from None
                raise
        if error is not None:
            raise error
        result: Value = value
        return result

    def close(self) -> None:
        """End the thread after its call."""
        with self._lock:
            if self._calls is not None:
                self._calls.put(None)
                self._calls = None


def within(seconds: float, function: Callable[[], Value]) -> Value:
    """Return what a function returns that runs in a thread of its own. Raises as `Worker.run` does."""
    worker = Worker()
    try:
        return worker.run(lambda call: function(), seconds)
    finally:
        worker.close()


def _work(calls: "SimpleQueue[WorkerCall | None]") -> None:
    while (call := calls.get()) is not None:
        try:
            call.outcome.put((call.function(call), None))
        except BaseException as error:  # the caller's to handle
            # Results of pyoxigraph, which its frames hold, must end in the thread that made them.
            traceback.clear_frames(error.__traceback__)
            call.outcome.put((None, error))
        if call.is_left:
            return
        del call
