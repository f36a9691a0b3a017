"""A PgBouncer in front of a server, in transaction mode."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg

from refactx.postgres.embedded.cluster import DATABASE
from refactx.postgres.embedded.programs import account_for
from support.postgres.embedded_server import eventually
from support.servers import new_home

_CONFIGURATION = """
[databases]
{database} = host={host} port=5432 user={database}
[pgbouncer]
listen_port = 6432
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 400
server_round_robin = 1
server_login_retry = 1
log_connections = 0
log_disconnections = 0
logfile = {folder}/log
{more}
"""


def program(variable: str, name: str = "pgbouncer") -> str | None:
    """Return the path of a PgBouncer: the one that an environment variable names, else that of the PATH, if any."""
    given = os.environ.get(variable)
    return given or shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def version(path: str) -> tuple[int, ...]:
    """Return the version of a PgBouncer."""
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    return tuple(int(part) for part in done.stdout.split()[1].split(".")[:2])


@contextmanager
def pgbouncer(path: str, host: str, *, pool_size: int = 4, more: str = "") -> Iterator[str]:
    """Start a PgBouncer in front of the server with its socket in the folder `host`, and return its address."""
    folder = new_home()
    account = account_for(folder / "nothing")
    if account.switch:
        os.chown(folder, account.uid, account.gid)
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        _CONFIGURATION.format(database=DATABASE, host=host, folder=folder, pool_size=pool_size, more=more)
    )
    process = subprocess.Popen(
        [path, "-q", str(settings)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        user=account.uid if account.switch else None,
        group=account.gid if account.switch else None,
        extra_groups=[] if account.switch else None,
    )
    url = f"postgresql:///{DATABASE}?host={quote(str(folder), safe='/')}&port=6432&user={DATABASE}"
    try:
        assert eventually(lambda: _answers(url)), Path(folder / "log").read_text()
        yield url
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.Error:
        return False
    return True
