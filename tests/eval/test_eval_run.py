"""A run that is stopped and continued; reasons why answers fail; the whole command."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.command import run_refactx
from support.eval_runs import GOLD, fact, judged
from support.ingest.tiny import ingest_tiny
from support.tiny_asker import save_tiny

from refactx.ask.answer import Answer
from refactx.ask.prompt import Generation
from refactx.errors import InputError
from refactx.eval.answers import Gold
from refactx.eval.evaluation import EvaluationOptions, evaluate
from refactx.eval.logs import AnswerLog
from refactx.eval.question import Question, assign_keys
from refactx.eval.questions import choose_questions
from refactx.eval.results import make_result
from refactx.eval.run import Ask, ask_all, count_missing, open_run, read_answers


def questions(n: int) -> list[Question]:
    return assign_keys(
        [
            Question(id=f"q{i}", source="set", text=f"Question {i}?", answers=(Gold("Bern"),), kind="single")
            for i in range(n)
        ]
    )


def answer(question: str, said: str = "Bern") -> Answer:
    return Answer(
        question=question,
        answer=said,
        text=f"So.\nAnswer: {said}",
        facts=(),
        links=(),
        tokens=10,
        forward_passes=10,
        seconds=0.5,
    )


def one_by_one(ask: Callable[[str], Answer]) -> Ask:
    """As `Asker.ask_all`: a question that cannot be asked has its error in place of an answer."""

    def answers(questions: Sequence[str]) -> Iterator[Answer | InputError]:
        for question in questions:
            try:
                yield ask(question)
            except InputError as error:
                yield error

    return answers


def test_a_run_that_was_stopped_between_questions_continues(tmp_path: Path) -> None:
    asked: list[str] = []

    def ask(question: str) -> Answer:
        if len(asked) == 3:
            raise KeyboardInterrupt
        asked.append(question)
        return answer(question)

    five = questions(5)
    with pytest.raises(KeyboardInterrupt):
        ask_all(tmp_path, five, {"grounded": one_by_one(ask), "free": one_by_one(ask)})
    assert asked == ["Question 0?", "Question 0?", "Question 1?"], "both ways, one after the other"
    assert count_missing(tmp_path, five, ("grounded", "free")) == 7
    with (tmp_path / "answers.jsonl").open("a") as file:
        file.write('{"key": "q2", "answer": {"ques')  # killed within a line
    again: list[str] = []
    for way in ("grounded", "free"):
        ask_all(tmp_path, five, {way: one_by_one(lambda question: again.append(question) or answer(question))})
    assert again == [f"Question {i}?" for i in (2, 3, 4, 1, 2, 3, 4)]
    assert [record["answer"]["answer"] for record in read_answers(tmp_path, five, "grounded")] == ["Bern"] * 5
    assert len((tmp_path / "answers.jsonl").read_text().splitlines()) == 5


def test_a_question_that_cannot_be_asked_is_recorded_and_the_run_continues(tmp_path: Path) -> None:
    def ask(question: str) -> Answer:
        if question == "Question 0?":
            raise InputError("too long")
        return answer(question)

    ask_all(tmp_path, questions(2), {"grounded": one_by_one(ask)})
    assert [record.get("error") for record in read_answers(tmp_path, questions(2), "grounded")] == ["too long", None]


def test_text_with_line_ends_of_all_kinds_is_one_line(tmp_path: Path) -> None:
    with AnswerLog(tmp_path / "a.jsonl") as log:
        log.add("k", {"text": "a\nb\u2028c\x85d"})
    with AnswerLog(tmp_path / "a.jsonl") as log:
        assert log.records["k"]["text"] == "a\nb\u2028c\x85d"


def test_a_file_of_answers_has_one_writer_and_whole_lines(tmp_path: Path) -> None:
    with AnswerLog(tmp_path / "a.jsonl"), pytest.raises(InputError, match="being written by another run"):
        AnswerLog(tmp_path / "a.jsonl")
    (tmp_path / "a.jsonl").write_text('{"key": "a"}\nnonsense\n{"key": "b"}\n')
    with pytest.raises(InputError, match="line 2 is not a record"):
        AnswerLog(tmp_path / "a.jsonl")
    with pytest.raises(InputError, match="cannot write"):
        AnswerLog(tmp_path / "none" / "a.jsonl")


def test_other_options_than_those_recorded_are_refused(tmp_path: Path) -> None:
    open_run(tmp_path / "run", {"model": "a", "limit": 2})
    open_run(tmp_path / "run", {"model": "a", "limit": 2})
    with pytest.raises(InputError, match="limit 2, now 3"):
        open_run(tmp_path / "run", {"model": "a", "limit": 3})
    with pytest.raises(
        InputError, match=r"limit 2, now None; max_facts None, now 12.*give the same options.*another --out"
    ):
        open_run(tmp_path / "run", {"model": "a", "max_facts": 12})
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "answers.jsonl").touch()
    with pytest.raises(InputError, match=r"answers.jsonl but no run.json"):
        open_run(tmp_path / "old", {})
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot use the folder"):
        open_run(tmp_path / "file", {})


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


def test_the_whole_command(db_url: str, tmp_path: Path) -> None:
    tiny_folder = save_tiny(tmp_path / "tiny")
    facts, file, out = tmp_path / "facts.txt", tmp_path / "q.jsonl", tmp_path / "out"
    facts.write_text("".join(f"{text} .\n" for text in TINY_FACTS))
    made = [{"id": f"q{i}", "question": "Fact:", "answers": ["b"], "kind": "single"} for i in range(3)]
    file.write_text("".join(json.dumps(record) + "\n" for record in made))
    ingest_tiny(db_url, facts)
    options = EvaluationOptions(
        questions=file,
        model=str(tiny_folder),
        db=db_url,
        free=True,
        generation=Generation(max_new_tokens=20),
        limit=2,
        out=out,
    )
    document = evaluate(options)
    assert document["questions"] == 2
    assert document["runs"]["grounded"]["overall"]["facts"]["value"] > 0
    assert document["runs"]["free"]["overall"]["tokens"]["value"] == 20
    lines = (out / "answers.jsonl").read_text()
    assert [json.loads(line)["key"] for line in lines.splitlines()] == [
        q.key for q in choose_questions(assign_keys(questions(3)), limit=2)
    ]
    again = run_refactx(
        "eval", file, "--model", tiny_folder, "--db", "postgresql://nobody@127.0.0.1:1/none", "--free",
        "--max-new-tokens", 20, "--limit", 2, "--out", out, "--json",
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == json.loads((out / "report.json").read_text()), (
        "all is there: no database, no model"
    )
    assert (out / "answers.jsonl").read_text() == lines
    with pytest.raises(InputError, match="limit 2, now 3"):
        evaluate(replace(options, limit=3))
