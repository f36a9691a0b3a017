"""`refactx index export` and `refactx index import`: a finished index as one file, for another server."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from refactx.cli.options import DB, JSON, NAME, in_database, print_json
from refactx.cli.store.following import print_with_store
from refactx.errors import InputError, RefactxError
from refactx.fact import counted

if TYPE_CHECKING:
    from refactx.postgres.database import Database
    from refactx.share.export import ExportResult
    from refactx.share.importing import ImportResult

FILE = click.Path(path_type=Path)


@click.command("export")
@NAME
@click.argument("file", type=FILE)
@DB
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@JSON
def export(name: str, file: Path, db: str | None, force: bool, as_json: bool) -> None:
    """Write an index to a file.

    `refactx index import` adds it to any server, and every command that reads an index reads the file itself, as --index
    FILE. If FILE is -, it goes to standard output. The same command continues an export that was stopped, from FILE.part.
    """
    from refactx.connect import database
    from refactx.share.export import export_index

    is_stream = str(file) == "-"
    with database(db) as opened, _bar("export") as progress:
        if is_stream:
            done = _export_to_stdout(opened, name, progress)
        else:
            done = export_index(opened, name, file, force=force, progress=progress)
    if done.note:
        click.echo(done.note, err=True)
    if as_json:
        return print_json(asdict(done) | {"file": str(file)}, err=is_stream)
    resumed = f", {done.resumed:,} of them already there" if done.resumed else ""
    click.echo(
        f"exported {name} to {file}: {counted(done.facts, 'fact')}, {done.size:,} bytes{resumed}, checksum {done.checksum}",
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
    from refactx.connect import database
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
        print_with_store(opened, done.index, lambda: document, lambda: _show_import(done), as_json)


def _show_import(done: "ImportResult") -> None:
    resumed = f", {done.resumed:,} of them already there" if done.resumed else ""
    click.echo(
        f"imported {done.index}: {counted(done.facts, 'fact')}, {done.size:,} bytes of rows{resumed}, checksum {done.checksum}"
    )


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
    """Show a progress bar of bytes on standard error if that is a terminal."""
    from tqdm import tqdm

    with tqdm(desc=what, unit="B", unit_scale=True, disable=None) as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done)

        yield progress
