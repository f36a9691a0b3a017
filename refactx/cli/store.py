"""The group `refactx store`."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from refactx.cli.help import IndexCommand, OrderedGroup
from refactx.cli.options import DB, DROPPED, JSON, NAME, print_done, print_json
from refactx.fact import counted

if TYPE_CHECKING:
    from refactx.index import Index
    from refactx.postgres.database import Database
    from refactx.sparql.store import StoreReport
    from refactx.sparql.store.folder import StoreFolder


def follow(database: "Database", name: str, *, builds: bool | None = False) -> "StoreReport | None":
    """Bring the store of an index that was made or changed to what the index has now; `builds`: as for `keep_store`.

    Return None if there is none. Raises StoreError, which says what to run, if that fails; one that nobody asked for is
    then left out, with a note.
    """
    from refactx.errors import RefactxError
    from refactx.index import Index
    from refactx.index.database import DatabaseSource
    from refactx.postgres.catalogue import find_index
    from refactx.sparql.store import StoreError, keep_store
    from refactx.sparql.store.folder import folder_of_name

    folder = folder_of_name(name, database.address)
    had = folder.exists()
    try:
        if builds is False and not had:
            return None
        note_if_waiting(folder, name)
        index = Index(DatabaseSource(database, find_index(database, name)))
        with progress(index) as advance:
            return keep_store(index, builds, advance=advance)
    except (RefactxError, OSError) as error:
        said = _not_followed(name, " ".join(str(error).split()).rstrip("."))
        if builds is None and not had:
            click.echo(f"refactx: {said}", err=True)
            return None
        raise StoreError(said) from None
    except KeyboardInterrupt:
        click.echo(f"refactx: {_not_followed(name, 'interrupted')}", err=True)
        raise


def _not_followed(name: str, reason: str) -> str:
    return (
        f"index {name!r} is as it should be, but its store is not ({reason}): "
        f"run `refactx store update {shlex.quote(name)}`"
    )


def drop_store(database: "Database", name: str) -> bool:
    """Remove the store of an index, which may be gone. Return whether there was any."""
    from refactx.sparql.store.folder import folder_of_name

    folder = folder_of_name(name, database.address)
    note_if_waiting(folder, name)
    return folder.drop()


def note_if_waiting(folder: "StoreFolder", name: str) -> None:
    """Report on standard error if another process is writing a store, for which this one will wait."""
    if folder.is_being_written():
        click.echo(f"refactx: another process is writing the store of index {name!r}: waiting for it", err=True)


def print_with_store(
    database: "Database",
    name: str,
    document: Callable[[], dict[str, Any]],
    show: Callable[[], None],
    as_json: bool,
    *,
    builds: bool | None = False,
) -> None:
    """Print what was done to an index, as JSON (`document`) or by `show`, and bring its store to it (`follow`).

    The result is printed even if the store fails. Nothing is said of a small store that nobody asked for.
    """
    from refactx.sparql.store.building import STORE_FACTS

    report = None
    if not as_json:
        show()
    try:
        report = follow(database, name, builds=builds)
    finally:
        if as_json:
            print_json(document() | ({} if report is None else {"store": report.to_json()}))
    is_quiet = builds is None and report is not None and report.facts <= STORE_FACTS
    if report is not None and not as_json and not is_quiet:
        print_store(report)


def print_store(report: "StoreReport") -> None:
    changed = {
        "built": f"built of {counted(report.facts, 'fact')}",
        "updated": f"{counted(report.added, 'triple')} added, {report.removed:,} removed",
        "unchanged": "nothing to do",
    }[report.change]
    click.echo(
        f"store of {report.index}: {changed}; it has {counted(report.triples, 'triple')}, {report.size:,} bytes, "
        f"in {report.seconds:.1f} s"
    )
    if (told := report.published) is not None:
        added = f"{counted(told.added, 'triple')} of facts and {counted(told.labels, 'label')} of names"
        click.echo(f"beside the published triples it has {added}, which the files do not have")
    if told is not None and told.example is not None:
        (one, other), values = told.example, counted(told.rewritten, "published literal")
        click.echo(f"{values} got another spelling or datatype of the same value, such as {other} for {one}")
    if report.odd_dates:
        predicate, date = next(iter(report.odd_dates.items()))
        click.echo(f"dates such as {date} of <{predicate}> are no xsd:dateTime: comparisons leave them out")
    if report.why:
        click.echo(f"it was built anew: {report.why}")


@contextmanager
def progress(index: "Index") -> Iterator[Callable[[int], object]]:
    """Show a progress bar of facts on standard error if that is a terminal."""
    from refactx.progress import progress_bar

    with progress_bar("store", index.facts, unit=" facts", unit_scale=True, delay=1) as bar:
        yield bar.update


@click.group(cls=OrderedGroup)
def store() -> None:
    """Keep the facts of an index as RDF triples, for SPARQL.

    An index of up to 200,000 facts has a store from its ingest or import. Commands that change an index (`ingest --append`
    and `--replace`, `forget`, `index compact` and `import`) bring its store to it, and `index drop` deletes it.
    """


@store.command(cls=IndexCommand)
@NAME
@click.option(
    "--published",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="RDF that the store gets as it is, beside the facts.",
)
@DB
@JSON
def build(name: str, published: tuple[Path, ...], db: str | None, as_json: bool) -> None:
    """Build the store of index NAME (default: default) anew.

    With --published, queries find the graph as it was published: its named graphs, blank nodes, axioms and datatypes. Numbers
    and times are kept as values: what then has another spelling is counted.
    """
    from refactx.sparql.store import build_store

    def make(index: "Index", **options: Any) -> "StoreReport":
        from refactx.ingest.parsers.formats import published_quads

        base = (index.entry.report.get("selection") or {}).get("base")
        return build_store(index, published=lambda: published_quads(published, base), **options)

    _make(make if published else build_store, name, db, as_json)


@store.command(cls=IndexCommand)
@NAME
@DB
@JSON
def update(name: str, db: str | None, as_json: bool) -> None:
    """Bring the store to what the index has now.

    If it cannot follow the index, or if there is none, it is built anew.
    """
    from refactx.sparql.store import update_store

    _make(update_store, name, db, as_json)


@store.command(cls=IndexCommand)
@NAME
@DB
@JSON
def show(name: str, db: str | None, as_json: bool) -> None:
    """Show the size of the store, and whether it has what the index has."""
    from refactx.index.open import open_index
    from refactx.sparql.store import describe_store

    with open_index(name, db) as index:
        found = describe_store(index)
    if as_json:
        return print_json(found)
    for key, value in found.items():
        if value is not None:
            click.echo(f"{key:<20} {f'{value:,}' if type(value) is int else value}")
    return None


@store.command(cls=IndexCommand)
@DROPPED
@DB
@JSON
def drop(name: str, db: str | None, as_json: bool) -> None:
    """Delete the store; the index stays."""
    from refactx.index.open import database
    from refactx.sparql.store import StoreError

    with database(db) as opened:
        if not drop_store(opened, name):
            raise StoreError(f"index {name!r} has no store")
    print_done(as_json, {"dropped": name}, f"dropped the store of {name}")


def _make(make: Callable[..., "StoreReport"], name: str, db: str | None, as_json: bool) -> None:
    """Build or update the store of an index, with progress, and print what was done."""
    from refactx.index.open import open_index
    from refactx.sparql.store.folder import folder_of

    with open_index(name, db) as index, progress(index) as advance:
        note_if_waiting(folder_of(index), name)
        done = make(index, advance=advance)
    if as_json:
        return print_json(done.to_json())
    print_store(done)
    return None
