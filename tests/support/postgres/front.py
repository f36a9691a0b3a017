"""Sockets in front of PostgreSQL: a balancer that hides two servers behind one name, and servers of another make."""

import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path

from refactx.postgres.embedded.cluster import DATABASE

_SOCKET = ".s.PGSQL.5432"


@contextmanager
def balancer(hosts: Sequence[str]) -> Iterator[str]:
    """Give each connection to the next of some servers, in turn. Yield the address."""
    turn = cycle(hosts)

    def pass_on(client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{next(turn)}/{_SOCKET}")
        back = threading.Thread(target=_pump, args=(server, client), daemon=True)
        back.start()
        _pump(client, server)

    with _listening(pass_on) as url:
        yield url


@contextmanager
def other_database(**parameters: str) -> Iterator[str]:
    """Answer each connection as a server does, with parameters of its status, and then no more. Yield the address."""

    def greet(client: socket.socket) -> None:
        client.recv(8192)
        status = [_message(b"S", f"{name}\0{value}\0".encode()) for name, value in parameters.items()]
        client.sendall(_message(b"R", struct.pack(">I", 0)) + b"".join(status) + _message(b"Z", b"I"))
        client.recv(8192)

    with _listening(greet) as url:
        yield url


@contextmanager
def _listening(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as door:
        door.bind(str(Path(folder) / _SOCKET))
        door.listen()

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = door.accept()
                    threading.Thread(target=serve, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"postgresql:///{DATABASE}?host={folder}&port=5432&user={DATABASE}"
        door.shutdown(socket.SHUT_RDWR)


def _pump(source: socket.socket, to: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            to.sendall(data)
    for end in (source, to):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _message(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack(">I", len(content) + 4) + content
