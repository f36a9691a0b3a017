"""The command `refactx sparql to-pgmr`."""

from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import click

from refactx.cli.help import GroupedCommand
from refactx.cli.options import DB, INDEX
from refactx.cli.sparql.records import convert_file, file_options
from refactx.errors import InputError


@click.command("to-pgmr", cls=GroupedCommand, groups={"Files": ("whole", "source", "target")})
@file_options("sparql", "pgmr")
@click.option(
    "--dialect",
    type=click.Choice(["block", "inline"]),
    default="block",
    show_default=True,
    metavar="DIALECT",
    help="block or inline.",
)
@click.option("--lower", is_flag=True, help="Keywords and names in lower case.")
@click.option("--one-line", is_flag=True, help="JSON lines, --whole: no line ends in texts.")
@click.option("--prefixes/--no-prefixes", default=True, help="Keep PREFIX of known prefixes; default: on.")
@INDEX
@DB
def to_pgmr(
    file: TextIO, dialect: Any, lower: bool, one_line: bool, prefixes: bool, index: str, db: str | None, **given: Any
) -> None:
    """Write SPARQL with names in place of URIs.

    FILE (default: standard input) has a query on each line, or JSON lines, to which a field is added: training data
    for models that write queries. The names are those of an index. A query whose ids have no name is an error.
    """
    from refactx.connect import open_index
    from refactx.query.pgmr import IndexNames, Style
    from refactx.query.pgmr import to_pgmr as write

    with open_index(index, db) as opened:
        names = IndexNames(opened)

        def convert(texts: Sequence[str], are_lines: bool) -> Iterator[str | InputError]:
            style = Style(dialect=dialect, lower=lower, one_line=one_line or are_lines, prefixes=prefixes)
            for text in texts:
                try:
                    yield write(text, names, style)
                except InputError as error:
                    yield error

        convert_file(file, convert, **given)
