"""The facts of an answer as a tree on a terminal: subjects, below each its properties, below each of them its values.

Items and properties have the address of their page on Wikidata beside them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text

from refactx.fact import Link, LinkedFact, line, visible

SUBJECT = "bold"
INDENT, GAP = 2, 2
LABEL_WIDTHS = (40, 60)
"""The least and the most columns for labels. On a narrower terminal, ids take the place of the addresses of pages; a
longer label wraps."""


@dataclass(frozen=True, slots=True)
class Row:
    """One part of a fact: `depth` 0 for a subject, 1 for a predicate, 2 for a value; `page`: its address or id."""

    depth: int
    label: Text
    page: Text | None


def fact_tree(facts: Sequence[LinkedFact], width: int) -> RenderableType:
    """Return the facts, grouped by subject and property in the order of first appearance, for `width` columns."""
    shortens = width - max(map(cell_len, _addresses(facts)), default=0) - GAP < LABEL_WIDTHS[0]
    rows = list(_rows(facts, shortens))
    page_width = max((row.page.cell_len for row in rows if row.page), default=0)
    label_width = max((row.label.cell_len + INDENT * row.depth for row in rows if row.page), default=0)
    label_width = max(1, min(label_width, LABEL_WIDTHS[1], width - page_width - GAP))
    return Group(*(_line(row, label_width, page_width) for row in rows))


def _rows(facts: Sequence[LinkedFact], shortens: bool) -> Iterator[Row]:
    for subject, properties in _grouped(facts).items():
        yield _row(0, subject, shortens, style=SUBJECT)
        for (predicate, inverse), values in properties.items():
            yield _row(1, predicate, shortens, note=" (inverse)" if inverse else "")
            for value in values:
                yield _row(2, value, shortens)


def _grouped(facts: Sequence[LinkedFact]) -> dict[Link, dict[tuple[Link, bool], list[Link | str]]]:
    """Return the distinct values by subject, then by predicate and direction."""
    grouped: dict[Link, dict[tuple[Link, bool], list[Link | str]]] = {}
    for fact in facts:
        values = grouped.setdefault(fact.subject, {}).setdefault((fact.predicate, fact.inverse), [])
        if fact.object not in values:
            values.append(fact.object)
    return grouped


def _row(depth: int, part: Link | str, shortens: bool, *, style: str = "", note: str = "") -> Row:
    label = Text(line(part if isinstance(part, str) else part.label), style)
    label.append(note, "dim")
    if isinstance(part, str) or part.url is None:
        return Row(depth, label, None)
    shown = visible(part.id or "") if shortens else _address(part.url)
    return Row(depth, label, Text(shown, Style(dim=True, link=visible(part.url)), no_wrap=True))


def _line(row: Row, label_width: int, page_width: int) -> RenderableType:
    """Return a row with its page in a second column; a label without a page has the whole width."""
    indented = Padding(row.label, (0, 0, 0, INDENT * row.depth), expand=False)
    if row.page is None:
        return indented
    grid = Table.grid(padding=(0, GAP, 0, 0))
    grid.add_column(width=label_width, overflow="fold")
    grid.add_column(width=page_width)
    grid.add_row(indented, row.page)
    return grid


def _addresses(facts: Sequence[LinkedFact]) -> Iterator[str]:
    for fact in facts:
        for part in (fact.subject, fact.predicate, fact.object):
            if isinstance(part, Link) and part.url is not None:
                yield _address(part.url)


def _address(url: str) -> str:
    """Return the address to show, without `https://www.`; its link has the whole address."""
    return visible(url).removeprefix("https://www.")
