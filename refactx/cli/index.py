"""`refactx index`: commands on whole indexes."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from refactx.cli.help import OrderedGroup
from refactx.cli.options import DB, JSON, NAME, print_json
from refactx.cli.share import export, import_
from refactx.cli.sources import machine_options, work_dir_of
from refactx.cli.store.following import drop_store, print_with_store
from refactx.errors import DatabaseError, IndexNotFoundError
from refactx.fact import counted, line

if TYPE_CHECKING:
    from refactx.ingest import CompactResult


@click.group(cls=OrderedGroup, invoke_without_command=True)
@click.pass_context
def index(context: click.Context) -> None:
    """List, check, share and maintain indexes."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@index.command("list")
@DB
@click.option("--all", "every", is_flag=True, help="Also list unfinished ones, of running and killed ingests.")
@JSON
def list_(db: str | None, every: bool, as_json: bool) -> None:
    """List the indexes."""
    from refactx.connect import database
    from refactx.index.description import index_document
    from refactx.postgres.catalogue import list_indexes

    with database(db) as opened, opened.connection() as connection:
        found = [index_document(entry) for entry in list_indexes(connection, every=every)]
        where = opened.shown
    if as_json:
        return print_json(found)
    if not found:
        click.echo(f"there is no index in {where}: build one with `refactx ingest`", err=True)
    for entry in found:
        state = "" if entry["state"] == "ready" else f"  [{entry['state']}]"
        if every and entry["unfinished"]:
            state += "  [a change is running, or was killed]"
        click.echo(
            f"{line(entry['name']):<24} {counted(entry['facts'], 'fact'):>20}  "
            f"{entry['bytes_per_fact'] or 0:>6.1f} bytes a fact  {line(entry['tokenizer'])}{state}"
        )
    return None


@index.command()
@click.argument("name")
@DB
@JSON
def show(name: str, db: str | None, as_json: bool) -> None:
    """Show the contents and the size of an index, or of an index file."""
    from refactx.connect import open_index
    from refactx.index.description import index_document, shape_of

    with open_index(name, db) as opened:
        found = index_document(opened.entry) | shape_of(opened)
    if as_json:
        return print_json(found)
    for key, value in found.items():
        if not isinstance(value, dict):
            click.echo(f"{key:<20} {f'{value:,}' if isinstance(value, int) else line(str(value))}")
    return None


@index.command()
@click.argument("name")
@DB
@JSON
def verify(name: str, db: str | None, as_json: bool) -> None:
    """Check everything in an index, or in an index file.

    If it is damaged, print the first faults and exit with code 1.
    """
    from tqdm import tqdm

    from refactx.connect import open_index
    from refactx.index.verify import verify as walk

    with open_index(name, db) as opened:
        total = sum(tree.facts for _, tree in opened.segments)
        try:
            with tqdm(total=total, unit=" facts", unit_scale=True, disable=None) as bar:
                verdict = walk(opened, bar.update)
        except (DatabaseError, IndexNotFoundError) as error:  # of a reader, who would open the index again
            raise DatabaseError(
                f"index {name} was not checked to its end, so nothing is known about it ({error}): run the command again"
            ) from error
    if as_json:
        print_json(
            {
                "index": name,
                "sound": verdict.sound,
                "faults": verdict.faults,
                "rows": verdict.rows,
                "facts": verdict.facts,
                "tokens": verdict.tokens,
                "sampled": verdict.sampled,
            }
        )
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


@index.command()
@NAME
@click.option("--unfinished", is_flag=True, help="Delete only what killed ingests left of it.")
@DB
@JSON
def drop(name: str, unfinished: bool, db: str | None, as_json: bool) -> None:
    """Delete an index, what killed ingests left of it, and its store."""
    from refactx.connect import database
    from refactx.postgres.removal import drop as drop_index

    with database(db) as opened, opened.connection() as connection:
        drop_index(connection, name, unfinished=unfinished)
        had_store = not unfinished and drop_store(opened, name)
    if as_json:
        return print_json({"dropped": name})
    click.echo(
        f"dropped {'the unfinished parts of ' if unfinished else ''}{name}{' and its store' if had_store else ''}"
    )
    return None


@index.command()
@NAME
@DB
@machine_options
@JSON
def compact(name: str, db: str | None, workers: int, work_dir: Path | None, as_json: bool) -> None:
    """Merge all segments of an index into one. Readers continue meanwhile."""
    from refactx.connect import database
    from refactx.ingest import Resources
    from refactx.ingest import compact as compact_index

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
    from refactx.connect import database
    from refactx.postgres.catalogue import CATALOGUE_VERSION
    from refactx.postgres.migrate import migrate as migrate_catalogue

    with database(db) as opened, opened.connection() as connection:
        before = migrate_catalogue(connection)
    if as_json:
        return print_json({"from": before, "to": CATALOGUE_VERSION})
    done = "nothing to do" if before == CATALOGUE_VERSION else f"was {before}"
    click.echo(f"the catalogue has version {CATALOGUE_VERSION} ({done})")
    return None


index.add_command(export)
index.add_command(import_)
