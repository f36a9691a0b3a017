"""`refactx ingest` and `refactx forget`: an index built from sources or changed by them, and a report on the lines."""

import shlex
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from refactx.cli.help import MODELS, GroupedCommand
from refactx.cli.options import DB, JSON, OWN_INDEX, WRITABLE, declared, groups_of, print_json
from refactx.cli.store import follow, print_with_store
from refactx.errors import InputError
from refactx.fact import counted, line, visible
from refactx.ingest.source_options import SourceOptions

if TYPE_CHECKING:
    from refactx.ingest import ChangeResult, FactChange, IngestResult
    from refactx.ingest.report import Report
    from refactx.postgres.database import Database

source_options = declared(SourceOptions)
machine_options = declared(SourceOptions, "workers", "work_dir")
_MACHINE = "Database and machine"
GROUPS = {**groups_of(SourceOptions), _MACHINE: ("db", *groups_of(SourceOptions)[_MACHINE])}

MANY_SEGMENTS = 10
"""From this number on, a walk along new prefixes takes at least twice as long as in one segment
(docs/results/benchmarks.md)."""


def print_report(report: "Report") -> None:
    """Print how many lines of the sources were kept, and how many were left out for each reason."""
    named = ", ".join(f"{count:,} {rule}" for rule, count in report.names.items())
    if named:
        collided = f"; {counted(report.collisions, 'name')} collided" if report.collisions else ""
        click.echo(f"entities: {report.entities:,}, named by {named}{collided}")
    if report.names_by_language:
        by_language = (f"{number:,} {code}" for code, number in report.names_by_language.items())
        click.echo(f"names by language: {', '.join(by_language)}")
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
    click.echo("  " + ", ".join(f"{step} {each:.1f} s" for step, each in seconds.items()))


@click.command(cls=GroupedCommand, groups={**GROUPS, _MACHINE: (*GROUPS[_MACHINE], "cluster", "cluster_work")})
@click.argument("sources", nargs=-1, metavar="SOURCE...")
@click.option("--tokenizer", metavar="MODEL", help="Of this model: Hugging Face id, folder or GGUF.")
@OWN_INDEX
@click.option("--replace", is_flag=True, help="Replace an existing index.")
@click.option("--append", "appends", is_flag=True, help="Add new facts to an existing index.")
@click.option("--kb", metavar="NAME", help="Take the facts of index NAME, not of a SOURCE.")
@click.option("--store/--no-store", "stores", default=None, help="Keep a store for SPARQL; default: if small.")
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
    stores: bool | None,
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
        .sqlite .xlsx .ods   all tables of a database or a workbook; or a folder
        demo                 a sample of Wikidata in this package
        -                    standard input: any text of these

    Files may be compressed. The same command continues a stopped ingest.
    """
    from refactx.build import keep_examples, source_arguments, sources_of
    from refactx.index.open import database
    from refactx.ingest import append
    from refactx.models.loading import load_tokenizer

    if kb is not None and (sources or appends):
        raise InputError(
            f"--kb {kb} was given with {'--append' if appends else 'sources'}: leave "
            f"{'--append' if appends else 'the sources'} out, --kb takes the facts of that index"
        )
    if kb is not None:
        _check_no_source_option(given, "--kb, which takes all facts of an index")
    if appends and replace:
        raise InputError("--append and --replace were both given: choose one")
    if kb is None and not sources:
        raise click.UsageError("Missing argument 'SOURCE...': give one or more files, or - for standard input")
    if tokenizer is None and not appends:
        raise click.UsageError(f"Missing option '--tokenizer': give the model that is to use the index ({MODELS})")
    if (cluster is None) != (cluster_work is None):
        raise InputError("--cluster and --cluster-work belong together: give both, or neither")
    if cluster is not None and (appends or kb is not None or given["page"] or given["page_props"]):
        raise InputError(
            "--cluster builds an index from N-Triples, JSON of Wikidata or lines of facts: leave out --append, --kb, --page "
            "and --page-props"
        )
    index = given.pop("index")
    arguments = source_arguments(given)  # reports mistakes before a tokenizer is loaded or a server is started
    is_here = kb is None and cluster is None
    read = sources_of(sources, arguments["selection"].tables) if is_here else ()
    loaded = None if tokenizer is None else load_tokenizer(tokenizer)
    with database(db) as opened:
        if appends:
            changed = append(read, opened, index=index, tokenizer=loaded[0] if loaded else None, **arguments)
            _print_change(changed, opened, as_json, bool(stores))
        elif loaded is not None:
            new = {"index": index, "tokenizer": loaded[0], "tokenizer_name": loaded[1], "replace": replace, **arguments}
            result = _build(read if is_here else sources, opened, new, kb=kb, cluster=cluster, work=cluster_work)
            keep_examples(opened, result.index)
            print_with_store(opened, result.index, result.to_json, lambda: _show_result(result), as_json, builds=stores)


def _check_no_source_option(given: dict[str, Any], other: str, allowed: Collection[str] = ()) -> None:
    """Raise InputError if an option was given that says how to read sources. `other`: that with which it has no meaning."""
    context = click.get_current_context()
    for name in sorted(given.keys() - {"index", "memory", "workers", "work_dir", *allowed}):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise InputError(f"--{name.replace('_', '-')} was given with {other}: leave it out")


@click.command(cls=GroupedCommand, groups=GROUPS)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@OWN_INDEX
@source_options
@JSON
@DB
def update(sources: tuple[str, ...], db: str | None, as_json: bool, **given: Any) -> None:
    """Replace what an index has about the things in files, and add new things.

    The things of a table are its rows, which are found by their ids: in the column --id, or that of the ingest. All their
    facts are those of the file then: a column that it lacks is empty. What other things say about them stays.
    """
    from refactx.build import source_arguments, sources_of
    from refactx.index.open import database
    from refactx.ingest import update as update_in

    index = given.pop("index")
    arguments = source_arguments(given)
    read = sources_of(sources, arguments["selection"].tables)
    with database(db) as opened:
        _print_change(update_in(read, opened, index=index, **arguments), opened, as_json)


@click.command(cls=GroupedCommand, groups=GROUPS)
@click.argument("sources", nargs=-1, metavar="[SOURCE...]")
@click.option("--fact", metavar="FACT", help='A single one: "<Oslo> <mayor> <Ann Lee> .".')
@OWN_INDEX
@WRITABLE
@source_options
@JSON
@DB
def forget(
    sources: tuple[str, ...], fact: str | None, writable: str | None, db: str | None, as_json: bool, **given: Any
) -> None:
    """Remove the facts of files from an index, or everything about a thing.

    Without a SOURCE, --subject NAME is the name or the id of the thing; --fact is a single fact, whose inverse fact goes
    with it.

    Give the options of the ingest that added them; the format of the files may differ. Labels are not needed, since
    the index has the name of each id. If that ingest had --inverse, give it again: otherwise inverse facts stay.
    """
    from refactx.build import source_arguments, sources_of
    from refactx.index.open import database
    from refactx.ingest import forget as forget_from
    from refactx.ingest import forget_things

    index = given.pop("index")
    if fact is not None:
        from refactx.build import fact_writer

        if sources:
            raise InputError("--fact was given with a SOURCE: give one of them")
        _check_no_source_option(given, "--fact")
        with fact_writer(index, db, writable) as writer:
            return print_fact_change(writer.forget(fact), db, as_json)
    if writable is not None:
        raise InputError("--writable was given without --fact: give --index with the index that is changed")
    if not sources and not given["subject"]:
        raise click.UsageError(
            "Missing argument 'SOURCE...': give files with facts, --subject with the name of a thing, or --fact"
        )
    if not sources:
        _check_no_source_option(given, "--subject without a SOURCE, which names a thing", {"subject"})
    arguments = source_arguments(given)
    read = sources_of(sources, arguments["selection"].tables)
    with database(db) as opened:
        if sources:
            changed = forget_from(read, opened, index=index, **arguments)
        else:
            machine = {name: arguments[name] for name in ("work", "resources")}
            changed = forget_things(given["subject"], opened, index=index, **machine)
        return _print_change(changed, opened, as_json)


def _build(
    sources: Any, database: "Database", new: dict[str, Any], *, kb: str | None, cluster: str | None, work: str | None
) -> "IngestResult":
    """Build an index of sources, of another index (`kb`), or on a cluster. `new`: the arguments of all three."""
    from refactx.ingest import ingest, retokenise

    if cluster is None and kb is None:
        return ingest(sources, database, **new)
    del new["wikipedia"]
    if cluster is not None and work is not None:
        from refactx.ingest.cluster import build_index, spark_session

        with spark_session(cluster) as spark:
            return build_index(spark, sources, database, cluster_work=work, **new)
    del new["selection"], new["strict"]
    return retokenise(kb or "", database, **new)


def _print_change(changed: "ChangeResult", database: "Database", as_json: bool, builds_store: bool = False) -> None:
    if changed.note:
        click.echo(f"refactx: {changed.note}", err=True)
    print_with_store(
        database, changed.index, changed.to_json, lambda: _show_change(changed), as_json, builds=builds_store
    )


def print_fact_change(done: "FactChange", db: str | None, as_json: bool) -> None:
    """Print what became of a fact, and bring the store of the index to it. Raises InputError for a contradiction."""
    from refactx.documents import fact_change_document, to_json
    from refactx.index.open import database

    for note in done.notes:
        click.echo(f"refactx: {line(note)}", err=True)
    if as_json:
        print_json(to_json(fact_change_document(done)))
    else:
        for sign, facts in (("-", done.removed), ("+", done.added)):
            for fact in facts:
                click.echo(f"{sign} {line(fact)}")
    if done.contradicts:
        raise InputError(
            f"{done.fact} contradicts {'; '.join(done.contradicts)}: nothing was written. Give --also to have both, or "
            "`refactx correct` OLD NEW"
        )
    if done.is_written:
        with database(db) as opened:
            follow(opened, done.index)


def _show_change(changed: "ChangeResult") -> None:
    done, passed_over = {
        "append": ("appended", "already there"),
        "forget": ("removed", "not there"),
        "update": (f"added, {changed.removed:,} removed", "already there"),
    }[changed.change]
    of_things = f" of {counted(changed.things, 'thing')}" if changed.things else ""
    if changed.new:
        of_things += f", {changed.new:,} of them new"
    passed = f", {changed.passed_over:,} {'was' if changed.passed_over == 1 else 'were'} {passed_over}"
    click.echo(
        f"index {changed.index}: {counted(changed.facts, 'fact')} {done}{of_things}"
        f"{'' if changed.things and changed.change == 'forget' else passed}; it has {changed.total:,} now"
    )
    if changed.segments >= MANY_SEGMENTS:
        command = f"refactx index compact {shlex.quote(changed.index)}"
        click.echo(f"it has {changed.segments} segments, which each lookup searches: `{command}` merges them")
    if changed.report.lines_read:
        print_report(changed.report)
    print_seconds(changed.seconds)


def _show_result(result: "IngestResult") -> None:
    report = result.report
    aliases = (
        f", {report.aliases:,} of them {'an alias' if report.aliases == 1 else 'aliases'}" if report.aliases else ""
    )
    qualified = f", {report.statements:,} with qualifiers" if report.statements else ""
    click.echo(
        f"index {result.index}: {counted(report.facts, 'fact')} ({counted(report.claims, 'claim')}{aliases}, "
        f"{counted(report.descriptions, 'description')}, {report.derived:,} inverse{qualified})"
    )
    print_report(report)
    click.echo(
        f"{result.size:,} bytes, {result.size / report.facts:.1f} a fact, {counted(result.tokens, 'token')}, "
        f"in {sum(result.seconds.values()):.1f} s"
    )
    print_seconds(result.seconds)
