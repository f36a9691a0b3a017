"""The embedded PostgreSQL server, which is installed with ReFactX and started on demand.

`start` returns an `EmbeddedServer`, whose `url` a `Database` takes; `wait_until_stopped` waits for its end.
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.postgres.embedded.server import EmbeddedServer, start, wait_until_stopped

__all__ = ["EmbeddedServer", "start", "wait_until_stopped"]
__getattr__ = lazy_exports(__name__, {"server": "EmbeddedServer start wait_until_stopped"})
