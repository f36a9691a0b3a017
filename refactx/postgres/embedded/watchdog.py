"""The watchdog process, which stops the embedded PostgreSQL server when it has no users.

It is a script that needs only the standard library: `watchdog.py FOLDER LOCK_FD`. FOLDER has the lock files and
`server.json`. LOCK_FD is an open `watchdog.lock` with an exclusive lock, which shows others that a watchdog runs.

Every user holds a shared lock on `users.lock`, which the kernel releases when the user ends or is killed. The watchdog
waits until it gets an exclusive lock on it, and two seconds more, so that a command that follows at once finds the
server running. Then it stops the server while it holds `start.lock` (no process starts it) and `users.lock` (no process
uses it). It releases `watchdog.lock` before the other two, so the next process that starts the server sees that there
is no watchdog. It waits for a server that recovers because one of its processes was killed: PostgreSQL never ends if it
is stopped before its redo begins (seen with 18).
"""

import contextlib
import fcntl
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

GRACE_SECONDS = 2.0
_STOP_SECONDS = 900  # the last checkpoint of a bulk load on a slow disk
_REJECTS = 1
"""The exit code of `pg_isready` for a server that runs and takes no connections."""


def watch(folder: Path, lock: int) -> None:
    """Wait for the last user to end, stop the server, and close the lock."""
    users = os.open(folder / "users.lock", os.O_RDWR)
    starting = os.open(folder / "start.lock", os.O_RDWR)
    give_up = math.inf
    while True:
        fcntl.flock(users, fcntl.LOCK_EX)
        fcntl.flock(users, fcntl.LOCK_UN)
        time.sleep(GRACE_SECONDS)
        fcntl.flock(starting, fcntl.LOCK_EX)
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(starting, fcntl.LOCK_UN)
            continue
        server = running(folder)
        if server is not None and recovers(server):
            give_up = min(give_up, time.monotonic() + _STOP_SECONDS)
            if time.monotonic() < give_up:
                fcntl.flock(users, fcntl.LOCK_UN)
                fcntl.flock(starting, fcntl.LOCK_UN)
                continue
        try:
            if server is not None:
                stop(server)
        finally:
            os.close(lock)
        return


def running(folder: Path) -> dict[str, Any] | None:
    """Return the contents of `server.json`; None if no server runs."""
    try:
        server: dict[str, Any] = json.loads((folder / "server.json").read_text())
    except FileNotFoundError:
        return None
    return server if Path(server["data"], "postmaster.pid").exists() else None


def recovers(server: dict[str, Any]) -> bool:
    """Return whether a server runs and takes no connections: it starts, recovers or stops."""
    return (
        _run(server, "pg_isready", "-h", server["sockets"], "-d", "postgres", "-U", "postgres", "-t", "3") == _REJECTS
    )


def stop(server: dict[str, Any]) -> None:
    """Stop the server: in mode `fast`, and if that does not succeed, in mode `immediate`."""
    for mode in ("fast", "immediate"):
        data, proc = Path(server["data"]), Path("/proc")
        try:  # the server of another container has a number that is another process here
            number = int((data / "postmaster.pid").read_text().split()[0])
            if (proc / "self").exists() and not (proc / f"{number}/cwd").samefile(data):
                return
        except (OSError, ValueError, IndexError):
            return
        if _run(server, "pg_ctl", "stop", "-D", server["data"], "-m", mode, "-w", "-t", str(_STOP_SECONDS)) == 0:
            break
    with contextlib.suppress(OSError):  # the next start makes it again; a short one is in /tmp
        Path(server["sockets"]).rmdir()


def _run(server: dict[str, Any], program: str, *arguments: str) -> int:
    """Run one of PostgreSQL's programs with the server's account. Return its exit code."""
    switch = os.geteuid() == 0
    done = subprocess.run(
        [Path(server["pg_ctl"]).with_name(program), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=False,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        user=server["uid"] if switch else None,
        group=server["gid"] if switch else None,
        extra_groups=[] if switch else None,
    )
    return done.returncode


def main() -> None:
    """Detach from the process that started it, and watch."""
    if os.fork():
        os._exit(0)
    watch(Path(sys.argv[1]), int(sys.argv[2]))


if __name__ == "__main__":
    main()
