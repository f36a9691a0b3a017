"""The command line: a thin layer over the library.

Results go to standard output, progress and logs to standard error. A mistake of the user's is one line and exit code 2.
Whatever is slow to import is imported by the command that needs it.
"""

import atexit
import gc
import logging
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from refactx.cli.ask import ask
from refactx.cli.index import index
from refactx.cli.ingest import forget, ingest
from refactx.cli.options import (
    DB,
    DEVICE,
    DTYPE,
    INDEX,
    JSON,
    MODEL,
    PROMPT,
    generation_of,
    generation_options,
    print_json,
)
from refactx.errors import RefactxError, without_password


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="refactx", prog_name="refactx")
def cli() -> None:
    """Language models that write facts from a knowledge base, and only facts that exist."""


cli.add_command(ingest)
cli.add_command(ask)
cli.add_command(forget)
cli.add_command(index)


@cli.command("eval")
@click.argument("questions", type=click.Path(path_type=Path))
@MODEL
@INDEX
@DB
@click.option("--free", is_flag=True, help="Ask everything without constraint too, and compare.")
@click.option("--judge", metavar="MODEL", help="Let a language model judge the answers too.")
@click.option("--judge-url", metavar="URL", help="An OpenAI-compatible server of the judge's; key: $REFACTX_JUDGE_KEY.")
@click.option("--split", default="all", show_default=True, type=click.Choice(["all", "tune", "report"]), help="Half.")
@click.option("--kinds", default="", metavar="KIND,...", help="Only questions of these kinds, such as single,multi.")
@click.option("--limit", type=click.IntRange(1), help="So many questions, always the same.")
@PROMPT
@generation_options
@click.option("--batch-size", default=1, show_default=True, type=click.IntRange(1), help="Questions asked at a time.")
@DTYPE
@DEVICE
@click.option("--out", type=click.Path(path_type=Path), help="The run's folder; default: in ./refactx-eval.")
@JSON
def eval_(as_json: bool, kinds: str, **given: Any) -> None:
    """Ask the QUESTIONS of a file (Mintaka, 2WikiMultiHopQA, WebQSP, QALD, or JSON lines) and report how right the answers are.

    Stop it whenever you like: the same command goes on.
    """
    from refactx.eval.evaluation import Options, evaluate
    from refactx.eval.render import lines

    generation = generation_of(given)
    chosen = tuple(kind.strip() for kind in kinds.split(",") if kind.strip())
    options = Options(kinds=chosen, generation=generation, **given)
    try:
        report = evaluate(options)
    except KeyboardInterrupt:
        click.echo(f"stopped; the same command goes on from {options.folder}", err=True)
        raise
    if as_json:
        return print_json(report)
    for line in lines(report):
        click.echo(line)
    click.echo(f"report: {options.folder / 'report.html'}, report.md and report.json beside it")
    return None


@cli.command()
@click.argument("prefix")
@INDEX
@DB
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1), help="Most continuations shown.")
@JSON
def facts(prefix: str, index: str, db: str | None, limit: int, as_json: bool) -> None:
    """What may follow PREFIX, such as "<Danny Boyle> <", to the end of the next part, with how many facts lie behind it."""
    from refactx.connect import open_index

    with open_index(index, db) as opened:
        found = opened.complete(prefix, limit)
    if as_json:
        completions = [{"text": text, "leaves": leaves} for text, leaves in found]
        return print_json({"index": index, "prefix": prefix, "completions": completions})
    for text, leaves in found:
        click.echo(f"{leaves:>12,}  {text}")
    if not found:
        click.echo(f"no fact of index {index!r} begins with {prefix!r}", err=True)
    return None


@cli.group()
def bench() -> None:
    """Measurements."""


@bench.command()
@MODEL
@INDEX
@DB
@click.option("--tokens", default=4000, show_default=True, type=click.IntRange(1), help="Written in each run.")
@DTYPE
@DEVICE
@click.option("--out", default="refactx-throughput", show_default=True, type=click.Path(path_type=Path), help="Folder.")
@JSON
def throughput(
    model: str, index: str, db: str | None, tokens: int, dtype: str, device: str, out: Path, as_json: bool
) -> None:
    """The paper's generation-time experiment: tokens constrained all the way against free ones, with a plot."""
    from functools import partial

    from refactx.connect import open_index

    with open_index(index, db) as opened:
        from refactx.engines.hf.processor import check_tokenizer
        from refactx.eval.throughput import throughput as measure
        from refactx.eval.throughput import write_throughput
        from refactx.models.loading import load_model

        loaded = load_model(model, device, dtype, check=partial(check_tokenizer, opened))
        timed = measure(*loaded, opened, tokens)
    document = write_throughput(out, {"model": model, "index": index}, timed)
    if as_json:
        return print_json(document)
    click.echo((out / "throughput.md").read_text(encoding="utf-8").rstrip())
    click.echo(f"plot: {out / 'throughput.svg'}")
    return None


def main() -> None:
    """Run the command line; errors of ours become one line on standard error and exit code 2."""
    # OpenMP's threads spin while they wait, and starve everybody on a busy machine: a third of the time without it.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    atexit.register(_keep_all)
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # our own message tells what came of a lost connection
    try:
        sys.exit(cli(standalone_mode=False))
    except RefactxError as error:
        _complain(str(error))
    except click.ClickException as error:  # a wrong option, say
        _complain(f"{error.format_message()} (`refactx --help` tells more)")
    except click.Abort:
        sys.exit(130)  # Ctrl-C


def _keep_all() -> None:
    """Let the interpreter end without a collection of all that was imported, which takes a tenth of a second."""
    if "duckdb" not in sys.modules:  # whose binding (nanobind) counts what is left at the end, and complains
        gc.freeze()


def _complain(message: str) -> NoReturn:
    click.echo(f"refactx: {without_password(' '.join(message.split()))}", err=True)
    sys.exit(2)
