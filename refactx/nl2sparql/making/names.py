"""Names for IRIs that have none: words of local names, and prefixes of namespaces."""

import re
from collections.abc import Iterable
from typing import Literal

from refactx.query.pgmr.uris import PREFIXES

KNOWN = {
    **{
        prefix: PREFIXES[prefix]
        for prefix in ("rdf", "rdfs", "owl", "xsd", "skos", "schema", "wd", "wdt", "ontolex", "prov")
    },
    "foaf": "http://xmlns.com/foaf/0.1/",
    "dcterms": "http://purl.org/dc/terms/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "void": "http://rdfs.org/ns/void#",
    "org": "http://www.w3.org/ns/org#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "sdo": "https://schema.org/",
    "geo": "http://www.w3.org/2003/01/geo/wgs84_pos#",
    "dbo": "http://dbpedia.org/ontology/",
    "dbr": "http://dbpedia.org/resource/",
}
"""Prefixes that people expect."""
_EMPTY = ("www", "org", "com", "net", "example", "ontology", "vocab", "id")
"""Words of a namespace that tell nothing."""
_PREPOSITIONS = ("by", "in", "for", "at", "to", "from", "with", "on", "of")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def namespace_of(iri: str) -> str:
    """Return the IRI up to its last `#` or `/`; empty without one.

    >>> namespace_of("http://e.org/hr#worksFor"), namespace_of("urn:x")
    ('http://e.org/hr#', '')
    """
    return iri[: max(iri.rfind("#"), iri.rfind("/")) + 1]


def words_of(iri: str) -> str:
    """Return the words of an IRI's local name, in lower case unless they are an abbreviation.

    >>> words_of("http://e.org/hr#worksFor"), words_of("http://e.org/has_ISBN")
    ('works for', 'has ISBN')
    """
    local = iri[len(namespace_of(iri)) :] or iri
    words = _CAMEL.sub(" ", re.sub(r"[_\-.]+", " ", local)).split()
    return " ".join(word if word.isupper() and len(word) > 1 else word.lower() for word in words) or local


def prefixes_for(namespaces: Iterable[str]) -> dict[str, str]:
    """Return a prefix for each namespace, by prefix: the known one, else the last word of the namespace.

    >>> prefixes_for(["http://xmlns.com/foaf/0.1/", "http://e.org/hr#", "http://e.com/hr#"])
    {'foaf': 'http://xmlns.com/foaf/0.1/', 'hr': 'http://e.org/hr#', 'hr2': 'http://e.com/hr#'}
    """
    known = {iri: prefix for prefix, iri in KNOWN.items()}
    found = dict[str, str]()
    for namespace in dict.fromkeys(namespaces):
        words = re.findall(r"[A-Za-z][A-Za-z0-9]*", namespace.partition("://")[2])
        words = [word for word in words if word not in _EMPTY]
        name = known.get(namespace) or (words[-1].lower()[:12] if words else "ns")
        number, free = 2, name
        while free in found or (free in KNOWN and KNOWN[free] != namespace):
            free, number = f"{name}{number}", number + 1
        found[free] = namespace
    return found


def form_of(label: str) -> Literal["noun", "participle", "verb"]:
    """Return how a question can use the label of a property: `noun` ("the salary of"), `participle` ("is made by"), or `verb`
    ("works for").

    >>> [form_of(label) for label in ("salary", "made by", "works for", "part of")]
    ['noun', 'participle', 'verb', 'noun']
    """
    words = label.split()
    if len(words) < 2 or words[-1] not in _PREPOSITIONS:
        return "noun"
    if words[0].endswith("s"):
        return "verb"
    return "participle" if words[0].endswith(("ed", "en", "made", "built", "held", "sold")) else "noun"


def plural(noun: str) -> str:
    """Return the plural of an English noun, as far as rules make it.

    >>> plural("company"), plural("bus"), plural("sales person")
    ('companies', 'buses', 'sales people')
    """
    for ending, many in (("person", "people"), ("man", "men"), ("child", "children")):
        if noun.endswith(ending):
            return noun.removesuffix(ending) + many
    if re.search(r"[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + ("es" if re.search(r"(s|x|z|ch|sh)$", noun) else "s")
