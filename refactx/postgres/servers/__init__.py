"""Which server answers on a connection, and connections to that one alone.

An address may lead to several servers: it names some, a load balancer chooses one, or a pooler such as PgBouncer shares
the sessions of one between its clients. Standbys lag, so that two servers rarely have the same indexes.
"""

from refactx.postgres.servers.moved import ServerChangedError
from refactx.postgres.servers.server import Server

__all__ = ["Server", "ServerChangedError"]
