"""Servers of models whose replies are not what they should be."""

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any


class Liar(BaseHTTPRequestHandler):
    """A server whose reply is what `lie` writes. `keys`: those that it was sent."""

    lie: Callable[["Liar"], None]
    keys: list[str | None]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.keys.append(self.headers["Authorization"])
        with suppress(OSError):  # the client has gone
            type(self).lie(self)

    def begin(self, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Write no log."""


@contextmanager
def liar(lie: Callable[[Liar], None]) -> Iterator[tuple[str, list[str | None]]]:
    keys = list[str | None]()
    handler = type("Lying", (Liar,), {"lie": lie, "keys": keys})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1", keys
        finally:
            server.shutdown()


def endless(request: Liar) -> None:
    request.begin()
    while True:
        request.wfile.write(b" " * 100_000)


def bomb(request: Liar) -> None:
    """A gigabyte that is packed into a megabyte."""
    request.begin(Content_Encoding="gzip")
    packer = zlib.compressobj(wbits=31)
    for _ in range(1024):
        request.wfile.write(packer.compress(b" " * (1 << 20)))
    request.wfile.write(packer.flush())


def dripping(request: Liar) -> None:
    request.begin()
    while True:
        request.wfile.write(b" ")
        Event().wait(0.02)
