"""The embedded PostgreSQL server of a home: started on demand, shared by processes, stopped after the last one.

`start()` returns the server below REFACTX_HOME, the running one or a new one. All processes that use that folder on
this machine share it. A watchdog process stops it about two seconds after its last user has ended: has closed the
server, exited, or been killed. A forked child is a user until it ends or closes the server itself.

The locks (flock) are always taken in this order:

| file | lock | held |
|---|---|---|
| `start.lock` | exclusive | by a process while it starts or stops the server |
| `users.lock` | shared | by each user while it uses the server |
| `watchdog.lock` | exclusive | by the watchdog while it runs |
| `server.lock` | exclusive | by all processes of the server (`refactx.postgres.embedded.cluster`) |
"""

import json
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from refactx.errors import DatabaseError
from refactx.paths import make_home, refactx_home
from refactx.postgres.embedded import file_locks
from refactx.postgres.embedded import watchdog as embedded_watchdog
from refactx.postgres.embedded.cluster import Cluster, check_path
from refactx.postgres.embedded.programs import account_for, carried_versions, programs_of

_log = logging.getLogger(__name__)


class EmbeddedServer:
    """A use of the embedded server, until it is closed. Closing is idempotent, and ends only this use."""

    def __init__(self, cluster: Cluster, users: int) -> None:
        self.url = cluster.url
        """The libpq URL of its database `refactx`, over a Unix socket and without a password."""
        self.diagnosis = cluster.diagnosis
        """What the server's log says to do, for an error; mostly empty."""
        self._users: int | None = users
        self._closing = threading.Lock()

    def close(self) -> None:
        """End this use. After the last one the server stops within some seconds; its data stays."""
        with self._closing:
            users, self._users = self._users, None
        if users is not None:
            os.close(users)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def start(home: Path | None = None) -> EmbeddedServer:
    """Use the server of a home (default: `refactx.paths.refactx_home`). Start it if it does not run.

    That takes about a millisecond if it runs, and a few seconds the first time. Raises DatabaseError if the server
    cannot be started, InputError if the home cannot be used; then no process is left.
    """
    home = refactx_home() if home is None else make_home(home)
    cluster = Cluster(home / "embedded")
    try:
        cluster.folder.mkdir(mode=0o711, exist_ok=True)
        status = cluster.folder.stat()
        if status.st_uid == os.geteuid() and status.st_mode & 0o777 != 0o711:  # the umask has removed permissions
            cluster.folder.chmod(0o711)
        with file_locks.exclusive(cluster.folder / "start.lock"):
            users = file_locks.share(cluster.folder / "users.lock")
            try:
                if cluster.is_ready():
                    _ensure_watchdog(cluster.folder)
                else:
                    _bring_up(home, cluster)
            except BaseException:
                os.close(users)
                raise
    except OSError as error:
        raise DatabaseError(
            f"cannot run the database server in {home} ({error}): set REFACTX_HOME to another folder or give a server "
            "with --db or REFACTX_DB"
        ) from None
    return EmbeddedServer(cluster, users)


def wait_until_stopped(home: Path | None = None) -> None:
    """Wait until the server of a home has stopped. It does not stop while it has users."""
    cluster = Cluster((refactx_home() if home is None else make_home(home)) / "embedded")
    while cluster.folder.exists():
        # Under the start lock: otherwise a starting process would take our lock on watchdog.lock for a watchdog.
        with file_locks.exclusive(cluster.folder / "start.lock"):
            if cluster.is_ready():
                _ensure_watchdog(cluster.folder)
            else:
                lock = file_locks.try_exclusive(cluster.folder / "watchdog.lock")
                if lock is not None:
                    os.close(lock)
                    return
        time.sleep(0.05)


def _bring_up(home: Path, cluster: Cluster) -> None:
    check_path(home)
    carried = max(carried_versions())
    cluster.check_release(carried)
    account = account_for(cluster.data)
    account.check_can_reach(cluster.folder)
    programs = programs_of(carried, home, account)
    check_path(programs)
    if not cluster.data.exists():
        _log.info("making a database in %s", cluster.data)
    cluster.create(programs, account)
    server = {
        "pg_ctl": str(programs / "pg_ctl"),
        "data": str(cluster.data),
        "sockets": str(cluster.sockets),
        "uid": account.uid,
        "gid": account.gid,
    }
    fd = file_locks.open_file(cluster.folder / "server.json", os.O_WRONLY | os.O_TRUNC)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump(server, file)
    # The watchdog first: it stops the server if this process is killed during the start.
    _ensure_watchdog(cluster.folder)
    cluster.start(programs, account)


def _ensure_watchdog(folder: Path) -> None:
    lock = file_locks.try_exclusive(folder / "watchdog.lock")
    if lock is None:
        return
    # The watchdog inherits the lock with its descriptor: there is no moment in which no process holds it.
    try:
        log = file_locks.open_file(folder / "watchdog.log", os.O_WRONLY | os.O_TRUNC)
        try:
            # An isolated script: it needs neither this package, which may be uninstalled by then, nor its dependencies.
            subprocess.run(
                [sys.executable, "-I", "-S", embedded_watchdog.__file__, folder, str(lock)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                pass_fds=(lock,),
                check=True,
            )
        except subprocess.CalledProcessError as error:
            raise DatabaseError(f"the watchdog of the database server does not start: {error}") from None
        finally:
            os.close(log)
    finally:
        os.close(lock)
