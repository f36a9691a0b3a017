"""The engine at a URL: any SPARQL 1.1 endpoint, asked over HTTP."""

import logging
import socket
import ssl
import time
import zlib
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urljoin

from refactx.errors import InputError, without_password
from refactx.extras import require
from refactx.fact import visible
from refactx.query.pgmr import with_declarations
from refactx.sparql.engines.address import Address, read_address
from refactx.sparql.engines.engine import EngineError, EngineTimeoutError, Result, UnreachableError
from refactx.sparql.engines.pace import pace_of
from refactx.sparql.engines.replies import ACCEPTED, Reply, TryAgain
from refactx.sparql.engines.worker import Call, Worker
from refactx.sparql.syntax.check import check_query, read_query
from refactx.sparql.syntax.limit import with_limit

if TYPE_CHECKING:
    import httpx2
    from tenacity import RetryCallState

SECONDS = 60.0
"""The most time of a query, if none is given: Wikidata's service ends one after 60 seconds."""
ATTEMPTS = 5
LONGEST_URL = 2_000
"""Characters of a query in a URL: a longer one is sent as a form, since servers and proxies limit URLs."""
CONNECT_SECONDS = 10.0
FIRST_WAIT, LONGEST_WAIT = 1.0, 30.0
"""Seconds before the second attempt, and the most before a later one, unless the endpoint asks for more."""
MOST_BYTES = 256 << 20
"""The most bytes of a reply, after decompression: a million rows and more."""
MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_log = logging.getLogger(__name__)


class EndpointEngine:
    """An engine at an endpoint. Several threads may use it; Wikidata's own service is asked one query at a time.

        engine = EndpointEngine("https://query.wikidata.org/sparql")
        engine.run("SELECT ?x { wd:Q1588 wdt:P1449 ?x }")

    A reply that says that the endpoint is busy (429, 502, 503, 504), and a connection that fails, is tried again after a
    growing time, or the time that the endpoint asks for, as long as the time limit lasts; each wait is logged as a
    warning. A server of this machine that cannot be reached is not tried again. Redirects are followed within the same
    host and port, and from http to https.
    """

    def __init__(self, url: str, *, sleep: Callable[[float], None] = time.sleep, most_bytes: int = MOST_BYTES) -> None:
        """`url`: may have a user and a password, which are sent to that host alone; `sleep`: waits some seconds;
        `most_bytes`: the most of a reply, after decompression.

        Raises InputError if it is no http or https URL, or if httpx2 or tenacity is not installed.
        """
        self._address = read_address(url)
        for module in ("httpx2", "tenacity"):
            require(module, "sparql")
        import httpx2

        self._sleep, self._pace, self._most_bytes = sleep, pace_of(self._address.host), most_bytes
        self._client = httpx2.Client(
            auth=self._address.user,
            headers={"Accept": ACCEPTED, "Accept-Encoding": "gzip", "User-Agent": user_agent()},
        )

    @property
    def name(self) -> str:
        """The endpoint's address, without user, password and parameters."""
        return self._address.shown

    def run(self, query: str, *, limit: int | None = None, seconds: float | None = None) -> Result:
        """Run a SELECT or ASK, as `refactx.sparql.engines.SparqlEngine` says. SERVICE is passed on.

        What is no query is refused before anything is sent. `limit` is sent as LIMIT, if the query has none or a larger.
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
            before_sleep=_tell,
            retry=tenacity.retry_if_exception_type(TryAgain),
            reraise=True,
        )
        try:
            with self._pace.turn():
                result = retrying(lambda: self._ask(text, end, seconds).result(limit))
        except TryAgain as failed:
            raise failed.error from None
        if isinstance(result, bool) != checked.is_ask:
            kinds = "an ASK with rows" if checked.is_ask else "a SELECT with true or false"
            raise EngineError(f"{self.name} answered {kinds}: is this the address of a SPARQL endpoint?")
        return result

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _ask(self, query: str, end: float, seconds: float) -> Reply:
        """Send a query, and return the reply. Raises EngineTimeoutError at a moment, TryAgain if a connection fails."""
        import httpx2

        worker = Worker()  # time limits of httpx2 are those of a single read, and names are looked up without any
        try:
            return worker.run(lambda call: self._send(query, end, call), max(0.1, end - time.monotonic()))
        except (TimeoutError, httpx2.ReadTimeout, httpx2.WriteTimeout, httpx2.PoolTimeout):
            raise EngineTimeoutError(
                f"{self.name} did not answer within {seconds:g} seconds: give it more time (--timeout), or ask for less"
            ) from None
        except (httpx2.ConnectTimeout, httpx2.ConnectError) as error:
            failed = UnreachableError(f"{self.name} cannot be reached: {_reason(error)}")
            if self._address.is_local or _is_lasting(error):
                raise failed from None
            raise TryAgain(failed) from None
        except (httpx2.NetworkError, httpx2.RemoteProtocolError) as error:
            raise TryAgain(
                EngineError(f"{self.name} ended the connection without an answer: {_reason(error)}")
            ) from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise EngineError(f"{self.name} cannot be asked: {_reason(error)}") from None
        finally:
            worker.close()

    def _send(self, query: str, end: float, call: Call) -> Reply:
        """Send a query to the address, or where that redirects to, and read the reply."""
        import httpx2

        address, name, parameters = self._address, self.name, {"query": query}
        is_short = len(urlencode(parameters)) <= LONGEST_URL
        for _ in range(MOST_REDIRECTS + 1):
            left = max(0.1, end - time.monotonic())
            with self._client.stream(  # the method stays: a form that becomes a GET loses its query
                "GET" if is_short else "POST",
                httpx2.URL(address.url).copy_merge_params(parameters if is_short else {}),
                data=None if is_short else parameters,
                timeout=httpx2.Timeout(left, connect=min(left, CONNECT_SECONDS)),
            ) as response:
                location = response.headers.get("Location") if response.status_code in _REDIRECTS else None
                if location is None:
                    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
                    after = response.headers.get("Retry-After", "")
                    return Reply(name, response.status_code, kind, self._body(response, call), after)
            address = self._redirected(address, location)
            name = f"{self.name} (redirected to {visible(address.shown)})"
        raise EngineError(f"{name} redirects more than {MOST_REDIRECTS} times: give the address of the endpoint itself")

    def _redirected(self, address: Address, location: str) -> Address:
        """Return the address that a redirect names. Raises EngineError if it is another server's, or none."""
        try:
            found = read_address(urljoin(address.url, location))
        except (InputError, ValueError):
            shown = visible(without_password(location))[:200]
            raise EngineError(f"{self.name} redirects to {shown!r}, which is no address of an endpoint") from None
        if not address.may_redirect_to(found):
            raise EngineError(
                f"{self.name} redirects to another server, {visible(found.shown)}, which was not asked: "
                "give that address if you trust it"
            )
        return found

    def _body(self, response: "httpx2.Response", call: Call) -> bytes:
        """Read a body, decompressed, up to the limit, as long as somebody waits for it."""
        coding = response.headers.get("Content-Encoding", "").strip().lower()
        if coding not in ("", "identity", "gzip", "x-gzip"):
            raise EngineError(
                f"{self.name} compressed its answer as {visible(coding)!r}, which cannot be read: expected gzip"
            )
        unzip, body = zlib.decompressobj(zlib.MAX_WBITS | 16), bytearray()
        for part in response.iter_raw():
            call.check()
            try:
                body += unzip.decompress(part, self._most_bytes + 1 - len(body)) if "gzip" in coding else part
            except zlib.error as error:
                raise EngineError(f"the answer of {self.name} is no gzip: {error}") from None
            if len(body) > self._most_bytes:
                raise EngineError(
                    f"{self.name} answered with more than {self._most_bytes / (1 << 20):,.4g} MiB, the most that is "
                    "read: ask for less, with a LIMIT"
                )
        return bytes(body)


def user_agent() -> str:
    """Return what requests call this program, in the form that Wikimedia's policy asks for: name, contact, library."""
    return f"refactx/{version('refactx')} (https://arxiv.org/abs/2508.16983) httpx2/{version('httpx2')}"


def _wait(state: "RetryCallState") -> float:
    """Return the seconds before the next attempt."""
    import tenacity

    failed = state.outcome.exception() if state.outcome is not None else None
    asked = failed.after if isinstance(failed, TryAgain) else 0.0
    growing = tenacity.wait_exponential_jitter(initial=FIRST_WAIT, max=LONGEST_WAIT)(state)
    return max(asked, growing)


def _tell(state: "RetryCallState") -> None:
    failed = state.outcome.exception() if state.outcome is not None else None
    seconds = state.next_action.sleep if state.next_action is not None else 0.0
    _log.warning("%s (attempt %d of %d in %.0f s)", failed, state.attempt_number + 1, ATTEMPTS, seconds)


def _is_lasting(error: BaseException) -> bool:
    """Return whether a connection fails for a reason that will not pass: no such host, or its certificate."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    lookup_failed = isinstance(error, socket.gaierror) and error.errno != socket.EAI_AGAIN
    return lookup_failed or isinstance(error, ssl.SSLCertVerificationError)


def _reason(error: Exception) -> str:
    return " ".join(visible(str(error)).split()) or type(error).__name__
