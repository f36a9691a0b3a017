"""The command line: a thin layer over the library.

Results go to standard output, progress and logs to standard error. A mistake of the user's is one line and exit code 2.
Whatever is slow to import is imported by the command that needs it.
"""

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from refactx.errors import RefactxError, without_password

JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
DB = click.option(
    "--db",
    metavar="URL",
    help="PostgreSQL, e.g. postgresql://me@host/kb; default: $REFACTX_DB, else the embedded server.",
)
INDEX = click.option("--index", default="default", show_default=True, metavar="NAME", help="Name of the index.")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="refactx", prog_name="refactx")
def cli() -> None:
    """Language models that write facts from a knowledge base, and only facts that exist."""


@cli.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", type=click.Path(path_type=Path))
@click.option(
    "--tokenizer", required=True, metavar="ID_OR_FOLDER", help="Hugging Face id, folder, tokenizer.json or GGUF."
)
@INDEX
@DB
@click.option("--replace", is_flag=True, help="Build anew an index that exists; readers see the old one until then.")
@click.option("--properties", metavar="FILE_OR_LIST", help="Only claims with these: P31,P569, or a file of ids.")
@click.option(
    "--languages", default="en,mul", show_default=True, metavar="LIST", help="Of names and texts, the best first."
)
@click.option("--keep-external-ids", is_flag=True, help="Also properties that are identifiers elsewhere.")
@click.option("--descriptions/--no-descriptions", default=True, help="Facts <X> <description> <...>; on by default.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only N subjects, each with all its facts: a trial.")
@click.option("--inverse", is_flag=True, help="Also inverse facts: <Danny Boyle> <director of> <Slumdog Millionaire>.")
@click.option(
    "--inverse-names",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Their predicates: P57<TAB>director of, or TOML.",
)
@click.option(
    "--inverse-limit",
    default=1000,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="No inverse facts of an object with more than N subjects by a property.",
)
@click.option("--strict", is_flag=True, help="Stop at the first malformed line instead of counting it.")
@click.option("--memory", default="1GB", show_default=True, help="Bound for joins and sorts.")
@click.option("--workers", default=os.cpu_count() or 2, show_default=True, type=click.IntRange(1), help="Threads.")
@click.option("--work-dir", type=click.Path(path_type=Path), help="Temporary files; default: work/ in REFACTX_HOME.")
@JSON
def ingest(
    sources: tuple[Path, ...],
    tokenizer: str,
    index: str,
    db: str | None,
    replace: bool,
    properties: str | None,
    languages: str,
    keep_external_ids: bool,
    descriptions: bool,
    limit: int | None,
    inverse: bool,
    inverse_names: Path | None,
    inverse_limit: int,
    strict: bool,
    memory: str,
    workers: int,
    work_dir: Path | None,
    as_json: bool,
) -> None:
    """Build an index from SOURCES: Wikidata N-Triples or facts, `<subject> <predicate> <object> .` a line.

    Either may be compressed (gzip, bzip2, zstandard); `-` is standard input. Stopped, the same command goes on.
    """
    from refactx.connect import database
    from refactx.home import refactx_home
    from refactx.ingest.inverse_names import read_inverse_names
    from refactx.ingest.run import Options, ingest
    from refactx.ingest.selection import Selection, languages_of, properties_of
    from refactx.models import load_tokenizer

    selection = Selection(
        properties=None if properties is None else properties_of(properties),
        languages=languages_of(languages),
        keep_external_ids=keep_external_ids,
        descriptions=descriptions,
        limit=limit,
        inverse=inverse,
        inverse_names=() if inverse_names is None else read_inverse_names(inverse_names),
        inverse_limit=inverse_limit,
    )
    fact_tokenizer, name = load_tokenizer(tokenizer)
    options = Options(
        *(index, fact_tokenizer, name, selection),
        replace=replace,
        strict=strict,
        memory=memory,
        workers=workers,
        quiet=False,
    )
    with database(db) as opened:
        result = ingest(sources, opened, work_dir or refactx_home() / "work", options)
    if as_json:
        return _print_json(result.to_json())
    report = result.report
    click.echo(
        f"index {index}: {report.facts:,} facts ({report.claims:,} claims, {report.descriptions:,} descriptions, "
        f"{report.derived:,} inverse)"
    )
    named = ", ".join(f"{count:,} {rule}" for rule, count in report.names.items())
    if named:
        click.echo(f"entities: {report.entities:,}, named by {named}; {report.collisions:,} names collided")
    click.echo(f"lines: {report.lines_read:,} read, {report.kept:,} kept")
    for reason, count in report.dropped.items():
        click.echo(f"  {count:>12,} dropped: {reason}")
    for fault in report.malformed:
        click.echo(f"  {fault}")
    for reason, count in report.not_inverted.items():
        click.echo(f"  {count:>12,} claims got no inverse fact: {reason}")
    if report.cut:
        click.echo(f"  {report.cut:,} parts were cut at 1,000 characters")
    click.echo(
        f"{result.size:,} bytes, {result.size / report.facts:.1f} a fact, {result.tokens:,} tokens, "
        f"in {sum(result.seconds.values()):.1f} s"
    )
    click.echo("  " + ", ".join(f"{step} {seconds:.1f} s" for step, seconds in result.seconds.items()))
    return None


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
                _print_json(answer.to_json())
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
        return _print_json(report)
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
        return _print_json({"index": index, "prefix": prefix, "completions": completions})
    for text, leaves in found:
        click.echo(f"{leaves:>12,}  {text}")
    if not found:
        click.echo(f"no fact of index {index!r} begins with {prefix!r}", err=True)
    return None


@cli.group()
def index() -> None:
    """List, show, verify and drop indexes."""


@index.command("list")
@DB
@click.option("--all", "every", is_flag=True, help="Also those being built, and what killed ingests left.")
@JSON
def list_(db: str | None, every: bool, as_json: bool) -> None:
    """List the indexes."""
    from refactx.connect import database
    from refactx.describe import described
    from refactx.postgres import list_indexes

    with database(db) as opened, opened.connection() as connection:
        found = [described(entry) for entry in list_indexes(connection, every=every)]
    if as_json:
        return _print_json(found)
    for entry in found:
        state = "" if entry["state"] == "ready" else f"  [{entry['state']}]"
        click.echo(
            f"{entry['name']:<24} {entry['facts']:>14,} facts  {entry['bytes_per_fact'] or 0:>6.1f} bytes a fact"
            f"  {entry['tokenizer']}{state}"
        )
    return None


@index.command()
@click.argument("name")
@DB
@JSON
def show(name: str, db: str | None, as_json: bool) -> None:
    """Show what an index holds and what it takes."""
    from refactx.connect import open_index
    from refactx.describe import described, shape_of

    with open_index(name, db) as opened:
        found = described(opened.entry) | shape_of(opened)
    if as_json:
        return _print_json(found)
    for key, value in found.items():
        if not isinstance(value, dict):
            click.echo(f"{key:<20} {f'{value:,}' if isinstance(value, int) else value}")
    return None


@index.command()
@click.argument("name")
@DB
@JSON
def verify(name: str, db: str | None, as_json: bool) -> None:
    """Walk everything of an index; exit code 1, with the first faults, if anything is wrong."""
    from tqdm import tqdm

    from refactx.connect import open_index
    from refactx.verify import verify as walk

    with open_index(name, db) as opened, tqdm(total=opened.facts, unit=" facts", unit_scale=True, disable=None) as bar:
        verdict = walk(opened, bar.update)
    if as_json:
        _print_json(
            {
                "index": name,
                "sound": verdict.sound,
                "faults": verdict.faults,
                "rows": verdict.rows,
                "facts": verdict.facts,
                "tokens": verdict.tokens,
                "sampled": verdict.sampled,
            }
        )
    elif verdict.sound:
        click.echo(
            f"index {name}: sound ({verdict.rows:,} rows, {verdict.facts:,} facts, {verdict.sampled:,} read back)"
        )
    else:
        for fault in verdict.faults:
            click.echo(fault)
    if not verdict.sound:
        sys.exit(1)


@index.command()
@click.argument("name")
@DB
@JSON
def drop(name: str, db: str | None, as_json: bool) -> None:
    """Drop an index, or what a killed ingest left of it."""
    from refactx.connect import database
    from refactx.ingest.catalogue import drop as drop_index

    with database(db) as opened, opened.connection() as connection:
        drop_index(connection, name)
    if as_json:
        return _print_json({"dropped": name})
    click.echo(f"dropped {name}")
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
        return _print_json(document)
    click.echo((out / "throughput.md").read_text(encoding="utf-8").rstrip())
    click.echo(f"plot: {out / 'throughput.svg'}")
    return None


def _print_json(document: Any) -> None:
    click.echo(json.dumps(document, ensure_ascii=False, default=str))


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
