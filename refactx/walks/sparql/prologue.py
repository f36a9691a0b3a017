"""The prefixes of a query, known and declared, and the URIs with ids that its tokens are by them.

A property has a namespace for each of its uses: `wdt:P39` is the direct claim, `p:P39` leads to a statement, `ps:P39`
and `pq:P39` to its value and qualifiers. They are one relation, and only the id after the namespace is what has a name. In
other graphs an id is the whole URI, or the key that a URI of ours has. URIs of vocabularies (`rdfs:label`, `wikibase:label`)
are ids only if a graph has names for them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote, urljoin

from refactx.walks.sparql.tokens import Token, tokens_of

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
_VOCABULARIES = [iri for iri in PREFIXES.values() if iri not in NAMESPACES]
_NO_IDS = re.compile("|".join([*map(re.escape, _VOCABULARIES), "urn:refactx:(?!id:)"]))
"""The beginnings of IRIs that graphs share, and of those of names without ids."""
_BEFORE_NO_ID = frozenset({"^^", "SERVICE", "SILENT", "FROM", "NAMED", "GRAPH"})
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ESCAPE = re.compile(r"\\(.)")
_NO_TOKEN = Token("space", "", 0)
_KEY = "urn:refactx:id:"
"""The beginning of the IRIs of ids that are no IRIs: keys of rows, and paths of properties (`<a>/<b>`)."""


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
    return None if _NO_IDS.match(iri) else id_of_entity(iri)


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


@dataclass(frozen=True, slots=True)
class Uri:
    """A URI of a query, in a namespace of Wikidata's ids, or any other: then its namespace is empty.

    `start`: of its token; `name`: what follows the namespace; `before`, `after`: what the token has around that.
    """

    start: int
    namespace: str
    name: str
    before: str
    after: str

    @property
    def id(self) -> str | None:
        """The id of an entity or property; None if it is something else in a namespace of Wikidata."""
        if not self.namespace:
            return id_of_entity(self.name)
        return self.name if ID.fullmatch(self.name) else None

    @property
    def is_vocabulary(self) -> bool:
        """Whether it is of a vocabulary that graphs share, and so maybe no id, or a name without one."""
        return not self.namespace and _NO_IDS.match(self.name) is not None

    @property
    def text(self) -> str:
        """The token."""
        return f"{self.before}{self.name}{self.after}"

    def is_misspelt(self) -> bool:
        """Whether it is an id of Wikidata but for the case of its letters."""
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


class Prologue:
    """The declarations with which a query begins, given its tokens.

    `declared`: the namespaces of the declared prefixes; `prefixes`: also those of the known ones; `body`: the number of the
    first token that is none of the declarations'.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens, self._base, self.body = tokens, "", 0
        self.declared = dict[str, str]()
        self._spans = list[
            tuple[str, str, range]
        ]()  # the prefix, its namespace, its tokens, the white space after them included
        at = self._after_space(0)
        while (following := self._declaration(at)) > at:
            at = self._after_space(following)
        self.body = at
        self.prefixes = PREFIXES | self.declared if self.declared else PREFIXES

    def _declaration(self, at: int) -> int:
        """Read a declaration at a token, and return the number of the token after it; `at` if there is none."""
        word = self._token(at).upper
        if word not in ("BASE", "PREFIX"):
            return at
        name = self._after_space(at + 1)
        iri = name if word == "BASE" else self._after_space(name + 1)
        if not self._token(iri).is_iri:
            return at
        namespace = self.absolute(self._token(iri).label)
        if word == "BASE":
            self._base = namespace
        elif self._token(name).kind != "name" or self._token(name).text.find(":") != len(self._token(name).text) - 1:
            return at
        else:
            self.declared[self._token(name).text[:-1]] = namespace
            stop = iri + 1
            while self._token(stop).kind == "space" and stop < len(self.tokens):
                stop += 1
            self._spans.append((self._token(name).text[:-1], namespace, range(at, stop)))
        return iri + 1

    def _token(self, at: int) -> Token:
        return self.tokens[at] if at < len(self.tokens) else _NO_TOKEN

    def _after_space(self, at: int) -> int:
        while at < len(self.tokens) and self.tokens[at].is_space:
            at += 1
        return at

    def absolute(self, uri: str) -> str:
        """Return a URI, which may be relative to the base of the query."""
        try:
            return urljoin(self._base, uri) if self._base else uri
        except ValueError:  # such as `http://[`, which a parser takes
            return uri

    def uris(self) -> Iterator[Uri]:
        """Yield the URIs after the declarations that are terms of patterns: no datatypes, functions, graphs and services."""
        last, following = "", [*self.tokens[self.body + 1 :], _NO_TOKEN]
        for token, after in zip(self.tokens[self.body :], following, strict=False):
            if token.is_space:
                continue
            before, last = last, token.text.upper()
            if (iri := self.iri(token)) is None:
                continue
            namespace, name = split_uri(iri)
            if namespace not in NAMESPACES:
                if before not in _BEFORE_NO_ID and after.text != "(" and _SCHEME.match(iri):
                    yield Uri(token.start, "", iri, "<", ">")
            elif token.text.endswith(name) or token.text.endswith(f"{name}>"):
                end = len(token.text) - token.is_iri
                yield Uri(token.start, namespace, name, token.text[: end - len(name)], token.text[end:])
            else:
                yield Uri(token.start, namespace, name, f"<{namespace}", ">")

    def iri(self, token: Token) -> str | None:
        """Return the IRI that a token is; None if it is none, or has a prefix that is not known."""
        if token.kind != "name":
            return self.absolute(token.label) if token.is_iri else None
        prefix, _, local = token.text.partition(":")
        namespace = self.prefixes.get(prefix)
        return None if namespace is None else namespace + _ESCAPE.sub(r"\1", local)

    def qualified(self, namespace: str, name: str) -> str:
        """Return a token for a URI: with a known prefix, unless the query declares that as another's."""
        for prefix, known in PREFIXES.items():
            if known == namespace and self.prefixes[prefix] == namespace:
                return f"{prefix}:{name}"
        return f"<{namespace}{name}>"

    def without_known(self, known: Mapping[str, str] = PREFIXES) -> list[Token]:
        """Return the tokens without declarations of known prefixes (IRIs by prefix) as what they are known for."""
        spans = [span for prefix, namespace, span in self._spans if known.get(prefix) == namespace]
        return [token for at, token in enumerate(self.tokens) if not any(at in span for span in spans)]


def with_declarations(sparql: str) -> str:
    r"""Return a query that declares all prefixes which it uses, so that any engine reads it.

    >>> print(with_declarations("ASK {\n  wd:Q1 wdt:P2 ?x\n}"))
    PREFIX wd: <http://www.wikidata.org/entity/>
    PREFIX wdt: <http://www.wikidata.org/prop/direct/>
    ASK {
      wd:Q1 wdt:P2 ?x
    }
    """
    tokens = tokens_of(sparql)
    declared = Prologue(tokens).declared
    used = dict.fromkeys(token.text.partition(":")[0] for token in tokens if token.kind == "name")
    missing = [prefix for prefix in used if prefix in PREFIXES and prefix not in declared]
    end = "\n" if "\n" in sparql else " "
    return "".join(f"PREFIX {prefix}: <{PREFIXES[prefix]}>{end}" for prefix in missing) + sparql
