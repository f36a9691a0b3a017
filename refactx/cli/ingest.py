"""`refactx ingest` and `refactx forget`: an index built from sources or changed by them, and a report on the lines."""

import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from refactx.cli.help import GroupedCommand
from refactx.cli.options import DB, JSON, OWN_INDEX
from refactx.cli.store import print_with_store
from refactx.errors import InputError
from refactx.fact import counted, visible

if TYPE_CHECKING:
    from refactx.ingest import ChangeResult, IngestResult
    from refactx.ingest.report import Report
    from refactx.ingest.selection import Selection
    from refactx.ingest.work import Resources
    from refactx.postgres.database import Database
    from refactx.tokenizer import FactTokenizer


FILE = click.Path(path_type=Path)
Command = TypeVar("Command", bound=Callable[..., Any])


def _size(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """Return a size as DuckDB takes it. Raise InputError if it is none: an ingest of few facts does not use DuckDB."""
    if not re.fullmatch(r"\d+(\.\d+)? ?([kmgt]i?)?b|\d+(\.\d+)?%", value.strip(), re.IGNORECASE):
        raise InputError(f"--memory {value!r} is not a size: give one such as 1GB, 512MB or 80%")
    return value


_WORK_DIR = click.option(
    "--work-dir", type=FILE, metavar="FOLDER", help="For temporary files; default: $REFACTX_HOME/work."
)
_WORKERS = click.option(
    "--workers",
    default=os.cpu_count() or 2,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Number of threads.",
)
_OPTIONS = (
    click.option("--limit", type=click.IntRange(1), metavar="N", help="For a trial: N subjects with all their facts."),
    click.option("--inverse", is_flag=True, help="Add inverse facts: <A> <director of> <B>."),
    click.option("--properties", metavar="LIST", help="Only these: P31,P569 or a file of ids."),
    click.option(
        "--languages", default="en,mul", show_default=True, metavar="LIST", help="Languages of names, best first."
    ),
    click.option("--keep-external-ids", is_flag=True, help="Keep identifiers in other databases."),
    click.option("--descriptions/--no-descriptions", default=True, help="<X> <description> <...>; default: on."),
    click.option("--aliases/--no-aliases", default=None, help="<JFK (alias)> <alias of> <...>; default: as --inverse."),
    click.option("--inverse-names", type=FILE, metavar="FILE", help="Lines of P57<TAB>director of, or TOML."),
    click.option(
        "--inverse-limit",
        default=1000,
        show_default=True,
        type=click.IntRange(1),
        metavar="N",
        help="At most N per object and property.",
    ),
    click.option("--profile", metavar="NAME", help="wikidata, rdf or FILE.toml; default: by the data."),
    click.option("--graph", "graphs", multiple=True, metavar="IRI", help="Only this named graph, or `default`."),
    click.option("--link", metavar="URL", help="Pages of things, with {id}, {local} or {label} in it."),
    click.option("--page", type=FILE, metavar="FILE", help="enwiki-...-page.sql.gz: titles as names."),
    click.option("--page-props", type=FILE, metavar="FILE", help="enwiki-...-page_props.sql.gz, with --page."),
    click.option("--strict", is_flag=True, help="Stop at the first malformed line."),
    click.option(
        "--memory",
        default="1GB",
        show_default=True,
        metavar="SIZE",
        callback=_size,
        help="Memory for joins and sorts.",
    ),
    _WORKERS,
    _WORK_DIR,
)
_TABLE_OPTIONS = (
    click.option("--columns", metavar="S,P,O", help="Of subject, predicate, object: names or numbers."),
    click.option("--no-header", is_flag=True, help="The first line is a row, not names of columns."),
    click.option("--delimiter", metavar="CHAR", help="Between cells: ';' or tab; default: what fits."),
    click.option("--encoding", metavar="NAME", help="Of text: latin-1, cp1252, utf-16; default: UTF-8."),
    click.option("--subject", multiple=True, metavar="COLUMN", help="Names the rows; the others are predicates."),
    click.option("--id", multiple=True, metavar="COLUMN", help="Has the ids of the rows; default: their names."),
    click.option("--description", multiple=True, metavar="COLUMN", help="Has a description of each row."),
    click.option("--alias", multiple=True, metavar="COLUMN", help="Has other names, with --aliases."),
    click.option("--list", multiple=True, metavar="CHAR", help="Between the values of a cell: '|', 'langs=,'."),
    click.option("--key", multiple=True, metavar="KEY", help="products.supplier=suppliers.id: joins tables."),
    click.option("--edges", is_flag=True, help="Objects are entities, as subjects are."),
    click.option("--labels", multiple=True, type=FILE, metavar="FILE", help="Lines of id<TAB>label<TAB>description."),
    click.option("--query", metavar="SQL", help="With sqlite:///file.db or postgresql://...: its rows."),
)
SOURCE_GROUPS = {
    "Tables": (
        *("columns", "no_header", "delimiter", "encoding", "subject", "id", "description", "alias", "list"),
        *("key", "edges", "labels", "query"),
    ),
    "Which facts": (
        *("properties", "languages", "keep_external_ids", "descriptions"),
        *("aliases", "inverse_names", "inverse_limit"),
        *("profile", "graphs", "link"),
    ),
    "Names from Wikipedia": ("page", "page_props"),
    "Database and machine": ("db", "strict", "memory", "workers", "work_dir"),
}


def source_options(command: Command) -> Command:
    """Add the options of sources to a command."""
    for option in reversed((*_OPTIONS, *_TABLE_OPTIONS)):
        command = option(command)
    return command


def machine_options(command: Command) -> Command:
    """Add `--workers` and `--work-dir` to a command."""
    return _WORKERS(_WORK_DIR(command))


def print_report(report: "Report") -> None:
    """Print how many lines of the sources were kept, and how many were left out for each reason."""
    named = ", ".join(f"{count:,} {rule}" for rule, count in report.names.items())
    if named:
        click.echo(f"entities: {report.entities:,}, named by {named}; {counted(report.collisions, 'name')} collided")
    click.echo(f"lines: {report.lines_read:,} read, {report.kept:,} kept")
    for reason, count in report.dropped.items():
        click.echo(f"  {count:>12,} dropped: {reason}")
    for text in (*report.malformed, *report.notes):
        click.echo(f"  {visible(text)}")
    for reason, count in report.not_inverted.items():
        if count:
            click.echo(f"  {count:>12,} claim{'' if count == 1 else 's'} got no inverse fact: {reason}")
    if report.cut:
        click.echo(f"  {counted(report.cut, 'part')} {'was' if report.cut == 1 else 'were'} cut at 1,000 characters")


def print_seconds(seconds: dict[str, float]) -> None:
    """Print how long each step took."""
    click.echo("  " + ", ".join(f"{step} {each:.1f} s" for step, each in seconds.items()))


MANY_SEGMENTS = 10
"""From this number on, a walk along new prefixes takes at least twice as long as in one segment
(docs/results/benchmarks.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceArguments:
    """The options of sources in the form that the functions of `refactx.ingest` take."""

    index: str
    work: Path
    wikipedia: tuple[Path, Path] | None
    selection: "Selection"
    strict: bool
    resources: "Resources"


GROUPS = {
    **SOURCE_GROUPS,
    "Database and machine": (*SOURCE_GROUPS["Database and machine"], "cluster", "cluster_work"),
}


@click.command(cls=GroupedCommand, groups=GROUPS)
@click.argument("sources", nargs=-1, metavar="SOURCE...")
@click.option("--tokenizer", metavar="MODEL", help="Of this model: Hugging Face id, folder or GGUF.")
@OWN_INDEX
@click.option("--replace", is_flag=True, help="Replace an existing index.")
@click.option("--append", "appends", is_flag=True, help="Add new facts to an existing index.")
@click.option("--kb", metavar="NAME", help="Take the facts of index NAME, not of a SOURCE.")
@click.option("--store", "stores", is_flag=True, help="Keep a store of RDF triples beside it, for SPARQL.")
@click.option("--cluster", metavar="URL", help="Build on Spark: spark://HOST:7077, sc://HOST, yarn.")
@click.option("--cluster-work", metavar="URI", help="With it: a folder in the storage of the cluster.")
@source_options
@JSON
@DB
def ingest(
    sources: tuple[str, ...],
    tokenizer: str | None,
    db: str | None,
    replace: bool,
    appends: bool,
    kb: str | None,
    stores: bool,
    cluster: str | None,
    cluster_work: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Build an index from files.

    \b
        .nt                  N-Triples: Wikidata's truthy dump, or any graph
        .ttl .rdf .jsonld    the same in another syntax of RDF
        .txt                 facts, one a line: <subject> <predicate> <object> .
        .csv .tsv .parquet   tables: subject, predicate, object, or --subject
        .jsonl .graphml      objects, one a line; nodes and edges
        -                    standard input: any of these except Parquet

    Files may be compressed. The same command continues a stopped ingest.
    """
    from refactx.build import keep_examples
    from refactx.index.open import database
    from refactx.models.loading import load_tokenizer

    if kb is not None and (sources or appends):
        raise InputError(
            f"--kb {kb} was given with {'--append' if appends else 'sources'}: leave "
            f"{'--append' if appends else 'the sources'} out, --kb takes the facts of that index"
        )
    if kb is not None:
        _check_no_source_option(given)
    if appends and replace:
        raise InputError("--append and --replace were both given: choose one")
    if kb is None and not sources:
        raise click.UsageError("Missing argument 'SOURCE...': give one or more files, or - for standard input")
    if tokenizer is None and not appends:
        raise click.UsageError("Missing option '--tokenizer': give the model that is to use the index")
    if (cluster is None) != (cluster_work is None):
        raise InputError("--cluster and --cluster-work belong together: give both, or neither")
    if cluster is not None and (appends or kb is not None or given["page"] or given["page_props"]):
        raise InputError(
            "--cluster builds an index from N-Triples or lines of facts: leave out --append, --kb, --page and --page-props"
        )
    arguments = _source_arguments(given)  # reports mistakes before a tokenizer is loaded or a server is started
    if kb is None and cluster is None:
        _check_sources(sources, arguments)
    loaded = None if tokenizer is None else load_tokenizer(tokenizer)
    with database(db) as opened:
        if appends:
            changed = _change("append", sources, opened, loaded[0] if loaded else None, arguments)
            _print_change(changed, opened, as_json, stores)
        elif loaded is not None:
            if cluster is not None and cluster_work is not None:
                result = _build_on_cluster(cluster, cluster_work, sources, opened, loaded, replace, arguments)
            else:
                result = _build(sources, kb, opened, loaded, replace, arguments)
            keep_examples(opened, result.index)
            print_with_store(opened, result.index, result.to_json, lambda: _show_result(result), as_json, builds=stores)


def _check_sources(sources: tuple[str, ...], given: SourceArguments) -> None:
    """Raise InputError if a database has no query, or a query no database."""
    from refactx.build import sources_of

    sources_of(sources, given.selection.tables)


def _check_no_source_option(given: dict[str, Any]) -> None:
    """Raise InputError if an option was given that says how to read sources."""
    context = click.get_current_context()
    for name in sorted(given.keys() - {"index", "memory", "workers", "work_dir"}):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise InputError(
                f"--{name.replace('_', '-')} was given with --kb, which takes all facts of an index: leave it out"
            )


@click.command(cls=GroupedCommand, groups=SOURCE_GROUPS)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@OWN_INDEX
@source_options
@JSON
@DB
def forget(sources: tuple[str, ...], db: str | None, as_json: bool, **given: Any) -> None:
    """Remove the facts of files from an index.

    Give the options of the ingest that added them; the format of the files may differ. Labels are not needed, since
    the index has the name of each id. If that ingest had --inverse, give it again: otherwise inverse facts stay.
    """
    from refactx.index.open import database

    arguments = _source_arguments(given)
    _check_sources(sources, arguments)
    with database(db) as opened:
        changed = _change("forget", sources, opened, None, arguments)
        _print_change(changed, opened, as_json)


def _build(
    sources: tuple[str, ...],
    kb: str | None,
    database: "Database",
    tokenizer: "tuple[FactTokenizer, str]",
    replace: bool,
    given: SourceArguments,
) -> "IngestResult":
    from refactx.build import sources_of
    from refactx.ingest import ingest, retokenise

    if kb is not None:
        return retokenise(
            kb,
            database,
            index=given.index,
            tokenizer=tokenizer[0],
            tokenizer_name=tokenizer[1],
            work=given.work,
            replace=replace,
            resources=given.resources,
        )
    return ingest(
        sources_of(sources, given.selection.tables),
        database,
        index=given.index,
        tokenizer=tokenizer[0],
        tokenizer_name=tokenizer[1],
        work=given.work,
        wikipedia=given.wikipedia,
        selection=given.selection,
        strict=given.strict,
        replace=replace,
        resources=given.resources,
    )


def _build_on_cluster(
    cluster: str,
    cluster_work: str,
    sources: tuple[str, ...],
    database: "Database",
    tokenizer: "tuple[FactTokenizer, str]",
    replace: bool,
    given: SourceArguments,
) -> "IngestResult":
    from refactx.ingest.cluster import build_index, session

    with session(cluster) as spark:
        return build_index(
            spark,
            sources,
            database,
            index=given.index,
            tokenizer=tokenizer[0],
            tokenizer_name=tokenizer[1],
            cluster_work=cluster_work,
            work=given.work,
            selection=given.selection,
            strict=given.strict,
            replace=replace,
            resources=given.resources,
        )


def _change(
    action: str,
    sources: tuple[str, ...],
    database: "Database",
    tokenizer: "FactTokenizer | None",
    given: SourceArguments,
) -> "ChangeResult":
    from refactx.build import sources_of
    from refactx.ingest import append, forget

    change = append if action == "append" else forget
    return change(
        sources_of(sources, given.selection.tables),
        database,
        index=given.index,
        work=given.work,
        tokenizer=tokenizer,
        wikipedia=given.wikipedia,
        selection=given.selection,
        strict=given.strict,
        resources=given.resources,
    )


def _source_arguments(given: dict[str, Any]) -> SourceArguments:
    from refactx.build import source_arguments

    rest = dict(given)
    return SourceArguments(index=rest.pop("index"), **source_arguments(rest))


def _print_change(changed: "ChangeResult", database: "Database", as_json: bool, builds_store: bool = False) -> None:
    if changed.note:
        click.echo(f"refactx: {changed.note}", err=True)
    print_with_store(
        database, changed.index, changed.to_json, lambda: _show_change(changed), as_json, builds=builds_store
    )


def _show_change(changed: "ChangeResult") -> None:
    done, passed_over = ("appended", "already there") if changed.change == "append" else ("removed", "not there")
    click.echo(
        f"index {changed.index}: {counted(changed.facts, 'fact')} {done}, {changed.passed_over:,} "
        f"{'was' if changed.passed_over == 1 else 'were'} {passed_over}; it has {changed.total:,} now"
    )
    if changed.segments >= MANY_SEGMENTS:
        command = f"refactx index compact {shlex.quote(changed.index)}"
        click.echo(f"it has {changed.segments} segments, which each lookup searches: `{command}` merges them")
    print_report(changed.report)
    print_seconds(changed.seconds)


def _show_result(result: "IngestResult") -> None:
    report = result.report
    aliases = (
        f", {report.aliases:,} of them {'an alias' if report.aliases == 1 else 'aliases'}" if report.aliases else ""
    )
    click.echo(
        f"index {result.index}: {counted(report.facts, 'fact')} ({counted(report.claims, 'claim')}{aliases}, "
        f"{counted(report.descriptions, 'description')}, {report.derived:,} inverse)"
    )
    print_report(report)
    click.echo(
        f"{result.size:,} bytes, {result.size / report.facts:.1f} a fact, {counted(result.tokens, 'token')}, "
        f"in {sum(result.seconds.values()):.1f} s"
    )
    print_seconds(result.seconds)
