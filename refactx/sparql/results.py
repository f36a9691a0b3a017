"""Results in the formats of the W3C: SPARQL 1.1 Query Results JSON, CSV and TSV; and the labels of entities in tables.

CSV has values alone: an IRI and a literal may look the same, and a variable without a value is empty. TSV has terms as
SPARQL writes them. JSON has all of a result. The truth of an ASK, for which CSV and TSV have no form, is `true` or
`false`, as other engines write it.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from pyoxigraph import BlankNode, NamedNode, Triple
from pyoxigraph import Literal as RdfLiteral

from refactx.iris import entity_term, id_of_entity
from refactx.linking.names import bare_name
from refactx.sparql.engines import EngineError, QueryRefusedError, Result, Rows, SparqlEngine, SparqlSyntaxError, Term
from refactx.sparql.store.triples import name_of_own

Format = Literal["csv", "tsv", "json"]

_XSD = "http://www.w3.org/2001/XMLSchema#"
_STRING, _LANGUAGE = _XSD + "string", "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
_QUOTED = re.compile('[,"\r\n]')
_FORMULA = re.compile(
    r"(?![+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|INF)\Z)[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
)
"""The beginning of a text that a spreadsheet takes for a formula, wide characters too, and that is no number."""
SECONDS = 10.0
LABELS: tuple[str, ...] = (
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://www.w3.org/2004/02/skos/core#prefLabel",
    "http://schema.org/name",
    "http://xmlns.com/foaf/0.1/name",
    "http://purl.org/dc/terms/title",
)
"""Properties whose values things are called by, those first that most graphs have."""
GIVEN_NAMES = ("http://schema.org/givenName", "http://xmlns.com/foaf/0.1/givenName")
OTHER_NAMES: tuple[str, ...] = (
    *GIVEN_NAMES,
    "http://www.w3.org/2004/02/skos/core#altLabel",
    "http://schema.org/alternateName",
    "http://schema.org/familyName",
    "http://xmlns.com/foaf/0.1/familyName",
    "http://www.wikidata.org/prop/direct/P1549",  # demonyms
)
"""Properties whose values things are also called by."""
_MOST, _MOST_ROWS = 200, 4_000
"""The most things or texts that are asked for at once, and the most rows that are read."""


def written(result: Result, form: Format) -> Iterator[str]:
    r"""Yield the text of a result in a format, in parts with their line ends.

    >>> from pyoxigraph import Literal, NamedNode
    >>> from refactx.sparql.engines import Rows
    >>> rows = Rows(("x", "y"), [(NamedNode("http://a"), Literal("b", language="en")), (None, Literal("1,\n"))])
    >>> "".join(written(rows, "csv"))
    'x,y\r\nhttp://a,b\r\n,"1,\n"\r\n'
    >>> "".join(written(rows, "tsv"))
    '?x\t?y\n<http://a>\t"b"@en\n\t"1,\\n"\n'

    A text in CSV that a spreadsheet would take for a formula has an apostrophe before it: `'=1+1`, but `-5`.
    """
    return {"csv": _csv, "tsv": _tsv, "json": _json}[form](result)


def _csv(result: Result) -> Iterator[str]:
    if isinstance(result, bool):
        yield f"{_truth(result)}\r\n"
        return
    yield ",".join(map(_field, result.variables)) + "\r\n"
    for row in result.rows:
        yield ",".join(_field(_value(term)) for term in row) + "\r\n"


def _tsv(result: Result) -> Iterator[str]:
    if isinstance(result, bool):
        yield f"{_truth(result)}\n"
        return
    yield "\t".join(f"?{name}" for name in result.variables) + "\n"
    for row in result.rows:  # as in Turtle, with escapes for tabs and line ends
        terms = (f"<<( {term} )>>" if isinstance(term, Triple) else "" if term is None else str(term) for term in row)
        yield "\t".join(terms) + "\n"


def _json(result: Result) -> Iterator[str]:
    if isinstance(result, bool):
        yield json.dumps({"head": {}, "boolean": result}) + "\n"
        return
    yield f'{{"head": {json.dumps({"vars": list(result.variables)}, ensure_ascii=False)}, "results": {{"bindings": ['
    separator, encode = "\n", json.JSONEncoder(ensure_ascii=False).encode
    for binding in bindings(result):
        yield separator + encode(binding)
        separator = ",\n"
    yield "\n]}}\n"


def bindings(result: Rows) -> Iterator[dict[str, Mapping[str, Any]]]:
    """Yield rows in the JSON of the W3C: the terms by their variables, without those that have none."""
    for row in result.rows:
        yield {name: _json_term(term) for name, term in zip(result.variables, row, strict=True) if term is not None}


def _truth(result: bool) -> str:
    return "true" if result else "false"


def _value(term: Term | None) -> str:
    if term is None:
        return ""
    return str(term) if isinstance(term, BlankNode | Triple) else term.value


def _field(text: str) -> str:
    text = f"'{text}" if _FORMULA.match(text) else text
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text


def _json_term(term: Term) -> Mapping[str, Any]:
    if isinstance(term, NamedNode):
        return {"type": "uri", "value": term.value}
    if isinstance(term, BlankNode):
        return {"type": "bnode", "value": term.value}
    if isinstance(term, Triple):
        parts = {"subject": term.subject, "predicate": term.predicate, "object": term.object}
        return {"type": "triple", "value": {name: _json_term(part) for name, part in parts.items()}}
    if term.language is not None:
        direction = {} if term.direction is None else {"its:dir": str(term.direction.value)}
        return {"type": "literal", "value": term.value, "xml:lang": term.language, **direction}
    if term.datatype.value in (_STRING, _LANGUAGE):
        return {"type": "literal", "value": term.value}
    return {"type": "literal", "value": term.value, "datatype": term.datatype.value}


def labels(
    rows: Iterable[Sequence[Term | None]], names: Callable[[Sequence[str]], Mapping[str, str]]
) -> dict[str, str]:
    """Return the names of the IRIs in rows, without those that have none. `names`: as for `texts`."""
    ids = {term.value: id_of_entity(term.value) for row in rows for term in row if isinstance(term, NamedNode)}
    known = names(list(dict.fromkeys(ids.values()))) if ids else {}
    return {iri: known[id_] for iri, id_ in ids.items() if id_ in known}


def texts(
    rows: Iterable[Sequence[Term | None]], names: Callable[[Sequence[str]], Mapping[str, str]]
) -> Iterator[list[str | None]]:
    """Yield rows as texts: an entity with its label and id, a literal as its value, None for none.

    `names`: returns the names of ids, without those that have none.
    """
    kept = [list(row) for row in rows]
    known = labels(kept, names)

    def text(term: Term | None) -> str | None:
        if isinstance(term, NamedNode):
            name = known.get(term.value)
            return f"{bare_name(name)} ({id_of_entity(term.value)})" if name else name_of_own(term.value) or term.value
        return None if term is None else _value(term)

    for row in kept:
        yield [text(term) for term in row]


def names_at(
    engine: SparqlEngine,
    ids: Sequence[str],
    seconds: float = SECONDS,
    languages: Sequence[str] = ("en",),
    properties: Sequence[str] = LABELS,
) -> dict[str, list[str]]:
    """Return what entities and properties are called by some properties, by id: the values of the first one first, and of
    these the first language first. Those without a name, and those after the first 200, are missing; so are all if the
    engine fails."""
    found, asked = dict[str, list[tuple[int, int, str]]](), list(ids)[:_MOST]
    known, named = ["", *languages, "mul"], " ".join(f"<{one}>" for one in properties)
    for pattern in ("?x ?p ?l", "GRAPH ?g { ?x ?p ?l }") if asked else ():  # some engines refuse GRAPH
        things = " ".join(entity_term(id_) for id_ in asked if id_ not in found)
        query = f"SELECT ?x ?p ?l {{ VALUES ?x {{ {things} }} VALUES ?p {{ {named} }} {pattern} }}"
        for thing, name, label in _rows(engine, query, seconds):
            if isinstance(thing, NamedNode) and isinstance(name, NamedNode) and isinstance(label, RdfLiteral):
                language = (label.language or "").partition("-")[0]
                if language in known:
                    order = properties.index(name.value), known.index(language), label.value
                    found.setdefault(id_of_entity(thing.value), []).append(order)
        if len(found) == len(asked):
            break
    return {id_: list(dict.fromkeys(text for *_, text in sorted(orders))) for id_, orders in found.items()}


def things_called(
    engine: SparqlEngine, texts: Sequence[str], languages: Sequence[str] = ("en",), seconds: float = SECONDS
) -> dict[str, str | None]:
    """Return which of some texts are labels or given names, each with the IRI of what is called so, None of several. Of more
    than 200 texts, the others are not looked for; none is there if the engine fails."""
    written = [RdfLiteral(text, language=one or None) for text in texts[:_MOST] for one in ("", *languages)]
    values = " ".join(map(str, written))
    labelled = " UNION ".join(f"{{ ?x <{name}> ?l }}" for name in (*LABELS, *GIVEN_NAMES))
    for pattern in (labelled, f"GRAPH ?g {{ {labelled} }}") if written else ():
        counted = "SELECT ?l (COUNT(DISTINCT ?x) AS ?n) (SAMPLE(?x) AS ?one)"
        query = f"{counted} {{ VALUES ?l {{ {values} }} {pattern} }} GROUP BY ?l"
        found = dict[str, str | None]()
        for label, count, one in _rows(engine, query, seconds):
            if isinstance(label, RdfLiteral) and isinstance(count, RdfLiteral) and count.value != "0":
                is_one = (
                    count.value == "1" and isinstance(one, NamedNode) and found.get(label.value, one.value) == one.value
                )
                found[label.value] = one.value if is_one and isinstance(one, NamedNode) else None
        if found:
            return found
    return {}


def _rows(engine: SparqlEngine, query: str, seconds: float) -> Sequence[tuple[Term | None, ...]]:
    try:
        found = engine.run(query, limit=_MOST_ROWS, seconds=seconds)
    except (EngineError, QueryRefusedError, SparqlSyntaxError):
        return ()
    return found.rows if isinstance(found, Rows) else ()
