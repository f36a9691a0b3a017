"""A connection with a time limit of its own: a frozen server does not apply its statement timeout."""

import select
import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg import pq
from psycopg.abc import PQGen

Value = TypeVar("Value")


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that raises OperationalError if the server does not answer for `answer_seconds` (None: no limit)."""

    answer_seconds: float | None = None

    def wait(self, gen: PQGen[Value], interval: float = 0.1, timeout: float | None = None) -> Value:
        """Wait as `psycopg.Connection.wait` does, which every method of psycopg calls, within the limit.

        `timeout` is an argument of psycopg 3.3 and later.
        """
        own = {} if timeout is None else {"timeout": timeout}
        bounded = gen if self.answer_seconds is None else _bound(gen, self.answer_seconds)
        return super().wait(bounded, interval, **own)

    def result(self) -> pq.abc.PGresult | None:
        """Return the result of a command that was sent through `pgconn`, within the limit; None if there is none."""
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
        while pgconn.get_result() is not None:  # after the last result the connection is free
            pass
        return result


def _bound(gen: PQGen[Value], seconds: float) -> Generator[Any, Any, Value]:
    """Run a generator of psycopg's. Raise OperationalError if nothing is ready for `seconds`."""
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
    return psycopg.OperationalError(f"the server has not answered for {seconds:g} s")
