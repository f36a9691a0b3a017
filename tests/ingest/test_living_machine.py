"""Through any sequence of changes, broken-off ones too, an index is what brute force says it is.

After every step an index opened now, and readers opened at some time and not refreshed since, are held against a `Moment`:
children and counts along every prefix of every fact there could be, `len`, `in`, links; and of the one opened now `verify`.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import count
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from support.broken_writes import Break, breaking, killed_at_the_break, prepare
from support.ingest.graph_twin import Fact
from support.ingest.living_index import LivingIndex, as_fact, linked, shown
from support.ingest.living_steps import EVERY, LABELS, Change, Moment, run, text_of, write_source
from support.shared_index import opened

from refactx.errors import IndexNotFoundError, RefactxError
from refactx.index.index import Index
from refactx.index.verify import verify
from refactx.postgres.building import drop
from refactx.postgres.database import list_indexes
from refactx.share.export import export_index
from refactx.tree.children import MemoryTree

Facts = frozenset[Fact]
Prefix = tuple[int, ...]

SUBJECTS = sorted({fact[0] for fact in EVERY})
SOME = st.one_of(
    st.frozensets(st.sampled_from(EVERY), min_size=1, max_size=6),
    st.sampled_from([frozenset(fact for fact in EVERY if fact[0] == subject) for subject in SUBJECTS]),
    st.just(frozenset(EVERY)),
)
"""A few facts, all of an entity, all there are."""

HOWS = ("refused", "lost", "killed")
"""In which ways a change can be broken off."""

WRITES = st.integers(1, 8) | st.integers(1, 30)
"""At which of its writes: the shortest have some eight, the longest thirty."""

ENDS = ("ingest", "append", "forget", "merge", "export", "import", "refused", "lost", "opened", "refreshed")
"""What must have come to pass in a run: changes done to their end (`merge`: a compaction of several segments), ways in which
some were broken off, and what readers do."""


@cache
def sequence(fact: Fact) -> Prefix:
    """A fact as the tree holds it."""
    (tokens,) = LivingIndex("", Path()).sequences([text_of(fact)])
    return tokens


@lru_cache(maxsize=64)
def children(facts: Facts) -> dict[Prefix, tuple[list[int], list[int], int]]:
    """What follows each prefix of every fact there could be, in a tree of some facts."""
    tree, every = MemoryTree(map(sequence, facts)), map(sequence, EVERY)
    return {prefix: shown(tree.children(prefix)) for one in every for prefix in (one[:n] for n in range(len(one) + 1))}


@dataclass
class Reader:
    """An open index, and the moment that it shows."""

    index: Index
    moment: Moment

    def check(self, now: Moment) -> None:
        """It answers as of its moment. Where its tables are gone it takes up the index as it is now, and no other.

        Raises IndexNotFoundError if there is no such index any more.
        """
        for prefix in children(self.moment.facts):
            rows = self.index.rows
            seen = shown(self.index.children(prefix))
            if self.index.rows != rows:
                assert now.built == self.moment.built
                assert now.compacted > self.moment.compacted, "nothing else takes tables away"
                self.moment = now
            assert seen == children(self.moment.facts)[prefix], prefix
        assert len(self.index) == self.index.facts == len(self.moment.facts)
        assert self.index.tokens == sum(map(len, map(sequence, self.moment.facts)))

    def check_texts(self) -> None:
        """Facts and their links are those of its moment."""
        facts, index = self.moment.facts, self.index
        for fact in EVERY:
            text = as_fact(text_of(fact))
            assert (text in index) == (fact in facts)
            if fact in facts:
                assert linked(index, text) == [part if part in LABELS else None for part in fact]
        assert dict(index.complete("<")) == Counter(f"<{LABELS[fact[0]]}>" for fact in facts)


class Living(RuleBasedStateMachine):
    """One index, its readers, and files of it. `can_kill`: whether changes are also broken off by killing a process; `ended`
    counts the steps that came to their end in all examples."""

    def __init__(self, url: str, folder: Path, example: int, can_kill: bool, ended: Counter[str]) -> None:
        super().__init__()
        self.url, self.folder, self.can_kill = url, folder, can_kill
        self.prefix = self.name = f"living {example}"
        self.now = Moment()
        self.readers: list[Reader] = []
        self.files: list[tuple[Path, Moment]] = []
        self.broken_off: Change | None = None
        self.numbers = count()
        self.ended: Counter[str] = Counter()
        self.ended_in_all = ended

    # --- Steps

    @initialize(facts=SOME)
    def begin(self, facts: Facts) -> None:
        self.do(self.change("ingest", facts))

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """One of the steps there are: first those that have not come to their end yet, in any order, then whichever."""
        possible = self.possible()
        new = [kind for kind in possible if not self.ended[kind]]
        kind = data.draw(st.sampled_from(new or possible), label="step")
        match kind:
            case "ingest" | "append" | "forget":
                labelled = kind == "ingest" or data.draw(st.booleans(), label="labelled")
                self.do(self.change(kind, data.draw(SOME, label="facts"), labelled), self.break_in(data))
            case "forget nearly all":
                all_but = data.draw(st.integers(0, 3), label="all but")
                facts = frozenset(sorted(self.now.facts)[all_but:]) or self.now.facts
                self.do(self.change("forget", facts, labelled=False), self.break_in(data))
                self.ended[kind] += 1
            case "merge" | "compact":
                self.do(Change("compact", self.name), self.break_in(data))
            case "what was broken off":
                assert self.broken_off is not None
                self.do(self.broken_off)
                self.ended[kind] += 1
            case "export" | "stopped export":
                self.export(data.draw(st.integers(1, 4), label="stop") if kind == "stopped export" else None)
            case "import":
                self.do(self.import_of(data), self.break_in(data))
            case "opened":
                self.open_reader(data.draw(st.sampled_from([0, 1 << 20]), label="cache bytes"))
            case "refreshed":
                self.refresh(self.readers[data.draw(st.integers(0, len(self.readers) - 1), label="reader")])

    def possible(self) -> list[str]:
        """The kinds of steps that make sense now."""
        segments = self.segments()
        makes_sense = {
            **dict.fromkeys(("ingest", "append", "forget", "export", "stopped export"), True),
            "forget nearly all": bool(self.now.facts),
            "merge": segments > 1,
            "compact": segments < 2,
            "what was broken off": self.broken_off is not None,
            "import": bool(self.files),
            "opened": len(self.readers) < 3,
            "refreshed": bool(self.readers),
        }
        return [kind for kind, does in makes_sense.items() if does]

    def break_in(self, data: st.DataObject) -> Break | None:
        """Where the change is to be broken off, if it is: first in the ways that have not come up yet."""
        hows = HOWS if self.can_kill else HOWS[:2]
        hows = tuple(how for how in hows if not self.ended[how]) or hows
        return data.draw(st.none() | st.builds(Break, WRITES, st.sampled_from(hows)), label="break")

    # --- Files

    def export(self, stop: int | None) -> None:
        """One that was stopped is gone on with by the next one, if the index is the same by then."""
        left = count(1)

        def progress(done: int, total: int) -> None:
            if next(left) == stop:
                raise KeyboardInterrupt

        path = self.folder / f"{self.prefix}-{len(self.files)}.refactx"
        try:
            with opened(self.url) as database:
                done = export_index(database, self.name, path, block_bytes=100, progress=progress)
        except KeyboardInterrupt:
            assert not path.exists()
            self.ended["stopped export"] += 1
        else:
            assert done.facts == len(self.now.facts)
            self.files.append((path, self.now))
            self.ended["export"] += 1
            self.ended["export gone on with"] += done.resumed > 0

    def import_of(self, data: st.DataObject) -> Change:
        """In place of the index, or under another name, and then that is the index."""
        path, moment = self.files[data.draw(st.integers(0, len(self.files) - 1), label="file")]
        moved = data.draw(st.booleans(), label="moved")
        name = f"{self.prefix}.{next(self.numbers)}" if moved else self.name
        return Change("import", name, path, imported=moment)

    # --- Readers

    def open_reader(self, cache_bytes: int) -> None:
        self.readers.append(Reader(self.living.open(cache_bytes=cache_bytes), self.now))
        self.ended["opened"] += 1

    def refresh(self, reader: Reader) -> None:
        if reader.moment.built == self.now.built:
            reader.index.refresh()
            reader.moment = self.now
            reader.check_texts()
            self.ended["refreshed"] += 1
        else:
            with pytest.raises(IndexNotFoundError, match="open it again"):
                reader.index.refresh()

    # --- What holds after every step

    @invariant()
    def an_index_opened_now_is_as_it_should_be(self) -> None:
        with self.living.open() as index:
            reader = Reader(index, self.now)
            reader.check(self.now)
            reader.check_texts()
            assert index.entry["facts"] == len(self.now.facts)
            assert verify(index).faults == []

    @invariant()
    def readers_see_their_moment_or_this_one(self) -> None:
        for reader in list(self.readers):
            try:
                reader.check(self.now)
            except IndexNotFoundError:
                assert reader.moment.built < self.now.built
                reader.index.close()
                self.readers.remove(reader)

    def teardown(self) -> None:
        self.ended_in_all.update(self.ended)
        for reader in self.readers:
            reader.index.close()
        with opened(self.url) as database, database.connection() as connection:
            for name in {entry["name"] for entry in list_indexes(connection, every=True)}:
                drop(connection, name)
        assert tables(self.url) == (0, 0)

    # --- Doing

    @property
    def living(self) -> LivingIndex:
        return LivingIndex(self.url, self.folder, self.name)

    def change(self, kind: str, facts: Facts, labelled: bool = True) -> Change:
        path = self.folder / f"{self.prefix}-{next(self.numbers)}.nt"
        write_source(path, facts, labelled)
        return Change(kind, self.name, path, facts, labelled)

    def do(self, change: Change, broken: Break | None = None) -> None:
        """Do a change, which may be broken off: then all of it has come to pass, or nothing."""
        if change.kind in ("append", "forget") and not change.taken(self.now):
            run(self.url, self.folder, change)  # nothing to do, which is no error
            return
        before, kind = shown_tables(self.url, change.name), change.kind
        if kind == "compact" and self.segments() > 1:
            kind = "merge"
        if self.does(change, broken):
            self.broken_off, is_done = None, True
            self.ended[kind] += 1
            assert unfinished(self.url) == 0, "what was broken off before is gone"
        else:
            self.broken_off, is_done = change, shown_tables(self.url, change.name) != before
        if is_done:
            self.now = change.after(self.now)
            if change.name != self.name:
                with opened(self.url) as database, database.connection() as connection:
                    drop(connection, self.name)
                self.name, self.broken_off = change.name, None

    def does(self, change: Change, broken: Break | None) -> bool:
        """Whether it came to its end."""
        is_ended = True
        with breaking(self.url, broken):
            if broken is not None and broken.how == "killed":
                is_ended = not killed_at_the_break(self.url, run, self.url, self.folder, change)
            else:
                try:
                    run(self.url, self.folder, change)
                except RefactxError:
                    assert broken is not None
                    is_ended = False
        if broken is not None and not is_ended:
            self.ended[broken.how] += 1
        return is_ended

    def segments(self) -> int:
        """How many segments the index has."""
        with opened(self.url) as database, database.connection() as connection:
            return int(list_indexes(connection, self.name)[0]["segments"])


def shown_tables(url: str, name: str) -> list[object]:
    """The tables that readers of an index see, and which index it is."""
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT i.id, s.id FROM refactx.indexes AS i LEFT JOIN refactx.segments AS s ON s.index_id = i.id AND s.ready"
            " WHERE i.name = %s AND i.state = 'ready' ORDER BY s.id",
            [name],
        ).fetchall()


def unfinished(url: str) -> int:
    """How many segments and name tables of finished indexes readers do not see."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT (SELECT count(*) FROM refactx.indexes AS i JOIN refactx.segments AS s ON s.index_id = i.id"
            " WHERE i.state = 'ready' AND NOT s.ready) + (SELECT count(*) FROM refactx.indexes AS i"
            " JOIN refactx.name_tables AS n USING (knowledge_base) WHERE i.state = 'ready' AND NOT n.ready)"
        ).fetchone()
    assert row is not None
    return int(row[0])


def tables(url: str) -> tuple[int, int]:
    """How many tables there are, and how many of them readers see."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT (SELECT count(*) FROM pg_class WHERE relname ~ '^(pieces|names)_[0-9]+$'),"
            " (SELECT count(*) FROM refactx.segments WHERE ready) + (SELECT count(*) FROM refactx.name_tables WHERE ready)"
        ).fetchone()
    assert row is not None
    return row[0], row[1]


def check(url: str, folder: Path, can_kill: bool, examples: int, steps: int) -> None:
    """Run the machine, the same way each time."""
    LivingIndex(url, folder, "first").ingest("a b c")  # makes the catalogue
    prepare(url)
    numbers, ended = count(), Counter[str]()
    run_state_machine_as_test(
        lambda: Living(url, folder, next(numbers), can_kill, ended),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],  # to shrink takes long, and steps are few
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    missing = {*ENDS, *(("killed", "export gone on with") if can_kill else ())} - set(+ended)
    assert not missing, f"never came to pass: {sorted(missing)}; what did: {dict(ended)}"


def test_any_sequence_of_changes(db_url: str, tmp_path: Path) -> None:
    check(db_url, tmp_path, can_kill=False, examples=2, steps=14)


@pytest.mark.slow
def test_any_long_sequence_of_changes_with_processes_killed(db_url: str, tmp_path: Path) -> None:
    check(db_url, tmp_path, can_kill=True, examples=8, steps=25)
