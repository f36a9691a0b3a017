"""The engine at a URL: any SPARQL 1.1 endpoint, asked over HTTP."""

import time
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from refactx.extras import require
from refactx.query.pgmr import with_declarations
from refactx.sparql.engines.address import read_address
from refactx.sparql.engines.engine import EngineError, EngineTimeoutError, Result
from refactx.sparql.engines.pace import pace_of
from refactx.sparql.engines.replies import ACCEPTED, Reply, TryAgain
from refactx.sparql.syntax.check import check_query, read_query
from refactx.sparql.syntax.limit import with_limit

if TYPE_CHECKING:
    from tenacity import RetryCallState

SECONDS = 60.0
"""The most time of a query, if none is given: Wikidata's service ends one after 60 seconds."""
ATTEMPTS = 5
LONGEST_URL = 2_000
"""Characters of a query in a URL: a longer one is sent as a form, since servers and proxies limit URLs."""
CONNECT_SECONDS = 10.0
FIRST_WAIT, LONGEST_WAIT = 1.0, 30.0
"""Seconds before the second attempt, and the most before a later one, unless the endpoint asks for more."""


class EndpointEngine:
    """An engine at an endpoint. Several threads may use it; Wikidata's own service is asked one query at a time.

        engine = EndpointEngine("https://query.wikidata.org/sparql")
        engine.run("SELECT ?x { wd:Q1588 wdt:P1449 ?x }")

    A reply that says that the endpoint is busy (429, 502, 503, 504), and a connection that fails, is tried again after a
    growing time, or the time that the endpoint asks for, as long as the time limit lasts.
    """

    def __init__(self, url: str, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """`url`: may have a user and a password, which are sent to that host alone; `sleep`: waits some seconds.

        Raises InputError if it is no http or https URL, or if httpx2 or tenacity is not installed.
        """
        self._address = read_address(url)
        for module in ("httpx2", "tenacity"):
            require(module, "sparql")
        import httpx2

        self._sleep, self._pace = sleep, pace_of(self._address.host)
        self._client = httpx2.Client(
            auth=self._address.user,
            headers={"Accept": ACCEPTED, "User-Agent": user_agent()},
            follow_redirects=True,
        )

    @property
    def name(self) -> str:
        """The endpoint's address, without user, password and parameters."""
        return self._address.shown

    def run(self, query: str, *, limit: int | None = None, seconds: float | None = None) -> Result:
        """Run a SELECT or ASK, as `refactx.sparql.engines.SparqlEngine` says. SERVICE is passed on.

        What is no query is refused before anything is sent. `limit` is sent as LIMIT, if the query has none.
        """
        import tenacity

        query, seconds = read_query(query), SECONDS if seconds is None else seconds
        end = time.monotonic() + seconds
        checked = check_query(query, seconds)
        if limit is not None and not checked.is_ask:
            query = with_limit(query, limit + 1)
        text = with_declarations(query)
        retrying = tenacity.Retrying(
            sleep=self._sleep,
            stop=tenacity.stop_after_attempt(ATTEMPTS) | tenacity.stop_before_delay(seconds),
            wait=_wait,
            retry=tenacity.retry_if_exception_type(TryAgain),
            reraise=True,
        )
        try:
            with self._pace.turn():
                return retrying(lambda: self._ask(text, end, seconds).result(limit))
        except TryAgain as failed:
            raise failed.error from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _ask(self, query: str, end: float, seconds: float) -> Reply:
        """Send a query, and return the reply. Raises EngineTimeoutError at a moment, TryAgain if a connection fails."""
        import httpx2

        left = max(0.1, end - time.monotonic())
        parameters = {"query": query}
        is_short = len(urlencode(parameters)) <= LONGEST_URL
        request = self._client.build_request(
            "GET" if is_short else "POST",
            httpx2.URL(self._address.url).copy_merge_params(parameters if is_short else {}),
            data=None if is_short else parameters,
            timeout=httpx2.Timeout(left, connect=min(left, CONNECT_SECONDS)),
        )
        late = EngineTimeoutError(
            f"{self.name} did not answer within {seconds:g} seconds: give it more time (--timeout), or ask for less"
        )
        try:
            response = self._client.send(request, stream=True)
            try:
                body = bytearray()
                for part in response.iter_bytes():
                    body += part
                    if time.monotonic() > end:
                        raise late
            finally:
                response.close()
        except (httpx2.ConnectTimeout, httpx2.ConnectError) as error:
            raise TryAgain(EngineError(f"{self.name} cannot be reached: {_reason(error)}")) from None
        except httpx2.TimeoutException:
            raise late from None
        except (httpx2.NetworkError, httpx2.RemoteProtocolError) as error:
            raise TryAgain(
                EngineError(f"{self.name} ended the connection without an answer: {_reason(error)}")
            ) from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:  # the latter from a redirect
            raise EngineError(f"{self.name} cannot be asked: {_reason(error)}") from None
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        return Reply(self.name, response.status_code, kind, bytes(body), response.headers.get("Retry-After", ""))


def user_agent() -> str:
    """Return what requests call this program, in the form that Wikimedia's policy asks for: name, contact, library."""
    return f"refactx/{version('refactx')} (https://github.com/rpo19/ReFactX) httpx2/{version('httpx2')}"


def _wait(state: "RetryCallState") -> float:
    """Return the seconds before the next attempt."""
    import tenacity

    failed = state.outcome.exception() if state.outcome is not None else None
    asked = failed.after if isinstance(failed, TryAgain) else 0.0
    growing = tenacity.wait_exponential_jitter(initial=FIRST_WAIT, max=LONGEST_WAIT)(state)
    return max(asked, growing)


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
