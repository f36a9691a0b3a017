"""One PostgreSQL data folder: made, started, looked at. Who may do so when is the business of ``embedded``.

Nothing here locks: the caller holds the start lock. The server listens on a Unix socket alone, in a folder that only
its user (and root) can enter, so it trusts whoever reaches that socket.
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
PORT = 5432  # part of the socket's name; no network port is opened
_SOCKET = f".s.PGSQL.{PORT}"
_LONGEST_SOCKET_PATH = 100  # the systems allow 103 (macOS) or 107 bytes
_START_SECONDS = 900  # a server that crashed in a bulk load reads its log again first
_LEFTOVER_SECONDS = 30

_SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "max_connections": "100",
    # Loads are large and rare, nothing is replicated. What is committed stays: fsync and synchronous_commit are on.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "jit": "off",  # our queries are look-ups by key
    # Containers: no more shared memory than the buffers, and no huge pages that are promised but not there.
    "huge_pages": "off",
    "max_parallel_workers_per_gather": "0",
    "log_checkpoints": "off",
    "log_min_messages": "error",
}
_SHARED_BUFFERS = ("256MB", "32MB")  # the second where the first cannot be had


@dataclass(frozen=True)
class Cluster:
    """A data folder below ``folder``, with its log and its socket."""

    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "log" / "server.log"

    @property
    def sockets(self) -> Path:
        """The folder of the socket: ours, or a short one where its path would not fit or not pass for a host name."""
        own = self.folder / "run"
        if len(os.fsencode(own / _SOCKET)) <= _LONGEST_SOCKET_PATH and re.fullmatch(r"[\w/.+-]+", str(own), re.ASCII):
            return own
        return Path("/tmp") / f"refactx-{hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:16]}"  # noqa: S108  # private

    @property
    def url(self) -> str:
        return f"postgresql:///{DATABASE}?host={quote(str(self.sockets), safe='/')}&port={PORT}&user={DATABASE}"

    def is_ready(self) -> bool:
        """Whether a server runs and takes connections.

        Raises :class:`DatabaseError` where that is another user's server.
        """
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
        """The major version that made the data folder; None where there is none. Raises :class:`DatabaseError`."""
        if not self.data.exists():
            return None
        try:
            return int((self.data / "PG_VERSION").read_text().strip().partition(".")[0])
        except (OSError, ValueError):
            raise DatabaseError(
                f"{self.data} is no data folder of PostgreSQL's, or a damaged one: move it away, or set REFACTX_HOME to "
                "another folder"
            ) from None

    def create(self, programs: Path, account: Account) -> None:
        """Makes the data folder with its database in it, if it is missing: whole, or not at all."""
        self.clear_leftovers()
        if self.data.exists():
            return
        with self.unfinished(account) as folder:
            self.initdb(programs, account, folder)
            # A server for one session, without a socket: nobody sees a cluster that lacks its database.
            alone: list[str | Path] = [programs / "postgres", "--single", "-D", folder, "-c", "log_checkpoints=off"]
            _run(account, [*alone, "postgres"], stdin=f"CREATE DATABASE {DATABASE};\n")
            folder.rename(self.data)

    def clear_leftovers(self) -> None:
        """Removes what killed processes left unfinished, and ends those who still work in it."""
        for leftover in self.folder.glob("data.unfinished.*"):
            patience = time.monotonic() + _LEFTOVER_SECONDS
            while (alive := _working_in(leftover)) and time.monotonic() < patience:  # until none has started another
                for process in alive:
                    with contextlib.suppress(OSError):
                        os.kill(process, signal.SIGKILL)
                time.sleep(0.01)
            shutil.rmtree(leftover, ignore_errors=True)

    @contextlib.contextmanager
    def unfinished(self, account: Account) -> Iterator[Path]:
        """An empty folder for a data folder in the making; removed, with what was started in it, unless it got another name."""
        # A name of its own: the initdb of a killed process may still be at work on a leftover.
        folder = Path(tempfile.mkdtemp(prefix="data.unfinished.", dir=self.folder))
        try:
            account.make_folder(folder)
            yield folder
        finally:
            self.clear_leftovers()

    def initdb(self, programs: Path, account: Account, folder: Path, *options: str) -> None:
        """Fills an empty folder with an empty cluster."""
        initdb: list[str | Path] = [programs / "initdb", "-D", folder, f"--username={DATABASE}", "--encoding=UTF8"]
        auth = ["--auth-local=trust", "--auth-host=reject"]
        _run(account, [*initdb, "--locale=C", *auth, "--no-instructions", *options])

    def stop(self, programs: Path, account: Account) -> None:
        """Stops the server, cleanly."""
        _run(account, [programs / "pg_ctl", "stop", "-D", self.data, "-m", "fast", "-w", "-t", str(_START_SECONDS)])

    def stop_orphan(self, programs: Path, account: Account) -> None:
        """Stops the server of this data folder that a killed pg_upgrade left, if there is one, also where it has only begun."""
        patience = time.monotonic() + _LEFTOVER_SECONDS
        while (alive := _working_in(self.data)) and time.monotonic() < patience:
            if _number_in(self.data / "postmaster.pid") in alive:
                self.stop(programs, account)
                return
            time.sleep(0.05)

    def start(self, programs: Path, account: Account) -> None:
        """Starts the server, and returns when it takes connections.

        Raises :class:`DatabaseError` with the end of the server's log where it does not start.
        """
        if self._outlives_its_starter():
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
            if self._outlives_its_starter():  # the pg_ctl of a killed process was faster
                return
            if "could not map anonymous shared memory" not in self._log_text():
                break
        raise DatabaseError(
            f"the database server in {self.data} does not start: "
            f"{reason(self._log_text() or done.stdout)} (log: {self.log})"
        )

    def _outlives_its_starter(self) -> bool:
        """Waits for a server whose starter was killed to be ready (True), or for the last of a killed one to end.

        Where neither is there, the lock files of a killed server can name a process that merely has its number (after a
        reboot, in a new container), or that is dead but was not collected. PostgreSQL would take that for the server
        and not start, so those files are removed.
        """
        deadline = time.monotonic() + _START_SECONDS
        patience = time.monotonic() + _LEFTOVER_SECONDS
        while alive := _working_in(self.data):
            if self.is_ready():
                return True
            if time.monotonic() > (deadline if _number_in(self.data / "postmaster.pid") in alive else patience):
                raise DatabaseError(
                    f"processes of an earlier database server do not end ({', '.join(map(str, sorted(alive)))}): "
                    "end them and try again"
                )
            time.sleep(0.05)
        for lock in (self.data / "postmaster.pid", self.sockets / f"{_SOCKET}.lock"):
            if Path(f"/proc/{_number_in(lock)}").exists():
                lock.unlink()
        return False

    def _log_text(self) -> str:
        try:
            return self.log.read_text(errors="replace")
        except OSError:
            return ""


def check_path(path: Path) -> None:
    """Raises :class:`InputError` where PostgreSQL's programs, which put paths into shell commands, would fail."""
    if set(str(path)) & set('"$`\\\n'):
        raise InputError(f"PostgreSQL cannot run from {path}: set REFACTX_HOME to a path of plain characters")


def _working_in(folder: Path) -> set[int]:
    """The processes of a server of this data folder: they all work in it. Empty where there is no /proc."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if link.readlink() == folder:
                found.add(int(link.parent.name))
    return found


def _number_in(lock: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(lock.read_text().splitlines()[0])
    return None


def _run(account: Account, command: list[str | Path], stdin: str = "") -> None:
    done = account.run(command, stdin)
    if done.returncode != 0:
        raise DatabaseError(
            f"cannot make a database: {reason(done.stdout)}; put that right, or give a running server with --db or "
            "REFACTX_DB"
        )


def reason(text: str) -> str:
    """The last lines of a log that say what is wrong; where none does, the last lines."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"(LOG|FATAL|PANIC|ERROR|DETAIL|HINT): |: (error|hint): ", line)]
    return " | ".join((telling or lines)[-4:]) or "it wrote no log"
