"""`python -m bench.reads GGUF INDEX QUESTIONS`: what llama.cpp reads for a question, and how long that takes.

The mean passes, ids and seconds a question: for the text itself, for the choice of names and of properties, and for the
likelihoods of the question after facts and after queries. The first question is left out, since it reads the examples.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from refactx.ask.asker import Asker
from refactx.engines.engine import FeedTree, Steps
from refactx.engines.language_models import load_language_model
from refactx.engines.llamacpp.library import Context, Entry
from refactx.eval.questions import choose_questions, read_questions
from refactx.index.open import open_index
from refactx.models.options import EngineOptions
from refactx.selection.candidates import CandidateSearch
from refactx.selection.scores import QuestionScore

TEXT = "text"


class Reads:
    """Passes, ids and seconds by what they are for. A step of a job is for what the innermost wrapped function asks."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, list[float]] = defaultdict(lambda: [0, 0, 0.0])
        self._now, self._decode = TEXT, Context.decode

    def install(self) -> None:
        """Count what llama.cpp reads in this process from now on."""
        for name in ("subjects", "properties"):
            counted = self._counted(getattr(CandidateSearch, name), lambda _, name=name: name)  # type: ignore[misc]
            setattr(CandidateSearch, name, counted)
        QuestionScore.likelihoods = self._counted(  # type: ignore[method-assign]
            QuestionScore.likelihoods, lambda args: f"question after {'queries' if args[0]._examples else 'facts'}"
        )

        def decode(context: Context, entries: Sequence[Entry]) -> int:
            started = time.perf_counter()
            code = self._decode(context, entries)
            one = self.spent[self._now]
            one[:] = one[0] + 1, one[1] + len(entries), one[2] + time.perf_counter() - started
            return code

        Context.decode = decode  # type: ignore[method-assign]

    def _counted(self, function: Callable[..., Steps[Any]], name_of: Callable[[Sequence[Any]], str]) -> Any:
        def steps(*args: Any, **options: Any) -> Steps[Any]:
            own, answer = function(*args, **options), None
            while True:
                try:
                    step = own.send(answer)
                except StopIteration as done:
                    return done.value
                before = self._now
                if isinstance(step, FeedTree) and before == TEXT:
                    self._now = name_of(args)
                answer = yield step
                self._now = before

        return steps


@click.command()
@click.argument("gguf", type=click.Path(exists=True, dir_okay=False))
@click.argument("index")
@click.argument("questions", type=click.Path(path_type=Path))
@click.option("--limit", default=16, show_default=True, help="Questions to count, of the half `tune`.")
@click.option("--most", default=200, show_default=True, help="The most tokens of an answer.")
def main(gguf: str, index: str, questions: Path, limit: int, most: int) -> None:
    """Print the figures of docs/results/benchmarks.md, "What a question reads"."""
    some = [question.text for question in choose_questions(read_questions(questions), "tune", (), limit + 1)]
    reads = Reads()
    reads.install()
    started, count = 0.0, max(1, len(some) - 1)
    with open_index(index) as opened:
        model = load_language_model(gguf, opened, EngineOptions(engine="llamacpp"))
        asker = Asker(model, model.tokenizer, opened)
        for number, question in enumerate(some):
            if number == 1:
                reads.spent.clear()
                started = time.perf_counter()
            asker.ask(question, max_new_tokens=most)
    for name, (passes, ids, seconds) in sorted(reads.spent.items()):
        click.echo(f"{name:<24} passes {passes / count:6.2f}  ids {ids / count:7.1f}  s {seconds / count:6.2f}")
    click.echo(f"seconds a question {(time.perf_counter() - started) / count:.2f}")


if __name__ == "__main__":
    main()
