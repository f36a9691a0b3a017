"""Results as a table for people: labels in place of ids, with their pages."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import click
from pyoxigraph import BlankNode, NamedNode, Triple
from rich.cells import cell_len

from refactx.fact import Link, line
from refactx.query.pgmr.uris import PREFIXES
from refactx.sparql.engines import Result, Term
from refactx.sparql.store.terms import name_of_own

_ID = re.compile(
    rf"(?:{re.escape(PREFIXES['wd'])}|{re.escape(PREFIXES['p'])}(?:direct/|statement/|qualifier/)?)([QP][1-9]\d*)",
    re.ASCII,
)
_WIDEST = 60
"""Columns of a terminal that a value takes at most, if others need room too."""

Cell = Link | str


def print_table(result: Result, labels_of: Callable[[Sequence[str]], Mapping[str, str]]) -> None:
    """Print rows with labels and pages, or yes or no for an ASK. `labels_of`: returns labels by id."""
    if isinstance(result, bool):
        click.echo("yes" if result else "no")
        return
    links = links_of({term for row in result.rows for term in row if isinstance(term, NamedNode)}, labels_of)
    rows = [[cell_of(term, links) for term in row] for row in result.rows]
    if sys.stdout.isatty():
        _print_for_terminal(result.variables, rows)
    else:
        for text in _plain(result.variables, rows):
            click.echo(text)


def links_of(terms: Iterable[NamedNode], labels_of: Callable[[Sequence[str]], Mapping[str, str]]) -> dict[str, Link]:
    """Return the links of IRIs that are those of entities and properties, with their labels if they have any."""
    ids = {term.value: match[1] for term in terms if (match := _ID.fullmatch(term.value)) is not None}
    labels = labels_of(list(dict.fromkeys(ids.values()))) if ids else {}
    return {iri: Link(labels.get(id_, id_), id_) for iri, id_ in ids.items()}


def cell_of(term: Term | None, links: dict[str, Link]) -> Cell:
    if term is None:
        return ""
    if isinstance(term, NamedNode):
        own = name_of_own(term.value)
        return links.get(term.value, term.value if own is None else own)
    if isinstance(term, BlankNode | Triple):
        return str(term)
    return term.value.removesuffix("T00:00:00Z")


def _plain(variables: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Iterator[str]:
    """Yield the lines of a table: columns with two spaces between them, pages after labels."""
    table = [list(map(_with_page, row)) for row in (variables, *rows)]
    widths = [max(cell_len(row[at]) for row in table) for at in range(len(variables))]
    for row in table:
        yield "  ".join(text + " " * (width - cell_len(text)) for text, width in zip(row, widths, strict=True)).rstrip()


def _with_page(cell: Cell) -> str:
    if isinstance(cell, str):
        return line(cell)
    return line(cell.url or cell.label) if cell.label == cell.id else f"{line(cell.label)} {cell.url}"


def _print_for_terminal(variables: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from refactx.cli.terminal import terminal

    def drawn(cell: Cell) -> Text:
        if isinstance(cell, str):
            return Text(line(cell))
        found = Text(line(cell.label), f"link {cell.url}")
        return found if cell.label == cell.id else found.append(f"  {cell.id}", f"dim link {cell.url}")

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in variables:
        table.add_column(line(name), overflow="fold", max_width=_WIDEST if len(variables) > 1 else None)
    for row in rows:
        table.add_row(*map(drawn, row))
    terminal().print(table)
