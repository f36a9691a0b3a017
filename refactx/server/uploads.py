"""Files that people send, each of which becomes an index that the server answers from."""

import asyncio
import errno
import os
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from refactx.errors import IndexExistsError, InputError
from refactx.server.http import ApiError, bad_request
from refactx.server.service import TextService
from refactx.server.streaming import DONE, STREAMED, Document, JsonRoute, note, sse, streamed

_NAME = re.compile(r"\w(?:[\w .-]{0,98}[\w.-])?")
BYTES = "application/octet-stream"
"""The type of the body: no page of another site can send it without being allowed to."""
_UNSAFE = re.compile(r"[^\w.-]+")


@dataclass(frozen=True, kw_only=True)
class Uploads:
    """The making of indexes, of one file at a time.

    `most`: bytes of a file; `build`: makes an index of a file, given its path, the name of the index, and the column with
    the names of its rows ("": it has three columns, or is no table); `services`: opens what answers from an index.
    Both run in a thread.
    """

    most: int
    build: Callable[[Path, str, str], object]
    services: Callable[[str], list[TextService]]
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


def uploads_router(
    service: TextService, uploads: Uploads | None, add: Callable[[TextService], Awaitable[None]]
) -> APIRouter:
    """Return the route that makes an index of a file. `add`: lets the server answer by a service."""
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
        note(request, index=name)
        async with uploads.lock:
            folder = Path(await run_in_threadpool(tempfile.mkdtemp, prefix="refactx-file-"))
            try:
                path = folder / (_UNSAFE.sub("_", file).strip("._")[-100:] or "file")
                await _receive(request, path)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            task = asyncio.ensure_future(_made(uploads, add, path, name, subject))
            running.add(task)  # it ends, and is kept until then, whether the client stays or not
            task.add_done_callback(running.discard)
        return await streamed(service, request, [], _progress(task, path.name))

    return router


async def _receive(request: Request, path: Path) -> None:
    """Write the body of a request to a file. Raises ApiError (507) if there is no room."""
    try:
        with path.open("wb") as opened:
            async for block in request.stream():
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
        except IndexExistsError as error:
            raise ApiError(409, f"{str(error).partition(':')[0]}: give another name") from None
        except InputError as error:
            raise bad_request(str(error).replace(f"{path.parent}{os.sep}", "")) from None
        finally:
            await run_in_threadpool(shutil.rmtree, path.parent, ignore_errors=True)
        services = await run_in_threadpool(uploads.services, name)
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
