"""The URIs of a query that are replaced: those of Wikidata's entities and properties, under all their prefixes.

A property has a namespace for each of its uses: `wdt:P39` is the direct claim, `p:P39` leads to a statement, `ps:P39`
and `pq:P39` to its value and qualifiers. They are one relation, and only the id after the namespace is replaced. All
other URIs (`rdfs:label`, `xsd:date`, `wikibase:label`, statements, pages) stay.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from refactx.query.language import QueryError
from refactx.query.sparql.writer import PREFIXES as OWN_PREFIXES

_WIKIDATA = "http://www.wikidata.org/"
ENTITY, DIRECT = f"{_WIKIDATA}entity/", f"{_WIKIDATA}prop/direct/"
_OF_PROPERTIES = {
    "wdt": "direct/", "wdtn": "direct-normalized/", "wdno": "novalue/",
    "p": "", "ps": "statement/", "psv": "statement/value/", "psn": "statement/value-normalized/",
    "pq": "qualifier/", "pqv": "qualifier/value/", "pqn": "qualifier/value-normalized/",
    "pr": "reference/", "prv": "reference/value/", "prn": "reference/value-normalized/",
}  # fmt: skip
PREFIXES = {
    **OWN_PREFIXES,
    **{prefix: f"{_WIKIDATA}prop/{path}" for prefix, path in _OF_PROPERTIES.items()},
    "wds": f"{ENTITY}statement/",
    "wdv": f"{_WIKIDATA}value/",
    "wdref": f"{_WIKIDATA}reference/",
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
NAMESPACES = frozenset({ENTITY, *(f"{_WIKIDATA}prop/{path}" for path in _OF_PROPERTIES.values())})
"""The namespaces of ids."""
ID = re.compile(r"[QPL][1-9]\d*(?:-[FS][1-9]\d*)?", re.ASCII)
PLACEHOLDER = re.compile(r"(?:entity|relation)\w+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Term:
    """A URI of a query, in a namespace of ids.

    `start`: of its token; `name`: what follows the namespace; `before`, `after`: what the token has around that.
    """

    start: int
    namespace: str
    name: str
    before: str
    after: str

    @property
    def id(self) -> str | None:
        """The id of an entity or property; None if it is something else."""
        return self.name if ID.fullmatch(self.name) else None

    @property
    def text(self) -> str:
        """The token."""
        return f"{self.before}{self.name}{self.after}"

    def is_misspelt(self) -> bool:
        """Whether it is an id but for the case of its letters."""
        return self.id is None and ID.fullmatch(self.name.upper()) is not None

    def renamed(self, name: str) -> str:
        """Return the token with another name after the namespace."""
        return f"{self.before}{name}{self.after}"


def split_uri(uri: str) -> tuple[str, str]:
    """Return the namespace and the name of a URI of Wikidata.

    >>> split_uri("http://www.wikidata.org/prop/statement/P39")
    ('http://www.wikidata.org/prop/statement/', 'P39')
    """
    head, slash, name = uri.rpartition("/")
    return head + slash, name


def check_ids(terms: Iterable[Term]) -> None:
    """Raise QueryError if a URI is an id in lower case or with the prefix of another kind: no engine would find it."""
    for term in terms:
        if term.is_misspelt():
            raise QueryError(
                f"{term.text} is no id of Wikidata: write it in upper case, {term.renamed(term.name.upper())}"
            )
        if term.id is not None and term.namespace != ENTITY and not term.id.startswith("P"):
            raise QueryError(f"{term.text} is no property of Wikidata: write wd:{term.id}, or an id such as P31")


def check_no_ids(terms: Iterable[Term]) -> None:
    """Raise QueryError if a URI is an id, which no one may write in place of a name."""
    for term in terms:
        if term.id is not None or term.is_misspelt():
            raise QueryError(f"{term.text} is an id, for which PGMR has a placeholder: expected one such as wd:entity1")
