"""Scores of a written query against a gold query: its rows, and the parts that it is expected to have."""

from collections.abc import Iterable, Sequence
from itertools import permutations

from refactx.sparql.engines import Rows, Term

MOST_TRIED = 5000
"""The most ways to pair columns that are tried."""


def rows_f1(gold: Rows, primary: Sequence[str], found: Rows | bool | None) -> float:
    """Return the F1 of a query's rows, as sets, over the primary variables of gold.

    Names of variables are the writer's own, so columns are paired in the best way; one with the same name counts first.
    With fewer columns than primary variables, or none, it is 0.

    >>> from pyoxigraph import Literal
    >>> gold = Rows(("word",), [(Literal("cane"),), (Literal("gatto"),)])
    >>> rows_f1(gold, ["word"], Rows(("n", "w"), [(Literal("1"), Literal("cane")), (Literal("2"), Literal("lupo"))]))
    0.5
    """
    if found is None or isinstance(found, bool):
        return 0.0
    wanted = [gold.variables.index(name) for name in primary if name in gold.variables]
    if not wanted:
        wanted = list(range(len(gold.variables)))
    expected = {tuple(_value(row[at]) for at in wanted) for row in gold.rows}
    if len(found.variables) < len(wanted) or not expected:
        return float(not expected and not found.rows)
    names = [gold.variables[at] for at in wanted]
    order = sorted(range(len(found.variables)), key=lambda at: found.variables[at] not in names)
    best = 0.0
    for number, columns in enumerate(permutations(order, len(wanted))):
        if number == MOST_TRIED or best == 1.0:
            break
        best = max(best, _f1(expected, {tuple(_value(row[at]) for at in columns) for row in found.rows}))
    return best


def components_found(sparql: str | None, components: Iterable[str]) -> float | None:
    """Return the share of expected parts that a query has, as texts; None if none are expected.

    >>> components_found("SELECT ?x { GRAPH  <http://e.org/g> { ?x a ex:Dog } }", ["GRAPH <http://e.org/g>", "ex:Cat"])
    0.5
    """
    wanted = [_folded(one) for one in components]
    if not wanted:
        return None
    text = _folded(sparql or "")
    return sum(one in text for one in wanted) / len(wanted)


def set_f1(expected: Iterable[str], found: Iterable[str]) -> float:
    """Return the F1 of a set; 1 if both are empty.

    >>> set_f1({"A", "B"}, {"B"}), set_f1((), ())
    (0.6666666666666666, 1.0)
    """
    one, other = set(expected), set(found)
    return 1.0 if not one and not other else _f1(one, other)


def _f1(expected: set, found: set) -> float:  # type: ignore[type-arg]
    both = len(expected & found)
    return 2 * both / (len(expected) + len(found)) if both else 0.0


def _value(term: Term | None) -> str:
    """Return what of a term counts: not its language or datatype, and numbers as numbers."""
    text = "" if term is None else str(getattr(term, "value", term))
    try:
        return f"{float(text):g}"
    except ValueError:
        return text


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()
