"""Expressions of rdflib's tree as calls and terms."""

from collections.abc import Callable, Iterator
from typing import Any

from rdflib.plugins.sparql.parserutils import CompValue

from refactx.nl2sparql.parsed.query import Call, Expression

_CHAINS = {"ConditionalOrExpression": "||", "ConditionalAndExpression": "&&"}
_SUMS = ("AdditiveExpression", "MultiplicativeExpression")
_SIGNS = {"UnaryNot": "!", "UnaryMinus": "-", "UnaryPlus": "+"}
_AGGREGATES = {"Aggregate_GroupConcat": "GROUP_CONCAT"}
_NO_ARGUMENTS = ("distinct", "separator", "graph")


class Expressions:
    """Turns nodes of expressions into calls. `term`: of a node that is a term; `group`: reads the group of an EXISTS, given
    its node and kind, and returns its number."""

    def __init__(self, term: Callable[[Any], str], group: Callable[[Any, str], int]) -> None:
        self._term, self._group = term, group

    def of(self, node: Any) -> Expression:
        """Return the expression of a node."""
        if not isinstance(node, CompValue) or node.name in ("pname", "literal"):
            return self._term(node)
        name = node.name
        if name in _CHAINS:
            return self._chain(_CHAINS[name], [node.expr, *(node.other or ())])
        if name in _SUMS:
            return self._sum(node)
        if name == "RelationalExpression":
            return self._relation(node)
        if name in _SIGNS:
            return Call(_SIGNS[name], (self.of(node.expr),))
        if name in ("Builtin_EXISTS", "Builtin_NOTEXISTS"):
            kind = "exists" if name == "Builtin_EXISTS" else "not exists"
            return Call(kind.upper(), groups=(self._group(node.graph, kind),))
        if name == "Function":
            return Call(self._term(node.iri), tuple(map(self.of, node.expr or ())), distinct=bool(node.distinct))
        if name.startswith("Aggregate_"):
            arguments = () if node.vars == "*" else (self.of(node.vars),)
            return Call(_AGGREGATES.get(name, name[10:].upper()), arguments, distinct=bool(node.distinct))
        return Call(name.removeprefix("Builtin_").upper(), tuple(self._arguments(node)))

    def _arguments(self, node: CompValue) -> Iterator[Expression]:
        for name, value in node.items():
            if name in _NO_ARGUMENTS or value is None:
                continue
            if isinstance(value, CompValue | str):
                yield self.of(value)
            else:  # a list
                yield from map(self.of, value)

    def _chain(self, name: str, nodes: list[Any]) -> Expression:
        found = tuple(map(self.of, nodes))
        return found[0] if len(found) == 1 else Call(name, found)

    def _sum(self, node: CompValue) -> Expression:
        found = self.of(node.expr)
        for sign, other in zip(node.op or (), node.other or (), strict=True):
            found = Call(str(sign), (found, self.of(other)))
        return found

    def _relation(self, node: CompValue) -> Expression:
        left = self.of(node.expr)
        if not node.op:
            return left
        if node.op in ("IN", "NOT IN"):
            listed = Call("IN", (left, *map(self.of, node.other)))
            return listed if node.op == "IN" else Call("!", (listed,))
        return Call(str(node.op), (left, self.of(node.other)))
