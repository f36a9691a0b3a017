"""Prepared statements, by name or, through a pooler that does not keep names, without one.

A pooler in transaction mode may give the next statement of a client to another session, in which a name is not known
(26000), or is known already (42P05). PgBouncer knows the names of its clients from version 1.21 on, if
`max_prepared_statements` is set. The names here are made of the statements, so that one name is one statement, whoever
prepared it.
"""

import hashlib
from dataclasses import dataclass

import psycopg
from psycopg import pq

from refactx.postgres.bounded import BoundedConnection


@dataclass(frozen=True, slots=True)
class Statement:
    """A query with parameters `$1`, ... of binary values, and its name."""

    text: bytes
    name: bytes

    @classmethod
    def of(cls, text: str) -> "Statement":
        """Return the statement of a query.

        >>> Statement.of("SELECT 1").name
        b'refactx_e004ebd5b5532a4b'
        """
        return cls(text.encode(), b"refactx_" + hashlib.sha256(text.encode()).hexdigest()[:16].encode())

    def run(self, connection: BoundedConnection, values: list[bytes]) -> pq.abc.PGresult:
        """Return the result, in binary form. A statement is prepared once on a connection. Raises psycopg.Error."""
        # psycopg's low-level interface to libpq: a cursor for each lookup would double its time.
        pgconn, formats = connection.pgconn, [pq.Format.BINARY] * len(values)
        while connection.statements.are_kept:
            if self.name not in connection.prepared:
                pgconn.send_prepare(self.name, self.text)
                _check(connection.result())
                connection.prepared.add(self.name)
            pgconn.send_query_prepared(self.name, values, formats, pq.Format.BINARY)
            result = _check(connection.result())
            if result is not None:
                return result
            connection.prepared.discard(self.name)
            connection.statements.forgotten += 1
        pgconn.send_query_params(self.text, values, param_formats=formats, result_format=pq.Format.BINARY)
        result = _check(connection.result())
        if result is None:
            raise psycopg.OperationalError("a statement without a name is unknown")
        return result


def _check(result: pq.abc.PGresult | None) -> pq.abc.PGresult | None:
    """Return a successful result; None if the statement is not prepared. Raises psycopg.Error."""
    if result is None:
        raise psycopg.OperationalError("the connection was lost")
    if result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
        return result
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    if state == "26000":  # invalid_sql_statement_name
        return None
    if state == "42P05":  # duplicate_prepared_statement: prepared by another client in the session
        return result
    message = " ".join(result.error_message.decode("utf-8", "replace").split()) or "the connection was lost"
    try:
        raise psycopg.errors.lookup(state)(message)
    except KeyError:
        raise psycopg.OperationalError(message) from None
