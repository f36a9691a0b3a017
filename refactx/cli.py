"""The command line: a thin layer over the library.

Results go to standard output, progress and logs to standard error. A mistake of the user's is one line and exit code 2.
Whatever is slow to import is imported by the command that needs it.
"""

import logging
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from refactx.cli_index import index
from refactx.cli_ingest import forget, ingest
from refactx.cli_options import DB, INDEX, JSON, print_json
from refactx.errors import RefactxError, without_password


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="refactx", prog_name="refactx")
def cli() -> None:
    """Language models that write facts from a knowledge base, and only facts that exist."""


cli.add_command(ingest)
cli.add_command(forget)
cli.add_command(index)


@cli.command()
@click.argument("questions", nargs=-1, required=True, metavar="QUESTION...")
@click.option(
    "--model", required=True, metavar="ID_OR_FOLDER", help="Hugging Face id, folder or GGUF file; `demo`: SmolLM2."
)
@INDEX
@DB
@click.option("--num-beams", default=1, show_default=True, type=click.IntRange(1), help="Beams over the whole text.")
@click.option(
    "--fact-beams", type=click.IntRange(1), metavar="N", help="Search each fact with N beams; the text stays greedy."
)
@click.option(
    "--fact-length-penalty",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0),
    help="With --fact-beams: a fact's score is its log-probability over its length to this power.",
)
@click.option("--max-new-tokens", default=512, show_default=True, type=click.IntRange(1))
@click.option("--free", is_flag=True, help="The same model and prompt without constraint (no index is read).")
@JSON
def ask(
    questions: tuple[str, ...],
    model: str,
    index: str,
    db: str | None,
    num_beams: int,
    fact_beams: int | None,
    fact_length_penalty: float,
    max_new_tokens: int,
    free: bool,
    as_json: bool,
) -> None:
    """Answer QUESTIONS with facts of the index as proof."""
    from contextlib import ExitStack
    from functools import partial

    from tqdm import tqdm

    from refactx.connect import open_index
    from refactx.prompt import load_prompt

    prompt = load_prompt()
    for question in questions:
        prompt.messages(question)  # an empty one is told before anything is loaded
    with ExitStack() as stack:
        opened = None if free else stack.enter_context(open_index(index, db))
        from refactx.answer_text import render
        from refactx.ask import Asker
        from refactx.fact_beams import FactBeams
        from refactx.models import load_model
        from refactx.processor import check_tokenizer

        check = partial(check_tokenizer, opened) if opened else lambda tokenizer: None
        loaded = load_model(model, check=check)
        asker = Asker(*loaded, opened, prompt)
        beams = FactBeams(fact_beams, length_penalty=fact_length_penalty) if fact_beams else None
        for question in tqdm(questions, desc="questions", disable=None, leave=False):
            answer = asker.ask(
                question, num_beams=num_beams, max_new_tokens=max_new_tokens, free=free, fact_beams=beams
            )
            if as_json:
                print_json(answer.to_json())
            else:
                click.echo(render(answer, color=sys.stdout.isatty()))


@cli.command("eval")
@click.argument("questions", type=click.Path(path_type=Path))
@click.option("--model", required=True, metavar="ID_OR_FOLDER", help="As in `ask`.")
@INDEX
@DB
@click.option("--free", is_flag=True, help="Ask everything without constraint too, and compare.")
@click.option("--judge", metavar="MODEL", help="Let a language model judge the answers too.")
@click.option("--judge-url", metavar="URL", help="An OpenAI-compatible server of the judge's; key: $REFACTX_JUDGE_KEY.")
@click.option("--split", default="all", show_default=True, type=click.Choice(["all", "tune", "report"]), help="Half.")
@click.option("--kinds", default="", metavar="KIND,...", help="Only questions of these kinds, such as single,multi.")
@click.option("--limit", type=click.IntRange(1), help="So many questions, always the same.")
@click.option("--prompt", default="wikidata", show_default=True, metavar="NAME_OR_FILE", help="The prompt.")
@click.option("--num-beams", default=1, show_default=True, type=click.IntRange(1), help="Beams over the whole text.")
@click.option("--max-new-tokens", default=512, show_default=True, type=click.IntRange(1))
@click.option("--out", type=click.Path(path_type=Path), help="The run's folder; default: in ./refactx-eval.")
@JSON
def eval_(as_json: bool, kinds: str, **given: Any) -> None:
    """Ask the QUESTIONS of a file (Mintaka, 2WikiMultiHopQA, WebQSP, QALD, or JSON lines) and report how right the answers are.

    Stop it whenever you like: the same command goes on.
    """
    from refactx.eval.command import Options, evaluate
    from refactx.eval.page import lines

    options = Options(kinds=tuple(kind.strip() for kind in kinds.split(",") if kind.strip()), **given)
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
@click.option("--model", required=True, metavar="ID_OR_FOLDER", help="As in `ask`.")
@INDEX
@DB
@click.option("--tokens", default=4000, show_default=True, type=click.IntRange(1), help="Written in each run.")
@click.option("--out", default="refactx-throughput", show_default=True, type=click.Path(path_type=Path), help="Folder.")
@JSON
def throughput(model: str, index: str, db: str | None, tokens: int, out: Path, as_json: bool) -> None:
    """The paper's generation-time experiment: tokens constrained all the way against free ones, with a plot."""
    from functools import partial

    from refactx.connect import open_index

    with open_index(index, db) as opened:
        from refactx.eval.throughput import throughput as measure
        from refactx.eval.throughput import write_throughput
        from refactx.models import load_model
        from refactx.processor import check_tokenizer

        timed = measure(*load_model(model, check=partial(check_tokenizer, opened)), opened, tokens)
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
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # our own message tells what came of a lost connection
    try:
        sys.exit(cli(standalone_mode=False))
    except RefactxError as error:
        _complain(str(error))
    except click.ClickException as error:  # a wrong option, say
        _complain(f"{error.format_message()} (`refactx --help` tells more)")
    except click.Abort:
        sys.exit(130)  # Ctrl-C


def _complain(message: str) -> NoReturn:
    click.echo(f"refactx: {without_password(' '.join(message.split()))}", err=True)
    sys.exit(2)
