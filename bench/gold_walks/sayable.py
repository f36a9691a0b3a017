"""`python -m bench.gold_walks.sayable FILE...`: how many gold queries a walk says, if an index had all their names.

Files are those that `refactx.eval.questions` reads. Of queries that are no walks, the first part is counted that none has.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from refactx.eval.questions import read_queries
from refactx.fact import Link, Qualifiers
from refactx.iris import PREFIXES
from refactx.sparql.syntax import tree
from refactx.sparql.syntax.parser import read_sparql
from refactx.sparql.walks import from_sparql
from refactx.walks.language import Predicate, QueryError

_BACK = " of"


class NamesOfAll:
    """Facts that name every id by itself, and have an inverse of every property (`refactx.walks.language.FactSet`)."""

    base = None
    has_statements = True
    size = 0

    def predicates(self, subject: str) -> Mapping[str, int]:
        return {"alias of": 1}

    def describe(self, predicates: Sequence[str]) -> Mapping[str, Predicate]:
        return {
            name: Predicate(name, name.removesuffix(_BACK), name.endswith(_BACK), "literal")
            for name in predicates
            if name
        }

    def inverse_of(self, predicate: str) -> str:
        return predicate.removesuffix(_BACK) if predicate.endswith(_BACK) else predicate + _BACK

    def link(self, name: str, id_: str | None) -> Link:
        return Link(name, id_)

    def counts(self, subjects: Sequence[str], predicate: str) -> Sequence[int]:
        return [1 for _ in subjects]

    def is_hub(self, subject: str, predicate: str) -> bool:
        return False

    def objects(self, subjects: Sequence[str], predicate: str) -> Iterator[tuple[str, str]]:
        return iter(())

    def statements(self, subjects: Sequence[str], predicate: str) -> Iterator[tuple[str, str, Qualifiers]]:
        return iter(())

    def hold(self, facts: Sequence[tuple[str, str, str]]) -> Sequence[bool]:
        return [False for _ in facts]

    def scan(self, ends: object, lasts: object, most: int | None = None) -> Sequence[tuple[str, str, str]]:
        return []

    def ids(self, names: Sequence[str]) -> Mapping[str, str]:
        return {name: name.removesuffix(_BACK) for name in names}

    def names(self, ids: Sequence[str], *, inverse: bool = False) -> Mapping[str, str]:
        return {id_: id_ + _BACK * inverse for id_ in ids}


def reason(sparql: str) -> str:
    """Return the first part of a query that no walk has."""
    query = read_sparql(sparql).query
    found = list(tree.nodes(query))
    nested = {one.kind for one in found if isinstance(one, tree.Nested)}
    calls = {one.name for one in found if isinstance(one, tree.Call)}
    paths = [one.path for one in tree.triples_of(query)]
    uris = {one.value for one in found if isinstance(one, tree.Term) and one.kind == "iri"}
    computes = any(isinstance(one, tree.Bind) for one in found) or calls & {"SUM", "AVG", "MAX", "MIN"}
    is_within = sum(isinstance(one, tree.QueryTree) for one in found) > 1
    reasons = {
        "SERVICE": "service" in nested,
        "OPTIONAL": "optional" in nested,
        "several columns": query.form == "SELECT" and len(query.selected) > 1,
        "UNION, alternatives, a variable as property": "union" in nested
        or any(isinstance(path, tree.Term) and path.kind == "variable" for path in paths)
        or any(isinstance(one, tree.Path) and one.sign == "|" for one in found),
        "computed values, sums, queries within, HAVING, OFFSET": computes or is_within or query.having or query.offset,
        "a qualifier read backwards, or two statements at once": any(uri.startswith(PREFIXES["pq"]) for uri in uris),
        "a choice of constants, values that differ, other languages": calls & {"IN", "!=", "LANGMATCHES", "LANG"}
        or any(isinstance(one, tree.Values) for one in found),
    }
    return next(
        (name for name, holds in reasons.items() if holds), "a filter on what is on the way, or on the start itself"
    )


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
def main(files: Sequence[Path]) -> None:
    """Print how many gold queries of files are walks, and what the others have."""
    for file in files:
        counts = Counter[str]()
        for question in read_queries(file):
            try:
                counts["walks" if from_sparql(question.sparql, NamesOfAll()) else reason(question.sparql)] += 1
            except QueryError:
                counts["no SPARQL 1.1"] += 1
        click.echo(f"{file}: {counts['walks']} of {counts.total()} ({counts['walks'] / counts.total():.3f})")
        for name, count in counts.most_common():
            click.echo(f"{count:>6} {name}")


if __name__ == "__main__":
    main()
