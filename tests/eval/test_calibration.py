"""`refactx calibrate` as a user types it: the threshold of a run, and the errors of folders without one."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.command import complains, run_refactx
from support.eval_runs import write_answers

from refactx.errors import InputError
from refactx.eval.answer_task import make_result
from refactx.eval.answers import Gold
from refactx.eval.calibration import calibrate
from refactx.eval.questions import Question
from refactx.eval.run import RunLog
from refactx.selection.weights import Weights, load_weights

ANSWERS = [(9.0, "Bern"), (8.0, "Bern"), (7.0, "Basel"), (6.0, "Bern"), (3.0, "Basel"), (3.0, "Basel")] + [
    (2.0, "Bern"),
    (1.0, "Basel"),
]
"""Confidences and answers: the most right minus wrong ones are the first four."""


def record(confidence: float | None, said: str, queries: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    answer = {
        "answer": said, "text": f"Answer: {said}", "facts": [], "queries": queries or [], "confidence": confidence, "tokens": 3,
        "forward_passes": 3, "seconds": 1.0, "finish_reason": "stop",
    }  # fmt: skip
    return {"answer": answer}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run, one answer of which was not given."""
    results = []
    with RunLog(tmp_path, "grounded") as log:
        for number, (confidence, said) in enumerate([*ANSWERS, (0.0, "I don't know.")]):
            key = f"q{number}"
            question = Question(id=key, key=key, source="s", text="Q?", answers=(Gold("Bern"),))
            log.add(key, record(confidence, said))
            results.append(make_result(question, record(confidence, said), grounded=True, unknown="I don't know."))
    write_answers(tmp_path, {"grounded": results})
    return tmp_path


def test_the_threshold_with_most_right_answers_minus_wrong_ones(run: Path) -> None:
    found = calibrate(run)
    assert (found.min_confidence, found.point.right, found.point.wrong, found.point.of) == (4.0, 3, 1, 9)
    assert found.precision.value == 0.75
    precise = calibrate(run, 0.9)
    assert (precise.min_confidence, precise.point.right, precise.point.wrong) == (8.0, 2, 0)
    with pytest.raises(InputError, match="no report"):
        calibrate(run / "none")


def test_the_report_has_the_same_figures(run: Path) -> None:
    report = json.loads((run / "report.json").read_text())
    confidence = report["runs"]["grounded"]["confidence"]
    assert confidence["of"] == 8
    at = {row["threshold"]: row for row in confidence["table"]}
    assert (at[None]["answered"], at[None]["precision"]) == (round(8 / 9, 4), 0.5)
    assert (at[4]["answered"], at[4]["accuracy"], at[4]["precision"]) == (0.4444, 0.3333, 0.75)
    assert at[4]["refusal_accuracy"] == 0.7778, "three right, and four of the five others would be wrong"
    assert report["runs"]["grounded"]["overall"]["auc"]["value"] == 0.75, "12 of 16 pairs"
    assert report["runs"]["grounded"]["overall"]["with_query"] is None
    assert "| 4 | 0.44 | 0.33 | 0.75 | 0.78 |" in (run / "report.md").read_text()
    assert "at least</th>" in (run / "report.html").read_text()


@pytest.mark.parametrize("said", [["Basel", "Basel"], ["Bern", "Basel", "Basel"]])
def test_nothing_is_recommended_where_no_threshold_has_more_right_than_wrong_answers(
    tmp_path: Path, said: list[str]
) -> None:
    results = []
    with RunLog(tmp_path, "grounded") as log:
        for number, answer in enumerate(said):
            question = Question(id=f"q{number}", key=f"q{number}", source="s", text="Q?", answers=(Gold("Bern"),))
            log.add(question.key, record(float(number), answer))
            results.append(make_result(question, record(float(number), answer), grounded=True, unknown="I don't know."))
    write_answers(tmp_path, {"grounded": results})
    with pytest.raises(InputError, match=f"{said.count('Bern')} of {len(said)} answers are right"):
        calibrate(tmp_path)


@pytest.mark.long
def test_the_command(run: Path) -> None:
    done = run_refactx("calibrate", "--run", run)
    assert done.returncode == 0, done.stderr
    assert "3 right and 1 wrong answers, precision 0.75" in done.stdout
    assert "`refactx ask --min-confidence 4`" in done.stdout
    assert "figures from 9 questions are not reliable: give at least 100" in done.stderr
    assert (
        json.loads(run_refactx("calibrate", "--run", run, "--precision", 0.9, "--json").stdout)["min_confidence"] == 8.0
    )
    made, given = run / "w.toml", run / "given.toml"
    given.write_text("tie_gap = 2.5\n")
    assert str(made) in run_refactx("calibrate", "--run", run, "--weights", given, "--save", made).stdout
    assert load_weights(made) == Weights(tie_gap=2.5, min_confidence=4.0)
    assert "give either a file of questions or --run" in complains("calibrate")
    assert "give --model" in complains("calibrate", run / "q.jsonl")
    assert "at no threshold the precision is at least" not in done.stdout


def test_answers_without_confidence_are_reported(tmp_path: Path) -> None:
    (tmp_path / "grounded.jsonl").write_text(json.dumps({"key": "q", **record(None, "Bern")}) + "\n")
    line = {"run": "grounded", "key": "q", "outcome": "given", "hit": True}
    (tmp_path / "report.json").write_text(json.dumps({"task": "answers", "settings": {}, "results": [line]}))
    with pytest.raises(InputError, match=r"no answer .* has a confidence"):
        calibrate(tmp_path)
    for document, error in (
        ("{}", "is no report on answers of this release"),
        ('{"task": "answers"}', "is no report"),
        ("[", "cannot"),
    ):
        (tmp_path / "report.json").write_text(document)
        with pytest.raises(InputError, match=error):
            calibrate(tmp_path)


def query(rows: list[dict[str, Any]], confidence: float = 5.0) -> dict[str, Any]:
    fact = {
        "subject": {"label": "S", "id": "Q39"},
        "predicate": {"label": "p", "id": "P36"},
        "object": rows[0],
        "inverse": False,
    }
    return {"query": "list <S> <p>", "rows": rows, "facts": [fact], "confidence": confidence}


def test_the_items_of_a_querys_answer_are_its_rows() -> None:
    golds = (Gold("Trinidad and Tobago"), Gold("Bern"))
    question = Question(id="q", source="s", text="Q?", answers=golds, first="Bern")
    rows = [{"label": "Trinidad and Tobago (state)", "id": "Q1"}, {"label": "Bern (city)", "id": "Q70"}]
    said = "at least Trinidad and Tobago; Bern"
    result = make_result(question, record(None, said, [query(rows)]), grounded=True, unknown="I don't know.")
    assert (result.score.exact, result.score.f1, result.confidence, result.holds_first) == (True, 1.0, 5.0, True)
    other = make_result(question, record(7.0, "Trinidad and Tobago", [query(rows[:1])]), grounded=True, unknown="")
    assert (other.score.hit, other.confidence, other.holds_first) == (True, 7.0, False)
    wrong = make_result(
        question, record(7.0, "Basel", [query([{"label": "Basel", "id": "Q9"}])]), grounded=True, unknown=""
    )
    assert wrong.reason == "wrong answer"


def test_a_query_without_facts_as_proof_is_a_reason() -> None:
    question = Question(id="q", source="s", text="Q?", answers=(Gold("yes"),))
    answered = {"query": "ask <S> <p> <o>", "rows": [], "facts": [], "confidence": 5.0}
    result = make_result(question, record(5.0, "no", [answered]), grounded=True, unknown="")
    assert (result.reason, result.queries[0]["query"]) == ("wrong query", "ask <S> <p> <o>")
