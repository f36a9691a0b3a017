"""The paper's generation-time experiment: the time of tokens with constraints over that of free ones.

N tokens are generated with constraints throughout, and N freely. Throughout means that the trigger is forced after each
fact, so that the next fact begins at once. Both runs have the same prompt, greedy decoding, no end of sequence, and a
short warm-up. `GroundedModel.generate` is compared with the model's own `generate`; a stopping criterion that never
stops is the clock.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from refactx.ask.grounded import ground
from refactx.decoding.states import FactSource
from refactx.errors import InputError
from refactx.eval.answer_task import LABELS
from refactx.eval.plots import curves, standalone
from refactx.eval.run import write_atomically

PROMPT = "Here are facts, one a line."
_FACT_END = re.compile(r"> \.\s*$")
_TAIL = 8
"""How many tokens at the end of a text are decoded: no terminator with the bracket before it is longer."""

_WARM_UP = 16
WINDOW = 10
"""The tokens of the moving average, as in the paper."""


class TriggerForcer(LogitsProcessor):
    """Forces a line end and the trigger after each fact, id by id; a function of the ids alone."""

    def __init__(self, tokenizer: Any, trigger: str) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = tokenizer.encode(f"\n{trigger}", add_special_tokens=False)

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Return `scores`, [rows, vocabulary], with -inf for all but the forced id in the rows that have one."""
        for row, ids in enumerate(input_ids.tolist()):
            forced = self.forced(ids)
            if forced is not None:
                score = scores[row, forced].clone()
                scores[row] = -torch.inf
                scores[row, forced] = torch.where(torch.isneginf(score), torch.zeros_like(score), score)
        return scores

    def forced(self, ids: Sequence[int]) -> int | None:
        """Return the id that must come next, or None."""
        for written in range(len(self._ids), -1, -1):  # the longest first: `> .` and a line end ends a fact too
            before, after = ids[: len(ids) - written], ids[len(ids) - written :]
            if list(after) == self._ids[:written] and self._ends_fact(before[-_TAIL:]):
                return self._ids[written] if written < len(self._ids) else None
        return None

    def _ends_fact(self, ids: Sequence[int]) -> bool:
        text = self._tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)
        return _FACT_END.search(text) is not None  # a part of a fact has no `>`


class StepClock(StoppingCriteria):
    """Records (ids in a row, time) at each step, and never stops."""

    def __init__(self) -> None:
        self.times: list[tuple[int, float]] = []

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **_: Any) -> torch.BoolTensor:
        """Record the time. Return False for each row."""
        self.times.append((int(input_ids.shape[1]), time.perf_counter()))
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedRun:
    """One run: `points` are (tokens, seconds since its start) at each token, `facts` the number of complete facts."""

    tokens: int
    seconds: float
    forward_passes: int
    facts: int
    points: tuple[tuple[int, float], ...]

    @property
    def averages(self) -> list[tuple[int, float]]:
        """The seconds a token, as the mean over the last `WINDOW` steps, each of which writes at least one."""
        return [
            (tokens, (at - before) / (tokens - first))
            for (first, before), (tokens, at) in zip(self.points, self.points[WINDOW:], strict=False)
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the rounded figures, with tokens a second."""
        return {
            "tokens": self.tokens,
            "seconds": round(self.seconds, 3),
            "tokens_per_second": round(self.tokens / self.seconds, 2),
            "forward_passes": self.forward_passes,
            "facts": self.facts,
            "points": [[tokens, round(seconds, 3)] for tokens, seconds in self.points],
        }


def measure_speed(model: Any, tokenizer: Any, index: FactSource, tokens: int) -> dict[str, TimedRun]:
    """Measure both runs, `grounded` and `free`. Raise InputError if the model's positions are too few for N tokens."""
    grounded = ground(model, tokenizer, index)
    inputs = tokenizer(f"{PROMPT}\n{index.trigger}", return_tensors="pt").to(model.device)
    length = int(inputs["input_ids"].shape[1])
    room = getattr(model.config, "max_position_embeddings", None)
    if room is not None and length + tokens > room:
        raise InputError(
            f"the model takes {room} tokens and the prompt has {length}: give --tokens {room - length} or fewer"
        )
    timed = {}
    for way, writer in (("grounded", grounded), ("free", model)):
        processors: list[LogitsProcessor] = [TriggerForcer(tokenizer, index.trigger)] if way == "grounded" else []
        _generate(writer, inputs, processors, min(tokens, _WARM_UP), StepClock())
        clock, passes = StepClock(), _Passes()
        hook = model.register_forward_pre_hook(passes)
        started = time.perf_counter()
        try:
            out = _generate(writer, inputs, processors, tokens, clock)
        finally:
            hook.remove()
        seconds = time.perf_counter() - started
        facts = len(grounded.facts(out, length)[0]) if way == "grounded" else 0
        timed[way] = TimedRun(
            tokens=int(out.shape[1]) - length,
            seconds=seconds,
            forward_passes=passes.count,
            facts=facts,
            points=tuple((ids - length, at - started) for ids, at in clock.times),
        )
    return timed


class _Passes:
    """A hook that counts forward passes."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, *_: Any) -> None:
        self.count += 1


def _generate(writer: Any, inputs: Any, processors: list[LogitsProcessor], tokens: int, clock: StepClock) -> Any:
    return writer.generate(
        **inputs,
        do_sample=False,
        min_new_tokens=tokens,
        max_new_tokens=tokens,
        logits_processor=LogitsProcessorList(processors),
        stopping_criteria=StoppingCriteriaList([clock]),
    )


def write_speed(folder: Path, settings: dict[str, Any], timed: dict[str, TimedRun]) -> dict[str, Any]:
    """Write speed.json, speed.md and the plot speed.svg into `folder`, and return the JSON document.

    The folder is made if it is missing. `ratio`: seconds a constrained token over seconds a free one; the paper's is
    1.012.
    """
    ratio = (timed["grounded"].seconds / timed["grounded"].tokens) / (timed["free"].seconds / timed["free"].tokens)
    document = {**settings, "ratio": round(ratio, 4), "runs": {way: run.to_json() for way, run in timed.items()}}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "speed.json", document)
        averages = {LABELS[way]: run.averages for way, run in timed.items()}
        plot = curves(averages, "speed", ("tokens written", f"seconds a token, mean of {WINDOW}"), of_shares=False)
        (folder / "speed.svg").write_text(standalone(plot), encoding="utf-8")
        (folder / "speed.md").write_text("\n".join(_markdown(document)) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write to {folder} ({error.strerror}): give another --out") from error
    return document


def _markdown(document: dict[str, Any]) -> list[str]:
    lines = ["| | tokens | seconds | tokens a second | forward passes | facts |", "|---|---|---|---|---|---|"]
    for way, run in document["runs"].items():
        cells = [run["tokens"], run["seconds"], run["tokens_per_second"], run["forward_passes"], run["facts"]]
        lines.append(f"| {LABELS[way]} | {' | '.join(map(str, cells))} |")
    return [
        *lines,
        "",
        f"A token with facts takes {document['ratio']} times the time of a free one.",
        "",
        "![](speed.svg)",
    ]
