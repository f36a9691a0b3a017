"""Queries compared by their syntax trees, as rdflib's parser makes them."""

from collections.abc import Callable, Iterator
from typing import Any

from rdflib import BNode, Literal, URIRef, Variable
from rdflib.plugins.sparql import algebra
from rdflib.plugins.sparql.parserutils import CompValue

from refactx.query.language import QueryError
from refactx.query.pgmr.inline import tokens_of
from refactx.query.pgmr.prologue import Prologue
from refactx.query.sparql.parser import on_a_deep_stack, parse_text

Shape = tuple[Any, ...]
"""A tree of plain values. Two queries have equal shapes if they are the same query."""


def shape_of(sparql: str, rename: Callable[[str], str] = str) -> Shape:
    """Return the syntax tree of a query: without declarations, and with blank nodes by their order.

    `rename`: returns another URI for one. Raises QueryError if the text is not SPARQL.

    >>> shape_of("ASK { wd:Q1 wdt:P2 [] }") == shape_of("prefix x: <http://www.wikidata.org/entity/> ask{x:Q1 wdt:P2 _:b}")
    True
    """
    return on_a_deep_stack(lambda: _Shapes(rename).of(_tree_of(sparql)))


def predicates_of(sparql: str) -> set[str]:
    """Return the URIs that stand as predicates in a query, alone or in paths. Raises QueryError if it is not SPARQL.

    >>> sorted(predicates_of("ASK { <a:s> <a:p> <a:o> ; ^<a:q>/<a:r>* ?x }"))
    ['a:p', 'a:q', 'a:r']
    """
    nodes = on_a_deep_stack(lambda: list(_nodes(_tree_of(sparql))))
    blocks = [block for node in nodes if isinstance(node, CompValue) for block in _blocks(node)]
    return {str(node) for block in blocks for path in block[1::3] for node in _nodes(path) if isinstance(node, URIRef)}


def _tree_of(sparql: str) -> Any:
    """Return rdflib's tree of a query, with whole URIs."""
    prologue = Prologue(tokens_of(sparql))

    def resolve(node: Any) -> Any:
        if isinstance(node, URIRef):
            return URIRef(prologue.absolute(str(node)))
        if not isinstance(node, CompValue) or node.name != "pname":
            return None  # it stays
        namespace = prologue.prefixes.get(node.prefix or "")
        if namespace is None:
            raise QueryError(
                f"this is not SPARQL: the prefix {node.prefix or ''}: is not known: declare it with PREFIX"
            )
        return URIRef(f"{namespace}{node.localname or ''}")

    return algebra.traverse(parse_text(sparql)[1], visitPost=resolve)


def _blocks(node: CompValue) -> list[Any]:
    """Return the triples of a node: lists of a subject, a predicate and an object, and so on."""
    return [block for name in ("triples", "template") for block in node.get(name) or ()]


def _nodes(tree: Any) -> Iterator[Any]:
    """Yield a node and all nodes below it."""
    yield tree
    if isinstance(tree, CompValue):
        for part in tree.values():
            yield from _nodes(part)
    elif not isinstance(tree, (str, bool, int)) and tree is not None:
        for part in tree:
            yield from _nodes(part)


class _Shapes:
    """The shapes of the parts of one tree."""

    def __init__(self, rename: Callable[[str], str]) -> None:
        self._rename = rename
        self._blank: dict[str, int] = {}

    def of(self, node: Any) -> Shape:
        if isinstance(node, CompValue):
            # `service_string` is the text of a SERVICE, whose tree is there too
            names = sorted(name for name in node if name != "service_string")
            return (node.name, *((name, self.of(node[name])) for name in names))
        if isinstance(node, URIRef):
            return ("uri", self._rename(str(node)))
        if isinstance(node, BNode):
            return ("blank", self._blank.setdefault(str(node), len(self._blank)))
        if isinstance(node, Literal):
            return ("literal", str(node), (node.language or "").lower(), str(node.datatype or ""))
        if isinstance(node, Variable):
            return ("variable", str(node))
        if isinstance(node, str):  # a keyword, or the sign of an operation
            return ("word", node.upper())
        if node is None or isinstance(node, (bool, int)):
            return ("value", node)
        return tuple(self.of(part) for part in node)
