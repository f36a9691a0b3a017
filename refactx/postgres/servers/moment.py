"""What an index consists of, as one server has it at one moment."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from refactx.postgres.bounded import BoundedConnection
from refactx.postgres.servers.server import Server
from refactx.sql import query


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An index as a server has it.

    `server`: of the connection; `started`: when the server that answered was started, also behind a pooler;
    `is_standby`: whether it follows another. `changes`: how often the index was changed; None if it is not there.
    `names`: numbers and times of its name tables, the latest first. `segments`: the columns of `sql/snapshot.sql` from
    the number on, in the order of the numbers.
    """

    server: Server
    started: str
    is_standby: bool
    changes: int | None
    names: tuple[tuple[int, datetime], ...]
    segments: tuple[Sequence[Any], ...]

    def is_before(self, changes: int, name_table: int) -> bool:
        """Return whether the index has not had so many changes, or not this name table, yet."""
        return self.changes is None or self.changes < changes or self.latest_names < name_table

    @property
    def latest_names(self) -> int:
        """The number of the latest name table; 0: there is none."""
        return self.names[0][0] if self.names else 0


def read_moment(connection: BoundedConnection, index: int) -> Moment:
    """Return an index as a connection sees it now, with one query."""
    rows = connection.execute(query("snapshot").encode(), {"index": index}, binary=True).fetchall()
    started, is_standby, changes, numbers, times = rows[0][:5]
    if connection.server is None:
        raise RuntimeError("this is no connection of a pool")
    return Moment(
        server=connection.server,
        started=started,
        is_standby=is_standby,
        changes=changes,
        names=tuple(zip(numbers or (), times or (), strict=True)),
        segments=tuple(row[5:] for row in rows if row[5] is not None),
    )
