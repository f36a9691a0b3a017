"""In any sequence of changes, interrupted ones too, an index has what brute force expects.

After every step, an index opened now, and readers opened at some time and not refreshed since, are compared with a
`Moment`: children and counts along every prefix of every possible fact, `len`, `in` and links. `verify` checks the
index opened now.
"""

from collections import Counter
from itertools import count
from pathlib import Path

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
from support.ingest.living_index import LivingIndex
from support.ingest.living_reader import Facts, Reader, count_tables, count_unfinished, shown_tables
from support.ingest.living_steps import EVERY, Change, Moment, run, write_source
from support.shared_index import opened

from refactx.errors import IndexNotFoundError, RefactxError
from refactx.index.verify import verify
from refactx.postgres.catalogue import list_indexes
from refactx.postgres.writing import drop
from refactx.share.export import export_index

SUBJECTS = sorted({fact[0] for fact in EVERY})
SOME = st.one_of(
    st.frozensets(st.sampled_from(EVERY), min_size=1, max_size=6),
    st.sampled_from([frozenset(fact for fact in EVERY if fact[0] == subject) for subject in SUBJECTS]),
    st.just(frozenset(EVERY)),
)
"""A few facts, all of an entity, or all."""

HOWS = ("refused", "lost", "killed")
"""The ways in which a change can be interrupted."""

WRITES = st.integers(1, 8) | st.integers(1, 30)
"""The write at which it is interrupted: the shortest changes have some eight, the longest thirty."""

ENDS = ("ingest", "append", "forget", "merge", "export", "import", "refused", "lost", "opened", "refreshed")
"""What must have happened in a run: completed changes (`merge`: a compaction of several segments), ways in which some
were interrupted, and what readers do."""


class Living(RuleBasedStateMachine):
    """One index, its readers, and files exported from it.

    `can_kill`: whether changes are also interrupted by killing a process. `ended`: counts the completed steps of all
    examples.
    """

    def __init__(self, url: str, folder: Path, example: int, can_kill: bool, ended: Counter[str]) -> None:
        super().__init__()
        self.url, self.folder, self.can_kill = url, folder, can_kill
        self.prefix = self.name = f"living {example}"
        self.now = Moment()
        self.readers: list[Reader] = []
        self.files: list[tuple[Path, Moment]] = []
        self.interrupted: Change | None = None
        self.numbers = count()
        self.ended: Counter[str] = Counter()
        self.ended_in_all = ended

    # --- Steps

    @initialize(facts=SOME)
    def begin(self, facts: Facts) -> None:
        self.do(self.change("ingest", facts))

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """Take one of the possible steps: those that have not been completed yet come first, in any order."""
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
                self.do(Change(kind="compact", name=self.name), self.break_in(data))
            case "interrupted change":
                assert self.interrupted is not None
                self.do(self.interrupted)
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
        """Return the kinds of steps that are possible now."""
        segments = self.segments()
        makes_sense = {
            **dict.fromkeys(("ingest", "append", "forget", "export", "stopped export"), True),
            "forget nearly all": bool(self.now.facts),
            "merge": segments > 1,
            "compact": segments < 2,
            "interrupted change": self.interrupted is not None,
            "import": bool(self.files),
            "opened": len(self.readers) < 3,
            "refreshed": bool(self.readers),
        }
        return [kind for kind, does in makes_sense.items() if does]

    def break_in(self, data: st.DataObject) -> Break | None:
        """Return where to interrupt the change, if at all; ways that have not occurred yet come first."""
        hows = HOWS if self.can_kill else HOWS[:2]
        hows = tuple(how for how in hows if not self.ended[how]) or hows
        return data.draw(st.none() | st.builds(Break, WRITES, st.sampled_from(hows)), label="break")

    # --- Files

    def export(self, stop: int | None) -> None:
        """Export the index. A stopped export leaves nothing."""
        left = count(1)

        def progress(done: int, total: int) -> None:
            if next(left) == stop:
                raise KeyboardInterrupt

        path = self.folder / f"{self.prefix}-{len(self.files)}.refactx"
        try:
            with opened(self.url) as database:
                done = export_index(database, self.name, path, progress=progress)
        except KeyboardInterrupt:
            assert not list(self.folder.glob(f"{path.name}*"))
            self.ended["stopped export"] += 1
        else:
            assert done.facts == len(self.now.facts)
            self.files.append((path, self.now))
            self.ended["export"] += 1

    def import_of(self, data: st.DataObject) -> Change:
        """Return an import that replaces the index, or one under another name, which then is the index."""
        path, moment = self.files[data.draw(st.integers(0, len(self.files) - 1), label="file")]
        moved = data.draw(st.booleans(), label="moved")
        name = f"{self.prefix}.{next(self.numbers)}" if moved else self.name
        return Change(kind="import", name=name, path=path, imported=moment)

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
            assert index.entry.facts == len(self.now.facts)
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
            for name in {entry.name for entry in list_indexes(connection, every=True)}:
                drop(connection, name)
        assert count_tables(self.url) == (0, 0)

    # --- Changes

    @property
    def living(self) -> LivingIndex:
        return LivingIndex(self.url, self.folder, self.name)

    def change(self, kind: str, facts: Facts, labelled: bool = True) -> Change:
        path = self.folder / f"{self.prefix}-{next(self.numbers)}.nt"
        write_source(path, facts, labelled)
        return Change(kind=kind, name=self.name, path=path, facts=facts, labelled=labelled)

    def do(self, change: Change, broken: Break | None = None) -> None:
        """Make a change, which may be interrupted: then all of it has happened, or nothing."""
        if change.kind in ("append", "forget") and not change.effective_facts(self.now):
            run(self.url, self.folder, change)  # it is no error to have nothing to do
            return
        before, kind = shown_tables(self.url, change.name), change.kind
        if kind == "compact" and self.segments() > 1:
            kind = "merge"
        if self.attempt(change, broken):
            self.interrupted, is_done = None, True
            self.ended[kind] += 1
            assert count_unfinished(self.url) == 0, "what an interrupted change left is gone"
        else:
            self.interrupted, is_done = change, shown_tables(self.url, change.name) != before
        if is_done:
            self.now = change.after(self.now)
            if change.name != self.name:
                with opened(self.url) as database, database.connection() as connection:
                    drop(connection, self.name)
                self.name, self.interrupted = change.name, None

    def attempt(self, change: Change, broken: Break | None) -> bool:
        """Make a change, and return whether it was completed."""
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
        """Return how many segments the index has."""
        with opened(self.url) as database, database.connection() as connection:
            return list_indexes(connection, self.name)[0].segments


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
            phases=[Phase.generate],  # shrinking takes long, and there are few steps
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    missing = {*ENDS, *(("killed",) if can_kill else ())} - set(+ended)
    assert not missing, f"did not happen: {sorted(missing)}; what did: {dict(ended)}"


@pytest.mark.long
def test_any_sequence_of_changes(db_url: str, tmp_path: Path) -> None:
    check(db_url, tmp_path, can_kill=False, examples=2, steps=14)


@pytest.mark.slow
def test_any_long_sequence_of_changes_with_processes_killed(db_url: str, tmp_path: Path) -> None:
    check(db_url, tmp_path, can_kill=True, examples=8, steps=25)
