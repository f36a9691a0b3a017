"""The errors of stores."""

from refactx.errors import RefactxError

READ_ERRORS = (OSError, RuntimeError)
"""What pyoxigraph raises if it cannot read a database: RocksDB's checksums and missing files are RuntimeErrors."""


class StoreError(RefactxError):
    """A store that cannot be used: there is none, it is behind its index, belongs to another one, or is damaged.

    The message has the command that makes it right.
    """
