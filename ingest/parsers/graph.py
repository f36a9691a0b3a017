"""The parser of a block of triples of any graph, by a profile (`refactx.ingest.profile`).

What becomes of a triple depends on its predicate, and for a literal on its language and datatype, which are looked at
once each. What needs the whole graph (labels, blank nodes, lists, restrictions of classes, which IRIs are properties)
is left to the joins (`refactx.ingest.knowledge`): every IRI and blank node is an entity here.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from refactx.fact import clean_part
from refactx.ingest.parsers.ntriples import TRIPLE_TERM, Statements, statements_of
from refactx.ingest.parsers.parsed import (
    DESCRIPTION,
    FAMILY_NAME,
    GIVEN_NAME,
    LABEL,
    OTHER_NAME,
    OWN_LABEL,
    SCHEMAS,
    IdNumbers,
    Parsed,
    claims_of,
    clean_texts,
)
from refactx.ingest.parsers.values import STRING, format_literal, language_place, language_rank, value_kind
from refactx.ingest.parsers.wikidata import parse_block
from refactx.ingest.profile import RDF, TYPE, WIKIDATA, WIKIDATA_BASE, Profile, class_reason, kinds_of_predicates
from refactx.ingest.source_options import Selection

Suffix = tuple[str | None, str | None]
"""The language and the datatype of a literal, at most one of them."""
_TERMS = {
    "label": LABEL,
    "description": DESCRIPTION,
    "other name": OTHER_NAME,
    "given name": GIVEN_NAME,
    "family name": FAMILY_NAME,
    "own label": OWN_LABEL,
}
_ALSO_FACTS = ("given name", "family name", "own label")
"""The kinds of texts that are facts too."""
_TERM = "triple term"
PLACES = 16
"""More than the predicates of labels: a better language comes before a better predicate."""
_WORST_RANK = 255
_TEXT = pa.large_string()


@dataclass(frozen=True, slots=True, eq=False)
class _TripleColumns:
    """n triples. `subjects`, `objects`: large_string[n], IRIs, blank nodes (`_:b1`) or the texts of literals, escapes
    decoded. `predicate`, `suffix`: int32[n], places in `predicates` and `suffixes`; -1 if the object is no literal.
    `reifiers`: the nodes that are about these triples, if no line asserts them."""

    subjects: pa.Array
    predicate: NDArray[np.int32]
    objects: pa.Array
    suffix: NDArray[np.int32]
    predicates: Sequence[str]
    suffixes: Sequence[Suffix]
    reifiers: pa.Array | None

    def take(self, rows: NDArray[np.int64]) -> "_TripleColumns":
        at = pa.array(rows)
        predicate, suffix = self.predicate[rows], self.suffix[rows]
        subjects, objects = self.subjects.take(at), self.objects.take(at)
        reifiers = None if self.reifiers is None else self.reifiers.take(at)
        return _TripleColumns(subjects, predicate, objects, suffix, self.predicates, self.suffixes, reifiers)


def parse_graph(block: bytes, first_line: int, selection: Selection, *, scope: str = "") -> Parsed:
    """Return a block of N-Triples lines as rows of `claims`, `quoted`, `terms` and `ids`.

    `first_line` is the number of the block's first line in its file. `scope` is what the blank nodes of this file have
    in common: `_:b1` of two files are two nodes.
    """
    result = Parsed(lines=0)
    rows = _GraphRows(selection, scope, result.dropped)
    for statements in statements_of(block, first_line, result):
        rows.add(_of_statements(statements))
    result.tables = rows.tables()
    return result


def parse_triples(block: bytes, first_line: int, selection: Selection, *, scope: str = "") -> Parsed:
    """Return a block of N-Triples lines as staged rows, by the profile of the selection; `parse_graph` has the arguments."""
    profile = selection.profile
    if profile is None or profile.name == WIKIDATA:
        return parse_block(block, first_line, selection)
    if profile.name == RDF:
        return parse_graph(block, first_line, selection, scope=scope)
    return parse_block(as_wikidata(block, profile.base), first_line, selection)


def as_wikidata(block: bytes, base: str) -> bytes:
    """Return lines of N-Triples of a Wikibase, whose IRIs begin with `base`, with Wikidata's IRIs in their place.

    Wikidata's own become those of no entity: its Q42 is another than that of the Wikibase.

    >>> as_wikidata(b"<http://kb/entity/Q1> <http://kb/prop/direct/P2> <http://www.wikidata.org/entity/Q5> .", "http://kb/")
    b'<http://www.wikidata.org/entity/Q1> <http://www.wikidata.org/prop/direct/P2> <http://www.wikidata.org/-/entity/Q5> .'
    """
    ours = WIKIDATA_BASE.encode()
    block = re.sub(rb"(?m)(^| )<https?://www\.wikidata\.org/(?=entity/|prop/)", rb"\1<%b-/" % ours, block)
    return re.sub(rb"(?m)(^| )<%b(?=entity/|prop/)" % re.escape(base.encode()), rb"\1<%b" % ours, block)


def _of_statements(statements: Statements) -> _TripleColumns:
    objects = statements.objects()
    escaped = pc.match_substring(objects, "\\")
    if pc.any(escaped).as_py():
        decoded = [statements.decode(text) for text in objects.filter(escaped).to_pylist()]
        objects = pc.replace_with_mask(objects, escaped, pa.array(decoded, _TEXT))
    predicates, suffixes = statements.predicates, statements.suffixes
    reifiers = pa.array(statements.reifiers, _TEXT) if statements.reifiers else None
    return _TripleColumns(
        statements.subjects(), statements.predicate, objects, statements.suffix, predicates, suffixes, reifiers
    )


class _GraphRows:
    """The staged rows of one block; counts the triples that give none in `dropped`, by reason."""

    def __init__(self, selection: Selection, scope: str, dropped: Counter[str]) -> None:
        self._selection, self._profile, self._dropped = selection, selection.profile or Profile(), dropped
        self._kind_of = kinds_of_predicates(self._profile)
        self._scope = f"_:{blake2b(scope.encode(), digest_size=3).hexdigest()}"
        self._numbers = IdNumbers()
        self._claims: list[pa.Table] = []
        self._quoted: list[pa.Table] = []
        self._terms: list[pa.Table] = []

    def add(self, triples: _TripleColumns) -> None:
        if not len(triples.predicate):
            return
        kinds = [self._kind_of(predicate) for predicate in triples.predicates]
        names = [kind for kind, _ in kinds]
        is_literal, codes = triples.suffix >= 0, triples.predicate
        has_terms = np.array([kind in _TERMS for kind in names], np.bool_)[codes]
        is_claim = np.array([kind in ("claim", "structure") for kind in names], np.bool_)[codes]
        is_fact = np.array([kind in ("claim", "structure", *_ALSO_FACTS) for kind in names], np.bool_)
        if triples.reifiers is not None:
            self._dropped[_TERM] += int(np.count_nonzero(~is_fact[codes]))
            self._add_nodes(triples.take(np.flatnonzero(is_fact[codes] & ~is_literal)))
            self._add_literals(triples.take(np.flatnonzero(is_fact[codes] & is_literal)))
            return
        for code in np.flatnonzero(~np.array([kind in _TERMS or kind in ("claim", "structure") for kind in names])):
            self._dropped[names[code]] += int(np.count_nonzero(codes == code))
        self._add_nodes(triples.take(np.flatnonzero((is_claim | has_terms) & ~is_literal)))
        self._add_literals(triples.take(np.flatnonzero(is_fact[codes] & is_literal)))
        places = [place for _, place in kinds]
        self._add_terms(triples.take(np.flatnonzero(has_terms & is_literal)), names, places)

    def tables(self) -> dict[str, pa.Table]:
        claims, terms = SCHEMAS["claims"].empty_table(), SCHEMAS["terms"].empty_table()
        return {
            "claims": pa.concat_tables([claims, *self._claims]),
            "terms": pa.concat_tables([terms, *self._terms]),
            "ids": self._numbers.table(),
            "quoted": pa.concat_tables([SCHEMAS["quoted"].empty_table(), *self._quoted]),
        }

    def _add_nodes(self, triples: _TripleColumns) -> None:
        """Add claims about entities, without the types that say what kind of schema a thing is part of."""
        about_term = pc.equal(triples.subjects, TRIPLE_TERM).to_numpy(zero_copy_only=False)
        is_term = pc.equal(triples.objects, TRIPLE_TERM).to_numpy(zero_copy_only=False)
        kept = ~(about_term | is_term)
        self._dropped[_TERM] += int(np.count_nonzero(~kept))
        of_type = np.array([predicate == TYPE for predicate in triples.predicates], np.bool_)[triples.predicate]
        typed = np.flatnonzero(of_type & kept)
        classes = triples.objects.take(pa.array(typed)).dictionary_encode()
        for code, class_ in enumerate(classes.dictionary.to_pylist()):
            reason = class_reason(class_, self._profile)
            if reason is not None:
                rows = typed[classes.indices.to_numpy() == code]
                kept[rows] = False
                self._dropped[reason] += len(rows)
        rest = triples.take(np.flatnonzero(kept))
        self._add_claims(rest, self._numbers.of(self._scoped(rest.objects)), None, None)

    def _add_literals(self, triples: _TripleColumns) -> None:
        """Add claims about literals, one datatype at a time."""
        for code, (language, datatype) in enumerate(triples.suffixes):
            rows = triples.take(np.flatnonzero(triples.suffix == code))
            if not len(rows.suffix):
                continue
            if language is not None and language_rank(language, self._selection.languages) is None:
                self._dropped["other language"] += len(rows.suffix)
                continue
            distinct = rows.objects.dictionary_encode()
            if language is None and datatype is not None:
                values = [format_literal(text, datatype, known_only=False) for text in distinct.dictionary.to_pylist()]
                texts = pa.array([None if value is None else clean_part(value) for value in values], _TEXT)
            else:
                texts = clean_texts(distinct.dictionary, clean_part)
            written = texts.take(distinct.indices)
            self._dropped["unknown datatype value"] += pc.sum(pc.is_null(written)).as_py() or 0
            empty = pc.equal(pc.binary_length(written), 0)
            self._dropped["empty part"] += pc.sum(empty).as_py() or 0
            kept = np.flatnonzero(pc.fill_null(pc.invert(empty), False).to_numpy(zero_copy_only=False))
            self._add_claims(rows.take(kept), None, written.take(pa.array(kept)), value_kind(language, datatype))

    def _add_terms(self, triples: _TripleColumns, names: Sequence[str], places: Sequence[int]) -> None:
        """Add labels, descriptions and other names in the languages of the selection."""
        languages = self._selection.languages
        found = (None if tag is None else language_rank(tag, languages) for tag, _ in triples.suffixes)
        # A text without a language comes after the best one.
        ranks = [
            1 if tag is None else -1 if one is None else 2 * one
            for one, (tag, _) in zip(found, triples.suffixes, strict=True)
        ]
        rank = np.array(ranks, np.int64)[triples.suffix]
        is_name = np.array([name in _ALSO_FACTS for name in names], np.bool_)[triples.predicate]
        self._dropped["other language"] += int(np.count_nonzero((rank < 0) & ~is_name))
        place = np.array(places)[triples.predicate]  # 0: what the user gave, which is better than all others
        given = np.minimum(rank, PLACES - 1)
        rank = np.where(rank < 0, rank, np.where(place == 0, given, (rank + 1) * PLACES + place))
        is_text = np.array([type_ in (None, STRING) for _, type_ in triples.suffixes], np.bool_)[triples.suffix]
        rank = np.where(is_text | ~np.array([name == "own label" for name in names])[triples.predicate], rank, -1)
        unwanted = np.array([name == "other name" and not self._selection.aliases for name in names], np.bool_)
        self._dropped["alias"] += int(np.count_nonzero(unwanted[triples.predicate] & (rank >= 0)))
        kept = np.flatnonzero((rank >= 0) & ~unwanted[triples.predicate])
        rows, rank, is_name = triples.take(kept), rank[kept], is_name[kept]
        in_languages = np.array([language_place(tag, languages) for tag, _ in triples.suffixes], np.uint8)
        texts = clean_texts(rows.objects, clean_part)
        is_empty = pc.equal(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
        self._dropped["empty part"] += int(np.count_nonzero(is_empty & ~is_name))
        filled = np.flatnonzero(~is_empty)
        kinds = np.array([_TERMS.get(name, 0) for name in names], np.uint8)[rows.predicate[filled]]
        columns = [
            self._entities(rows.take(filled)),
            pa.array(kinds),
            pa.array(np.minimum(rank[filled], _WORST_RANK).astype(np.uint8)),
            pa.array(in_languages[rows.suffix[filled]]),
            texts.take(pa.array(filled)),
        ]
        self._terms.append(pa.table(columns, schema=SCHEMAS["terms"]))

    def _add_claims(
        self, triples: _TripleColumns, objects: pa.Array | None, texts: pa.Array | None, kind: int | None
    ) -> None:
        properties = self._numbers.of(pa.array(triples.predicates, _TEXT)).to_numpy()
        of_rows = pa.array(properties[triples.predicate])
        claims = claims_of(self._entities(triples), of_rows, objects, texts, kind)
        if triples.reifiers is None:
            self._claims.append(claims)
        else:
            nodes = self._numbers.of(self._scoped(triples.reifiers))
            self._quoted.append(claims.add_column(0, SCHEMAS["quoted"].field("node"), nodes))

    def _entities(self, triples: _TripleColumns) -> pa.Array:
        return self._numbers.of(self._scoped(triples.subjects))

    def _scoped(self, nodes: pa.Array) -> pa.Array:
        """Return IRIs as they are, and blank nodes with their scope."""
        blank = pc.starts_with(nodes, "_:")
        if not pc.any(blank).as_py():
            return nodes
        scope, end = pa.scalar(self._scope, _TEXT), pa.scalar("", _TEXT)
        return pc.if_else(blank, pc.binary_join_element_wise(scope, pc.utf8_slice_codeunits(nodes, 2), end), nodes)
