"""Queries in processes of their own: what takes too much memory, time or room ends alone, and the next one is answered."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from shutil import rmtree

import pytest
from pyoxigraph import Literal, NamedNode, Quad, Store

from refactx.sparql.engines import EngineTimeoutError, QueryRefusedError, Rows, SparqlSyntaxError
from refactx.sparql.engines.processes import POOL, IsolatedEngine, Pool, QueryLimits
from refactx.sparql.engines.store import answer, standard_of
from refactx.sparql.store import StoreError

GROWING = " ".join(
    ['SELECT (STRLEN(?e) AS ?l) { BIND("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" AS ?a)']
    + [
        f'BIND(REPLACE({x}, "a", {y}) AS {z})'
        for x, y, z in (("?a", "?a", "?b"), ("?b", "?a", "?c"), ("?c", "?c", "?e"))
    ]
    + ["}"]
)
"""A text of 2 to the power of 30 letters."""
CROSS = f"SELECT (COUNT(*) AS ?n) {{ {' '.join(f'?a{n} ?p{n} ?o{n} .' for n in range(9))} }}"
linux = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="processes are listed in /proc")
EASY = "SELECT ?x { ?x <http://e/p> ?y }"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "1"
    made = Store(str(path))
    for n in range(200):
        made.add(Quad(NamedNode(f"http://e/{n}"), NamedNode("http://e/p"), Literal(f"value {n}")))
    made.flush()
    del made
    yield path
    POOL.end_idle(tmp_path)


def engine(path: Path, memory: int = 256 << 20, result: int | None = None, *, public: bool = False) -> IsolatedEngine:
    return IsolatedEngine("e", path, QueryLimits(memory, result, is_public=public), lambda: None, {})


def works(one: IsolatedEngine) -> bool:
    found = one.run(EASY, seconds=60)
    return isinstance(found, Rows) and len(found.rows) == 200


@pytest.mark.parametrize(
    "query",
    [
        GROWING,
        GROWING.replace("SELECT (STRLEN(?e) AS ?l)", "ASK").replace("}", "FILTER(STRLEN(?e) > 3) }"),
        f"SELECT ?a0 {{ {' '.join(f'?a{n} ?p{n} ?o{n} .' for n in range(3))} }} ORDER BY ?o2",
        f"SELECT DISTINCT * {{ {' '.join(f'?a{n} ?p{n} ?o{n} .' for n in range(3))} }}",
    ],
)
def test_a_query_that_takes_too_much_memory_ends_alone(store: Path, query: str) -> None:
    with closing(engine(store)) as one:
        assert works(one)
        with pytest.raises(QueryRefusedError, match=r"takes more than 0\.25 GiB of memory: bind more"):
            one.run(query, seconds=120)
        assert works(one)


def test_a_query_that_takes_too_long_ends_alone(store: Path) -> None:
    with closing(engine(store)) as one:
        assert works(one)
        with pytest.raises(EngineTimeoutError, match=r"more than 0\.2 seconds on the store"):
            one.run(CROSS, seconds=0.2)
        assert works(one)


@linux
def test_no_process_is_left_of_a_query_that_was_ended(store: Path) -> None:
    before = children()
    with closing(engine(store)) as one, pytest.raises(EngineTimeoutError):
        one.run(CROSS, seconds=0.2)
    assert children() <= before


def children() -> set[str]:
    """The processes that this one has started, and that have not ended."""
    return {one for path in Path("/proc/self/task").glob("*/children") for one in path.read_text().split()}


def test_rows_that_are_too_large_are_refused(store: Path) -> None:
    with closing(engine(store, result=1 << 20)) as one:
        assert works(one)
        with pytest.raises(QueryRefusedError, match="the rows of this query have more than 1 MiB"):
            one.run("SELECT * { ?a ?b ?c . ?d ?e ?f }", seconds=60)
        found = one.run("SELECT * { ?a ?b ?c . ?d ?e ?f }", limit=5, seconds=60)
        assert isinstance(found, Rows)
        assert (len(found.rows), found.truncated) == (5, True)


@linux
def test_errors_of_a_query_leave_its_process(store: Path) -> None:
    with closing(engine(store)) as one:
        assert works(one)
        before = children()
        with pytest.raises(SparqlSyntaxError):
            one.run("SELECT ?x { ?x ", seconds=60)
        with pytest.raises(QueryRefusedError):
            one.run("DESCRIBE <http://e/1>", seconds=60)
        assert works(one)
        assert children() == before


def test_those_who_wait_end_the_query_that_has_had_its_share(store: Path) -> None:
    """As many endless queries as there are processes, and one more that is answered."""
    pool, endless = Pool(most=2, share=0.2), (standard_of(CROSS), None, None)
    with ThreadPoolExecutor(4) as threads:
        long = [threads.submit(pool.run, store, 256 << 20, endless, None) for _ in range(3)]
        easy = pool.run(store, 256 << 20, (standard_of(EASY), None, None), 60.0)
        assert easy == answer(str(store), (standard_of(EASY), None, None))
        for _ in range(2):  # the last one has nobody who waits
            threads.submit(pool.run, store, 256 << 20, (standard_of(EASY), None, None), 60.0).result()
        ended = sum(one.done() and one.exception() is not None for one in long)
        assert ended >= 1
        for member in list(pool._running):
            member.process.kill()
    pool.end_idle(store.parent)


def test_time_counts_while_others_have_their_turn(store: Path) -> None:
    pool, endless, began = Pool(most=1, share=600.0), (standard_of(CROSS), None, None), threading.Event()

    def first() -> object:
        with pool._member(store, 256 << 20, None) as member:
            began.set()
            return member.process.run(endless, 600.0)

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(first)
        assert began.wait(60)
        with pytest.raises(TimeoutError):
            pool.run(store, 256 << 20, endless, 0.1)
        pool._running[0].process.kill()
        assert running.exception() is not None
    pool.end_idle(store.parent)


@linux
def test_the_next_version_of_a_store_has_processes_of_its_own(store: Path) -> None:
    with closing(engine(store)) as one:
        assert works(one)
    following = Store(str(store.with_name("2")))
    following.add(Quad(NamedNode("http://e/new"), NamedNode("http://e/p"), Literal("new")))
    following.flush()
    del following
    before = children()
    POOL.end_idle(store.parent, but=store.with_name("2"))
    assert children() < before
    rmtree(store)
    with closing(engine(store.with_name("2"))) as one:
        found = one.run(EASY, seconds=60)
        assert isinstance(found, Rows)
        assert len(found.rows) == 1


@linux
def test_a_process_that_was_killed_while_it_had_nothing_to_do_is_replaced(store: Path) -> None:
    with closing(engine(store)) as one:
        before = children()
        assert works(one)
        for process in children() - before:
            os.kill(int(process), 9)
            os.waitid(os.P_PID, int(process), os.WEXITED | os.WNOWAIT)
        assert works(one)


def test_a_store_that_is_damaged_is_told_and_a_visitor_is_told_no_command(store: Path) -> None:
    POOL.end_idle(store.parent)
    (store / "CURRENT").write_text("nonsense")
    with closing(engine(store)) as one, pytest.raises(StoreError, match=r"is damaged .*run `refactx store build e`"):
        one.run(EASY, seconds=60)
    with closing(engine(store, public=True)) as one, pytest.raises(Exception, match="tell the people who run") as error:
        one.run(EASY, seconds=60)
    assert "`" not in str(error.value)
