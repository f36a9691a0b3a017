"""The group `refactx store`."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from refactx.cli.help import OrderedGroup
from refactx.cli.options import DB, JSON, NAME, print_json
from refactx.cli.store.following import drop_store, note_if_waiting, print_store, progress

if TYPE_CHECKING:
    from refactx.sparql.store import StoreReport


@click.group(cls=OrderedGroup, invoke_without_command=True)
@click.pass_context
def store(context: click.Context) -> None:
    """Keep the facts of an index as RDF triples, for SPARQL.

    Commands that change an index (`ingest --append` and `--replace`, `forget`, `index compact` and `import`) bring its
    store to it, and `index drop` deletes it.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@store.command()
@NAME
@DB
@JSON
def build(name: str, db: str | None, as_json: bool) -> None:
    """Build the store of index NAME anew."""
    from refactx.sparql.store import build_store

    _make(build_store, name, db, as_json)


@store.command()
@NAME
@DB
@JSON
def update(name: str, db: str | None, as_json: bool) -> None:
    """Bring the store to what the index has now.

    If it cannot follow the index, or if there is none, it is built anew.
    """
    from refactx.sparql.store import update_store

    _make(update_store, name, db, as_json)


@store.command()
@NAME
@DB
@JSON
def show(name: str, db: str | None, as_json: bool) -> None:
    """Show the size of the store, and whether it has what the index has."""
    from refactx.connect import open_index
    from refactx.sparql.store import describe_store

    with open_index(name, db) as index:
        found = describe_store(index)
    if as_json:
        return print_json(found)
    for key, value in found.items():
        if value is not None:
            click.echo(f"{key:<20} {f'{value:,}' if type(value) is int else value}")
    return None


@store.command()
@NAME
@DB
@JSON
def drop(name: str, db: str | None, as_json: bool) -> None:
    """Delete the store; the index stays."""
    from refactx.connect import database
    from refactx.sparql.store import StoreError

    with database(db) as opened:
        if not drop_store(opened, name):
            raise StoreError(f"index {name!r} has no store")
    if as_json:
        return print_json({"dropped": name})
    click.echo(f"dropped the store of {name}")
    return None


def _make(make: Callable[..., "StoreReport"], name: str, db: str | None, as_json: bool) -> None:
    """Build or update the store of an index, with progress, and print what was done."""
    from refactx.connect import open_index
    from refactx.sparql.store.folder import folder_of

    with open_index(name, db) as index, progress(index) as advance:
        note_if_waiting(folder_of(index), name)
        done = make(index, advance=advance)
    if as_json:
        return print_json(done.to_json())
    print_store(done)
    return None
