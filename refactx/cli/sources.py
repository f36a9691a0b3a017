"""The options of the commands that read sources: which facts to take, and limits of the machine; and their reports."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from refactx.errors import InputError
from refactx.fact import counted, visible

if TYPE_CHECKING:
    from refactx.ingest.report import Report
    from refactx.ingest.selection import Selection

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
SOURCE_GROUPS = {
    "Which facts": (
        *("properties", "languages", "keep_external_ids", "descriptions"),
        *("aliases", "inverse_names", "inverse_limit"),
    ),
    "Names from Wikipedia": ("page", "page_props"),
    "Database and machine": ("db", "strict", "memory", "workers", "work_dir"),
}


def source_options(command: Command) -> Command:
    """Add the options of sources to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def machine_options(command: Command) -> Command:
    """Add `--workers` and `--work-dir` to a command."""
    return _WORKERS(_WORK_DIR(command))


def work_dir_of(given: Path | None) -> Path:
    """Return the folder for temporary files."""
    from refactx.paths import refactx_home

    return given or refactx_home() / "work"


def wikipedia_dumps(page: Path | None, page_props: Path | None) -> tuple[Path, Path] | None:
    """Return both dumps of Wikipedia, or None if neither is given. Raise InputError if only one is given."""
    if page is None and page_props is None:
        return None
    if page is None or page_props is None:
        given, missing = ("--page", "--page-props") if page_props is None else ("--page-props", "--page")
        raise InputError(f"{given} was given without {missing}: give both dumps, or neither")
    return page, page_props


def selection_of(
    *,
    properties: str | None,
    languages: str,
    keep_external_ids: bool,
    descriptions: bool,
    limit: int | None,
    inverse: bool,
    inverse_names: Path | None,
    inverse_limit: int,
    aliases: bool | None,
) -> "Selection":
    """Return the selection that the options describe. Raise InputError if a value or a file cannot be used."""
    from refactx.ingest.knowledge.inverse_labels import read_inverse_names
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
        aliases=aliases,
    )


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
