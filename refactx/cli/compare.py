"""The commands below `refactx eval`, beside papers' figures: `compare`, `judge` and `speed`."""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from refactx.cli import options as common
from refactx.errors import InputError
from refactx.fact import line
from refactx.lazy import require

PLOT = click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Also write a plot (SVG).")


def write_plot(path: Path, svg: str) -> None:
    """Write a plot. Raises InputError if that cannot be done."""
    try:
        path.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}: give another file with --plot") from error
    click.echo(f"plot: {path}", err=True)


@click.command()
@click.argument("runs", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--format", "form", default="markdown", show_default=True, type=click.Choice(["markdown", "latex", "csv"]), metavar="FORM",
    help="markdown, latex or csv.",
)  # fmt: skip
@click.option(
    "--figures",
    default="",
    callback=lambda _, __, given: common.parts_of(given),
    metavar="KEY,...",
    help="These, by their keys in report.json.",
)
@PLOT
def compare(runs: tuple[Path, ...], form: str, figures: tuple[str, ...], plot: Path | None) -> None:
    """Put figures of several runs into one table.

    Its rows are models, its columns question sets.

    RUN: the folder of a run of answers, of packs (--pack) or of queries (--sparql), or its report.json.
    """
    from refactx.eval import compare as tables

    found = tables.compare_runs(runs, figures)
    written = {"markdown": tables.markdown, "latex": tables.latex, "csv": tables.comma_separated}
    click.echo(written[form](found), nl=False)
    if plot is not None:
        require("matplotlib", "eval")
        write_plot(plot, tables.plot(found))


@click.command()
@click.argument("judgements", type=click.Path(path_type=Path))
@click.option("--judge", "who", required=True, metavar="MODEL", help="Hugging Face id, folder, GGUF.")
@common.JUDGE_URL
@common.JUDGE_PROMPT
@common.JSON
def judge(judgements: Path, who: str, judge_url: str | None, judge_prompt: str, as_json: bool) -> None:
    """Compare a judge's verdicts with those of people.

    A line of JUDGEMENTS is a JSON object: question, answers (gold), answer, verdicts ({"judge-complete": false}), why.
    """
    from refactx.eval import judge as judges

    prompt = judges.load_judge_prompt(judge_prompt)
    found = judges.read_judgements(judgements, Path(judge_prompt).stem)
    make = partial(judges.remote_judge, who, judge_url) if judge_url else partial(judges.local_judge, who)
    with TemporaryDirectory() as folder:
        verdicts = judges.judge_all(Path(folder), [one.case for one in found], who, prompt, make)
    document = judges.agreement(found, verdicts)
    if as_json:
        return common.print_json(document)
    for one in document["others"]:
        said = {True: "right", False: "wrong", None: "no verdict"}[one["verdict"]]
        click.echo(f"line {one['line']}: {said}: {line(one['question'])} {line(one['answer'])} ({line(one['why'])})")
    share = document["agreement"]
    click.echo(
        f"agreement {share['value']:.2f} ({share['low']:.2f} to {share['high']:.2f}) of {share['of']}; wrong called right: "
        f"{document['wrong_called_right']}, right called wrong: {document['right_called_wrong']}, without a verdict: "
        f"{document['without_verdict']}"
    )
    return None


@click.command()
@common.MODEL
@common.INDEX
@click.option("--tokens", default=4000, show_default=True, type=click.IntRange(1), metavar="N", help="Of each run.")
@click.option("--dtype", default="auto", show_default=True, metavar="TYPE", help="Data type of the weights.")
@common.DEVICE
@click.option("--out", default="refactx-speed", show_default=True, type=click.Path(path_type=Path), metavar="FOLDER")
@common.DB
def speed(model: str, index: str, tokens: int, dtype: str, device: str, out: Path, db: str | None) -> None:
    """Compare the time of facts with that of free text.

    It writes N tokens of each by Transformers, and plots the seconds a token.
    """
    require("matplotlib", "eval")
    from refactx.engines.transformers.processor import check_tokenizer
    from refactx.eval.speed import measure_speed, write_speed
    from refactx.index.open import open_index
    from refactx.models.loading import load_model

    with open_index(index, db) as opened:
        loaded: tuple[Any, Any] = load_model(model, device=device, dtype=dtype, check=partial(check_tokenizer, opened))
        timed = measure_speed(*loaded, opened, tokens)
    write_speed(out, {"model": model, "index": index}, timed)
    click.echo((out / "speed.md").read_text(encoding="utf-8").rstrip())
