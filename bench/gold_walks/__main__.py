"""`python -m bench.gold_walks QUESTIONS NT`: fractions of gold SPARQL that are walks, and that keep their answers.

QUESTIONS has lines of JSON with `id`, `kind` and `sparql`; NT has the claims that both queries are run on.
"""

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path

import click
from pyoxigraph import NamedNode, QueryBoolean, RdfFormat, Store

from bench.gold_walks.store_facts import StoreFacts
from refactx.query.line import write_line
from refactx.query.sparql import PREFIXES, from_sparql, to_sparql
from refactx.query.walk import QueryError

SAME, NONE, OTHER = "same", "no walk", "other"
UNLIMITED, UNITED = "limit dropped", "two properties"
"""Reasons of other answers: gold has a limit without an order; the index joins a property with its inverse property."""


@click.command()
@click.argument("questions", type=click.Path(exists=True, path_type=Path))
@click.argument("claims", type=click.Path(exists=True, path_type=Path))
@click.option("--show", is_flag=True, help="Print each query whose answers differ, and each that is no walk.")
def main(questions: Path, claims: Path, show: bool) -> None:
    """Print for each kind of question how many gold queries are walks, and whether their SPARQL has gold's answers."""
    store = load(claims)
    facts = StoreFacts(store)
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for line in questions.read_text(encoding="utf-8").splitlines():
        question = json.loads(line)
        outcome, walk = compare(question["sparql"], facts, store)
        found[question["kind"]][outcome] += 1
        if show and outcome != SAME:
            click.echo(f"{question['id']}: {outcome}\n  {question['sparql'].rpartition('> ')[2]}\n  {walk}")
    total: Counter[str] = sum(found.values(), Counter())
    columns = (SAME, UNLIMITED, UNITED, OTHER)
    click.echo(f"{'':12}{'n':>6}{'walks':>8}" + "".join(f"{name:>16}" for name in columns))
    for kind, counts in [*sorted(found.items()), ("all", total)]:
        n = counts.total()
        cells = "".join(f"{counts[name] / n:>16.3f}" for name in columns)
        click.echo(f"{kind:12}{n:>6}{1 - counts[NONE] / n:>8.3f}{cells}")


def compare(gold: str, facts: StoreFacts, store: Store) -> tuple[str, str]:
    """Return how the answers of a gold query's walk compare with its own, and the walk's line."""
    try:
        query = from_sparql(gold, facts)
    except QueryError as error:
        return NONE, str(error)
    if query is None:
        return NONE, ""
    sparql = to_sparql(query, facts)
    expected, got = answers(gold, store), answers(sparql, store)
    line = write_line(query)
    if got == expected:
        return SAME, line
    reason = UNITED if "|^" in sparql else OTHER
    if got > expected and "limit" in gold.lower() and query.by is None:
        reason = UNLIMITED
    return reason, f"{line}: {len(expected)} answers of gold, {len(got)} of the walk"


def answers(sparql: str, store: Store) -> set[str]:
    """Return what a query has: the column of entities, or else the first one, or whether there are rows."""
    found = store.query(sparql, prefixes=PREFIXES)
    if isinstance(found, QueryBoolean):
        return {str(bool(found))}
    columns = list(zip(*found, strict=True)) or [()]
    column = next((column for column in columns if isinstance(column[0], NamedNode)), columns[0]) if columns[0] else ()
    return {str(value) for value in column}


def load(claims: Path) -> Store:
    """Return a store in memory of a file of N-Triples, which may be compressed by gzip."""
    store = Store()
    with gzip.open(claims) if claims.suffix == ".gz" else claims.open("rb") as file:
        store.bulk_load(file, RdfFormat.N_TRIPLES)
    return store


if __name__ == "__main__":
    main()
