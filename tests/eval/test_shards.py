"""Shards of a run share its folder, ask no question twice, and give the report of one machine."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.command import complains, run_refactx
from support.eval_task import Letters
from support.ingest.tiny import ingest_tiny
from support.tiny_asker import save_tiny

from refactx.errors import InputError
from refactx.eval import evaluate
from refactx.eval.run import WHOLE, RunLog, Shard


@given(st.integers(0, 40), st.integers(1, 9))
def test_shards_have_each_question_once(count: int, shards: int) -> None:
    parts = [Shard(number, shards).of(range(count)) for number in range(1, shards + 1)]
    assert sorted(one for part in parts for one in part) == list(range(count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["0/2", "3/2", "2", "a/b", "1/0", "-1/2", "1/2/3", ""])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="give I/N, with I from 1 to N, such as 2/8"):
        Shard.parse(text)


def test_the_logs_of_all_shards_are_the_run(tmp_path: Path) -> None:
    counted: list[str] = []
    task = Letters(folder_=tmp_path, count=lambda word: counted.append(word) or len(word))  # type: ignore[func-returns-value]
    for number in (1, 2):
        done = evaluate(replace(task, shard=Shard(number, 3)))
        assert done == {"shard": f"{number}/3", "questions": 2}
    assert counted == ["a", "a", "ghij", "ghij", "bc", "bc", "klmno", "klmno"]
    assert not (tmp_path / "report.json").exists()
    with (tmp_path / "once.2-of-3.jsonl").open("a") as file:
        file.write('{"key": "def", "letters": 3')  # it is being written by another machine
    report = evaluate(task)
    assert counted[8:] == ["def", "def"]
    assert [line["letters"] for line in report["results"]] == [1, 2, 3, 4, 5] * 2
    assert sorted(path.name for path in tmp_path.glob("once*.jsonl")) == [
        "once.1-of-3.jsonl",
        "once.2-of-3.jsonl",
        "once.jsonl",
    ]


def test_a_shard_has_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        RunLog(tmp_path, "answers", Shard(1, 2)),
        RunLog(tmp_path, "answers", Shard(2, 2)),
        RunLog(tmp_path, "answers"),
        pytest.raises(InputError, match=r"answers.2-of-2.jsonl is being written by another run"),
    ):
        RunLog(tmp_path, "answers", Shard(2, 2))


def test_logs_of_other_names_are_others(tmp_path: Path) -> None:
    for name in ("answers", "answers2", "my.answers"):
        with RunLog(tmp_path, name, Shard(1, 2)) as log:
            log.add(name, {})
    with RunLog(tmp_path, "answers", WHOLE) as log:
        assert [*log.records] == ["answers"]


def scores(report: dict[str, Any]) -> Any:
    """A report without what depends on the machine."""
    lines = [{name: line[name] for name in ("key", "run", "outcome", "hit")} for line in report["results"]]
    return report["questions"], sorted(lines, key=lambda line: line["key"])


@pytest.mark.long
def test_machines_that_share_a_folder_give_the_report_of_one(db_url: str, tmp_path: Path) -> None:
    facts = tmp_path / "facts.txt"
    facts.write_text("<Ann> <p> <b> .\n<Ann> <p> <c> .\n")
    ingest_tiny(db_url, facts)
    tiny_folder = save_tiny(tmp_path / "tiny")
    file = tmp_path / "questions.jsonl"
    lines = [{"id": f"q{n}", "question": f"Question {n}?", "answers": ["Bern"]} for n in range(5)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def run(folder: str, *options: str) -> Any:
        done = run_refactx(
            "eval", file, "--model", tiny_folder, "--db", db_url, "--max-new-tokens", 15,
            "--out", tmp_path / folder, *options,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    with ThreadPoolExecutor(2) as pool:
        confidence = list(pool.map(lambda shard: run("shared", "--shard", shard), ["1/2", "2/2"]))
    assert confidence[0].startswith(
        "shard 1/2: its 3 questions are done; once all shards are, the same command without --shard"
    )
    assert not (tmp_path / "shared" / "report.json").exists()
    run("shared")
    assert (tmp_path / "shared" / "grounded.jsonl").read_text() == "", "no question was asked again"
    run("alone")
    shared, alone = (json.loads((tmp_path / name / "report.json").read_text()) for name in ("shared", "alone"))
    assert scores(shared) == scores(alone)


def test_the_command_refuses_what_is_no_shard(tmp_path: Path) -> None:
    done = run_refactx("eval", tmp_path / "none.jsonl", "--model", "demo", "--shard", "9/8")
    assert done.returncode == 2
    assert "shard 9/8 is none: give I/N, with I from 1 to N, such as 2/8" in " ".join(done.stderr.split())
    assert "none.jsonl" in complains("eval", tmp_path / "none.jsonl", "--model", "demo", "--shard", "8/8")
