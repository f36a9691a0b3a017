"""Evaluation: scores of a model's answers, queries and translations for questions with known answers.

| names | what they are |
|---|---|
| `evaluate` | a whole run as in `refactx eval`: ask, score, report |
| `AnswerTask`, `PolicyTask`, `PackTask` | what is evaluated: answers, queries that policies write, translations by a pack |
| `read_questions`, `choose_questions`, `Question`, `Gold` | published question sets, and which questions a run asks |
| `lm_eval_model`, `lm_eval_task`, `inspect_task` | an asker, and question sets, within other harnesses |
| `score`, `AnswerScore` | hit, exact match and F1 of one answer |
| `accuracy`, `precision`, `Estimate` | the paper's metrics of a run, with 95% intervals |
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.eval.answer_task import AnswerTask
    from refactx.eval.answers import AnswerScore, Gold, score
    from refactx.eval.harnesses import inspect_task, lm_eval_model, lm_eval_task
    from refactx.eval.pack_task import PackTask
    from refactx.eval.policy_task import PolicyTask
    from refactx.eval.questions import Question, choose_questions, read_questions
    from refactx.eval.run import Shard, Task, evaluate
    from refactx.eval.statistics import Estimate, accuracy, precision

__all__ = ["AnswerTask", "Estimate", "Gold", "PackTask", "PolicyTask", "Question", "Shard", "Task", "accuracy"]
__all__ += ["AnswerScore"]
__all__ += ["inspect_task", "lm_eval_model", "lm_eval_task"]
__all__ += ["choose_questions", "evaluate", "precision", "read_questions", "score"]
_MODULES = {
    "answer_task": "AnswerTask", "answers": "AnswerScore Gold score", "pack_task": "PackTask", "policy_task": "PolicyTask",
    "harnesses": "inspect_task lm_eval_model lm_eval_task",
    "questions": "Question choose_questions read_questions", "run": "Shard Task evaluate",
    "statistics": "Estimate accuracy precision",
}  # fmt: skip
__getattr__ = lazy_exports(__name__, _MODULES)
