"""A server of HTTP over an application, which on SIGTERM lets running texts end before it stops."""

import asyncio
import logging
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from refactx.errors import InputError
from refactx.server.app import create_app
from refactx.server.http.log import LogHandler, RequestLog
from refactx.server.text.service import TextService

PAUSE = 0.05
"""The seconds between two looks at whether all texts have ended."""


class Server(uvicorn.Server):
    """A server of one application. `is_draining`: whether it takes no new texts, because it is about to stop."""

    def __init__(self, service: TextService, log: RequestLog, on_start: Callable[[], object]) -> None:
        self.is_draining = False
        self._service, self._log, self._on_start = service, log, on_start
        self._tasks: list[asyncio.Future[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        config = uvicorn.Config(
            create_app(service, log, drains=lambda: self.is_draining),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            ws="none",
            # After the grace period, for the ends of streams to be sent.
            timeout_graceful_shutdown=5,
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and let the model read its prompt."""
        await super().startup(sockets)
        self._on_start()
        self._loop = asyncio.get_running_loop()
        self._tasks.append(self._loop.run_in_executor(self._service.lookups, self._warm_up))

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop when the running texts have ended, or at the second signal at once.

        The signal is not raised again after that, as uvicorn would: the process ends in good order.
        """
        if self.is_draining or self._loop is None:
            self.force_exit = self.should_exit
            self.should_exit = True
            return
        self.is_draining = True
        self._loop.call_soon_threadsafe(self._begin_to_drain)

    def _begin_to_drain(self) -> None:
        self._tasks.append(asyncio.ensure_future(self._drain()))

    async def _drain(self) -> None:
        slots, grace = self._service.slots, self._service.options.grace
        self._log.write("stopping", running=slots.running, waiting=slots.waiting, grace=grace)
        deadline = asyncio.get_running_loop().time() + grace
        while (slots.running or slots.waiting) and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(PAUSE)
        self.should_exit = True

    def _warm_up(self) -> None:
        try:
            self._service.warm_up()
            self._log.write("ready")
        except Exception as error:
            logging.getLogger(__name__).warning("the model could not be warmed up: %s", error)
            self._service.is_warm = True


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Port 0 is any free one. Raises InputError if the address cannot be used."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(2048)
        made.set_inheritable(True)
    except OSError as error:
        raise InputError(
            f"the server cannot listen at {host}, port {port}: {error.strerror or error}. Give another --port or --host"
        ) from None
    return made


def serve(service: TextService, listening: socket.socket, on_start: Callable[[], object] = lambda: None) -> None:
    """Answer requests until a signal ends it. `on_start`: called when it does."""
    log = RequestLog()
    handler = LogHandler(log)
    logging.getLogger().addHandler(handler)
    try:
        Server(service, log, on_start).run(sockets=[listening])
    finally:
        logging.getLogger().removeHandler(handler)
        service.close()
