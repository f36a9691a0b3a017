"""The tree of a SPARQL query, as rdflib's parser makes it: its nodes, terms and paths.

A node has a name and parts by name; a part that it does not have is None.
"""

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rdflib import Literal, URIRef, Variable
from rdflib.paths import AlternativePath, InvPath, MulPath, SequencePath
from rdflib.plugins.sparql import algebra

from refactx.query.language import Closure, QueryError
from refactx.query.sparql.parser import parse_text
from refactx.query.sparql.patterns import Step, Term
from refactx.query.sparql.values import DATES, NUMBERS, XSD, date_text, number_text
from refactx.query.sparql.writer import PREFIXES


class OtherPart(Exception):  # noqa: N818  # the reason for None, within this package
    """A part of SPARQL that patterns do not have."""


def parse_sparql(text: str) -> Any:
    """Return rdflib's tree of a query, with prefixes and paths resolved."""
    from refactx.query.pgmr.uris import PREFIXES as KNOWN  # which imports this package

    parsed = parse_text(text)
    try:
        prologue = algebra.translatePrologue(parsed[0], None, KNOWN)
        resolve = functools.partial(algebra.translatePName, prologue=prologue)
        return algebra.traverse(algebra.traverse(parsed[1], visitPost=resolve), visitPost=algebra.translatePath)
    except Exception as error:  # rdflib raises no class of its own
        todo = "declare it with PREFIX" if "prefix" in str(error) else "write it in another way"
        raise QueryError(f"this is not SPARQL: {' '.join(str(error).split())}: {todo}") from None


def name_of(node: Any) -> str | None:
    """Return the name of a node; None for a term."""
    return getattr(node, "name", None)


def bare(node: Any) -> Any:
    """Return an expression without the nodes around it that have one part alone; with its sign, if it is a number."""
    while (inner := getattr(node, "expr", None)) is not None and not (node.other or node.op):
        if node.name == "UnaryMinus" and isinstance(inner, Literal):
            return type(inner)(f"-{inner}", datatype=inner.datatype)
        if node.name in ("UnaryMinus", "UnaryNot"):
            raise OtherPart
        node = inner
    return node


def conjunction(expression: Any) -> Iterator[Any]:
    if name_of(expression) == "ConditionalAndExpression":
        for part in (expression.expr, *expression.other):
            yield from conjunction(bare(part))
    else:
        yield expression


def term_of(node: Any) -> Term:
    if isinstance(node, Variable):
        return Term(variable=str(node))
    if isinstance(node, Literal):
        return Term(text=_text_of(node))
    if isinstance(node, URIRef) and str(node).startswith(PREFIXES["wd"]):
        return Term(id=str(node).removeprefix(PREFIXES["wd"]))
    raise OtherPart


def _text_of(literal: Literal) -> str:
    """Return a literal as facts have it."""
    lexical, datatype = str(literal), str(literal.datatype or "")
    text: str | None = lexical
    if datatype in DATES:
        text = date_text(lexical)
    elif datatype in NUMBERS:
        text = number_text(lexical)
    elif (literal.language or "en") != "en" or datatype not in ("", XSD + "string"):
        text = None
    if text is None:
        raise OtherPart
    return text


def steps_of(path: Any, closure: Closure = "") -> Iterator[Step]:
    """Yield the steps of a path from subject to object."""
    if isinstance(path, URIRef):
        yield Step(str(path), closure=closure)
    elif isinstance(path, InvPath):
        yield from (step.reversed() for step in reversed(list(steps_of(path.arg, closure))))
    elif isinstance(path, SequencePath) and not closure:
        found = list[Step]()
        for step in (step for part in path.args for step in steps_of(part)):
            if step.others and step.closure == "*" and found and found[-1] == replace(step, closure=""):
                found[-1] = replace(step, closure="+")  # as to_sparql writes it
            else:
                found.append(step)
        yield from found
    elif isinstance(path, MulPath) and not closure and path.mod in ("+", "*"):
        yield from steps_of(path.path, "+" if path.mod == "+" else "*")
    elif isinstance(path, AlternativePath):
        yield _step_of_several(path.args, closure)
    else:
        raise OtherPart


def _step_of_several(paths: Sequence[Any], closure: Closure) -> Step:
    """Return the step over alternatives, of which one is a property, and all others are read the other way."""
    ways = [(path.arg, True) if isinstance(path, InvPath) else (path, False) for path in paths]
    if not all(isinstance(iri, URIRef) for iri, _ in ways):
        raise OtherPart
    onwards, back = ([str(iri) for iri, inverse in ways if inverse == sign] for sign in (False, True))
    if len(onwards) == 1 and back:
        return Step(onwards[0], False, closure, tuple(sorted(set(back))))
    if len(back) == 1 and onwards:
        return Step(back[0], True, closure, tuple(sorted(set(onwards))))
    raise OtherPart


def integer_of(node: Any) -> int | None:
    """Return the whole number that a literal is; None if it is another, or has more digits than any that is meant."""
    return int(node) if isinstance(node, Literal) and re.fullmatch(r"-?\d{1,18}", str(node)) else None


def counted_variable(node: Any) -> str | None:
    """Return the variable, or `*`, of which an expression is the count."""
    if name_of(node) != "Aggregate_Count":
        return None
    return "*" if node.vars == "*" else str(bare(node.vars))


def is_distinct(node: Any) -> bool:
    """Return whether an expression is the count of distinct values."""
    return name_of(node) == "Aggregate_Count" and bool(node.distinct)
