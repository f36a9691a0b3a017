"""The error of stores."""

from refactx.errors import RefactxError


class StoreError(RefactxError):
    """A store that cannot be used: there is none, it is behind its index, belongs to another one, or is damaged.

    The message has the command that makes it right.
    """
