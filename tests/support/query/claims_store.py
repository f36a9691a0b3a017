"""A graph of the twin as Wikidata's claims in a SPARQL store, and the answers of SPARQL on it as names."""

from pyoxigraph import Literal, NamedNode, Quad, QueryBoolean, Store

from refactx.ingest.parsers.values import format_literal
from refactx.iris import OWN_PREFIXES as PREFIXES
from refactx.linking.names import bare_name
from refactx.walks.language import FactSet
from support.query.twin import ENTITIES, NUMBERS, TEXTS, TIMES, Graph

UNLIKE = {"1990", "1990-05", "7.0"}
"""Objects that claims do not have: engines do not compare malformed dates, and 7 is 7.0 for them, by name too."""
XSD = "http://www.w3.org/2001/XMLSchema#"


def node(prefix: str, name: str) -> NamedNode:
    return NamedNode(PREFIXES[prefix] + name)


def term(name: str, predicate: str) -> NamedNode | Literal:
    """An object as a claim has it."""
    if predicate in "pqm" and name in ENTITIES:
        return node("wd", f"Q{ENTITIES.index(name)}")
    if predicate == "t":
        year, month, day = [*name.split("-"), "00", "00"][:3]
        return Literal(f"{year}-{month}-{day}T00:00:00Z", datatype=NamedNode(XSD + "dateTime"))
    return (
        Literal(name, language="en")
        if predicate == "x"
        else Literal(f"+{name}".replace("+-", "-"), datatype=NamedNode(XSD + "decimal"))
    )


def store_of(claims: Graph) -> Store:
    """A store of claims, with a label of each entity, and one in another language, which no query means."""
    store = Store()
    for number, name in enumerate(ENTITIES):
        for label, language in ((bare_name(name), "en"), ("a, e, 1990 and -", "de")):
            store.add(Quad(node("wd", f"Q{number}"), node("rdfs", "label"), Literal(label, language=language)))
    for subject, predicate, name in claims:
        subject_node = node("wd", f"Q{ENTITIES.index(subject)}")
        store.add(Quad(subject_node, node("wdt", f"P{ord(predicate)}"), term(name, predicate)))
    return store


def rows(sparql: str, store: Store, facts: FactSet) -> list[str] | bool:
    """The rows of a query as names and literals of facts, or its answer."""
    found = store.query(sparql)
    if isinstance(found, QueryBoolean):
        return bool(found)
    return [_text(row[0], facts) for row in found]


def _text(value: object, facts: FactSet) -> str:
    if isinstance(value, NamedNode):
        id_ = value.value.rpartition("/")[2]
        return facts.names([id_])[id_]
    assert isinstance(value, Literal)
    text = value.value if value.language else format_literal(value.value, value.datatype.value)
    assert text is not None
    return text


assert not UNLIKE - {*TIMES, *NUMBERS, *TEXTS}
