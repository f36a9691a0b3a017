"""What was found at an endpoint: its graphs, classes and properties, with samples."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pyoxigraph import Literal as RdfLiteral
from pyoxigraph import NamedNode

from refactx.errors import InputError
from refactx.fact import clean_part
from refactx.iris import PREFIXES, entity_iri, id_of_property
from refactx.sparql.engines.engine import EngineError, Result, Rows, SparqlEngine, Term, UnreachableError
from refactx.sparql.results import LABELS

DEFAULT = ""
"""The place of data that is in no named graph."""
SCHEMA = (
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "http://www.w3.org/2000/01/rdf-schema#",
    "http://www.w3.org/2002/07/owl#",
    "http://rdfs.org/ns/void#",
)
"""Namespaces of terms that describe a schema and not the domain."""
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
SAMPLE = 2_000
"""Triples of a property, or instances, that are looked at."""
CLASSES, PROPERTIES, GRAPHS = 60, 150, 12
"""The most classes, properties and graphs of a pack."""
_FEW = 4
"""Classes of a domain or range: those of most of the sample."""
_CHUNK = 40
_PROLOGUE = """PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
PREFIX skos: <http://www.w3.org/2004/02/skos/core#>
PREFIX void: <http://rdfs.org/ns/void#>
"""
_IN_SCHEMA = {f"{SCHEMA[0]}type", f"{SCHEMA[1]}label"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTerm:
    """A class or a property. `count`: of instances or triples, as far as was counted; `labels`: by language;
    `places`: the named graphs that have it, `DEFAULT` for none; `parents`, `domain`, `range`: IRIs."""

    iri: str
    count: int
    places: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    comment: str = ""
    parents: tuple[str, ...] = ()
    domain: tuple[str, ...] = ()
    range: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What an endpoint has.

    `graphs`: named graphs with data that is nowhere else; `classes`, `properties`: the most frequent first; `whole`:
    whether these are all; `by`: how they were found, `VoID` or `sampling`; `namespaces`: of instances, the most frequent
    first; `label`: the property by which instances are called; `notes`: what failed.
    """

    graphs: tuple[str, ...]
    classes: tuple[FoundTerm, ...]
    properties: tuple[FoundTerm, ...]
    whole: bool
    by: str
    namespaces: tuple[str, ...]
    label: str | None
    notes: tuple[str, ...]


class BoundedQueries:
    """Runs queries that may fail: then there are no rows, and a note says why. UnreachableError is raised.

    `queries`: the most that are run; `seconds`: the most time of each. `notes`: what failed, in order, each once.
    """

    def __init__(self, engine: SparqlEngine, *, queries: int, seconds: float) -> None:
        self._engine, self._seconds = engine, seconds
        self.left = queries
        self.notes = list[str]()

    def rows(self, query: str, limit: int) -> Sequence[tuple[Term | None, ...]] | None:
        """Return at most `limit` rows of a SELECT; None if it failed, or if no query is left."""
        if self.left <= 0:
            self._note("the number of queries is used up: what was not looked at is missing in the pack")
        found = self._run(query, limit)
        return found.rows[:limit] if isinstance(found, Rows) else None

    def holds(self, query: str) -> bool | None:
        """Return the answer to an ASK; None if it failed, or if no query is left."""
        found = self._run(query, None)
        return found if isinstance(found, bool) else None

    def _run(self, query: str, limit: int | None) -> Result | None:
        if self.left <= 0:
            return None
        self.left -= 1
        try:
            return self._engine.run(query, limit=limit, seconds=self._seconds)
        except UnreachableError:
            raise
        except (EngineError, InputError) as error:
            self._note(str(error))
            return None

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


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


def part_of_speech(label: str) -> Literal["noun", "participle", "verb"]:
    """Return how a question can use the label of a property: `noun` ("the salary of"), `participle` ("is made by"), or `verb`
    ("works for").

    >>> [part_of_speech(label) for label in ("salary", "made by", "works for", "part of")]
    ['noun', 'participle', 'verb', 'noun']
    """
    words = label.split()
    if len(words) < 2 or words[-1] not in _PREPOSITIONS:
        return "noun"
    if words[0].endswith("s"):
        return "verb"
    return "participle" if words[0].endswith(("ed", "en", "made", "built", "held", "sold")) else "noun"


def survey(
    engine: SparqlEngine, *, languages: Sequence[str] = ("en",), queries: int = 600, seconds: float = 20.0
) -> Survey:
    """Return what an endpoint has. `languages`: of the labels that are read; `queries`: the most that are run, each for
    `seconds` at most. What fails is in the notes; an endpoint that answers nothing has no classes and properties."""
    return _Surveyor(BoundedQueries(engine, queries=queries, seconds=seconds), languages).survey()


class _Surveyor:
    def __init__(self, queries: BoundedQueries, languages: Sequence[str]) -> None:
        self._queries, self._languages = queries, languages
        self._whole = True
        self._anywhere = False
        """Whether data is in several places, so that a thing's class may be in another one than its properties."""

    def survey(self) -> Survey:
        places = self._places()
        self._anywhere = len(places) > 1
        classes, properties = self._void("void:class", "void:entities", places), dict[str, dict[str, int]]()
        by = "VoID" if classes else "sampling"
        if classes:
            properties = self._void("void:property", "void:triples", places)
        classes = classes or self._counted("?x a ?t", places, CLASSES)
        properties = properties or self._counted("?x ?t ?o", places, PROPERTIES)
        described = self._describe([*classes, *properties])
        found_classes = [
            self._term(iri, counts, described, ()) for iri, counts in classes.items() if not iri.startswith(SCHEMA)
        ]
        found_properties = [
            self._term(iri, counts, described, tuple(counts))
            for iri, counts in properties.items()
            if iri in _IN_SCHEMA or not iri.startswith(SCHEMA)
        ]
        return Survey(
            graphs=tuple(place for place in places if place != DEFAULT),
            classes=tuple(found_classes),
            properties=tuple(found_properties),
            whole=self._whole,
            by=by,
            namespaces=self._namespaces(places),
            label=next((iri for iri in LABELS if iri in properties), None),
            notes=tuple(self._queries.notes),
        )

    def _places(self) -> list[str]:
        """Return where data is: the default graph, and named graphs with something that the default graph has not."""
        has_default = self._queries.holds("ASK { ?s ?p ?o }")
        rows = self._queries.rows("SELECT DISTINCT ?g { GRAPH ?g { ?s ?p ?o } }", GRAPHS) or ()
        own = list[str]()
        for graph in _iris(rows):
            query = f"ASK {{ GRAPH <{graph}> {{ ?s ?p ?o }} FILTER NOT EXISTS {{ ?s ?p ?o }} }}"
            if not has_default or self._queries.holds(query):
                own.append(graph)
        return [DEFAULT, *own] if has_default or not own else own

    def _void(self, key: str, count: str, places: Sequence[str]) -> dict[str, dict[str, int]]:
        """Return the classes or properties that an endpoint describes, with counts, at the first of the places."""
        limit = CLASSES if key == "void:class" else PROPERTIES
        for place in places:
            where = inside(place, f"?part {key} ?t . OPTIONAL {{ ?part {count} ?c }}")
            query = f"{_PROLOGUE}SELECT ?t (MAX(COALESCE(?c, 0)) AS ?n) {{ {where} }} GROUP BY ?t ORDER BY DESC(?n)"
            rows = self._queries.rows(query, limit)
            if rows:
                return {iri: {self._home(iri, key, places): number} for iri, number in _counts(rows)}
        return {}

    def _home(self, iri: str, key: str, places: Sequence[str]) -> str:
        """Return the first place that has a term of VoID, which says nothing of graphs."""
        used = f"?x a <{iri}>" if key == "void:class" else f"?x <{iri}> ?o"
        if len(places) == 1:
            return places[0]
        return next((place for place in places if self._queries.holds(f"ASK {{ {inside(place, used)} }}")), places[0])

    def _counted(self, pattern: str, places: Sequence[str], limit: int) -> dict[str, dict[str, int]]:
        """Return the classes or properties (`?t`) of all places, with counts by place, the most frequent first."""
        found = defaultdict[str, dict[str, int]](dict)
        for place in places:
            where = inside(place, pattern)
            rows = self._queries.rows(f"SELECT ?t (COUNT(*) AS ?n) {{ {where} }} GROUP BY ?t ORDER BY DESC(?n)", limit)
            if rows is None:  # too much to count: a sample
                self._whole = False
                inner = f"{{ SELECT ?t {{ {where} }} LIMIT {10 * SAMPLE} }}"
                rows = self._queries.rows(
                    f"SELECT ?t (COUNT(*) AS ?n) {{ {inner} }} GROUP BY ?t ORDER BY DESC(?n)", limit
                )
            self._whole &= rows is not None and len(rows) < limit
            for iri, number in _counts(rows or ()):
                found[iri][place] = number
        return dict(sorted(found.items(), key=lambda one: -sum(one[1].values()))[:limit])

    def _term(
        self, iri: str, counts: dict[str, int], described: dict[str, "_Description"], sampled: Sequence[str]
    ) -> FoundTerm:
        known = described[iri]
        domain, range_ = known.domain, known.range
        if sampled:
            place = max(counts, key=lambda one: counts[one])
            domain = domain or self._ends(iri, place, "?s", "?c")
            range_ = range_ or self._ends(iri, place, "?o", "COALESCE(?c, DATATYPE(?o))")
        return FoundTerm(
            iri=iri,
            count=sum(counts.values()),
            places=tuple(counts),
            labels=known.labels,
            comment=known.comment,
            parents=known.parents,
            domain=domain,
            range=range_,
        )

    def _ends(self, iri: str, place: str, end: str, kind: str) -> tuple[str, ...]:
        """Return the classes or datatypes at one end of a sample of a property's triples; empty if some have none."""
        sample = f"{{ SELECT {end} {{ {inside(place, f'?s <{iri}> ?o')} }} LIMIT {SAMPLE} }}"
        kinds = f"{end} a ?c"
        kinds = f"{{ {kinds} }} UNION {{ GRAPH ?any {{ {kinds} }} }}" if self._anywhere else inside(place, kinds)
        typed = f"OPTIONAL {{ {kinds} FILTER(isIRI(?c)) }}"
        query = f"SELECT ?k (COUNT(DISTINCT {end}) AS ?n) {{ {sample} {typed} BIND({kind} AS ?k) }} GROUP BY ?k"
        rows = self._queries.rows(f"{query} ORDER BY DESC(?n)", _FEW + 1) or ()
        if any(row[0] is None for row in rows):
            return ()
        names = [name for name in _iris(rows) if not name.startswith(SCHEMA[1:])]
        return tuple(names) if len(names) <= _FEW else ()

    def _describe(self, iris: Sequence[str]) -> dict[str, "_Description"]:
        """Return what an endpoint says of terms, in any graph."""
        found = {iri: _Description() for iri in iris}
        named = {entity_iri(id_of_property(iri)): iri for iri in iris}
        """What is described, by what has the description: a property of Wikidata has it as an entity."""
        keys = "rdfs:label rdfs:comment skos:prefLabel skos:definition"
        keys += " rdfs:subClassOf rdfs:subPropertyOf rdfs:domain rdfs:range"
        for start in range(0, len(iris), _CHUNK):
            terms = " ".join(f"<{iri}>" for iri in list(named)[start : start + _CHUNK])
            where = f"VALUES ?t {{ {terms} }} VALUES ?p {{ {keys} }} {{ ?t ?p ?v }} UNION {{ GRAPH ?g {{ ?t ?p ?v }} }}"
            for term, key, value in (
                self._queries.rows(f"{_PROLOGUE}SELECT DISTINCT ?t ?p ?v {{ {where} }}", 2_000) or ()
            ):
                if isinstance(term, NamedNode) and isinstance(key, NamedNode) and term.value in named:
                    found[named[term.value]].add(key.value.rpartition("#")[2], value, self._languages)
        return found

    def _namespaces(self, places: Sequence[str]) -> tuple[str, ...]:
        """Return the namespaces of instances in a sample."""
        counts = Counter[str]()
        for place in places:
            rows = self._queries.rows(f"SELECT ?x {{ {inside(place, '?x a ?c')} }}", SAMPLE) or ()
            counts.update(namespace_of(iri) for iri in _iris(rows))
        return tuple(name for name, _ in counts.most_common(5) if name)


class _Description:
    def __init__(self) -> None:
        self.labels = dict[str, str]()
        self.comment = ""
        self.parents: tuple[str, ...] = ()
        self.domain: tuple[str, ...] = ()
        self.range: tuple[str, ...] = ()

    def add(self, key: str, value: Term | None, languages: Sequence[str]) -> None:
        if isinstance(value, RdfLiteral):
            language = value.language or languages[0]
            text = clean_part(value.value)
            if key in ("label", "prefLabel") and language in languages and text:
                self.labels.setdefault(language, text)
            elif key in ("comment", "definition") and not self.comment and language == languages[0]:
                self.comment = text[:300]
        elif isinstance(value, NamedNode):
            match key:
                case "subClassOf" | "subPropertyOf":
                    self.parents += (value.value,)
                case "domain":
                    self.domain += (value.value,)
                case "range":
                    self.range += (value.value,)


def inside(place: str, pattern: str) -> str:
    """Return a pattern within a place."""
    return pattern if place == DEFAULT else f"GRAPH <{place}> {{ {pattern} }}"


def _iris(rows: Sequence[tuple[Term | None, ...]]) -> Iterator[str]:
    for row in rows:
        if row and isinstance(row[0], NamedNode):
            yield row[0].value


def _counts(rows: Sequence[tuple[Term | None, ...]]) -> Iterator[tuple[str, int]]:
    for term, number in rows:
        if isinstance(term, NamedNode) and isinstance(number, RdfLiteral) and number.value.isdecimal():
            yield term.value, int(number.value)
