"""Many texts in one scheduler: each is the one that it is alone, whenever others join, end, fail or are cancelled."""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.channel_runs import EXAMPLES
from support.engines.texts import INDEX, Text, Writing, encode, write_alone
from support.engines.twins import WRITERS, Twins
from support.tiny_model import one_thread  # noqa: F401

from refactx.engines.engine import Engine, Feed, FeedTree
from refactx.engines.scheduler import PASS_IDS, Scheduler, best_width, run_jobs

SEEDS = st.integers(0, 99)
PROMPTS = ("so", "a Fact:", "b c in", "Fact: <B", "a b Fact: <Ann> <p", "in Fact: <Ann> <p> <b> .\nb", "a" * 40)
TEXTS = st.builds(Text, st.sampled_from(PROMPTS), st.sampled_from(["plain", "beams", "channel"]), st.integers(45, 60))
MANY = st.lists(st.tuples(TEXTS, st.integers(0, 25)), min_size=1, max_size=16)
"""Texts, and the number of the pass after which something happens to each."""


@pytest.fixture(scope="module", autouse=True)
def passes_for_all() -> Iterator[None]:
    """A pass waits for all lookups, so that no job misses one, and has room for the prompts of all, as for one alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("refactx.engines.scheduler.PASS_SECONDS", 60.0)
        patch.setattr("refactx.engines.scheduler.CHUNK_IDS", 1_000)
        yield


class Spy:
    """Calls `after` with the number of each pass of an engine, and remembers what each pass reads."""

    def __init__(self, engine: Engine, after: Callable[[int], object] = lambda number: None) -> None:
        self.passes: list[tuple[Sequence[tuple[int, Feed]], Sequence[FeedTree]]] = []
        feed = engine.feed

        def spied(feeds: Sequence[tuple[int, Feed]], trees: Sequence[FeedTree] = ()) -> Any:
            self.passes.append((feeds, trees))
            found = feed(feeds, trees)
            after(len(self.passes))
            return found

        engine.feed = spied  # type: ignore[method-assign]

    def numbers(self, sequence: int) -> list[int]:
        """The numbers of the passes that fed a sequence."""
        return [n for n, (feeds, _) in enumerate(self.passes, 1) if any(sequence == own for own, _ in feeds)]


def table(seed: int = 0) -> Twins:
    return WRITERS["table"](seed)


class TestTogether:
    def check(self, twins: Twins, many: list[tuple[Text, int]]) -> list[tuple[Writing, Writing]]:
        """Return each text as it is together with others and alone."""
        engine = twins.engine
        alone = [write_alone(engine, text) for text, _ in many]
        assert not twins.held()
        scheduler, examples = Scheduler(engine), engine.prefill(encode(EXAMPLES))
        writings = [Writing(engine, text, examples=examples) for text, _ in many]
        left, joined = sorted(zip(writings, (joins for _, joins in many), strict=True), key=lambda one: one[1]), []

        def join(number: int) -> None:
            while left and left[0][1] <= number:
                joined.append(left.pop(0)[0])
                scheduler.submit([joined[-1].job])

        spy = Spy(engine, join)
        join(0)
        while left or not all(one.job.is_done for one in joined):
            scheduler.run_until(lambda: all(one.job.is_done for one in joined))
            join(len(spy.passes) if not left else left[0][1])
        assert twins.held() == 1, "the examples, without trees"
        engine.drop(examples)
        for one, other in zip(writings, alone, strict=True):
            assert one.job.error is None
            assert one.ids == other.ids
            assert one.job.seconds > 0
        return list(zip(writings, alone, strict=True))

    @pytest.mark.long
    @settings(max_examples=30)
    @given(seed=SEEDS, many=MANY)
    def test_each_text_is_the_one_that_it_is_alone(self, seed: int, many: list[tuple[Text, int]]) -> None:
        for one, other in self.check(table(seed), many):
            assert one.job.passes == other.job.passes, "those that read for it"

    @pytest.mark.long
    @pytest.mark.parametrize("make", WRITERS.values(), ids=WRITERS.keys())
    @pytest.mark.parametrize("seed", range(2))
    def test_with_every_engine(self, make: Callable[[int], Twins], seed: int) -> None:
        twins = make(seed)
        modes = ("plain", "beams", "channel") if twins.engine.trees == 2 else ("plain", "channel")
        texts = [Text(PROMPTS[n % len(PROMPTS)], modes[n % len(modes)], end=45 + n) for n in range(16)]
        self.check(twins, [(text, 3 * n % 20) for n, text in enumerate(texts)])

    def test_passes_are_shared(self) -> None:
        twins = table()
        writings = [Writing(twins.engine, Text(prompt)) for prompt in PROMPTS]
        spy = Spy(twins.engine)
        run_jobs(Scheduler(twins.engine), [writing.job for writing in writings])
        assert len(spy.passes) == max(writing.job.passes for writing in writings)
        assert [len(spy.numbers(one.sequence)) for one in writings] == [one.job.passes for one in writings]


class TestEnds:
    @settings(max_examples=25)
    @given(seed=SEEDS, many=MANY, cancelled=st.sets(st.integers(0, 15)))
    def test_a_cancelled_job_leaves_before_the_next_pass(
        self, seed: int, many: list[tuple[Text, int]], cancelled: set[int]
    ) -> None:
        twins = table(seed)
        engine = twins.engine
        alone = [write_alone(engine, text) for text, _ in many]
        examples = engine.prefill(encode(EXAMPLES))
        writings = [Writing(engine, text, examples=examples) for text, _ in many]
        at = {n: many[n][1] for n in cancelled if n < len(many)}

        def cancel(number: int) -> None:
            for n, when in at.items():
                if when == number:
                    writings[n].job.is_cancelled = True

        cancel(0)
        Spy(engine, cancel)
        run_jobs(Scheduler(engine), [writing.job for writing in writings])
        assert twins.held() == 1, "the examples, without trees"
        engine.drop(examples)
        for n, (one, other) in enumerate(zip(writings, alone, strict=True)):
            assert one.job.is_done
            assert one.job.passes == min(other.job.passes, at.get(n, other.job.passes))
            assert one.ids == other.ids[: len(one.ids)]
            assert one.ids == other.ids or n in at

    @pytest.mark.parametrize("mode", ["beams", "channel"])
    def test_the_trees_of_a_cancelled_job_are_closed(self, mode: str) -> None:
        """Those of the examples too, which others go on with."""
        twins = table()
        examples = twins.engine.prefill(encode(EXAMPLES))
        writing = Writing(twins.engine, Text("a Fact:", mode), examples=examples)
        most, opened = write_alone(twins.engine, writing.text).job.passes, 0

        def cancel(number: int) -> None:
            nonlocal opened
            opened += twins.held() > 2
            writing.job.is_cancelled = number == at

        spy = Spy(twins.engine, cancel)
        for at in range(1, most):
            spy.passes.clear()
            writing = Writing(twins.engine, writing.text, examples=examples)
            run_jobs(Scheduler(twins.engine), [writing.job])
            assert (writing.job.passes, twins.held()) == (at, 1)
        assert opened > most

    @settings(max_examples=25)
    @given(seed=SEEDS, many=MANY, failing=st.sets(st.integers(0, 15), min_size=1))
    def test_an_error_of_a_lookup_ends_its_job_alone(
        self, seed: int, many: list[tuple[Text, int]], failing: set[int]
    ) -> None:
        twins = table(seed)
        engine = twins.engine
        alone = [write_alone(engine, text) for text, _ in many]
        examples = engine.prefill(encode(EXAMPLES))

        def children(n: int) -> Any:
            calls = count()

            def look(prefix: Sequence[int]) -> Any:
                if n in failing and next(calls) == many[n][1]:
                    raise ConnectionError(f"of {n}")
                return INDEX.children(prefix)

            return look

        writings = [Writing(engine, text, examples=examples, children=children(n)) for n, (text, _) in enumerate(many)]
        Scheduler(engine).run([writing.job for writing in writings])
        assert twins.held() == 1, "the examples, without trees"
        engine.drop(examples)
        for n, (one, other) in enumerate(zip(writings, alone, strict=True)):
            assert one.job.is_done
            if one.job.error is None:
                assert one.ids == other.ids
            else:
                assert n in failing
                assert str(one.job.error) == f"of {n}"

    def test_the_first_error_is_raised_after_all_have_ended(self) -> None:
        engine = table().engine

        def fail(_: object) -> Any:
            raise ConnectionError("no database")

        writings = [Writing(engine, Text("a Fact:"), children=fail), Writing(engine, Text("a Fact:"))]
        with pytest.raises(ConnectionError, match="no database"):
            run_jobs(Scheduler(engine), [writing.job for writing in writings])
        assert writings[1].ids == write_alone(engine, Text("a Fact:")).ids

    @pytest.mark.parametrize("what", ["begin", "end", "on_token", "is_done"])
    def test_an_error_of_what_a_job_calls_ends_it_alone(self, what: str) -> None:
        twins = table()
        expected = write_alone(twins.engine, Text("a Fact:")).ids
        good, bad = (Writing(twins.engine, Text("a Fact:")) for _ in range(2))

        def fail(*_: object) -> Any:
            raise RuntimeError(what)

        if what in ("begin", "end"):
            setattr(bad.job, what, fail)
        else:
            bad = Writing(twins.engine, Text("a Fact:"), **{what: fail})
        Scheduler(twins.engine).run([bad.job, good.job])
        assert str(bad.job.error) == what
        assert bad.job.is_done
        assert (good.job.error, good.ids) == (None, expected)
        assert not twins.held()


@given(st.lists(st.integers(1, 40), min_size=1, max_size=16))
def test_the_best_width_reads_most_ids_for_its_time(unread: list[int]) -> None:
    def rate(width: int) -> float:
        return sum(min(width, ids) for ids in unread) / (PASS_IDS + width * len(unread))

    assert best_width(unread) in unread
    assert rate(best_width(unread)) == pytest.approx(max(map(rate, range(1, 41))))
