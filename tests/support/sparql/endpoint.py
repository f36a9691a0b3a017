"""An endpoint on this machine: a pyoxigraph store behind the SPARQL 1.1 protocol, which can be told to fail."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from pyoxigraph import QueryResultsFormat, QueryTriples, RdfFormat, Store, serialize

JSON = "application/sparql-results+json"


@dataclass(frozen=True)
class Request:
    """A request that the endpoint got: its method, its path with parameters, its headers in lower case, the query."""

    method: str
    path: str
    headers: dict[str, str]
    query: str


@dataclass(frozen=True)
class Canned:
    """A reply in place of results. `delay`: seconds before it; `cuts`: the connection ends within the body."""

    status: int = 200
    kind: str = JSON
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    cuts: bool = False


HTML = Canned(kind="text/html; charset=utf-8", body=b"<!DOCTYPE html><html><title>Welcome</title></html>")


class Endpoint:
    """An endpoint that is running. `requests`: what it got; `replies`: what the next requests get, else results.

    `form`: of results; `always`: the reply to all requests; `most_triples`: the most that a reply has, as some servers have
    a limit of their own.
    """

    def __init__(self, store: Store) -> None:
        self.store, self.requests = store, list[Request]()
        self.replies = list[Canned]()
        self.always: Canned | None = None
        self.form = QueryResultsFormat.JSON
        self.most_triples: int | None = None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *given: _Handler(self, *given))
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/sparql"

    def url_of(self, user: str) -> str:
        """The address with a user and password: `me:secret`."""
        return f"http://{user}@127.0.0.1:{self.port}/sparql"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reply(self, request: Request) -> Canned:
        self.requests.append(request)
        if self.always is not None:
            return self.always
        if self.replies:
            return self.replies.pop(0)
        try:
            found = self.store.query(request.query)
            if isinstance(found, QueryTriples):
                rows = list(found)[: self.most_triples]
                return Canned(kind="text/turtle; charset=utf-8", body=serialize(rows, format=RdfFormat.TURTLE) or b"")
            body = found.serialize(format=self.form)
        except SyntaxError as error:
            return Canned(400, "text/plain", str(error).encode())
        return Canned(kind=self.form.media_type, body=body or b"")


class _Handler(BaseHTTPRequestHandler):
    """A request. HTTP 1.1, so that connections last."""

    protocol_version = "HTTP/1.1"

    def __init__(self, endpoint: Endpoint, *given: object) -> None:
        self._endpoint = endpoint
        super().__init__(*given)  # type: ignore[arg-type]

    def log_message(self, *given: object) -> None:
        """Be silent."""

    def do_GET(self) -> None:  # the name that http.server calls
        self._answer(urlsplit(self.path).query)

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def _answer(self, parameters: str) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = parse_qs(parameters).get("query", [""])[0]
        reply = self._endpoint.reply(Request(self.command, self.path, headers, query))
        time.sleep(reply.delay)
        try:
            self.send_response(reply.status)
            for name, value in {"Content-Type": reply.kind, **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body) + (10 if reply.cuts else 0)))
            self.end_headers()
            self.wfile.write(reply.body)
            self.close_connection = self.close_connection or reply.cuts
        except (BrokenPipeError, ConnectionResetError):  # the client waits no longer
            self.close_connection = True


@contextmanager
def running(store: Store) -> Iterator[Endpoint]:
    """Run an endpoint during the block."""
    endpoint = Endpoint(store)
    try:
        yield endpoint
    finally:
        endpoint.close()
