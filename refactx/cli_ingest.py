"""`refactx ingest`: sources → an index, and the account of what became of every line."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from refactx.cli_options import DB, INDEX, JSON, print_json
from refactx.errors import InputError

if TYPE_CHECKING:
    from refactx.ingest.run import Result
    from refactx.ingest.selection import Selection

FILE = click.Path(path_type=Path)


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", type=FILE)
@click.option(
    "--tokenizer", required=True, metavar="ID_OR_FOLDER", help="Hugging Face id, folder, tokenizer.json or GGUF."
)
@INDEX
@DB
@click.option("--replace", is_flag=True, help="Build anew an index that exists; readers see the old one until then.")
@click.option(
    "--page", type=FILE, metavar="FILE", help="enwiki-...-page.sql.gz: items are called by their Wikipedia titles."
)
@click.option(
    "--page-props",
    type=FILE,
    metavar="FILE",
    help="enwiki-...-page_props.sql.gz: belongs to --page; short descriptions too.",
)
@click.option("--properties", metavar="FILE_OR_LIST", help="Only claims with these: P31,P569, or a file of ids.")
@click.option(
    "--languages", default="en,mul", show_default=True, metavar="LIST", help="Of names and texts, the best first."
)
@click.option("--keep-external-ids", is_flag=True, help="Also properties that are identifiers elsewhere.")
@click.option("--descriptions/--no-descriptions", default=True, help="Facts <X> <description> <...>; on by default.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only N subjects, each with all its facts: a trial.")
@click.option("--inverse", is_flag=True, help="Also inverse facts: <Danny Boyle> <director of> <Slumdog Millionaire>.")
@click.option(
    "--inverse-names", type=FILE, metavar="FILE", help="Their predicates: P57<TAB>director of, a line each, or TOML."
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
@click.option("--memory", default="1GB", show_default=True, metavar="SIZE", help="Bound for joins and sorts.")
@click.option("--workers", default=os.cpu_count() or 2, show_default=True, type=click.IntRange(1), help="Threads.")
@click.option("--work-dir", type=FILE, metavar="FOLDER", help="Temporary files; default: work/ in REFACTX_HOME.")
@JSON
def ingest(
    sources: tuple[Path, ...],
    tokenizer: str,
    page: Path | None,
    page_props: Path | None,
    work_dir: Path | None,
    db: str | None,
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
    from refactx.home import refactx_home
    from refactx.ingest.run import Options, ingest
    from refactx.models import load_tokenizer

    wikipedia = _both(page, page_props)
    in_options = ("index", "replace", "strict", "memory", "workers")
    selection = _selection(**{name: value for name, value in given.items() if name not in in_options})
    fact_tokenizer, name = load_tokenizer(tokenizer)
    options = Options(
        tokenizer=fact_tokenizer,
        tokenizer_name=name,
        selection=selection,
        **{option: given[option] for option in in_options},
    )
    with database(db) as opened:
        result = ingest(sources, opened, work_dir or refactx_home() / "work", options, wikipedia)
    if as_json:
        print_json(result.to_json())
    else:
        _print_account(result)


def _both(page: Path | None, page_props: Path | None) -> tuple[Path, Path] | None:
    if page is None and page_props is None:
        return None
    if page is None or page_props is None:
        given, missing = ("--page", "--page-props") if page_props is None else ("--page-props", "--page")
        raise InputError(f"{given} was given without {missing}: titles need both dumps, so give both, or neither")
    return page, page_props


def _selection(
    *,
    properties: str | None,
    languages: str,
    keep_external_ids: bool,
    descriptions: bool,
    limit: int | None,
    inverse: bool,
    inverse_names: Path | None,
    inverse_limit: int,
) -> "Selection":
    from refactx.ingest.inverse_names import read_inverse_names
    from refactx.ingest.selection import Selection, languages_of, properties_of

    return Selection(
        properties=None if properties is None else properties_of(properties),
        languages=languages_of(languages),
        keep_external_ids=keep_external_ids,
        descriptions=descriptions,
        limit=limit,
        inverse=inverse,
        inverse_names=() if inverse_names is None else read_inverse_names(inverse_names),
        inverse_limit=inverse_limit,
    )


def _print_account(result: "Result") -> None:
    report = result.report
    click.echo(
        f"index {result.index}: {report.facts:,} facts ({report.claims:,} claims, {report.descriptions:,} descriptions, "
        f"{report.derived:,} inverse)"
    )
    named = ", ".join(f"{count:,} {rule}" for rule, count in report.names.items())
    if named:
        click.echo(f"entities: {report.entities:,}, named by {named}; {report.collisions:,} names collided")
    click.echo(f"lines: {report.lines_read:,} read, {report.kept:,} kept")
    for reason, count in report.dropped.items():
        click.echo(f"  {count:>12,} dropped: {reason}")
    for line in (*report.malformed, *report.notes):
        click.echo(f"  {line}")
    for reason, count in report.not_inverted.items():
        if count:
            click.echo(f"  {count:>12,} claims got no inverse fact: {reason}")
    if report.cut:
        click.echo(f"  {report.cut:,} parts were cut at 1,000 characters")
    click.echo(
        f"{result.size:,} bytes, {result.size / report.facts:.1f} a fact, {result.tokens:,} tokens, "
        f"in {sum(result.seconds.values()):.1f} s"
    )
    click.echo("  " + ", ".join(f"{step} {seconds:.1f} s" for step, seconds in result.seconds.items()))
