"""Results of questions with their facts, for tests of the report."""

from typing import Any

from refactx.eval.answers import Gold
from refactx.eval.question import Question
from refactx.eval.results import QuestionResult, make_result

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
