"""The labels of entities at an engine, for results that are shown without an index."""

from collections.abc import Sequence

from pyoxigraph import Literal, NamedNode

from refactx.query.pgmr.uris import PREFIXES
from refactx.sparql.engines import EngineError, QueryRefusedError, Rows, SparqlEngine, SparqlSyntaxError

SECONDS = 10.0


def labels_at(
    engine: SparqlEngine, ids: Sequence[str], seconds: float = SECONDS, language: str = "en"
) -> dict[str, str]:
    """Return the labels of entities and properties by id, without those that have none; empty if the engine fails."""
    if not ids:
        return {}
    values = " ".join(f"wd:{id_}" for id_ in ids)
    query = f'SELECT ?x ?label {{ VALUES ?x {{ {values} }} ?x rdfs:label ?label FILTER(LANG(?label) = "{language}") }}'
    try:
        found = engine.run(query, seconds=seconds)
    except (EngineError, QueryRefusedError, SparqlSyntaxError):
        return {}
    rows = found.rows if isinstance(found, Rows) else ()
    return {
        entity.value.removeprefix(PREFIXES["wd"]): label.value
        for entity, label in rows
        if isinstance(entity, NamedNode) and isinstance(label, Literal)
    }
