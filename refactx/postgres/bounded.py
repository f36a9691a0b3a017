"""A connection that does not wait for ever: for a server that is frozen, which does not mind its own statement timeout."""

import select
import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg import pq
from psycopg.abc import PQGen

Value = TypeVar("Value")


class BoundedConnection(psycopg.Connection[Any]):
    """A connection on which waiting for the server ends after `answer_seconds` (None: never) with an OperationalError."""

    answer_seconds: float | None = None

    def wait(self, gen: PQGen[Value], interval: float = 0.1, timeout: float | None = None) -> Value:
        """As `psycopg.Connection.wait`, which all that waits goes through. (`timeout`: of psycopg 3.3 and later.)"""
        own = {} if timeout is None else {"timeout": timeout}
        bounded = gen if self.answer_seconds is None else _until(gen, self.answer_seconds)
        return super().wait(bounded, interval, **own)

    def result(self) -> pq.abc.PGresult | None:
        """The result of what was sent by `pgconn`, None if there is none: the same for libpq's own interface."""
        pgconn = self.pgconn
        poll = None
        while pgconn.is_busy():
            if poll is None:
                poll = select.poll()
                poll.register(pgconn.socket, select.POLLIN)
            if not poll.poll(None if self.answer_seconds is None else self.answer_seconds * 1000):
                raise _no_answer(self.answer_seconds)
            pgconn.consume_input()
        result = pgconn.get_result()
        while pgconn.get_result() is not None:  # to the end: the connection is free again
            pass
        return result


def _until(gen: PQGen[Value], seconds: float) -> Generator[Any, Any, Value]:
    """The same generator, until nothing was ready for so long."""
    deadline = time.monotonic() + seconds
    try:
        state = next(gen)
        while True:
            ready = yield state
            if ready:
                deadline = time.monotonic() + seconds
            elif time.monotonic() > deadline:
                gen.close()
                raise _no_answer(seconds)
            state = gen.send(ready)
    except StopIteration as end:
        value: Value = end.value
        return value


def _no_answer(seconds: float | None) -> psycopg.OperationalError:
    return psycopg.OperationalError(f"the server gives no answer, since {seconds:g} s")
