"""The parser of SPARQL: the grammar of `sparql.lark`, read by lark, and the syntax tree that its rules make.

`parse` reads any query, with labels in angle brackets and prefixes that are not declared. `read_sparql` reads SPARQL as
engines do, for what works on its tree, and its errors are for users. pyoxigraph judges queries that are run.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from platformdirs import user_cache_path

from refactx.iris import XSD
from refactx.sparql.syntax import tree
from refactx.sparql.syntax.prologue import Prologue
from refactx.sparql.syntax.tokens import Span, Token, line_and_column, plain_query, text_of, tokens_of
from refactx.sparql.syntax.tree import (
    RDF,
    Block,
    Call,
    Group,
    NamedExpression,
    Nested,
    OrderKey,
    Path,
    QueryTree,
    Term,
    TriplePattern,
    Values,
)
from refactx.walks.language import QueryError

if TYPE_CHECKING:
    from lark import Lark

EXAMPLE = "SELECT ?x WHERE { wd:Q1588 wdt:P1449 ?x }"
DEEPEST = 100
"""More parts within each other are not read: what works on the tree recurses."""
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_ESCAPED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}
_END = "$END"
_IN_TRIPLES = frozenset("/|^!(,;")
_NUMBERS = frozenset(XSD + name for name in ("integer", "decimal", "double"))
_UNDEF = object()
_RULES: dict[str, Callable[[list[Any]], Any]] = {"start": lambda children: children[0]}
"""What the rules of the grammar make of their children: leaves, pieces and parts of the tree."""


class ParseError(Exception):
    """A query that is not of the grammar. `at`: the number of the first token that does not fit, or of all at the end."""

    def __init__(self, at: int) -> None:
        super().__init__(f"token {at}")
        self.at = at


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query that was read: its tokens, its declarations and its tree."""

    tokens: Sequence[Token]
    prologue: Prologue
    query: QueryTree

    def text(self, span: Span) -> str:
        """Return the text of a part."""
        return text_of(self.tokens, span)

    def token(self, term: Term) -> Token:
        """Return the token of a term; the last one of several."""
        return self.tokens[term.span[1] - 1]


def parse(tokens: Sequence[Token]) -> ParsedQuery:
    """Return the tree of a query, given its tokens. Raises ParseError if it is not of the grammar.

    >>> parsed = parse(tokens_of("SELECT ?x { <Ann Lee> <child>/<child> ?x ; <age> ?a FILTER(?a < 3) }"))
    >>> [element.kind for element in parsed.query.where.elements]
    ['triples', 'filter']
    >>> [parsed.text(triple.path.span) for triple in parsed.query.where.elements[0].triples]
    ['<child>/<child>', '<age>']
    """
    from lark import UnexpectedToken

    prologue = Prologue(tokens)
    reader = _grammar().parse_interactive()
    at = prologue.body
    try:
        for leaf in _leaves(tokens, prologue):
            at = leaf.span[0]
            reader.feed_token(leaf)  # type: ignore[arg-type]
        at = len(tokens)
        query = reader.feed_token(_Leaf(_END, (at, at)))  # type: ignore[arg-type]
    except UnexpectedToken:
        raise ParseError(at) from None
    return ParsedQuery(tokens, prologue, query)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a query that is not whole ends, and what a name would be there. Within a triple, `subject` and `path` are those
    before it; `subject` is None within square brackets. `triples`: those that were read."""

    wants: Literal["path", "object", "term"] = "term"
    subject: Term | None = None
    path: Path | Term | None = None
    triples: tuple[TriplePattern, ...] = ()


def cursor_of(tokens: Sequence[Token]) -> Cursor:
    """Return what a name would be after the tokens of a beginning of a query.

    >>> cursor_of(tokens_of("SELECT ?x { <Ann Lee> <child> ?c . ?c")).wants
    'path'
    """
    from lark import UnexpectedToken

    reader, size = _grammar().parse_interactive(), len(tokens)
    name, is_name = _Leaf("IRI", (size, size + 1), Term("iri", "")), True
    try:
        for leaf in (*_leaves(tokens, Prologue(tokens)), name):
            reader.feed_token(leaf)  # type: ignore[arg-type]
    except UnexpectedToken:
        is_name = False
    read = list(_flat(reader.parser_state.value_stack))
    triples = tuple(tree.triples_of(tuple(read)))
    path: Path | Term | None = None
    for part in reversed(read[:-1] if is_name else ()):
        if isinstance(part, _Piece) and part.name == "verb" and path is None:
            path = part.value
        elif (isinstance(part, _Piece) and part.name == "subject") or _has([part], "["):
            subject = part.value[0] if isinstance(part, _Piece) else None
            return Cursor("path" if path is None else "object", subject, path, triples)
        elif isinstance(part, _Leaf) and part.value is None and part.text not in _IN_TRIPLES:
            break
    return Cursor(triples=triples)


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if hasattr(value, "children"):  # of lark's own trees
            yield from _flat(value.children)
        else:
            yield value


def read_sparql(text: str) -> ParsedQuery:
    """Return the tree of a query in SPARQL, without labels.

    Raises QueryError, with line and column, if it is not SPARQL, has a prefix that is neither declared nor known, or is
    nested too deeply.
    """
    text = plain_query(text)
    tokens = tokens_of(text)
    labels = (at for at, token in enumerate(tokens) if token.kind == "label" and not token.is_iri)
    try:
        parsed = parse(tokens)
        at = next(labels, None)
    except ParseError as error:
        at = min(error.at, next(labels, error.at))
    if at is not None:
        place = tokens[at].start if at < len(tokens) else len(text.rstrip())
        line, column = line_and_column(text, place)
        found = repr(text[place : place + 40]) if text[place:].strip() else "the end"
        raise QueryError(
            f"this is not SPARQL: line {line}, column {column}, at {found}: expected a query such as {EXAMPLE}"
        )
    for token in tokens[parsed.prologue.body :]:
        prefix = token.text.partition(":")[0]
        if token.kind == "name" and prefix not in parsed.prologue.prefixes:
            raise QueryError(f"this is not SPARQL: the prefix {prefix}: is not known: declare it with PREFIX")
    if tree.depth_of(parsed.query, DEEPEST) > DEEPEST:
        raise QueryError(
            f"this query is nested too deeply to be read: expected at most some {DEEPEST // 2} brackets within each other"
        )
    return parsed


# --- The grammar


@cache
def _grammar() -> "Lark":
    """Return the grammar. Its tables take 0.5 s to make, and 0.05 s to read from a file of the user's."""
    from lark import Lark  # which takes 0.1 s

    text = (files("refactx.sparql.syntax") / "sparql.lark").read_text(encoding="utf-8")
    options: dict[str, Any] = {
        "keep_all_tokens": True,
        "maybe_placeholders": False,
        "transformer": SimpleNamespace(**_RULES),
    }
    kept: str | bool = False
    with suppress(OSError):  # the tables are a pickle: only in a folder of the user's own
        folder = user_cache_path("refactx", ensure_exists=True)
        kept = folder.stat().st_uid == getattr(os, "geteuid", int)() and str(folder / "sparql.tables")
    return Lark(text, parser="lalr", lexer="basic", cache=kept, **options)


@cache
def _words() -> MappingProxyType[str, str]:
    """Return the kinds of words and signs in the grammar, by their text."""
    found = dict[str, str]()
    for terminal in _grammar().terminals:
        text = str(terminal.pattern.value)
        words = (
            re.findall(r"\w+", text.removeprefix("(?:")) if text.isidentifier() or text.startswith("(?:") else [text]
        )
        found |= dict.fromkeys(words, terminal.name)
    return MappingProxyType(found)


class _Leaf:
    """A token as the grammar takes it. `value`: a part of the tree; None for words and signs, of which `text` tells."""

    __slots__ = ("span", "text", "type", "value")

    def __init__(self, type_: str, span: Span, value: Any = None, text: str = "") -> None:
        self.type, self.span, self.value, self.text = type_, span, value, text


def _leaves(tokens: Sequence[Token], prologue: Prologue) -> Iterator[_Leaf]:
    words = _words()
    for at in range(prologue.body, len(tokens)):
        kind, text, _ = tokens[at]
        if kind in ("space", "comment"):
            continue
        span = (at, at + 1)
        if kind == "other":
            yield _Leaf(words.get(text, ""), span, None, text)
        elif kind == "variable":
            yield _Leaf("VARIABLE", span, Term("variable", text[1:], span=span))
        elif kind == "name":
            yield _Leaf("IRI", span, Term("iri", prologue.iri(tokens[at]) or text, span=span))
        elif kind == "word":
            yield _word(text, span, words)
        elif kind in ("iri", "label"):
            yield _Leaf("IRI", span, Term("iri", prologue.absolute(text[1:-1]), span=span))
        elif kind == "string":
            yield _Leaf("STRING", span, _plain(text))
        elif kind == "number":
            name = "double" if "e" in text or "E" in text else "decimal" if "." in text else "integer"
            number = Term("literal", text, datatype=XSD + name, span=span)
            yield _Leaf("INTEGER" if name == "integer" else "NUMBER", span, number)
        elif kind == "language":
            yield _Leaf("LANGUAGE", span, text[1:])
        else:
            yield _Leaf("BLANK", span, Term("blank", text, span=span)) if kind == "blank" else _Leaf("", span)


def _word(text: str, span: Span, words: MappingProxyType[str, str]) -> _Leaf:
    if text == "a":
        return _Leaf("A", span, Term("iri", RDF + "type", span=span))
    if text in ("true", "false"):
        return _Leaf("BOOLEAN", span, Term("literal", text, datatype=XSD + "boolean", span=span))
    upper = text.upper()
    return _Leaf(words.get(upper, "") if upper != "A" else "", span, _UNDEF if upper == "UNDEF" else None, upper)


def _plain(string: str) -> str:
    size = 3 if string[:3] in ('"""', "'''") and len(string) > 5 else 1
    text = string[size:-size]
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    if match[3] is not None:
        return _ESCAPED.get(match[3], match[3])
    code = int(match[1] or match[2], 16)
    return chr(code) if code <= 0x10FFFF else match[0]


# --- The tree


class _Piece(NamedTuple):
    """A part of a part of the tree, by the name of its rule: terms in brackets, a clause, `subject`, `verb`."""

    name: str
    value: Any
    span: Span


def _rule(call: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    _RULES[call.__name__.strip("_")] = call
    return call


def _parts(children: Iterable[Any]) -> list[Any]:
    """Return children without words and signs."""
    found = [child.value if child.__class__ is _Leaf else child for child in children]
    return [part for part in found if part is not None]


def _has(children: Iterable[Any], word: str) -> bool:
    return any(child.__class__ is _Leaf and child.text == word for child in children)


def _span(children: Sequence[Any]) -> Span:
    return (children[0].span[0], children[-1].span[1])


def _piece(name: str) -> Callable[[list[Any]], Any]:
    return lambda children: _Piece(name, tuple(_parts(children)), _span(children))


def _node(make: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    return lambda children: make(*_parts(children), span=_span(children))


_RULES |= {name: _piece(name) for name in ("arguments", "properties", "property", "row", "having", "order_by")}
_RULES |= {
    "named": _node(NamedExpression),
    "filter": _node(tree.Filter),
    "bind": _node(tree.Bind),
    "group": lambda children: Group(tuple(_parts(children)), span=_span(children)),
    "group_by": lambda children: _Piece("group_by", tuple(map(_named, _parts(children))), _span(children)),
    "limit": lambda children: _Piece("limit", children[1].value, _span(children)),
    "offset": lambda children: _Piece("offset", children[1].value, _span(children)),
    "dataset": lambda children: _Piece("dataset", (children[-1].value, len(children) == 3), _span(children)),
    "order": lambda children: OrderKey(_parts(children)[0], _has(children, "DESC"), span=_span(children)),
    "verb": lambda children: _Piece("verb", _parts(children)[0], _span(children)),
    "joined": lambda children: Path(children[1].text, tuple(_parts(children)), span=_span(children)),
    "closure": lambda children: Path(children[1].text, tuple(_parts(children)), span=_span(children)),
    "signed_path": lambda children: Path(children[0].text, tuple(_parts(children)), span=_span(children)),
    "chain": lambda children: Call(children[1].text, tuple(_parts(children)), span=_span(children)),
}


@_rule
def _query(children: list[Any]) -> QueryTree:
    found, selected, datasets = dict[str, Any](), list[NamedExpression](), list[tuple[Term, bool]]()
    for part in _parts(children):
        if isinstance(part, (Term, NamedExpression)):
            selected.append(_named(part))
        elif isinstance(part, (Group, Values)):
            found["where" if isinstance(part, Group) else "values"] = part
        elif part.name == "dataset":
            datasets.append(part.value)
        else:
            found[part.name] = part.value
    form, span = children[0].text, _span(children)
    modifier = next((word for word in ("DISTINCT", "REDUCED") if _has(children[:2], word)), "")
    if form == "CONSTRUCT" and "where" not in found:
        triples = found["template"]
        found["where"] = Group((Block(triples, span=span),) if triples else (), span=span)
    start = found["where"].span[1] if "where" in found else span[1]
    found |= {"selected": tuple(selected), "datasets": tuple(datasets), "after": (start, span[1])}
    return QueryTree(form, modifier=modifier, span=span, **found)  # type: ignore[arg-type]


def _named(part: Any) -> NamedExpression:
    return part if isinstance(part, NamedExpression) else NamedExpression(part, span=part.span)


@_rule
def _template(children: list[Any]) -> _Piece:
    return _Piece("template", tuple(one for part in _parts(children) for one in part.triples), _span(children))


@_rule
def _alternatives(children: list[Any]) -> Nested:
    groups = tuple(_parts(children))
    return Nested("union" if len(groups) > 1 else "group", groups, span=_span(children))


@_rule
def _nested(children: list[Any]) -> Nested:
    *name, group = _parts(children)
    silent = _has(children, "SILENT")
    return Nested(children[0].text.lower(), (group,), name[0] if name else None, silent, span=_span(children))


@_rule
def _values(children: list[Any]) -> Values:
    parts = _parts(children)
    names = tuple(part for part in parts if isinstance(part, Term) and part.kind == "variable")
    rows = (part.value if isinstance(part, _Piece) else (part,) for part in parts[len(names) :])
    return Values(
        names, tuple(tuple(None if one is _UNDEF else one for one in row) for row in rows), span=_span(children)
    )


# Triples


@_rule
def _block(children: list[Any]) -> Block:
    term, within = children[0].value
    said = [triple for part in children[1:] for triple in _said_of(term, part)]
    return Block((*within, *said), span=_span(children))


@_rule
def _subject(children: list[Any]) -> _Piece:
    (part,) = _parts(children)
    return part if isinstance(part, _Piece) else _Piece("subject", (part, ()), part.span)


def _said_of(subject: Term, properties: _Piece) -> Iterator[TriplePattern]:
    for piece in properties.value:
        verb, *objects = piece.value
        for one in objects:
            term, within = one.value if isinstance(one, _Piece) else (one, ())
            yield TriplePattern(subject, verb.value, term)
            yield from within


@_rule
def _blank_node(children: list[Any]) -> _Piece:
    span = _span(children)
    term = Term("blank", f"[{span[0]}", span=span)
    return _Piece("subject", (term, tuple(_said_of(term, children[1]))), span)


@_rule
def _collection(children: list[Any]) -> _Piece:
    span, parts, triples = _span(children), _parts(children), list[TriplePattern]()
    cells = [Term("blank", f"({span[0]}.{number}", span=span) for number in range(len(parts))]
    first, rest = (Term("iri", RDF + name, span=(span[0], span[0])) for name in ("first", "rest"))
    for cell, part, after in zip(cells, parts, [*cells[1:], Term("iri", RDF + "nil", span=span)], strict=True):
        term, within = part.value if isinstance(part, _Piece) else (part, ())
        triples += [TriplePattern(cell, first, term), *within, TriplePattern(cell, rest, after)]
    return _Piece("subject", (cells[0], tuple(triples)), span)


@_rule
def _blank(children: list[Any]) -> Term:
    span, sign = _span(children), children[0].text
    if not sign:
        return children[0].value  # type: ignore[no-any-return]
    return Term("blank", f"[{span[0]}", span=span) if sign == "[" else Term("iri", RDF + "nil", span=span)


# Expressions and literals


@_rule
def _bracketed(children: list[Any]) -> Any:
    (part,) = _parts(children)
    return part if isinstance(part, Term) else replace(part, span=_span(children))


@_rule
def _operation(children: list[Any]) -> Call:
    found, *others = _parts(children)
    for sign, other in zip(children[1::2], others, strict=True):
        found = Call(sign.text, (found, other), span=(found.span[0], other.span[1]))
    return found  # type: ignore[no-any-return]


@_rule
def _among(children: list[Any]) -> Call:
    value, listed = _parts(children)
    call = Call("IN", (value, *listed.value), span=_span(children))
    return Call("!", (call,), span=call.span) if _has(children, "NOT") else call


@_rule
def _sign(children: list[Any]) -> Call | Term:
    """Read an expression with a sign before it, or without; that of a number is its own."""
    sign, part = children[0].text, _parts(children)[0]
    if len(children) == 1:
        return part  # type: ignore[no-any-return]
    if sign != "!" and isinstance(part, Term) and part.datatype in _NUMBERS and part.value[:1] not in ("+", "-"):
        return Term("literal", sign + part.value, datatype=part.datatype, span=_span(children))
    return Call(sign, (part,), span=_span(children))


@_rule
def _call(children: list[Any]) -> Call:
    parts = _parts(children)
    parts = list(parts[-1].value) if parts and isinstance(parts[-1], _Piece) else parts
    separator = parts.pop() if parts and isinstance(parts[-1], str) else ""
    return Call(children[0].text, tuple(parts), _has(children, "DISTINCT"), separator, span=_span(children))


@_rule
def _exists(children: list[Any]) -> Call:
    name = "NOT EXISTS" if _has(children, "NOT") else "EXISTS"
    return Call(name, group=children[-1], span=_span(children))


@_rule
def _function(children: list[Any]) -> Call:
    name, *parts = _parts(children)
    arguments = parts[0].value if parts and isinstance(parts[0], _Piece) else tuple(parts)
    return Call(f"<{name.value}>", arguments, _has(children, "DISTINCT"), span=_span(children))


@_rule
def _literal(children: list[Any]) -> Term:
    text, more = (*_parts(children), "")[:2]
    language, datatype = (more, "") if isinstance(more, str) else ("", more.value)
    return Term("literal", text, language, datatype, span=_span(children))
