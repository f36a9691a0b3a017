"""A server of tools: over standard input and output, and as an application for HTTP."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, cast

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from pydantic import ValidationError

from refactx.errors import RefactxError, text_for_clients, without_password

if TYPE_CHECKING:
    from starlette.applications import Starlette


PATH = "/mcp"


class ToolServer(MCPServer):
    """A server of some functions as tools, each with a schema of what it returns. `about`: what assistants are told."""

    def __init__(self, name: str, about: str, tools: Iterable[Callable[..., Any]]) -> None:
        super().__init__(name, instructions=about, version=version("refactx"), log_level="WARNING")
        for tool in tools:
            self.tool(structured_output=True)(tool)

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool. Raise ToolError in one line, also for arguments that do not fit."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            first = error.__cause__.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise ToolError(f"Error executing tool {name}: the argument {place} is wrong: {first['msg']}") from None

    async def get_prompt(self, name: str, arguments: Any = None, context: Any = None) -> Any:
        """Raise MCPError: there are no prompts."""
        raise MCPError(INVALID_PARAMS, "this server has no prompts: use its tools")

    async def run_stdio_async(self) -> None:
        """Serve over standard input and output until input has ended, and each request has its reply.

        The SDK alone would cancel what is being done at the end of input, and be silent about lines that are no messages.
        """
        waiting, replied = Counter[str](), anyio.Condition()
        requests, given = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        replies, taken = anyio.create_memory_object_stream[SessionMessage](0)

        async def read() -> None:
            async with requests:
                async for item in incoming:
                    if isinstance(item, Exception):
                        if (error := _refusal(item)) is not None:
                            await outgoing.send(SessionMessage(error))
                        continue
                    message = item.message
                    if isinstance(message, JSONRPCRequest):
                        waiting[str(message.id)] += 1
                    elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
                        waiting.pop(str((message.params or {}).get("requestId")), None)  # it has no reply
                    await requests.send(item)
                async with replied:
                    while any(number > 0 for number in waiting.values()):
                        await replied.wait()

        async def write() -> None:
            async with taken:
                async for item in taken:
                    await outgoing.send(item)
                    if isinstance(item.message, JSONRPCResponse | JSONRPCError):
                        async with replied:
                            waiting[str(item.message.id)] -= 1
                            replied.notify_all()

        try:
            async with stdio_server() as (incoming, outgoing), outgoing, anyio.create_task_group() as tasks:
                tasks.start_soon(read)
                tasks.start_soon(write)
                server = self._lowlevel_server
                await server.run(given, replies, server.create_initialization_options())
        except* (BrokenPipeError, anyio.BrokenResourceError):
            pass  # the client reads no more


def _refusal(error: Exception) -> JSONRPCError | None:
    """Return the reply to a line that is no message; None for an empty line."""
    problems = error.errors() if isinstance(error, ValidationError) else []
    ids = (one["input"].get("id") for one in problems if isinstance(one["input"], dict))
    number = next((one for one in ids if isinstance(one, str | int) and not isinstance(one, bool)), None)
    code, text = INVALID_REQUEST, "the line is no request or notification of JSON-RPC 2.0: send one a line"
    if problems and problems[0]["type"] == "json_invalid":
        if not str(problems[0]["input"]).strip():
            return None
        code, text = PARSE_ERROR, f"the line is no JSON: {problems[0]['msg'].partition(': ')[2]}"
    return JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=text))


def http_app(
    server: MCPServer, *, hosts: Sequence[str] | None, max_bytes: int, origins: Sequence[str] = ()
) -> "Starlette":
    """Return the ASGI application of a server, at `/mcp`. It needs its lifespan.

    `hosts`: the names under which browsers may reach it, and whose pages may ask, None: any; `origins`: other sites whose
    pages may ask, `*`: any, if others have checked the names; `max_bytes`: of the body of a request. No request depends on
    an earlier one: there are no sessions, and clients may come back after a restart. So there is nothing that a stream of
    the server's own could tell: a GET, which would hold a connection for ever, has the status 405.
    """
    names = [f"[{name}]" if ":" in name else name for name in hosts or ()]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=hosts is not None and "*" not in origins,
        allowed_hosts=[form for name in names for form in (name, f"{name}:*")],
        allowed_origins=[
            *origins,
            *(
                form
                for name in names
                for scheme in ("http", "https")
                for form in (f"{scheme}://{name}", f"{scheme}://{name}:*")
            ),
        ],
    )
    app = server.streamable_http_app(
        streamable_http_path=PATH, stateless_http=True, max_request_body_size=max_bytes, transport_security=security
    )
    for route in cast("list[Any]", app.routes):
        route.methods = {"POST"}
    return app


_log = logging.getLogger(__name__)


def tool_error(error: RefactxError) -> Exception:
    """Return the error of a tool, in one line. Where the database is goes to the log alone."""
    from mcp.server.mcpserver.exceptions import ToolError

    told, message = text_for_clients(error), " ".join(without_password(str(error)).split())
    if told != message:
        _log.warning("%s", message)
    return ToolError(told)
