"""L1: whether a text is a SPARQL query whose prefixes are declared."""

import re
from collections.abc import Iterator
from itertools import pairwise

from refactx.nl2sparql.pack import Pack
from refactx.nl2sparql.validation.report import Problem
from refactx.sparql.engines import QueryRefusedError, SparqlSyntaxError, UnknownFunctionError
from refactx.sparql.syntax import Token, check_query, line_and_column, read_query, tokens_of

_FUNCTIONS = (
    "COUNT",
    "SUM",
    "AVG",
    "MIN",
    "MAX",
    "SAMPLE",
    "GROUP_CONCAT",
    "STR",
    "STRLEN",
    "CONCAT",
    "LCASE",
    "UCASE",
)
_UNBOUND = "The SELECT contains a variable that is unbound"
_SHOWN = 60
_EXAMPLE = re.compile(r": expected (as in|one such as) .*")
"""The end of messages that show a query of Wikidata."""


def syntax_problems(sparql: str, pack: Pack) -> tuple[list[Problem], str]:
    """Return what is wrong, and the query with declarations of the pack's prefixes that it lacks."""
    try:
        sparql = read_query(sparql)
    except SparqlSyntaxError as error:
        return [Problem("L1", "syntax", str(error), "write the query again")], sparql
    except QueryRefusedError as error:
        text, _, hint = str(error).partition(": ")
        return [Problem("L1", "size", text, hint)], sparql
    tokens = tokens_of(sparql)
    found = [*_labels(sparql, tokens)]
    missing = _undeclared(tokens)
    lines = []
    for prefix, token in missing.items():
        line, column = line_and_column(sparql, token.start)
        text = f"the prefix {prefix}: is not declared (line {line}, column {column}, at {token.text})"
        if prefix in pack.prefixes:
            declaration = f"PREFIX {prefix}: <{pack.prefixes[prefix]}>"
            found.append(Problem("L1", "prefix", text, f"begin the query with {declaration}"))
            lines.append(declaration)
        else:
            known = ", ".join(f"{one}:" for one in pack.prefixes) or "none"
            found.append(Problem("L1", "prefix", text, f"use a prefix of {pack.name}: {known}"))
            lines.append(f"PREFIX {prefix}: <urn:refactx:{prefix}#>")
    whole = " ".join([*lines, sparql])
    if any(problem.code == "iri" for problem in found):
        return found, whole
    try:
        check_query(whole)
    except SparqlSyntaxError as error:
        text = _EXAMPLE.sub("", _placed(str(error), len(whole) - len(sparql)))
        found.append(Problem("L1", "syntax", text, _hint(str(error), tokens)))
    except UnknownFunctionError as error:
        text, _, hint = str(error).partition(": ")
        found.append(Problem("L1", "function", text, hint))
    except QueryRefusedError as error:
        found.append(Problem("L1", "form", str(error), "write one SELECT or ASK query, which reads alone"))
    return found, whole


def _labels(sparql: str, tokens: list[Token]) -> Iterator[Problem]:
    """Yield a problem for the first name in angle brackets that is no IRI."""
    for token in tokens:
        if token.kind == "label":
            line, column = line_and_column(sparql, token.start)
            yield Problem(
                "L1",
                "iri",
                f"{token.text[:_SHOWN]} is no IRI (line {line}, column {column}): in angle brackets stands a whole IRI",
                "write a name with a prefix, or the whole IRI",
            )
            return


def _undeclared(tokens: list[Token]) -> dict[str, Token]:
    """Return the prefixes that are used and not declared, each with the first name that has it."""
    written = [token for token in tokens if not token.is_space]
    declared = {two.text for one, two in pairwise(written) if one.upper == "PREFIX"}
    names = [token for token in written if token.kind == "name" and token.text not in declared]
    found: dict[str, Token] = {}
    for token in names:
        prefix = token.text.partition(":")[0]
        if f"{prefix}:" not in declared:
            found.setdefault(prefix, token)
    return found


def _placed(message: str, shift: int) -> str:
    """Return a message whose columns in the first line are those of the query without the declarations before it."""
    return re.sub(r"line 1, column (\d+)", lambda match: f"line 1, column {max(1, int(match[1]) - shift)}", message)


def _hint(message: str, tokens: list[Token]) -> str:
    if (bare := _bare_call(tokens)) is not None:
        return f"write brackets around it and its name: SELECT ({bare}(?x) AS ?name)"
    if " has U+" in message:
        return message.rpartition(": ")[2]
    if _UNBOUND in message:
        return "add each selected variable to GROUP BY, or select SAMPLE of it: (SAMPLE(?x) AS ?name)"
    return "write the query again, as one whole SELECT or ASK with all brackets closed"


def _bare_call(tokens: list[Token]) -> str | None:
    """Return the function that a SELECT calls outside of round brackets, which SPARQL does not have."""
    depth, selecting = 0, False
    written = [token for token in tokens if not token.is_space]
    for one, two in pairwise(written):
        if one.upper == "SELECT":
            selecting = True
        elif one.text == "{" or one.upper == "WHERE":
            selecting = False
        depth += (one.text == "(") - (one.text == ")")
        if selecting and depth == 0 and one.upper in _FUNCTIONS and two.text == "(":
            return one.upper
    return None
