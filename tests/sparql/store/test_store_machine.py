"""After any sequence of changes, a store that follows its index has the triples of one that is built anew.

The sources are drawn to collide: numbers and times that are written in several ways, names that are also texts,
properties whose objects change their kind, labels with parentheses, and ready-made facts about the same names, some of
which have qualifiers.
"""

from collections import Counter
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from support.ingest.graph_twin import Line
from support.ingest.living_graph import graph
from support.ingest.living_index import LivingIndex
from support.sparql.stores import triples_anew, triples_in

from refactx.index.index import Index
from refactx.ingest.source_options import Selection
from refactx.sparql.store import StoreError, build_store, open_store, update_store

ITEMS = {"Q1": "Ann", "Q2": "Ann", "Q3": "Bob", "Q4": "1984", "Q5": "Up (song)"}
PROPERTIES = {"P1": "child", "P2": "size", "P3": "born", "P4": "about", "P5": "code"}
TEXTS: dict[str, list[tuple[str, str | None]]] = {
    "P2": [("1.5", "^^decimal"), ("1.50", "^^decimal"), ("+7", "^^decimal"), ("1e30", "^^double")],
    "P3": [(f"{day}T00:00:00Z", "^^dateTime") for day in ("1984-00-00", "1984-01-01", "-0043-03-15", "-0199-01-01")],
    "P4": [("Bob", "en"), ("1984", None)],
    "P5": [("1984", None), ("1984", "^^decimal"), ("1984-00-00T00:00:00Z", "^^dateTime"), ("x", "en")],
}
CLAIMS: list[Line] = [
    *(("claim", s, p, o) for s in ITEMS for p in ("P1", "P4") for o in ("Q1", "Q3", "Q4")),
    *(("literal", s, p, text, tag) for s in ITEMS for p, texts in TEXTS.items() for text, tag in texts),
]
SAYINGS: list[Line] = [
    *(("description", s, text, "en") for s in ITEMS for text in ("a poet", "song", "x")),
    *(("alias", s, text, "en") for s in ITEMS for text in ("Annie", "Bob")),
]
READY: list[Line] = [
    *(("ready", s, p, o) for s in ("Ann", "Bob", "Zoe") for p in ("likes", "child") for o in ("Zoe", "Bob", "1.5")),
    *(("ready", s, "description", o) for s in ("Zoe", "Bob") for o in ("a poet", "song")),
    ("ready", "Zoe", "likes", "1.50"),
    ("ready", "likes", "likes", "likes"),
]
STATED: list[Line] = [
    ("ready", s, p, o, *pairs)
    for s in ("Bob", "1984", "Zoe")
    for p, o in (("child", "Bob"), ("child", "Zoe"), ("born", "1984-05"), ("size", "1.5"), ("size", "7 kilo"))
    for pairs in (("born", "1984"), ("born", "1984-05", "child", "1984"), ("size", "7 kilo"), ("likes", "Zoe"))
]
SOME = st.tuples(
    st.lists(st.sampled_from(CLAIMS), min_size=1, max_size=5, unique=True),
    st.lists(st.sampled_from(SAYINGS), max_size=4, unique=True),
    st.frozensets(st.sampled_from(sorted(ITEMS)), min_size=3),
)
"""Claims, descriptions and aliases, and the items that have a label in the source."""
READY_MADE = st.lists(st.sampled_from([*READY, *STATED]), min_size=1, max_size=6, unique=True)
SELECTIONS = st.sampled_from(
    [Selection(), Selection(aliases=True), Selection(aliases=True, inverse=True), Selection(descriptions=False)]
)

Drawn = tuple[list[Line], list[Line], frozenset[str]]


class Stores(RuleBasedStateMachine):
    """Two indexes of one knowledge base, with a store each. `changes` counts what updates did, in all examples."""

    def __init__(self, url: str, folder: Path, numbers: "count[int]", changes: Counter[str]) -> None:
        super().__init__()
        self.url, self.folder, self.numbers, self.changes = url, folder, numbers, changes

    @initialize(drawn=SOME, ready=READY_MADE, selection=SELECTIONS)
    def ingest(self, drawn: Drawn, ready: list[Line], selection: Selection) -> None:
        self.selection = selection
        first, second = (LivingIndex(self.url, self.folder, f"index {next(self.numbers)}") for _ in range(2))
        self.indexes = [first, second]
        first.ingest_from(self.source(drawn), self.ready(ready), selection=selection)
        second.retokenise(first.name)
        for living in self.indexes:
            with living.open() as index:
                with pytest.raises(StoreError, match="has no store: run `refactx store build"):
                    open_store(index)
                assert build_store(index).change == "built"
                self.check(index)

    @rule(which=st.integers(0, 1), drawn=SOME, forgets=st.booleans())
    def change(self, which: int, drawn: Drawn, forgets: bool) -> None:
        living = self.indexes[which]
        source = self.source(drawn)
        if forgets:
            living.forget_from(source, selection=self.selection)
        else:
            living.append_from(source, selection=self.selection)

    @rule(which=st.integers(0, 1), ready=READY_MADE, forgets=st.booleans())
    def change_by_ready_made_facts(self, which: int, ready: list[Line], forgets: bool) -> None:
        living = self.indexes[which]
        (living.forget_from if forgets else living.append_from)(self.ready(ready))

    @rule(which=st.integers(0, 1), data=st.data())
    def forget_some(self, which: int, data: st.DataObject) -> None:
        """Forget facts that there are, by their texts."""
        living = self.indexes[which]
        with living.open() as index:
            texts = [fact.text for fact in index.all_facts()]
        if texts:
            path = self.folder / f"{next(self.numbers)}.txt"
            path.write_text("\n".join(data.draw(st.lists(st.sampled_from(texts), min_size=1, max_size=4))) + "\n")
            living.forget_from(path)

    @rule(which=st.integers(0, 1), follows=st.booleans())
    def compact(self, which: int, follows: bool) -> None:
        if follows:
            self.update(which)
        self.indexes[which].compact()

    @rule(which=st.integers(0, 1))
    def update(self, which: int) -> None:
        with self.indexes[which].open() as index:
            try:
                open_store(index).close()
                is_current = True
            except StoreError as error:
                assert "is behind the index: run `refactx store update" in str(error)
                is_current = False
            before = self.triples(index, is_current)
            done = update_store(index)
            assert (done.change == "unchanged") is is_current
            assert done.triples == len(self.check(index))
            if done.change == "updated":
                assert len(self.check(index)) == before + done.added - done.removed
                self.changes["moved" if not done.added | done.removed else "followed"] += 1
            self.changes[done.why or done.change] += 1

    def teardown(self) -> None:
        for which in range(2):
            self.update(which)

    def check(self, index: Index) -> set[object]:
        with open_store(index) as store:
            found = triples_in(store)
            assert found ^ triples_anew(index) == set()
            assert store.mark.facts == index.facts
            return set(found)

    def triples(self, index: Index, is_current: bool) -> int:
        from refactx.sparql.store.folder import folder_of, open_latest

        with open_latest(folder_of(index), index.name) as store:
            return len(triples_in(store))

    def source(self, drawn: Drawn) -> Path:
        claims, sayings, labelled = drawn
        lines: list[Line] = [("label", one, ITEMS[one], "en") for one in sorted(labelled)]
        lines += [("label", one, label, "en") for one, label in PROPERTIES.items()]
        path = f"{next(self.numbers)}.nt"
        return graph(LivingIndex(self.url, self.folder), path, [*lines, *sayings, *claims])

    def ready(self, lines: list[Line]) -> Path:
        return graph(LivingIndex(self.url, self.folder), f"{next(self.numbers)}.txt", lines)


def run(url: str, folder: Path, examples: int) -> Counter[str]:
    """Run the machine, the same way each time."""
    numbers, changes = count(1000), Counter[str]()
    run_state_machine_as_test(
        lambda: Stores(url, folder, numbers, changes),
        settings=settings(
            max_examples=examples,
            stateful_step_count=12,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(changes)
    return changes


@pytest.mark.long
def test_a_store_that_follows_has_the_triples_of_one_built_anew(db_url: str, tmp_path: Path) -> None:
    changes = run(db_url, tmp_path, examples=6)
    assert changes["followed"] > 0


@pytest.mark.slow
def test_a_store_follows_in_very_many_sequences_of_changes(db_url: str, tmp_path: Path) -> None:
    changes = run(db_url, tmp_path, examples=60)
    assert changes["followed"] > 30
    assert changes["moved"] > 0
    for why in ("has got an id", "objects of another kind", "was compacted after changes"):
        assert any(why in change for change in changes), why


def test_a_text_that_becomes_the_name_of_an_entity_makes_the_store_anew(db_url: str, tmp_path: Path) -> None:
    living = LivingIndex(db_url, tmp_path)
    first: list[Line] = [("label", "P4", "about", "en"), ("label", "Q1", "Ann", "en"), ("label", "Q4", "1984", "en")]
    first += [("literal", "Q1", "P4", "Bob", "en"), ("claim", "Q4", "P4", "Q1")]
    filler: list[Line] = [("literal", "Q1", "P4", f"text {number}", "en") for number in range(200)]
    living.ingest_from(graph(living, "first.nt", [*first, *filler]))
    with living.open() as index:
        build_store(index)
    second: list[Line] = [("label", "P4", "about", "en"), ("label", "Q3", "Bob", "en"), ("label", "Q1", "Ann", "en")]
    living.append_from(graph(living, "second.nt", [*second, ("claim", "Q3", "P4", "Q1")]))
    with living.open() as index:
        done = update_store(index)
        assert "the text <Bob> has become the name of an entity" in done.why
        with open_store(index) as store:
            assert triples_in(store) == triples_anew(index)
