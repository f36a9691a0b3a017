"""Fixtures for tests that need a database: a real PostgreSQL, never a mock.

``db_url`` is the one to take: the URL of an empty database of the test's own. Its server is the embedded one in a
temporary REFACTX_HOME, started by the first test that asks; or, where ``REFACTX_TEST_DB`` has a URL, that one (its user
must be allowed to create databases). Whatever a test starts by itself goes to that temporary home too.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from pytest_postgresql import factories

# Before torch is imported: OpenMP's threads spin while they wait, and tests run side by side.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
if "PYTEST_XDIST_WORKER" in os.environ:  # as many processes as cores already
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@dataclass(frozen=True)
class DatabaseServer:
    """A running server, as pytest-postgresql wants it described."""

    host: str
    port: int
    user: str
    password: str | None
    maintenance_dbname: str
    options: str = ""
    template_dbname: str = "template1"


def new_home() -> Path:
    """A new folder that every user can enter, as a REFACTX_HOME must be for root: pytest's own are private to root."""
    folder = Path(tempfile.mkdtemp(prefix="refactx-test-", dir="/tmp" if os.geteuid() == 0 else None))
    folder.chmod(0o755)
    return folder


def remove_home(home: Path) -> None:
    """Removes a home once its server has stopped, for which its users must have ended."""
    from refactx.postgres.embedded.server import wait_until_stopped

    wait_until_stopped(home)
    shutil.rmtree(home)


@pytest.fixture(scope="session", autouse=True)
def session_home() -> Iterator[Path]:
    """A temporary REFACTX_HOME for the whole session: no test touches the real one."""
    home = new_home()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REFACTX_HOME", str(home))
        patch.delenv("REFACTX_DB", raising=False)
        yield home
    remove_home(home)


@pytest.fixture(scope="session")
def database_server(session_home: Path) -> Iterator[DatabaseServer]:
    """The server of the tests, running."""
    given = os.environ.get("REFACTX_TEST_DB")
    if given:
        yield _described(given)
    else:
        from refactx.postgres.embedded.server import start

        with start(session_home) as server:
            yield _described(server.url)


def _described(url: str) -> DatabaseServer:
    parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    return DatabaseServer(
        host=parts.get("host", "localhost"),
        port=int(parts.get("port", 5432)),
        user=parts.get("user", "postgres"),
        password=parts.get("password"),
        maintenance_dbname=parts.get("dbname", "postgres"),
    )


# Named after this process: the database of a killed run is not in the way of the next one.
postgresql_server = factories.postgresql_noproc(depends_on="database_server", dbname=f"refactx_test_{os.getpid()}")
postgresql = factories.postgresql("postgresql_server")


@pytest.fixture
def db_url(postgresql: "psycopg.Connection[tuple[object, ...]]") -> str:
    """The URL of an empty database that is the test's own and is dropped after it, connections and all."""
    info = postgresql.info
    parts = {"host": info.host, "port": info.port, "user": info.user}
    if info.password:
        parts["password"] = info.password
    return f"postgresql:///{info.dbname}?{urlencode(parts)}"


def run_refactx(*arguments: object, **options: Any) -> "subprocess.CompletedProcess[str]":
    """The command line as a user types it, in a process of its own and without a terminal."""
    command = [str(Path(sys.executable).with_name("refactx")), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, **options)


@pytest.fixture(scope="session")
def smollm2_folder() -> Path:
    """The demo model, SmolLM2-135M-Instruct, as a Hugging Face folder; from the cache, or made there."""
    from refactx.models.demo import demo_model_folder

    return demo_model_folder()


@pytest.fixture(scope="session")
def sample() -> Path:
    """The committed sample of Wikidata."""
    return Path(__file__).parent.parent / "refactx" / "data" / "wikidata-sample.nt.gz"


@pytest.fixture(scope="session")
def sample_url(database_server: DatabaseServer, smollm2_folder: Path, sample: Path) -> Iterator[str]:
    """The URL of a database with the sample ingested for the demo model, as index `default`; tests only read it."""
    name = f"refactx_sample_{os.getpid()}"
    parts = {"host": database_server.host, "port": str(database_server.port), "user": database_server.user}
    if database_server.password:
        parts["password"] = database_server.password
    server = f"postgresql:///{database_server.maintenance_dbname}?{urlencode(parts)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    url = f"postgresql:///{name}?{urlencode(parts)}"
    done = run_refactx("ingest", sample, "--tokenizer", smollm2_folder, "--db", url)
    assert done.returncode == 0, done.stderr
    yield url
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())
