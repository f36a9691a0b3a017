"""The page of a server: the files of `refactx/server/page/`, as they are."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse

PAGE = Path(__file__).parent / "page"
FIRST = "index.html"


def page_router(folder: Path = PAGE) -> APIRouter:
    """Return the routes of the files in a folder: `index.html` is `/`, `explore.html` is `/explore`, others have their
    names. Nothing else on the disk can be asked for."""
    router = APIRouter(include_in_schema=False)
    for file in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if file.is_file():
            router.add_api_route(_path(file.relative_to(folder)), _reply(file), response_class=FileResponse)
    return router


def _path(file: Path) -> str:
    """Return the path of a file's address.

    >>> _path(Path("index.html")), _path(Path("explore.html")), _path(Path("icons/a.svg"))
    ('/', '/explore', '/icons/a.svg')
    """
    if file.name == FIRST:
        return "/" if file.parent == Path() else f"/{file.parent.as_posix()}/"
    return f"/{(file.with_suffix('') if file.suffix == '.html' else file).as_posix()}"


def _reply(file: Path) -> Callable[[], Awaitable[FileResponse]]:
    async def reply() -> FileResponse:
        return FileResponse(file, headers={"Cache-Control": "no-cache"})

    return reply
