"""The parser of a block of a truthy dump, column by column.

What a predicate stands for is decided once for each distinct one, and so is a suffix of literals (`@en`,
`^^<...#decimal>`); this then holds for all its lines at once.

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
| `prop/P...`, `wikibase:rank` and so on | parts of a statement (`refactx.ingest.parsers.statement_triples`) |
| any other | dropped: `alias`, `duplicate name`, `normalized value`, `not a fact` |
"""

import re
from collections import Counter
from collections.abc import Iterator
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from refactx.entity_ids import entity_number
from refactx.fact import clean_part
from refactx.ingest.parsers.ntriples import TRIPLE_TERM, Mask, Positions, Statements, statements_of
from refactx.ingest.parsers.parsed import (
    DESCRIPTION,
    LABEL,
    OTHER_NAME,
    SCHEMAS,
    TITLE,
    Parsed,
    claims_of,
    clean_texts,
    terms_of,
)
from refactx.ingest.parsers.statement_triples import UNKNOWN, StatementRows
from refactx.ingest.parsers.values import (
    DATES,
    DECIMALS,
    NO_LANGUAGE,
    format_literal,
    language_place,
    language_rank,
    value_kind,
)
from refactx.ingest.source_options import DEFAULT_SELECTION, Selection

_DIRECT = ("http://www.wikidata.org/prop/direct/", "https://www.wikidata.org/prop/direct/")
_PROPERTY = re.compile(r"P[1-9][0-9]{0,17}", re.ASCII)
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
TERMS = {"label": LABEL, "description": DESCRIPTION, "other name": OTHER_NAME}
_STRINGS = (None, "http://www.w3.org/2001/XMLSchema#string")
_NO_VALUES = f"^(?:{'|'.join(re.escape(start) for start in NO_VALUE)})"
# Dates of which the first ten characters are kept; `format_date` decides about a day or month of 00 or 01.
_COMMON_DATE = r"^[1-9][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[2-9]|[12][0-9]|3[01])T00:00:00Z$"


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
        return UNKNOWN
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


def parse_block(block: bytes, first_line: int, selection: Selection = DEFAULT_SELECTION) -> Parsed:
    """Return a block of N-Triples lines as rows of `claims`, `terms`, `redirects` and `left_out`.

    `first_line` is the number of the block's first line in its file. The tables are those of
    `refactx.ingest.parsers.parsed`.
    """
    result = Parsed(lines=0)
    for statements in statements_of(block, first_line, result):
        if statements.reifiers:
            result.dropped["not a fact"] += len(statements.reifiers)
            continue
        result.add(Parsed(lines=0, tables=_WikidataRows(statements, selection).tables(result.dropped)))
    return result


class _WikidataRows:
    """The rows of statements, made column by column."""

    def __init__(self, statements: Statements, selection: Selection) -> None:
        self._statements, self._selection, self._wikipedia = statements, selection, selection.wikipedia
        self._kinds = [kind_of(predicate, selection) for predicate in statements.predicates]
        properties = [entity_number(kind) if kind[0] == "P" else -1 for kind in self._kinds]
        self._property: Positions = np.array(properties, np.int64)[statements.predicate]
        ranks = [0 if tag is None else language_rank(tag, selection.languages) for tag, _ in statements.suffixes]
        # One for each suffix, and the last one for no suffix, which is -1.
        self._rank = np.array([-1 if rank is None else rank for rank in ranks] + [-1], np.int64)
        places = [language_place(tag, selection.languages) for tag, _ in statements.suffixes]
        self._language = np.array([*places, NO_LANGUAGE], np.uint8)

    def tables(self, dropped: Counter[str]) -> dict[str, pa.Table]:
        """Return the staged tables; count the other statements in `dropped`, by reason."""
        statements = self._statements
        stated = StatementRows(statements, self._selection, self._literal_values)
        is_entity, is_claim, is_literal = statements.subject >= 0, self._property >= 0, statements.suffix >= 0
        is_term = np.array([kind in TERMS for kind in self._kinds], np.bool_)[statements.predicate]
        rows = np.flatnonzero(is_entity & is_claim & (statements.object >= 0))
        claims = [
            claims_of(
                *(pa.array(numbers[rows]) for numbers in (statements.subject, self._property, statements.object))
            ),
            self._literal_claims(is_entity & is_claim & is_literal, dropped),
        ]
        terms = [
            self._terms(is_entity & is_term & is_literal, dropped),
            self._titles(~is_entity & (statements.object >= 0) & ~stated.mask, dropped),
        ]
        iris = statements.objects(np.flatnonzero(is_entity & is_claim & ~is_literal & (statements.object < 0)))
        dropped.update(map(object_reason, iris.to_pylist()))
        dropped["not a fact"] += int(np.count_nonzero(is_entity & is_term & ~is_literal))
        others = np.flatnonzero(is_entity & ~is_claim & ~is_term & ~stated.mask)
        self._drop_others(others, dropped)
        pages = np.flatnonzero(~is_entity & (statements.object < 0) & ~stated.mask)
        pages = stated.count_types(pages, dropped, NO_VALUE)
        self._count_pages(pages, statements.subjects(pages), False, dropped)
        moved = others[self._have_kind("redirect", others) & (statements.object[others] >= 0)]
        return {
            "claims": pa.concat_tables(claims),
            "terms": pa.concat_tables(terms),
            "redirects": _make_table("redirects", statements.subject[moved], statements.object[moved]),
            "left_out": self._left_out(others),
            **stated.tables(dropped, object_reason),
        }

    def _literal_claims(self, chosen: Mask, dropped: Counter[str]) -> pa.Table:
        tables = [SCHEMAS["claims"].empty_table()]
        for kept, values, kind in self._literal_values(np.flatnonzero(chosen), dropped):
            subjects, properties = pa.array(self._statements.subject[kept]), pa.array(self._property[kept])
            tables.append(claims_of(subjects, properties, None, values, kind))
        return pa.concat_tables(tables)

    def _literal_values(self, rows: Positions, dropped: Counter[str]) -> Iterator[tuple[Positions, pa.Array, int]]:
        """Yield those of some rows of literals that have a value, with their texts and the kind of these; count the others."""
        rows = self._in_language(rows, dropped)
        suffixes = self._statements.suffix[rows]
        as_is = np.array(
            [language is not None or kind in _STRINGS for language, kind in self._statements.suffixes], np.bool_
        )
        groups = [(rows[as_is[suffixes]], None)]
        for code in np.unique(suffixes[~as_is[suffixes]]).tolist():
            groups.append((rows[suffixes == code], self._statements.suffixes[code][1]))
        for group, datatype in groups:
            values = self._statements.objects(group)
            if datatype is None:
                values = clean_texts(values, lambda text: clean_part(self._statements.decode(text)))
            else:
                values = self._format_literals(values, datatype)
            known, values = _drop_rows(pc.is_null(values), group, values, "unknown datatype value", dropped)
            kept, values = _drop_rows(_are_empty(values), known, values, "empty part", dropped)
            yield kept, values, value_kind(None, datatype)

    def _terms(self, chosen: Mask, dropped: Counter[str]) -> pa.Table:
        rows = self._in_language(np.flatnonzero(chosen), dropped)
        texts = clean_texts(self._statements.objects(rows), lambda text: clean_part(self._statements.decode(text)))
        rows, texts = _drop_rows(_are_empty(texts), rows, texts, "empty part", dropped)
        kinds = np.array([TERMS.get(kind, 0) for kind in self._kinds], np.uint8)[self._statements.predicate[rows]]
        return _make_table(
            "terms",
            self._statements.subject[rows],
            kinds,
            self._rank[self._statements.suffix[rows]].astype(np.uint8),
            self._language[self._statements.suffix[rows]],
            texts,
        )

    def _titles(self, chosen: Mask, dropped: Counter[str]) -> pa.Table:
        """Return the titles in lines with an entity as their object; count the other lines by reason."""
        rows = np.flatnonzero(chosen)
        pages = self._statements.subjects(rows)
        wiki = f"https://{self._wikipedia}.wikipedia.org/wiki/"
        is_title = self._have_kind("about", rows) & _to_mask(pc.starts_with(pages, wiki))
        is_title &= _to_mask(pc.greater(pc.binary_length(pages), len(wiki)))
        self._count_pages(rows[~is_title], pages.filter(pa.array(~is_title)), True, dropped)
        addresses = pages.filter(pa.array(is_title)).to_pylist()
        titles = [clean_part(title_of(page, self._wikipedia) or "") for page in addresses]
        rows, texts = rows[is_title], pa.array(titles, pa.large_string())
        rows, texts = _drop_rows(_are_empty(texts), rows, texts, "empty part", dropped)
        return terms_of(self._statements.object[rows], TITLE, texts)

    def _drop_others(self, rows: Positions, dropped: Counter[str]) -> None:
        """Count lines about entities that are no claims, labels or descriptions."""
        is_entity, is_no_value = self._statements.object[rows] >= 0, np.zeros(len(rows), np.bool_)
        types = np.flatnonzero(self._have_kind("no value", rows) & (self._statements.suffix[rows] < 0))
        is_no_value[types] = _to_mask(pc.match_substring_regex(self._statements.objects(rows[types]), _NO_VALUES))
        for node, about_entity, of_kind in (
            ("", False, ~is_entity & ~is_no_value),
            ("", True, is_entity),
            (NO_VALUE[0], False, is_no_value),
        ):
            count = np.bincount(self._statements.predicate[rows[of_kind]], minlength=len(self._kinds))
            for code in np.flatnonzero(count).tolist():
                dropped[other_reason(self._kinds[code], about_entity, node)] += int(count[code])

    def _left_out(self, rows: Positions) -> pa.Table:
        rows = rows[self._have_kind("property datatype", rows) & (self._statements.suffix[rows] < 0)]
        nodes = self._statements.objects(rows).to_pylist()
        left_out = [(row, LEFT_OUT[node]) for row, node in zip(rows.tolist(), nodes, strict=True) if node in LEFT_OUT]
        properties = self._statements.subject[[row for row, _ in left_out]] if left_out else np.empty(0, np.int64)
        return _make_table("left_out", properties, pa.array([reason for _, reason in left_out], pa.large_string()))

    def _count_pages(self, rows: Positions, pages: pa.Array, about_entity: bool, dropped: Counter[str]) -> None:
        for page, code in zip(pages.to_pylist(), self._statements.predicate[rows].tolist(), strict=True):
            dropped[page_reason(page, self._kinds[code], about_entity)] += 1

    def _have_kind(self, kind: str, rows: Positions) -> Mask:
        """Return for each row whether its predicate is of a kind."""
        mask: Mask = np.array([kind == one for one in self._kinds], np.bool_)[self._statements.predicate[rows]]
        return mask

    def _in_language(self, rows: Positions, dropped: Counter[str]) -> Positions:
        is_ours = self._rank[self._statements.suffix[rows]] >= 0
        dropped["other language"] += int(np.count_nonzero(~is_ours))
        return rows[is_ours]

    def _format_literals(self, texts: pa.Array, datatype: str) -> pa.Array:
        """Return literals as `format_literal` does, clean; null for those that it cannot read."""
        if datatype in DECIMALS:
            written = pc.utf8_ltrim(texts, characters="+")
            common = pc.match_substring_regex(texts, r"^\+?(?:0|-?[1-9][0-9]{0,14})$")
        elif datatype in DATES:
            written = pc.utf8_slice_codeunits(texts, 0, 10)
            common = pc.match_substring_regex(texts, _COMMON_DATE)
        else:
            written, common = texts, pa.array(np.zeros(len(texts), np.bool_))
        others = pc.invert(common)
        if others.true_count:
            encoded = texts.filter(others).dictionary_encode()
            values = [
                format_literal(self._statements.decode(text), datatype) for text in encoded.dictionary.to_pylist()
            ]
            clean = pa.array([None if value is None else clean_part(value) for value in values], pa.large_string())
            written = pc.replace_with_mask(written, others, clean.take(encoded.indices))
        return written


def _drop_rows(
    out: pa.Array, rows: Positions, texts: pa.Array, reason: str, dropped: Counter[str]
) -> tuple[Positions, pa.Array]:
    """Return rows and texts without those that are `out`, which are counted."""
    if not out.true_count:
        return rows, texts
    dropped[reason] += out.true_count
    kept = pc.invert(out)
    return rows[_to_mask(kept)], texts.filter(kept)


def _are_empty(texts: pa.Array) -> pa.Array:
    return pc.equal(pc.binary_length(texts), 0)


def _to_mask(values: pa.Array) -> Mask:
    mask: Mask = values.to_numpy(zero_copy_only=False)
    return mask


def _make_table(name: str, *columns: NDArray[np.int64] | NDArray[np.uint8] | pa.Array) -> pa.Table:
    return pa.table([pa.array(column) for column in columns], schema=SCHEMAS[name])
