"""`refactx facts`: how a fact may continue, or all facts of an index."""

import json
import os
import sys
from collections.abc import Iterator
from itertools import islice, tee
from typing import TYPE_CHECKING

import click

from refactx.cli.options import DB, INDEX, JSON, print_json
from refactx.errors import InputError
from refactx.fact import line

if TYPE_CHECKING:
    from refactx.index.index import Index


@click.command()
@click.argument("prefix", required=False)
@INDEX
@click.option("--all", "every", is_flag=True, help="Print all facts of the index, one a line.")
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help="Show at most N; default: 20 continuations, all facts."
)
@JSON
@DB
def facts(prefix: str | None, index: str, every: bool, limit: int | None, db: str | None, as_json: bool) -> None:
    """Show how facts continue after PREFIX, or all facts.

    With PREFIX, such as `"<Danny Boyle> <"`, each line is the beginning of a fact, up to the end of its next part,
    after the number of facts that begin so. With --all, facts are in the order of their token ids and in the form
    that `refactx ingest` reads; with --all --json, each line is a document with the ids of a fact's parts.
    """
    from refactx.index.open import open_index

    if every == (prefix is not None):
        given = "both PREFIX and --all were" if every else "neither PREFIX nor --all was"
        raise InputError(f'{given} given: give the beginning of a fact, such as "<Danny Boyle> <", or --all')
    with open_index(index, db) as opened:
        if prefix is None:
            return _print_all(opened, as_json, limit)
        found = opened.complete(prefix, limit or 20)
    if as_json:
        completions = [{"text": text, "leaves": leaves} for text, leaves in found]
        return print_json({"index": index, "prefix": prefix, "completions": completions})
    for text, leaves in found:
        click.echo(f"{leaves:>12,}  {line(text)}")
    if not found:
        click.echo(f"no fact of index {index!r} begins with {prefix!r}", err=True)
    return None


def _print_all(index: "Index", as_json: bool, limit: int | None) -> None:
    """Print the first `limit` facts (None: all), one a line.

    If the reader (such as `head`) closes the pipe, end without an error.
    """
    try:
        lines = _documents(index) if as_json else (line(fact.text) for fact in index.all_facts())
        for text in _progress(islice(lines, limit), min(index.facts, limit or index.facts)):
            sys.stdout.write(f"{text}\n")  # click.echo flushes each line
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would report the broken pipe again at exit, for what is still buffered.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _documents(index: "Index") -> Iterator[str]:
    """Yield each fact with its ids as a line of JSON."""
    from refactx.ask.answer import fact_json

    facts, again = tee(index.all_facts())  # holds the 1,024 facts that `links_of` reads ahead
    for fact, linked in zip(facts, index.links_of(again), strict=False):
        yield json.dumps(fact_json(fact, linked), ensure_ascii=False)


def _progress(lines: Iterator[str], total: int) -> Iterator[str]:
    """Yield the lines; count them on standard error if that is a terminal and standard output is none."""
    from tqdm import tqdm

    yield from tqdm(
        lines, total=total, unit=" facts", unit_scale=True, disable=sys.stdout.isatty() or None, leave=False
    )
