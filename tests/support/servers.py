"""Homes and databases for single tests."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import psycopg


@dataclass(frozen=True)
class DatabaseServer:
    """A running server, in the form that pytest-postgresql needs."""

    host: str
    port: int
    user: str
    password: str | None
    maintenance_dbname: str
    options: str = ""
    template_dbname: str = "template1"


def new_home() -> Path:
    """A new folder that every user can enter, as root's REFACTX_HOME must be: pytest's own folders are private."""
    folder = Path(tempfile.mkdtemp(prefix="refactx-test-", dir="/tmp" if os.geteuid() == 0 else None))
    folder.chmod(0o755)
    return folder


def remove_home(home: Path) -> None:
    """Remove a home after its server has stopped; the processes that use it must have ended."""
    from refactx.postgres.embedded.server import wait_until_stopped

    wait_until_stopped(home)
    shutil.rmtree(home)


@contextmanager
def database(server: DatabaseServer, name: str) -> Iterator[str]:
    """The URL of a new database for a module."""
    parts = {"host": server.host, "port": str(server.port), "user": server.user}
    if server.password:
        parts["password"] = server.password
    maintenance = f"postgresql:///{server.maintenance_dbname}?{urlencode(parts)}"
    with psycopg.connect(maintenance, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    yield f"postgresql:///{name}?{urlencode(parts)}"
    with psycopg.connect(maintenance, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())
