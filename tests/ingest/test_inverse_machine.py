"""Inverse facts keep their predicates in any sequence of changes, also of several indexes of one knowledge base.

Each claim is between two entities of its own, so the model of an index is short: the two facts of each claim that it
has, and the predicates that its inverse facts had first. The labels and pairs (P1696) of a source are drawn anew each
time.
"""

from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from support.ingest.graph_twin import Line
from support.ingest.living_graph import graph
from support.ingest.living_index import LivingIndex
from support.shared_index import opened

from refactx.index.verify import verify
from refactx.ingest.selection import Selection
from refactx.share.export import export_index
from refactx.share.importing import import_index
from refactx.tree.matrix import from_matrix
from refactx.tree.scan import surviving

LABELS = {"P40": "child", "P25": "mother", "P22": "father"}
PROPERTIES = st.sampled_from(sorted(LABELS))
SOME_PROPERTIES = st.lists(PROPERTIES, min_size=1, max_size=2)
PAIRS = st.sampled_from([(), (), (("P22", "P40"),), (("P40", "P25"),), (("P22", "P40"), ("P25", "P40"))])
SAID = st.tuples(st.frozensets(PROPERTIES), PAIRS, st.booleans())
"""What a source has on properties: which have a label, which are paired, and whether P1696 itself has a label."""
GIVEN = st.sampled_from(
    [None, None, None, None, ("P22", "child"), ("P25", "child of"), ("P40", "mother"), ("P22", "begot")]
)
"""A name in `--inverse-names`."""
INVERSE = Selection(inverse=True)

Claim = tuple[int, str, int]
Said = tuple[frozenset[str], tuple[tuple[str, str], ...], bool]


@dataclass
class Expected:
    """What one index should have. `predicates`: of the facts of a property, and under `-P22` of its inverse facts."""

    living: LivingIndex
    facts: dict[Claim, set[str]] = field(default_factory=dict)
    predicates: dict[str, str] = field(default_factory=dict)

    def copy(self, living: LivingIndex) -> "Expected":
        """Return the same for another index."""
        return replace(self, living=living, facts=dict(self.facts), predicates=dict(self.predicates))

    def texts(self) -> set[str]:
        """Return the facts that the index has, without those about properties."""
        with self.living.open() as index:
            assert verify(index).faults == []
            found = [
                index.tokenizer.decode(tokens[start:end].tolist()).strip()
                for tokens, offsets in map(from_matrix, surviving(index.segments))
                for start, end in pairwise(offsets)
            ]
        assert len(found) == len(set(found))
        return {text for text in found if text.startswith("<n")}


class Inverses(RuleBasedStateMachine):
    """Indexes that come from one ingest by `--kb`, export and import, and are changed independently."""

    def __init__(self, url: str, folder: Path, numbers: "count[int]") -> None:
        super().__init__()
        self.url, self.folder, self.numbers = url, folder, numbers
        self.indexes: list[Expected] = []

    @initialize(said=SAID, given=GIVEN)
    def ingest(self, said: Said, given: tuple[str, str] | None) -> None:
        """Make two indexes of one knowledge base, which has facts of only one property so far."""
        one, claims = Expected(self.new()), self.claims(["P40"])
        one.living.ingest_from(self.source(claims, (frozenset(LABELS), *said[1:])), selection=selection(given))
        self.record(one, claims, set())
        self.indexes.append(one)
        self.copy_of(one, shared=True)

    @rule(data=st.data(), properties=SOME_PROPERTIES, said=SAID, given=GIVEN)
    def append(self, data: st.DataObject, properties: list[str], said: Said, given: tuple[str, str] | None) -> None:
        one, claims = self.one_of(data), self.claims(properties)
        before = one.texts()
        # A property that has no name yet in a knowledge base would make no fact.
        labelled = said[0] | {property_ for property_ in properties if property_ not in one.predicates}
        one.living.append_from(self.source(claims, (labelled, *said[1:])), selection=selection(given))
        self.record(one, claims, before)

    @rule(data=st.data(), said=SAID)
    def forget(self, data: st.DataObject, said: Said) -> None:
        one = self.one_of(data)
        if not one.facts:
            return
        claims = data.draw(
            st.lists(st.sampled_from(sorted(one.facts)), min_size=1, max_size=3, unique=True), label="claims"
        )
        done = one.living.forget_from(self.source(claims, said, named=False), selection=INVERSE)
        assert done.facts >= len(claims) * 2  # those of P1696 count too
        for claim in claims:
            del one.facts[claim]
        self.check(one)

    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        one = self.one_of(data)
        one.living.compact()
        self.check(one)

    @rule(data=st.data(), shared=st.booleans())
    def copy(self, data: st.DataObject, shared: bool) -> None:
        """Make one more index, of the same knowledge base if `shared`, otherwise of another."""
        one = self.one_of(data)
        if len(self.indexes) < 3 and one.facts:
            self.copy_of(one, shared)

    def teardown(self) -> None:
        for one in self.indexes:
            self.check(one)

    # --- Parts of steps

    def copy_of(self, one: Expected, shared: bool) -> None:
        other = self.new()
        if shared:
            other.retokenise(one.living.name)
        else:
            with opened(self.url) as database:
                path = self.folder / f"{other.name}.refactx"
                export_index(database, one.living.name, path)
                import_index(database, path, other.name)
        self.indexes.append(one.copy(other))
        self.check(self.indexes[-1])

    def new(self) -> LivingIndex:
        return LivingIndex(self.url, self.folder, f"index {next(self.numbers)}")

    def one_of(self, data: st.DataObject) -> Expected:
        return self.indexes[data.draw(st.integers(0, len(self.indexes) - 1), label="index")]

    def claims(self, properties: list[str]) -> list[Claim]:
        return [(next(self.numbers), property_, next(self.numbers)) for property_ in properties]

    def source(self, claims: list[Claim], said: Said, named: bool = True) -> Path:
        labelled, pairs, p1696 = said
        lines: list[Line] = [("claim", f"Q{s}", property_, f"Q{o}") for s, property_, o in claims]
        lines += [("label", f"Q{n}", f"n{n}", "en") for s, _, o in claims for n in (s, o) if named]
        lines += [("label", property_, LABELS[property_], "en") for property_ in sorted(labelled)]
        lines += [("claim", one, "P1696", other) for one, other in pairs]
        lines += [("label", "P1696", "inverse property", "en")] if p1696 else []
        path = self.folder / f"{next(self.numbers)}.nt"
        return graph(LivingIndex(self.url, self.folder), path.name, lines)

    def record(self, one: Expected, claims: list[Claim], before: set[str]) -> None:
        """Record new claims: each has two facts, with the predicates that those of its property had first."""
        added = one.texts() - before
        for subject, property_, object_ in claims:
            facts = set()
            for key, begin, end in ((property_, subject, object_), (f"-{property_}", object_, subject)):
                (found,) = (text for text in added if text.startswith(f"<n{begin}> <") and text.endswith(f"> <n{end}>"))
                facts.add(f"<n{begin}> <{one.predicates.setdefault(key, found.split('> <')[1])}> <n{end}>")
            one.facts[subject, property_, object_] = facts
        self.check(one)

    def check(self, one: Expected) -> None:
        assert one.texts() == set().union(*one.facts.values())


def selection(given: tuple[str, str] | None) -> Selection:
    return Selection(inverse=True, inverse_names=() if given is None else (given,))


def check(url: str, folder: Path, examples: int) -> None:
    """Run the machine, the same way each time."""
    numbers = count(1000)
    run_state_machine_as_test(
        lambda: Inverses(url, folder, numbers),
        settings=settings(
            max_examples=examples,
            stateful_step_count=16,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_inverse_facts_keep_their_predicates_in_any_sequence_of_changes(db_url: str, tmp_path: Path) -> None:
    check(db_url, tmp_path, examples=6)


@pytest.mark.slow
def test_inverse_facts_keep_their_predicates_in_very_many_sequences_of_changes(db_url: str, tmp_path: Path) -> None:
    check(db_url, tmp_path, examples=80)
