"""`refactx train`: an adapter that answers questions out of an index as `refactx ask` writes them."""

from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from refactx.ask.teach.lessons import TrainingOptions
from refactx.cli import options as common
from refactx.errors import InputError
from refactx.fact import counted

if TYPE_CHECKING:
    from refactx.ask.teach.lessons import Taught
    from refactx.eval.questions import Split
    from refactx.walks.facts import TreeFacts


SHORT = "taught"
"""The prompt of texts by default: without examples, they are read faster."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@common.MODEL
@common.INDEX
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), metavar="ADAPTER", help="Folder to write the adapter to."
)
@click.option(
    "--merged", type=click.Path(path_type=Path), metavar="FOLDER", help="Write the model with the adapter in it, too."
)
@click.option(
    "--prompt", metavar="PROMPT", help="Its name or a .toml file; default: a short one, and ask takes the index's own."
)
@common.declared(TrainingOptions)
@common.split_option("all")
@common.DB
def train(
    file: Path,
    model: str,
    index: str,
    out: Path,
    merged: Path | None,
    prompt: str | None,
    split: "Split",
    db: str | None,
    **given: Any,
) -> None:
    """Teach a model to answer out of an index, by questions whose answers are known.

    FILE has questions of `refactx questions make`, or others with `facts`, a `walk` or gold SPARQL. ADAPTER is an adapter of
    LoRA for --adapter, with a report. The same command continues a run that was stopped.
    """
    from refactx.ask.examples import prompt_for
    from refactx.ask.prompt import TAUGHT_PROMPT, TAUGHT_REPORT, check_prompt, load_prompt
    from refactx.index.open import open_index
    from refactx.models.loading import check_no_folder, save_merged
    from refactx.walks.facts import TreeFacts

    options = TrainingOptions(**{each.name: given.pop(each.name) for each in fields(TrainingOptions)})
    load_prompt(prompt or SHORT)  # reports a mistake before anything is loaded
    if merged is not None:
        check_no_folder(merged)
        if merged.resolve() == out.resolve():
            raise InputError(f"{merged} was given for the adapter and for the merged model: give another --merged")
    known = _questions(file, split)
    with open_index(index, db) as opened:
        asked = prompt_for(prompt, opened)
        check_prompt(asked, opened)
        from refactx.ask.teach.training import Training

        training = Training(
            model=model,
            index=opened,
            prompt=load_prompt(SHORT) if prompt is None else asked,
            asked=asked,
            out=out.resolve(),
            options=options,
            source={"file": str(file), "sha256": sha256(file.read_bytes()).hexdigest(), "prompt": prompt},
            say=lambda line: click.echo(line, err=True),
        )
        facts = TreeFacts(opened)
        report = training.run([with_walk(one, sparql, facts) for one, sparql in known])
    click.echo(
        f"{out}: learned from {counted(report['trained_on'], 'question')}; loss {report['loss_before']:.4f} before, "
        f"{report['loss']:.4f} now, on {report['kept_aside']:,} kept aside"
    )
    if merged is not None:
        save_merged(model, out, merged.absolute(), [TAUGHT_PROMPT, TAUGHT_REPORT])
        click.echo(f"{merged}: the model with this adapter")


def _questions(file: Path, split: "Split") -> "list[tuple[Taught, str]]":
    """Return the questions of a file, with what is known of their answers and their SPARQL; `split`: those of a half."""
    from refactx.ask.teach.lessons import Taught
    from refactx.eval.questions import half_of, read_records

    found = []
    for number, (one, record) in enumerate(read_records(file), 1):
        if split in ("all", half_of(one)):
            known = Taught(
                line=number,
                question=one.text,
                answers=tuple(gold.text for gold in one.answers if gold.text),
                facts=tuple(map(str, record.get("facts") or ())),
                walk=str(record.get("walk") or ""),
                is_unanswerable=one.kind == "unanswerable",
                part=str(record.get("part") or ""),
            )
            found.append((known, one.sparql or ""))
    if not any(one.facts or one.walk or sparql for one, sparql in found):
        raise InputError(
            f"{file} has no questions with `facts`, a `walk` or SPARQL, which prove an answer: make some with `refactx "
            "questions make`"
        )
    return found


def with_walk(one: "Taught", sparql: str, facts: "TreeFacts") -> "Taught":
    """Return a question with the walk that its SPARQL is, where it has neither facts nor a walk."""
    from refactx.sparql.walks import from_sparql
    from refactx.walks.language import ASKED_HEADS, QueryError, write_line

    if one.facts or one.walk or not sparql:
        return one
    try:
        query = from_sparql(sparql, facts)
    except QueryError:  # left out, as a question without a query
        return one
    is_written = query is not None and query.head in ASKED_HEADS and query.per is None  # by a model
    return replace(one, walk=write_line(query)) if query is not None and is_written else one
