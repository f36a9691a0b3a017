"""The IRIs of entities and properties, the namespaces that they are in, and the prefixes of these.

A property has a namespace for each of its uses: `wdt:P39` is the direct claim, `p:P39` leads to a statement, `ps:P39`
and `pq:P39` to its value and qualifiers. They are one relation, and only the id after the namespace is what has a name. In
other graphs an id is the whole IRI, or the key that an IRI of ours has. IRIs of vocabularies (`rdfs:label`, `wikibase:label`)
are ids only if a graph has names for them.
"""

import re
from collections.abc import Iterator
from urllib.parse import quote, unquote

OWN_PREFIXES = {
    "wd": "http://www.wikidata.org/entity/",
    "wdt": "http://www.wikidata.org/prop/direct/",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "schema": "http://schema.org/",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "geo": "http://www.opengis.net/ont/geosparql#",
}
"""The prefixes of the queries that `to_sparql` writes."""
WIKIDATA = "http://www.wikidata.org/"
ENTITY, DIRECT = f"{WIKIDATA}entity/", f"{WIKIDATA}prop/direct/"
_OF_PROPERTIES = {
    "wdt": "direct/", "wdtn": "direct-normalized/", "wdno": "novalue/",
    "p": "", "ps": "statement/", "psv": "statement/value/", "psn": "statement/value-normalized/",
    "pq": "qualifier/", "pqv": "qualifier/value/", "pqn": "qualifier/value-normalized/",
    "pr": "reference/", "prv": "reference/value/", "prn": "reference/value-normalized/",
}  # fmt: skip
PREFIXES = {
    **OWN_PREFIXES,
    **{prefix: f"{WIKIDATA}prop/{path}" for prefix, path in _OF_PROPERTIES.items()},
    "wds": f"{ENTITY}statement/",
    "wdv": f"{WIKIDATA}value/",
    "wdref": f"{WIKIDATA}reference/",
    "wikibase": "http://wikiba.se/ontology#",
    "bd": "http://www.bigdata.com/rdf#",
    "hint": "http://www.bigdata.com/queryHints#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "prov": "http://www.w3.org/ns/prov#",
    "geof": "http://www.opengis.net/def/geosparql/function/",
    "dct": "http://purl.org/dc/terms/",
    "cc": "http://creativecommons.org/ns#",
    "ontolex": "http://www.w3.org/ns/lemon/ontolex#",
}
"""The prefixes that queries need not declare: those that Wikidata's query service knows."""
NAMESPACES = frozenset({ENTITY, *(f"{WIKIDATA}prop/{path}" for path in _OF_PROPERTIES.values())})
"""The namespaces of ids."""
_IRI = re.compile(r"(?:https?|urn|tag|info|ftp|file|mailto|doi|ni|data|did):[^\x00-\x20<>\"{}|^`\\]+", re.IGNORECASE)
ID = re.compile(r"[QPL][1-9]\d*(?:-[FS][1-9]\d*)?", re.ASCII)
_OF_WIKIDATA = re.compile(r"[QPL]\d+(?:-[FS]\d+)?", re.ASCII)
_AS_WRITTEN = re.compile(
    r"(?:wdt?:|(?:https?://)?(?:www\.|m\.)?wikidata\.org/(?:entity/|prop/direct/|wiki/(?:Property:|Lexeme:)?))?([QPL][1-9]\d*)",
    re.ASCII | re.IGNORECASE,
)
"""An id of Wikidata as people write it: in any case, with a prefix, or as the address of its page."""
_MAY_BE_ID = re.compile(
    rf"(?a:(?<![\w:/.-])(?:{_AS_WRITTEN.pattern})(?![\w:/-])|(?<!\w)[a-z0-9])(?:(?<=[\w]))[^\s]*", re.IGNORECASE
)
_WORD = re.compile(
    rf"(?a:(?<![\w:/.-]){_AS_WRITTEN.pattern}(?![\w:/-]))"
    r"|(?a:(?<!\w)[a-z0-9])[^\s<>\"“”«»,;?!()\[\]]*[^\s<>\"“”«»,;?!()\[\].:'’]",
    re.IGNORECASE,
)
"""A word of a text that may be an id, without the punctuation around it."""
_VOCABULARIES = [iri for iri in PREFIXES.values() if iri not in NAMESPACES]
_NO_IDS = re.compile("|".join([*map(re.escape, _VOCABULARIES), "urn:refactx:(?!id:)"]))
"""The beginnings of IRIs that graphs share, and of those of names without ids."""
_KEY = "urn:refactx:id:"
"""The beginning of the IRIs of ids that are no IRIs: keys of rows, and paths of properties (`<a>/<b>`)."""
XSD = PREFIXES["xsd"]


def entity_iri(id_: str) -> str:
    """Return the IRI of an item or property of an index, given its id.

    >>> entity_iri("Q42"), entity_iri("http://e.org/a"), entity_iri("products:11")
    ('http://www.wikidata.org/entity/Q42', 'http://e.org/a', 'urn:refactx:id:products%3A11')
    """
    return ENTITY + id_ if _OF_WIKIDATA.fullmatch(id_) else _other_iri(id_)


def property_iri(id_: str) -> str:
    """Return the IRI of a property as the predicate of triples, given its id.

    >>> property_iri("P57"), property_iri("http://e.org/p")
    ('http://www.wikidata.org/prop/direct/P57', 'http://e.org/p')
    """
    return DIRECT + id_ if _OF_WIKIDATA.fullmatch(id_) else _other_iri(id_)


def id_of_entity(iri: str) -> str:
    """Return the id of an item or property, given its IRI.

    >>> [id_of_entity(entity_iri(id_)) for id_ in ("Q42", "http://e.org/a", "products:11")]
    ['Q42', 'http://e.org/a', 'products:11']
    """
    return unquote(iri[len(_KEY) :]) if iri.startswith(_KEY) else iri.removeprefix(ENTITY)


def id_of_property(iri: str) -> str:
    """Return the id of a property, given its IRI as the predicate of triples."""
    return iri.removeprefix(DIRECT) if iri.startswith(DIRECT) else id_of_entity(iri)


def id_within(iri: str) -> str | None:
    """Return the id that an IRI has in it, whatever use of a property it is; None if it is one of a vocabulary, or in a
    namespace of Wikidata without an id.

    >>> id_within("http://www.wikidata.org/prop/P57"), id_within("http://e.org/a"), id_within(PREFIXES["rdfs"] + "label")
    ('P57', 'http://e.org/a', None)
    """
    namespace, name = split_uri(iri)
    if namespace in NAMESPACES:
        return name if ID.fullmatch(name) else None
    return None if is_of_vocabulary(iri) else id_of_entity(iri)


def ids_written_as(text: str) -> list[str]:
    """Return the ids that a text may be, as people write them.

    >>> ids_written_as("wd:q42"), ids_written_as("https://www.wikidata.org/wiki/Property:P31")
    (['wd:q42', 'Q42'], ['https://www.wikidata.org/wiki/Property:P31', 'P31'])
    >>> ids_written_as("urn:refactx:id:products%3A11")
    ['urn:refactx:id:products%3A11', 'products:11']
    """
    of_wikidata = _AS_WRITTEN.fullmatch(text)
    return list(dict.fromkeys([text, of_wikidata[1].upper() if of_wikidata else id_of_entity(text)]))


def ids_in(text: str) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the words of a text that may be ids, as people write them: the half-open range of characters of each, and what
    `ids_written_as` has for it. Letters alone are none, nor are numbers.

    >>> [ids[-1] for *_, ids in ids_in("Is q42 in wikidata.org/wiki/Q84, or in products:11? Not in 12.")]
    ['Q42', 'Q84', 'products:11']
    """
    for found in _WORD.finditer(text):
        if re.search(r"[\d:/]", found[0]) and re.search(r"[^\W\d_]", found[0]):
            yield found.start(), found.end(), ids_written_as(found[0])


def may_be_written(iri: str) -> bool:
    """Return whether a text with a scheme, as IRIs have one, may be a name or an id as people write it.

    >>> [may_be_written(one) for one in ("UTC+01:00", "wd:Q42", "https://www.wikidata.org/wiki/Q42", entity_iri("Q42"))]
    [True, True, True, False]
    """
    return _IRI.fullmatch(iri) is None or (
        _AS_WRITTEN.fullmatch(iri) is not None and split_uri(iri)[0] not in NAMESPACES
    )


def is_of_vocabulary(iri: str) -> bool:
    """Return whether an IRI is of a vocabulary that graphs share, or one that stands for a name without an id."""
    return _NO_IDS.match(iri) is not None


def id_of_term(term: str) -> str:
    """Return the id of an item or property, given it as a term of SPARQL.

    >>> [id_of_term(write(id_)) for id_ in ("P57", "http://e.org/a") for write in (entity_term, property_term)]
    ['P57', 'P57', 'http://e.org/a', 'http://e.org/a']
    """
    return id_of_property(term[1:-1]) if term.startswith("<") else term.partition(":")[2]


def entity_term(id_: str) -> str:
    """Return an item or property as a term of SPARQL.

    >>> entity_term("Q42"), entity_term("http://e.org/a")
    ('wd:Q42', '<http://e.org/a>')
    """
    return f"wd:{id_}" if _OF_WIKIDATA.fullmatch(id_) else f"<{_other_iri(id_)}>"


def property_term(id_: str) -> str:
    """Return a property as the predicate of SPARQL's triples.

    >>> property_term("P57"), property_term("http://e.org/p")
    ('wdt:P57', '<http://e.org/p>')
    """
    return f"wdt:{id_}" if _OF_WIKIDATA.fullmatch(id_) else f"<{_other_iri(id_)}>"


def _other_iri(id_: str) -> str:
    return id_ if _IRI.fullmatch(id_) else _KEY + quote(id_, safe="")


def split_uri(uri: str) -> tuple[str, str]:
    """Return the namespace and the name of a URI of Wikidata.

    >>> split_uri("http://www.wikidata.org/prop/statement/P39")
    ('http://www.wikidata.org/prop/statement/', 'P39')
    """
    head, slash, name = uri.rpartition("/")
    return head + slash, name
