"""`python -m bench.decoding MODEL INDEX [--tokens N] [--questions FILE]`: the cost and savings of facts in decoding.

Every figure is a ratio within one run, against the same model's own `generate` on the same prompt. MODEL is a folder or
id as for `refactx ask`, and the file of questions is as for `refactx eval`.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import click
import numpy as np
import torch
from transformers import LogitsProcessorList

from refactx.ask.asker import Asker
from refactx.ask.grounded import ground
from refactx.decoding.machine import Machine
from refactx.decoding.states import InFact
from refactx.engines.transformers.processor import FactLogitsProcessor
from refactx.eval.questions import choose_questions, read_questions
from refactx.eval.speed import TriggerForcer, measure_speed
from refactx.index.open import open_index
from refactx.models.loading import load_model

PROMPT = "Here are facts, one a line.\nFact:"


@click.command()
@click.argument("model")
@click.argument("index")
@click.option("--tokens", default=4000, show_default=True, help="Length of the paper's throughput experiment.")
@click.option("--questions", type=click.Path(path_type=Path), help="Questions for whole answers.")
@click.option("--limit", default=20, show_default=True, help="How many of them.")
@click.option("--batch", default=16, show_default=True)
def main(model: str, index: str, tokens: int, questions: Path | None, limit: int, batch: int) -> None:
    """Print the figures of docs/results/benchmarks.md, "Decoding"."""
    loaded, tokenizer = load_model(model)
    with open_index(index) as opened:
        for figure, value in figures(loaded, tokenizer, opened, tokens, batch):
            show(figure, value)
        if questions is not None:
            for figure, value in answers(loaded, tokenizer, opened, questions, limit).items():
                show(figure, value)


def figures(model: Any, tokenizer: Any, index: Any, tokens: int, batch: int = 16) -> Iterator[tuple[str, float]]:
    """Yield each figure with its name, as soon as it is measured."""
    yield from processor_times(index, tokenizer, model.config.vocab_size).items()
    timed = measure_speed(model, tokenizer, index, tokens)
    grounded, free = timed["grounded"], timed["free"]
    yield f"{tokens} tokens, facts all the way: seconds a token over free", grounded.seconds / free.seconds
    yield "  forward passes over tokens", grounded.forward_passes / grounded.tokens
    for figure, options, rows, length in (
        ("plain loop", {}, 1, 200),
        ("plain loop, 3 beams", {"num_beams": 3}, 1, 100),
        (f"plain loop, batch of {batch}", {}, batch, 60),
    ):
        yield f"{figure}: 1 + the processor's share", share(model, tokenizer, index, rows, length, options)
    yield f"forced tokens, batch of {batch}: over free", batch_ratio(model, tokenizer, index, batch, 100)
    yield "fact beams, 3: over greedy", beams_ratio(model, tokenizer, index, 200)


def processor_times(index: Any, tokenizer: Any, vocabulary: int) -> dict[str, float]:
    """Measure a call for one row in microseconds: free text at 4,000 ids, and along warm facts, with masks."""
    plain = tokenizer("The quick brown fox jumps over the lazy dog. ", add_special_tokens=False)["input_ids"]
    ids = torch.tensor([(plain * 4200)[:4200]])
    scores = torch.randn(1, vocabulary)
    processor = FactLogitsProcessor(index, tokenizer, prompt_length=10)
    processor(ids[:, :3899], scores)
    free = [_microseconds(lambda n=n: processor(ids[:, :n], scores)) for n in range(3900, 4150)]

    machine, inside = Machine(index), []
    generator = np.random.default_rng(0)
    trigger = tokenizer(index.trigger, add_special_tokens=False)["input_ids"]
    for _ in range(40):
        row, state = list(trigger), machine.begin(len(trigger))
        while isinstance(state, InFact) and state.children.terminal == 0:
            weights = state.children.leaves / state.children.leaves.sum()
            token = int(generator.choice(state.children.tokens, p=weights))
            row.append(token)
            state = machine.advance(state, token, len(row))
        whole = torch.tensor([row])
        for warm in (False, True):
            processor.reset()
            fresh = FactLogitsProcessor.of(machine, None, prompt_length=0)
            times = [
                _microseconds(lambda n=n: fresh(whole[:, :n], scores))  # noqa: B023  # called at once
                for n in range(len(trigger), len(row) + 1)
            ]
            if warm:
                inside += times[1:]
    return {
        "processor, free, 4,000 ids, p50 µs": median(free),
        "processor, in a fact, warm, with its mask, p50 µs": median(inside),
    }


def share(model: Any, tokenizer: Any, index: Any, rows: int, tokens: int, options: dict[str, Any]) -> float:
    """Return 1 + the processor's time over the time of all else, in a plain `generate` of facts throughout."""
    spent = [0.0]

    class Timed(FactLogitsProcessor):
        def __call__(self, input_ids: Any, scores: Any) -> Any:
            start = time.perf_counter()
            try:
                return super().__call__(input_ids, scores)
            finally:
                spent[0] += time.perf_counter() - start

    inputs = _inputs(tokenizer, rows)
    seconds = []
    for _ in range(2):  # the first fills the index's cache
        spent[0] = 0.0
        processors = LogitsProcessorList([TriggerForcer(tokenizer, index.trigger), Timed(index, tokenizer)])
        seconds.append(_seconds(lambda: _generate(model, inputs, tokens, processors, options)))  # noqa: B023
    return 1 + spent[0] / (seconds[-1] - spent[0])


def batch_ratio(model: Any, tokenizer: Any, index: Any, rows: int, tokens: int) -> float:
    """Return seconds a token of a batch with forced tokens over a free one, the median of three alternating runs."""
    grounded, inputs = ground(model, tokenizer, index), _inputs(tokenizer, rows)
    forcer = LogitsProcessorList([TriggerForcer(tokenizer, index.trigger)])
    ratios = []
    for _ in range(3):
        free = _seconds(lambda: _generate(model, inputs, tokens, LogitsProcessorList(), {}))
        ratios.append(_seconds(lambda: _generate(grounded, inputs, tokens, forcer, {})) / free)
    return median(ratios)


def beams_ratio(model: Any, tokenizer: Any, index: Any, tokens: int) -> float:
    """Return seconds a token with three fact beams over greedy facts, facts throughout, the median of three runs."""
    grounded, inputs = ground(model, tokenizer, index), _inputs(tokenizer, 1)
    forcer = LogitsProcessorList([TriggerForcer(tokenizer, index.trigger)])
    ratios = []
    for _ in range(3):
        greedy = _seconds(lambda: _generate(grounded, inputs, tokens, forcer, {}))
        ratios.append(_seconds(lambda: _generate(grounded, inputs, tokens, forcer, {"fact_beams": 3})) / greedy)
    return median(ratios)


WAYS: dict[str, dict[str, Any]] = {"channel": {}, "plain choice of facts": {"channel": False}, "free": {"free": True}}


def answers(model: Any, tokenizer: Any, index: Any, path: Path, limit: int) -> dict[str, float]:
    """Measure whole answers to questions, in each way in turn."""
    asker = Asker(model, tokenizer, index)
    asked: dict[str, list[Any]] = {way: [] for way in WAYS}
    for question in choose_questions(read_questions(path), "tune", ("single", "multi"), limit):
        for way, options in WAYS.items():
            if not asked[way]:  # what all answers share is computed with the first
                asker.ask(question.text, max_new_tokens=2, **options)
            asked[way].append(asker.ask(question.text, max_new_tokens=300, **options))
    seconds, tokens = ({way: _total(asked[way], name) for way in WAYS} for name in ("seconds", "tokens"))
    found = {}
    for way in WAYS:
        of = f"whole answers, {way}"
        found[f"{of}: tokens each"] = mean(answer.tokens for answer in asked[way])
        if way != "free":
            found[f"{of}: forward passes over tokens"] = _total(asked[way], "forward_passes") / tokens[way]
            per_token = seconds[way] / tokens[way]
            found[f"{of}: seconds a token over free"] = per_token / (seconds["free"] / tokens["free"])
            found[f"{of}: seconds a question over free"] = seconds[way] / seconds["free"]
    return found


def _total(answers: Sequence[Any], field: str) -> float:
    return float(sum(getattr(answer, field) for answer in answers))


def _inputs(tokenizer: Any, rows: int) -> Any:
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    topics = ("cities", "films", "music", "people", "rivers", "books", "war", "food")
    texts = [f"About {topics[n % 8]}. " * (1 + n // 8) + PROMPT for n in range(rows)]
    return tokenizer(texts if rows > 1 else [PROMPT], return_tensors="pt", padding=True, padding_side="left")


def _generate(writer: Any, inputs: Any, tokens: int, processors: LogitsProcessorList, options: dict[str, Any]) -> Any:
    length = {"min_new_tokens": tokens, "max_new_tokens": tokens}
    return writer.generate(**inputs, **length, do_sample=False, logits_processor=processors, **options)


def _seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _microseconds(action: Callable[[], object]) -> float:
    return _seconds(action) * 1e6


def show(figure: str, value: float) -> None:
    """Print a line of the table."""
    click.echo(f"{figure:<66} {value:>10.3f}")


if __name__ == "__main__":
    main()
