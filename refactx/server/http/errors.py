"""Errors of requests, in the form of OpenAI's API: `{"error": {"message", "type", "param", "code"}}`."""

from collections.abc import Mapping
from typing import Any

from refactx.errors import DatabaseError, IndexChangedError, IndexNotFoundError, InputError, without_password

RETRY_SECONDS = 2
"""After how many seconds a client should ask again if the database is away."""


class ApiError(Exception):
    """An error that a client gets. `status`: of HTTP; `param`: the field of the request that it is about."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(without_password(message))
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


def away(message: str) -> ApiError:
    """Return the error of a request that may be answered a little later."""
    return ApiError(503, message, code="unavailable", headers={"Retry-After": str(RETRY_SECONDS)})


def api_error(error: BaseException) -> ApiError:
    """Return the error that a client gets for one of refactx, or of a bug."""
    if isinstance(error, ApiError):
        return error
    message = str(error)
    if isinstance(error, InputError):
        return bad_request(message)
    if isinstance(error, DatabaseError | IndexNotFoundError | IndexChangedError):
        return away(message)
    return ApiError(500, "the server failed at this request: its log has the reason", code="internal_error")
