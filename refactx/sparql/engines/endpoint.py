"""The engine at a URL: any SPARQL 1.1 endpoint, asked over HTTP.

pyoxigraph reads the W3C's formats, JSON and XML, to the letter. A JSON document that it refuses is written anew as the
W3C has it, where what it means is plain (`as_standard`), and read again.
"""

import json
import logging
import re
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from importlib.metadata import version
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import SplitResult, quote, unquote, urlencode, urljoin, urlsplit, urlunsplit
from xml.parsers import expat

import numpy as np
from pyoxigraph import QueryBoolean, QueryResultsFormat, RdfFormat, parse, parse_query_results, serialize

from refactx.ask.chat_server import is_here
from refactx.errors import InputError, without_password
from refactx.fact import visible
from refactx.lazy import require
from refactx.sparql.engines.checking import check_query, read_query, with_limit
from refactx.sparql.engines.engine import (
    EngineError,
    EngineTimeoutError,
    Result,
    Rows,
    SparqlSyntaxError,
    Term,
    UnavailableError,
    UnreachableError,
    Worker,
    WorkerCall,
)
from refactx.sparql.syntax.prologue import with_declarations

if TYPE_CHECKING:
    import httpx2
    from tenacity import RetryCallState


EXAMPLE = "https://query.wikidata.org/sparql"
SHARED = "wikidata.org"
"""The domain of services that are asked at this pace. Wikidata's policy asks tools not to send queries side by side."""
INTERVAL = 1.0
"""Seconds from the end of a query to the next one."""
ACCEPTED = "application/sparql-results+json, application/sparql-results+xml;q=0.5"
_TRIPLES_ACCEPTED = "application/n-triples, text/turtle;q=0.8, application/rdf+xml;q=0.5"
_ALIKE = {
    "application/json": QueryResultsFormat.JSON,
    "text/xml": QueryResultsFormat.XML,
    "application/xml": QueryResultsFormat.XML,
}
_XSD = "http://www.w3.org/2001/XMLSchema#"
_BUSY = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT})
_SHOWN = 200
_ILLEGAL = re.compile(r'[\x00-\x20<>"{}|\\^`]|%(?![0-9A-Fa-f]{2})')
"""What no IRI has."""
_DAY = 86_400.0
_DEEPEST = 256
"""The deepest nesting of a document with triple terms: pyoxigraph, which follows them on the stack, crashes at some 10,000."""
_LARGEST_REWRITTEN = 32 << 20
"""The most bytes of a document that is written anew: in Python it takes 20 times as much memory."""
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
EVERYTHING = "CONSTRUCT WHERE { ?s ?p ?o }"
PAGE = 10_000
"""Rows of a page of triples: as many as public endpoints give."""
Answered = TypeVar("Answered")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Address:
    """An endpoint's address. `url`: without user and password; `user`: None if there is none; `shown`: for messages,
    without all that may be secret: user, password, and the parameters after `?`."""

    url: str
    host: str
    shown: str
    user: tuple[str, str] | None = None

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    def may_redirect_to(self, other: "Address") -> bool:
        """Return whether requests, with their password, may be sent on to another address: of the same host and port,
        or from http to https at the same port or the usual ones.

        >>> old = read_address("http://kb.example/sparql")
        >>> [old.may_redirect_to(read_address(f"{start}/new")) for start in ("https://kb.example", "http://kb.example:81")]
        [True, False]
        """
        usual = {"http": 80, "https": 443}
        (old, old_port), (new, new_port) = (
            (parts.scheme, parts.port or usual[parts.scheme]) for parts in map(urlsplit, (self.url, other.url))
        )
        is_upgrade = (old, new) == ("http", "https") and new_port in (old_port, 443 if old_port == 80 else old_port)
        return self.host == other.host and ((old, old_port) == (new, new_port) or is_upgrade)


def read_address(url: str) -> Address:
    """Return the address that a URL is.

    >>> address = read_address("https://me:secret@kb.example:8080/sparql?key=1")
    >>> address.shown, address.url, address.user
    ('https://kb.example:8080/sparql', 'https://kb.example:8080/sparql?key=1', ('me', 'secret'))

    Raises InputError, which does not repeat a password, if it is no http or https URL.
    """
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = SplitResult("", "", "", "", ""), None, None
    if parts.scheme not in ("http", "https") or not host or any(letter.isspace() for letter in url.strip()):
        raise InputError(f"the address of an endpoint begins with http:// or https:// and a host, as in {EXAMPLE}")
    place = (f"[{host}]" if ":" in host else host) + (f":{port}" if port is not None else "")
    path = parts.path or "/"
    user = (unquote(parts.username or ""), unquote(parts.password or "")) if "@" in parts.netloc else None
    return Address(
        url=urlunsplit((parts.scheme, place, path, parts.query, "")),
        host=host.lower(),
        shown=urlunsplit((parts.scheme, place, path, "", "")),
        user=user,
    )


class RateLimit:
    """The pace of one service, for all threads of a process.

    `interval`: in seconds; `sleep`, `clock`: functions that wait, and tell the time in seconds.
    """

    def __init__(
        self,
        interval: float,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval, self._sleep, self._clock = interval, sleep, clock
        self._lock, self._next = threading.Lock(), 0.0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for one's turn, and have it during the block."""
        with self._lock:
            wait = self._next - self._clock()
            if wait > 0:
                self._sleep(wait)
            try:
                yield
            finally:
                self._next = self._clock() + self._interval


_WIKIDATA = RateLimit(INTERVAL)


def pace_of(host: str) -> RateLimit | None:
    """Return the pace at which a host is asked; None if at any.

    >>> pace_of("query.wikidata.org") is pace_of("www.wikidata.org"), pace_of("localhost") is pace_of("wikidata.org")
    (True, False)
    """
    return _WIKIDATA if host == SHARED or host.endswith(f".{SHARED}") else None


class TryAgain(Exception):  # noqa: N818  # the endpoint may answer later
    """A reply that may be another one later. `error`: what to raise if it is not; `after`: seconds to wait, or 0."""

    def __init__(self, error: EngineError, after: float = 0.0) -> None:
        super().__init__(str(error))
        self.error, self.after = error, after


@dataclass(frozen=True, slots=True)
class EndpointReply:
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
            raise self._unexpected("results")
        try:
            if _is_deep(self.body, form):
                raise ValueError(f"a document that is nested more than {_DEEPEST} deep")
            try:
                return _read(self.body, form, limit)
            except (SyntaxError, ValueError):
                if form != QueryResultsFormat.JSON or len(self.body) > _LARGEST_REWRITTEN:
                    raise
                standard = self._standard()
                if standard is None:
                    raise
            return _read(standard, form, limit)
        except (SyntaxError, ValueError, OSError) as error:
            if b"TimeoutException" in self.body[-100_000:]:  # Blazegraph's, in the middle of results
                raise EngineTimeoutError(f"{self.name} ended the query, which takes too long there") from None
            raise EngineError(
                f"the results of {self.name} cannot be read: {_line(str(error))}: run the query again"
            ) from None

    def triples(self) -> bytes:
        """Return the triples that the reply has, as N-Triples; its blank nodes have labels that no other reply has.

        Raises TryAgain or EngineError as `result` does.
        """
        if self.status != HTTPStatus.OK:
            raise self._refusal()
        form = RdfFormat.from_media_type(self.kind)
        if form is None:
            raise self._unexpected("triples")
        try:
            quads = parse(self.body, format=form, lenient=True, rename_blank_nodes=True)
            return serialize((quad.triple for quad in quads), format=RdfFormat.N_TRIPLES) or b""
        except (SyntaxError, ValueError) as error:
            raise EngineError(f"the triples of {self.name} cannot be read: {_line(str(error))}") from None

    def _unexpected(self, wanted: str) -> EngineError:
        what = "a web page (HTML)" if self._is_html else f"{visible(self.kind) or 'data of an unknown kind'}"
        return EngineError(
            f"{self.name} answered with {what} in place of {wanted}: is this the address of a SPARQL endpoint, such as "
            f"{EXAMPLE}?"
        )

    def _standard(self) -> bytes | None:
        """Return the document as the W3C has it; None if it is no JSON."""
        try:
            document = json.loads(self.body, parse_int=_Number, parse_float=_Number)
        except (ValueError, RecursionError):
            return None
        return json.dumps(as_standard(document)).encode()

    def _refusal(self) -> Exception:
        if self.status == HTTPStatus.TOO_MANY_REQUESTS:
            after = seconds_of(self.retry_after)
            wait = f"asks to wait {after:,.0f} seconds" if after else "asks to wait"
            wait = wait if after <= _DAY else "asks to wait more than a day"
            return TryAgain(
                UnavailableError(f"{self.name} had too many queries (HTTP 429), and {wait}: run the query later"), after
            )
        if self.status in _BUSY:
            kind = EngineError if self.status == HTTPStatus.GATEWAY_TIMEOUT else UnavailableError  # 504: this query's
            error = kind(f"{self.name} is down or busy ({self._status}): run the query later")
            return TryAgain(error, seconds_of(self.retry_after))
        if b"TimeoutException" in self.body or b"timed out" in self.body.lower():
            return EngineTimeoutError(
                f"{self.name} ended the query, which takes too long there: bind more, or ask for less"
            )
        said = self._said()
        if self.status == HTTPStatus.BAD_REQUEST:
            return SparqlSyntaxError(f"{self.name} refused the query: {said or self._status}")
        if self.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED):
            return UnavailableError(f"{self.name} refuses access ({self._status}): does it need a user and a password?")
        if self.status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE, HTTPStatus.METHOD_NOT_ALLOWED):
            return UnavailableError(
                f"{self.name} is no endpoint ({self._status}): expected an address such as {EXAMPLE}"
            )
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


def as_standard(document: Any) -> dict[str, Any]:
    """Return a document of results as SPARQL 1.1 Query Results JSON has it.

    Its numbers are `_Number`. The head may be missing; languages and data types may be null or empty; blank nodes, which
    are numbered, may have any name, as Virtuoso's; IRIs are percent-encoded where they have letters that none has.

    >>> odd = {"results": {"bindings": [{"x": {"type": "bnode", "value": "nodeID://b10012"}, "y": None}]}}
    >>> as_standard(odd)
    {'head': {'vars': ['x']}, 'results': {'bindings': [{'x': {'type': 'bnode', 'value': 'b0'}}]}}

    Raises ValueError if what it means is not plain.
    """
    if not isinstance(document, dict):
        raise ValueError("results are a JSON object")
    if "boolean" in document:
        truth = str(document["boolean"]).lower()
        if truth not in ("true", "false"):
            raise ValueError(f"a truth is true or false, not {truth!r}")
        return {"head": {}, "boolean": truth == "true"}
    head, results = document.get("head") or {}, document.get("results")
    bindings, variables = (
        found.get(name) if isinstance(found, dict) else None for found, name in ((results, "bindings"), (head, "vars"))
    )
    if not isinstance(bindings, list) or not all(isinstance(row, dict) for row in bindings):
        raise ValueError("there is no list of results, 'bindings'")
    if variables is not None and not (isinstance(variables, list) and all(type(name) is str for name in variables)):
        raise ValueError("'vars' is no list of names")
    nodes = dict[str, str]()
    rows = [
        {
            name.lstrip("?$"): _term(term, nodes)
            for name, term in row.items()
            if term is not None and not (isinstance(term, dict) and term.get("value", "") is None)
        }
        for row in bindings
    ]
    declared = [name.lstrip("?$") for name in variables or ()]
    return {
        "head": {"vars": list(dict.fromkeys([*declared, *(name for row in rows for name in row)]))},
        "results": {"bindings": rows},
    }


class _Number(str):
    """A number of a JSON document, as it is written there."""

    __slots__ = ()


def _term(term: Any, nodes: dict[str, str]) -> Mapping[str, Any]:
    """Return a term as the W3C has it. `nodes`: the names of blank nodes, by those in the document."""
    if not isinstance(term, dict) or "value" not in term:
        raise ValueError(f"{str(term)[:_SHOWN]} is no term: it has no type and value")
    kind, value = term.get("type"), term["value"]
    if kind in ("triple", "statement") and isinstance(value, dict):
        names = {"s": "subject", "p": "predicate", "property": "predicate", "o": "object"}
        return {"type": "triple", "value": {names.get(name, name): _term(part, nodes) for name, part in value.items()}}
    if kind in ("uri", "iri"):
        return {"type": "uri", "value": _ILLEGAL.sub(lambda found: quote(found[0]), str(value))}
    if kind == "bnode":
        return {"type": "bnode", "value": nodes.setdefault(str(value), f"b{len(nodes)}")}
    if kind not in ("literal", "typed-literal") or isinstance(value, dict | list):
        raise ValueError(f"{kind!r} is no type of a term")
    language, datatype = term.get("xml:lang") or term.get("lang"), term.get("datatype")
    if language:
        direction = {"its:dir": term["its:dir"]} if term.get("its:dir") else {}
        return {"type": "literal", "value": str(value), "xml:lang": str(language).replace("_", "-"), **direction}
    if isinstance(value, bool):
        value, datatype = str(value).lower(), datatype or f"{_XSD}boolean"
    elif isinstance(value, _Number):
        kind = "double" if "e" in value.lower() else "decimal" if "." in value else "integer"
        datatype = datatype or f"{_XSD}{kind}"
    return {"type": "literal", "value": str(value), **({"datatype": str(datatype)} if datatype else {})}


def _read(body: bytes, form: QueryResultsFormat, limit: int | None) -> Result:
    found = parse_query_results(body, format=form)
    if isinstance(found, QueryBoolean):
        return bool(found)
    variables, rows = tuple(variable.value for variable in found.variables), list[tuple[Term | None, ...]]()
    try:
        for row in islice(found, None if limit is None else limit + 1):
            rows.append(tuple(row))
    finally:
        del found  # an error, which holds this frame, may end in another thread, where pyoxigraph's results must not
    return Rows(variables, rows[:limit], truncated=limit is not None and len(rows) > limit)


def _is_deep(body: bytes, form: QueryResultsFormat) -> bool:
    """Return whether a document that may have triple terms is nested deeply."""
    if b"triple" not in body and b"\\u" not in body:  # the word may be written in escapes
        return False
    if form == QueryResultsFormat.JSON:
        signs = np.frombuffer(re.sub(rb'"(?:[^"\\]|\\[\s\S])*+"|[^{}"]+', b"", body), np.uint8)
        depths = np.cumsum((signs == ord("{")).astype(np.int32) - (signs == ord("}")))
        return bool(depths.max(initial=0) > _DEEPEST)
    depth, deepest, parser = 0, 0, expat.ParserCreate()

    def enter(name: str, attributes: object) -> None:
        nonlocal depth, deepest
        depth, deepest = depth + 1, max(deepest, depth + 1)

    def leave(name: str) -> None:
        nonlocal depth
        depth -= 1

    parser.StartElementHandler, parser.EndElementHandler = enter, leave
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        raise ValueError(str(error)) from None
    return deepest > _DEEPEST


def seconds_of(retry_after: str) -> float:
    """Return the seconds that a header Retry-After asks to wait: a number, or a date; 0 if it is neither.

    >>> seconds_of("120"), seconds_of("soon"), seconds_of("Wed, 21 Oct 2015 07:28:00 GMT")
    (120.0, 0.0, 0.0)
    """
    if re.fullmatch(r"\s*\d{1,9}\s*", retry_after, re.ASCII):
        return float(retry_after)
    try:
        moment = parsedate_to_datetime(retry_after)
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _line(text: str) -> str:
    line = " ".join(visible(text).split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


class EndpointEngine:
    """An engine at an endpoint. Several threads may use it; Wikidata's own service is asked one query at a time.

        engine = EndpointEngine("https://query.wikidata.org/sparql")
        engine.run("SELECT ?x { wd:Q1588 wdt:P1449 ?x }")

    A reply that says that the endpoint is busy (429, 502, 503, 504), and a connection that fails, is tried again after a
    growing time, or the time that the endpoint asks for, as long as the time limit lasts; each wait is logged as a
    warning. A connection that is refused, and a server of this machine that cannot be reached, are not tried again.
    Redirects are followed within the same host and port, and from http to https.
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
            headers={"Accept-Encoding": "gzip", "User-Agent": user_agent()},
        )

    @property
    def name(self) -> str:
        """The endpoint's address, without user, password and parameters."""
        return self._address.shown

    def run(self, query: str, *, limit: int | None = None, seconds: float | None = None) -> Result:
        """Run a SELECT or ASK, as `refactx.sparql.engines.SparqlEngine` says. SERVICE is passed on.

        What is no query is refused before anything is sent. `limit` is sent as LIMIT, if the query has none or a larger.
        """
        query, seconds = read_query(query), SECONDS if seconds is None else seconds
        end = time.monotonic() + seconds
        checked = check_query(query, seconds)
        if limit is not None and not checked.is_ask:
            query = with_limit(query, limit + 1)
        result = self._answer(with_declarations(query), ACCEPTED, end, seconds, lambda reply: reply.result(limit))
        if isinstance(result, bool) != checked.is_ask:
            kinds = "an ASK with rows" if checked.is_ask else "a SELECT with true or false"
            raise EngineError(f"{self.name} answered {kinds}: is this the address of a SPARQL endpoint?")
        return result

    def triples(
        self, query: str = EVERYTHING, *, page: int = PAGE, seconds: float | None = None
    ) -> Generator[bytes, None, None]:
        """Yield the triples that a CONSTRUCT query makes, as N-Triples, page by page: with LIMIT `page` and an OFFSET.

        `seconds`: the most time of a page. What no page can tell is whether the endpoint has them in the same order each
        time: a query with ORDER BY says so. Raises InputError for a query without CONSTRUCT, or with a LIMIT or an OFFSET
        of its own; as `run` does.
        """
        if not re.search(r"\bCONSTRUCT\b", query, re.IGNORECASE):
            raise InputError(f"a graph at an endpoint is read by a CONSTRUCT query, such as {EVERYTHING!r}")
        if re.search(r"\b(?:LIMIT|OFFSET)\s+\d+\s*$", query, re.IGNORECASE):
            raise InputError("the query ends with LIMIT or OFFSET, which are added page by page: leave them out")
        seconds, offset = SECONDS if seconds is None else seconds, 0
        while True:
            text = f"{with_declarations(query)}\nLIMIT {page} OFFSET {offset}"
            found = self._answer(text, _TRIPLES_ACCEPTED, time.monotonic() + seconds, seconds, EndpointReply.triples)
            if not found:
                return
            yield found
            # A server may have a lower limit of its own: where a row is a triple, their number tells where it stopped.
            offset += min(page, found.count(b"\n")) if query == EVERYTHING else page

    def _answer(
        self, text: str, accepted: str, end: float, seconds: float, read: Callable[[EndpointReply], Answered]
    ) -> Answered:
        """Return what `read` makes of the reply to a query, which is sent again where that may help."""
        import tenacity

        retrying = tenacity.Retrying(
            sleep=self._sleep,
            stop=tenacity.stop_after_attempt(ATTEMPTS) | tenacity.stop_before_delay(seconds),
            wait=_wait,
            before_sleep=_tell,
            retry=tenacity.retry_if_exception_type(TryAgain),
            reraise=True,
        )
        try:
            with nullcontext() if self._pace is None else self._pace.turn():
                return retrying(lambda: read(self._ask(text, accepted, end, seconds)))
        except TryAgain as failed:
            raise failed.error from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _ask(self, query: str, accepted: str, end: float, seconds: float) -> EndpointReply:
        """Send a query, and return the reply. Raises EngineTimeoutError at a moment, TryAgain if a connection fails."""
        import httpx2

        worker = Worker()  # time limits of httpx2 are those of a single read, and names are looked up without any
        try:
            return worker.run(lambda call: self._send(query, accepted, end, call), max(0.1, end - time.monotonic()))
        except (TimeoutError, httpx2.ReadTimeout, httpx2.WriteTimeout, httpx2.PoolTimeout):
            raise EngineTimeoutError(
                f"{self.name} did not answer within {seconds:g} seconds: give it more time (--timeout), or ask for less"
            ) from None
        except (httpx2.ConnectTimeout, httpx2.ConnectError) as error:
            failed = UnreachableError(f"{self.name} cannot be reached: {_reason(error)}")
            cause: BaseException = error
            while (before := cause.__cause__ or cause.__context__) is not None:
                cause = before
            # A refusal, a wrong certificate, and a host that does not exist will not pass.
            is_lasting = isinstance(cause, ConnectionRefusedError | ssl.SSLCertVerificationError) or (
                isinstance(cause, socket.gaierror) and cause.errno != socket.EAI_AGAIN
            )
            if is_here(self._address.host) or is_lasting:
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

    def _send(self, query: str, accepted: str, end: float, call: WorkerCall) -> EndpointReply:
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
                headers={"Accept": accepted},
                timeout=httpx2.Timeout(left, connect=min(left, CONNECT_SECONDS)),
            ) as response:
                if not response.has_redirect_location:
                    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
                    after = response.headers.get("Retry-After", "")
                    return EndpointReply(name, response.status_code, kind, self._body(response, call), after)
            address = self._redirected(address, response.headers["Location"])
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

    def _body(self, response: "httpx2.Response", call: WorkerCall) -> bytes:
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


def _reason(error: Exception) -> str:
    return " ".join(visible(str(error)).split()) or type(error).__name__
