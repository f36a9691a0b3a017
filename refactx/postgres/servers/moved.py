"""The error of a lookup that would read another server than the one whose tables it knows."""

from refactx.errors import IndexNotFoundError


class ServerChangedError(IndexNotFoundError):
    """The connections lead to another server than the one at which an index was opened: open it there again."""
