"""Files that people send, each of which becomes an index that the server answers from."""

import asyncio
import errno
import logging
import os
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from refactx.errors import IndexExistsError, InputError
from refactx.server.http import ApiError, bad_request
from refactx.server.service import TextService
from refactx.server.streaming import DONE, STREAMED, Document, JsonRoute, gone, note, sse, streamed

_NAME = re.compile(r"\w(?:[\w .-]{0,98}[\w.-])?")
BYTES = "application/octet-stream"
"""The type of the body: no page of another site can send it without being allowed to."""
_UNSAFE = re.compile(r"[^\w.-]+")
MOST_MADE = 20
"""The most indexes that one run of a server makes: each keeps two connections to the database, and threads."""
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"PK\x03\x04")
_LONGEST_MARK = max(map(len, _COMPRESSED))
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Uploads:
    """The making of indexes, of one file at a time.

    `most`: bytes of a file; `build`: makes an index of a file, given its path, the name of the index, and the column with
    the names of its rows ("": it has three columns, or is no table); `services`: opens what answers from an index.
    Both run in a thread. `made`: the names of those that were made.
    """

    most: int
    build: Callable[[Path, str, str], object]
    services: Callable[[str], list[TextService]]
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    made: list[str] = field(default_factory=list)


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
            raise ApiError(404, "this server makes no indexes of files: start it with --max-upload BYTES")
        if not _NAME.fullmatch(name):  # it stands in names of models and addresses
            raise bad_request("name has to be at most 100 letters, digits, spaces and any of _ . -", "name")
        if request.headers.get("content-type", "") != BYTES:
            raise ApiError(415, f"the body has to be the file, with `Content-Type: {BYTES}`")
        if uploads.lock.locked():
            wait = {"Retry-After": "10"}
            raise ApiError(429, "an index is being made of another file: send this one again later", headers=wait)
        if name in names():
            raise _taken(name)
        if len(uploads.made) >= MOST_MADE:
            raise ApiError(
                507, f"the server has made {MOST_MADE} indexes, and makes no more before it is started again"
            )
        note(request, index=name)
        async with uploads.lock:
            folder = Path(await run_in_threadpool(tempfile.mkdtemp, prefix="refactx-file-"))
            try:
                path = folder / (_UNSAFE.sub("_", file).encode()[-100:].decode("utf-8", "ignore").strip("._") or "file")
                await _receive(request, path)
            except BaseException as error:
                shutil.rmtree(folder, ignore_errors=True)
                if isinstance(error, ClientDisconnect):
                    return gone(request)
                raise
            task = asyncio.ensure_future(_made(uploads, add, path, name, subject))
            running.add(task)  # it ends, and is kept until then, whether the client stays or not
            task.add_done_callback(running.discard)
            task.add_done_callback(_log_failure)
        return await streamed(service, request, [], _progress(task, path.name))

    return router


def _taken(name: str) -> ApiError:
    return ApiError(409, f"index {name!r} exists, or is being made: give another name")


def _log_failure(task: "asyncio.Task[TextService]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, ApiError):
        _log.error("an index could not be made of a file", exc_info=error)


async def _receive(request: Request, path: Path) -> None:
    """Write the body of a request to a file. Raises ApiError: 507 if there is no room, 415 for a file that is compressed,
    whose size would be known too late."""
    begin = b""
    try:
        with path.open("wb") as opened:
            async for block in request.stream():
                begin = begin if len(begin) >= _LONGEST_MARK else begin + block[:_LONGEST_MARK]
                if begin.startswith(_COMPRESSED):
                    raise ApiError(415, "the file is compressed: send it as it was before")
                await run_in_threadpool(opened.write, block)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ApiError(507, "there is no room for the file: tell the people who run this server") from None
        raise


async def _made(
    uploads: Uploads, add: Callable[[TextService], Awaitable[None]], path: Path, name: str, subject: str
) -> TextService:
    """Make an index of a file, remove the file, and let the server answer from it. Return its first service."""
    async with uploads.lock:
        try:
            await run_in_threadpool(uploads.build, path, name, subject)
        except IndexExistsError:
            raise _taken(name) from None
        except InputError as error:
            raise bad_request(str(error).replace(f"{path.parent}{os.sep}", "")) from None
        finally:
            await run_in_threadpool(shutil.rmtree, path.parent, ignore_errors=True)
        services = await run_in_threadpool(uploads.services, name)
        uploads.made.append(name)
        for service in services:
            await add(service)
    return services[0]


async def _progress(task: "asyncio.Task[TextService]", file: str) -> AsyncGenerator[bytes, None]:
    """Yield what happens to a file: that it was received, and the index in the end."""
    yield sse({"stage": "reading", "file": file})
    service = await asyncio.shield(task)
    index = service.index
    found: Document = {"index": getattr(index, "name", None), "facts": getattr(index, "facts", None)}
    yield sse({"stage": "ready", **found, "model": service.options.name})
    yield DONE
