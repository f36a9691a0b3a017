"""The triple patterns of a query with placeholders that its answers have to match."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rdflib import URIRef
from rdflib.paths import InvPath, MulPath, SequencePath

from refactx.query.pgmr import PgmrQuery, with_declarations
from refactx.query.sparql.tree import name_of, parse_sparql

_PROPERTY = "http://www.wikidata.org/prop/"
_OF_SUBJECT = (f"{_PROPERTY}direct/", _PROPERTY)
"""Namespaces of properties whose subject is the entity: that of claims, and that which leads to statements."""
_OF_OBJECT = (f"{_PROPERTY}direct/", f"{_PROPERTY}statement/")
"""Namespaces of properties whose object is the value: that of claims, and that of statements."""
_OPTIONAL = ("OptionalGraphPattern", "MinusGraphPattern", "ServiceGraphPattern", "Filter")
_INNER = ("part", "graph", "where")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A triple pattern, by placeholders: an entity has a relation, or (`inverse`) is the value of one.

    >>> Pattern("entity1", "relation1").inverse
    False
    """

    entity: str
    relation: str
    inverse: bool = False


def patterns_of(query: PgmrQuery) -> tuple[Pattern, ...]:
    """Return the patterns of a query that relate a placeholder of an entity with one of a relation.

    Those are left out that answers may match or not: in OPTIONAL, MINUS, FILTER and SERVICE, on one side of a UNION or
    of `|`, below `*`; and qualifiers. Raises QueryError if the query is not SPARQL.

        patterns_of(read_pgmr("SELECT ?x { ?x wdt:relation1 entity1 } ..."))  # (Pattern("entity1", "relation1", True),)
    """
    found = dict.fromkeys(_patterns(parse_sparql(with_declarations(query.sparql))))
    return tuple(one for one in found if {one.entity, one.relation} <= query.mentions.keys())


def _patterns(node: Any) -> Iterator[Pattern]:
    if isinstance(node, list):
        for part in node:
            yield from _patterns(part)
        return
    name = name_of(node)
    if name == "TriplesBlock":
        for block in node.triples:
            for subject, predicate, value in zip(block[::3], block[1::3], block[2::3], strict=True):
                yield from _of_path(subject, predicate, value)
    elif (
        name is not None and name not in _OPTIONAL and not (name == "GroupOrUnionGraphPattern" and len(node.graph) > 1)
    ):
        for part in _INNER:
            if node.get(part) is not None:
                yield from _patterns(node.get(part))


def _of_path(subject: Any, path: Any, value: Any) -> Iterator[Pattern]:
    if isinstance(path, URIRef):
        relation, namespace = _split(path)
        for entity, inverse, spaces in ((subject, False, _OF_SUBJECT), (value, True, _OF_OBJECT)):
            if isinstance(entity, URIRef) and namespace in spaces:
                yield Pattern(_split(entity)[0], relation, inverse)
    elif isinstance(path, InvPath):
        yield from _of_path(value, path.arg, subject)
    elif isinstance(path, MulPath) and path.mod == "+":
        yield from _of_path(subject, path.path, value)
    elif isinstance(path, SequencePath):
        # A step that may be left out says nothing of the ends, nor do those after it.
        yield from _of_path(subject, path.args[0], None)
        yield from _of_path(None, path.args[-1], value)


def _split(uri: URIRef) -> tuple[str, str]:
    namespace, _, name = str(uri).rpartition("/")
    return name, f"{namespace}/"
