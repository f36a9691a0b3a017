"""A connection with a time limit of its own: a frozen server does not apply its statement timeout."""

import select
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import pq
from psycopg.abc import PQGen

from refactx.postgres.servers.server import Server

Value = TypeVar("Value")

GRACE_SECONDS = 2.0
"""The seconds after its statement timeout in which a server may still answer, before it counts as gone."""


_FORGOTTEN = 2
"""How often a name is forgotten before no statement has one any more."""


@dataclass(slots=True)
class NamedStatements:
    """How often the connections of a pool have forgotten the name of a prepared statement."""

    forgotten: int = 0

    @property
    def are_kept(self) -> bool:
        """Whether statements are prepared by name."""
        return self.forgotten < _FORGOTTEN


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that raises OperationalError if the server does not answer for `answer_seconds` (None: no limit).

    `cancels`: ask the server to cancel the statement then, and wait for `GRACE_SECONDS` more: for a server whose own
    timeout is not set. `server`: what answers. `prepared`: the names of statements that were prepared on it;
    `statements`: whether such names are kept, for all connections of a pool.
    """

    answer_seconds: float | None = None
    cancels = False
    server: Server | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.prepared: set[bytes] = set()
        self.statements = NamedStatements()

    def wait(self, gen: PQGen[Value], interval: float = 0.1, timeout: float | None = None) -> Value:
        """Wait as `psycopg.Connection.wait` does, which every method of psycopg calls, within the limit.

        `timeout` is an argument of psycopg 3.3 and later.
        """
        own = {} if timeout is None else {"timeout": timeout}
        bounded = gen if self.answer_seconds is None else _bound(gen, self.answer_seconds, self._cancel)
        return super().wait(bounded, interval, **own)

    def result(self) -> pq.abc.PGresult | None:
        """Return the result of a command that was sent through `pgconn`, within the limit; None if there is none."""
        pgconn = self.pgconn
        poll, seconds, cancelled = None, self.answer_seconds, False
        while pgconn.is_busy():
            if poll is None:
                poll = select.poll()
                poll.register(pgconn.socket, select.POLLIN)
            if not poll.poll(None if seconds is None else seconds * 1000):
                if cancelled or not self._cancel():
                    raise _no_answer(self.answer_seconds)
                cancelled, seconds = True, GRACE_SECONDS
            pgconn.consume_input()
        result = pgconn.get_result()
        while pgconn.get_result() is not None:  # after the last result the connection is free
            pass
        return result

    def _cancel(self) -> bool:
        """Ask the server to cancel what it does, if `cancels`. Return whether it was asked."""
        if self.cancels:
            with suppress(psycopg.Error):
                self.cancel_safe(timeout=GRACE_SECONDS)
        return self.cancels


def _bound(gen: PQGen[Value], seconds: float, cancel: Callable[[], bool]) -> Generator[Any, Any, Value]:
    """Run a generator of psycopg's. Raise OperationalError if nothing is ready for `seconds`, and after `cancel`."""
    deadline, cancelled = time.monotonic() + seconds, False
    try:
        state = next(gen)
        while True:
            ready = yield state
            if ready:
                deadline = time.monotonic() + seconds
            elif time.monotonic() > deadline:
                if cancelled or not cancel():
                    gen.close()
                    raise _no_answer(seconds)
                deadline, cancelled = time.monotonic() + GRACE_SECONDS, True
            state = gen.send(ready)
    except StopIteration as end:
        value: Value = end.value
        return value


def _no_answer(seconds: float | None) -> psycopg.OperationalError:
    return psycopg.OperationalError(f"the server has not answered for {seconds:g} s")
