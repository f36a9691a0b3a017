"""Wikidata's vocabulary: which lines of a truthy dump are claims, names, descriptions, and why the others are not.

Each line is judged by itself: what needs the whole input (which label is chosen, which names collide, what is a
duplicate) is left to the joins (`refactx.ingest.knowledge`).

| predicate | what becomes of the line |
|---|---|
| `prop/direct/P...` | a claim, if the subject is an entity and the object an entity or a literal |
| `rdfs:label`, `schema:description` | the name or description of an entity, if in one of the languages |
| `skos:altLabel` | another name of an entity, if aliases are asked for and it is in one of the languages |
| `schema:about` of a page of the Wikipedia in the first language | the title of an entity |
| `owl:sameAs` | a redirect: what an entity was merged into |
| `rdf:type` of a `prop/novalue/P...` | dropped: `no value` |
| `wikibase:propertyType` | the datatype of a property: claims with external identifiers and media files are dropped |
| any other | dropped: `alias`, `duplicate name`, `normalized value`, `not a fact` |
"""

import re
from functools import cache
from urllib.parse import unquote

import pyarrow as pa

from refactx.fact import clean_part
from refactx.ingest.parsers.ntriples import TRIPLE_TERM, empty_line, other_syntax, parse_line
from refactx.ingest.parsers.parsed import Parsed, decode_lines, fault, not_utf8
from refactx.ingest.parsers.staging import DESCRIPTION, LABEL, OTHER_NAME, TITLE
from refactx.ingest.parsers.values import format_literal, language_rank, value_kind
from refactx.ingest.selection import DEFAULT_SELECTION, Selection

_DIRECT = ("http://www.wikidata.org/prop/direct/", "https://www.wikidata.org/prop/direct/")
_PROPERTY = re.compile(r"P[1-9][0-9]{0,17}", re.ASCII)
_ENTITY_IRI = re.compile(r"https?://www\.wikidata\.org/entity/([QP][1-9][0-9]{0,17})")
_DATA_PAGE = "/wiki/Special:EntityData/"  # of the entity itself
_TITLE = re.compile(r"https://([a-z-]+)\.wikipedia\.org/wiki/(.+)")
_MEDIA = re.compile(r"https?://commons\.wikimedia\.org/(?:wiki/Special:FilePath|data/main)/")
_UNKNOWN = ("_:", "http://www.wikidata.org/.well-known/genid/", "https://www.wikidata.org/.well-known/genid/")
NO_VALUE = ("http://www.wikidata.org/prop/novalue/", "https://www.wikidata.org/prop/novalue/")
_ALIAS = "http://www.w3.org/2004/02/skos/core#altLabel"
_KINDS = {
    "http://www.w3.org/2000/01/rdf-schema#label": "label",
    "http://schema.org/description": "description",
    "http://schema.org/about": "about",
    "http://wikiba.se/ontology#propertyType": "property datatype",
    "http://www.w3.org/2002/07/owl#sameAs": "redirect",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#type": "no value",
    _ALIAS: "alias",
    "http://www.w3.org/2004/02/skos/core#prefLabel": "duplicate name",
    "http://schema.org/name": "duplicate name",
}
LEFT_OUT = {
    "http://wikiba.se/ontology#ExternalId": "external identifier",
    "http://wikiba.se/ontology#CommonsMedia": "media file",
    "http://wikiba.se/ontology#GeoShape": "media file",
    "http://wikiba.se/ontology#TabularData": "media file",
}
NOT_NTRIPLES = "not N-Triples"
"""What the description of a line says after the name of the syntax that it is in."""
TERMS = {"label": LABEL, "description": DESCRIPTION, "other name": OTHER_NAME}


def parse_exactly(block: bytes, first_line: int, selection: Selection = DEFAULT_SELECTION) -> Parsed:
    """Return a block of N-Triples lines as rows of `claims`, `terms`, `redirects` and `left_out`.

    `first_line` is the number of the block's first line in its file. The tables are those of
    `refactx.ingest.parsers.staging`, with ids as text (`Q42`) for entities.
    """
    lines = decode_lines(block)
    result = Parsed(lines=len(lines))
    dropped, faults, rows = result.dropped, result.faults, _Rows(selection)
    kinds: dict[str, str] = {}
    for number, line in enumerate(lines, first_line):
        if isinstance(line, bytes):
            faults.append((number, not_utf8(line)))
            continue
        triple = parse_line(line.removeprefix("\ufeff") if number == 1 else line)
        if triple is None:
            reason = empty_line(line)
            if reason is None:
                other = other_syntax(line)
                faults.append((number, fault(f"{other}, {NOT_NTRIPLES}" if other else "not a triple", line)))
            else:
                dropped[reason] += 1
            continue
        subject_iri, predicate, node, text, language, datatype = triple
        subject = id_of_iri(subject_iri)
        entity = id_of_iri(node) if node else None
        result.statements += 1
        kind = kinds.get(predicate)
        if kind is None:
            kind = kinds[predicate] = kind_of(predicate, selection)
        if subject is None:
            reason = rows.add_page(subject_iri, kind, entity)
        elif kind[0] == "P":
            if entity is not None:
                rows.add_claim(subject, kind, entity, None, None)
                continue
            if text is None:
                reason = object_reason(node or "")
            else:
                reason = rows.add_literal(subject, kind, text, language, datatype)
        elif kind in TERMS:
            reason = rows.add_term(subject, TERMS[kind], text, language)
        else:
            reason = rows.add_other(subject, kind, entity, node)
        if reason is not None:
            dropped[reason] += 1
    result.tables = rows.tables()
    return result


def id_of_iri(iri: str) -> str | None:
    """Return the id of an item or property, given its IRI; None for any other IRI.

    >>> id_of_iri("http://www.wikidata.org/entity/Q42"), id_of_iri("http://www.wikidata.org/entity/L42")
    ('Q42', None)
    """
    match = _ENTITY_IRI.fullmatch(iri)
    return match[1] if match else None


def title_of(page: str, language: str = "en") -> str | None:
    """Return the title of a page of the Wikipedia in a language, given its address; None for any other page.

    >>> title_of("https://en.wikipedia.org/wiki/Caf%C3%A9_au_lait"), title_of("https://de.wikipedia.org/wiki/Kaffee")
    ('Café au lait', None)
    """
    match = _TITLE.fullmatch(page)
    return unquote(match[2]).replace("_", " ") if match and match[1] == language else None


def kind_of(predicate: str, selection: Selection) -> str:
    """Return what a predicate stands for: a property, one of the kinds of `_KINDS`, or why its lines are dropped."""
    for start in _DIRECT:
        if predicate.startswith(start) and _PROPERTY.fullmatch(predicate, len(start)):
            property_ = predicate[len(start) :]
            return property_ if selection.reads(property_) else "other property"
    if selection.aliases and predicate == _ALIAS:
        return "other name"
    return "normalized value" if "/prop/direct-normalized/" in predicate else _KINDS.get(predicate, "not a fact")


def object_reason(iri: str) -> str:
    """Return why a claim is dropped whose object is this IRI, blank node or triple term, and no item or property."""
    if iri == TRIPLE_TERM:
        return "not a fact"
    if iri.startswith(_UNKNOWN):
        return "unknown value"
    if _MEDIA.match(iri):
        return "media file"
    if "/entity/E" in iri:
        return "entity schema"
    return "lexeme" if "/entity/L" in iri else "url"


def page_reason(subject: str, kind: str, about_entity: bool) -> str:
    """Return why a line is dropped whose subject is this IRI, blank node or triple term, and no item or property."""
    if subject == TRIPLE_TERM:
        return "not a fact"
    if kind == "about" and about_entity:
        is_page = "/wiki/" in subject and "/entity/" not in subject and _DATA_PAGE not in subject
        return "other wiki" if is_page else "not a fact"
    if "/entity/L" in subject:
        return "lexeme"
    if kind[0] == "P" or kind in TERMS:
        return "other subject"
    return "not a fact" if kind in ("about", "property datatype", "redirect", "no value") else kind


def other_reason(kind: str, is_entity: bool, node: str) -> str:
    """Return the reason by which a line about an entity is counted, if it is no claim, label or description.

    `is_entity`: whether its object is an entity. `node`: the IRI or blank node of its object; empty for a literal, and
    not needed for an entity.
    """
    if kind == "redirect":
        return kind if is_entity else "not a fact"
    if kind == "no value":
        return kind if node.startswith(NO_VALUE) else "not a fact"
    return "not a fact" if kind == "about" else kind


class _Rows:
    """The rows of one block, in columns. An `add_` method returns the reason if it drops the line instead."""

    def __init__(self, selection: Selection) -> None:
        self._wiki = selection.wikipedia
        self._rank = cache(lambda language: language_rank(language, selection.languages))
        self._redirects: list[tuple[str, str]] = []
        self._subjects: list[str] = []
        self._properties: list[str] = []
        self._objects: list[str | None] = []
        self._texts: list[str | None] = []
        self._value_kinds: list[int | None] = []
        self._entities: list[str] = []
        self._kinds: list[int] = []
        self._ranks: list[int] = []
        self._terms: list[str] = []
        self._left_out: list[tuple[str, str]] = []

    def add_claim(self, subject: str, property_: str, entity: str | None, text: str | None, kind: int | None) -> None:
        self._subjects.append(subject)
        self._properties.append(property_)
        self._objects.append(entity)
        self._texts.append(text)
        self._value_kinds.append(kind)

    def add_literal(
        self, subject: str, property_: str, text: str, language: str | None, datatype: str | None
    ) -> str | None:
        if language is not None:
            if self._rank(language) is None:
                return "other language"
        else:
            value = format_literal(text, datatype)
            if value is None:
                return "unknown datatype value"
            text = value
        text = clean_part(text)
        if not text:
            return "empty part"
        self.add_claim(subject, property_, None, text, value_kind(language, datatype))
        return None

    def add_term(self, entity: str, kind: int, text: str | None, language: str | None) -> str | None:
        if text is None:
            return "not a fact"
        rank = self._rank(language) if language is not None else 0
        if rank is None:
            return "other language"
        text = clean_part(text)
        if not text:
            return "empty part"
        self._entities.append(entity)
        self._kinds.append(kind)
        self._ranks.append(rank)
        self._terms.append(text)
        return None

    def add_page(self, subject: str, kind: str, entity: str | None) -> str | None:
        """Add a title, if the line links a page of the selection's Wikipedia to an entity; its subject is none."""
        if kind == "about" and entity is not None:
            title = title_of(subject, self._wiki)
            if title is not None:
                return self.add_term(entity, TITLE, title, None)
        return page_reason(subject, kind, entity is not None)

    def add_other(self, subject: str, kind: str, entity: str | None, node: str | None) -> str:
        if kind == "property datatype" and node in LEFT_OUT:
            self._left_out.append((subject, LEFT_OUT[node]))
        elif kind == "redirect" and entity is not None:
            self._redirects.append((subject, entity))
        return other_reason(kind, entity is not None, node or "")

    def tables(self) -> dict[str, pa.Table]:
        text = pa.large_string()
        claims = pa.table(
            {
                "subject": pa.array(self._subjects, text),
                "property": pa.array(self._properties, text),
                "object": pa.array(self._objects, text),
                "text": pa.array(self._texts, text),
                "kind": pa.array(self._value_kinds, pa.uint8()),
            }
        )
        terms = pa.table(
            {
                "entity": pa.array(self._entities, text),
                "kind": pa.array(self._kinds, pa.uint8()),
                "rank": pa.array(self._ranks, pa.uint8()),
                "text": pa.array(self._terms, text),
            }
        )
        redirects = pa.table(
            {
                "entity": pa.array([e for e, _ in self._redirects], text),
                "target": pa.array([t for _, t in self._redirects], text),
            }
        )
        left_out = pa.table(
            {
                "property": pa.array([p for p, _ in self._left_out], text),
                "reason": pa.array([r for _, r in self._left_out], text),
            }
        )
        return {"claims": claims, "terms": terms, "redirects": redirects, "left_out": left_out}
