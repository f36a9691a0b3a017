"""`python -m bench.gold_walks QUESTIONS CLAIMS INDEX`: gold SPARQL read as walks, and answered by an index.

QUESTIONS has lines of JSON with `id`, `kind` and `sparql`; CLAIMS are the N-Triples that INDEX was ingested from. Each
walk is also written as SPARQL and run on the claims.
"""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import click
from pyoxigraph import Store

from bench.gold_walks.answers import Answer, answer_of_index, answer_of_store, load
from bench.gold_walks.differences import NO_WALK, OTHER, REASONS, REFUSED, SAME, TIE, UNWRITTEN, is_tie, reason
from refactx.index.open import open_index
from refactx.sparql.walks import from_sparql
from refactx.walks.facts import TreeFacts
from refactx.walks.language import FactSet, Query, QueryError, write_line
from refactx.walks.sparql_text import to_sparql


@dataclass(frozen=True, slots=True)
class Compared:
    """A gold query compared with its walk.

    `outcome`: of gold in the store against the walk in the index; `written`: of the walk's SPARQL in the store against
    the walk in the index; `is_exact`: whether the walk may not have other rows; `line`: the walk; `note`: how they
    differ.
    """

    outcome: str
    written: str = ""
    is_exact: bool = False
    line: str = ""
    note: str = ""


@click.command()
@click.argument("questions", type=click.Path(exists=True, path_type=Path))
@click.argument("claims", type=click.Path(exists=True, path_type=Path))
@click.argument("index")
@click.option("--show", is_flag=True, help="Print each query that is no walk, too.")
def main(questions: Path, claims: Path, index: str, show: bool) -> None:
    """Print how many gold queries are walks, whether an index gives their answers, and each that differs."""
    store, found = load(claims), defaultdict[str, list[Compared]](list)
    with open_index(index) as opened:
        facts = TreeFacts(opened)
        for line in questions.read_text(encoding="utf-8").splitlines():
            question = json.loads(line)
            compared = compare(question["sparql"], facts, store)
            found[question["kind"]].append(compared)
            if compared.outcome == NO_WALK and show:
                click.echo(f"{question['id']}: {NO_WALK}\n  {question['sparql'].rpartition('> ')[2]}")
            elif {compared.outcome, compared.written} - {SAME, NO_WALK, UNWRITTEN, ""}:
                click.echo(f"{question['id']}: {compared.outcome}: {compared.note}\n  {compared.line}")
    _print_table(found)


def compare(gold: str, facts: FactSet, store: Store) -> Compared:
    """Compare a gold query with its walk, answered by an index of the claims that the store has."""
    query = from_sparql(gold, facts)
    if query is None:
        return Compared(NO_WALK)
    expected, line = answer_of_store(gold, store), write_line(query)
    is_exact = from_sparql(gold, facts, exact=True) is not None
    try:
        got = answer_of_index(query, facts)
    except QueryError as error:
        return Compared(REFUSED, REFUSED, is_exact, line, str(error))
    outcome = SAME if got == expected else reason(gold, query, facts, store, (expected, got))
    return Compared(outcome, _written(query, facts, store, got), is_exact, line, _note(expected, got))


def _written(query: Query, facts: FactSet, store: Store, got: Answer) -> str:
    try:
        expected = answer_of_store(to_sparql(query, facts), store)
    except QueryError:
        return UNWRITTEN
    return SAME if got == expected else TIE if is_tie(query, facts, (expected, got)) else OTHER


def _note(expected: Answer, got: Answer) -> str:
    if isinstance(expected, bool) or isinstance(got, bool) or len(expected) == len(got) == 1:
        return f"{_shown(expected)} of gold, {_shown(got)} of the walk"
    return f"{len(expected)} members of gold, {len(got)} of the walk, {len(expected & got)} of both"


def _shown(answer: Answer) -> str:
    return str(answer) if isinstance(answer, bool) else ", ".join(sorted(answer))


def _print_table(found: dict[str, list[Compared]]) -> None:
    every = [one for some in found.values() for one in some]
    click.echo(f"\n{'':12}{'n':>6}{'walks':>7}{'same':>7}{'exact walks':>13}{'same':>7}")
    for kind, some in [*sorted(found.items()), ("all", every)]:
        walks = [one for one in some if one.outcome != NO_WALK]
        exact = [one for one in walks if one.is_exact]
        shares = [_share(one) for one in (walks, exact)]
        click.echo(f"{kind:12}{len(some):>6}{len(walks):>7}{shares[0]:>7}{len(exact):>13}{shares[1]:>7}")
    click.echo("\nanswers of gold and of the walk:")
    counts = Counter(one.outcome for one in every)
    for outcome, count in counts.most_common():
        meant = "; ".join(REASONS[one] for one in outcome.split(" + ") if one in REASONS)
        click.echo(f"{count:>6} {outcome}{meant and ': '}{meant}")
    written = Counter(one.written for one in every if one.written)
    click.echo(f"\nthe walk's own SPARQL: {', '.join(f'{n} {one}' for one, n in written.most_common())}")


def _share(some: list[Compared]) -> str:
    return f"{sum(one.outcome == SAME for one in some) / len(some):.3f}" if some else "-"


if __name__ == "__main__":
    main()
