"""Replies of policies as text, or as JSON."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import click
from pyoxigraph import NamedNode

from refactx.cli.options import print_json
from refactx.cli.query.policies import PolicyReply, labels
from refactx.cli.query.views import SHOWN, fact_line, more
from refactx.cli.sparql.table import Cell, cell_of, links_of
from refactx.fact import line, visible
from refactx.query.tree_facts import TreeFacts
from refactx.sparql.engines import Rows
from refactx.sparql.memory import Choice
from refactx.sparql.memory.entry import Entry
from refactx.sparql.policies import Written


def print_policy_reply(
    reply: PolicyReply, facts: TreeFacts, *, as_json: bool, explains: bool, limit: int | None
) -> None:
    """Print a reply, with at most `limit` rows."""
    rows = _rows(reply, facts)
    if as_json:
        return print_json(_document(reply, rows[:limit], explains))
    is_terminal = sys.stdout.isatty()
    for text in _lines(reply, rows, limit or SHOWN, explains):
        is_bold = is_terminal and text.startswith(("Question: ", "Answer: "))
        click.echo(click.style(text, bold=True) if is_bold else text)
    click.echo()
    return None


def _rows(reply: PolicyReply, facts: TreeFacts) -> list[list[Cell]]:
    if not isinstance(reply.result, Rows):
        return []
    terms = {term for row in reply.result.rows for term in row if isinstance(term, NamedNode)}
    links = links_of(terms, labels(facts))
    return [[cell_of(term, links) for term in row] for row in reply.result.rows]


def _lines(reply: PolicyReply, rows: Sequence[Sequence[Cell]], shown: int, explains: bool) -> Iterator[str]:
    written = reply.written
    yield f"Question: {line(written.question)}"
    if explains:
        yield from _explanation(written)
    if written.told is not None:
        yield f"Told: {written.told:.1f} nats"
    if written.sparql is None:
        yield f"Refused: {line(written.reason)}"
        return
    if reply.failure:
        yield f"Not answered: {line(reply.failure)}"
    elif reply.engine:
        yield f"Answer: {_answer(reply, rows, shown)}"
    yield from ("SPARQL:", *(f"  {visible(text)}" for text in written.sparql.strip().splitlines()))
    yield from (_name(name, choice) for name, choice in written.choices.items())
    for id_ in written.made_up:
        yield f"Made up: {id_}, which the index does not have"
    for row in rows[:shown]:
        yield f"Row: {'  '.join(filter(None, map(_cell, row)))}"
    yield from more(len(rows), shown, "row")
    if isinstance(reply.result, Rows) and reply.result.truncated and len(rows) <= shown:
        yield f"({line(reply.result.reason) or 'there are more rows: see --limit'})"


def _explanation(written: Written) -> Iterator[str]:
    """Yield what the model was given, and what it wrote."""
    yield f"Policy: {written.policy}"
    yield from (f"Fact: {fact_line(fact)}" for fact in written.facts)
    yield from (f"Given: {one.id} {line(one.text)}" for one in written.given)
    if written.text:
        yield from ("Text:", *(f"  {visible(text)}" for text in written.text.splitlines()))


def _name(name: str, choice: Choice) -> str:
    """Return what a name of the text was resolved to."""
    entry, is_matched = choice.entry, choice.feasible is not False
    unmatched = "" if is_matched else ", in a pattern that no fact matches"
    said = "" if name.startswith("<") else f" {line(str(choice.mention))}"
    return f"Name: {line(name)}{said} is {entry.id} {line(entry.text)} (similarity {choice.similarity:.2f}{unmatched})"


def _answer(reply: PolicyReply, rows: Sequence[Sequence[Cell]], shown: int) -> str:
    if isinstance(reply.result, bool):
        return "yes" if reply.result else "no"
    names = list(dict.fromkeys(_label(row[0]) for row in rows if row))
    if len(names) <= shown:
        return "; ".join(names) or "(nothing)"
    return f"{'; '.join(names[:shown])}; (and {len(names) - shown:,} more)"


def _label(cell: Cell) -> str:
    return line(cell if isinstance(cell, str) else cell.label)


def _cell(cell: Cell) -> str:
    return line(cell) if isinstance(cell, str) else f"{line(cell.label)}  {cell.url}"


def _document(reply: PolicyReply, rows: Sequence[Sequence[Cell]], explains: bool) -> dict[str, Any]:
    written, result = reply.written, reply.result
    document: dict[str, Any] = {
        "question": written.question,
        "policy": written.policy,
        "sparql": written.sparql,
        "refused": written.reason or None,
        "names": [
            {
                "placeholder": name,
                "label": choice.mention.label,
                "description": choice.mention.description,
                **_entry(choice.entry),
                "similarity": round(choice.similarity, 4),
                "how": choice.how,
                "feasible": choice.feasible,
            }
            for name, choice in written.choices.items()
        ],
        "made_up": list(written.made_up),
        "told": None if written.told is None else round(written.told, 3),
        "engine": reply.engine or None,
        "failure": reply.failure or None,
        "truth": result if isinstance(result, bool) else None,
        "variables": list(result.variables) if isinstance(result, Rows) else None,
        "rows": [[_cell_json(cell) for cell in row] for row in rows] if isinstance(result, Rows) else None,
        "truncated": result.truncated if isinstance(result, Rows) else None,
    }
    if explains:
        document |= {
            "text": written.text,
            "given": [_entry(one) for one in written.given],
            "facts": [fact_line(fact) for fact in written.facts],
        }
    return document


def _entry(entry: Entry) -> dict[str, str]:
    return {"id": entry.id, "name": entry.text}


def _cell_json(cell: Cell) -> dict[str, str | None]:
    return {"literal": cell} if isinstance(cell, str) else {"label": cell.label, "id": cell.id, "url": cell.url}
