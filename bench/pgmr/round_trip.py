"""Gold queries as PGMR text and back, by the names of an index: the share that is the same query again."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product

from refactx.errors import InputError
from refactx.index.index import Index
from refactx.sparql.placeholders.index_names import IndexNames, IndexResolver
from refactx.sparql.placeholders.text import (
    Dialect,
    MentionNames,
    MentionsRefusedError,
    PgmrQuery,
    Style,
    read_pgmr,
    to_pgmr,
)
from refactx.sparql.syntax.tree import shape_of

DIALECTS: tuple[Dialect, Dialect] = ("block", "inline")
STYLES = {
    f"{dialect}{', lower case' * lower}": Style(dialect=dialect, lower=lower, one_line=lower, prefixes=not lower)
    for dialect, lower in product(DIALECTS, (False, True))
}

NOT_WRITTEN = InputError("not written")


def round_trip(gold: Sequence[str], index: Index) -> Iterator[tuple[str, Counter[str]]]:
    """Yield styles, with how many queries are the `same` again, are `other`, or have other outcomes.

    `refused`: what a name means is not certain; `not written`: the dialect has no way to write it.
    """
    names = IndexNames(index)
    for name, style in STYLES.items():
        queries = [_there(sparql, names, style) for sparql in gold]
        resolver = IndexResolver(index, ignore_case=style.lower)
        yield name, Counter(_back(sparql, query, resolver) for sparql, query in zip(gold, queries, strict=True))


def _there(sparql: str, names: MentionNames, style: Style) -> PgmrQuery | InputError:
    try:
        text = to_pgmr(sparql, names, style)
    except InputError:
        return NOT_WRITTEN
    try:
        return read_pgmr(text)
    except InputError as error:
        return error


def _back(sparql: str, query: PgmrQuery | InputError, resolver: IndexResolver) -> str:
    try:
        if isinstance(query, InputError):
            return str(query)
        again = query.resolved(resolver)
    except MentionsRefusedError:
        return "refused"
    return "same" if shape_of(again) == shape_of(sparql) else "other"
