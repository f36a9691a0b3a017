"""The parser of a block of a truthy dump: lines in common form column by column, the others one by one.

`rules` decides once for each distinct predicate, and for each distinct suffix of a literal (`@en`, `^^<...#decimal>`),
what it stands for; this then holds for all its lines at once. Both ways give the same result.
"""

import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from refactx.entity_ids import entity_number
from refactx.fact import clean_part
from refactx.ingest.parsers.ntriples import unescape
from refactx.ingest.parsers.parsed import Parsed
from refactx.ingest.parsers.staging import SCHEMAS, TITLE, cast_rows
from refactx.ingest.parsers.text import clean_texts
from refactx.ingest.parsers.values import DATES, DECIMALS, format_literal, language_rank, value_kind
from refactx.ingest.parsers.wikidata.rules import (
    LEFT_OUT,
    NO_VALUE,
    TERMS,
    kind_of,
    object_reason,
    other_reason,
    page_reason,
    parse_exactly,
    title_of,
)
from refactx.ingest.parsers.wikidata.statements import (
    Mask,
    Positions,
    Statements,
    common_statements,
    find_lines,
    texts_at,
)
from refactx.ingest.selection import DEFAULT_SELECTION, Selection

_STRINGS = (None, "http://www.w3.org/2001/XMLSchema#string")
_NO_VALUES = f"^<(?:{'|'.join(re.escape(start) for start in NO_VALUE)})"
# Dates of which the first ten characters are kept; `format_date` decides about a day or month of 00 or 01.
_COMMON_DATE = r"^[1-9][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[2-9]|[12][0-9]|3[01])T00:00:00Z$"


def parse_block(block: bytes, first_line: int, selection: Selection = DEFAULT_SELECTION) -> Parsed:
    """Return a block of N-Triples lines as rows of `claims`, `terms`, `redirects` and `left_out`.

    `first_line` is the number of the block's first line in its file. The tables are those of
    `refactx.ingest.parsers.staging`.
    """
    if not block.endswith(b"\n"):
        block += b"\n"
    lines = find_lines(block)
    if not _is_utf8(block):
        return parse_exactly(block, first_line, selection)
    statements = common_statements(lines)
    common = _Columns(statements, lines.buffer, selection)
    result = Parsed(lines=len(lines.starts), statements=len(statements.line))
    result.tables = common.tables(result.dropped)
    others = np.delete(np.arange(result.lines), statements.line)
    if len(others):
        text = b"".join(block[lines.starts[i] : lines.ends[i] + 1] for i in others)
        _add_others(result, text, others + first_line, selection)
    return result


def _add_others(result: Parsed, block: bytes, numbers: Positions, selection: Selection) -> None:
    """Add to a result the outcome of lines of any form, which have these numbers in their file."""
    parsed = parse_exactly(block, 1, selection)
    result.statements += parsed.statements
    result.dropped += parsed.dropped
    result.faults += [(int(numbers[line - 1]), what) for line, what in parsed.faults]
    for name, rows in parsed.tables.items():
        before = [result.tables[name]] if name in result.tables else []
        result.tables[name] = pa.concat_tables([*before, cast_rows(name, rows)])


def _is_utf8(block: bytes) -> bool:
    offsets = pa.py_buffer(np.array([0, len(block)], np.int64))
    try:
        pa.LargeStringArray.from_buffers(1, offsets, pa.py_buffer(block)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


class _Columns:
    """The rows of statements in common form, made column by column."""

    def __init__(self, statements: Statements, buffer: NDArray[np.uint8], selection: Selection) -> None:
        self._statements, self._buffer, self._wikipedia = statements, buffer, selection.wikipedia
        self._kinds = [kind_of(predicate, selection) for predicate in statements.predicates]
        properties = [entity_number(kind) if kind[0] == "P" else -1 for kind in self._kinds]
        self._property: Positions = np.array(properties, np.int64)[statements.predicate]
        ranks = [0 if tag is None else language_rank(tag, selection.languages) for tag, _ in statements.suffixes]
        # One for each suffix, and the last one for no suffix, which is -1.
        self._rank = np.array([-1 if rank is None else rank for rank in ranks] + [-1], np.int64)

    def tables(self, dropped: Counter[str]) -> dict[str, pa.Table]:
        """Return the staged tables; count the other statements in `dropped`, by reason."""
        statements = self._statements
        is_entity, is_claim, is_literal = statements.subject >= 0, self._property >= 0, statements.suffix >= 0
        is_term = np.array([kind in TERMS for kind in self._kinds], np.bool_)[statements.predicate]
        claims = [
            self._entity_claims(is_entity & is_claim & (statements.object >= 0)),
            self._literal_claims(is_entity & is_claim & is_literal, dropped),
        ]
        terms = [
            self._terms(is_entity & is_term & is_literal, dropped),
            self._titles(~is_entity & (statements.object >= 0), dropped),
        ]
        self._drop_other_objects(is_entity & is_claim & ~is_literal & (statements.object < 0), dropped)
        dropped["not a fact"] += int(np.count_nonzero(is_entity & is_term & ~is_literal))
        others = np.flatnonzero(is_entity & ~is_claim & ~is_term)
        self._drop_others(others, dropped)
        self._drop_pages(~is_entity & (statements.object < 0), dropped)
        return {
            "claims": pa.concat_tables(claims),
            "terms": pa.concat_tables(terms),
            "redirects": self._redirects(others),
            "left_out": self._left_out(others),
        }

    def _entity_claims(self, chosen: Mask) -> pa.Table:
        rows = np.flatnonzero(chosen)
        texts, kinds = pa.nulls(len(rows), pa.large_string()), pa.nulls(len(rows), pa.uint8())
        return _make_table(
            "claims", self._statements.subject[rows], self._property[rows], self._statements.object[rows], texts, kinds
        )

    def _literal_claims(self, chosen: Mask, dropped: Counter[str]) -> pa.Table:
        rows = self._in_language(np.flatnonzero(chosen), dropped)
        tables = []
        suffixes = self._statements.suffix[rows]
        as_is = np.array(
            [language is not None or kind in _STRINGS for language, kind in self._statements.suffixes], np.bool_
        )
        groups = [(rows[as_is[suffixes]], None)]
        for code in np.unique(suffixes[~as_is[suffixes]]).tolist():
            groups.append((rows[suffixes == code], self._statements.suffixes[code][1]))
        for group, datatype in groups:
            values = self._literals(group)
            if datatype is None:
                values = clean_texts(values, lambda text: clean_part(unescape(text)))
            else:
                values = _format_literals(values, datatype)
            known, values = _drop_rows(pc.is_null(values), group, values, "unknown datatype value", dropped)
            kept, values = _drop_rows(_are_empty(values), known, values, "empty part", dropped)
            objects = pa.nulls(len(kept), pa.int64())
            kinds = np.full(len(kept), value_kind(None, datatype), np.uint8)
            subjects, properties = self._statements.subject[kept], self._property[kept]
            tables.append(_make_table("claims", subjects, properties, objects, values, kinds))
        return pa.concat_tables(tables)

    def _terms(self, chosen: Mask, dropped: Counter[str]) -> pa.Table:
        rows = self._in_language(np.flatnonzero(chosen), dropped)
        texts = clean_texts(self._literals(rows), lambda text: clean_part(unescape(text)))
        rows, texts = _drop_rows(_are_empty(texts), rows, texts, "empty part", dropped)
        kinds = np.array([TERMS.get(kind, 0) for kind in self._kinds], np.uint8)[self._statements.predicate[rows]]
        return _make_table(
            "terms",
            self._statements.subject[rows],
            kinds,
            self._rank[self._statements.suffix[rows]].astype(np.uint8),
            texts,
        )

    def _titles(self, chosen: Mask, dropped: Counter[str]) -> pa.Table:
        """Return the titles in lines with an entity as their object; count the other lines by reason."""
        rows = np.flatnonzero(chosen)
        pages = texts_at(self._buffer, self._statements.subject_span[rows])
        wiki = f"<https://{self._wikipedia}.wikipedia.org/wiki/"
        is_title = self._have_kind("about", rows) & _to_mask(pc.starts_with(pages, wiki))
        is_title &= _to_mask(pc.greater(pc.binary_length(pages), len(wiki) + 1))
        self._count_pages(rows[~is_title], pages.filter(pa.array(~is_title)), True, dropped)
        addresses = pages.filter(pa.array(is_title)).to_pylist()
        titles = [clean_part(title_of(page[1:-1], self._wikipedia) or "") for page in addresses]
        rows, texts = rows[is_title], pa.array(titles, pa.large_string())
        rows, texts = _drop_rows(_are_empty(texts), rows, texts, "empty part", dropped)
        best = np.zeros(len(rows), np.uint8)
        return _make_table("terms", self._statements.object[rows], np.full(len(rows), TITLE, np.uint8), best, texts)

    def _drop_others(self, rows: Positions, dropped: Counter[str]) -> None:
        """Count lines about entities that are no claims, labels or descriptions."""
        is_entity, is_no_value = self._statements.object[rows] >= 0, np.zeros(len(rows), np.bool_)
        types = np.flatnonzero(self._have_kind("no value", rows) & (self._statements.suffix[rows] < 0))
        is_no_value[types] = _to_mask(
            pc.match_substring_regex(texts_at(self._buffer, self._statements.object_span[rows[types]]), _NO_VALUES)
        )
        for node, about_entity, of_kind in (
            ("", False, ~is_entity & ~is_no_value),
            ("", True, is_entity),
            (NO_VALUE[0], False, is_no_value),
        ):
            count = np.bincount(self._statements.predicate[rows[of_kind]], minlength=len(self._kinds))
            for code in np.flatnonzero(count).tolist():
                dropped[other_reason(self._kinds[code], about_entity, node)] += int(count[code])

    def _redirects(self, rows: Positions) -> pa.Table:
        rows = rows[self._have_kind("redirect", rows) & (self._statements.object[rows] >= 0)]
        return _make_table("redirects", self._statements.subject[rows], self._statements.object[rows])

    def _left_out(self, rows: Positions) -> pa.Table:
        rows = rows[self._have_kind("property datatype", rows) & (self._statements.suffix[rows] < 0)]
        nodes = [node[1:-1] for node in texts_at(self._buffer, self._statements.object_span[rows]).to_pylist()]
        left_out = [(row, LEFT_OUT[node]) for row, node in zip(rows.tolist(), nodes, strict=True) if node in LEFT_OUT]
        properties = self._statements.subject[[row for row, _ in left_out]] if left_out else np.empty(0, np.int64)
        return _make_table("left_out", properties, pa.array([reason for _, reason in left_out], pa.large_string()))

    def _drop_other_objects(self, chosen: Mask, dropped: Counter[str]) -> None:
        """Count claims whose object is an IRI and no entity."""
        iris = texts_at(self._buffer, self._statements.object_span[chosen])
        dropped.update(object_reason(iri[1:-1]) for iri in iris.to_pylist())

    def _drop_pages(self, chosen: Mask, dropped: Counter[str]) -> None:
        rows = np.flatnonzero(chosen)
        self._count_pages(rows, texts_at(self._buffer, self._statements.subject_span[rows]), False, dropped)

    def _count_pages(self, rows: Positions, pages: pa.Array, about_entity: bool, dropped: Counter[str]) -> None:
        for page, code in zip(pages.to_pylist(), self._statements.predicate[rows].tolist(), strict=True):
            dropped[page_reason(page[1:-1], self._kinds[code], about_entity)] += 1

    def _have_kind(self, kind: str, rows: Positions) -> Mask:
        """Return for each row whether its predicate is of a kind."""
        mask: Mask = np.array([kind == one for one in self._kinds], np.bool_)[self._statements.predicate[rows]]
        return mask

    def _in_language(self, rows: Positions, dropped: Counter[str]) -> Positions:
        is_ours = self._rank[self._statements.suffix[rows]] >= 0
        dropped["other language"] += int(np.count_nonzero(~is_ours))
        return rows[is_ours]

    def _literals(self, rows: Positions) -> pa.Array:
        """Return the literals of some rows without their quotes, escapes not decoded."""
        return texts_at(self._buffer, self._statements.object_span[rows] + np.array([1, -1]))


def _format_literals(texts: pa.Array, datatype: str) -> pa.Array:
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
        values = [format_literal(unescape(text), datatype) for text in encoded.dictionary.to_pylist()]
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
