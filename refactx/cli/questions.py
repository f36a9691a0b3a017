"""`refactx questions`: questions with gold answers, out of the facts of an index."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from refactx.cli import options as common
from refactx.cli.compare import PLOT, write_plot
from refactx.cli.help import GroupedCommand, OrderedGroup
from refactx.errors import InputError
from refactx.fact import counted, line
from refactx.lazy import require

if TYPE_CHECKING:
    from refactx.ask.teach.made_questions import MadeQuestion


@click.group(cls=OrderedGroup)
def questions() -> None:
    """Make questions with gold answers, to measure a model or to teach it."""


@questions.command()
@click.argument("files", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="FILE...")
@click.option("--language", metavar="CODE", help="Of the questions; default: English.")
@PLOT
@common.JSON
def kinds(files: tuple[Path, ...], language: str | None, plot: Path | None, as_json: bool) -> None:
    """Show the shares of kinds of questions and of answers in question sets, as a table for each and as one plot."""
    from refactx.eval.questions import kinds_of
    from refactx.eval.report import plain

    found = {
        path.stem if len({one.stem for one in files}) == len(files) else str(path): kinds_of(path, language)
        for path in files
    }
    if as_json:
        common.print_json(found)
    for name, counts in found.items() if not as_json else ():
        answers = list(dict.fromkeys(kind for row in counts.values() for kind in row))
        whole = sum(sum(row.values()) for row in counts.values())
        click.echo(f"| {plain(name)} ({whole}) | {' | '.join(answers)} | all |\n|{'---|' * (len(answers) + 2)}")
        for kind, row in counts.items():
            cells = [row.get(answer, 0) for answer in answers]
            click.echo(f"| {plain(kind)} | {' | '.join(f'{n / whole:.0%}' for n in [*cells, sum(cells)])} |")
    if plot is not None:
        require("matplotlib", "eval")
        from refactx.eval.plots import stacks, standalone

        write_plot(plot, standalone(stacks(_shares(found), "kinds", "share of questions")))


@questions.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), metavar="FOLDER", help="Of train.jsonl, test.jsonl."
)
@click.option("--unknown", is_flag=True, help="Each test query has an id that no training query has.")
@click.option(
    "--share", default=0.1, show_default=True, type=common.Number(0, 1), metavar="X", help="Of test questions."
)
@click.option("--seed", default=0, show_default=True, metavar="N", help="Another seed, another split.")
def split(file: Path, out: Path, unknown: bool, share: float, seed: int) -> None:
    """Divide questions with gold SPARQL into those to learn from and those to ask: by chance, or by unknown ids."""
    from refactx.eval.questions import read_queries
    from refactx.eval.sparql import ids_of, split_unknown

    asked = read_queries(file)
    ids = [ids_of(one.sparql).all if unknown else {str(at)} for at, one in enumerate(asked)]
    is_test = split_unknown(ids, share, seed)
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, which in (("train", False), ("test", True)):
            some = [one for one, of_test in zip(asked, is_test, strict=True) if of_test == which]
            lines = [json.dumps(one.to_json(), ensure_ascii=False) + "\n" for one in some]
            (out / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
            click.echo(f"{out / name}.jsonl: {counted(len(some), 'question')}")
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror}: give another folder with --out") from error


def _shares(found: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, float]]:
    """Return the shares of kinds of questions, and of answers, of each set."""
    shares = dict[str, dict[str, float]]()
    for name, counts in found.items():
        by_answer = Counter[str]()
        for row in counts.values():
            by_answer.update(row)
        for what, some in (
            ("questions", {kind: sum(row.values()) for kind, row in counts.items()}),
            ("answers", by_answer),
        ):
            shares[f"{name}: {what}"] = {kind: number / sum(some.values()) for kind, number in some.items()}
    return shares


@questions.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="File to write; default: standard output.")
@click.option("--pack", "pack_name", metavar="FOLDER", help="Add those with a query to the examples of this pack.")
@click.option("--marker", default="Answer:", show_default=True, metavar="TEXT", help="Text before the final answer.")
def feedback(file: Path, out: Path | None, pack_name: str | None, marker: str) -> None:
    """Make an evaluation set of what people say of answers (serve --feedback FILE), or examples of a pack.

    Taken are questions whose answer is marked right, or that have the right answers; no answer that is also reported.
    """
    from refactx.eval.feedback import add_examples, read_feedback

    marked, others = read_feedback(file, marker)
    click.echo(f"{counted(len(marked), 'question')} with a known answer, {others} without", err=True)
    if pack_name is not None:
        if out is not None:
            raise InputError("--out is of an evaluation set: leave out one of --pack and this")
        from refactx.sparql.packs.pack import load_pack

        number, left = add_examples(load_pack(pack_name), marked)
        for why in left:
            click.echo(f"left out: {line(why)}", err=True)
        click.echo(f"{counted(number, 'example')} added to {pack_name}")
    elif not marked:
        raise InputError(f"{file} has no answer that is marked right, and no right answers: there is nothing to write")
    else:
        text = "".join(json.dumps(one.to_json(), ensure_ascii=False) + "\n" for one in marked)
        try:
            click.echo(text, nl=False) if out is None else out.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write {out}: {error.strerror}: give another file with --out") from error


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
    from refactx.ask.teach.made_questions import KINDS, make_questions, rephrased
    from refactx.index.open import open_index
    from refactx.progress import progress_bar

    asked = tuple(kinds.split(",")) if kinds else KINDS
    with open_index(index, db) as opened:
        made = make_questions(opened, limit, kinds=asked, seed=seed, aside=aside)
        if model is not None:
            from refactx.engines.language_models import load_language_model

            loaded = load_language_model(model, opened, common.engine_options_of(engine, texts=1, beams=1))
            made = rephrased(made, loaded, opened)
        if out is None:
            found = []
            for one in made:  # each is printed once it is made
                click.echo(_line(one))
                found.append(one)
        else:
            found = _write(progress_bar("questions", limit, iterable=made, leave=False), out)
    if not found:
        raise InputError("the index has no facts that questions can be made of: its names are codes, or not clear")
    parts = Counter(one.part for one in found)
    shown = ", ".join(f"{number} {part}" for part, number in parts.most_common())
    changed = sum(one.rule != one.question for one in found)
    words = f", {changed} in words of the model" if model is not None else ""
    click.echo(f"{counted(len(found), 'question')} ({shown}){words}", err=True)


def _line(one: "MadeQuestion") -> str:
    return json.dumps(one.to_json(), ensure_ascii=False)


def _write(made: Iterable["MadeQuestion"], out: Path) -> "list[MadeQuestion]":
    """Write questions to a file, which is whole or as it was before; what a killed run has made is in FILE.partial."""
    partial, found = out.with_name(f"{out.name}.partial"), list["MadeQuestion"]()
    try:
        with partial.open("w", encoding="utf-8", buffering=1) as file:
            for one in made:
                file.write(f"{_line(one)}\n")
                found.append(one)
        if found:
            partial.replace(out)
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror}: give another file with --out") from error
    finally:
        if not found:
            partial.unlink(missing_ok=True)
    return found
