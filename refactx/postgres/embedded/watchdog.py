"""The process that stops the embedded PostgreSQL when nobody uses it any more.

Run as a script with the standard library alone: ``watchdog.py FOLDER LOCK_FD``. FOLDER has the lock files and
``server.json``; LOCK_FD is an open, exclusively locked ``watchdog.lock``, by which others see that a watchdog lives.

Every user holds a shared lock on ``users.lock``, which the kernel takes away when the user ends or is killed. The
watchdog waits until it could have that lock for itself, waits a little longer so that a command that follows at once
finds the server still there, and then stops the server while it holds ``start.lock`` (no one is starting it) and
``users.lock`` (no one uses it). It gives up ``watchdog.lock`` before the other two, so whoever starts next sees that
there is none. A server that recovers, because one of its processes was killed, is left to end that: PostgreSQL that is told
to stop before it has begun to redo (seen with 18) stays for ever.
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
"""What `pg_isready` says of a server that runs and takes no connections."""


def watch(folder: Path, lock: int) -> None:
    """Waits for the last user to end, stops the server, closes the lock."""
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
    """What `server.json` says of the server, if one runs."""
    try:
        server: dict[str, Any] = json.loads((folder / "server.json").read_text())
    except FileNotFoundError:
        return None
    return server if Path(server["data"], "postmaster.pid").exists() else None


def recovers(server: dict[str, Any]) -> bool:
    """Whether it runs and takes no connections: it starts, recovers or stops."""
    return (
        _run(server, "pg_isready", "-h", server["sockets"], "-d", "postgres", "-U", "postgres", "-t", "3") == _REJECTS
    )


def stop(server: dict[str, Any]) -> None:
    """Stops the server: cleanly, and where that takes for ever, at once."""
    for mode in ("fast", "immediate"):
        if not Path(server["data"], "postmaster.pid").exists():
            return
        if _run(server, "pg_ctl", "stop", "-D", server["data"], "-m", mode, "-w", "-t", str(_STOP_SECONDS)) == 0:
            break
    with contextlib.suppress(OSError):  # made anew by the next start; the short one lies in /tmp
        Path(server["sockets"]).rmdir()


def _run(server: dict[str, Any], program: str, *arguments: str) -> int:
    """Runs one of PostgreSQL's programs as the server's account; gives its exit code."""
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
    """Leaves the process that started it, so that it is nobody's child, and watches."""
    if os.fork():
        os._exit(0)
    watch(Path(sys.argv[1]), int(sys.argv[2]))


if __name__ == "__main__":
    main()
