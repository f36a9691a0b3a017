"""Replies as text: the query, its answer, SPARQL, rows with their pages, and the facts that prove them; or as JSON."""

import sys
from collections.abc import Iterator, Sequence

import click

from refactx.asking.replies import Reply
from refactx.cli.options import print_json
from refactx.fact import Link, LinkedFact, counted, line, visible
from refactx.query import AnsweredQuery, write_line
from refactx.query.denote import DEFAULT_LIMITS
from refactx.query.values import bare_name

SHOWN = 20
"""The most rows, facts and candidates that are shown as text by default."""


def print_reply(reply: Reply, *, as_json: bool, explains: bool, limit: int | None) -> None:
    """Print a reply, with at most `limit` rows, facts and candidates each."""
    for note in reply.notes:
        click.echo(f"refactx: {note}", err=True)
    if as_json:
        return print_json(reply.to_json(limit, explains=explains))
    shown, is_terminal = limit or SHOWN, sys.stdout.isatty()
    for text in _lines(reply, shown, explains=explains, has_facts=not is_terminal):
        is_bold = is_terminal and text.startswith(("Question: ", "Answer: "))
        click.echo(click.style(text, bold=True) if is_bold else text)
    if is_terminal and reply.answered is not None and reply.answered.facts:
        from refactx.cli.fact_tree import fact_tree
        from refactx.cli.terminal import terminal

        console = terminal()
        console.print()
        console.print(fact_tree(reply.answered.facts[:shown], console.width))
        for text in _more_facts(reply.answered, shown):
            click.echo(text)
    click.echo()
    return None


def _lines(reply: Reply, shown: int, *, explains: bool, has_facts: bool) -> Iterator[str]:
    """Yield the lines of a reply. `has_facts`: with its facts."""
    answered = reply.answered
    if reply.choice is not None:
        yield f"Question: {line(reply.question)}"
    yield f"Query: {line(reply.line)}"
    if answered is not None:
        yield f"Answer: {_answer(answered, shown)}"
        if not answered.result.is_complete:
            yield f"(incomplete: {answered.result.reason})"
    if reply.told is not None:
        yield f"Told: {reply.told:.1f} nats"
    if reply.sparql is not None:
        yield from ("SPARQL:", *(f"  {visible(text)}" for text in reply.sparql.strip().splitlines()))
    if answered is not None:
        yield from _rows(answered, shown)
        if has_facts:
            yield from (f"Fact: {fact_line(fact)}" for fact in answered.facts[:shown])
            yield from _more_facts(answered, shown)
    if explains and reply.choice is not None:
        yield from _explanation(reply, shown)


def _answer(answered: AnsweredQuery, shown: int) -> str:
    names = list(dict.fromkeys(bare_name(value) for value in answered.result.values))
    if len(names) <= shown:
        return line(answered.answer) or "(nothing)"
    return f"{line('; '.join(names[:shown]))}; (and {len(names) - shown:,} more)"


def _rows(answered: AnsweredQuery, shown: int) -> Iterator[str]:
    sorted_by: Sequence[str] = answered.result.sorted_by or [""] * len(answered.rows)
    for row, by in list(zip(answered.rows, sorted_by, strict=True))[:shown]:
        parts = [_label(row), by, (isinstance(row, Link) and row.url) or ""]
        yield f"Row: {'  '.join(line(part) for part in parts if part)}"
    yield from more(len(answered.rows), shown, "row")


def more(count: int, shown: int, what: str) -> Iterator[str]:
    """Yield how many of some things are not shown. `what`: one of them."""
    if count > shown:
        yield f"(and {counted(count - shown, f'more {what}')}: see --limit)"


def _more_facts(answered: AnsweredQuery, shown: int) -> Iterator[str]:
    """Yield how many facts are not shown: there may be more than were asked for."""
    if len(answered.facts) < DEFAULT_LIMITS.facts:
        yield from more(len(answered.facts), shown, "fact")
    elif len(answered.facts) >= shown:
        yield "(there may be more facts: see --limit)"


def _explanation(reply: Reply, shown: int) -> Iterator[str]:
    """Yield what the question's words name, and the candidates for its query."""
    choice = reply.choice
    if choice is None:
        return
    yield f"Asks for: {', '.join(choice.heads)}"
    for one in choice.mentions.entities:
        words = line(choice.question[one.start : one.stop])
        yield f"Names: {words!r} <{line(one.name)}>, {one.share:.0%} of the facts of its namesakes"
    yield from (f"Names: predicate <{line(name)}>" for name in sorted(choice.mentions.predicates))
    yield from (f"Names: number {number}" for number in choice.mentions.numbers)
    for candidate in choice.candidates[:shown]:
        told = choice.told(candidate)
        yield f"Candidate: {candidate.score:8.2f} (told {told:6.2f})  {line(write_line(candidate.query))}"
    yield from more(len(choice.candidates), shown, "candidate")


def fact_line(fact: LinkedFact) -> str:
    """Return a fact as text, without control characters."""
    return " ".join(f"<{line(_label(part))}>" for part in (fact.subject, fact.predicate, fact.object))


def _label(part: Link | str) -> str:
    return part if isinstance(part, str) else part.label
