"""One PostgreSQL data folder: made, started, looked at. Who may do so when is the business of ``embedded``.

Nothing here locks: the caller holds the start lock. The server listens on a Unix socket alone, in a folder that only
its user (and root) can enter, so it trusts whoever reaches that socket.
"""

import contextlib
import hashlib
import os
import re
import shutil
import socket
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from refactx.embedded_account import Account
from refactx.embedded_binaries import MAJOR
from refactx.errors import DatabaseError, InputError

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

    def check_version(self) -> None:
        """Raises :class:`DatabaseError` where the data folder was written by another major version."""
        try:
            found = (self.data / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            if not self.data.exists():
                return
            found = "an unknown version"
        if found != MAJOR:
            raise DatabaseError(
                f"{self.data} was made by PostgreSQL {found} and this is PostgreSQL {MAJOR}: set REFACTX_HOME to "
                "another folder, or move that one away and ingest again"
            )

    def create(self, programs: Path, account: Account) -> None:
        """Makes the data folder with its database in it, if it is missing: whole, or not at all."""
        for leftover in self.folder.glob("data.unfinished.*"):
            shutil.rmtree(leftover, ignore_errors=True)
        if self.data.exists():
            return
        # A name of its own: the initdb of a killed process may still be at work on a leftover.
        unfinished = Path(tempfile.mkdtemp(prefix="data.unfinished.", dir=self.folder))
        account.make_folder(unfinished)
        try:
            initdb: list[str | Path] = [
                programs / "initdb",
                "-D",
                unfinished,
                f"--username={DATABASE}",
                "--encoding=UTF8",
                "--locale=C",
            ]
            _run(account, [*initdb, "--auth-local=trust", "--auth-host=reject", "--no-instructions"])
            # A server for one session, without a socket: nobody sees a cluster that lacks its database.
            alone: list[str | Path] = [
                programs / "postgres",
                "--single",
                "-D",
                unfinished,
                "-c",
                "log_checkpoints=off",
                "postgres",
            ]
            _run(account, alone, stdin=f"CREATE DATABASE {DATABASE};\n")
            unfinished.rename(self.data)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise

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
            f"{_reason(self._log_text() or done.stdout)} (log: {self.log})"
        )

    def _outlives_its_starter(self) -> bool:
        """Waits for a server whose starter was killed to be ready (True), or for the last of a killed one to end.

        Where neither is there, the lock files of a killed server can name a process that merely has its number (after a
        reboot, in a new container), or that is dead but was not collected. PostgreSQL would take that for the server
        and not start, so those files are removed.
        """
        deadline = time.monotonic() + _START_SECONDS
        patience = time.monotonic() + _LEFTOVER_SECONDS
        while alive := self._processes():
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

    def _processes(self) -> set[int]:
        """The processes of a server of this data folder: they all work in it. Empty where there is no /proc."""
        found = set()
        for link in Path("/proc").glob("[0-9]*/cwd"):
            with contextlib.suppress(OSError):
                if link.readlink() == self.data:
                    found.add(int(link.parent.name))
        return found

    def _log_text(self) -> str:
        try:
            return self.log.read_text(errors="replace")
        except OSError:
            return ""


def check_path(path: Path) -> None:
    """Raises :class:`InputError` where PostgreSQL's programs, which put paths into shell commands, would fail."""
    if set(str(path)) & set('"$`\\\n'):
        raise InputError(f"PostgreSQL cannot run from {path}: set REFACTX_HOME to a path of plain characters")


def _number_in(lock: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(lock.read_text().splitlines()[0])
    return None


def _run(account: Account, command: list[str | Path], stdin: str = "") -> None:
    done = account.run(command, stdin)
    if done.returncode != 0:
        raise DatabaseError(
            f"cannot make a database: {_reason(done.stdout)}; put that right, or give a running server with --db or "
            "REFACTX_DB"
        )


def _reason(text: str) -> str:
    """The last lines of a log that say what is wrong; where none does, the last lines."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"(LOG|FATAL|PANIC|ERROR|DETAIL|HINT): |: (error|hint): ", line)]
    return " | ".join((telling or lines)[-4:]) or "it wrote no log"
