"""An embedded server seen from outside: the processes that use it, its postmaster, its watchdogs, and its end."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

from refactx.postgres.embedded.cluster import Cluster
from support.ingest.tiny import ingest_tiny

_USER = """
import os, sys
from pathlib import Path
from refactx.postgres.embedded.server import start
with start(Path(sys.argv[1])) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""
FORKING_USER = _USER.replace("    sys.stdin.read()", "    if os.fork():\n        os._exit(0)\n    sys.stdin.read()")
"""The program of a user that forks and exits; its child remains a user."""

FACTS = [f"<Ann> <p> <{n}> ." for n in range(60)]
"""The facts of the fixture `indexed_home`."""


def start_user(home: Path, program: str = _USER) -> "subprocess.Popen[str]":
    """Start a process that uses the server until its standard input is closed. Its first line of output is the URL."""
    return subprocess.Popen(
        [sys.executable, "-c", program, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def read_url(user: "subprocess.Popen[str]") -> str:
    """The URL that a user of the server prints."""
    assert user.stdout
    return user.stdout.readline().strip()


def end_user(user: "subprocess.Popen[str]", sig: int | None = None) -> None:
    """End a user of the server, by a signal or in good order."""
    if sig is not None:
        user.send_signal(sig)
    user.communicate()


def select(url: str, query: str) -> object:
    """The first value of a query."""
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
    return row[0] if row else None


def execute(url: str, *statements: str) -> None:
    """Run statements, each in a transaction of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def eventually(condition: Callable[[], bool], seconds: float = 30) -> bool:
    """Whether a condition holds within some seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def postmaster_pid(home: Path) -> int:
    """The process id of the server of a home."""
    return int((Cluster(home / "embedded").data / "postmaster.pid").read_text().split()[0])


def kill_server(home: Path) -> int:
    """Kill the server of a home and wait until it takes no connection; returns its process id."""
    number = postmaster_pid(home)
    os.kill(number, signal.SIGKILL)
    assert eventually(lambda: not Cluster(home / "embedded").is_ready())
    return number


def is_stopped(home: Path) -> bool:
    """Whether no server runs in a home, and none was killed there."""
    cluster = Cluster(home / "embedded")
    return not cluster.is_ready() and not (cluster.data / "postmaster.pid").exists()


def watchdog_pids(home: Path) -> list[int]:
    """The process ids of the watchdogs of a home."""
    arguments = [b"watchdog.py", os.fsencode(home / "embedded")]
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if all(any(part.endswith(a) for part in file.read_bytes().split(b"\0")) for a in arguments):
                found.append(int(file.parent.name))
    return found


def ingest_facts(url: str, home: Path, facts: list[str], index: str = "default") -> None:
    """Make an index of some facts, for the tiny tokenizer."""
    file = home / "facts.txt"
    file.write_text("".join(f"{fact}\n" for fact in facts))
    ingest_tiny(url, file, index)
