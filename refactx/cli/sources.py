"""What the commands that read sources share: which files, which facts of them, and how much of the machine."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from refactx.errors import InputError

if TYPE_CHECKING:
    from refactx.ingest.report import Report
    from refactx.ingest.selection import Selection

FILE = click.Path(path_type=Path)
Command = TypeVar("Command", bound=Callable[..., Any])


def _size(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """A size as DuckDB takes it. Few facts never come to DuckDB, and a slip of the finger should not wait for many."""
    if not re.fullmatch(r"\d+(\.\d+)? ?([kmgt]i?)?b|\d+(\.\d+)?%", value.strip(), re.IGNORECASE):
        raise InputError(f"{value!r} is no size of memory: expected one such as 1GB or 512MB")
    return value


_WORK_DIR = click.option(
    "--work-dir", type=FILE, metavar="FOLDER", help="Temporary files; default: work/ in REFACTX_HOME."
)
_WORKERS = click.option(
    "--workers", default=os.cpu_count() or 2, show_default=True, type=click.IntRange(1), help="Threads."
)
_OPTIONS = (
    click.option(
        "--page", type=FILE, metavar="FILE", help="enwiki-...-page.sql.gz: items are called by their Wikipedia titles."
    ),
    click.option(
        "--page-props",
        type=FILE,
        metavar="FILE",
        help="enwiki-...-page_props.sql.gz: belongs to --page; short descriptions too.",
    ),
    click.option("--properties", metavar="FILE_OR_LIST", help="Only claims with these: P31,P569, or a file of ids."),
    click.option(
        "--languages", default="en,mul", show_default=True, metavar="LIST", help="Of names and texts, the best first."
    ),
    click.option("--keep-external-ids", is_flag=True, help="Also properties that are identifiers elsewhere."),
    click.option(
        "--descriptions/--no-descriptions", default=True, help="Facts <X> <description> <...>; on by default."
    ),
    click.option(
        "--limit", type=click.IntRange(1), metavar="N", help="Only N subjects, each with all its facts: a trial."
    ),
    click.option(
        "--inverse", is_flag=True, help="Also inverse facts: <Danny Boyle> <director of> <Slumdog Millionaire>."
    ),
    click.option(
        "--inverse-names",
        type=FILE,
        metavar="FILE",
        help="Their predicates: P57<TAB>director of, a line each, or TOML.",
    ),
    click.option(
        "--inverse-limit",
        default=1000,
        show_default=True,
        type=click.IntRange(1),
        metavar="N",
        help="No inverse facts of an object with more than N subjects by a property.",
    ),
    click.option(
        "--aliases/--no-aliases",
        default=None,
        help="Also <JFK (alias)> <alias of> <John F. Kennedy>; with --inverse by default.",
    ),
    click.option("--strict", is_flag=True, help="Stop at the first malformed line instead of counting it."),
    click.option(
        "--memory",
        default="1GB",
        show_default=True,
        metavar="SIZE",
        callback=_size,
        help="Bound for joins and sorts.",
    ),
    _WORKERS,
    _WORK_DIR,
)
IN_OPTIONS = ("strict", "memory", "workers")
"""Those that are no part of the selection."""


def source_options(command: Command) -> Command:
    """Give a command the options of sources."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def machine_options(command: Command) -> Command:
    """Give a command `--workers` and `--work-dir`."""
    return _WORKERS(_WORK_DIR(command))


def work_dir_of(given: Path | None) -> Path:
    """The folder for temporary files."""
    from refactx.paths import refactx_home

    return given or refactx_home() / "work"


def both_dumps(page: Path | None, page_props: Path | None) -> tuple[Path, Path] | None:
    if page is None and page_props is None:
        return None
    if page is None or page_props is None:
        given, missing = ("--page", "--page-props") if page_props is None else ("--page-props", "--page")
        raise InputError(f"{given} was given without {missing}: titles need both dumps, so give both, or neither")
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


def print_lines(report: "Report") -> None:
    """What became of the lines of the sources."""
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


def print_seconds(seconds: dict[str, float]) -> None:
    """How long each step took."""
    click.echo("  " + ", ".join(f"{step} {each:.1f} s" for step, each in seconds.items()))
