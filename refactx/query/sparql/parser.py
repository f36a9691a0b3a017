"""rdflib's parser of SPARQL, given texts that it can read.

It takes white space in `wdt:P279 *` and `"Ann" @en` for an error, makes spaces of tabs within strings, has an error of
its own at `-1.5` where a term stands, and cannot read SERVICE after an IRI with `#` on its line.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from pyparsing import ParseBaseException
from rdflib.plugins.sparql.parser import parseQuery

from refactx.query.language import QueryError
from refactx.query.sparql.tokens import Lexer, Token, plain_query

Value = TypeVar("Value")

_LEXER = Lexer()
_DECIMAL = re.compile(r"-\d+\.\d+", re.ASCII)


def parse_text(text: str) -> Any:
    """Return the declarations and the tree that rdflib's parser makes of a query.

    Raises QueryError, with line and column, if the text is not SPARQL.
    """
    text = plain_query(text)
    tokens = list(_readable(_LEXER.tokens(text)))
    written = "".join(token.text for token in tokens)
    try:
        return on_a_deep_stack(lambda: parseQuery(written))
    except ParseBaseException as error:
        at = _position(tokens, error.loc)
    except TypeError:
        raise QueryError('this query has a number such as -1.5 in brackets: write it as "-1.5"^^xsd:decimal') from None
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    found = repr(text[at : at + 40]) if text[at:].strip() else "the end"
    raise QueryError(
        f"this is not SPARQL: line {line}, column {column}, at {found}: expected a query "
        "such as SELECT ?x WHERE { wd:Q1588 wdt:P1449 ?x }"
    )


def on_a_deep_stack(call: Callable[[], Value]) -> Value:
    """Return what a call returns, which parses or walks a query and recurses: some 40 calls for each open bracket.

    If the stack of the caller has not enough room, the call is made in a thread, whose stack is empty. Raises QueryError
    if that is not enough either: rdflib's parser never ends a SERVICE within another.
    """
    with suppress(RecursionError):
        return call()
    try:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(call).result()
    except RecursionError:
        raise QueryError(
            "this query is nested too deeply to be read: expected at most some 20 brackets within each other, and no "
            "SERVICE within another"
        ) from None


def _position(tokens: list[Token], position: int) -> int:
    """Return the place in the text at which a position in joined tokens is."""
    starts = [0]
    for token in tokens:
        starts.append(starts[-1] + len(token.text))
    at = min(bisect_right(starts, position), len(tokens)) - 1
    return tokens[at].start + position - starts[at] if tokens else 0


def _readable(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield tokens that rdflib can read. A space that it cannot follows what comes after it."""
    waiting = list[Token]()
    before: Token | None = None
    for token in _with_typed_decimals(tokens):
        if token.is_space:
            waiting.append(Token(token.kind, token.text.replace("\t", " "), token.start))
            continue
        if before is None or not _is_joined(before, token):
            yield from waiting
            waiting = []
        if token.text.upper() == "SERVICE":
            yield Token("space", "\n", token.start)
        yield Token(token.kind, token.text.replace("\t", r"\t"), token.start)
        before = token
    yield from waiting


def _is_joined(before: Token, token: Token) -> bool:
    """Return whether rdflib takes white space between two tokens for an error."""
    if token.text in ("*", "+"):  # a path's; elsewhere it makes no difference
        return before.kind in ("iri", "name", "word") or before.text == ")"
    return (before.kind == "string" and token.text[0] in "@^") or before.text == "^^"


def _with_typed_decimals(tokens: Iterable[Token]) -> list[Token]:
    """Return tokens with `"-1.5"^^<...#decimal>` for `-1.5` outside of brackets: in an expression, it is a difference."""
    found, depth = list[Token](), 0
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        found.append(token)
        number = "".join(one.text for one in found[-4:])
        if depth == 0 and _DECIMAL.fullmatch(number):
            literal = f'"{number}"^^<http://www.w3.org/2001/XMLSchema#decimal>'
            found[-4:] = [Token("string", literal, found[-4].start)]
    return found
