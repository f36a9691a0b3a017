"""The command `refactx sparql from-pgmr`."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

from refactx.cli.help import GroupedCommand
from refactx.cli.options import DB, INDEX
from refactx.cli.sparql.records import convert_file, file_options
from refactx.errors import InputError

if TYPE_CHECKING:
    from refactx.query.pgmr import PgmrQuery, Resolver


@click.command("from-pgmr", cls=GroupedCommand, groups={"Files": ("whole", "source", "target")})
@file_options("pgmr", "sparql")
@click.option("--ignore-case", is_flag=True, help="Find names in any case; reads all names of the index.")
@click.option("--prefixes", is_flag=True, help="Declare known prefixes, for any engine.")
@INDEX
@DB
def from_pgmr(file: TextIO, ignore_case: bool, prefixes: bool, index: str, db: str | None, **given: Any) -> None:
    """Write SPARQL with URIs for the names of PGMR text.

    FILE (default: standard input) has a text on each line, or JSON lines, to which a field is added. A name is found
    if an entity or property of the index has this label and description, or is the only one of this label; else the
    query is refused, with an error.
    """
    from refactx.connect import open_index
    from refactx.query.pgmr import BatchResolver, IndexResolver, with_declarations

    with open_index(index, db) as opened:

        def convert(texts: Sequence[str], _: bool) -> Iterator[str | InputError]:
            resolver: Resolver = IndexResolver(opened, ignore_case=ignore_case)
            queries = [_read(text) for text in texts]
            if ignore_case:
                resolver = BatchResolver(resolver, [query for query in queries if not isinstance(query, InputError)])
            for query in queries:
                try:
                    yield query if isinstance(query, InputError) else finish(query.resolved(resolver))
                except InputError as error:
                    yield error

        finish = with_declarations if prefixes else str
        convert_file(file, convert, **given)


def _read(text: str) -> "PgmrQuery | InputError":
    from refactx.query.pgmr import read_pgmr

    try:
        return read_pgmr(text)
    except InputError as error:
        return error
