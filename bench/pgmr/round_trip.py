"""Gold queries as PGMR text and back, by the names of an index: the share that is the same query again."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product

from bench.pgmr.evaluate import read_or_error
from bench.pgmr.examples import Example
from refactx.errors import InputError
from refactx.index.index import Index
from refactx.sparql.placeholders.index_names import IndexNames, IndexResolver
from refactx.sparql.placeholders.text import (
    Dialect,
    MentionNames,
    MentionsRefusedError,
    PgmrQuery,
    Style,
    to_pgmr,
)
from refactx.sparql.syntax.tree import shape_of

DIALECTS: tuple[Dialect, Dialect] = ("block", "inline")
STYLES = {
    f"{dialect}{', lower case' * lower}": Style(dialect=dialect, lower=lower, one_line=lower, prefixes=not lower)
    for dialect, lower in product(DIALECTS, (False, True))
}

NOT_WRITTEN = InputError("not written")


def round_trip(examples: Sequence[Example], index: Index) -> Iterator[tuple[str, Counter[str]]]:
    """Yield styles, with how many queries are the `same` again, are `other`, or have other outcomes.

    `refused`: what a name means is not certain; `not written`: the dialect has no way to write it.
    """
    names = IndexNames(index)
    for name, style in STYLES.items():
        queries = [_there(example.sparql, names, style) for example in examples]
        resolver = IndexResolver(index, ignore_case=style.lower)
        pairs = zip(examples, queries, strict=True)
        yield name, Counter(_back(example.sparql, query, resolver) for example, query in pairs)


def _there(sparql: str, names: MentionNames, style: Style) -> PgmrQuery | InputError:
    try:
        text = to_pgmr(sparql, names, style)
    except InputError:
        return NOT_WRITTEN
    return read_or_error(text)


def _back(sparql: str, query: PgmrQuery | InputError, resolver: IndexResolver) -> str:
    try:
        if isinstance(query, InputError):
            return str(query)
        again = query.resolved(resolver)
    except MentionsRefusedError:
        return "refused"
    return "same" if shape_of(again) == shape_of(sparql) else "other"
