"""`refactx index`: commands on whole indexes."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from refactx.cli.help import IndexCommand, OrderedGroup
from refactx.cli.ingest import machine_options
from refactx.cli.options import ANY_NAME, DB, DROPPED, JSON, NAME, in_database, print_done, print_json
from refactx.cli.store import drop_store, print_with_store
from refactx.errors import DatabaseError, IndexNotFoundError, InputError, RefactxError
from refactx.fact import counted, line

if TYPE_CHECKING:
    from refactx.ingest import CompactResult
    from refactx.postgres.database import Database
    from refactx.share.export import ExportResult


FILE = click.Path(path_type=Path)


@click.command("export", cls=IndexCommand)
@DROPPED
@click.argument("file", type=FILE)
@DB
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@JSON
def export(name: str, file: Path, db: str | None, force: bool, as_json: bool) -> None:
    """Write an index to a file.

    `refactx index import` adds it to any server, and every command that reads an index reads the file itself, as --index
    FILE. If FILE is -, it goes to standard output.
    """
    from refactx.index.open import database
    from refactx.share.export import export_index

    is_stream = str(file) == "-"
    with database(db) as opened, _bar("export") as progress:
        if is_stream:
            done = _export_to_stdout(opened, name, progress)
        else:
            done = export_index(opened, name, file, force=force, progress=progress)
    if as_json:
        return print_json(asdict(done) | {"file": str(file)}, err=is_stream)
    click.echo(
        f"exported {name} to {file}: {counted(done.facts, 'fact')}, {done.size:,} bytes, checksum {done.checksum}",
        err=is_stream,
    )
    return None


@click.command("import")
@click.argument("file", type=FILE)
@click.option("--index", metavar="NAME", callback=in_database, help="Its new name; default: as exported.")
@DB
@click.option("--replace", is_flag=True, help="Replace an existing index; readers keep the old one.")
@JSON
def import_(file: Path, index: str | None, db: str | None, replace: bool, as_json: bool) -> None:
    """Add an index from a file of `refactx index export`.

    If FILE is -, it is read from standard input. Everything in it is checked first. The same command continues an
    import that was stopped.
    """
    from refactx.index.open import database
    from refactx.share.importing import import_index, import_stream

    with database(db) as opened:
        with _bar("import") as progress:
            if str(file) == "-":
                if sys.stdin.isatty():
                    raise InputError("refusing to read an index from a terminal: give a file or a pipe")
                done = import_stream(
                    opened, sys.stdin.buffer, "standard input", index, replace=replace, progress=progress
                )
            else:
                done = import_index(opened, file, index, replace=replace, progress=progress)
        document = asdict(done) | {"file": str(file)}
        resumed = f", {done.resumed:,} of {done.rows:,} rows already there" if done.resumed else ""
        said = f"imported {done.index}: {counted(done.facts, 'fact')}, {done.size:,} bytes{resumed}, checksum {done.checksum}"
        print_with_store(opened, done.index, lambda: document, lambda: click.echo(said), as_json, builds=None)


def _export_to_stdout(database: "Database", name: str, progress: Callable[[int, int], object]) -> "ExportResult":
    from refactx.share.export import export_stream

    if sys.stdout.isatty():
        raise InputError("refusing to write binary data to a terminal: give a file or a pipe")
    try:
        return export_stream(database, name, sys.stdout.buffer, progress=progress)
    except RefactxError:
        # Python would report the broken pipe again at exit, for what is still buffered.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


@contextmanager
def _bar(what: str) -> Iterator[Callable[[int, int], object]]:
    """Show progress in rows on standard error."""
    from refactx.progress import progress_bar

    with progress_bar(what, unit=" rows", unit_scale=True) as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done)

        yield progress


@click.group(cls=OrderedGroup)
def index() -> None:
    """List, check, share and maintain indexes."""


@index.command("list")
@DB
@click.option("--all", "every", is_flag=True, help="Also list unfinished ones, of running and killed ingests.")
@JSON
def list_(db: str | None, every: bool, as_json: bool) -> None:
    """List the indexes."""
    from refactx.index.index import index_document
    from refactx.index.open import database
    from refactx.postgres.catalogue import list_indexes

    with database(db) as opened, opened.connection() as connection:
        found = [index_document(entry) for entry in list_indexes(connection, every=every)]
    if as_json:
        return print_json(found)
    if not found:
        click.echo("there is no index in this database: build one with `refactx ingest`", err=True)
    if found:
        click.echo(f"{'index':<24} {'facts':>14}  {'bytes a fact':>12}  tokenizer")
    for entry in found:
        state = "" if entry["state"] == "ready" else f"  [{entry['state']}]"
        if every and entry["unfinished"]:
            state += "  [a change is running, or was killed]"
        click.echo(
            f"{line(entry['name']):<24} {entry['facts']:>14,}  {entry['bytes_per_fact'] or 0:>12.1f}  "
            f"{line(entry['tokenizer'])}{state}"
        )
    return None


@index.command(cls=IndexCommand)
@ANY_NAME
@DB
@JSON
def show(name: str, db: str | None, as_json: bool) -> None:
    """Show the contents and the size of an index, or of an index file."""
    from refactx.index.index import index_document, shape_of
    from refactx.index.open import open_index

    with open_index(name, db) as opened:
        if opened.is_joined:
            raise InputError(f"{name} are several indexes: show them one by one")
        found = index_document(opened.entry) | shape_of(opened)
    if as_json:
        return print_json(found)
    for key, value in found.items():
        if not isinstance(value, dict):
            click.echo(f"{key:<20} {f'{value:,}' if isinstance(value, int) else line(str(value))}")
    return None


@index.command(cls=IndexCommand)
@ANY_NAME
@DB
@JSON
def verify(name: str, db: str | None, as_json: bool) -> None:
    """Check everything in an index, or in an index file.

    If it is damaged, print the first faults and exit with code 1.
    """
    from refactx.index.open import open_index
    from refactx.index.verify import verify as walk
    from refactx.progress import progress_bar

    with open_index(name, db) as opened:
        total = sum(tree.facts for _, tree in opened.segments)
        try:
            with progress_bar("checking", total, unit=" facts", unit_scale=True) as bar:
                verdict = walk(opened, bar.update)
        except (DatabaseError, IndexNotFoundError) as error:  # of a reader, who would open the index again
            raise DatabaseError(
                f"index {name} was not checked to its end, so nothing is known about it ({error}): run the command again"
            ) from error
    if as_json:
        print_json({"index": name, "sound": verdict.sound, **asdict(verdict)})
    elif verdict.sound:
        click.echo(
            f"index {name}: sound ({counted(verdict.rows, 'row')}, {counted(verdict.facts, 'fact')}, "
            f"{verdict.sampled:,} read back)"
        )
    else:
        for fault in verdict.faults:
            click.echo(fault)
    if not verdict.sound:
        sys.exit(1)


@index.command(cls=IndexCommand)
@DROPPED
@click.option("--unfinished", is_flag=True, help="Delete only what killed ingests left of it.")
@DB
@JSON
def drop(name: str, unfinished: bool, db: str | None, as_json: bool) -> None:
    """Delete an index, what killed ingests left of it, and its store."""
    from refactx.index.open import database
    from refactx.postgres.writing import drop as drop_index

    with database(db) as opened, opened.connection() as connection:
        drop_index(connection, name, unfinished=unfinished)
        had_store = not unfinished and drop_store(opened, name)
    what = f"{'the unfinished parts of ' if unfinished else ''}{name}{' and its store' if had_store else ''}"
    print_done(as_json, {"dropped": name}, f"dropped {what}")


@index.command(cls=IndexCommand)
@NAME
@DB
@machine_options
@JSON
def compact(name: str, db: str | None, workers: int, work_dir: Path | None, as_json: bool) -> None:
    """Merge all segments of an index into one. Readers continue meanwhile."""
    from refactx.build import work_dir_of
    from refactx.index.open import database
    from refactx.ingest import Resources
    from refactx.ingest import compact as compact_index

    if hasattr(os, "nice"):  # Windows has none
        os.nice(10)  # readers on this machine have priority
    with database(db) as opened:
        done = compact_index(opened, index=name, work=work_dir_of(work_dir), resources=Resources(workers=workers))
        print_with_store(opened, done.index, done.to_json, lambda: _show_compaction(done), as_json)


def _show_compaction(done: "CompactResult") -> None:
    if not done.seconds:
        click.echo(
            f"index {done.index}: nothing to do, {counted(done.facts, 'fact')} in {counted(done.segments, 'segment')}"
        )
    else:
        click.echo(
            f"index {done.index}: {counted(done.facts, 'fact')}, of {counted(done.segments, 'segment')} and "
            f"{counted(done.name_tables, 'table')} of names, in {sum(done.seconds.values()):.1f} s"
        )


@index.command()
@DB
@JSON
def migrate(db: str | None, as_json: bool) -> None:
    """Upgrade a catalogue that an older refactx wrote.

    This takes seconds, whatever the size of the indexes.
    """
    from refactx.index.open import database
    from refactx.postgres.catalogue import CATALOGUE_VERSION
    from refactx.postgres.writing import migrate as migrate_catalogue

    with database(db) as opened, opened.connection() as connection:
        before = migrate_catalogue(connection)
    done = "nothing to do" if before == CATALOGUE_VERSION else f"was {before}"
    text = f"the catalogue has version {CATALOGUE_VERSION} ({done})"
    print_done(as_json, {"from": before, "to": CATALOGUE_VERSION}, text)


index.add_command(export)
index.add_command(import_)
