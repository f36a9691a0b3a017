"""Runs over documents: what a kill leaves, a run with other options, and the formats of facts."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from refactx.ask.extraction import ExtractedFact, ExtractedFacts
from refactx.errors import InputError
from refactx.extraction import runs
from refactx.extraction.files import Document
from refactx.extraction.runs import pieces_of, run, run_file, writer_of
from refactx.fact import Fact

DOCUMENTS = [Document(f"d{n}.txt", " ".join(f"Sentence {i} of {n}." for i in range(30))) for n in range(4)]
HERE = Path(__file__)


def extract(text: str) -> ExtractedFacts:
    """A fact for each sentence, as if a model had read it."""
    facts = []
    for one in text.split(". "):
        fact = Fact("Ann", "says", one.strip("."), f"<Ann> <says> <{one.strip('.')}> .", (0, 0))
        facts.append(ExtractedFact(fact=fact, text=one, start=0, stop=len(one), confidence=1.5, is_known=False))
    return ExtractedFacts(facts=tuple(facts), sentences=len(facts), without_fact=0)


def go(path: Path, seconds: float = 0.0) -> int:
    """Run over the documents, some seconds for each piece. Return how many sentences were read."""

    def slowly(text: str) -> ExtractedFacts:
        time.sleep(seconds)
        return extract(text)

    with run_file(path, {"a": 1}, sys.stdout) as file:
        write = writer_of("table", None, begins=file.is_new)  # type: ignore[arg-type]
        return run(DOCUMENTS, slowly, write, file, print).sentences


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "PIECE_SENTENCES", 5)


@pytest.mark.parametrize("begun", [1, 9])
def test_a_killed_run_goes_on_without_a_loss_or_a_double(tmp_path: Path, begun: int) -> None:
    whole, killed = tmp_path / "whole.tsv", tmp_path / "killed.tsv"
    assert go(whole) == 120
    program = (
        f"import sys; sys.path[:0] = {[str(HERE.parent), *sys.path]!r}\n"
        "from test_runs import go, runs\nfrom pathlib import Path\nruns.PIECE_SENTENCES = 5\n"
        f"go(Path({str(killed)!r}), 0.1)"
    )
    state = killed.with_name("killed.tsv.state")
    process = subprocess.Popen([sys.executable, "-c", program])
    while not state.exists() or len(state.read_text().splitlines()) <= begun:
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with killed.open("a") as file:
        file.write("half a li")  # what was written, and not yet noted
    with state.open("a") as file:
        file.write('{"document": "d1')
    assert 0 < go(killed) < 120
    assert killed.read_bytes() == whole.read_bytes()
    assert go(killed) == 0
    assert killed.read_bytes() == whole.read_bytes()


def test_only_the_file_of_the_same_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("mine")
    with pytest.raises(InputError, match="no run wrote it"):
        go(path)
    assert path.read_text() == "mine"
    go(other := tmp_path / "b.tsv")
    with pytest.raises(InputError, match="other options"), run_file(other, {"a": 2}, sys.stdout):
        pass
    with run_file(other, {"a": 1}, sys.stdout), pytest.raises(InputError, match="another run"):
        go(other)


def test_a_document_that_cannot_be_read_is_said_and_the_next_is_read() -> None:
    out, said = io.StringIO(), list[str]()
    some = [Document("bad.pdf", error="it is no PDF"), DOCUMENTS[0], Document("long.txt", "x" * 60_000)]
    with run_file(None, {}, out) as file:
        counts = run(some, extract, writer_of("table", None, begins=True), file, said.append)  # type: ignore[arg-type]
    assert said == ["bad.pdf is left out: it is no PDF", "long.txt: a sentence of 60,000 characters is left out"]
    assert (counts.documents, counts.failed, counts.facts, counts.sentences) == (2, 1, 30, 31)
    head, first, *_ = out.getvalue().splitlines()
    assert head.split("\t") == list(runs.COLUMNS)
    assert first.split("\t") == ["Ann", "says", "Sentence 0 of 0", "d0.txt", "Sentence 0 of 0", "1.50", "no"]


def test_pieces_are_whole_sentences_and_all_of_them() -> None:
    text = DOCUMENTS[0].text
    pieces = [text[slice(*place)] for place in pieces_of(text)]
    assert " ".join(pieces) == text
    assert {piece[-1] for piece in pieces} == {"."}


def test_a_changed_document_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go(path := tmp_path / "a.tsv")
    changed = [*DOCUMENTS[:3], Document("d3.txt", "Another sentence.")]
    monkeypatch.setattr(sys.modules[__name__], "DOCUMENTS", changed)
    assert go(path) == 1
    assert json.loads((tmp_path / "a.tsv.state").read_text().splitlines()[-1])["done"]
