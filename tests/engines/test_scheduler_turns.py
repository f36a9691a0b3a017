"""The turns of jobs in a scheduler: room, slow lookups, long prompts, threads, and errors of the engine."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.texts import INDEX, Text, Writing, write_alone
from support.engines.twins import WRITERS, Twins

from refactx.engines.engine import Engine
from refactx.engines.scheduler import CHUNK_IDS, Scheduler, run_jobs
from refactx.engines.writer import Row
from refactx.errors import ModelError

PATIENT = 60.0
"""Seconds until a test fails in place of waiting for ever."""
FACT = Text("a Fact:")
LONG = Text("b" * 1000, end=1010)


@pytest.fixture
def twins() -> Twins:
    return WRITERS["table"](0)


def spy(engine: Engine, before: Callable[[int, dict[int, int]], object]) -> None:
    """Call `before` with the number of each pass, and how many ids it feeds to each sequence."""
    feed, passes = engine.feed, [0]

    def spied(feeds: Any, trees: Any = ()) -> Any:
        passes[0] += 1
        before(passes[0], {sequence: len(feed.ids) for sequence, feed in feeds})
        return feed(feeds, trees)

    engine.feed = spied  # type: ignore[method-assign]


class TestRoom:
    @settings(max_examples=40)
    @given(rooms=st.lists(st.integers(0, 12), min_size=1, max_size=12), capacity=st.integers(1, 20), data=st.data())
    def test_no_more_is_admitted_than_there_is_room_for(
        self, rooms: list[int], capacity: int, data: st.DataObject
    ) -> None:
        twins = WRITERS["table"](0)
        engine: Any = twins.engine
        engine.capacity = capacity
        ends = data.draw(st.lists(st.integers(4, 40), min_size=len(rooms), max_size=len(rooms)))
        writings = [Writing(engine, Text("a Fact:", end=end), room=room) for room, end in zip(rooms, ends, strict=True)]
        begun: list[int] = []

        def check(number: int, fed: dict[int, int]) -> None:
            inside = [n for n, one in enumerate(writings) if one.sequence in engine.read]
            assert len(inside) == 1 or sum(rooms[n] for n in inside) <= capacity
            begun.extend(n for n in inside if n not in begun)

        spy(engine, check)
        run_jobs(Scheduler(engine), [one.job for one in writings])
        assert begun == list(range(len(rooms))), "they begin in their order, and all do"
        assert not twins.held()

    def test_a_cancelled_job_does_not_wait_for_room(self, twins: Twins) -> None:
        engine: Any = twins.engine
        engine.capacity = 1
        long, wide, late = (Writing(engine, FACT, room=room) for room in (1, 9, 1))

        def cancel(number: int, fed: dict[int, int]) -> None:
            if number == 2:
                late.job.is_cancelled = True
            if number == 4:
                assert late.job.is_done
                assert not long.job.is_done

        spy(engine, cancel)
        Scheduler(engine).run([long.job, wide.job, late.job])
        assert late.sequence == -1, "it has not begun"
        assert wide.ids == long.ids

    def test_what_is_reserved_takes_room(self, twins: Twins) -> None:
        engine: Any = twins.engine
        engine.capacity = 10
        scheduler, most = Scheduler(engine), 0
        scheduler.reserved = 5
        writings = [Writing(engine, FACT, room=2) for _ in range(6)]

        def measure(number: int, fed: dict[int, int]) -> None:
            nonlocal most
            most = max(most, len(engine.read))

        spy(engine, measure)
        run_jobs(scheduler, [one.job for one in writings])
        assert most == 2


class TestWaiting:
    @pytest.mark.parametrize("others", [[FACT], [FACT] * 5, [LONG]])
    @pytest.mark.parametrize("number", [1, 3])
    def test_slow_lookups_do_not_stop_others(self, twins: Twins, others: list[Text], number: int) -> None:
        """The slow ones end after the texts of others have."""
        ended = Event()

        def slowly(prefix: Any) -> Any:
            assert ended.wait(PATIENT)
            return INDEX.children(prefix)

        slow = [Writing(twins.engine, FACT, children=slowly) for _ in range(number)]
        fast = [Writing(twins.engine, text) for text in others]
        for one in fast:
            one.job.end = lambda _: ended.set() if all(each.row.done for each in fast) else None
        run_jobs(Scheduler(twins.engine), [one.job for one in (*slow, *fast)])
        for one in (*slow, *fast):
            assert one.ids == write_alone(twins.engine, one.text).ids

    @pytest.mark.parametrize("joins", [1, 5])
    @pytest.mark.parametrize("length", [10, CHUNK_IDS, CHUNK_IDS + 1, 3 * CHUNK_IDS + 77])
    def test_others_go_on_while_a_newcomer_reads_its_prompt(
        self, twins: Twins, joins: int, length: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("refactx.engines.scheduler.PASS_SECONDS", PATIENT)  # no job misses a pass
        engine, scheduler, passes = twins.engine, Scheduler(twins.engine), [0]
        chunks = -(-(length - 1) // CHUNK_IDS)  # the first id is read before
        began: list[int] = []
        newcomer = Writing(
            engine,
            Text("b" * length, end=length + 20),
            on_token=lambda _: began.append(passes[0]) if not began else None,
        )
        writers = [Writing(engine, Text("a Fact:", end=400)) for _ in range(3)]

        def check(number: int, fed: dict[int, int]) -> None:
            passes[0] = number
            if number == joins:
                scheduler.submit([newcomer.job])
            assert fed.get(newcomer.sequence, 0) <= CHUNK_IDS
            assert {one.sequence for one in writers} <= fed.keys() or any(one.row.done for one in writers)

        spy(engine, check)
        run_jobs(scheduler, [one.job for one in writers])
        scheduler.run_until(lambda: newcomer.job.is_done)
        assert min(one.job.passes for one in writers) > joins + chunks + 2
        assert began[0] <= joins + chunks + 2
        assert newcomer.ids == write_alone(engine, newcomer.text).ids


class TestThreads:
    def test_several_may_run_jobs_at_once(self, twins: Twins) -> None:
        scheduler, together = Scheduler(twins.engine), Barrier(6)
        texts = [Text(prompt, mode) for prompt in ("so", "a Fact:", "b c in") for mode in ("plain", "beams")]

        def run(text: Text) -> list[list[int]]:
            together.wait(PATIENT)
            found = []
            for _ in range(3):
                writing = Writing(twins.engine, text)
                run_jobs(scheduler, [writing.job])
                found.append(writing.ids)
            return found

        with ThreadPoolExecutor(6) as threads:
            found = list(threads.map(run, texts))
        assert not twins.held()
        assert found == [[write_alone(twins.engine, text).ids] * 3 for text in texts]

    def test_a_thread_returns_when_its_own_jobs_are_done(self, twins: Twins) -> None:
        """Even if another thread makes all the passes."""
        scheduler, begun, returned = Scheduler(twins.engine), Event(), Event()

        def until_returned(row: Row) -> bool:
            begun.set()
            return returned.is_set()

        long = Writing(twins.engine, Text("so", end=200_000), is_done=until_returned)
        runs = Thread(target=scheduler.run, args=([long.job],))
        runs.start()
        assert begun.wait(PATIENT)
        run_jobs(scheduler, [Writing(twins.engine, FACT).job])
        is_running = runs.is_alive() and long.row.length < 200_000
        returned.set()
        runs.join(PATIENT)
        assert is_running

    def test_an_error_of_one_is_not_raised_in_another(self, twins: Twins) -> None:
        scheduler, begun = Scheduler(twins.engine), Event()

        def fail(prefix: Any) -> Any:
            begun.set()
            raise ConnectionError("no database")

        bad, good = Writing(twins.engine, FACT, children=fail), Writing(twins.engine, FACT)
        with ThreadPoolExecutor(2) as threads:
            failed = threads.submit(run_jobs, scheduler, [bad.job])
            assert begun.wait(PATIENT)
            run_jobs(scheduler, [good.job])
            assert isinstance(failed.exception(PATIENT), ConnectionError)


def fail_at(engine: Engine, number: int, error: BaseException) -> None:
    def check(at: int, fed: dict[int, int]) -> None:
        if at == number:
            raise error

    spy(engine, check)


class TestErrorsOfTheEngine:
    @pytest.mark.parametrize("number", [2, 4])  # the first pass reads the prompts
    @pytest.mark.parametrize("mode", ["plain", "beams"])
    def test_they_end_the_jobs_of_the_pass_and_no_other(self, twins: Twins, number: int, mode: str) -> None:
        engine: Any = twins.engine
        engine.capacity = 2
        ended = Event()

        def slowly(prefix: Any) -> Any:
            assert ended.wait(PATIENT)
            return INDEX.children(prefix)

        text = Text("a Fact:", mode)
        reading, looking, waiting = (
            Writing(engine, text, room=1, children=look) for look in (INDEX.children, slowly, INDEX.children)
        )
        waiting.job.end = lambda _: ended.set()
        scheduler = Scheduler(engine)
        fail_at(engine, number, ModelError("out of memory"))
        scheduler.run([reading.job, looking.job, waiting.job])
        assert isinstance(reading.job.error, ModelError)
        assert (looking.job.error, waiting.job.error) == (None, None)
        again = Writing(engine, text)
        run_jobs(scheduler, [again.job])
        assert looking.ids == waiting.ids == again.ids == write_alone(engine, text).ids
        assert not twins.held()

    def test_those_outside_of_a_pass_are_raised(self, twins: Twins) -> None:
        class Broken:
            def __init__(self, engine: Engine) -> None:
                self.engine = engine

            def __getattr__(self, name: str) -> Any:
                return getattr(self.engine, name)

            @property
            def capacity(self) -> int:
                raise ModelError("no device")

        engine: Any = Broken(twins.engine)
        writings = [Writing(twins.engine, FACT) for _ in range(2)]
        with pytest.raises(ModelError, match="no device"):
            Scheduler(engine).run([one.job for one in writings])
        assert not twins.held()


class TestInterrupts:
    @pytest.mark.parametrize("jobs", [1, 4])
    @pytest.mark.parametrize("at", ["engine", "hook", "lookup", "begin"])
    @pytest.mark.parametrize("mode", ["plain", "beams"])
    def test_they_are_raised_and_nothing_is_left(self, twins: Twins, jobs: int, at: str, mode: str) -> None:
        engine, scheduler, calls = twins.engine, Scheduler(twins.engine), [0]

        def interrupt(*_: object) -> Any:
            calls[0] += 1
            if calls[0] == (1 if at == "begin" else 9):
                raise KeyboardInterrupt
            return INDEX.children(_[0]) if at == "lookup" else None  # type: ignore[arg-type]

        text = Text("a Fact:", mode)
        hooks: dict[str, Any] = {"hook": {"on_token": interrupt}, "lookup": {"children": interrupt}}.get(at, {})
        writings = [Writing(engine, text, **hooks) for _ in range(jobs)]
        if at == "engine":
            spy(engine, interrupt)
        if at == "begin":
            writings[-1].job.begin = interrupt
        with pytest.raises(KeyboardInterrupt):
            scheduler.run([one.job for one in writings])
        assert not twins.held()
        assert all(one.job.is_done for one in writings)
        again = Writing(engine, text)
        run_jobs(scheduler, [again.job])
        assert again.ids == write_alone(engine, text).ids
