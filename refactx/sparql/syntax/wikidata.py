"""Wikidata's own queries as SPARQL 1.1: the label service, hints, and functions of places.

The Wikidata Query Service runs Blazegraph, which has more than SPARQL. On the store of an index

| in the query | becomes |
|---|---|
| `SERVICE wikibase:label { ... }` | a BIND at the end of the group for each of its variables, by a function |
| `hint:QueryTree hint:optimizer "None"` | nothing |
| `HAVING(?n > 1)`, of a name that SELECT gives | that with the expression in place of the name |
| `geof:distance`, `geof:latitude`, `geof:longitude`, `geof:globe` | functions of this module |

The service's rules are those of https://www.mediawiki.org/wiki/Wikidata_Query_Service/User_Manual#Label_service: it labels
the variables `?xLabel`, `?xDescription` and `?xAltLabel` that its SELECT shows, groups or sorts by, or those of its own
triples; a label is that of the first language that has one, else the last part of the IRI, or a value itself.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyoxigraph import DefaultGraph, Literal, NamedNode, Store

from refactx.iris import NAMESPACES, PREFIXES, XSD
from refactx.sparql.syntax.parser import ParseError, parse
from refactx.sparql.syntax.prologue import Prologue
from refactx.sparql.syntax.tokens import Span, Token, text_of, tokens_of
from refactx.sparql.syntax.tree import (
    Block,
    Call,
    Element,
    Expression,
    Filter,
    Group,
    Nested,
    QueryTree,
    Term,
    groups_of,
    nodes,
    triples_of,
)

_SERVICE = f"{PREFIXES['wikibase']}label"
_LANGUAGE = f"{PREFIXES['wikibase']}language"
_HINT = PREFIXES["hint"]
_KINDS = {
    "AltLabel": NamedNode(f"{PREFIXES['skos']}altLabel"),
    "Description": NamedNode(f"{PREFIXES['schema']}description"),
    "Label": NamedNode(f"{PREFIXES['rdfs']}label"),
}
"""What the service says of a variable, by the end of the other variable's name."""
_VARYING = frozenset({"RAND", "UUID", "STRUUID", "BNODE"})
"""Functions that have another value each time that they are called."""
_FUNCTION = "urn:refactx:of:"
_MARKS = re.compile(r"SERVICE|hint:|queryHints#|HAVING", re.IGNORECASE)
_TAG = re.compile(r"[A-Za-z]+(?:-[A-Za-z0-9]+)*")
_STATEMENTS = NAMESPACES - {PREFIXES["wd"], PREFIXES["wdt"]}
_STATED = frozenset(PREFIXES[prefix] for prefix in ("p", "ps", "psv", "pq", "pqv"))
_REFERENCES = frozenset(PREFIXES[prefix] for prefix in ("pr", "prv", "prn"))
_PAGES = frozenset(
    [PREFIXES["schema"] + name for name in ("about", "isPartOf", "inLanguage")]
    + [PREFIXES["wikibase"] + name for name in ("sitelinks", "statements", "identifiers")]
)
_MAY_BE_ABSENT = re.compile(
    r"\b(?:p[a-z]*|wdno|wdtn):P\d|/prop/(?!direct/)|about|isPartOf|inLanguage|sitelinks|statements|identifiers"
)
"""What a query with one of these has in it, so that others are not read for them."""
EARTH_KM = 6371.0088
"""The mean radius of the Earth (IUGG)."""
_POINT = re.compile(
    r"\s*(?:<([^<>]*)>\s*)?point\s*\(\s*([-+]?[\d.]+(?:e[-+]?\d+)?)\s+([-+]?[\d.]+(?:e[-+]?\d+)?)\s*\)\s*",
    re.IGNORECASE,
)
Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Standard:
    """A query as SPARQL 1.1. `labels`: whether it needs `label_functions`; `note`: what was left out."""

    sparql: str
    labels: bool = False
    note: str = ""


def to_standard(query: str) -> Standard:
    """Return a query of Wikidata's service as the engine of a store runs it. What is no SPARQL stays as it is.

    >>> to_standard('SELECT ?xLabel { ?x wdt:P31 wd:Q5 SERVICE wikibase:label { bd:serviceParam wikibase:language "en" } }')
    ... # doctest: +ELLIPSIS
    Standard(sparql='SELECT ?xLabel { ?x wdt:P31 wd:Q5 .  BIND(<urn:refactx:of:Label>(?x, "en") AS ?xLabel) }', ...)
    """
    if not _MARKS.search(query):
        return Standard(query)
    tokens = tokens_of(query)
    try:
        parsed = parse(tokens)
    except ParseError:
        return Standard(query)
    rewriter = _Rewriter(tokens)
    rewriter.rewrite(parsed.query)
    note = f"hints to Wikidata's planner are left out ({', '.join(rewriter.hints)})" if rewriter.hints else ""
    return Standard(text_of(tokens, (0, len(tokens)), rewriter.texts), rewriter.labels, note)


class _Rewriter:
    """A query's tokens, with other texts for some of them, by number."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self.texts: dict[int, str] = {}
        self.labels, self.hints = False, dict[str, None]()

    def rewrite(self, query: QueryTree) -> None:
        shown = (query.selected, query.group_by, query.having, query.order_by)
        self._name_in_having(query)
        wanted = [node.value for node in nodes(shown) if isinstance(node, Term) and node.kind == "variable"]
        if query.where is not None:
            self._group(query.where, list(dict.fromkeys(wanted)))

    def _name_in_having(self, query: QueryTree) -> None:
        """Write expressions in place of the names that SELECT gives them, which have no value yet in HAVING."""
        given = dict[str, str]()

        def rewrite(expression: Expression) -> str:
            own = {term.span[0]: f"({given[term.value]})" for term in _variables(expression) if term.value in given}
            self.texts |= own
            return text_of(self._tokens, expression.span, own)

        for one in query.selected if query.having else ():
            text = rewrite(one.expression)
            if one.variable is not None and not any(
                isinstance(c, Call) and c.name in _VARYING for c in nodes(one.expression)
            ):
                given[one.variable.value] = text
        for condition in query.having:
            rewrite(condition)

    def _group(self, group: Group, wanted: Sequence[str]) -> set[str]:
        """Rewrite a group, and return the variables that it binds. `wanted`: those that its SELECT shows."""
        bound, services = set[str](), list[Nested]()
        for element in group.elements:
            if isinstance(element, Nested) and element.name is not None and element.name.value == _SERVICE:
                services.append(element)
                continue
            if isinstance(element, QueryTree):
                self.rewrite(element)
            if isinstance(element, Block):
                first, own = element.triples[0].subject, element.own
                if own and first.kind == "iri" and first.value.startswith(_HINT):
                    spans = [(first.span[0], one.path.span[1]) for one in own]
                    self.hints |= dict.fromkeys(text_of(self._tokens, span) for span in spans)
                    self._remove(element.span)
                    continue
            bound |= _bound_by(element)
            for inner in () if isinstance(element, QueryTree) else groups_of(element):
                bound |= self._group(inner, wanted)
            for call in nodes(element) if not isinstance(element, (Nested, QueryTree)) else ():
                if isinstance(call, Call) and call.group is not None:
                    self._group(call.group, ())
        binds = ""
        for service in services:
            self._remove(service.span)
            for subject, kind, languages, name in _labelled_by(service, wanted):
                if name not in bound:
                    bound.add(name)
                    binds += f' BIND(<{_FUNCTION}{kind}>({subject}, "{languages}") AS ?{name})'
        if binds:
            self.labels = True
            self.texts[group.span[1] - 1] = f"{binds} }}"
        return bound

    def _remove(self, span: Span) -> None:
        """Leave a part out, so that what is around it stays apart."""
        begin, end = span
        following = next((at for at in range(end, len(self._tokens)) if not self._tokens[at].is_space), end)
        if self._tokens[following].text == ".":
            end = following + 1
        before = (
            self.texts.get(at, self._tokens[at].text)
            for at in range(begin - 1, -1, -1)
            if self.texts.get(at) != "" and not self._tokens[at].is_space
        )
        self.texts |= dict.fromkeys(range(begin, end), "")
        if next(before) not in (".", "{"):
            self.texts[begin] = "."


def _variables(expression: Expression) -> Iterator[Term]:
    """Yield the variables of an expression, without those of EXISTS."""
    if isinstance(expression, Term):
        yield from [expression] if expression.kind == "variable" else []
    else:
        for part in expression.arguments:
            yield from _variables(part)


def _bound_by(element: Element) -> set[str]:
    """Return the variables that an element of a group binds, without those of groups in it."""
    if isinstance(element, QueryTree):
        shown = [one.variable or one.expression for one in element.selected]
        parts: Any = tuple(shown) or element.where
    else:
        parts = () if isinstance(element, (Filter, Nested)) else element
    return {node.value for node in nodes(parts) if isinstance(node, Term) and node.kind == "variable"}


def _labelled_by(service: Nested, wanted: Sequence[str]) -> Iterator[tuple[str, str, str, str]]:
    """Yield what a label service binds: the term that it is about, what it says of that, languages, and the variable."""
    said = list(triples_of(service.groups))
    given = [one.object.value for one in said if isinstance(one.path, Term) and one.path.value == _LANGUAGE]
    languages = ",".join(tag for tag in re.split(r"\s*,\s*", ",".join(given).strip()) if _TAG.fullmatch(tag))
    kinds = {predicate.value: kind for kind, predicate in _KINDS.items()}
    about = {"variable": "?{}", "iri": "<{}>"}
    own = [
        (about[one.subject.kind].format(one.subject.value), kinds[one.path.value], languages, one.object.value)
        for one in said
        if isinstance(one.path, Term) and one.path.value in kinds and one.object.kind == "variable"
        if one.subject.kind in about
    ]
    if own:
        yield from own
        return
    for name in wanted:
        kind = next((kind for kind in _KINDS if name.endswith(kind) and name != kind), None)
        if kind is not None:
            yield f"?{name.removesuffix(kind)}", kind, languages, name


def label_functions(store: Store, missing: set[str]) -> dict[NamedNode, Function]:
    """Return the functions of queries that `to_standard` made, on a store.

    They take a term and a literal with languages, and return a literal, or None for no value. If no language that is
    asked for has a label, nor `mul`, one of another language is taken: `missing` gets that language.
    """

    def of(kind: str, predicate: NamedNode) -> Function:
        def said(term: Any, languages: Literal) -> Literal | None:
            by_language = dict[str, list[str]]()
            if isinstance(term, NamedNode):
                for quad in store.quads_for_pattern(term, predicate, None, DefaultGraph()):
                    if isinstance(quad.object, Literal):
                        by_language.setdefault(quad.object.language or "", []).append(quad.object.value)
            asked = [tag for tag in languages.value.lower().split(",") if tag]
            for tag in (*asked, "mul", *sorted(by_language)):
                if tag in by_language:
                    if tag and tag not in (*asked, "mul"):
                        missing.add(tag)
                    found = sorted(by_language[tag])
                    return Literal(", ".join(found) if kind == "AltLabel" else found[0], language=tag or None)
            if kind != "Label":
                return None
            if isinstance(term, NamedNode):
                return Literal(re.split(r"[/#]", term.value)[-1])
            return Literal(term.value) if isinstance(term, Literal) else None

        return said

    return {NamedNode(_FUNCTION + kind): of(kind, predicate) for kind, predicate in _KINDS.items()}


def absent_in(query: str, has: Callable[[str], bool]) -> str:
    """Return what a query of Wikidata's asks for that an index or a store has not, as a sentence's beginning; empty if there
    is nothing. `has`: whether a predicate or class, given as an IRI, is in its triples.

    >>> absent_in("SELECT ?x { ?x p:P39/pq:P580 ?y }", lambda iri: False)
    'p:P39 and pq:P580 lead to statements with their qualifiers and references: this index has values alone (wdt:P39)'
    """
    if not _MAY_BE_ABSENT.search(query):
        return ""
    prologue = Prologue(tokens_of(query))
    stated, referred = has(f"{PREFIXES['wikibase']}rank"), has(f"{PREFIXES['prov']}wasDerivedFrom")
    absent = _STATEMENTS - (_STATED if stated else set()) - (_REFERENCES if referred else set())
    uris = [one for one in prologue.uris() if one.namespace in absent and not has(one.namespace + one.name)]
    if found := list(dict.fromkeys(one.text for one in uris)):
        shown = " and ".join(found[:2]) + (" and others" if len(found) > 2 else "")
        verb = "leads" if len(found) == 1 else "lead"
        if stated:
            return (
                f"{shown} {verb} to references, normalised values or claims of no value, which an index does not have"
            )
        return (
            f"{shown} {verb} to statements with their qualifiers and references: this index has values alone "
            f"(wdt:{uris[0].name})"
        )
    pages = {
        prologue.iri(token): token.text for token in prologue.tokens[prologue.body :] if token.kind in ("name", "iri")
    }
    if used := [text for iri, text in pages.items() if iri in _PAGES and not has(str(iri))]:
        return f"{used[0]} is about pages of Wikipedia and counts of Wikidata, which an index does not have"
    return ""


# --- Places


def _place(term: Any) -> tuple[str, float, float] | None:
    match = _POINT.fullmatch(term.value) if isinstance(term, Literal) else None
    try:
        return None if match is None else (match[1] or "", float(match[2]), float(match[3]))
    except ValueError:  # such as 1.2.3
        return None


def distance(one: Any, other: Any) -> Literal | None:
    """Return the kilometres between two points (`geo:wktLiteral`) of one globe, on a sphere of the size of the Earth; None
    if they are none. It is the formula of the haversine.

    >>> distance(Literal("Point(13.4 52.5)"), Literal("Point(2.35 48.85)")).value[:5]
    '876.8'
    """
    a, b = _place(one), _place(other)
    if a is None or b is None or a[0] != b[0]:
        return None
    (west, south), (east, north) = (map(math.radians, place[1:]) for place in (a, b))
    part = math.sin((north - south) / 2) ** 2 + math.cos(south) * math.cos(north) * math.sin((east - west) / 2) ** 2
    return _double(2 * EARTH_KM * math.asin(min(1.0, math.sqrt(part))))


def _double(value: float) -> Literal:
    return Literal(repr(value), datatype=NamedNode(f"{XSD}double"))


def _coordinate(number: int) -> Function:
    return lambda term: None if (place := _place(term)) is None else _double(place[1:][number])


GEO_FUNCTIONS: dict[NamedNode, Function] = {
    NamedNode(PREFIXES["geof"] + "distance"): distance,
    NamedNode(PREFIXES["geof"] + "longitude"): _coordinate(0),
    NamedNode(PREFIXES["geof"] + "latitude"): _coordinate(1),
    NamedNode(PREFIXES["geof"] + "globe"): lambda term: (
        None if (place := _place(term)) is None else NamedNode(place[0] or f"{PREFIXES['wd']}Q2")
    ),
}
"""Functions of Wikidata's service for places, by their IRIs."""
