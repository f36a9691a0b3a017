"""`refactx ingest` and `refactx forget`: sources → an index or a change of one, and what became of every line."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from click.core import ParameterSource

from refactx.cli.options import DB, INDEX, JSON, print_json
from refactx.cli.sources import (
    IN_OPTIONS,
    both_dumps,
    print_lines,
    print_seconds,
    selection_of,
    source_options,
    work_dir_of,
)
from refactx.errors import InputError

if TYPE_CHECKING:
    from refactx.ingest.change import Changed
    from refactx.ingest.new_index import Result
    from refactx.ingest.selection import Selection
    from refactx.postgres.database import Database
    from refactx.tokenizer import FactTokenizer

FILE = click.Path(path_type=Path)

MANY_SEGMENTS = 10
"""From here on a walk along new prefixes takes twice as long as in one segment, or longer (docs/benchmarks.md)."""

Parts: TypeAlias = "tuple[str, Path, tuple[Path, Path] | None, Selection, dict[str, Any]]"


@click.command()
@click.argument("sources", nargs=-1, metavar="SOURCE...", type=FILE)
@click.option(
    "--tokenizer", metavar="ID_OR_FOLDER", help="Hugging Face id, folder, tokenizer.json or GGUF; not with --append."
)
@INDEX
@DB
@click.option("--replace", is_flag=True, help="Build anew an index that exists; readers see the old one until then.")
@click.option("--append", "appends", is_flag=True, help="Add to an index that exists what it does not have yet.")
@click.option("--kb", metavar="NAME", help="Instead of SOURCES: the facts of index NAME, for another --tokenizer.")
@source_options
@JSON
def ingest(
    sources: tuple[Path, ...],
    tokenizer: str | None,
    db: str | None,
    replace: bool,
    appends: bool,
    kb: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Build an index from SOURCES, of one format or mixed:

    \b
      .nt                  Wikidata's truthy dump, or other N-Triples in its vocabulary
      .ttl .rdf            the same in Turtle or RDF/XML
      .txt                 ready-made facts, <subject> <predicate> <object> . a line
      .csv .tsv .parquet   tables with columns subject, predicate, object
      -                    standard input: any of these but Parquet, known by its first line

    All but Parquet may be compressed: gzip, bzip2, zstandard. Every line that is left out is counted by its reason. If an
    ingest is stopped, the same command goes on behind its last finished step.
    """
    from refactx.connect import database
    from refactx.models.loading import load_tokenizer

    if kb is not None and (sources or appends):
        raise InputError(
            f"--kb {kb} was given with {'--append' if appends else 'sources'}: it reads the facts of that index"
        )
    if kb is not None:
        _check_no_source_option(given)
    if appends and replace:
        raise InputError("--append and --replace were both given: choose one")
    if kb is None and not sources:
        raise click.UsageError("Missing argument 'SOURCE...'.")
    if tokenizer is None and not appends:
        raise click.UsageError("Missing option '--tokenizer'.")
    parts = _parts(given)  # a mistake in it is told before a tokenizer is loaded, or a server started
    loaded = None if tokenizer is None else load_tokenizer(tokenizer)
    with database(db) as opened:
        if appends:
            _print_change(_change("append", sources, opened, loaded[0] if loaded else None, parts), as_json)
        elif loaded is not None:
            _print_result(_build(sources, kb, opened, loaded, replace, parts), as_json)


def _check_no_source_option(given: dict[str, Any]) -> None:
    """Raise InputError if an option was typed that says how to read sources."""
    context = click.get_current_context()
    for name in sorted(given.keys() - {"index", "memory", "workers", "work_dir"}):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise InputError(
                f"--{name.replace('_', '-')} is for sources, and --kb takes all facts of an index: leave it out"
            )


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", type=FILE)
@INDEX
@DB
@source_options
@JSON
def forget(sources: tuple[Path, ...], db: str | None, as_json: bool, **given: Any) -> None:
    """Retract the facts of SOURCES from an index. Options as of the ingest that they came by, sources of any format.

    Claims need no labels here: what has a name in the index is known by its id. Without the --inverse
    that an index was ingested with, the inverse facts of claims stay.
    """
    from refactx.connect import database

    parts = _parts(given)
    with database(db) as opened:
        _print_change(_change("forget", sources, opened, None, parts), as_json)


def _build(
    sources: tuple[Path, ...],
    kb: str | None,
    database: "Database",
    tokenizer: "tuple[FactTokenizer, str]",
    replace: bool,
    parts: Parts,
) -> "Result":
    from refactx.ingest.new_index import Options, ingest
    from refactx.ingest.retokenisation import ingest_knowledge_base

    index, work, wikipedia, selection, machine = parts
    options = Options(index, *tokenizer, selection, replace, **machine)
    if kb is not None:
        return ingest_knowledge_base(kb, database, work, options)
    return ingest(sources, database, work, options, wikipedia)


def _change(
    action: str,
    sources: tuple[Path, ...],
    database: "Database",
    tokenizer: "FactTokenizer | None",
    parts: Parts,
) -> "Changed":
    from refactx.ingest.change import ChangeOptions, append, forget

    index, work, wikipedia, selection, machine = parts
    options = ChangeOptions(index, tokenizer, selection, **machine)
    return (append if action == "append" else forget)(sources, database, work, options, wikipedia)


def _parts(given: dict[str, Any]) -> Parts:
    """The index, the work folder, Wikipedia's dumps, the selection, and the rest of the options of sources."""
    rest = dict(given)
    index, work = rest.pop("index"), work_dir_of(rest.pop("work_dir"))
    wikipedia = both_dumps(rest.pop("page"), rest.pop("page_props"))
    machine = {name: rest.pop(name) for name in IN_OPTIONS}
    return index, work, wikipedia, selection_of(**rest), machine


def _print_change(changed: "Changed", as_json: bool) -> None:
    if changed.note:
        click.echo(f"refactx: {changed.note}", err=True)
    if as_json:
        return print_json(changed.to_json())
    done, passed_over = (
        ("appended", "were already there") if changed.change == "append" else ("retracted", "were not there")
    )
    click.echo(
        f"index {changed.index}: {changed.facts:,} facts {done}, {changed.passed_over:,} {passed_over}; "
        f"it has {changed.total:,} now"
    )
    if changed.segments >= MANY_SEGMENTS:
        command = f"refactx index compact {shlex.quote(changed.index)}"
        click.echo(
            f"it has {changed.segments} segments, each of which a reader looks through: `{command}` makes them one"
        )
    print_lines(changed.report)
    print_seconds(changed.seconds)
    return None


def _print_result(result: "Result", as_json: bool) -> None:
    if as_json:
        return print_json(result.to_json())
    report = result.report
    aliases = f", {report.aliases:,} of them aliases" if report.aliases else ""
    click.echo(
        f"index {result.index}: {report.facts:,} facts ({report.claims:,} claims{aliases}, "
        f"{report.descriptions:,} descriptions, {report.derived:,} inverse)"
    )
    print_lines(report)
    click.echo(
        f"{result.size:,} bytes, {result.size / report.facts:.1f} a fact, {result.tokens:,} tokens, "
        f"in {sum(result.seconds.values()):.1f} s"
    )
    print_seconds(result.seconds)
    return None
