"""The check that a text is a SPARQL query, before it is run, and what is wrong with it.

pyoxigraph's parser decides. Where it refuses, its words are for those who know its grammar, so the place and the reason
come from the tokens (a prefix that is not declared, a bracket that is not closed) and from rdflib's parser.
"""

import re
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise

from pyoxigraph import QueryBoolean, QuerySolutions, Store

from refactx.query.pgmr.uris import PREFIXES
from refactx.query.walk import QueryError
from refactx.sparql.engines.engine import QueryRefusedError, SparqlSyntaxError, UnknownFunctionError
from refactx.sparql.syntax.tokens import Token, line_and_column, tokens_of

EXAMPLE = "SELECT ?x { wd:Q1588 wdt:P1449 ?x }"
UPDATES = ("INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY", "WITH")
_BASE = "http://label.invalid/"
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_PLACE = re.compile(r"line (\d+), column (\d+)")
_SHOWN = 40
_DEEPEST = 200
"""More open brackets within each other end the process: pyoxigraph's parser recurses, and the stack has an end."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A query that is SPARQL: whether it is an ASK, and the variables of a SELECT, without `?`."""

    is_ask: bool
    variables: tuple[str, ...] = ()


def check_query(text: str) -> Checked:
    """Return what a query is. It may have labels in angle brackets, and need not declare the prefixes of Wikidata.

    >>> check_query("SELECT ?x ?y { <New York> <capital> ?x . ?x rdfs:label ?y }").variables
    ('x', 'y')

    Raises SparqlSyntaxError, with line and column, if it is not SPARQL, and QueryRefusedError if it is an update,
    neither SELECT nor ASK, or has a function that is unknown.
    """
    check_depth(text)
    tokens = tokens_of(text)
    try:
        result = Store().query(_harmless(tokens), base_iri=_BASE, prefixes=PREFIXES)
    except SyntaxError as error:
        raise fault(text, tokens, str(error)) from None
    except RuntimeError as error:  # for functions that it does not have
        raise UnknownFunctionError(f"{error}: use a function of SPARQL 1.1, or a cast to a type of XSD") from None
    if isinstance(result, QueryBoolean):
        return Checked(True)
    if isinstance(result, QuerySolutions):
        return Checked(False, tuple(variable.value for variable in result.variables))
    raise QueryRefusedError(
        f"this is a {_form(tokens)} query, whose result is a graph: write SELECT for rows, or ASK for yes or no"
    )


def check_depth(text: str) -> None:
    """Raise QueryRefusedError if a query has so many brackets within each other that it cannot be parsed."""
    if text.count("{") + text.count("(") + text.count("[") <= _DEEPEST:
        return
    depth = deepest = 0
    for token in tokens_of(text):
        if token.kind == "other":
            depth += (token.text in _CLOSING) - (token.text in _CLOSING.values())
            deepest = max(deepest, depth)
    if deepest > _DEEPEST:
        raise QueryRefusedError(f"the query has {deepest} brackets within each other: write it with at most {_DEEPEST}")


def fault(text: str, tokens: list[Token], found: str) -> SparqlSyntaxError | QueryRefusedError:
    """Return the error for a text that a parser refused. `found`: the parser's message."""
    form = _form(tokens)
    if not form:
        return SparqlSyntaxError(f"the query is empty: expected one such as {EXAMPLE}")
    if form in UPDATES:
        return QueryRefusedError(
            f"this is a SPARQL update ({form}), which was not run: queries only read, so write SELECT or ASK"
        )
    for position, reason in (_undeclared(tokens), _bracket(text, tokens), _by_rdflib(text, tokens)):
        if reason:
            return _error(text, position, reason)
    line, _, column = found.removeprefix("error at ").partition(": ")[0].partition(":")
    reasons = [part for part in found.partition("expected ")[2].removeprefix("one of ").split(", ") if " " in part]
    reason = next((part for part in reasons if part[:1].isupper()), "")
    if line.isdecimal() and column.isdecimal() and not reason:
        return SparqlSyntaxError(f"this is not SPARQL: line {line}, before column {column}: expected as in {EXAMPLE}")
    return SparqlSyntaxError(f"this is not SPARQL: {reason or found}")


def _masked(tokens: list[Token]) -> str:
    """Return a query with an IRI of the same length for each label, so that positions stay."""
    return "".join(map(_mask, tokens))


def _mask(token: Token) -> str:
    return f"<{'_' * len(token.label)}>" if token.kind == "label" else token.text


def _harmless(tokens: list[Token]) -> str:
    """Return a masked query that asks no other server: pyoxigraph may run what it has parsed."""
    texts = {"SERVICE": "GRAPH  ", "SILENT": "      "} if any(token.upper == "SERVICE" for token in tokens) else {}
    return "".join(texts.get(token.upper, text) for token, text in zip(tokens, map(_mask, tokens), strict=True))


def _form(tokens: list[Token]) -> str:
    """Return the first word of a query after its declarations, in upper case; empty if it has none."""
    left = [token for token in tokens if not token.is_space]
    while left and left[0].upper in ("BASE", "PREFIX"):
        left = left[2 if left[0].upper == "BASE" else 3 :]
    return (left[0].upper or left[0].text) if left else ""


def _undeclared(tokens: list[Token]) -> tuple[int, str]:
    written = [token for token in tokens if not token.is_space]
    declared = {two.text for one, two in pairwise(written) if one.upper == "PREFIX"}
    for token in written:
        prefix = token.text.partition(":")[0] + ":"
        if token.kind == "name" and prefix not in declared and prefix[:-1] not in PREFIXES:
            return token.start, f"the prefix {prefix} is not declared: begin the query with PREFIX {prefix} <...>"
    return 0, ""


def _bracket(text: str, tokens: list[Token]) -> tuple[int, str]:
    opened = list[Token]()
    for token in tokens:
        if token.kind != "other":
            continue
        if token.text in _CLOSING:
            opened.append(token)
        elif token.text in _CLOSING.values():
            if not opened:
                return token.start, f"no bracket is open that {token.text} would close"
            last = opened.pop()
            if _CLOSING[last.text] != token.text:
                line, column = line_and_column(text, last.start)
                return token.start, f"expected {_CLOSING[last.text]} for the bracket of line {line}, column {column}"
    if opened:
        return opened[-1].start, f"the bracket {opened[-1].text} is not closed"
    return 0, ""


def _by_rdflib(text: str, tokens: list[Token]) -> tuple[int, str]:
    """Return where and why rdflib's parser refuses a query: it names the beginning of the part that does not fit."""
    if find_spec("rdflib") is None:
        return 0, ""
    from refactx.query.sparql.parser import parse_text

    try:
        parse_text(_masked(tokens))
    except QueryError as error:
        if (place := _PLACE.search(str(error))) is not None:
            before = "".join(text.splitlines(keepends=True)[: int(place[1]) - 1])
            return len(before) + int(place[2]) - 1, f"expected as in {EXAMPLE}"
    return 0, ""


def _error(text: str, position: int, reason: str) -> SparqlSyntaxError:
    line, column = line_and_column(text, position)
    rest = " ".join(text[position:].split())
    found = "the end" if not rest else repr(rest if len(rest) <= _SHOWN else f"{rest[:_SHOWN]}…")
    return SparqlSyntaxError(f"this is not SPARQL: line {line}, column {column}, at {found}: {reason}")
