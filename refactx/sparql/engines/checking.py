"""The check that a text is a SPARQL query, before it is run, what is wrong with it, and a limit on its rows.

pyoxigraph's parser decides. Where it refuses, its words are for those who know its grammar, so the place and the reason
come from the tokens (a prefix that is not declared, a bracket that is not closed) and from the grammar of this project.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from pyoxigraph import DefaultGraph, NamedNode, Store

from refactx.iris import PREFIXES
from refactx.sparql.engines.engine import (
    EngineTimeoutError,
    QueryRefusedError,
    SparqlSyntaxError,
    UnknownFunctionError,
    within,
)
from refactx.sparql.syntax.parser import ParseError, parse, read_sparql
from refactx.sparql.syntax.prologue import undeclared
from refactx.sparql.syntax.tokens import Token, line_and_column, plain_query, tokens_of
from refactx.sparql.syntax.tree import RDF, Call, QueryTree, nodes, triples_of
from refactx.sparql.syntax.view import QueryView, view_of
from refactx.sparql.syntax.wikidata import GEO_FUNCTIONS
from refactx.walks.language import QueryError

EXAMPLE = "SELECT ?x { wd:Q1588 wdt:P1449 ?x }"
FORMS = ("SELECT", "ASK", "CONSTRUCT", "DESCRIBE")
UPDATES = ("INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY", "WITH")
_BASE = "http://label.invalid/"
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_SHOWN = 40
_DEEPEST = 200
"""More open brackets within each other end the process: pyoxigraph's parser recurses, and the stack has an end."""
LONGEST, MOST_PATTERNS, MOST_SIGNS = 100_000, 100, 1_000
"""Characters; triple patterns, and keywords and signs, beyond which pyoxigraph takes too long: 4 s for 100 patterns of
one subject, 19 s for 150; 5 s for 1,000 parts joined by OPTIONAL, UNION or ||. With 3,000, the stack ends."""
_PARSER = Store()
_NOT_RUN: dict[str, Any] = {"use_default_graph_as_union": True, "default_graph": [DefaultGraph()]}
"""Arguments that pyoxigraph refuses together (ValueError), once it has parsed a query and before it evaluates any of it: a
text that is only checked must not take memory or time, as an ASK or a COUNT does even where there are no triples."""
_PLAIN = ("space", "other")
_UNCOUNTED = frozenset({"(", ")", ","})
_TERMS = frozenset({"iri", "label", "name", "variable", "blank", "string", "number"})
_LISTS = ("COALESCE", "CONCAT", "BNODE")
_SPACED = re.compile(rf"\b(?:{'|'.join(_LISTS)})\s+\(", re.IGNORECASE)
"""Functions after whose name pyoxigraph's parser takes no space."""
GEOSPARQL = "http://www.opengis.net/def/function/geosparql/"
"""The namespace of the standard's functions of places. Wikidata's, by the same prefix, is another one."""
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_ODD = re.compile(r"[^\t\n\r -~]")
_REPAIRS = {"Zs": "write a space", "Pd": "write -", "Pi": 'write "', "Pf": 'write "', "Cf": "leave it out"}
"""What to write in place of a character, by its category in Unicode."""


@dataclass(frozen=True, slots=True)
class CheckedQuery:
    """A query that is SPARQL: whether it is an ASK, and the variables of a SELECT, without `?`."""

    is_ask: bool
    variables: tuple[str, ...] = ()


def read_query(text: str) -> str:
    """Return a query as it is read everywhere: without a byte order mark or escapes of characters outside of strings.

    A space after `COALESCE`, `CONCAT` or `BNODE` stands before it.

    Raises SparqlSyntaxError if it has bytes that are no UTF-8, and QueryRefusedError if it is too large: the time to parse
    and plan it would grow with its size to the power of 2 to 4, and deep ones would end the process.
    """
    text = plain_query(text)
    if _SPACED.search(text):
        text = _without_spaces(tokens_of(text))
    if not text.isascii() and (byte := _SURROGATE.search(text)) is not None:
        raise _odd_character(text, byte.start())
    if len(text) > LONGEST:
        raise QueryRefusedError(f"the query has {len(text):,} characters: write it with at most {LONGEST:,}")
    if len(text) > 2 * MOST_PATTERNS:  # shorter ones have no room for that many terms
        _check_size(tokens_of(text))
    return text


@lru_cache(maxsize=512)
def view_query(sparql: str) -> QueryView:
    """Return the view of a query. The usual prefixes of Wikidata need no declaration.

    >>> [pattern.text for pattern in view_query("ASK { ?x <a:p>/^<a:q> ?y }").patterns]
    ['?x <a:p> _:1', '?y <a:q> _:1']

    Raises SparqlSyntaxError if the text is not SPARQL 1.1; QueryRefusedError if it is neither SELECT nor ASK, or has a
    negated path with `^` in it.
    """
    try:
        parsed = read_sparql(read_query(sparql))
    except QueryError as error:
        raise SparqlSyntaxError(str(error)) from None
    if parsed.query.form not in ("SELECT", "ASK"):
        raise QueryRefusedError(f"this is a {parsed.query.form} query: expected SELECT or ASK")
    view = view_of(parsed)
    if any(group.kind == "lateral" for group in view.groups):
        raise SparqlSyntaxError("this query has LATERAL, which cannot be read: expected SPARQL 1.1")
    if any(pattern.predicate.startswith("!(") and "^" in pattern.predicate for pattern in view.patterns):
        raise QueryRefusedError("this query has a negated path with ^ in it, which cannot be read: write it without ^")
    return view


def _without_spaces(tokens: Sequence[Token]) -> str:
    texts = [token.text for token in tokens]
    for at, (word, space, bracket) in enumerate(zip(tokens, tokens[1:], tokens[2:], strict=False)):
        if word.upper in _LISTS and space.kind == "space" and bracket.text == "(":
            texts[at : at + 2] = space.text, word.text
    return "".join(texts)


def _check_size(tokens: list[Token]) -> None:
    depth = deepest = signs = 0
    for token in tokens:
        if token.kind == "other":
            depth += (token.text in _CLOSING) - (token.text in _CLOSING.values())
            deepest = max(deepest, depth)
        signs += token.kind in ("word", "other") and token.text not in _UNCOUNTED
    if deepest > _DEEPEST:
        raise QueryRefusedError(f"the query has {deepest} brackets within each other: write it with at most {_DEEPEST}")
    if signs > MOST_SIGNS:
        raise QueryRefusedError(
            f"the query has {signs:,} keywords and signs: write it with at most {MOST_SIGNS:,}, and many values with VALUES "
            "or IN"
        )
    terms = sum(token.kind in _TERMS for token in tokens)
    patterns = 0 if terms <= MOST_PATTERNS else _patterns(tokens)
    if patterns > MOST_PATTERNS:
        raise QueryRefusedError(
            f"the query has {patterns} triple patterns and steps of paths: write it with at most {MOST_PATTERNS}, in several "
            "queries, or with + or * in place of many steps"
        )


def _patterns(tokens: Sequence[Token]) -> int:
    """Return how many triple patterns and steps of paths a query has; at least, if it is not of the grammar."""
    steps = sum(token.text == "/" for token in tokens)
    try:
        triples = triples_of(parse(tokens).query)
    except ParseError:
        return steps + sum(token.kind == "other" and token.text in (".", ";") for token in tokens)
    return steps + sum(
        not (triple.is_listed and getattr(triple.path, "value", "") == f"{RDF}rest") for triple in triples
    )


def check_query(text: str, seconds: float | None = None) -> CheckedQuery:
    """Return what a query is. It may have labels in angle brackets, and need not declare the prefixes of Wikidata.

    >>> check_query("SELECT ?x ?y { <New York> <capital> ?x . ?x rdfs:label ?y }").variables
    ('x', 'y')

    Raises SparqlSyntaxError, with line and column, if it is not SPARQL, and QueryRefusedError if it is an update,
    neither SELECT nor ASK, too large, or has a function that is unknown; EngineTimeoutError after some seconds, if given.
    """
    text = read_query(text)
    if seconds is None:
        return _checked(text)
    try:
        return within(seconds, lambda: _checked(text))
    except TimeoutError:
        raise EngineTimeoutError(
            f"the check of the query takes more than {seconds:g} s: write it with fewer patterns",
            command=", or give it more time (--timeout)",
        ) from None


def _checked(text: str) -> CheckedQuery:
    tokens = tokens_of(text)
    try:
        _PARSER.query(_harmless(tokens), base_iri=_BASE, prefixes=PREFIXES, **_NOT_RUN)
    except SyntaxError as error:
        raise fault(text, tokens, str(error)) from None
    except ValueError:  # it is SPARQL
        pass
    form = _form(tokens)
    if form not in ("SELECT", "ASK"):
        raise QueryRefusedError(
            f"this is a {form} query, whose result is a graph: write SELECT for rows, or ASK for yes or no"
        )
    try:
        parsed = parse(tokens)
    except ParseError:  # syntax beyond SPARQL 1.1
        return CheckedQuery(form == "ASK")
    _check_functions(parsed.query)
    return CheckedQuery(form == "ASK", tuple(name[1:] for name in view_of(parsed).selected))


def _check_functions(query: QueryTree) -> None:
    """Raise UnknownFunctionError if a query has a function that pyoxigraph does not have."""
    calls = {
        (one.name, len(one.arguments))
        for one in nodes(query)
        if isinstance(one, Call) and one.name[-1:] == ">" != one.name
    }
    for name, arguments in sorted(calls):
        if (name, arguments) == (f"<{GEOSPARQL}distance>", 2):
            raise UnknownFunctionError(
                "geof:distance of GeoSPARQL has no value without its unit: write "
                "<http://www.opengis.net/def/uom/OGC/1.0/metre> as the third, or leave "
                f"PREFIX geof: <{GEOSPARQL}> out, for kilometres"
            )
        if refusal := _refusal(name, arguments):
            raise UnknownFunctionError(_unknown_function(name[1:-1], arguments, refusal))


def _refusal(function: str, arguments: int) -> str:
    """Return what pyoxigraph says against a call of a function; empty if it has the function."""
    call = f"{function}({', '.join(['?x'] * arguments)})"
    try:
        Store().query(f"SELECT ({call} AS ?y) {{}}", base_iri=_BASE, custom_functions=GEO_FUNCTIONS)
    except (SyntaxError, RuntimeError) as error:
        return str(error)
    return ""


def _unknown_function(iri: str, arguments: int, found: str) -> str:
    """Return what is to be said of a function that pyoxigraph does not have. `found`: its message."""
    word, remedy = re.split(r"[/#:]", iri)[-1], "use a function of SPARQL 1.1, or a cast to a type of XSD"
    of_wikidata, of_standard = PREFIXES["geof"] + word, GEOSPARQL + word
    if iri == of_wikidata and not _refusal(f"<{of_standard}>", arguments):
        return f"geof:{word} is GeoSPARQL's: begin the query with PREFIX geof: <{GEOSPARQL}>"
    if iri == of_standard and NamedNode(of_wikidata) in GEO_FUNCTIONS:
        return f"geof:{word} is Wikidata's, not GeoSPARQL's: leave PREFIX geof: <{GEOSPARQL}> out"
    if iri in (of_wikidata, of_standard):
        remedy = (
            "compare geof:latitude(?place), geof:longitude(?place) and geof:distance(?place, ?other), in kilometres"
        )
    return f"{found if 'requires' in found else f'<{iri}> is no function that is known here'}: {remedy}"


def check_alone(query: str) -> None:
    """Raise QueryRefusedError if a query has SERVICE, which is for an endpoint."""
    if not re.search("SERVICE", query, re.IGNORECASE):
        return
    tokens = tokens_of(query)
    words = [token for token in tokens if not token.is_space]
    for token, *after in zip(words, words[1:], words[2:], strict=False):
        if token.upper == "SERVICE":
            try:
                parse(tokens)
            except ParseError:
                check_query(query)  # says what else is wrong, if it is not just beyond the grammar
            raise QueryRefusedError(
                f"SERVICE {after[after[0].upper == 'SILENT'].text} asks another server, and the engines of an index are "
                "alone: leave it out",
                command=", or run the query at an endpoint (--run-on)",
            )


def fault(text: str, tokens: list[Token], found: str) -> SparqlSyntaxError | QueryRefusedError:
    """Return the error for a text that a parser refused. `found`: the parser's message."""
    form, words = _form(tokens), [token for token in tokens if not token.is_space]
    if not form:
        return SparqlSyntaxError(f"the query is empty: expected one such as {EXAMPLE}")
    if form in UPDATES:
        return QueryRefusedError(
            f"this is a SPARQL update ({form}), which was not run: queries only read, so write SELECT or ASK"
        )
    if form == "DEFINE":
        return _error(text, words[0].start, "DEFINE is Virtuoso's own: leave it out")
    named = next(
        (token for token, after in pairwise(words) if token.upper in ("WITH", "INCLUDE") and after.text in "{%"), None
    )
    if named is not None:
        return QueryRefusedError(
            "WITH { ... } AS %name and INCLUDE %name are of Wikidata's own service alone: write the query, in { }, in the "
            "place of INCLUDE"
        )
    odd = (
        match.start() + token.start for token in tokens if token.kind in _PLAIN and (match := _ODD.search(token.text))
    )
    if any(token.upper in FORMS for token in tokens) and (position := next(odd, None)) is not None:
        return _odd_character(text, position)
    for position, reason in (_undeclared(tokens), _bracket(text, tokens)):
        if reason:
            return _error(text, position, reason)
    try:
        parse(tokens)
    except ParseError as error:  # at the first token that does not fit
        position = tokens[error.at].start if error.at < len(tokens) else len(text)
        return _error(text, position, _spelling(tokens, error.at) or f"expected as in {EXAMPLE}")
    line, _, column = found.removeprefix("error at ").partition(": ")[0].partition(":")
    reasons = [part for part in found.partition("expected ")[2].removeprefix("one of ").split(", ") if " " in part]
    reason = next((part for part in reasons if part[:1].isupper()), "")
    if line.isdecimal() and column.isdecimal() and not reason:
        return SparqlSyntaxError(f"this is not SPARQL: line {line}, before column {column}: expected as in {EXAMPLE}")
    return SparqlSyntaxError(f"this is not SPARQL: {reason or found}")


def _odd_character(text: str, position: int) -> SparqlSyntaxError:
    """Return the error for a character that SPARQL has only within strings, names and comments."""
    character, (line, column) = text[position], line_and_column(text, position)
    if _SURROGATE.match(character):
        byte = f"a byte that is no UTF-8 (0x{ord(character) & 0xFF:02X}): save or send the query as UTF-8"
        return SparqlSyntaxError(f"this is not SPARQL: line {line}, column {column} has {byte}")
    what = f"U+{ord(character):04X} ({unicodedata.name(character, 'a control character')})"
    repair = _REPAIRS.get(unicodedata.category(character), "leave it out, or write it in quotes")
    return SparqlSyntaxError(f"this is not SPARQL: line {line}, column {column} has {what}: {repair}")


def _harmless(tokens: list[Token]) -> str:
    """Return a query that asks no other server, since pyoxigraph may run what it has parsed, with an IRI for each label.

    All have the same length as before, so that positions stay.
    """
    texts, after_service = list[str](), False
    for token in tokens:
        text = token.text
        if token.kind == "label":
            text = f"<{'_' * len(token.label)}>"
        elif token.upper == "SERVICE":
            text = "GRAPH  "
        elif after_service and token.upper == "SILENT":
            text = "      "
        texts.append(text)
        after_service = token.upper == "SERVICE" or (after_service and token.is_space)
    return "".join(texts)


def _form(tokens: list[Token]) -> str:
    """Return the first word of a query after its declarations, in upper case; empty if it has none."""
    left = [token for token in tokens if not token.is_space]
    while left and left[0].upper in ("BASE", "PREFIX"):
        left = left[2 if left[0].upper == "BASE" else 3 :]
    return (left[0].upper or left[0].text) if left else ""


def _spelling(tokens: list[Token], at: int) -> str:
    """Return what to write in place of a spelling of Virtuoso or other engines; nothing for other errors. `at`: the number of
    the token that does not fit."""
    words = [number for number, token in enumerate(tokens) if not token.is_space and token.kind != "comment"]
    place = words.index(at) if at in words else len(words)
    following = [tokens[number].text for number in words[place : place + 2]]
    before = [tokens[number].upper or tokens[number].text for number in words[:place]]
    found = following[0].upper() if following else ""
    if found == "OPTION":
        return "OPTION is Virtuoso's own: write a path with + or *, as in ?x wdt:P279+ ?y"
    if "SELECT" not in before:
        return ""
    shown = before[len(before) - before[::-1].index("SELECT") :]
    if "{" in shown:
        return ""
    if found == ",":
        return "no commas stand between what SELECT shows: write SELECT ?x ?y"
    if found == ")" and (opened := _opening(tokens, words[:place])) is not None:  # (?x), (COUNT(?x)
        call = "".join(token.text for token in tokens[opened + 1 : at]).strip()
        return f"write {call}" if call.startswith("?") and call[1:].isidentifier() else _named(tokens, call, "", ())
    if following[1:] == ["("] and (closed := _closing(tokens, words[place + 1])) is not None:
        others = [word for word in shown if word not in ("DISTINCT", "REDUCED")]
        call = "".join(token.text for token in tokens[at : closed + 1])
        after = [token for token in tokens[closed + 1 :] if not token.is_space][:2]
        return _named(tokens, call, f"{' '.join(['SELECT', *others])} ", after)
    return ""


def _named(tokens: Sequence[Token], call: str, before: str, after: Sequence[Token]) -> str:
    """Return what to write in place of an expression of SELECT without brackets or name. `after`: two tokens, maybe AS and the
    name."""
    word = re.split(r"[:/#]", call.partition("(")[0].strip("<> "))[-1].lower()
    used, name = {token.text for token in tokens if token.kind == "variable"}, f"?{word}"
    if len(after) == 2 and after[0].upper == "AS" and after[1].kind == "variable":
        name = after[1].text
    elif word in ("count", "sum") or not word.isidentifier() or name in used:
        name = next(one for one in ("?n", *(f"?n{number}" for number in range(2, len(used) + 3))) if one not in used)
    written = f"{before}({' '.join(call.split())} AS {name})"
    return f"an expression of SELECT stands in brackets, with a name: write {written}"


def _opening(tokens: Sequence[Token], words: Sequence[int]) -> int | None:
    """Return the number of the bracket that is open at the end of some tokens."""
    opened = list[int]()
    for number in words:
        if tokens[number].text == "(":
            opened.append(number)
        elif tokens[number].text == ")" and opened:
            opened.pop()
    return opened[-1] if opened else None


def _closing(tokens: Sequence[Token], opened: int) -> int | None:
    """Return the number of the bracket that closes another one."""
    depth = 0
    for number in range(opened, len(tokens)):
        depth += (tokens[number].text == "(") - (tokens[number].text == ")")
        if depth == 0:
            return number
    return None


def _undeclared(tokens: list[Token]) -> tuple[int, str]:
    for prefix, token in undeclared(tokens).items():
        if prefix == "bif":
            instead = 'FILTER(CONTAINS(LCASE(?label), "some words"))'
            return (
                token.start,
                f"bif: has functions of Virtuoso's own: write {instead} or another function of SPARQL 1.1",
            )
        if prefix not in PREFIXES:
            return token.start, f"the prefix {prefix}: is not declared: begin the query with PREFIX {prefix}: <...>"
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


def _error(text: str, position: int, reason: str) -> SparqlSyntaxError:
    line, column = line_and_column(text, position)
    rest = " ".join(text[position:].split())
    found = "the end" if not rest else repr(rest if len(rest) <= _SHOWN else f"{rest[:_SHOWN]}…")
    return SparqlSyntaxError(f"this is not SPARQL: line {line}, column {column}, at {found}: {reason}")


def with_limit(query: str, limit: int) -> str:
    """Return a SELECT with a limit on its rows, unless it has a smaller one.

    >>> with_limit("SELECT ?x { ?x ?y ?z } ORDER BY ?x VALUES ?x { 1 }", 5)
    'SELECT ?x { ?x ?y ?z } ORDER BY ?x LIMIT 5 VALUES ?x { 1 }'
    >>> with_limit("SELECT ?x { ?x ?y ?z } LIMIT 9", 5), with_limit("SELECT ?x { ?x ?y ?z } LIMIT 2", 5)
    ('SELECT ?x { ?x ?y ?z } LIMIT 5', 'SELECT ?x { ?x ?y ?z } LIMIT 2')
    """
    tokens = tokens_of(query)
    try:
        parsed = parse(tokens).query
    except ParseError:  # syntax beyond SPARQL 1.1
        return query
    if parsed.limit is not None:
        number = tokens[parsed.limit.span[0]]
        lower = min(int(number.text), limit)
        return query[: number.start] + str(lower) + query[number.start + len(number.text) :]
    if parsed.values is None:
        return f"{query.rstrip()}\nLIMIT {limit}"  # on a line of its own: the last one may end in a comment
    before = tokens[parsed.values.span[0]].start
    return f"{query[:before]}LIMIT {limit} {query[before:]}"
