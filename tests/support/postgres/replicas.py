"""A primary server and a standby that follows it, or lags at will, in a folder of their own."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

import psycopg

from refactx.postgres.embedded.cluster import DATABASE, Cluster
from refactx.postgres.embedded.programs import Account, account_for, carried_versions, programs_of
from support.postgres.embedded_server import eventually, select
from support.servers import new_home

_SETTINGS = {
    **{"listen_addresses": "", "wal_level": "replica", "max_wal_senders": "8", "hot_standby": "on"},
    **{"shared_buffers": "32MB", "max_connections": "60", "fsync": "off", "huge_pages": "off"},
    **{"wal_retrieve_retry_interval": "100ms", "max_standby_streaming_delay": "100ms", "log_min_messages": "error"},
}


@dataclass(frozen=True)
class Server:
    """One server of the two: its data in `folder`, and a Unix socket there."""

    folder: Path
    account: Account
    programs: Path

    @cached_property
    def cluster(self) -> Cluster:
        return Cluster(self.folder)

    @property
    def host(self) -> str:
        """The folder of its socket, which is a host to libpq."""
        return str(self.folder / "run")

    @property
    def url(self) -> str:
        return address(self)

    def start(self) -> None:
        self.account.make_folder(Path(self.host))
        settings = _SETTINGS | {"unix_socket_directories": self.host}
        options = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        arguments: list[str | Path] = ["-D", self.cluster.data, "-l", self.folder / "run" / "log", "-o", options]
        done = self.account.run([self.programs / "pg_ctl", "start", *arguments, "-w", "-s"])
        assert done.returncode == 0, done.stdout + (self.folder / "run" / "log").read_text()

    def kill(self) -> None:
        """Kill it, and wait until it takes no connection."""
        number = int((self.cluster.data / "postmaster.pid").read_text().split()[0])
        os.kill(number, signal.SIGKILL)
        assert eventually(lambda: not self.cluster.is_ready())

    def stop(self) -> None:
        """Stop it at once; a server that does not run stays as it is."""
        self.account.run([self.programs / "pg_ctl", "stop", "-D", self.cluster.data, "-m", "immediate", "-w", "-s"])


@dataclass(frozen=True)
class Replicated:
    """A primary server and its standby."""

    primary: Server
    standby: Server

    @property
    def url(self) -> str:
        """The address of both, each of which libpq chooses as often."""
        return address(self.primary, self.standby, load_balance_hosts="random")

    def pause(self) -> None:
        """Let the standby lag from now on."""
        _ask_standby(self.standby.url, "SELECT pg_wal_replay_pause()")
        paused = "SELECT pg_get_wal_replay_pause_state() = 'paused'"
        assert eventually(lambda: _ask_standby(self.standby.url, paused) is True)

    def resume(self) -> None:
        """Let the standby follow again."""
        _ask_standby(self.standby.url, "SELECT pg_wal_replay_resume()")

    def catch_up(self) -> None:
        """Wait until the standby has all that the primary has now."""
        self.resume()
        self._wait_for_log("replay")

    def receive(self) -> None:
        """Wait until the standby has received all that the primary has now, though it may not show it yet."""
        self._wait_for_log("receive")

    def _wait_for_log(self, step: str) -> None:
        position = select(self.primary.url, "SELECT pg_current_wal_lsn()")
        has_it = f"SELECT pg_last_wal_{step}_lsn() >= '{position}'::pg_lsn"
        assert eventually(lambda: _ask_standby(self.standby.url, has_it) is True)

    def promote(self) -> None:
        """Make the standby a primary server."""
        assert _ask_standby(self.standby.url, "SELECT pg_promote()")


def address(*servers: Server, **parameters: str) -> str:
    """Return the URL of one server or several."""
    hosts = ",".join(quote(server.host, safe="/") for server in servers)
    ports = ",".join("5432" for _ in servers)
    given = "".join(f"&{name}={value}" for name, value in parameters.items())
    return f"postgresql:///{DATABASE}?host={hosts}&port={ports}&user={DATABASE}{given}"


@contextmanager
def replicated() -> Iterator[Replicated]:
    """Start a primary and a standby, and remove both at the end."""
    home = new_home()
    version = max(carried_versions())
    folders = [home / "primary", home / "standby"]
    account = account_for(folders[0])
    for folder in folders:
        folder.mkdir(mode=0o711)
        if account.switch:
            os.chown(folder, account.uid, account.gid)
    primary, standby = (Server(folder, account, programs_of(version, home, account)) for folder in folders)
    try:
        primary.cluster.create(primary.programs, account)
        primary.start()
        copy: list[str | Path] = [standby.programs / "pg_basebackup", "-D", standby.cluster.data, "--checkpoint=fast"]
        done = account.run([*copy, "--write-recovery-conf", "-h", primary.host, "-U", DATABASE])
        assert done.returncode == 0, done.stdout
        standby.start()
        yield Replicated(primary, standby)
    finally:
        for server in (standby, primary):
            server.stop()
        shutil.rmtree(home)


def _ask_standby(url: str, query: str) -> object:
    """Return the first value of a query, which a standby may cancel for what it replays."""
    while True:
        try:
            return select(url, query)
        except psycopg.OperationalError as error:  # also as a connection is made
            if "conflict with recovery" not in str(error):
                raise
