"""Results in the formats of the W3C: SPARQL 1.1 Query Results JSON, CSV and TSV; and the labels of entities in tables.

CSV has values alone: an IRI and a literal may look the same, and a variable without a value is empty. TSV has terms as
SPARQL writes them. JSON has all of a result. The truth of an ASK, for which CSV and TSV have no form, is `true` or
`false`, as other engines write it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pyoxigraph import BlankNode, NamedNode, Triple
from pyoxigraph import Literal as RdfLiteral

from refactx.query.sparql.prologue import entity_term, id_of_entity
from refactx.sparql.engines import EngineError, QueryRefusedError, Result, Rows, SparqlEngine, SparqlSyntaxError, Term

Format = Literal["csv", "tsv", "json"]

_XSD = "http://www.w3.org/2001/XMLSchema#"
_STRING, _LANGUAGE = _XSD + "string", "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
_QUOTED = re.compile('[,"\r\n]')


def written(result: Result, form: Format) -> Iterator[str]:
    r"""Yield the text of a result in a format, in parts with their line ends.

    >>> from pyoxigraph import Literal, NamedNode
    >>> from refactx.sparql.engines import Rows
    >>> rows = Rows(("x", "y"), [(NamedNode("http://a"), Literal("b", language="en")), (None, Literal("1,\n"))])
    >>> "".join(written(rows, "csv"))
    'x,y\r\nhttp://a,b\r\n,"1,\n"\r\n'
    >>> "".join(written(rows, "tsv"))
    '?x\t?y\n<http://a>\t"b"@en\n\t"1,\\n"\n'
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
    for row in result.rows:
        yield "\t".join("" if term is None else _turtle(term) for term in row) + "\n"


def _json(result: Result) -> Iterator[str]:
    if isinstance(result, bool):
        yield json.dumps({"head": {}, "boolean": result}) + "\n"
        return
    yield f'{{"head": {json.dumps({"vars": list(result.variables)}, ensure_ascii=False)}, "results": {{"bindings": ['
    separator, encode = "\n", json.JSONEncoder(ensure_ascii=False).encode
    for row in result.rows:
        binding = {name: _json_term(term) for name, term in zip(result.variables, row, strict=True) if term is not None}
        yield separator + encode(binding)
        separator = ",\n"
    yield "\n]}}\n"


def _truth(result: bool) -> str:
    return "true" if result else "false"


def _value(term: Term | None) -> str:
    if term is None:
        return ""
    return str(term) if isinstance(term, BlankNode | Triple) else term.value


def _field(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text


def _turtle(term: Term) -> str:
    """Return a term as Turtle has it, with escapes for tabs and line ends."""
    return f"<<( {term} )>>" if isinstance(term, Triple) else str(term)


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


SECONDS = 10.0


def labels_at(
    engine: SparqlEngine, ids: Sequence[str], seconds: float = SECONDS, language: str = "en"
) -> dict[str, str]:
    """Return the labels of entities and properties by id, without those that have none; empty if the engine fails."""
    if not ids:
        return {}
    values = " ".join(map(entity_term, ids))
    query = f'SELECT ?x ?label {{ VALUES ?x {{ {values} }} ?x rdfs:label ?label FILTER(LANG(?label) = "{language}") }}'
    try:
        found = engine.run(query, seconds=seconds)
    except (EngineError, QueryRefusedError, SparqlSyntaxError):
        return {}
    rows = found.rows if isinstance(found, Rows) else ()
    return {
        id_of_entity(entity.value): label.value
        for entity, label in rows
        if isinstance(entity, NamedNode) and isinstance(label, RdfLiteral)
    }
