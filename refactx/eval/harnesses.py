"""An asker within other harnesses: lm-evaluation-harness (the package lm-eval) and Inspect (inspect-ai).

Both are imported when they are needed, and are no packages of an extra: `pip install lm-eval inspect-ai`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refactx.errors import InputError
from refactx.eval.answers import Gold, score
from refactx.eval.questions import Question, read_questions

if TYPE_CHECKING:
    from refactx.ask.asker import Asker


def _need(package: str) -> None:
    if find_spec(package.replace("-", "_")) is None:
        raise InputError(f"the package {package} is not installed: pip install {package}")


def _figures(answer: str, golds: Sequence[str]) -> dict[str, float]:
    found = score(answer, [Gold(text) for text in golds])
    return {"hit": float(found.hit), "exact": float(found.exact), "f1": found.f1}


def _golds(question: Question) -> list[str]:
    return [gold.text for gold in question.answers if gold.text]


def _asked(path: Path | str, limit: int | None) -> list[Question]:
    asked = [one for one in read_questions(Path(path)) if _golds(one)][:limit]
    if not asked:
        raise InputError(f"{path} has no questions whose answers have texts: give others")
    return asked


def lm_eval_model(asker: "Asker") -> Any:
    """Return an asker as a model of lm-evaluation-harness, for tasks of free text (`generate_until`).

        lm_eval.simple_evaluate(lm_eval_model(asker), tasks=[lm_eval_task("questions.jsonl")])

    A task's whole prompt is the question, so ask without examples (`num_fewshot=0`). Tasks that compare likelihoods
    raise InputError. Raises InputError if lm-eval is not installed.
    """
    _need("lm-eval")
    from lm_eval.api.model import LM

    class AskerModel(LM):  # type: ignore[misc]  # it has no types
        def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
            return [asker.ask(request.args[0]).answer for request in requests]

        def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> Any:
            raise InputError(
                "an asker writes answers, and has no likelihoods of given ones: choose a task of generate_until"
            )

        loglikelihood_rolling = loglikelihood

    return AskerModel()


def lm_eval_task(path: Path | str, limit: int | None = None, name: str = "refactx") -> Any:
    """Return a file of questions (docs/how-to/evaluate.md) as a task of lm-evaluation-harness: hit, exact and F1.

    `limit`: the first questions alone. Raises InputError for a file that cannot be read, or if lm-eval is not installed.
    """
    _need("lm-eval")
    from datasets import Dataset
    from lm_eval.api.task import ConfigurableTask

    rows = [{"question": one.text, "answers": _golds(one)} for one in _asked(path, limit)]

    def results(document: Mapping[str, Any], found: Sequence[str]) -> dict[str, float]:
        return _figures(found[0], document["answers"])

    metrics = [{"metric": key, "aggregation": "mean", "higher_is_better": True} for key in _figures("", [])]
    return ConfigurableTask(
        config={
            "task": name,
            "custom_dataset": lambda **_: {"test": Dataset.from_list(rows)},
            "test_split": "test",
            "output_type": "generate_until",
            "doc_to_text": lambda document: document["question"],
            "doc_to_target": lambda document: "; ".join(document["answers"]),
            "process_results": results,
            "metric_list": metrics,
            "metadata": {"version": 1},
        }
    )


def inspect_task(asker: "Asker", path: Path | str, limit: int | None = None) -> Any:
    """Return a file of questions (docs/how-to/evaluate.md) as a task of Inspect: an asker answers, hit, exact and F1.

        inspect_ai.eval(inspect_task(asker, "questions.jsonl"), model="mockllm/model")

    Inspect's own model is not asked. `limit`: the first questions alone. Raises InputError for a file that cannot be read,
    or if inspect-ai is not installed.
    """
    _need("inspect-ai")
    from inspect_ai import Task
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import Score, mean, scorer, stderr
    from inspect_ai.solver import solver

    @solver(name="refactx")  # type: ignore[untyped-decorator]
    def facts() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            answer = await asyncio.to_thread(asker.ask, state.input_text)
            state.output.completion = answer.answer
            state.metadata["facts"] = [fact.text for fact in answer.facts]
            return state

        return solve

    @scorer(metrics={key: [mean(), stderr()] for key in _figures("", [])}, name="refactx")  # type: ignore[untyped-decorator]
    def figures() -> Any:
        async def scored(state: Any, target: Any) -> Any:
            return Score(value=_figures(state.output.completion, list(target)), answer=state.output.completion)

        return scored

    samples = [Sample(id=one.key or one.id, input=one.text, target=_golds(one)) for one in _asked(path, limit)]
    return Task(dataset=samples, solver=facts(), scorer=figures())
