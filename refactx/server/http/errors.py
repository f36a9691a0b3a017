"""Errors of requests, in the form of OpenAI's API: `{"error": {"message", "type", "param", "code"}}`."""

from collections.abc import Mapping, Sequence
from typing import Any

from refactx.errors import (
    DatabaseError,
    IndexChangedError,
    IndexNotFoundError,
    InputError,
    text_for_clients,
    without_password,
)

RETRY_SECONDS = 2
"""After how many seconds a client should ask again if the database is away."""


class ApiError(Exception):
    """An error that a client gets. `status`: of HTTP; `param`: the field of the request that it is about; `reason`: what
    the log has about it, by default the message."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
        reason: str = "",
    ) -> None:
        super().__init__(without_password(message))
        self.reason = without_password(reason or message)
        self.status, self.code, self.param, self.headers = status, code, param, dict(headers or {})

    @property
    def type(self) -> str:
        """The kind of error, as OpenAI names it.

        >>> ApiError(400, "no").type, ApiError(503, "later").type
        ('invalid_request_error', 'service_unavailable_error')
        """
        kinds = {401: "authentication_error", 429: "rate_limit_error", 500: "server_error"}
        return kinds.get(self.status) or ("service_unavailable_error" if self.status > 500 else "invalid_request_error")

    def to_json(self) -> dict[str, Any]:
        """Return the body of the response."""
        message = " ".join(str(self).encode("utf-8", "replace").decode().split())
        return {"error": {"message": message, "type": self.type, "param": self.param, "code": self.code}}


def bad_request(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """Return the error of a request that cannot be answered as it is."""
    return ApiError(400, message, code=code, param=param)


def away(message: str, reason: str = "") -> ApiError:
    """Return the error of a request that may be answered a little later. `reason`: for the log."""
    return ApiError(503, message, code="unavailable", headers={"Retry-After": str(RETRY_SECONDS)}, reason=reason)


def api_error(error: BaseException) -> ApiError:
    """Return the error that a client gets for one of refactx, or of a bug.

    Its text has nothing about the database and the machine of the server, see `text_for_clients`.
    """
    if isinstance(error, ApiError):
        return error
    message = str(error)
    if isinstance(error, InputError):
        return bad_request(message)
    if isinstance(error, DatabaseError | IndexNotFoundError | IndexChangedError):
        return away(text_for_clients(error), message)
    failed = "the server failed at this request: its log has the reason"
    return ApiError(500, failed, code="internal_error", reason=f"{type(error).__name__}: {message}")


def schema_error(problems: Sequence[Mapping[str, Any]], body: object) -> ApiError:
    """Return the error of a request with fields that are wrong, in a sentence about one of them.

    `problems`: as pydantic lists them. Where a field may have several types, there are some for each: those about the
    innermost place are meant.
    """
    places = [_place(one["loc"], body, is_missing=one["type"] == "missing") for one in problems]
    at = max(places, key=len, default=())
    found = [one for one, place in zip(problems, places, strict=True) if place == at]
    if not at:
        return bad_request("the body of the request has to be an object of JSON, with `Content-Type: application/json`")
    field, says = ".".join(map(str, at)), list(dict.fromkeys(str(one["msg"]) for one in found))
    says = [text.replace("a valid dictionary or object to extract fields from", "an object") for text in says]
    expected = [text.removeprefix("Input should be ") for text in says]
    if any(one["type"] == "missing" for one in found):
        message = f"{field} is missing"
    elif any(one["type"] == "extra_forbidden" for one in found):
        message = f"{field} is not known: leave it out"
    elif all(text != says[number] for number, text in enumerate(expected)):
        message = f"{field} has to be {' or '.join(expected)}"
    else:
        message = f"{field} cannot be read: {' or '.join(says)}"
    return bad_request(message, field)


def _place(loc: Sequence[str | int], body: object, *, is_missing: bool = False) -> tuple[str | int, ...]:
    """Return where a problem is, without the names of types that pydantic adds.

    >>> _place(("body", "stop", "list[str]", 0), {"stop": [1]})
    ('stop', 0)
    """
    found, value = list[str | int](), body
    for part in loc[1:]:
        if loc[0] != "body":
            found.append(part)
        elif isinstance(value, dict) and (part in value or is_missing):
            found.append(part)
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            found.append(part)
            value = value[part]
    return tuple(found)
