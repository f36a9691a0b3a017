"""A damaged or hostile index file is an error that names it, or it is not noticed by right answers: never a crash."""

import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.files.hostile_files import Answers, by_accident, by_hand, outcome, read_everything
from support.files.made_files import write_file
from support.share.forged_files import Contents, contents, edited, forge, pack_pickle, rows_of
from support.tiny_model import tiny_fact_tokenizer

from refactx.errors import CorruptIndexError
from refactx.index.names import Named
from refactx.index.open import open_index
from refactx.ingest.segment.cutting import Shape

Made = tuple[bytes, Contents, Answers]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The bytes of a file with several segments, levels, names and hubs, and all that is in it."""
    chance, names = random.Random(3), [f"e{number}" for number in range(40)]
    facts = sorted({f"<{chance.choice(names)}> <p{chance.randrange(5)}> <{chance.choice(names)}>" for _ in range(400)})
    encoded = [tuple(tiny_fact_tokenizer().encode_after("Fact:", " " + fact)) for fact in facts]
    named = {name: Named(f"Q{number}", None) for number, name in enumerate(names, 1)}
    named |= {f"p{number}": Named(f"P{number + 1}", "entity") for number in range(5)}
    path = write_file(
        tmp_path_factory.mktemp("file") / "made.refactx",
        [(1, encoded[:-30]), (-1, encoded[:20]), (1, encoded[-30:])],
        shape=Shape(facts=12, inner=8, root=10),
        names=[{name: named[name] for name in list(named)[:30]}, {name: named[name] for name in list(named)[30:]}],
        hubs={("e1", "p1", "of"): 3, ("human", "p2", "has"): 52_073},
    )
    answers = read_everything(path)
    assert answers[1] == sorted(answers[1], key=facts_order(encoded, facts))
    assert len(answers[1]) == len(facts) - 20
    return path.read_bytes(), contents(path), answers


def facts_order(encoded: list[tuple[int, ...]], facts: list[str]) -> Callable[[str], tuple[int, ...]]:
    """The token ids of a fact's text: the order of facts in an index."""
    ids = {f"{fact} .": one for fact, one in zip(facts, encoded, strict=True)}
    return lambda text: ids[text]


def check(made: Made, folder: Path, seed: int) -> None:
    """One file that was changed by accident, and one that was changed by hand."""
    file, parts, answers = made
    path = folder / "changed.refactx"
    path.write_bytes(by_accident(file, random.Random(seed)))
    assert outcome(path) in (None, answers)
    by_hand(path, parts, random.Random(seed))
    outcome(path)  # whoever makes a file decides what it says, and nothing else


@pytest.mark.parametrize("seed", range(40))
def test_a_changed_file_gives_right_answers_or_an_error(made: Made, tmp_path: Path, seed: int) -> None:
    check(made, tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 1000))
def test_a_thousand_changed_files_give_right_answers_or_an_error(made: Made, tmp_path: Path, seed: int) -> None:
    check(made, tmp_path, seed)


def test_a_pickle_in_a_file_runs_no_code(made: Made, tmp_path: Path) -> None:
    """The row of a piece of facts that would write a file if it were unpickled as Python does."""

    class Writes:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path.touch, (Path(tmp_path / "was here"),)  # type: ignore[return-value]

    _, parts, _ = made
    rows = rows_of(parts, "tree")
    rows[0] = rows[0][0], pack_pickle(parts, rows[0][0], pickle.dumps(Writes(), 5))
    assert outcome(forge(tmp_path / "made.refactx", {**parts, ("tree", 0): rows})) is None
    assert not (tmp_path / "was here").exists()


@pytest.mark.parametrize(
    "statements",
    [
        ("DROP TABLE names_0", "CREATE VIEW names_0 AS SELECT 1 AS number, x'41' AS key, x'42' AS value"),
        ("ALTER TABLE tree_0 RENAME TO other", "CREATE VIEW tree_0 AS SELECT * FROM other"),
        ("CREATE TRIGGER t AFTER INSERT ON hubs_0 BEGIN DELETE FROM tree_0; END",),
        ("CREATE TABLE more (a)",),
        ("CREATE INDEX more ON tree_0 (abs(number))",),
        ("CREATE VIRTUAL TABLE more USING fts5(a)",),
        ("DROP TABLE hubs_0",),
        ("DELETE FROM parts WHERE kind = 'end'",),
        ("DELETE FROM parts WHERE kind = 'hubs'",),
        ("UPDATE parts SET value = 1 WHERE kind = 'codes'",),
        ("UPDATE parts SET checksum = 'x' WHERE kind = 'tree'",),
        ("UPDATE tree_0 SET value = 'text'",),
        ("UPDATE names_0 SET key = 'text' || number",),
        ("UPDATE hubs_0 SET value = 7",),
        ("DELETE FROM names_0 WHERE number = 1",),
        ("DELETE FROM hubs_0 WHERE number = 1",),
        ("PRAGMA application_id = 7",),
        ("PRAGMA user_version = 3",),
        ("PRAGMA user_version = 5",),
    ],
    ids=" ".join,
)
def test_a_database_with_other_tables_or_values_is_refused_and_runs_nothing(
    made: Made, tmp_path: Path, statements: tuple[str, ...]
) -> None:
    path = tmp_path / "made.refactx"
    path.write_bytes(made[0])
    assert outcome(edited(path, *statements)) is None


def test_a_row_that_was_lost_with_its_key_is_an_error_and_not_a_missing_name(made: Made, tmp_path: Path) -> None:
    path = tmp_path / "made.refactx"
    path.write_bytes(made[0])
    edited(path, "DELETE FROM names_0 WHERE number = (SELECT max(number) FROM names_0)")
    with open_index(path) as index, pytest.raises(CorruptIndexError, match="the next row is not where it should be"):
        index.ids_of(["e1", "zzz"])


def test_a_journal_beside_a_file_is_not_played_back(made: Made, tmp_path: Path) -> None:
    path = tmp_path / "made.refactx"
    path.write_bytes(made[0])
    for end in ("-journal", "-wal", "-shm"):
        (tmp_path / f"made.refactx{end}").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(1000))
    assert outcome(path) == made[2]


def test_a_file_that_is_cut_while_it_is_read_is_an_error(made: Made, tmp_path: Path) -> None:
    path = tmp_path / "made.refactx"
    path.write_bytes(made[0])
    with open_index(path) as index:
        os.truncate(path, 20_000)
        with pytest.raises(CorruptIndexError, match=r"made\.refactx"):
            list(index.all_facts())


def test_a_file_of_a_read_only_folder_is_read_by_threads_and_after_a_fork(made: Made, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "made #1?.refactx"
    path.write_bytes(made[0])
    path.chmod(0o444)
    folder.chmod(0o555)
    with open_index(path) as index, ThreadPoolExecutor(8) as threads:
        read = threads.map(lambda _: [fact.text for fact in open_index(path).all_facts()], range(4))
        shared = threads.map(lambda _: [fact.text for fact in index.all_facts()], range(8))
        assert {tuple(one) for one in (*read, *shared)} == {tuple(made[2][1])}
        child = os.fork()
        if not child:
            os._exit(0 if [fact.text for fact in index.all_facts()] == made[2][1] else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert [one.name for one in folder.iterdir()] == [path.name]
    folder.chmod(0o755)


def test_a_file_that_is_replaced_while_it_is_read_stays_as_it_was(made: Made, tmp_path: Path) -> None:
    path = tmp_path / "made.refactx"
    path.write_bytes(made[0])
    with open_index(path) as index:
        other = tmp_path / "other"
        other.write_bytes(b"something else")
        other.rename(path)
        assert [fact.text for fact in index.all_facts()] == made[2][1]


def test_many_processes_read_one_file_at_once(made: Made, tmp_path: Path) -> None:
    path = tmp_path / "made.refactx"
    path.write_bytes(made[0])
    code = "import sys, refactx; print(*(f.text for f in refactx.open_index(sys.argv[1]).all_facts()), sep='\\n')"
    readers = [
        subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True) for _ in range(8)
    ]
    assert {reader.communicate()[0] for reader in readers} == {"\n".join(made[2][1]) + "\n"}
    assert {reader.returncode for reader in readers} == {0}
