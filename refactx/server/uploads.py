"""Files that people send, each of which becomes an index that the server answers from.

A file is read in a process of its own with limits of memory and seconds, since what is in it may end a parser.
"""

import asyncio
import errno
import json
import logging
import os
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from refactx.errors import IndexExistsError, InputError
from refactx.ingest.parallel import Process, ProcessEndedError
from refactx.server.http import ApiError, away, bad_request
from refactx.server.service import TextService
from refactx.server.streaming import DONE, STREAMED, Document, JsonRoute, gone, note, sse, streamed

_NAME = re.compile(r"\w(?:[\w .-]{0,98}[\w.-])?")
BYTES = "application/octet-stream"
"""The type of the body: no page of another site can send it without being allowed to."""
_UNSAFE = re.compile(r"[^\w.-]+")
MOST_RECEIVED = 4
"""The most files that are received at a time: each has a minute for its body."""
MEMORY = 4 << 30
"""The most bytes of data of the process that reads a file: DuckDB's gigabyte, and what Arrow and threads take beside it."""
SECONDS = 1800.0
"""The most that it may take: 100 MB of N-Triples took 4 minutes on two cores."""
LOOK_SECONDS = 0.3
"""After which it is asked again how far it is."""
MOST_MADE = 20
"""The most indexes that one run of a server makes: each keeps two connections to the database, and threads."""
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ")
_ZIP = b"PK\x03\x04"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_LONGEST_MARK = max(map(len, _COMPRESSED))
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Uploads:
    """The making of indexes, of one file at a time.

    `most`: bytes of a file; `build`: what a process is given (`refactx.ingest.parallel.pickled`) that makes an index of a file,
    given its path, the name of the index, and the column with the names of its rows ("": it has three columns, or is no table);
    `services`: opens what answers from an index, in a thread. `memory`, `seconds`: limits of the process. `made`: the names of
    those that were made; `folders`: those of files, which go with `close` at the latest.
    """

    most: int
    build: bytes
    services: Callable[[str], list[TextService]]
    memory: int = MEMORY
    seconds: float = SECONDS
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    made: list[str] = field(default_factory=list)
    folders: set[Path] = field(default_factory=set)
    processes: list[Process] = field(default_factory=list)
    stopping: Event = field(default_factory=Event)

    def folder(self) -> Path:
        """Return a new folder for a file."""
        made = Path(tempfile.mkdtemp(prefix="refactx-file-"))
        self.folders.add(made)
        return made

    def remove(self, folder: Path) -> None:
        """Remove the folder of a file."""
        shutil.rmtree(folder, ignore_errors=True)
        self.folders.discard(folder)

    def make(self, path: Path, name: str, subject: str) -> None:
        """Make an index of a file. Raises what its reading does, and ApiError (413) if that ends at a limit."""
        with Process(self.build, memory=self.memory) as process:
            self.processes.append(process)
            try:
                if self.stopping.is_set():  # `close` may have looked before the process was there
                    process.kill()
                process.run((path, name, subject), seconds=self.seconds)
            except TimeoutError:
                raise ApiError(
                    413, f"the file took more than {self.seconds:,.0f} s to be read: send a smaller one"
                ) from None
            except MemoryError:
                raise self._too_much("needs more memory than that") from None
            except ProcessEndedError as error:
                if self.stopping.is_set():
                    raise away("the server is about to stop: send the file to another one, or again later") from None
                raise self._too_much(f"the process that read it {error}") from None
            finally:
                self.processes.remove(process)

    def _too_much(self, what: str) -> ApiError:
        most = f"{self.memory >> 20:,} MB of memory"
        return ApiError(
            413, f"the file cannot be read with {most} ({what}): send a smaller one, or one that is less nested"
        )

    def close(self) -> None:
        """End what is being made, and remove all files."""
        self.stopping.set()
        for process in list(self.processes):
            process.kill()
        for folder in list(self.folders):
            self.remove(folder)


def uploads_router(
    service: TextService,
    uploads: Uploads | None,
    add: Callable[[TextService], Awaitable[None]],
    names: Callable[[], Collection[str | None]],
) -> APIRouter:
    """Return the route that makes an index of a file. `add`: lets the server answer by a service; `names`: of the indexes
    that it answers from."""
    router = APIRouter(route_class=JsonRoute)
    running = set[asyncio.Task[TextService]]()

    @router.post("/v1/indexes", response_class=Response, responses=STREAMED)
    async def make(
        request: Request,
        name: Annotated[str, Query(max_length=300)],
        file: Annotated[str, Query(max_length=300)] = "file",
        subject: Annotated[str, Query(max_length=300)] = "",
    ) -> Response:
        """Make an index of a file, which is the body. `file`: its name; `subject`: the column that names the rows of a
        table."""
        if uploads is None:
            raise ApiError(404, "this server makes no indexes of files")
        if not _NAME.fullmatch(name):  # it stands in names of models and addresses
            raise bad_request("name has to be at most 100 letters, digits, spaces and any of _ . -", "name")
        if request.headers.get("content-type", "") != BYTES:
            raise ApiError(415, f"the body has to be the file, with `Content-Type: {BYTES}`")
        if uploads.lock.locked() or len(uploads.folders) >= MOST_RECEIVED:
            raise _busy()
        if name in names():
            raise _taken(name)
        if len(uploads.made) >= MOST_MADE:
            raise ApiError(
                507, f"the server has made {MOST_MADE} indexes, and makes no more before it is started again"
            )
        note(request, index=name)
        folder = uploads.folder()
        try:
            path = (
                folder
                / "sent"
                / (_UNSAFE.sub("_", file).encode()[-100:].decode("utf-8", "ignore").strip("._") or "file")
            )
            path.parent.mkdir()
            await _receive(request, path)
            if uploads.lock.locked():  # a slow client does not hold it meanwhile
                raise _busy()
            await uploads.lock.acquire()  # at once
        except BaseException as error:
            uploads.remove(folder)
            if isinstance(error, ClientDisconnect):
                return gone(request)
            raise
        task = asyncio.ensure_future(_made(uploads, add, path, name, subject))
        running.add(task)  # it ends, and is kept until then, whether the client stays or not
        task.add_done_callback(running.discard)
        task.add_done_callback(_log_failure)
        return await streamed(service, request, [], _progress(task, path))

    return router


def _no_room() -> ApiError:
    return ApiError(507, "there is no room for the file: tell the people who run this server")


def _busy() -> ApiError:
    wait = {"Retry-After": "10"}
    return ApiError(429, "an index is being made of another file: send this one again later", headers=wait)


def _taken(name: str) -> ApiError:
    return ApiError(409, f"index {name!r} exists, or is being made: give another name")


def _log_failure(task: "asyncio.Task[TextService]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, ApiError):
        _log.error("an index could not be made of a file", exc_info=error)


async def _receive(request: Request, path: Path) -> None:
    """Write the body of a request to a file. Raises ApiError: 507 if there is no room, 415 for a file that is compressed,
    whose size would be known too late; a workbook is read with limits of its own."""
    from refactx.ingest.workbooks import is_workbook  # it needs pyarrow, which a server without uploads does not

    begin = b""
    try:
        with path.open("wb") as opened:
            async for block in request.stream():
                begin = begin if len(begin) >= _LONGEST_MARK else begin + block[:_LONGEST_MARK]
                if begin.startswith(_COMPRESSED):
                    raise ApiError(415, "the file is compressed: send it as it was before")
                await run_in_threadpool(opened.write, block)
        if begin.startswith(_ZIP) and not await run_in_threadpool(is_workbook, path):
            raise ApiError(415, "the file is a zip archive, and no workbook: send the files in it one by one")
    except OSError as error:
        if error.errno in _FULL:
            raise _no_room() from None
        raise


async def _made(
    uploads: Uploads, add: Callable[[TextService], Awaitable[None]], path: Path, name: str, subject: str
) -> TextService:
    """Make an index of a file, remove the file, and let the server answer from it. Return its first service. The lock is
    held, and is released at the end."""
    folder = path.parent.parent
    try:
        try:
            await run_in_threadpool(uploads.make, path, name, subject)
        except IndexExistsError:
            raise _taken(name) from None
        except InputError as error:
            raise bad_request(
                error.for_clients.replace(f"{path.parent}{os.sep}", "").replace(f"{folder}{os.sep}", "")
            ) from None
        except OSError as error:
            if error.errno in _FULL:
                raise _no_room() from None
            raise
        finally:
            await run_in_threadpool(uploads.remove, folder)
        services = await run_in_threadpool(uploads.services, name)
        uploads.made.append(name)
        for service in services:
            await add(service)
    finally:
        uploads.lock.release()
    return services[0]


async def _progress(task: "asyncio.Task[TextService]", path: Path) -> AsyncGenerator[bytes, None]:
    """Yield what happens to a file: that it was received, how far its reading is, and the index in the end."""
    last: Document = {"stage": "reading"}
    yield sse(last | {"file": path.name})
    while not task.done():
        await asyncio.wait([task], timeout=LOOK_SECONDS)
        with suppress(OSError, ValueError):
            found = json.loads((path.parent.parent / "progress").read_bytes())
            if found != last:
                last = found
                yield sse(last)
    service = task.result()
    ready: Document = {"index": service.index_name, "facts": getattr(service.index, "facts", None)}
    yield sse({"stage": "ready", **ready, "model": service.options.name})
    yield DONE
