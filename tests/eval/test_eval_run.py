"""A run that is stopped and continued; reasons why answers fail; the whole command."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.command import run_refactx
from support.eval_runs import GOLD, fact, judged
from support.eval_task import Letters
from support.ingest.tiny import ingest_tiny
from support.tiny_asker import save_tiny

from refactx.ask.answer import Answer
from refactx.ask.prompt import Generation
from refactx.errors import InputError
from refactx.eval import AnswerTask, evaluate
from refactx.eval.answer_task import make_result
from refactx.eval.answers import Gold
from refactx.eval.questions import Question, assign_keys, choose_questions, read_questions
from refactx.eval.report import lines
from refactx.eval.run import RunLog, look_up, open_run


def test_a_run_that_was_stopped_between_questions_continues(tmp_path: Path) -> None:
    counted: list[str] = []

    def count(word: str) -> int:
        if len(counted) == 3:
            raise KeyboardInterrupt
        counted.append(word)
        return len(word)

    with pytest.raises(KeyboardInterrupt):
        evaluate(Letters(folder_=tmp_path, count=count))
    assert counted == ["a", "a", "bc"], "both ways, one after the other"
    with (tmp_path / "once.jsonl").open("a") as file:
        file.write('{"key": "def", "letters": {"ques')  # killed within a line
    again: list[str] = []
    task = Letters(folder_=tmp_path, count=lambda word: again.append(word) or len(word))  # type: ignore[func-returns-value]
    report = evaluate(task)
    assert again == ["bc", "def", "def", "ghij", "ghij", "klmno", "klmno"]
    assert [line["letters"] for line in report["results"]] == [1, 2, 3, 4, 5] * 2
    assert len((tmp_path / "once.jsonl").read_text().splitlines()) == 5
    assert evaluate(task) == report
    assert len(again) == 7, "a finished run asks nothing"
    assert "| Letters | 3.00 (" in (tmp_path / "report.md").read_text()
    assert "odd" in "\n".join(lines(task.layout(report)))


def test_a_question_that_cannot_be_asked_is_recorded_and_the_run_continues(tmp_path: Path) -> None:
    def answers(questions: Sequence[str]) -> Iterator[Answer | InputError]:
        for question in questions:
            yield InputError("too long") if question == "Q0?" else Answer(
                question=question, answer="Bern", text="Answer: Bern", facts=(), links=(), tokens=1, forward_passes=1,
                seconds=0.5,
            )  # fmt: skip

    two = assign_keys([Question(id=f"q{i}", source="s", text=f"Q{i}?", answers=(Gold("Bern"),)) for i in range(2)])
    task = AnswerTask(questions=tmp_path, model="m", free=True, asks={"grounded": answers, "free": answers})
    records = list(task.ask([(two[0], ["grounded", "free"]), (two[1], ["free"])], {}))
    assert [(way, key) for way, key, _ in records] == [("grounded", "q0"), ("free", "q0"), ("free", "q1")]
    assert [record.get("error") for _, _, record in records] == ["too long", "too long", None]


def test_text_with_line_ends_of_all_kinds_is_one_line(tmp_path: Path) -> None:
    with RunLog(tmp_path, "a") as log:
        log.add("k", {"text": "a\nb\u2028c\x85d"})
    with RunLog(tmp_path, "a") as log:
        assert log.records["k"]["text"] == "a\nb\u2028c\x85d"


def test_a_log_has_one_writer_and_whole_lines(tmp_path: Path) -> None:
    with RunLog(tmp_path, "a"), pytest.raises(InputError, match="being written by another run"):
        RunLog(tmp_path, "a")
    (tmp_path / "a.jsonl").write_text('{"key": "a"}\nnonsense\n{"key": "b"}\n')
    with pytest.raises(InputError, match="line 2 is not a record"):
        RunLog(tmp_path, "a")
    with pytest.raises(InputError, match="cannot write"):
        RunLog(tmp_path / "none", "a")


def test_other_options_than_those_recorded_are_refused(tmp_path: Path) -> None:
    settings = {"task": "answers", "model": "a", "limit": 2}
    open_run(tmp_path / "run", settings, ["free"])
    open_run(tmp_path / "run", settings, ["free"])
    with pytest.raises(InputError, match="limit 2, now 3"):
        open_run(tmp_path / "run", settings | {"limit": 3}, ["free"])
    with pytest.raises(
        InputError, match=r"limit 2, now None; max_facts None, now 12.*give the same options.*another --out"
    ):
        open_run(tmp_path / "run", {"task": "answers", "model": "a", "max_facts": 12}, ["free"])
    with pytest.raises(InputError, match="task 'answers', now 'queries'"):
        open_run(tmp_path / "run", settings | {"task": "queries"}, ["free"])
    (tmp_path / "run" / "run.json").write_text('{"model": "a", "limit": 2}')
    with pytest.raises(InputError, match="a run of an earlier release of refactx"):
        open_run(tmp_path / "run", settings, ["free"])
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "free.jsonl").touch()
    with pytest.raises(InputError, match=r"free.jsonl but no run.json"):
        open_run(tmp_path / "old", {}, ["free"])
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot use the folder"):
        open_run(tmp_path / "file", {}, ["free"])


def test_the_folder_of_a_run_keeps_what_was_looked_up(tmp_path: Path) -> None:
    looked: list[list[str]] = []

    def find(texts: list[str]) -> dict[str, tuple[str, ...]]:
        looked.append(texts)
        return {text: (f"whose {text}",) for text in texts if text != "c"}

    def names(*texts: str) -> dict[str, tuple[str, ...]]:
        return look_up(tmp_path / "names.json", texts, find, tuple)

    assert names("a", "b") == {"a": ("whose a",), "b": ("whose b",)}
    assert names("b", "c") == {"b": ("whose b",), "c": ()}
    assert names("a", "c").keys() == {"a", "c"}
    assert looked == [["a", "b"], ["c"]]
    assert look_up(tmp_path / "none.json", (), find, tuple) == {}
    for content in ("[", "[1]", '{"a": 1}'):
        (tmp_path / "names.json").write_text(content)
        with pytest.raises(InputError, match=r"names\.json cannot be read .*: delete it"):
            names("a")


@pytest.mark.parametrize(
    ("said", "facts", "reason"),
    [
        ("Bern and Zug", [], None),
        ("Bern", [], "list incomplete"),
        ("Bern, Zug, Basel", [], "more than asked"),
        ("It is Bern", [], "more than asked"),
        ("I don't know.", [fact("Q39", "P36", "Bern")], "I don't know"),
        ("", [], "no final answer"),
        ("Basel", [], "no fact"),
        ("Basel", [fact("Q39", "P36", "Bern")], "fact not used"),
        ("Basel", [fact("Q39", "P36", "Berna", "Q70")], "fact not used"),
        ("Basel", [fact("Q40", "P36", "Wien")], "wrong subject"),
        ("Basel", [fact("Q40", "P36", "Wien"), fact("Q39", "P6", "x")], "wrong predicate"),
        ("Basel", [fact("Q39", "P36", "Basel")], "wrong object"),
    ],
)
def test_the_reason_why_an_answer_fails(said: str, facts: list[dict[str, Any]], reason: str | None) -> None:
    assert judged(said, facts).reason == reason


def test_a_text_that_is_cut_off_has_no_given_answer_unless_that_was_complete() -> None:
    cut = judged("Bern", [], tokens=100)
    assert (cut.outcome, cut.reason, cut.score.hit) == ("cut off", "cut off", False)
    assert judged("", [], tokens=100).outcome == "cut off"
    whole = judged("Bern", [], tokens=100, text="Answer: Bern\nAnd I go on and on")
    assert (whole.outcome, whole.score.hit) == ("given", True)
    assert judged("Basel", [], grounded=False).reason == "wrong answer"


def test_a_question_that_was_not_asked_counts_as_wrong() -> None:
    failed = make_result(GOLD, {"error": "too long"}, grounded=True, unknown="")
    assert (failed.outcome, failed.reason, failed.given) == ("failed", "not asked", False)


TINY_FACTS = ["<Ann> <p> <b>", "<Ann> <p> <c>", "<Bé> <p> <in>"]


@pytest.mark.long
def test_the_whole_command(db_url: str, tmp_path: Path) -> None:
    tiny_folder = save_tiny(tmp_path / "tiny")
    facts, file, out = tmp_path / "facts.txt", tmp_path / "q.jsonl", tmp_path / "out"
    facts.write_text("".join(f"{text} .\n" for text in TINY_FACTS))
    made = [{"id": f"q{i}", "question": "Fact:", "answers": ["b"], "kind": "single"} for i in range(3)]
    file.write_text("".join(json.dumps(record) + "\n" for record in made))
    ingest_tiny(db_url, facts)
    task = AnswerTask(
        questions=file,
        model=str(tiny_folder),
        db=db_url,
        free=True,
        generation=Generation(max_new_tokens=20),
        limit=2,
        out=out,
        prompt=None,
    )
    document = evaluate(task)
    assert document["questions"] == 2
    assert document["runs"]["grounded"]["overall"]["facts"]["value"] > 0
    assert document["runs"]["free"]["overall"]["tokens"]["value"] == 20
    answers = (out / "grounded.jsonl").read_text()
    assert [json.loads(line)["key"] for line in answers.splitlines()] == [
        q.key for q in choose_questions(read_questions(file), limit=2)
    ]
    again = run_refactx(
        "eval", file, "--model", tiny_folder, "--db", "postgresql://nobody@127.0.0.1:1/none", "--free",
        "--max-new-tokens", 20, "--limit", 2, "--out", out, "--json",
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == json.loads((out / "report.json").read_text()), (
        "all is there: no database, no model"
    )
    assert (out / "grounded.jsonl").read_text() == answers
    with pytest.raises(InputError, match="limit 2, now 3"):
        evaluate(replace(task, limit=3))
