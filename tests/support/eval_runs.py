"""Results of questions with their facts, and reports on them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refactx.eval.answer_task import AnswerTask, QuestionResult, make_result, scored
from refactx.eval.answers import Gold
from refactx.eval.questions import Question
from refactx.eval.report import write_report
from refactx.eval.run import report_of, write_atomically

SETTINGS = {
    "questions": "q.jsonl", "model": "m<b>", "index": "i", "split": "all", "kinds": [], "limit": None, "num_beams": 1,
    "temperature": 0.0, "max_new_tokens": 100, "min_confidence": 0.0,
}  # fmt: skip
GOLD = Question(
    id="1",
    source="set",
    text="Q?",
    answers=(Gold("Bern"), Gold("Zug")),
    kind="single",
    answer_ids=("Q70",),
    sparql="SELECT ?x WHERE { wd:Q39 wdt:P36 ?x }",
    key="1",
)


def fact(subject: str, predicate: str, said: str, object_id: str | None = None) -> dict[str, Any]:
    object_ = {"label": said, "id": object_id, "url": None} if object_id else {"literal": said}
    part = {
        "subject": {"label": "S", "id": subject, "url": None},
        "predicate": {"label": "p", "id": predicate, "url": None},
    }
    return {"text": f"<S> <p> <{said}> .", **part, "object": object_, "inverse": False}


def judged(
    said: str, facts: list[dict[str, Any]], tokens: int = 10, grounded: bool = True, text: str | None = None
) -> QuestionResult:
    written = text if text is not None else f"So.\nAnswer: {said}"
    record = {
        "answer": {
            "answer": said,
            "text": written,
            "facts": facts,
            "tokens": tokens,
            "forward_passes": 5,
            "seconds": 1.0,
            "finish_reason": "length" if tokens == 100 else "stop",
        }
    }
    return make_result(GOLD, record, grounded=grounded, unknown="I don't know.")


def write_answers(folder: Path, runs: Mapping[str, Sequence[QuestionResult]]) -> dict[str, Any]:
    """Write the report on results by way of asking, and return it."""
    task = AnswerTask(questions=Path("q.jsonl"), model="m<b>")
    document = report_of(task, SETTINGS, scored(runs))
    write_atomically(folder / "report.json", document)
    write_report(folder, task.layout(document))
    return document
