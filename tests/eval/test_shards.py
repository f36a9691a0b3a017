"""Shards of a run share its folder, ask no question twice, and give the report of one machine."""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.command import complains, run_refactx
from support.ingest.tiny import ingest_tiny
from support.tiny_asker import save_tiny

from refactx.ask.answer import Answer
from refactx.errors import InputError
from refactx.eval.answers import Gold
from refactx.eval.logs import WHOLE, RunLog, Shard
from refactx.eval.question import Question, assign_keys
from refactx.eval.run import ask_all, count_missing, read_answers


@given(st.integers(0, 40), st.integers(1, 9))
def test_shards_have_each_question_once(count: int, shards: int) -> None:
    parts = [Shard(number, shards).of(range(count)) for number in range(1, shards + 1)]
    assert sorted(one for part in parts for one in part) == list(range(count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["0/2", "3/2", "2", "a/b", "1/0", "-1/2", "1/2/3", ""])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="give I/N, with I from 1 to N, such as 2/8"):
        Shard.parse(text)


def five() -> list[Question]:
    return assign_keys(
        [
            Question(id=f"q{i}", source="set", text=f"Question {i}?", answers=(Gold("Bern"),), kind="single")
            for i in range(5)
        ]
    )


class Asked(list[str]):
    """Answers questions, and lists them."""

    def __call__(self, questions: Sequence[str]) -> Iterator[Answer]:
        for question in questions:
            self.append(question)
            yield Answer(
                question=question, answer="Bern", text="Answer: Bern", facts=(), links=(), tokens=1, forward_passes=1,
                seconds=0.5,
            )  # fmt: skip


def test_the_logs_of_all_shards_are_the_run(tmp_path: Path) -> None:
    questions, first, second, rest = five(), Asked(), Asked(), Asked()
    for number, ask in ((1, first), (2, second)):
        shard = Shard(number, 3)
        ask_all(tmp_path, shard.of(questions), {"grounded": ask}, shard=shard)
    assert {*first} & {*second} == set()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.1-of-3.jsonl", "answers.2-of-3.jsonl"]
    with (tmp_path / "answers.2-of-3.jsonl").open("a") as file:
        file.write('{"key": "q4", "answer": {"ques')  # it is being written by another machine
    assert count_missing(tmp_path, questions, ("grounded",)) == 1
    with pytest.raises(InputError, match="lacks the answers to 1 questions"):
        read_answers(tmp_path, questions, "grounded")
    ask_all(tmp_path, questions, {"grounded": rest})
    assert [*first, *second, *rest] == [questions[n].text for n in (0, 3, 1, 4, 2)]
    assert [line["key"] for line in read_answers(tmp_path, questions, "grounded")] == [q.key for q in questions]


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
        told = list(pool.map(lambda shard: run("shared", "--shard", shard), ["1/2", "2/2"]))
    assert told[0].startswith(
        "shard 1/2: its 3 questions are done; once all shards are, the same command without --shard"
    )
    assert not (tmp_path / "shared" / "report.json").exists()
    run("shared")
    assert (tmp_path / "shared" / "answers.jsonl").read_text() == "", "no question was asked again"
    run("alone")
    shared, alone = (json.loads((tmp_path / name / "report.json").read_text()) for name in ("shared", "alone"))
    assert scores(shared) == scores(alone)


def test_the_command_refuses_what_is_no_shard(tmp_path: Path) -> None:
    done = run_refactx("eval", tmp_path / "none.jsonl", "--model", "demo", "--shard", "9/8")
    assert done.returncode == 2
    assert "shard 9/8 is none: give I/N, with I from 1 to N, such as 2/8" in " ".join(done.stderr.split())
    assert "none.jsonl" in complains("eval", tmp_path / "none.jsonl", "--model", "demo", "--shard", "8/8")
