"""Queries on an index that changes have the answers of brute force: after every append, forget and compaction.

The queries of each step are drawn from its graph. An index that was opened before the change answers them too: as of
then, or as of now, once it is refreshed or its tables are gone.
"""

from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from support.ingest.graph_twin import Line, written
from support.ingest.living_index import LivingIndex
from support.query.check import check
from support.query.twin import (
    ENTITIES,
    EVERY,
    KINDS,
    NUMBERS,
    PREDICATES,
    TIMES,
    Graph,
    SetFacts,
    queries,
    with_inverse,
)

from refactx.index.index import Index
from refactx.ingest.source_options import Selection
from refactx.walks.facts import TreeFacts

SOME = st.one_of(
    st.frozensets(st.sampled_from(EVERY), min_size=1, max_size=8),
    st.builds(lambda at, size: frozenset(EVERY[at::7][:size]), st.integers(0, 6), st.integers(10, 40)),
)
PROPERTY_IDS = {name: f"P{number}" for number, name in enumerate(KINDS, 1)}
ENTITY_IDS = {name: f"Q{number}" for number, name in enumerate(ENTITIES, 1)}
QUERIES = 6
"""The queries of each step."""


class Living(RuleBasedStateMachine):
    """One index, what it should have, and a reader."""

    def __init__(self, url: str, folder: Path, numbers: "count[int]") -> None:
        super().__init__()
        self.numbers = numbers
        self.living = LivingIndex(url, folder, f"queries {next(numbers)}")
        self.claims: Graph = frozenset()
        self.reader: Index | None = None
        self.seen: Graph = frozenset()
        self.data: st.DataObject | None = None

    @initialize(claims=SOME, data=st.data())
    def ingest(self, claims: Graph, data: st.DataObject) -> None:
        self.living.ingest_from(self.source(claims), selection=Selection(inverse=True, descriptions=False))
        self.claims = self.seen = claims
        self.data, self.reader = data, self.living.open()

    @rule(claims=SOME, data=st.data())
    def append(self, claims: Graph, data: st.DataObject) -> None:
        self.living.append_from(self.source(claims), selection=Selection(inverse=True, descriptions=False))
        self.claims, self.data = self.claims | claims, data

    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        claims = data.draw(SOME, label="forget")
        self.living.forget_from(self.source(claims), selection=Selection(inverse=True, descriptions=False))
        self.claims, self.data = self.claims - claims, data

    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        self.living.compact()
        self.data = data

    @rule(data=st.data())
    def refresh(self, data: st.DataObject) -> None:
        assert self.reader is not None
        self.reader.refresh()
        self.seen, self.data = self.claims, data

    @invariant()
    def queries_have_the_answers_of_brute_force(self) -> None:
        if self.data is None or not self.claims:
            return
        with self.living.open() as index:
            facts = TreeFacts(index)
            self.same(facts, self.claims)
            for _ in range(QUERIES):
                check(self.data.draw(queries(self.claims), label="query"), facts, self.claims)

    @invariant()
    def a_reader_sees_its_moment_or_this_one(self) -> None:
        if self.reader is None:
            return
        facts, rows = TreeFacts(self.reader), self.reader.rows
        found = self.triples(facts)
        if self.reader.rows != rows:  # the index was compacted
            self.seen = self.claims
            found = self.triples(facts)
        assert found == with_inverse(self.seen)

    def teardown(self) -> None:
        if self.reader is not None:
            self.reader.close()

    # --- Parts of steps

    def same(self, facts: TreeFacts, claims: Graph) -> None:
        graph, twin = with_inverse(claims), SetFacts(claims)
        assert self.triples(facts) == graph
        wanted = sorted(with_inverse(EVERY))
        assert facts.hold(wanted) == [fact in graph for fact in wanted]
        for name in ENTITIES:
            assert facts.predicates(name) == twin.predicates(name)
        described = facts.describe(["p", "p of"])
        assert all(not one.inverse or one.id == PROPERTY_IDS["p"] for one in described.values())

    def triples(self, facts: TreeFacts) -> Graph:
        return frozenset((s, p, o) for p in PREDICATES for s, o in facts.objects(ENTITIES, p))

    def source(self, claims: Graph) -> Path:
        lines: list[Line] = [("label", entity, name, "en") for name, entity in ENTITY_IDS.items()]
        lines += [("label", number, name, "en") for name, number in PROPERTY_IDS.items()]
        for subject, predicate, value in sorted(claims):
            begin = (ENTITY_IDS[subject], PROPERTY_IDS[predicate])
            if value in ENTITY_IDS:
                lines.append(("claim", *begin, ENTITY_IDS[value]))
            else:
                lines.append(("literal", *begin, *typed(value)))
        path = self.living.folder / f"{next(self.numbers)}.nt"
        path.write_text("".join(written(line) + "\n" for line in lines))
        return path


def typed(value: str) -> tuple[str, str | None]:
    """A literal as a source has it: its text, and its datatype, which decides how an index compares it."""
    if value in TIMES:
        day = "-".join([*value.split("-"), "00", "00"][:3])
        return f"{day}T00:00:00Z", "^^dateTime"
    return value, "^^decimal" if value in NUMBERS else None


def run(url: str, folder: Path, examples: int, steps: int) -> None:
    """Run the machine, the same way each time. Sets are read from the other side where that is possible at all."""
    numbers = count(1000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("refactx.walks.sets.FEW", -1)
        patch.setattr("refactx.walks.sets.FEWER", 0)
        run_machine(url, folder, numbers, examples, steps)


def run_machine(url: str, folder: Path, numbers: "count[int]", examples: int, steps: int) -> None:
    run_state_machine_as_test(
        lambda: Living(url, folder, numbers),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.long
def test_queries_on_an_index_that_changes(db_url: str, tmp_path: Path) -> None:
    run(db_url, tmp_path, examples=3, steps=10)


@pytest.mark.slow
def test_queries_on_an_index_that_changes_very_often(db_url: str, tmp_path: Path) -> None:
    run(db_url, tmp_path, examples=40, steps=20)
