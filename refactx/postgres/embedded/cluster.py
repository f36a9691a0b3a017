"""A PostgreSQL data folder, and the server that runs on it.

Nothing here locks: the caller holds the start lock (`refactx.postgres.embedded.server`). The server listens only on a
Unix socket in a folder that only its user and root can enter, so it trusts every connection.
"""

import contextlib
import hashlib
import os
import re
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from refactx.errors import DatabaseError, InputError
from refactx.postgres.embedded.account import Account

DATABASE = "refactx"
PORT = 5432  # part of the name of the socket; no network port is opened
_SOCKET = f".s.PGSQL.{PORT}"
_LONGEST_SOCKET_PATH = 100  # the systems allow 103 (macOS) or 107 bytes
_START_SECONDS = 900  # after a crash in a bulk load the server first replays its log
_LEFTOVER_SECONDS = 30

_SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "max_connections": "100",
    # Loads are large and rare, and nothing is replicated. Commits are durable: fsync and synchronous_commit are on.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "jit": "off",  # queries are lookups by key
    # Containers: no shared memory besides the buffers, and no huge pages, which may be announced but missing.
    "huge_pages": "off",
    "max_parallel_workers_per_gather": "0",
    "log_checkpoints": "off",
    "log_min_messages": "error",
}
_SHARED_BUFFERS = ("256MB", "32MB")  # the second if the first is not available


@dataclass(frozen=True)
class Cluster:
    """A data folder below `folder`, with its log and its socket."""

    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "log" / "server.log"

    @property
    def sockets(self) -> Path:
        """The folder of the socket: in `folder`, or in /tmp if that path is too long or not valid as a host name."""
        own = self.folder / "run"
        if len(os.fsencode(own / _SOCKET)) <= _LONGEST_SOCKET_PATH and re.fullmatch(r"[\w/.+-]+", str(own), re.ASCII):
            return own
        digest = hashlib.sha256(os.fsencode(self.folder)).hexdigest()
        return Path("/tmp") / f"refactx-{digest[:16]}"  # noqa: S108  # private

    @property
    def url(self) -> str:
        return f"postgresql:///{DATABASE}?host={quote(str(self.sockets), safe='/')}&port={PORT}&user={DATABASE}"

    def is_ready(self) -> bool:
        """Return whether a server runs and takes connections. Raises DatabaseError if it is another user's server."""
        try:
            state = (self.data / "postmaster.pid").read_text().splitlines()
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(5)
                probe.connect(str(self.sockets / _SOCKET))
        except PermissionError as error:
            raise DatabaseError(
                f"the database in {self.data} belongs to another user ({error}): set another REFACTX_HOME"
            ) from None
        except OSError:
            return False
        return len(state) > 7 and state[7].strip() == "ready"

    def major(self) -> int | None:
        """Return the major version of the data folder; None if there is no folder. Raises DatabaseError."""
        if not self.data.exists():
            return None
        try:
            return int((self.data / "PG_VERSION").read_text().strip().partition(".")[0])
        except (OSError, ValueError):
            raise DatabaseError(
                f"{self.data} is not a data folder of PostgreSQL, or is damaged: move it away, or set REFACTX_HOME to "
                "another folder"
            ) from None

    def create(self, programs: Path, account: Account) -> None:
        """Make the data folder with its database, if it is missing. If that fails, there is no data folder."""
        self.clear_leftovers()
        if self.data.exists():
            return
        with self.unfinished(account) as folder:
            self.initdb(programs, account, folder)
            # A server for one session, without a socket: no other process sees a cluster without its database.
            single: list[str | Path] = [programs / "postgres", "--single", "-D", folder, "-c", "log_checkpoints=off"]
            _run(account, [*single, "postgres"], stdin=f"CREATE DATABASE {DATABASE};\n")
            folder.rename(self.data)

    def clear_leftovers(self) -> None:
        """Remove the unfinished folders of killed processes, and end the processes that still work in them."""
        for leftover in self.folder.glob("data.unfinished.*"):
            patience = time.monotonic() + _LEFTOVER_SECONDS
            # Again and again: a process may have started another before it was killed.
            while (alive := processes_in(leftover)) and time.monotonic() < patience:
                for process in alive:
                    with contextlib.suppress(OSError):
                        os.kill(process, signal.SIGKILL)
                time.sleep(0.01)
            shutil.rmtree(leftover, ignore_errors=True)

    @contextlib.contextmanager
    def unfinished(self, account: Account) -> Iterator[Path]:
        """Make an empty folder for a new data folder. At the end it is removed, unless the caller has renamed it."""
        # A new name each time: the initdb of a killed process may still work in its own folder.
        folder = Path(tempfile.mkdtemp(prefix="data.unfinished.", dir=self.folder))
        try:
            account.make_folder(folder)
            yield folder
        finally:
            self.clear_leftovers()

    def initdb(self, programs: Path, account: Account, folder: Path, *options: str) -> None:
        """Make an empty cluster in an empty folder."""
        initdb: list[str | Path] = [programs / "initdb", "-D", folder, f"--username={DATABASE}", "--encoding=UTF8"]
        auth = ["--auth-local=trust", "--auth-host=reject"]
        _run(account, [*initdb, "--locale=C", *auth, "--no-instructions", *options])

    def stop(self, programs: Path, account: Account) -> None:
        """Stop the server after a checkpoint (mode `fast`)."""
        _run(account, [programs / "pg_ctl", "stop", "-D", self.data, "-m", "fast", "-w", "-t", str(_START_SECONDS)])

    def stop_orphan(self, programs: Path, account: Account) -> None:
        """Stop the server of this data folder that a killed pg_upgrade left, even if it is only starting."""
        patience = time.monotonic() + _LEFTOVER_SECONDS
        while (alive := processes_in(self.data)) and time.monotonic() < patience:
            if _pid_in(self.data / "postmaster.pid") in alive:
                self.stop(programs, account)
                return
            time.sleep(0.05)

    def start(self, programs: Path, account: Account) -> None:
        """Start the server, and return when it takes connections.

        Raises DatabaseError, with the end of the server's log, if it does not start.
        """
        if self._wait_for_orphan():
            return
        account.make_folder(self.log.parent)
        account.make_folder(self.sockets)
        for buffers in _SHARED_BUFFERS:
            if self.log.exists():
                self.log.replace(self.log.with_suffix(".log.1"))
            settings = _SETTINGS | {"shared_buffers": buffers, "unix_socket_directories": str(self.sockets)}
            options = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
            pg_ctl: list[str | Path] = [programs / "pg_ctl", "start", "-D", self.data, "-l", self.log, "-o", options]
            done = account.run([*pg_ctl, "-w", "-s", "-t", str(_START_SECONDS)])
            if done.returncode == 0:
                return
            if self._wait_for_orphan():  # the pg_ctl of a killed process has started it
                return
            if "could not map anonymous shared memory" not in self._log_text():
                break
        raise DatabaseError(
            f"the database server in {self.data} does not start: "
            f"{reason(self._log_text() or done.stdout)} (log: {self.log})"
        )

    def _wait_for_orphan(self) -> bool:
        """Wait for the server of a killed starter, and return True when it is ready; False if there is none.

        Also wait for the processes of a killed server to end. Its lock files may then have the process id of another
        process (after a reboot, in a new container) or of a zombie. PostgreSQL would take that process for a server and
        not start, so those files are removed.
        """
        deadline = time.monotonic() + _START_SECONDS
        patience = time.monotonic() + _LEFTOVER_SECONDS
        while alive := processes_in(self.data):
            if self.is_ready():
                return True
            if time.monotonic() > (deadline if _pid_in(self.data / "postmaster.pid") in alive else patience):
                raise DatabaseError(
                    f"processes of an earlier database server do not end ({', '.join(map(str, sorted(alive)))}): "
                    "end them and try again"
                )
            time.sleep(0.05)
        for lock in (self.data / "postmaster.pid", self.sockets / f"{_SOCKET}.lock"):
            if Path(f"/proc/{_pid_in(lock)}").exists():
                lock.unlink()
        return False

    def _log_text(self) -> str:
        try:
            return self.log.read_text(errors="replace")
        except OSError:
            return ""


def check_path(path: Path) -> None:
    """Raise InputError if PostgreSQL's programs, which put paths into shell commands, would fail with a path."""
    if set(str(path)) & set('"$`\\\n'):
        raise InputError(f"PostgreSQL cannot run from {path}: set REFACTX_HOME to a path of plain characters")


def processes_in(folder: Path) -> set[int]:
    """Return the processes whose working folder is `folder`: those of a server work in its data folder.

    Without /proc there are none.
    """
    found = set()
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if link.readlink() == folder:
                found.add(int(link.parent.name))
    return found


def _pid_in(lock: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(lock.read_text().splitlines()[0])
    return None


def _run(account: Account, command: list[str | Path], stdin: str = "") -> None:
    done = account.run(command, stdin)
    if done.returncode != 0:
        raise DatabaseError(
            f"cannot make a database: {reason(done.stdout)}; correct that, or give a running server with --db or "
            "REFACTX_DB"
        )


def reason(text: str) -> str:
    """Return the last four lines of a log with a PostgreSQL message, or the last four lines if there is none."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    messages = [line for line in lines if re.search(r"(LOG|FATAL|PANIC|ERROR|DETAIL|HINT): |: (error|hint): ", line)]
    return " | ".join((messages or lines)[-4:]) or "it wrote no log"
