"""What endpoints reply: results, or the reason why there are none."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from itertools import islice

from pyoxigraph import QueryBoolean, QueryResultsFormat, parse_query_results

from refactx.fact import visible
from refactx.sparql.engines.address import EXAMPLE
from refactx.sparql.engines.engine import EngineError, EngineTimeoutError, Result, Rows, SparqlSyntaxError, Term

ACCEPTED = "application/sparql-results+json, application/sparql-results+xml;q=0.5"
_ALIKE = {
    "application/json": QueryResultsFormat.JSON,
    "text/xml": QueryResultsFormat.XML,
    "application/xml": QueryResultsFormat.XML,
}
_BUSY = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT})
_SHOWN = 200


class TryAgain(Exception):  # noqa: N818  # the endpoint may answer later
    """A reply that may be another one later. `error`: what to raise if it is not; `after`: seconds to wait, or 0."""

    def __init__(self, error: EngineError, after: float = 0.0) -> None:
        super().__init__(str(error))
        self.error, self.after = error, after


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply of an endpoint. `kind`: its media type, in lower case; `retry_after`: that header; `name`: the
    endpoint's, for messages."""

    name: str
    status: int
    kind: str
    body: bytes
    retry_after: str = ""

    def result(self, limit: int | None) -> Result:
        """Return the result that the reply has, with at most `limit` rows.

        Raises TryAgain for an endpoint that is busy; EngineTimeoutError, SparqlSyntaxError or EngineError for another
        reply without a result.
        """
        if self.status != HTTPStatus.OK:
            raise self._refusal()
        form = QueryResultsFormat.from_media_type(self.kind) or _ALIKE.get(self.kind)
        if form is None:
            what = "a web page (HTML)" if self._is_html else f"{visible(self.kind) or 'data of an unknown kind'}"
            raise EngineError(
                f"{self.name} answered with {what} in place of results: is this the address of a SPARQL endpoint, such as "
                f"{EXAMPLE}?"
            )
        try:
            return self._read(form, limit)
        except (SyntaxError, ValueError, OSError) as error:
            if b"TimeoutException" in self.body[-100_000:]:  # Blazegraph's, in the middle of results
                raise EngineTimeoutError(f"{self.name} ended the query, which takes too long there") from None
            raise EngineError(
                f"the results of {self.name} cannot be read: {_line(str(error))}: run the query again"
            ) from None

    def _read(self, form: QueryResultsFormat, limit: int | None) -> Result:
        found = parse_query_results(self.body, format=form)
        if isinstance(found, QueryBoolean):
            return bool(found)
        rows: list[tuple[Term | None, ...]] = [
            tuple(row) for row in islice(found, None if limit is None else limit + 1)
        ]
        variables = tuple(variable.value for variable in found.variables)
        return Rows(variables, rows[:limit], truncated=limit is not None and len(rows) > limit)

    def _refusal(self) -> Exception:
        if self.status == HTTPStatus.TOO_MANY_REQUESTS:
            after = seconds_of(self.retry_after)
            wait = f"asks to wait {after:,.0f} seconds" if after else "asks to wait"
            return TryAgain(
                EngineError(f"{self.name} had too many queries (HTTP 429), and {wait}: run the query later"), after
            )
        if self.status in _BUSY:
            error = EngineError(f"{self.name} is down or busy ({self._status}): run the query later")
            return TryAgain(error, seconds_of(self.retry_after))
        if b"TimeoutException" in self.body or b"timed out" in self.body.lower():
            return EngineTimeoutError(
                f"{self.name} ended the query, which takes too long there: bind more, or ask for less"
            )
        said = self._said()
        if self.status == HTTPStatus.BAD_REQUEST:
            return SparqlSyntaxError(f"{self.name} refused the query: {said or self._status}")
        if self.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED):
            return EngineError(f"{self.name} refuses access ({self._status}): does it need a user and a password?")
        if self.status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE, HTTPStatus.METHOD_NOT_ALLOWED):
            return EngineError(f"{self.name} is no endpoint ({self._status}): expected an address such as {EXAMPLE}")
        return EngineError(f"{self.name} answered {self._status}{f': {said}' if said else ''}")

    @property
    def _status(self) -> str:
        try:
            return f"HTTP {self.status} {HTTPStatus(self.status).phrase}"
        except ValueError:
            return f"HTTP {self.status}"

    @property
    def _is_html(self) -> bool:
        return "html" in self.kind or self.body.lstrip()[:20].lower().startswith((b"<!doctype html", b"<html"))

    def _said(self) -> str:
        """Return the line of an error's text that says most; empty for a web page."""
        if self._is_html:
            return ""
        lines = [line.strip() for line in self.body[:20_000].decode("utf-8", "replace").splitlines() if line.strip()]
        best = next((line for line in lines if "Exception: " in line), lines[0] if lines else "")
        return _line(best.rpartition("Exception: ")[2])


def seconds_of(retry_after: str) -> float:
    """Return the seconds that a header Retry-After asks to wait: a number, or a date; 0 if it is neither.

    >>> seconds_of("120"), seconds_of("soon"), seconds_of("Wed, 21 Oct 2015 07:28:00 GMT")
    (120.0, 0.0, 0.0)
    """
    if re.fullmatch(r"\s*\d{1,9}\s*", retry_after, re.ASCII):
        return float(retry_after)
    try:
        moment = parsedate_to_datetime(retry_after)
    except ValueError:
        return 0.0
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _line(text: str) -> str:
    line = " ".join(visible(text).split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
