"""Semantic query match (SQM): whether two queries are one up to names of variables and the order of triples.

Prefixes, keywords' case, white space, and `;` and `,` make no difference, since syntax trees are compared. Triples are
a set within a basic graph pattern, which ends where SPARQL ends it: at OPTIONAL, UNION or VALUES, but not at FILTER. All
else has its order: variables after SELECT, conditions of ORDER BY, the patterns of a group.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from refactx.lazy import require

if TYPE_CHECKING:
    from refactx.query.pgmr.syntax import Shape

Mode = Literal["paper", "strict"]
"""`strict`: the patterns are isomorphic graphs; `paper`: the terms of a triple may be in any order too."""


def same_query(one: str, other: str, mode: Mode = "strict") -> bool:
    """Return whether two queries are the same.

    Raises QueryError if one is not SPARQL; InputError if rdflib is not installed.

    >>> same_query("SELECT ?x { ?x wdt:P31 wd:Q5 ; wdt:P40 ?y }", "select ?a where { ?a wdt:P40 ?b . ?a wdt:P31 wd:Q5 }")
    True
    >>> same_query("ASK { wd:Q1 wdt:P2 wd:Q3 }", "ASK { wd:Q3 wdt:P2 wd:Q1 }", "paper")
    True
    """
    require("rdflib", "sparql")
    from refactx.query.sparql.parser import on_a_deep_stack

    shapes = [_shape_of(text) for text in (one, other)]
    return on_a_deep_stack(lambda: _are_same(*(_patterns(shape, mode) for shape in shapes)))


@lru_cache(maxsize=4096)
def _shape_of(text: str) -> "Shape":
    """Return the syntax tree of a query. To parse one takes 0.1 s, and a gold query is compared many times."""
    from refactx.query.pgmr.syntax import shape_of

    return shape_of(text)


@dataclass(frozen=True, slots=True)
class _Name:
    """A variable or a blank node, whose name is free."""

    kind: str
    name: Any


@dataclass(frozen=True, slots=True)
class _Set:
    """Parts in any order, each with what it is but for names. Those that are like few others come first."""

    parts: tuple[tuple[str, Any], ...]


def _set_of(parts: Iterable[Any]) -> _Set:
    """Return a set of parts, each once."""
    found = [(_without_names(part), part) for part in dict.fromkeys(parts)]
    counts = Counter(text for text, _ in found)
    return _Set(tuple(sorted(found, key=lambda item: (counts[item[0]], item[0]))))


def _without_names(node: Any) -> str:
    """Return a text that parts have in common if they differ in names alone."""
    if isinstance(node, _Name):
        return f"?{node.kind}"
    if isinstance(node, _Set):
        return "{" + " ".join(sorted(text for text, _ in node.parts)) + "}"
    return "(" + " ".join(map(_without_names, node)) + ")" if isinstance(node, tuple) else repr(node)


def _patterns(node: Any, mode: Mode) -> Any:
    """Return a shape with its names, and with its triples and filters as sets."""
    match node:
        case ("variable" | "blank" as kind, name):
            return _Name(kind, name)
        case ("literal", ("datatype", ("uri", datatype)), ("string", ("literal", text, *_))):
            return ("literal", text, "", datatype)  # as of a number without quotes
        case ("uri" | "literal" | "word" | "value", *_):
            return node
        case ("triples" | "template" as name, lists):
            return (name, _set_of(_triples(lists, mode)))
        case ("GroupGraphPatternSub", *pairs):
            return ("group", *_group(dict(pairs).get("part", ()), mode))
        case tuple():
            return tuple(_patterns(part, mode) for part in node)
    return node


def _group(parts: "Iterable[Shape]", mode: Mode) -> Iterator[Any]:
    """Yield the filters of a group as a set, and its other parts in their order, with basic graph patterns as sets."""
    filters, found, triples = list[Any](), list[Any](), list[Any]()
    for part in parts:
        if part[0] == "TriplesBlock":
            triples += _triples(dict(part[1:]).get("triples", ()), mode)
        elif part[0] == "Filter":
            filters.append(_patterns(part, mode))
        else:
            found += [_set_of(triples), _patterns(part, mode)]
            triples = []
    yield _set_of(filters)
    yield from [*found, _set_of(triples)]


def _triples(lists: "Iterable[Shape]", mode: Mode) -> Iterator[Any]:
    """Yield the triples of lists of terms: subject, predicate, object, subject, and so on."""
    for terms in lists:
        found = [_patterns(term, mode) for term in terms]
        for at in range(0, len(found), 3):
            triple = found[at : at + 3]
            if mode == "strict":
                yield tuple(triple)
            else:  # equal terms stay, and triples of the same terms are equal
                alike = sorted(
                    ((_without_names(term), term) for term in triple), key=lambda item: (item[0], repr(item[1]))
                )
                yield _Set(tuple(alike))


def _without(parts: _Set, at: int) -> _Set:
    return _Set((*parts.parts[:at], *parts.parts[at + 1 :]))


def _are_same(one: Any, other: Any) -> bool:
    return _without_names(one) == _without_names(other) and _solve(((one, other), None), {}, {})


def _solve(pairs: Any, there: dict[_Name, _Name], back: dict[_Name, _Name]) -> bool:
    """Return whether all pairs are the same under one renaming. `pairs`: a linked list; `there`, `back`: the names so far."""
    while pairs is not None:
        (one, other), pairs = pairs
        if isinstance(one, _Name) and isinstance(other, _Name):
            if there.setdefault(one, other) != other or back.setdefault(other, one) != one or one.kind != other.kind:
                return False
        elif isinstance(one, _Set) and isinstance(other, _Set):
            if len(one.parts) != len(other.parts):
                return False
            if not one.parts:
                continue
            (text, part), *rest = one.parts
            choices = [
                ((part, candidate), ((_Set(tuple(rest)), _without(other, at)), pairs))
                for at, (candidate_text, candidate) in enumerate(other.parts)
                if candidate_text == text
            ]
            if len(choices) != 1:
                return any(_solve(choice, dict(there), dict(back)) for choice in choices)
            pairs = choices[0]
        elif isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
            for pair in zip(one, other, strict=True):
                pairs = (pair, pairs)
        elif one != other:
            return False
    return True
