"""The rows of Wikidata's N-Triples by its rules for one line, one line after the other, to compare the parser with."""

from functools import cache
from typing import Any

import pyarrow as pa

from refactx.fact import clean_part
from refactx.ingest.parsers.ntriples import id_of_iri, triples_of
from refactx.ingest.parsers.parsed import TITLE, Parsed, table_of
from refactx.ingest.parsers.values import format_literal, language_place, language_rank, value_kind
from refactx.ingest.parsers.wikidata import LEFT_OUT, TERMS, kind_of, object_reason, other_reason, page_reason, title_of
from refactx.ingest.source_options import DEFAULT_SELECTION, Selection


def parse_exactly(block: bytes, first_line: int, selection: Selection = DEFAULT_SELECTION) -> Parsed:
    """Return a block of N-Triples lines as rows of `claims`, `terms`, `redirects` and `left_out`.

    `first_line` is the number of the block's first line in its file. The tables are those of
    `refactx.ingest.parsers.parsed`, with ids as text (`Q42`) for entities.
    """
    result = Parsed(lines=0)
    dropped, rows = result.dropped, _Rows(selection)
    kinds: dict[str, str] = {}
    for subject_iri, predicate, node, text, language, datatype, _ in triples_of(block, first_line, result):
        subject = id_of_iri(subject_iri)
        entity = id_of_iri(node) if node else None
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


class _Rows:
    """The rows of one block, one by one. An `add_` method returns the reason if it drops the line instead."""

    def __init__(self, selection: Selection) -> None:
        self._wiki = selection.wikipedia
        self._languages = selection.languages
        self._rank = cache(lambda language: language_rank(language, selection.languages))
        self._rows: dict[str, list[tuple[Any, ...]]] = {"claims": [], "terms": [], "redirects": [], "left_out": []}

    def add_claim(self, subject: str, property_: str, entity: str | None, text: str | None, kind: int | None) -> None:
        self._rows["claims"].append((subject, property_, entity, text, kind))

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
        self._rows["terms"].append((entity, kind, rank, language_place(language, self._languages), text))
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
            self._rows["left_out"].append((subject, LEFT_OUT[node]))
        elif kind == "redirect" and entity is not None:
            self._rows["redirects"].append((subject, entity))
        return other_reason(kind, entity is not None, node or "")

    def tables(self) -> dict[str, pa.Table]:
        return {name: table_of(name, rows, pa.large_string()) for name, rows in self._rows.items()}
