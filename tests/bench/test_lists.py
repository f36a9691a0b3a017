"""Generated questions for long lists, as a user makes them on an index, and the recall that is printed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.ingest.tiny import ingest_tiny

from refactx.eval.questions import read_questions

ROOT = Path(__file__).parent.parent.parent
VALUES = [f"b and c{n:02}" for n in range(30)]


@pytest.mark.long
def test_lists_have_all_values_and_their_walks_find_them(db_url: str, tmp_path: Path) -> None:
    facts, out = tmp_path / "facts.txt", tmp_path / "lists.jsonl"
    lines = [f"<Ann (a)> <p of> <{value}> ." for value in VALUES]
    lines += [f"<Bo> <q> <{n}> ." for n in range(40)] + [f"<Bé> <p> <{n}> ." for n in range(24)]
    facts.write_text("\n".join(lines) + "\n")
    ingest_tiny(db_url, facts)
    printed = []
    for name in ("lists.jsonl", "again.jsonl"):
        done = subprocess.run(
            [sys.executable, "-m", "bench.lists", "default", tmp_path / name, "--count", "5", "--db", db_url],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    assert out.read_text() == (tmp_path / "again.jsonl").read_text(), "the seed decides"
    assert "recall of the walk: mean 1.0000, least 1.0000" in printed[0]
    assert "F1 of the text: mean 1.0000, least 1.0000" in printed[0], "names with `and` are one item"
    records = {record["walk"]: record for record in map(json.loads, out.read_text().splitlines())}
    assert records.keys() == {"list <Ann (a)> <p of> .", "list <Bo> <q> ."}, "24 values are too few"
    assert records["list <Ann (a)> <p of> ."]["answers"] == VALUES
    assert "Ann" in records["list <Ann (a)> <p of> ."]["question"]
    assert {question.kind for question in read_questions(out)} == {"list"}
