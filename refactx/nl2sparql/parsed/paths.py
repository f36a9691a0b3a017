"""Property paths of rdflib's tree as steps from subject to object."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from rdflib.plugins.sparql.parserutils import CompValue

from refactx.nl2sparql.parsed.query import Closure
from refactx.sparql.engines import QueryRefusedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a path, over a property or, in brackets, over one of several `ways`. `inverse`: from object to subject."""

    property: str = ""
    closure: Closure = ""
    inverse: bool = False
    ways: "Ways" = ()


Ways: TypeAlias = tuple[tuple[Step, ...], ...]
"""The alternatives of a path, each a sequence of steps."""


def steps_of(node: Any, iri: Callable[[Any], str]) -> Ways:
    """Return the ways that a path has. `iri`: returns the term of a node that is an IRI."""
    if not isinstance(node, CompValue) or node.name == "pname":
        return ((Step(property=iri(node)),),)
    if node.name == "PathAlternative":
        return tuple(way for part in node.part for way in steps_of(part, iri))
    if node.name == "PathSequence":
        return (tuple(step for part in node.part for step in _joined(steps_of(part, iri))),)
    if node.name == "PathEltOrInverse":
        return (tuple(_turned(step) for step in reversed(_joined(steps_of(node.part, iri)))),)
    if node.name == "PathNegatedPropertySet":
        return ((Step(property=_negated(node, iri)),),)
    inner = _joined(steps_of(node.part, iri))  # PathElt
    return (tuple(replace(step, closure=node.mod) for step in inner) if node.mod else inner,)


def _joined(ways: Ways) -> tuple[Step, ...]:
    """Return ways as steps: those of the only one, or one step over all."""
    return ways[0] if len(ways) == 1 else (Step(ways=ways),)


def _turned(step: Step) -> Step:
    return replace(step, inverse=not step.inverse)


def _negated(node: CompValue, iri: Callable[[Any], str]) -> str:
    if any(isinstance(part, CompValue) and part.name == "InversePath" for part in node.part):  # rdflib drops its IRI
        raise QueryRefusedError("this query has a negated path with ^ in it, which cannot be read: write it without ^")
    return f"!({'|'.join(iri(part) for part in node.part)})"
