"""`refactx questions`: questions with gold answers, out of the facts of an index."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from refactx.cli import options as common
from refactx.cli.help import GroupedCommand
from refactx.errors import InputError
from refactx.fact import counted


@click.group()
def questions() -> None:
    """Make questions with gold answers, to measure a model or to teach it."""


@questions.command(
    cls=GroupedCommand, groups={"Database and machine": [name for name in common.MACHINE_GROUP if name != "batch_size"]}
)
@common.INDEX
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="File to write; default: standard output.")
@click.option("--limit", default=1000, show_default=True, type=click.IntRange(1), metavar="N", help="Make at most N.")
@click.option("--kinds", metavar="KIND,...", help="Only these kinds, such as single,count.")
@click.option("--seed", default=0, show_default=True, metavar="N", help="Another seed makes other questions.")
@click.option(
    "--aside",
    default=0.2,
    show_default=True,
    type=common.Number(0, 1),
    metavar="X",
    help="Share of subjects kept aside; of predicates, half of it.",
)
@click.option("--model", metavar="MODEL", help="Also rephrase them by this model, and keep what it reads back.")
@common.DB
@common.engine_options
def make(
    index: str,
    out: Path | None,
    limit: int,
    kinds: str | None,
    seed: int,
    aside: float,
    model: str | None,
    db: str | None,
    **engine: Any,
) -> None:
    """Make questions with gold answers out of an index: look-ups, lists, counts, yes and no, superlatives, comparisons, and
    some that no fact answers. One JSON object a line, which refactx eval reads.

    With --model, a question is put in other words, and kept so if the model's own choice for these is the same query.
    """
    from refactx.ask.made_questions import KINDS, make_questions, rephrased
    from refactx.index.open import open_index

    asked = tuple(kinds.split(",")) if kinds else KINDS
    parts, count, changed = Counter[str](), 0, 0
    with open_index(index, db) as opened:
        found = make_questions(opened, limit, kinds=asked, seed=seed, aside=aside)
        if model is not None:
            from refactx.engines.loading import EngineOptions, load_language_model

            found = rephrased(found, load_language_model(model, opened, EngineOptions(**engine)), opened)
        for one, text in _written(found, out):
            count, changed, parts[one.part] = count + 1, changed + (one.rule != one.question), parts[one.part] + 1
            if out is None:
                click.echo(text)
    if not count:
        raise InputError("the index has no facts that questions can be made of: its names are codes, or not clear")
    shown = ", ".join(f"{number} {part}" for part, number in parts.most_common())
    words = f", {changed} in words of the model" if model is not None else ""
    click.echo(f"{counted(count, 'question')} ({shown}){words}", err=True)


def _written(found: Iterator[Any], out: Path | None) -> Iterator[tuple[Any, str]]:
    """Yield questions with their lines, which are in the file `out` when all are made: it is whole or not there."""
    lines: list[str] = []
    for one in found:
        lines.append(json.dumps(one.to_json(), ensure_ascii=False))
        yield one, lines[-1]
    if out is not None and lines:
        partial = out.with_name(f"{out.name}.partial")
        try:
            partial.write_text("".join(f"{text}\n" for text in lines), encoding="utf-8")
            partial.replace(out)
        except OSError as error:
            raise InputError(f"cannot write {out}: {error.strerror}: give another file with --out") from error
