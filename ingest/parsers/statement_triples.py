"""The triples of Wikidata's full RDF about statements: their subjects, ranks, values and qualifiers.

| predicate | what becomes of the triple |
|---|---|
| `p:P...` | a row of `statements`, from an entity to the node of a statement |
| `wikibase:rank` | a row of `ranks` |
| `ps:P...`, `pq:P...` | a row of `snaks`: the value of a statement or of a qualifier; an unknown end is `unknown` |
| `psv:P...`, `pqv:P...` | the same, with the node of its value |
| `wikibase:timeValue`, `timePrecision`, `quantityAmount`, `quantityUnit` | a row of `value_nodes` |
| `rdf:type` of one of these, other parts of values | counted: `structure`, or `no value` |
| `prov:wasDerivedFrom`; `pr:P854`, `pr:P248`, `pr:P143` | rows of `referred` and `reference_urls`, if asked for |
| others of references; `psn:`, `pqn:` | counted: `reference`; `normalized value` |

Nodes are numbers, made of the last bytes of their IRIs. The joins bring a statement's triples together
(`refactx.ingest.knowledge.statements`): they may be anywhere in a dump.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from refactx.entity_ids import entity_number, other_numbers
from refactx.fact import UNKNOWN_END
from refactx.ingest.parsers.ntriples import Positions, Statements, texts_at
from refactx.ingest.parsers.parsed import (
    AMOUNT,
    DEPRECATED,
    NORMAL,
    PRECISION,
    PREFERRED,
    REFERENCE_PLACES,
    SCHEMAS,
    TIME,
    UNIT,
    reference_url,
)
from refactx.ingest.parsers.values import VALUE_KINDS
from refactx.ingest.qualifiers import ENDS
from refactx.ingest.source_options import Selection

UNKNOWN = "unknown value"
"""Why a value is left out that Wikidata says to be there, and not which."""
_UNKNOWN_END, _TIME_KIND = pa.scalar(UNKNOWN_END, pa.large_string()), VALUE_KINDS.index("time")
_PROP = re.compile(r"https?://www\.wikidata\.org/prop/((?:[a-z-]+/)*)(P[1-9][0-9]{0,17})", re.ASCII)
_ONTOLOGY = "http://wikiba.se/ontology#"
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
STATEMENT, RANK, MAIN, QUALIFIER, MAIN_NODE, QUALIFIER_NODE = "statement", "rank", "ps", "pq", "psv", "pqv"
REFERS, SOURCE = "wasDerivedFrom", "pr"
_DERIVED = "http://www.w3.org/ns/prov#wasDerivedFrom"
_ROLES = {
    **{"": STATEMENT, "statement/": MAIN, "qualifier/": QUALIFIER},
    **{"statement/value/": MAIN_NODE, "qualifier/value/": QUALIFIER_NODE},
    **dict.fromkeys(("statement/value-normalized/", "qualifier/value-normalized/"), "normalized value"),
    **dict.fromkeys(("reference/", "reference/value/", "reference/value-normalized/"), "reference"),
}
_FIELDS = {"timeValue": TIME, "timePrecision": PRECISION, "quantityAmount": AMOUNT, "quantityUnit": UNIT}
_OTHERS = {
    f"{_ONTOLOGY}rank": RANK,
    _DERIVED: "reference",
    **{f"{_ONTOLOGY}{field}": field for field in _FIELDS},
    **{
        f"{_ONTOLOGY}{name}": "structure"
        for name in (
            *("timeTimezone", "timeCalendarModel", "quantityUpperBound", "quantityLowerBound", "quantityNormalized"),
            *("geoLatitude", "geoLongitude", "geoPrecision", "geoGlobe"),
        )
    },
}
_RANKS = {"DeprecatedRank": DEPRECATED, "NormalRank": NORMAL, "PreferredRank": PREFERRED}
_TYPES = {
    **dict.fromkeys(("Statement", "BestRank", "TimeValue", "QuantityValue", "GlobecoordinateValue"), "structure"),
    "Reference": "reference",
}
_NO_UNIT = entity_number("Q199")
_HASHED_BYTES = 48
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(29), np.uint64(2))
LiteralValues = Callable[[Positions, Counter[str]], Iterator[tuple[Positions, pa.Array, int]]]
"""Rows of literals → those that have a value, with these texts, of a kind; the others are counted."""


def role_of(predicate: str, selection: Selection) -> tuple[str, int] | None:
    """Return what a predicate says of statements, with its property; None if it is about something else.

    >>> role_of("http://www.wikidata.org/prop/qualifier/P580", Selection()), role_of("http://schema.org/name", Selection())
    (('pq', 1161), None)
    """
    if selection.qualifiers == ():
        return None
    if (role := _OTHERS.get(predicate)) is not None:
        return REFERS if selection.references and predicate == _DERIVED else role, -1
    match = _PROP.fullmatch(predicate)
    role = None if match is None else _ROLES.get(match[1])
    if selection.references and match and match[1] == "reference/" and match[2] in REFERENCE_PLACES:
        role = SOURCE
    return None if match is None or role is None else (role, entity_number(match[2]))


class StatementRows:
    """The rows of the triples about statements in a block. `literals`: how the values of literals are made."""

    def __init__(self, statements: Statements, selection: Selection, literals: LiteralValues) -> None:
        self._statements, self._selection, self._literals = statements, selection, literals
        found = [role_of(predicate, selection) for predicate in statements.predicates]
        self._roles = ["" if one is None else one[0] for one in found]
        properties = np.array([-1 if one is None else one[1] for one in found], np.int64)
        self._property: Positions = properties[statements.predicate]
        are_ours = np.array([one is not None for one in found], np.bool_)
        self.mask: NDArray[np.bool_] = are_ours[statements.predicate]

    def tables(self, dropped: Counter[str], reason_of: Callable[[str], str]) -> dict[str, pa.Table]:
        """Return the staged tables; count the triples that are in none. `reason_of`: why a node is no object."""
        if not self.mask.any():
            return {}
        nodes, fields = self._nodes(dropped), self._values(dropped)
        statements = self._rows(STATEMENT)
        statements = self._admit(statements, self._statements.subject[statements] >= 0, dropped)
        columns = [self._statements.subject[statements], self._property[statements]]
        ranks = self._rows(RANK)
        names = pc.utf8_slice_codeunits(self._statements.objects(ranks), len(_ONTOLOGY)).to_pylist()
        known = np.array([_RANKS.get(name, -1) for name in names], np.int64)
        dropped["structure"] += len(ranks)
        ranks, known = ranks[known >= 0], known[known >= 0]
        for role in ("structure", "normalized value", "reference"):
            dropped[role] += len(self._rows(role))
        return {
            "statements": _table("statements", self._object_nodes(statements), *columns),
            "ranks": _table("ranks", self._subject_nodes(ranks), known.astype(np.uint8)),
            "snaks": pa.concat_tables([*self._snaks(dropped, reason_of), nodes]),
            "value_nodes": fields,
            "referred": self._referred(dropped),
            "reference_urls": self._urls(dropped),
        }

    def count_types(self, rows: Positions, dropped: Counter[str], no_value: tuple[str, ...]) -> Positions:
        """Count those of some triples that say what kind of node a statement or a value is; return the others."""
        is_type = np.array([predicate == _TYPE for predicate in self._statements.predicates], np.bool_)
        typed = rows[is_type[self._statements.predicate[rows]]]
        if self._selection.qualifiers == () or not len(typed):
            return rows
        classes = self._statements.objects(typed).dictionary_encode()
        reasons = []
        for class_ in classes.dictionary.to_pylist():
            name = class_.removeprefix(_ONTOLOGY) if class_.startswith(_ONTOLOGY) else ""
            reasons.append("no value" if class_.startswith(no_value) else _TYPES.get(name, ""))
        places = classes.indices.to_numpy()
        for place, count in enumerate(np.bincount(places, minlength=len(reasons)).tolist()):
            if reasons[place]:
                dropped[reasons[place]] += count
        ours = typed[np.array([reason != "" for reason in reasons], np.bool_)[places]]
        return np.setdiff1d(rows, ours, assume_unique=True)

    def _rows(self, *roles: str) -> Positions:
        chosen = np.array([role in roles for role in self._roles], np.bool_)
        return np.flatnonzero(chosen[self._statements.predicate])

    def _admit(self, rows: Positions, good: NDArray[np.bool_], dropped: Counter[str]) -> Positions:
        dropped["not a fact"] += int(np.count_nonzero(~good))
        return rows[good]

    def _wanted(self, rows: Positions, dropped: Counter[str] | None = None) -> Positions:
        """Return the rows of values that facts may have; count the others."""
        wanted = []
        for role, predicate in zip(self._roles, self._statements.predicates, strict=True):
            property_ = predicate.rpartition("/")[2]
            keeps = self._selection.reads if role in (MAIN, MAIN_NODE) else self._selection.keeps_qualifier
            wanted.append(role in (MAIN, MAIN_NODE, QUALIFIER, QUALIFIER_NODE) and keeps(property_))
        good = np.array(wanted, np.bool_)[self._statements.predicate[rows]]
        if dropped is not None:
            of_main = self._are(MAIN, rows)
            dropped["other property"] += int(np.count_nonzero(~good & of_main))
            dropped["other qualifier"] += int(np.count_nonzero(~good & ~of_main))
        return rows[good]

    def _are(self, role: str, rows: Positions) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = np.array([one == role for one in self._roles], np.bool_)[
            self._statements.predicate[rows]
        ]
        return mask

    def _snaks(self, dropped: Counter[str], reason_of: Callable[[str], str]) -> Iterator[pa.Table]:
        """Yield the values that are in one triple."""
        rows = self._wanted(self._rows(MAIN, QUALIFIER), dropped)
        is_literal, objects = self._statements.suffix[rows] >= 0, self._statements.object[rows]
        others = rows[~is_literal & (objects < 0)]
        reasons = np.array([reason_of(node) for node in self._statements.objects(others).to_pylist()], np.object_)
        has_ended = np.isin(self._property[others], ENDS) & ~self._are(MAIN, others) & (reasons == UNKNOWN)
        dropped.update(reasons[~has_ended].tolist())
        ended, count = others[has_ended], int(np.count_nonzero(has_ended))
        yield self._snak_table(ended, text=pa.repeat(_UNKNOWN_END, count), kind=np.full(count, _TIME_KIND, np.uint8))
        entities = rows[~is_literal & (objects >= 0)]
        yield self._snak_table(entities, object=self._statements.object[entities])
        for kept, texts, kind in self._literals(rows[is_literal], dropped):
            yield self._snak_table(kept, text=texts, kind=np.full(len(kept), kind, np.uint8))

    def _nodes(self, dropped: Counter[str]) -> pa.Table:
        """Return the values that are nodes."""
        rows = self._rows(MAIN_NODE, QUALIFIER_NODE)
        dropped["structure"] += len(rows)
        rows = self._wanted(rows)
        return self._snak_table(rows, value=self._object_nodes(rows))

    def _values(self, dropped: Counter[str]) -> pa.Table:
        """Return what triples say of values."""
        tables = [SCHEMAS["value_nodes"].empty_table()]
        for name, field in _FIELDS.items():
            rows = self._rows(name)
            dropped["structure"] += len(rows)
            objects = self._statements.object[rows]
            rows = rows[(objects >= 0) & (objects != _NO_UNIT) if field == UNIT else self._statements.suffix[rows] >= 0]
            entities = pa.array(self._statements.object[rows], mask=np.full(len(rows), field != UNIT))
            texts = self._statements.objects(rows) if field != UNIT else pa.nulls(len(rows), pa.large_string())
            if field == AMOUNT:
                parts = list(self._literals(rows, Counter()))
                rows = np.concatenate([kept for kept, _, _ in parts]) if parts else rows[:0]
                texts = pa.concat_arrays([one for _, one, _ in parts]) if parts else texts[:0]
                entities = pa.nulls(len(rows), pa.int64())
            tables.append(
                _table("value_nodes", self._subject_nodes(rows), np.full(len(rows), field, np.uint8), texts, entities)
            )
        return pa.concat_tables(tables)

    def _referred(self, dropped: Counter[str]) -> pa.Table:
        rows = self._rows(REFERS)
        dropped["structure"] += len(rows)
        return _table("referred", self._subject_nodes(rows), self._object_nodes(rows))

    def _urls(self, dropped: Counter[str]) -> pa.Table:
        """Return the addresses of references; count values that are none."""
        rows, statements = self._rows(SOURCE), self._statements
        of_predicates = [REFERENCE_PLACES.get(one.rpartition("/")[2], 0) for one in statements.predicates]
        places = np.array(of_predicates, np.uint8)[statements.predicate[rows]]
        values = statements.objects(rows).to_pylist()
        for at in np.flatnonzero((places > 0) | (statements.suffix[rows] >= 0)).tolist():
            entity = int(statements.object[rows[at]])
            values[at] = entity if places[at] and entity >= 0 else ""
        urls = pa.array(map(reference_url, values), pa.large_string())
        good = urls.is_valid().to_numpy(zero_copy_only=False)
        dropped.update({"structure": int(good.sum()), "reference": int((~good).sum())})
        return _table("reference_urls", self._subject_nodes(rows[good]), places[good], urls.drop_null())

    def _snak_table(self, rows: Positions, **columns: pa.Array | NDArray[np.int64] | NDArray[np.uint8]) -> pa.Table:
        is_main = self._are(MAIN, rows) | self._are(MAIN_NODE, rows)
        known = {
            "statement": self._subject_nodes(rows),
            "property": self._property[rows],
            "is_main": is_main,
            **columns,
        }
        schema = SCHEMAS["snaks"]
        return _table("snaks", *(known.get(one.name, pa.nulls(len(rows), one.type)) for one in schema))

    def _subject_nodes(self, rows: Positions) -> Positions:
        return node_numbers(self._statements.buffer, self._statements.subject_span[rows])

    def _object_nodes(self, rows: Positions) -> Positions:
        return node_numbers(self._statements.buffer, self._statements.object_span[rows])


def node_numbers(buffer: NDArray[np.uint8], spans: Positions) -> Positions:
    """Return the numbers of nodes, int64[n], given the spans of their IRIs, int64[n, 2]: equal for equal IRIs alone.

    >>> text = b"http://www.wikidata.org/entity/statement/Q1-AAAAAAAA and x:b"
    >>> node_numbers(np.frombuffer(text, np.uint8), np.array([[0, 52], [57, 60]])).tolist()
    [2249358883304953066, 6108872547483856362]
    """
    ends, sizes = spans[:, 1], spans[:, 1] - spans[:, 0]
    numbers = np.zeros(len(spans), np.int64)
    long = np.flatnonzero(sizes >= _HASHED_BYTES)
    if len(long):
        words: NDArray[np.uint64] = np.ndarray((len(buffer) - 7,), np.dtype("<u8"), buffer.data, 0, (1,))
        mixed, starts = np.zeros(len(long), np.uint64), ends[long] - _HASHED_BYTES
        multiplier, shift, unused = _MIX
        for at in range(0, _HASHED_BYTES, 8):
            mixed = (mixed ^ words[starts + at]) * multiplier
            mixed ^= mixed >> shift
        numbers[long] = (mixed >> unused).astype(np.int64)
    if len(short := np.flatnonzero(sizes < _HASHED_BYTES)):
        numbers[short] = other_numbers(texts_at(buffer, spans[short]).cast(pa.large_binary()).to_pylist())
    return numbers


def _table(name: str, *columns: pa.Array | NDArray[np.int64] | NDArray[np.uint8] | NDArray[np.bool_]) -> pa.Table:
    return pa.table([pa.array(column) for column in columns], schema=SCHEMAS[name])
