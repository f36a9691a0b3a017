"""Inverse facts keep their predicates in any sequence of changes, also of several indexes of one knowledge base, and
hubs their counts.

Each claim has a subject of its own, and most have an object of their own, so the model of an index is short: the facts
of each claim that it has (one if its object is a hub, otherwise two), and the predicates that its inverse facts had
first. The labels and pairs (P1696) of a source are drawn anew each time.
"""

from collections import defaultdict
from collections.abc import Sequence
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
from refactx.ingest.source_options import Selection
from refactx.share.export import export_index
from refactx.share.importing import import_index
from refactx.tree.bulk import from_matrix, surviving

LABELS = {"P40": "child", "P25": "mother", "P22": "father"}
PROPERTIES = st.sampled_from(sorted(LABELS))
SHARED = (1, 2)
"""The objects that several claims have."""
SOME_CLAIMS = st.lists(st.tuples(PROPERTIES, st.sampled_from([None, None, *SHARED])), min_size=1, max_size=4)
"""Property and object of new claims; None: an object of its own."""
FIRST_CLAIMS = st.sampled_from([[None], [None, 1, 1, 1], [1, 1, 1, 1], [None, 1, 2, 1, 2, 1, 2]])
"""The objects of the first claims: none is a hub, one is, or both are."""
PAIRS = st.sampled_from([(), (), (("P22", "P40"),), (("P40", "P25"),), (("P22", "P40"), ("P25", "P40"))])
SAID = st.tuples(st.frozensets(PROPERTIES), PAIRS, st.booleans())
"""What a source has on properties: which have a label, which are paired, and whether P1696 itself has a label."""
GIVEN = st.sampled_from(
    [None, None, None, None, ("P22", "child"), ("P25", "child of"), ("P40", "mother"), ("P22", "begot")]
)
"""A name in `--inverse-names`."""
LIMIT = 2
INVERSE = Selection(inverse=True, inverse_limit=LIMIT)

Claim = tuple[int, str, int]
Said = tuple[frozenset[str], tuple[tuple[str, str], ...], bool]


@dataclass
class Expected:
    """What one index should have. `predicates`: of the facts of a property, and under `-P22` of its inverse facts.
    `hubs`: the objects and properties that were hubs when it was ingested, and still have subjects."""

    living: LivingIndex
    facts: dict[Claim, set[str]] = field(default_factory=dict)
    predicates: dict[str, str] = field(default_factory=dict)
    hubs: set[tuple[int, str]] = field(default_factory=set)

    def copy(self, living: LivingIndex) -> "Expected":
        """Return the same for another index."""
        return replace(
            self, living=living, facts=dict(self.facts), predicates=dict(self.predicates), hubs=set(self.hubs)
        )

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

    @initialize(objects=FIRST_CLAIMS, said=SAID, given=GIVEN)
    def ingest(self, objects: list[int | None], said: Said, given: tuple[str, str] | None) -> None:
        """Make two indexes of one knowledge base, which has facts of only one property so far."""
        one, claims = Expected(self.new()), self.claims([("P40", object_) for object_ in objects])
        one.hubs = {(object_, "P40") for object_ in SHARED if objects.count(object_) > LIMIT}
        one.living.ingest_from(self.source(claims, (frozenset(LABELS), *said[1:])), selection=selection(given))
        self.record(one, claims, set())
        self.indexes.append(one)
        self.copy_of(one, shared=True)

    @rule(data=st.data(), drawn=SOME_CLAIMS, said=SAID, given=GIVEN)
    def append(
        self, data: st.DataObject, drawn: list[tuple[str, int | None]], said: Said, given: tuple[str, str] | None
    ) -> None:
        one, claims = self.one_of(data), self.claims(drawn)
        before = one.texts()
        # A property that has no name yet in a knowledge base would make no fact.
        labelled = said[0] | {property_ for property_, _ in drawn if property_ not in one.predicates}
        one.living.append_from(self.source(claims, (labelled, *said[1:])), selection=selection(given))
        self.record(one, claims, before)

    @rule(data=st.data(), said=SAID)
    def forget(self, data: st.DataObject, said: Said) -> None:
        """Forget some claims, or all that have an object in common."""
        one = self.one_of(data)
        if not one.facts:
            return
        drawn = st.lists(st.sampled_from(sorted(one.facts)), min_size=1, max_size=3, unique=True)
        claims = data.draw(drawn, label="claims")
        if data.draw(st.booleans(), label="all of an object"):
            claims = [claim for claim in one.facts if claim[2] == claims[0][2]]
        done = one.living.forget_from(self.source(claims, said, named=False), selection=INVERSE)
        assert done.facts >= sum(len(one.facts[claim]) for claim in claims)  # those of P1696 count too
        for claim in claims:
            del one.facts[claim]
        one.hubs &= {(object_, property_) for _, property_, object_ in one.facts}
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

    def claims(self, drawn: Sequence[tuple[str, int | None]]) -> list[Claim]:
        return [(next(self.numbers), property_, object_ or next(self.numbers)) for property_, object_ in drawn]

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
        """Record new claims: each has a fact, and an inverse fact if its object is no hub, with the predicates that
        those of its property had first."""
        added = one.texts() - before
        for subject, property_, object_ in claims:
            facts = set()
            both = (property_, subject, object_), (f"-{property_}", object_, subject)
            for key, begin, end in both[: 1 if (object_, property_) in one.hubs else 2]:
                (found,) = (text for text in added if text.startswith(f"<n{begin}> <") and text.endswith(f"> <n{end}>"))
                facts.add(f"<n{begin}> <{one.predicates.setdefault(key, found.split('> <')[1])}> <n{end}>")
            one.facts[subject, property_, object_] = facts
        self.check(one)

    def check(self, one: Expected) -> None:
        texts = set().union(*one.facts.values())
        assert one.texts() == texts
        counts: defaultdict[str, int] = defaultdict(int)
        for object_, property_ in one.hubs:
            counts[f"n{object_}"] += sum(
                text.endswith(f"> <{one.predicates[property_]}> <n{object_}>") for text in texts
            )
        with one.living.open() as index:
            hubs = index.hubs([f"n{object_}" for object_ in SHARED])
            assert {object_: sum(of_predicates.values()) for object_, of_predicates in hubs.items()} == counts
            for object_, property_ in one.hubs:
                assert index.names_of([property_], inverse=True)[property_] in hubs[f"n{object_}"]
            for key, name in one.predicates.items():
                assert index.names_of([key.strip("-")], inverse=key[0] == "-") == {key.strip("-"): name}
            numbers = {number for claim in one.facts for number in claim[::2]}
            assert index.names_of(f"Q{number}" for number in numbers) == {
                f"Q{number}": f"n{number}" for number in numbers
            }


def selection(given: tuple[str, str] | None) -> Selection:
    return Selection(inverse=True, inverse_limit=LIMIT, inverse_names=() if given is None else (given,))


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


@pytest.mark.long
def test_inverse_facts_keep_their_predicates_in_any_sequence_of_changes(db_url: str, tmp_path: Path) -> None:
    check(db_url, tmp_path, examples=6)


@pytest.mark.slow
def test_inverse_facts_keep_their_predicates_in_very_many_sequences_of_changes(db_url: str, tmp_path: Path) -> None:
    check(db_url, tmp_path, examples=80)
