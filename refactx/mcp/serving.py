"""A server of tools: over standard input and output, and as an application for HTTP."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from inspect import getdoc
from typing import TYPE_CHECKING, Any, cast, get_type_hints

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
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
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response

from refactx.errors import InputError, RefactxError, text_for_clients, without_password

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


PATH = "/mcp"
BATCH_VERSION, MOST_IN_BATCH = "2025-03-26", 100
"""The version of MCP that has batches, which clients without a header for it have; the most messages of a batch."""
BAD_ID = "the id of a request has to be a text or an integer"
_log = logging.getLogger(__name__)


class ToolServer(MCPServer):
    """A server of some functions as tools, each with a schema of what it returns. `about`: what assistants are told."""

    def __init__(self, name: str, about: str, tools: Iterable[Callable[..., Any]]) -> None:
        made = [Tool.from_function(one, structured_output=True) for one in tools]
        for tool in made:  # the SDK describes the classes within the one that a tool returns, not that one
            if tool.output_schema is not None:
                tool.output_schema["description"] = getdoc(get_type_hints(tool.fn)["return"])
        super().__init__(name, instructions=about, version=version("refactx"), log_level="WARNING", tools=made)

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool. Raise ToolError in one line, also for arguments that do not fit. Where the database is goes to the log
        alone."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, RefactxError):
                told, message = text_for_clients(cause), " ".join(without_password(str(cause)).split())
                if told != message:
                    _log.warning("%s", message)
            elif isinstance(cause, ValidationError):
                first = cause.errors()[0]
                told = f"the argument {'.'.join(map(str, first['loc']))} is wrong: {first['msg']}"
            else:
                raise
            raise ToolError(f"Error executing tool {name}: {told}") from None

    async def get_prompt(self, name: str, arguments: Any = None, context: Any = None) -> Any:
        """Raise MCPError: there are no prompts."""
        raise MCPError(INVALID_PARAMS, "this server has no prompts: use its tools")

    async def run_stdio_async(self) -> None:
        """Serve over standard input and output until input has ended, and each request has its reply.

        The SDK alone would cancel what is being done at the end of input, and be silent about lines that are no messages.
        """
        waiting, replied, agreed = Counter[str](), anyio.Condition(), ""
        requests, given = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        replies, taken = anyio.create_memory_object_stream[SessionMessage](0)

        async def read() -> None:
            async with requests:
                async for item in incoming:
                    for message in _messages(item, takes_batches=agreed == BATCH_VERSION):
                        if isinstance(message, JSONRPCError):
                            await outgoing.send(SessionMessage(message))
                            continue
                        if isinstance(message, JSONRPCRequest):
                            waiting[str(message.id)] += 1
                        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
                            waiting.pop(str((message.params or {}).get("requestId")), None)  # it has no reply
                        await requests.send(SessionMessage(message))
                async with replied:
                    while any(number > 0 for number in waiting.values()):
                        await replied.wait()

        async def write() -> None:
            nonlocal agreed
            async with taken:
                async for item in taken:
                    await outgoing.send(item)
                    if isinstance(item.message, JSONRPCResponse):
                        agreed = item.message.result.get("protocolVersion", agreed)
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


def _messages(item: SessionMessage | Exception, *, takes_batches: bool) -> list[JSONRPCMessage]:
    """Return the messages of a line, or the errors that it is answered with."""
    if isinstance(item, SessionMessage):
        return [item.message if _is_one(item.message) else _bad_id()]
    whole = item.errors()[0]["input"] if isinstance(item, ValidationError) else None
    if not (takes_batches and isinstance(whole, list) and whole):
        refusal = _refusal(item)
        return [] if refusal is None else [refusal]
    found = list[JSONRPCMessage]()
    for part in whole[:MOST_IN_BATCH]:
        try:
            message = jsonrpc_message_adapter.validate_python(part, by_name=False)
            found.append(message if _is_one(message) else _bad_id())
        except ValidationError as error:
            found += filter(None, [_refusal(error)])
    return found


def _is_one(message: JSONRPCMessage) -> bool:
    """Return whether a message is what it seems: a request with an id that MCP does not have seems to be a notification."""
    return not isinstance(message, JSONRPCNotification) or message.method.startswith("notifications/")


def _bad_id() -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=INVALID_REQUEST, message=BAD_ID))


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
        route.methods, route.app = {"POST"}, _single_messages(route.app, max_bytes)
    return app


def _single_messages(app: "ASGIApp", max_bytes: int) -> "ASGIApp":
    """Return an application that refuses requests with ids that MCP does not have, which the SDK would take for notifications,
    and answers batches where the version has them. `max_bytes`: of a body that is looked at."""

    async def answer(scope: "Scope", receive: "Receive", send: "Send") -> None:
        body, has_more = b"", True
        while has_more and len(body) <= max_bytes:
            message = await receive()
            if message["type"] != "http.request":
                return
            body, has_more = body + message.get("body", b""), message.get("more_body", False)
        try:
            document = None if has_more else json.loads(body)
        except (ValueError, RecursionError):
            document = None
        version = Headers(scope=scope).get("mcp-protocol-version", BATCH_VERSION)
        if isinstance(document, list) and 0 < len(document) <= MOST_IN_BATCH and version == BATCH_VERSION:
            found = [one for part in document for one in await _answered(app, scope, receive, part)]
            response = JSONResponse(found) if found else Response(status_code=202)
        elif _has_bad_id(document):
            response = JSONResponse(_bad_id().model_dump(), 400)
        else:
            await app(scope, _replayed(body, receive, has_more=has_more), _short_errors(send))
            return
        await response(scope, receive, send)

    return answer


def _has_bad_id(document: Any) -> bool:
    """Return whether JSON is a request with an id that MCP does not have."""
    if not isinstance(document, dict) or not {"id", "method"} <= document.keys():
        return False
    return isinstance(document["id"], bool) or not isinstance(document["id"], str | int)


async def _answered(app: "ASGIApp", scope: "Scope", receive: "Receive", part: Any) -> list[Any]:
    """Return the reply to a message of a batch, none to a notification."""
    if _has_bad_id(part):
        return [_bad_id().model_dump()]
    body, text = json.dumps(part).encode(), bytearray()
    headers = [pair for pair in scope["headers"] if pair[0] != b"content-length"]

    async def keep(message: "Message") -> None:
        text.extend(message.get("body", b""))

    own = {**scope, "headers": [*headers, (b"content-length", str(len(body)).encode())]}
    await app(own, _replayed(body, receive), _short_errors(keep))
    lines = bytes(text).decode().splitlines()
    events = [line.removeprefix("data:") for line in lines if line.startswith("data:")] or ["".join(lines)]
    replies = [json.loads(one) for one in events if one.strip()]
    return [one for one in replies if "result" in one or "error" in one]


def _replayed(body: bytes, receive: "Receive", *, has_more: bool = False) -> "Receive":
    """Return what receives a body that was read, and then what follows."""
    is_given = False

    async def replay() -> "Message":
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": has_more}

    return replay


def _short_errors(send: "Send") -> "Send":
    """Return what sends errors in one line. The SDK lists on many what each kind of message has, and the body has not."""
    start: Message | None = None

    async def send_short(message: "Message") -> None:
        nonlocal start
        if message["type"] == "http.response.start" and message["status"] == 400:
            start = message  # it has the length of the body, which comes next and is whole
        elif start is None:
            await send(message)
        else:
            body = _short_error(message["body"])
            MutableHeaders(scope=start)["content-length"] = str(len(body))
            await send(start)
            await send({**message, "body": body})
            start = None

    return send_short


def _short_error(body: bytes) -> bytes:
    """Return the body of a reply, with an error in one line."""
    try:
        document = json.loads(body)
        if "\n" not in document["error"]["message"]:
            return body
    except (ValueError, KeyError, TypeError):
        return body
    said = "the body is no request or notification of JSON-RPC 2.0: send one in each POST"
    return json.dumps(document | {"error": {"code": INVALID_REQUEST, "message": said}}).encode()


def not_started(what: str, option: str) -> InputError:
    """Return the error of a tool that needs something with which the server was not started."""
    command = f": start `refactx mcp` with {option}"
    clients = f" here: whoever runs this server can start it with {option}"
    return InputError(f"there is no {what}", command=command, clients=clients)
