"""Evaluation: scores of a model's answers to questions with known answers.

| names | what they are |
|---|---|
| `evaluate`, `EvaluationOptions` | a whole run as in `refactx eval`: ask, judge, report |
| `read_questions`, `choose_questions`, `Question`, `Gold` | published question sets, and which questions a run asks |
| `score`, `Score` | hit, exact match and F1 of one answer |
| `accuracy`, `precision`, `Estimate` | the paper's metrics of a run, with 95% intervals |
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.eval.answers import Gold
    from refactx.eval.evaluation import EvaluationOptions, evaluate
    from refactx.eval.intervals import Estimate
    from refactx.eval.metrics import Score, accuracy, precision, score
    from refactx.eval.question import Question
    from refactx.eval.questions import choose_questions, read_questions

# fmt: off
__all__ = ["Estimate", "EvaluationOptions", "Gold", "Question", "Score", "accuracy", "choose_questions",
           "evaluate", "precision", "read_questions", "score"]
# fmt: on
__getattr__ = lazy_exports(
    __name__,
    {
        "answers": "Gold",
        "evaluation": "EvaluationOptions evaluate",
        "intervals": "Estimate",
        "metrics": "Score accuracy precision score",
        "question": "Question",
        "questions": "choose_questions read_questions",
    },
)
