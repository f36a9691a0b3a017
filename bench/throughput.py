"""The paper's generation-time experiment: `python -m bench.throughput MODEL [INDEX] [--tokens N] [--out FOLDER]`.

N tokens are generated with constraints throughout, and N freely. Throughout means that the trigger is forced after each
fact, so that the next fact begins at once. Both runs have the same prompt, greedy decoding, no end of sequence, and a
short warm-up. `GroundedModel.generate` is compared with the model's own `generate`; a stopping criterion that never
stops is the clock.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import torch
from transformers import LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from refactx.ask.grounded import ground
from refactx.decoding.states import FactSource
from refactx.engines.transformers.processor import check_tokenizer
from refactx.errors import InputError
from refactx.eval.answer_task import LABELS
from refactx.eval.plots import curves
from refactx.eval.report import DARK, LIGHT
from refactx.eval.run import write_atomically
from refactx.index.open import open_index
from refactx.models.loading import load_model

PROMPT = "Here are facts, one a line."
_FACT_END = re.compile(r"> \.\s*$")
_TAIL = 8
"""How many tokens at the end of a text are decoded: no terminator with the bracket before it is longer."""

_WARM_UP = 16
_POINTS = 200


@click.command()
@click.argument("model")
@click.argument("index", default="default")
@click.option("--db", metavar="URL", help="PostgreSQL; default: $REFACTX_DB, else the embedded server.")
@click.option("--tokens", default=4000, show_default=True, type=click.IntRange(1), help="Tokens of each run.")
@click.option("--dtype", default="auto", show_default=True, help="Data type of the weights.")
@click.option("--device", default="auto", show_default=True, help="Such as cpu or cuda.")
@click.option("--out", default="refactx-throughput", show_default=True, type=click.Path(path_type=Path), help="Folder.")
def main(model: str, index: str, db: str | None, tokens: int, dtype: str, device: str, out: Path) -> None:
    """Compare the time of TOKENS constrained tokens with that of as many free ones, and plot it."""
    with open_index(index, db) as opened:
        loaded, tokenizer = load_model(model, device=device, dtype=dtype, check=partial(check_tokenizer, opened))
        timed = throughput(loaded, tokenizer, opened, tokens)
    write_throughput(out, {"model": model, "index": index}, timed)
    click.echo((out / "throughput.md").read_text(encoding="utf-8").rstrip())
    click.echo(f"plot: {out / 'throughput.svg'}")


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


class Clock(StoppingCriteria):
    """Records (ids in a row, time) at each step, and never stops."""

    def __init__(self) -> None:
        self.times: list[tuple[int, float]] = []

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **_: Any) -> torch.BoolTensor:
        """Record the time. Return False for each row."""
        self.times.append((int(input_ids.shape[1]), time.perf_counter()))
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedRun:
    """One run: `points` are (tokens, seconds since its start), `facts` the number of complete facts."""

    tokens: int
    seconds: float
    forward_passes: int
    facts: int
    points: tuple[tuple[int, float], ...]

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


def throughput(model: Any, tokenizer: Any, index: FactSource, tokens: int) -> dict[str, TimedRun]:
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
        _generate(writer, inputs, processors, min(tokens, _WARM_UP), Clock())
        clock, passes = Clock(), _Passes()
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
            points=_points(clock, length, started),
        )
    return timed


class _Passes:
    """A hook that counts forward passes."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, *_: Any) -> None:
        self.count += 1


def _generate(writer: Any, inputs: Any, processors: list[LogitsProcessor], tokens: int, clock: Clock) -> Any:
    return writer.generate(
        **inputs,
        do_sample=False,
        min_new_tokens=tokens,
        max_new_tokens=tokens,
        logits_processor=LogitsProcessorList(processors),
        stopping_criteria=StoppingCriteriaList([clock]),
    )


def _points(clock: Clock, length: int, started: float) -> tuple[tuple[int, float], ...]:
    """Return about 200 of the clock's times, with the last of them."""
    whole = [(ids - length, at - started) for ids, at in clock.times]
    step = max(1, len(whole) // _POINTS)
    return (*whole[:-1:step], *whole[-1:])


def write_throughput(folder: Path, settings: dict[str, Any], timed: dict[str, TimedRun]) -> dict[str, Any]:
    """Write throughput.json, throughput.md and the plot throughput.svg into `folder`, and return the JSON document.

    The folder is made if it is missing. `ratio`: seconds a constrained token over seconds a free one; the paper's is
    1.013.
    """
    ratio = (timed["grounded"].seconds / timed["grounded"].tokens) / (timed["free"].seconds / timed["free"].tokens)
    document = {**settings, "ratio": round(ratio, 4), "runs": {way: run.to_json() for way, run in timed.items()}}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "throughput.json", document)
        points = {LABELS[way]: run.points for way, run in timed.items()}
        plot = curves(points, "throughput", ("tokens written", "seconds"), of_shares=False)
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


def standalone(svg: str) -> str:
    """Return the content of an SVG file: a plot with its colours, light or dark as in the reader's settings."""
    media = f"@media(prefers-color-scheme:dark){{:root{{{DARK}background:#15181d}}}}"
    style = f"<style>:root{{{LIGHT}background:#fff}}{media}</style>"
    return '<?xml version="1.0" encoding="utf-8"?>\n' + svg.replace(">", f">{style}", 1)


if __name__ == "__main__":
    main()
