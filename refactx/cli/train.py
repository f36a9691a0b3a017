"""`refactx train`: an adapter that answers questions out of an index as `refactx ask` writes them, or writes queries."""

from collections.abc import Callable
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
    from refactx.ask.teach.lessons import Lessons, Taught
    from refactx.eval.questions import Split
    from refactx.index import Index
    from refactx.sparql.packs.lessons import QueryText
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
@click.option("--task", default="answers", type=click.Choice(["answers", "sparql"]), metavar="TASK", help="Or sparql.")
@click.option(
    "--text",
    type=click.Choice(["placeholders", "ids", "retrieved"]),
    metavar="TEXT",
    help="Of sparql: with placeholders, ids, or ids with names retrieved.",
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
    task: str,
    text: "QueryText | None",
    split: "Split",
    db: str | None,
    **given: Any,
) -> None:
    """Teach a model to answer out of an index, by questions whose answers are known, or (--task sparql) to write queries.

    FILE has questions of `refactx questions make`, or others with `facts`, a `walk` or gold SPARQL. ADAPTER is an adapter of
    LoRA for --adapter, with a report. The same command continues a run that was stopped.
    """
    from refactx.ask.prompt import TAUGHT_PROMPT, TAUGHT_REPORT, load_prompt
    from refactx.index.open import open_index
    from refactx.models.loading import check_no_folder, save_merged

    options = TrainingOptions(**{each.name: given.pop(each.name) for each in fields(TrainingOptions)})
    if (task == "sparql") != (text is not None) or (text is not None and prompt is not None):
        raise InputError("--task sparql and --text (placeholders, ids or retrieved) go together, without --prompt")
    load_prompt(prompt or SHORT)  # reports a mistake before anything is loaded
    if merged is not None:
        check_no_folder(merged)
        if merged.resolve() == out.resolve() or not options.rank:
            raise InputError(f"{merged} needs an adapter of its own: give another --merged, and --rank from 1 on")
    with open_index(index, db) as opened:
        teach, ids, card = (
            _answers(opened, _questions(file, split), model, prompt, options)
            if text is None
            else _queries(opened, file, split, text, model, options)
        )
        from refactx.ask.teach.training import Training

        report = Training(
            model=model,
            index=opened.name,
            teach=teach,
            ids=ids,
            card=card,
            out=out.resolve(),
            options=options,
            source={"file": str(file), "sha256": sha256(file.read_bytes()).hexdigest(), "prompt": prompt},
            say=lambda line: click.echo(line, err=True),
        ).run()
    click.echo(
        f"{out}: learned from {counted(report['trained_on'], 'question')}; loss {report['loss_before']:.4f} before, "
        f"{report['loss']:.4f} now, on {report['kept_aside']:,} kept aside"
    )
    if merged is not None:
        save_merged(model, out, merged.absolute(), [TAUGHT_PROMPT, TAUGHT_REPORT])
        click.echo(f"{merged}: the model with this adapter")


def _answers(
    index: "Index", known: "list[tuple[Taught, str]]", model: str, prompt: str | None, options: TrainingOptions
) -> "tuple[Callable[[Any, int], Lessons], int, str]":
    """Return what makes lessons in answers, how many ids they need, and the card of the adapter."""
    from refactx.ask.examples import prompt_for
    from refactx.ask.prompt import check_prompt, load_prompt
    from refactx.ask.teach.lessons import Teacher
    from refactx.walks.facts import TreeFacts

    asked = prompt_for(prompt, index)
    check_prompt(asked, index)
    written = load_prompt(SHORT) if prompt is None else asked

    def teach(tokenizer: Any, end: int) -> "Lessons":
        facts = TreeFacts(index)
        questions = [with_walk(one, sparql, facts) for one, sparql in known]
        return Teacher(index, written, tokenizer, end=end, options=options, asked=asked).lessons(questions)

    shown = "that index's own prompt" if prompt is None else f"the prompt {prompt}"
    card = f"""# Answers out of the index {index.name}

An adapter of LoRA for {model}, made by `refactx train`. It is for `refactx ask`, which holds the model to facts of the
index, with {shown}, as `ask` does by itself:

    refactx ask "QUESTION" --model {model} --index {index.name} --adapter FOLDER"""
    return teach, index.tokenizer.plain_size, card


def _queries(
    index: "Index", file: Path, split: "Split", text: "QueryText", model: str, options: TrainingOptions
) -> "tuple[Callable[[Any, int], Lessons], int, str]":
    """Return what makes lessons in writing queries, how many ids they need at least, and the card of the adapter."""
    from refactx.eval.questions import half_of, read_records
    from refactx.lazy import require
    from refactx.sparql.packs.lessons import FORMS, GoldQuery, QueryTeacher
    from refactx.sparql.packs.prompt import load_sparql_prompt
    from refactx.sparql.packs.writers import retriever_of
    from refactx.sparql.placeholders.opening import open_memory
    from refactx.sparql.placeholders.resolver import FactFeasibility

    require("pyoxigraph", "sparql")
    prompt = load_sparql_prompt()
    known = [
        GoldQuery(number, one.text, one.sparql, str(record.get("part") or ""))
        for number, (one, record) in enumerate(read_records(file), 1)
        if one.sparql.strip() and one.text.strip() and split in ("all", half_of(one))
    ]
    if not known:
        raise InputError(f"{file} has no questions with gold SPARQL: give QALD, LC-QuAD 2.0, or lines with `sparql`")

    def teach(tokenizer: Any, end: int) -> "Lessons":
        retrieve = None
        if text == "retrieved":
            retrieve = retriever_of(open_memory(index), FactFeasibility(index), prompt.function)
        teacher = QueryTeacher(text, prompt, index.names_of, tokenizer, end=end, options=options, retrieve=retrieve)
        return teacher.lessons(known)

    use = f"--model {model} --adapter FOLDER" if options.rank else "--model FOLDER"
    card = f"""# SPARQL of questions, for the index {index.name}

Made of {model} by `refactx train --task sparql --text {text}`. It is shown no examples:

    refactx eval QUESTIONS --sparql {FORMS[text]} --shots 0 --index {index.name} {use}"""
    return teach, 0, card


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
