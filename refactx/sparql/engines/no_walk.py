"""The reason why a query cannot be answered by the fact tree, and what can answer it."""

from collections.abc import Iterator

from refactx.query import Query, from_sparql, write_line
from refactx.query.fact_set import FactSet
from refactx.query.pgmr.uris import PREFIXES
from refactx.query.sparql.writer import leaves_values_backwards
from refactx.sparql.store.terms import OWN, name_of_own
from refactx.sparql.syntax.check import Checked
from refactx.sparql.syntax.reader import shape_of
from refactx.sparql.syntax.shape import Group, Shape, ShapeError
from refactx.sparql.syntax.tokens import Token, text_of, tokens_of

_WHAT = {
    "optional": "OPTIONAL", "minus": "MINUS", "union": "UNION", "bind": "BIND", "values": "VALUES", "graph": "GRAPH",
    "service": "SERVICE", "select": "a query within it", "group": "a group within it",
}  # fmt: skip


def reason_against(query: str, checked: Checked, facts: FactSet) -> str:
    """Return why a query is refused by the tree: what it has that a walk has not."""
    return f"the fact tree answers walks alone, and {_reason(query, checked, facts)}"


def _reason(query: str, checked: Checked, facts: FactSet) -> str:
    tokens = tokens_of(query)
    try:
        shape = shape_of(tokens)
    except ShapeError:
        return "this query is none"
    if parts := list(dict.fromkeys(_parts(shape, tokens))):
        return f"this query has {', '.join(parts)}"
    if not checked.is_ask and len(checked.variables) != 1:
        return f"this query asks for {len(checked.variables)} variables, a walk for one"
    own = [token.text for token in tokens if token.kind == "iri" and token.text.startswith(f"<{OWN}")]
    if own:
        return f"{name_of_own(own[0][1:-1])!r} has no id, by which walks are read"
    if unknown := _unknown(shape, tokens, facts):
        return f"{', '.join(unknown)} {'has' if len(unknown) == 1 else 'have'} no name in the index"
    walk = from_sparql(query, facts)
    if walk is not None:
        return f"{_difference(query, walk, facts)} (see `refactx query '{write_line(walk)}'`)"
    return "the patterns of this query are no chains of triples from an entity to one variable"


def _difference(query: str, walk: Query, facts: FactSet) -> str:
    """Return how the rows of a query may be other ones than those of its walk."""
    from refactx.query.sparql.reader import read_patterns

    patterns = read_patterns(query)
    if patterns is not None and any(condition.is_text for condition in patterns.conditions):
        return "this query compares text, which walks do in any case of letters"
    if patterns is not None and patterns.limit and patterns.order is None:
        return "this query has LIMIT without ORDER BY"
    if patterns is not None and not (patterns.ask or patterns.distinct or patterns.has_one_row_each()):
        return "this query may have equal rows, which a walk has not: write DISTINCT"
    if leaves_values_backwards(walk, facts):
        return "this query may go backwards from a value, which has no facts in walks"
    return "a property of this query has an inverse property (P1696), whose facts a walk has too"


def _parts(shape: Shape, tokens: list[Token]) -> Iterator[str]:
    if shape.where is not None:
        yield from _kinds(shape.where)
    for triple in shape.triples:
        if text_of(tokens, triple.path)[:1] in ("?", "$"):
            yield "a variable in place of a property"
    words = [tokens[at].upper for at in range(*shape.modifiers)]
    yield from (word for word in ("HAVING", "OFFSET", "VALUES") if word in words)


def _kinds(group: Group) -> Iterator[str]:
    for element in group.elements:
        if element.kind in _WHAT:
            yield _WHAT[element.kind]
        for inner in element.groups:
            yield from _kinds(inner)


def _unknown(shape: Shape, tokens: list[Token], facts: FactSet) -> list[str]:
    """Return the ids of a query that the index does not name."""
    ids = dict[str, str]()
    for token in tokens[shape.prologue[1] :]:
        prefix, _, local = token.text.partition(":")
        for known in ("wd", "wdt"):
            iri = PREFIXES[known]
            if token.kind == "name" and prefix == known:
                ids.setdefault(local, token.text)
            elif token.kind == "iri" and token.text.startswith(f"<{iri}"):
                ids.setdefault(token.text[1 + len(iri) : -1], token.text)
    named = facts.names(list(ids))
    return [text for id_, text in ids.items() if id_ not in named]
