"""The tree of a SPARQL query, as rdflib's parser makes it: its nodes, terms and paths.

A node has a name and parts by name; a part that it does not have is None.
"""

import functools
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pyparsing import ParseBaseException
from rdflib import Literal, URIRef, Variable
from rdflib.paths import AlternativePath, InvPath, MulPath, SequencePath
from rdflib.plugins.sparql import algebra
from rdflib.plugins.sparql.parser import parseQuery

from refactx.query.sparql.patterns import Step, Term
from refactx.query.sparql.values import DATES, NUMBERS, XSD, lexical_day, number_text
from refactx.query.sparql.writer import PREFIXES
from refactx.query.walk import Closure, QueryError

# rdflib takes white space in `wdt:P279 *` and `"Ann" @en` for an error. Strings and IRIs stay, and so do columns.
_STRING = r""""(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*[']"""
_SPACED = re.compile(rf"({_STRING}|<[^<>\s]*>)(\s*)(?:(@[\w-]+)|\^\^(\s*)(<[^<>\s]*>|[\w:]+))?|(?<=[\w>)])(\s+)([*+])")
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"


class OtherPart(Exception):  # noqa: N818  # the reason for None, within this package
    """A part of SPARQL that patterns do not have."""


def parse_sparql(text: str) -> Any:
    """Return rdflib's tree of a query, with prefixes and paths resolved."""
    try:
        parsed = parseQuery(_SPACED.sub(_without_space, text))
    except ParseBaseException as error:
        found = repr(text[error.loc :][:40]) if text[error.loc :].strip() else "the end"
        raise QueryError(
            f"this is not SPARQL: line {error.lineno}, column {error.column}, at {found}: expected a query "
            "such as SELECT ?x WHERE { wd:Q1588 wdt:P1449 ?x }"
        ) from None
    prefixes = {**PREFIXES, "rdf": _RDF}
    try:
        prologue = algebra.translatePrologue(parsed[0], None, prefixes)
        resolve = functools.partial(algebra.translatePName, prologue=prologue)
        return algebra.traverse(algebra.traverse(parsed[1], visitPost=resolve), visitPost=algebra.translatePath)
    except Exception as error:  # rdflib raises no class of its own
        raise QueryError(f"this is not SPARQL: {error}: declare it with PREFIX") from None


def _without_space(match: re.Match[str]) -> str:
    """Return a string before its language or datatype, or the sign of a path, with the space after both."""
    text, space, language, more, datatype, before_sign, sign = match.groups(default="")
    if sign:
        return sign + before_sign
    return f"{text}{language}{datatype and '^^'}{datatype}{space}{more}"


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
        day = lexical_day(lexical)
        text = f"{day[0]:04}-{day[1]:02}-{day[2]:02}" if day and day[0] > 0 else None
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
            if step.other is not None and step.closure == "*" and found and found[-1] == replace(step, closure=""):
                found[-1] = replace(step, closure="+")  # as to_sparql writes it
            else:
                found.append(step)
        yield from found
    elif isinstance(path, MulPath) and not closure and path.mod in ("+", "*"):
        yield from steps_of(path.path, "+" if path.mod == "+" else "*")
    elif isinstance(path, AlternativePath) and len(path.args) == 2 and isinstance(path.args[1], InvPath):
        first, second = path.args[0], path.args[1].arg
        if not (isinstance(first, URIRef) and isinstance(second, URIRef)):
            raise OtherPart
        yield Step(str(first), closure=closure, other=str(second))
    else:
        raise OtherPart


def integer_of(node: Any) -> int | None:
    return int(node) if isinstance(node, Literal) and re.fullmatch(r"-?\d+", str(node)) else None


def counted_variable(node: Any) -> str | None:
    """Return the variable, or `*`, of which an expression is the count."""
    if name_of(node) != "Aggregate_Count":
        return None
    return "*" if node.vars == "*" else str(bare(node.vars))
