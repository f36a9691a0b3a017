"""`python -m bench.engines FOLDER GGUF INDEX QUESTIONS`: Transformers and llama.cpp side by side, alone and with many texts.

FOLDER and GGUF are one model in both forms, and QUESTIONS a file as for `refactx eval`. Questions are asked by one engine
directly after the other, so that other processes slow both equally. Nothing else should run.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from bench.__main__ import show
from refactx.ask.answer import Answer
from refactx.ask.asker import Asker
from refactx.decoding.machine import Machine
from refactx.decoding.states import Free, FreeText, State
from refactx.engines.engine import Engine, LanguageModel, Steps
from refactx.engines.language_models import load_language_model
from refactx.engines.scheduler import CHUNK_IDS, Job, Scheduler, run_jobs
from refactx.engines.writer import GREEDY_SAMPLING, Capabilities, Hooks, Row, Sampler, TextWriter
from refactx.eval.questions import choose_questions, read_questions
from refactx.index.open import open_index
from refactx.models.options import EngineOptions
from refactx.selection.plain import FreeChooser, PlainChooser

PROMPT = "Here are facts, one a line.\nFact:"
AT_ONCE = 16


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@click.argument("gguf", type=click.Path(exists=True, dir_okay=False))
@click.argument("index")
@click.argument("questions", type=click.Path(path_type=Path))
@click.option("--limit", default=20, show_default=True, help="Questions to ask one after another.")
@click.option("--at-once", default=AT_ONCE, show_default=True, help="Questions to ask at once; 0: none.")
@click.option("--most", default=300, show_default=True, help="The most tokens of an answer.")
@click.option("--tokens", default=1000, show_default=True, help="Tokens of facts all the way, and of free text.")
def main(folder: str, gguf: str, index: str, questions: Path, limit: int, at_once: int, most: int, tokens: int) -> None:
    """Print the figures of docs/results/benchmarks.md, "Engines"."""
    some = [question.text for question in choose_questions(read_questions(questions), "all", (), max(limit, at_once))]
    with open_index(index) as opened:
        texts = max(1, at_once)
        askers = {
            "transformers": asker(folder, opened, EngineOptions(engine="transformers", dtype="float32")),
            "llamacpp": asker(gguf, opened, EngineOptions(engine="llamacpp", texts=texts)),
        }
        for figure, value in one_by_one(askers, some[:limit], most):
            show(figure, value)
        for name, (model, own) in askers.items():
            show(f"{name}: facts all the way, s a token over free", facts_over_free(model, opened, tokens))
            if at_once:
                for figure, value in (*together(own, some[:at_once], most), *newcomer(model, opened, at_once - 1)):
                    show(f"{name}: {figure}", value)
    show("llamacpp: process start to one token, s", start_up(gguf, index))


def asker(name: str, index: Any, options: EngineOptions) -> tuple[LanguageModel, Asker]:
    """Return a model and an asker, which has answered a question before."""
    model = load_language_model(name, index, options)
    own = Asker(model, model.tokenizer, index)
    own.ask("What is the capital of Alaska?", max_new_tokens=20)
    return model, own


def one_by_one(
    askers: dict[str, tuple[LanguageModel, Asker]], questions: Sequence[str], most: int
) -> Iterator[tuple[str, float]]:
    """Yield the seconds a question of each engine, and their ratio."""
    seconds = dict.fromkeys(askers, 0.0)
    for question in questions:
        for name, (_, own) in askers.items():
            started = time.perf_counter()
            own.ask(question, max_new_tokens=most)
            seconds[name] += time.perf_counter() - started
    for name, total in seconds.items():
        yield f"{name}: seconds a question", total / len(questions)
    yield "llamacpp over transformers", seconds["llamacpp"] / seconds["transformers"]


def together(own: Asker, questions: Sequence[str], most: int) -> Iterator[tuple[str, float]]:
    """Yield what questions at once gain over one after another, and how many have the same text."""
    rates, texts = [], []
    for batch_size in (1, len(questions)):
        started = time.perf_counter()
        answers = own.ask_all(questions, batch_size=batch_size, max_new_tokens=most)
        found = [answer for answer in answers if isinstance(answer, Answer)]
        rates.append(sum(answer.tokens for answer in found) / (time.perf_counter() - started))
        texts.append([answer.text for answer in found])
    yield "one after another, tokens/s", rates[0]
    yield f"{len(questions)} at once over one after another, tokens/s", rates[1] / rates[0]
    yield "  of which have the same text", float(sum(one == other for one, other in zip(*texts, strict=True)))


class FactsAllTheWay(PlainChooser):
    """A chooser that begins another fact directly after each."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._line = machine.source.tokenizer.encode(f"\n{machine.source.trigger}")

    def following(self, state: State, at_fact_end: bool) -> Steps[Sequence[int]]:
        """Return the ids of another trigger after a fact."""
        if at_fact_end and isinstance(state, Free):
            return self._line
        return (yield from super().following(state, at_fact_end))


def facts_over_free(model: LanguageModel, index: Any, tokens: int) -> float:
    """Return the seconds of a token of facts all the way, over those of greedy free text."""
    engine, prompt, machine = engine_of(model), index.tokenizer.encode(PROMPT), Machine(index)

    def write(grammar: Machine | None) -> None:
        run_jobs(Scheduler(engine), [text_job(engine, prompt, tokens, grammar)])

    write(machine)  # the index's cache is warm
    return _timed(lambda: write(machine)) / _timed(lambda: write(None))


def newcomer(model: LanguageModel, index: Any, others: int, length: int = 600) -> Iterator[tuple[str, float]]:
    """Yield what happens up to the first token of a text with a prompt of `length` ids, while others are written."""
    engine, prompt = engine_of(model), index.tokenizer.encode(PROMPT)
    scheduler, long = Scheduler(engine), (prompt * length)[:length]
    alone = _timed(lambda: run_jobs(scheduler, [text_job(engine, long, 1)]))
    running, new = [text_job(engine, prompt, 10 * CHUNK_IDS) for _ in range(others)], text_job(engine, long, 1)
    scheduler.submit(running)
    scheduler.run_until(lambda: min(job.passes for job in running) > 1)
    before = running[0].passes
    seconds = _timed(lambda: scheduler.run([new]))
    yield f"passes to a newcomer's first token, prompt of {length} ids", running[0].passes - before
    yield "  of which read its prompt", new.passes
    yield "  seconds over those alone", seconds / alone
    for job in running:
        job.is_cancelled = True
    scheduler.run_until(lambda: all(job.is_done for job in running))


def text_job(engine: Engine, prompt: Sequence[int], tokens: int, machine: Machine | None = None) -> Job:
    """Return a job of as many greedy tokens: of free text, or of facts all the way with the machine of an index."""
    state = Free() if machine is None else machine.start(prompt)
    row, length = Row(prompt, state, capacity=len(prompt) + tokens, unread=len(prompt)), len(prompt) + tokens
    writer = TextWriter(
        row,
        constraint=machine or FreeText(),
        chooser=FactsAllTheWay(machine) if machine else FreeChooser(lambda ids, likeliest: ()),
        picker=Sampler(GREEDY_SAMPLING, machine.allowed if machine else None),
        hooks=Hooks(lambda row: row.length >= length),
        max_length=length,
        capabilities=Capabilities(trees=engine.trees, drafts=True),
    )
    return Job(steps=writer.write(), begin=lambda: engine.prefill(()))


def engine_of(model: LanguageModel) -> Engine:
    """Return the engine of a model. Raise ValueError if it has none."""
    if model.engine is None:
        raise ValueError("the model has no engine")
    return model.engine


def start_up(gguf: str, index: str) -> float:
    """Return the seconds of a process that writes one token with a warm index, the best of three."""
    command = [
        sys.executable,
        "-m",
        "refactx",
        "ask",
        "Who?",
        "--model",
        gguf,
        "--index",
        index,
        "--max-new-tokens",
        "1",
    ]
    return min(_timed(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(3))


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
