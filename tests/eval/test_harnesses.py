"""An asker within lm-evaluation-harness and Inspect, where these are installed: their figures are ours."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.tiny_asker import ANSWER, tiny_asker

from refactx.ask.answer import Answer
from refactx.errors import InputError
from refactx.eval.harnesses import inspect_task, lm_eval_model, lm_eval_task

SAID = {"What is one?": "a, b", "What is two?": "c"}


class Scripted:
    """Answers from a table."""

    def ask(self, question: str) -> Answer:
        return replace(ANSWER, question=question, answer=SAID[question])


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    golds = {"What is one?": ["a", "d", "e"], "What is two?": ["x"]}
    lines = [{"id": str(n), "question": text, "answers": answers} for n, (text, answers) in enumerate(golds.items())]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_lm_eval_asks_and_scores(questions: Path) -> None:
    lm_eval = pytest.importorskip("lm_eval")
    found = lm_eval.simple_evaluate(lm_eval_model(Scripted()), tasks=[lm_eval_task(questions)], bootstrap_iters=0)
    results = found["results"]["refactx"]
    assert {key: results[f"{key},none"] for key in ("hit", "exact", "f1")} == pytest.approx(
        {"hit": 0.5, "exact": 0.0, "f1": 0.2}
    )


def test_lm_eval_has_no_likelihoods() -> None:
    pytest.importorskip("lm_eval")
    with pytest.raises(InputError, match="choose a task of generate_until"):
        lm_eval_model(tiny_asker()).loglikelihood([])


def test_inspect_asks_and_scores(questions: Path, tmp_path: Path) -> None:
    inspect_ai = pytest.importorskip("inspect_ai")
    task = inspect_task(Scripted(), questions)
    (log,) = inspect_ai.eval(task, model="mockllm/model", log_dir=str(tmp_path), display="none")
    assert log.status == "success"
    scores = {one.name: one.metrics["mean"].value for one in log.results.scores}
    assert scores == pytest.approx({"hit": 0.5, "exact": 0.0, "f1": 0.2})
    assert log.samples[0].metadata["facts"] == [fact.text for fact in ANSWER.facts]


@pytest.mark.parametrize("make", [lm_eval_task, lambda path: inspect_task(Scripted(), path)])
def test_questions_without_answers_are_refused(make: object, tmp_path: Path) -> None:
    pytest.importorskip("lm_eval")
    pytest.importorskip("inspect_ai")
    path = tmp_path / "q.jsonl"
    path.write_text('{"id": "1", "question": "Who?", "answers": [], "sparql": "ASK {}"}\n')
    with pytest.raises(InputError):
        make(path)  # type: ignore[operator]
