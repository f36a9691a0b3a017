"""Patterns with values as triples in graphs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

from refactx.nl2sparql.frozen.candidates import FROZEN
from refactx.nl2sparql.frozen.profile import Profile, ends_of
from refactx.nl2sparql.frozen.rewriting import graph_of_service
from refactx.nl2sparql.parsed import ParsedQuery, Pattern, iri_of, is_blank, is_variable
from refactx.nl2sparql.parsed.terms import parts_of_literal


@dataclass(frozen=True, slots=True)
class Change:
    """What a near miss has otherwise than the data of a query. `swapped`: another term for a constant; `graph`: another
    graph for patterns in GRAPH, by its name alone; `reversed`: the pattern that is the other way round; `bare`: whether
    what is optional is left out."""

    swapped: Mapping[str, str] | None = None
    graph: str | None = None
    reversed: Pattern | None = None
    bare: bool = False


NONE = Change()


def quads_of(
    query: ParsedQuery, profile: Profile, values: Mapping[str, str], number: int, change: Change = NONE
) -> Iterator[Quad]:
    """Yield the triples of a query's patterns, once in each graph that has them. `number`: of the copy; every second one
    has two steps where a path may have several."""
    for pattern in query.patterns:
        if not query.has_to_match(pattern.group) or (change.bare and _is_optional(query, pattern.group)):
            continue
        given = {**values, **(change.swapped or {})}
        subject, predicate, value = (given.get(term, term) for term in pattern.terms)
        if pattern is change.reversed:
            subject, value = value, subject
        if predicate.startswith("!"):
            predicate = f"<{FROZEN}other>"
        if not iri_of(subject) or not iri_of(predicate):
            continue
        steps = [(subject, value)]
        if pattern.closure in ("*", "+") and number % 2:
            middle = f"<{FROZEN}between{abs(hash_of(subject, value))}>"
            steps = [(subject, middle), (middle, value)]
        for one, other in steps:
            yield from _in_graphs(query, profile, pattern, (one, predicate, other), given, change)


def _in_graphs(
    query: ParsedQuery,
    profile: Profile,
    pattern: Pattern,
    triple: tuple[str, str, str],
    values: Mapping[str, str],
    change: Change,
) -> Iterator[Quad]:
    subject, predicate, value = triple
    terms = (NamedNode(subject[1:-1]), NamedNode(predicate[1:-1]), term_of(value))
    service = iri_of(values.get(pattern.service or "", pattern.service or ""))
    if service is not None:
        yield Quad(*terms, NamedNode(graph_of_service(service)))
        return
    graph = values.get(pattern.graph or "", pattern.graph or "") or profile.home(query, pattern)
    if pattern.graph is not None and change.graph is not None:
        yield Quad(*terms, NamedNode(change.graph[1:-1]))
        return
    yield Quad(*terms, DefaultGraph())
    if graph is not None and iri_of(graph):
        yield Quad(*terms, NamedNode(graph[1:-1]))


def term_of(term: str) -> NamedNode | Literal:
    """Return a term as pyoxigraph's."""
    found = parts_of_literal(term)
    if found is None:
        return NamedNode(term[1:-1])
    text, language, datatype = found
    if language:
        return Literal(text, language=language)
    return Literal(text, datatype=NamedNode(datatype)) if datatype else Literal(text)


def hash_of(*terms: str) -> int:
    """Return a number for terms that is the same in every process."""
    number = 0
    for character in "".join(terms):
        number = (number * 31 + ord(character)) % 1_000_000_007
    return number


def _is_optional(query: ParsedQuery, group: int) -> bool:
    return any(one.kind == "optional" for one in query.around(group))


def has_optional(query: ParsedQuery) -> bool:
    """Return whether rows may lack what some patterns have."""
    return any(_is_optional(query, one.group) for one in query.patterns)


def constants_of(query: ParsedQuery, profile: Profile) -> Iterator[tuple[str, str]]:
    """Yield the constants of a query, each with another one that stands where it does in other queries."""
    for pattern in query.patterns:
        for end, term in ends_of(pattern):
            if not is_variable(term) and not is_blank(term) and iri_of(term):
                others = profile.constants.get((pattern.predicate, end), ())
                yield from ((term, other) for other in _after(others, term)[:1])


def _after(terms: tuple[str, ...], term: str) -> list[str]:
    """Return the terms after one, and then those before it."""
    at = terms.index(term) if term in terms else -1
    return [*terms[at + 1 :], *terms[: max(at, 0)]]
