"""Fixtures for tests that need a database: a real PostgreSQL, never a mock.

Use `db_url`: the URL of an empty database for one test. Its server is the embedded one in a temporary REFACTX_HOME,
which the first test that needs it starts, or the one at the URL in `REFACTX_TEST_DB` (its user must be allowed to create
databases). Servers that tests start themselves use that temporary home too.
"""

import os
import random
import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from urllib.parse import urlencode

import psycopg
import pytest
from hypothesis import settings
from psycopg.conninfo import conninfo_to_dict
from pytest_postgresql import factories
from support.command import run_refactx
from support.crashes import FACTS
from support.ingest.living_index import LivingIndex
from support.servers import DatabaseServer, database, new_home, remove_home
from support.sparql.small_graph import FIXED, ingest_graph

# Before torch is imported: by default, OpenMP's threads spin while they wait, and tests run in parallel.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
if "PYTEST_XDIST_WORKER" in os.environ:  # there are as many processes as cores
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# A job in the background of a shell ignores Ctrl-C, and so would every command that tests start and interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The suite is the same each time; `make fuzz` draws other examples. No test asserts a time.
settings.register_profile("suite", deadline=None, derandomize=True)
settings.register_profile("fuzz", deadline=None, print_blob=True, derandomize=False)  # it is by default under CI=true
settings.load_profile("suite")


FUZZ_END = pytest.StashKey[float]()
"""The time of the clock at which `make fuzz` ends."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fuzz-seconds", type=float, help="run property tests alone, in an order by the seed, for this time"
    )


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name binary data by their argument: archives hold the time, and parallel processes must collect the same tests."""
    return argname if isinstance(val, bytes) and not val.isascii() else None


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[FUZZ_END] = time.time() + (session.config.getoption("--fuzz-seconds") or 0)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests whose examples Hypothesis draws, if `make fuzz` runs; those that fix their draw are left out."""
    if config.getoption("--fuzz-seconds") is None:
        return
    drawn = [item for item in items if _is_drawn(getattr(item, "obj", None))]
    config.hook.pytest_deselected(items=[item for item in items if item not in drawn])
    random.Random(config.getoption("--hypothesis-seed")).shuffle(drawn)
    items[:] = drawn


def _is_drawn(test: object) -> bool:
    return getattr(test, "is_hypothesis_test", False) and not test._hypothesis_internal_use_settings.derandomize  # type: ignore[attr-defined]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.config.getoption("--fuzz-seconds") and time.time() > item.config.stash[FUZZ_END]:
        pytest.skip("the time of --fuzz-seconds is over")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print how to run each failed test alone."""
    tests = dict.fromkeys(
        report.nodeid for key in ("failed", "error") for report in terminalreporter.stats.get(key, ())
    )
    seed = config.getoption("--hypothesis-seed")
    options = "" if seed is None else f" --hypothesis-profile=fuzz --hypothesis-seed={seed}"
    for test in tests:
        terminalreporter.write_line(f"alone: .venv/bin/python -m pytest {shlex.quote(test)}{options}")


@pytest.fixture(scope="session", autouse=True)
def session_home() -> Iterator[Path]:
    """A temporary REFACTX_HOME for the whole session: no test touches the real one."""
    home = new_home()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REFACTX_HOME", str(home))
        patch.delenv("REFACTX_DB", raising=False)
        yield home
    remove_home(home)


@pytest.fixture(scope="session", autouse=True)
def prefix_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for prefixes that llama.cpp has read, in place of the user's."""
    folder = tmp_path_factory.mktemp("prefixes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("refactx.engines.llamacpp.model.user_folder", lambda: folder)
        yield folder


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


# Named after this process, so that the database of a killed run does not disturb the next run.
postgresql_server = factories.postgresql_noproc(depends_on="database_server", dbname=f"refactx_test_{os.getpid()}")
postgresql = factories.postgresql("postgresql_server")


@pytest.fixture
def db_url(postgresql: "psycopg.Connection[tuple[object, ...]]", session_home: Path) -> Iterator[str]:
    """The URL of an empty database for one test, which is dropped after it together with its connections.

    The stores that the test makes are removed: the next test has a database of the same name.
    """
    info = postgresql.info
    parts = {"host": info.host, "port": info.port, "user": info.user}
    if info.password:
        parts["password"] = info.password
    before = set(session_home.glob("stores/*"))
    yield f"postgresql:///{info.dbname}?{urlencode(parts)}"
    for store in set(session_home.glob("stores/*")) - before:
        rmtree(store)


@pytest.fixture(scope="module")
def module_url(database_server: DatabaseServer) -> Iterator[str]:
    """The URL of a database that is empty at first, for all tests of a module."""
    with _new_database(database_server, "module") as url:
        yield url


@contextmanager
def _new_database(server: DatabaseServer, name: str) -> Iterator[str]:
    """Make a database, return its URL, and drop it at the end of the block."""
    name, parts = f"refactx_{name}_{os.getpid()}", {"host": server.host, "port": str(server.port), "user": server.user}
    if server.password:
        parts["password"] = server.password
    maintenance = f"postgresql:///{server.maintenance_dbname}?{urlencode(parts)}"
    with psycopg.connect(maintenance, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    try:
        yield f"postgresql:///{name}?{urlencode(parts)}"
    finally:
        with psycopg.connect(maintenance, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@pytest.fixture(scope="session")
def smollm2_folder() -> Path:
    """The demo model, SmolLM2-135M-Instruct, as a Hugging Face folder in the cache, made there if it is missing."""
    from refactx.models import demo_model_folder

    return demo_model_folder()


@pytest.fixture(scope="session")
def sample() -> Path:
    """The committed sample of Wikidata."""
    return Path(__file__).parent.parent / "refactx" / "data" / "wikidata-sample.nt.gz"


@pytest.fixture(scope="session")
def sample_url(database_server: DatabaseServer, smollm2_folder: Path, sample: Path) -> Iterator[str]:
    """The URL of a database with the sample as index `default` for the demo model; tests must not change it."""
    with _new_database(database_server, "sample") as url:
        done = run_refactx("ingest", sample, "--tokenizer", smollm2_folder, "--db", url)
        assert done.returncode == 0, done.stderr
        yield url


@pytest.fixture(scope="session")
def many_facts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of facts that takes some seconds to ingest."""
    file = tmp_path_factory.mktemp("crash") / "facts.txt"
    with file.open("w") as out:
        for number in range(FACTS):
            out.write(f"<subject {number // 3}> <property {number % 3}> <value {number * 7 % 1000}> .\n")
    return file


@pytest.fixture(scope="session")
def people(database_server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivingIndex]:
    """The index `people` of the claims `FIXED`, without a store. Tests do not change it."""
    with database(database_server, f"refactx_people_{os.getpid()}") as url:
        yield ingest_graph(url, tmp_path_factory.mktemp("people"), FIXED, "people")


@pytest.fixture(scope="session")
def stored(people: LivingIndex) -> LivingIndex:
    """The index `stored` of the same claims, with a store. Tests do not change them."""
    from refactx.sparql.store import build_store

    living = ingest_graph(people.url, people.folder, FIXED, "stored")
    with living.open() as index:
        build_store(index)
    return living
