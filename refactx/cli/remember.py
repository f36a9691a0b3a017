"""`refactx remember`, `refactx correct` and `refactx rename`: single facts of an index, and the names of its things."""

import click

from refactx.cli.ingest import print_fact_change
from refactx.cli.options import DB, INDEX, JSON, OWN_INDEX, WRITABLE
from refactx.fact import counted, line, written_part

NEW = click.option("--new", multiple=True, metavar="NAME", help="A name in the fact that is new; several times.")


@click.command()
@click.argument("fact")
@NEW
@click.option("--also", is_flag=True, help="Beside another value of its predicate.")
@INDEX
@WRITABLE
@JSON
@DB
def remember(
    fact: str, new: tuple[str, ...], also: bool, index: str, writable: str | None, db: str | None, as_json: bool
) -> None:
    """Add a fact to an index, such as `"<Oslo> <mayor> <Ann Lee> ."`.

    Names are used as the index has them, in any spelling or by an alias; one that it does not have is made if --new says
    so. If the subject has another value, and the predicate seems to have one, both are shown and nothing is written.
    """
    from refactx.build import fact_writer

    with fact_writer(index, db, writable) as writer:
        print_fact_change(writer.remember(fact, new=new, also=also), db, as_json)


@click.command()
@click.argument("old")
@click.argument("fact")
@NEW
@INDEX
@WRITABLE
@JSON
@DB
def correct(
    old: str, fact: str, new: tuple[str, ...], index: str, writable: str | None, db: str | None, as_json: bool
) -> None:
    """Put FACT in the place of the fact OLD, at once.

    \b
        refactx correct "<Oslo> <mayor> <Ann Lee> ." "<Oslo> <mayor> <Bo Day> ."
    """
    from refactx.build import fact_writer

    with fact_writer(index, db, writable) as writer:
        print_fact_change(writer.correct(old, fact, new=new), db, as_json)


@click.command()
@click.argument("thing")
@click.argument("name")
@OWN_INDEX
@JSON
@DB
def rename(thing: str, name: str, index: str, db: str | None, as_json: bool) -> None:
    """Give a thing another name, in all facts that name it, in both directions. THING is its name or its id, which stays."""
    from refactx.build import work_dir_of
    from refactx.cli.store import print_with_store
    from refactx.index.open import database
    from refactx.ingest import rename as rename_in

    with database(db) as opened:
        done = rename_in(thing, name, opened, index=index, work=work_dir_of(None))
        said = f"index {done.index}: {line(thing)} is now {line(written_part(name))} in {counted(done.facts, 'fact')}"
        print_with_store(opened, index, done.to_json, lambda: click.echo(said), as_json)
