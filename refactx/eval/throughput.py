"""The paper's generation-time experiment: so many tokens, constrained all the way, against as many written freely.

Constrained all the way: behind each fact the trigger is forced, so that the next fact begins at once. Both runs have
the same prompt, greedy decoding and no end of sequence; a short run before each warms it up. What is measured is
`GroundedModel.generate` and the model's own `generate`, with a clock as a stopping criterion that never stops.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from refactx.decoding.machine import FactSource
from refactx.errors import InputError
from refactx.eval.log import write_whole
from refactx.eval.plots import LABELS, standalone, throughput_plot
from refactx.grounded.model import ground

PROMPT = "Here are facts, one a line."
_FACT_END = re.compile(r"> \.\s*$")
_TAIL = 8
"""No terminator with the bracket before it is longer in tokens."""

_WARM_UP = 16
_POINTS = 200


class TriggerForcer(LogitsProcessor):
    """Behind each fact, forces the ids of a line end and the trigger, one by one; a function of the ids alone."""

    def __init__(self, tokenizer: Any, trigger: str) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = tokenizer.encode(f"\n{trigger}", add_special_tokens=False)

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Scores, [rows, vocabulary], with all but the forced id at minus infinity in the rows that have one."""
        for row, ids in enumerate(input_ids.tolist()):
            forced = self.forced(ids)
            if forced is not None:
                kept = scores[row, forced].clone()
                scores[row] = -torch.inf
                scores[row, forced] = torch.where(torch.isneginf(kept), torch.zeros_like(kept), kept)
        return scores

    def forced(self, ids: Sequence[int]) -> int | None:
        """The id that must come next; None where none is forced."""
        for written in range(len(self._ids), -1, -1):  # the longest first: `> .` and a line end ends a fact too
            before, behind = ids[: len(ids) - written], ids[len(ids) - written :]
            if list(behind) == self._ids[:written] and self._ends_fact(before[-_TAIL:]):
                return self._ids[written] if written < len(self._ids) else None
        return None

    def _ends_fact(self, ids: Sequence[int]) -> bool:
        text = self._tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)
        return _FACT_END.search(text) is not None  # a part of a fact has no `>`


class Clock(StoppingCriteria):
    """Never stops; notes at how many ids of a row what time it was."""

    def __init__(self) -> None:
        self.times: list[tuple[int, float]] = []

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **_: Any) -> torch.BoolTensor:
        """False for each row."""
        self.times.append((int(input_ids.shape[1]), time.perf_counter()))
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Timed:
    """One run: `points` are (tokens, seconds since its start), `facts` how many facts were completed."""

    tokens: int
    seconds: float
    forward_passes: int
    facts: int
    points: tuple[tuple[int, float], ...]

    def to_json(self) -> dict[str, Any]:
        """Rounded, with the rate."""
        return {
            "tokens": self.tokens,
            "seconds": round(self.seconds, 3),
            "tokens_per_second": round(self.tokens / self.seconds, 2),
            "forward_passes": self.forward_passes,
            "facts": self.facts,
            "points": [[tokens, round(seconds, 3)] for tokens, seconds in self.points],
        }


def throughput(model: Any, tokenizer: Any, index: FactSource, tokens: int) -> dict[str, Timed]:
    """Both runs, by way: `grounded` and `free`. Raises InputError where the model has no room for so many tokens."""
    grounded = ground(model, tokenizer, index)
    inputs = tokenizer(f"{PROMPT}\n{index.trigger}", return_tensors="pt").to(model.device)
    length = int(inputs["input_ids"].shape[1])
    room = getattr(model.config, "max_position_embeddings", None)
    if room is not None and length + tokens > room:
        raise InputError(
            f"the model takes {room} tokens, {length} of them the prompt: give --tokens {room - length} at most"
        )
    timed = {}
    for way, writer in (("grounded", grounded), ("free", model)):
        processors: list[LogitsProcessor] = [TriggerForcer(tokenizer, index.trigger)] if way == "grounded" else []
        _written(writer, inputs, processors, min(tokens, _WARM_UP), Clock())
        clock, passes = Clock(), _Passes()
        hook = model.register_forward_pre_hook(passes)
        started = time.perf_counter()
        try:
            out = _written(writer, inputs, processors, tokens, clock)
        finally:
            hook.remove()
        seconds = time.perf_counter() - started
        facts = len(grounded.facts(out, length)[0]) if way == "grounded" else 0
        timed[way] = Timed(int(out.shape[1]) - length, seconds, passes.count, facts, _points(clock, length, started))
    return timed


class _Passes:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, *_: Any) -> None:
        self.count += 1


def _written(writer: Any, inputs: Any, processors: list[LogitsProcessor], tokens: int, clock: Clock) -> Any:
    return writer.generate(
        **inputs,
        do_sample=False,
        min_new_tokens=tokens,
        max_new_tokens=tokens,
        logits_processor=LogitsProcessorList(processors),
        stopping_criteria=StoppingCriteriaList([clock]),
    )


def _points(clock: Clock, length: int, started: float) -> tuple[tuple[int, float], ...]:
    """Some 200 of the clock's times, the last among them."""
    whole = [(ids - length, at - started) for ids, at in clock.times]
    step = max(1, len(whole) // _POINTS)
    return (*whole[:-1:step], *whole[-1:])


def write_throughput(folder: Path, settings: dict[str, Any], timed: dict[str, Timed]) -> dict[str, Any]:
    """Write throughput.json, throughput.md and the plot throughput.svg into a folder, made if need be; returns the document.

    `ratio`: seconds a token with facts by seconds a token without; the paper's is 1.013.
    """
    ratio = (timed["grounded"].seconds / timed["grounded"].tokens) / (timed["free"].seconds / timed["free"].tokens)
    document = {**settings, "ratio": round(ratio, 4), "runs": {way: run.to_json() for way, run in timed.items()}}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "throughput.json", document)
        plot = throughput_plot({way: run.points for way, run in timed.items()})
        (folder / "throughput.svg").write_text(standalone(plot), encoding="utf-8")
        (folder / "throughput.md").write_text("\n".join(_markdown(document)) + "\n", encoding="utf-8")
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
        "![](throughput.svg)",
    ]
