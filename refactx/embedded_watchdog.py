"""The process that stops the embedded PostgreSQL when nobody uses it any more.

Run as a script with the standard library alone: ``embedded_watchdog.py FOLDER LOCK_FD``. FOLDER has the lock files and
``server.json``; LOCK_FD is an open, exclusively locked ``watchdog.lock``, by which others see that a watchdog lives.

Every user holds a shared lock on ``users.lock``, which the kernel takes away when the user ends or is killed. The
watchdog waits until it could have that lock for itself, waits a little longer so that a command that follows at once
finds the server still there, and then stops the server while it holds ``start.lock`` (no one is starting it) and
``users.lock`` (no one uses it). It gives up ``watchdog.lock`` before the other two, so whoever starts next sees that
there is none.
"""

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path

GRACE_SECONDS = 2.0
_STOP_SECONDS = 900  # the last checkpoint of a bulk load on a slow disk


def watch(folder: Path, lock: int) -> None:
    """Waits for the last user to end, stops the server, closes the lock."""
    users = os.open(folder / "users.lock", os.O_RDWR)
    starting = os.open(folder / "start.lock", os.O_RDWR)
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
        try:
            stop(folder)
        finally:
            os.close(lock)
        return


def stop(folder: Path) -> None:
    """Stops the server that runs now, if any: cleanly, and where that takes for ever, at once."""
    try:
        server = json.loads((folder / "server.json").read_text())
    except FileNotFoundError:
        return
    data = Path(server["data"])
    switch = os.geteuid() == 0
    for mode in ("fast", "immediate"):
        if not (data / "postmaster.pid").exists():
            return
        done = subprocess.run(
            [server["pg_ctl"], "stop", "-D", data, "-m", mode, "-w", "-t", str(_STOP_SECONDS)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=False,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            user=server["uid"] if switch else None,
            group=server["gid"] if switch else None,
            extra_groups=[] if switch else None,
        )
        if done.returncode == 0:
            break
    with contextlib.suppress(OSError):  # made anew by the next start; the short one lies in /tmp
        Path(server["sockets"]).rmdir()


def main() -> None:
    """Leaves the process that started it, so that it is nobody's child, and watches."""
    if os.fork():
        os._exit(0)
    watch(Path(sys.argv[1]), int(sys.argv[2]))


if __name__ == "__main__":
    main()
