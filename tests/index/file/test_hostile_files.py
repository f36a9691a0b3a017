"""A damaged or hostile index file is an error that names it, or it is not noticed by right answers: never a crash."""

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.files.hostile_files import Answers, by_accident, by_hand, outcome, read_everything
from support.files.made_files import write_file
from support.tiny_model import tiny_fact_tokenizer

from refactx.index.file.source import CHECKED_BYTES
from refactx.index.names import Named
from refactx.ingest.segment.cutting import Shape

Made = tuple[bytes, Answers]
AT_ONCE, LATER = CHECKED_BYTES, 0
"""Whether checksums of blocks with rows are checked on opening, as in a small file, or each row's when it is read."""


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
    answers = read_everything(path, LATER)
    assert answers == read_everything(path, AT_ONCE)
    assert answers[1] == sorted(answers[1], key=facts_order(encoded, facts))
    assert len(answers[1]) == len(facts) - 20
    return path.read_bytes(), answers


def facts_order(encoded: list[tuple[int, ...]], facts: list[str]) -> Callable[[str], tuple[int, ...]]:
    """The token ids of a fact's text: the order of facts in an index."""
    ids = {f"{fact} .": one for fact, one in zip(facts, encoded, strict=True)}
    return lambda text: ids[text]


def check(made: Made, folder: Path, seed: int) -> None:
    """One file that was changed by accident, read in both ways, and one that was changed by hand."""
    file, answers = made
    path = folder / "changed.refactx"
    path.write_bytes(by_accident(file, random.Random(seed)))
    assert outcome(path, AT_ONCE) in (None, answers)
    assert outcome(path, LATER) in (None, answers)
    path.write_bytes(by_hand(file, random.Random(seed)))
    outcome(path, AT_ONCE)  # whoever makes a file decides what it says, and nothing else


@pytest.mark.parametrize("seed", range(40))
def test_a_changed_file_gives_right_answers_or_an_error(made: Made, tmp_path: Path, seed: int) -> None:
    check(made, tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 1000))
def test_a_thousand_changed_files_give_right_answers_or_an_error(made: Made, tmp_path: Path, seed: int) -> None:
    check(made, tmp_path, seed)


def test_a_pickle_in_a_file_runs_no_code(made: Made, tmp_path: Path) -> None:
    """The row of a piece of facts that would write a file if it were unpickled as Python does."""
    import pickle

    from support.share.forged_files import block_number, pack_pickle, payload
    from support.shared_index import changed

    from refactx.index.file.format import FILE_VERSION
    from refactx.index.file.rows import pack_rows, unpack_rows

    class Writes:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path.touch, (Path(tmp_path / "was here"),)  # type: ignore[return-value]

    file, _ = made
    number = block_number(file, "tree")
    rows = list(unpack_rows(payload(file, number), FILE_VERSION))
    key = rows[0][0]
    rows[0] = key, pack_pickle(file, key, pickle.dumps(Writes(), 5))
    path = tmp_path / "made.refactx"
    path.write_bytes(changed(file, {number: [("tree", 0, pack_rows(rows))]}))
    assert outcome(path, AT_ONCE) is None
    assert not (tmp_path / "was here").exists()


def test_a_file_that_is_replaced_while_it_is_read_stays_as_it_was(made: Made, tmp_path: Path) -> None:
    from refactx.index.open import open_index

    path = tmp_path / "made.refactx"
    path.write_bytes(made[0])
    with open_index(path) as index:
        other = tmp_path / "other"
        other.write_bytes(b"something else")
        other.rename(path)
        assert [fact.text for fact in index.all_facts()] == made[1][1]


def test_many_processes_read_one_file_at_once(made: Made, tmp_path: Path) -> None:
    path = tmp_path / "made.refactx"
    path.write_bytes(made[0])
    code = "import sys, refactx; print(*(f.text for f in refactx.open_index(sys.argv[1]).all_facts()), sep='\\n')"
    readers = [
        subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True) for _ in range(8)
    ]
    assert {reader.communicate()[0] for reader in readers} == {"\n".join(made[1][1]) + "\n"}
    assert {reader.returncode for reader in readers} == {0}
