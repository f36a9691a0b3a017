"""The parser of Wikidata's JSON: its dump (`latest-all.json.gz`), one entity a line, and entities as their pages give them.

Terms become rows as those of RDF do (`refactx.ingest.parsers.wikidata`). Of a claim, the statement, its value and the
values of its qualifiers are a line each, as the triples `p:`, `ps:` and `pq:` of RDF are; its references are counted. With
`--qualifiers none` the values are those of a truthy dump: of the best rank, without units, years as their 1 January.

Values are written by the same functions as those of RDF, after a time has become what RDF has (`time_of_json`).
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from refactx.entity_ids import entity_number, is_wikidata_id, other_number
from refactx.fact import clean_part
from refactx.ingest.parsers.parsed import (
    DEPRECATED,
    DESCRIPTION,
    LABEL,
    NORMAL,
    OTHER_NAME,
    PREFERRED,
    SCHEMAS,
    TITLE,
    Parsed,
    clean_texts,
    fault,
    table_of,
)
from refactx.ingest.parsers.values import (
    NO_LANGUAGE,
    VALUE_KINDS,
    format_date,
    format_decimal,
    format_double,
    format_point,
    format_time,
    language_place,
    language_rank,
    time_of_json,
)
from refactx.ingest.source_options import Selection
from refactx.ingest.sources import Source

Snak = tuple[int | None, str | None, int | None, int | None]
"""An entity, or a text with the place of its kind in `VALUE_KINDS`, and the unit of an amount."""
EXAMPLE = '{"type":"item","id":"Q42","labels":{...},"claims":{...}},'
UNKNOWN, NO_VALUE, MALFORMED = "unknown value", "no value", "unknown datatype value"
_TEXT, _TIME, _QUANTITY, _PLACE = (VALUE_KINDS.index(kind) for kind in ("text", "time", "quantity", "coordinates"))
_ENTITY = "http://www.wikidata.org/entity/"
_CALENDARS = {f"{_ENTITY}Q1985727": False, f"{_ENTITY}Q1985786": True}
"""The calendars of times, and which of them is Julian."""
_EARTH = f"{_ENTITY}Q2"
_LEFT_OUT = {"external-id": "external identifier"} | dict.fromkeys(
    ("commonsMedia", "geo-shape", "tabular-data"), "media file"
)
_NO_FACT = {
    **dict.fromkeys(("commonsMedia", "geo-shape", "tabular-data"), "media file"),
    "url": "url",
    "math": MALFORMED,
    **dict.fromkeys(("wikibase-lexeme", "wikibase-sense", "wikibase-form"), "lexeme"),
    "entity-schema": "entity schema",
}
"""Why values of a datatype are no objects of facts."""
_LANGUAGES = {
    **{"simple": "en-simple", "no": "nb", "nrm": "fr-x-nrm", "als": "gsw", "bat-smg": "sgs", "be-x-old": "be-tarask"},
    **{"fiu-vro": "vro", "roa-rup": "rup", "zh-classical": "lzh", "zh-min-nan": "nan", "zh-yue": "yue"},
}
"""Codes of JSON that are other ones in RDF."""
_RANKS = {"deprecated": DEPRECATED, "normal": NORMAL, "preferred": PREFERRED}
_BRACKETS = (b"", b"[", b"]")


def parse_entities(block: bytes, first_line: int, selection: Selection, scope: str = "") -> Parsed:
    """Return a block of lines of the dump as staged rows. `first_line`: its number in the file; `scope`: that file."""
    rows = EntityDocuments(selection, other_number(f"{scope}\n{first_line}"))
    for number, line in enumerate(block.split(b"\n"), first_line):
        text = line.strip().removesuffix(b",")
        if text not in _BRACKETS:
            rows.add_text(number, text)
    return rows.parsed()


def read_document(source: Source, selection: Selection, advance: Callable[[int], object]) -> Iterator[Parsed]:
    """Yield what the entities of one document of JSON say, as `Special:EntityData/Q42.json` has it, on any number of lines."""
    rows = EntityDocuments(selection, other_number(source.name))
    rows.add_text(1, b"".join(source.blocks(advance)))
    yield rows.parsed()


def is_document(start: bytes) -> bool:
    """Return whether JSON is one document on several lines, given its first lines.

    >>> is_document(b'{\\n  "entities": {'), is_document(b'[\\n{"type":"item"},\\n')
    (True, False)
    """
    first = start.lstrip().partition(b"\n")[0].strip().removesuffix(b",")
    return first.startswith(b"{") and not first.endswith(b"}")


class EntityDocuments:
    """The staged rows of some entities. `first`: the number of the first statement."""

    def __init__(self, selection: Selection, first: int) -> None:
        self._selection, self._next = selection, first
        self._is_full = selection.qualifiers != ()
        self._dropped, self._faults = Counter[str](), list[tuple[int, str]]()
        self._terms: list[tuple[int, int, int, int]] = []
        self._term_texts: list[str] = []
        self._statements: list[tuple[int, int, int]] = []
        self._ranks: list[tuple[int, int]] = []
        self._heads: list[tuple[int, int, bool]] = []
        self._values: list[Snak] = []
        self._left_out = set[tuple[int, str]]()
        self._title = selection.wikipedia.replace("-", "_") + "wiki"
        self._ranks_of_tags: dict[str, tuple[int, int] | None] = {}
        self._keeps: dict[str, bool] = {}

    def add_text(self, number: int, text: bytes) -> None:
        """Add what the text of one entity, of some in a list, or of a page says; `number`: of its line."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            self._faults.append((number, fault(f"not JSON ({error})", text[:200].decode(errors="replace"))))
            return
        if isinstance(value, dict) and isinstance(value.get("entities"), dict):
            value = list(value["entities"].values())
        for one in value if isinstance(value, list) else [value]:
            if not isinstance(one, dict) or not isinstance(one.get("id"), str):
                self._faults.append((number, fault("not an entity", json.dumps(one)[:200])))
            elif "missing" in one:
                self._dropped["missing entity"] += 1
            elif not is_wikidata_id(one["id"]):
                self._dropped["lexeme" if one["id"].startswith("L") else "other entity"] += 1
            else:
                self._add_entity(number, one)

    def _add_entity(self, number: int, one: Mapping[str, Any]) -> None:
        entity = entity_number(one["id"])
        if (datatype := one.get("datatype")) is not None:
            self._dropped["property datatype"] += 1
            self._leave_out(entity, datatype)
        try:
            for kind, field in ((LABEL, "labels"), (DESCRIPTION, "descriptions")):
                for term in _fields(one, field):
                    self._term(entity, kind, term["language"], term["value"])
            aliases = [alias for some in _fields(one, "aliases") for alias in some]
            if self._selection.aliases:
                for alias in aliases:
                    self._term(entity, OTHER_NAME, alias["language"], alias["value"])
            else:
                self._dropped["alias"] += len(aliases)
            for link in _fields(one, "sitelinks"):
                if link["site"] == self._title:
                    self._terms.append((entity, TITLE, 0, NO_LANGUAGE))
                    self._term_texts.append(link["title"])
                else:
                    self._dropped["other wiki"] += 1
            for claims in _fields(one, "claims"):
                self._add_claims(number, entity, claims)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"{one['id']} has a part that is not as in Wikidata ({type(error).__name__}: {error})"
            self._faults.append((number, fault(what, "")))

    def _term(self, entity: int, kind: int, tag: str, text: str) -> None:
        found = self._ranks_of_tags.get(tag, ...)
        if found is ...:
            found = self._ranks_of_tags[tag] = self._of_tag(tag)
        if found is None:
            self._dropped["other language"] += 1
        else:
            self._terms.append((entity, kind, *found))
            self._term_texts.append(text)

    def _of_tag(self, tag: str) -> tuple[int, int] | None:
        """Return the rank of a language and its place; None if it is not wanted."""
        languages, tag = self._selection.languages, _LANGUAGES.get(tag, tag)
        rank = language_rank(tag, languages)
        return None if rank is None else (rank, language_place(tag, languages))

    def _add_claims(self, number: int, subject: int, claims: Iterable[Mapping[str, Any]]) -> None:
        """Add the claims of one property."""
        good = []
        for claim in claims:
            snak, rank = claim.get("mainsnak"), _RANKS.get(claim.get("rank", ""))
            if not isinstance(snak, dict) or rank is None or not is_wikidata_id(str(snak.get("property"))):
                self._faults.append((number, fault("a claim without a value or a rank", json.dumps(claim))))
            else:
                good.append((snak, rank, claim))
        best = max((rank for _, rank, _ in good), default=0)
        for snak, rank, claim in good:
            if self._is_full:
                self._add_statement(subject, snak, rank, claim)
            elif rank == DEPRECATED or rank < best:
                self._dropped["deprecated" if rank == DEPRECATED else "not of best rank"] += 1
            else:
                self._add_truthy(subject, snak)

    def _add_statement(self, subject: int, snak: Mapping[str, Any], rank: int, claim: Mapping[str, Any]) -> None:
        self._next += 1
        statement, property_ = self._next, entity_number(snak["property"])
        self._statements.append((statement, subject, property_))
        self._ranks.append((statement, rank))
        if self._selection.reads(snak["property"]):
            self._add_snak(statement, property_, True, snak)
        else:
            self._dropped["other property"] += 1
        for some in _fields(claim, "qualifiers"):
            for one in some:
                name = one["property"]
                if (keeps := self._keeps.get(name)) is None:
                    keeps = self._keeps[name] = self._selection.keeps_qualifier(name)
                if keeps:
                    self._add_snak(statement, entity_number(name), False, one)
                else:
                    self._dropped["other qualifier"] += 1
        self._dropped["reference"] += len(claim.get("references") or ())

    def _add_snak(self, statement: int, property_: int, is_main: bool, snak: Mapping[str, Any]) -> None:
        value = self._value(snak, property_)
        if isinstance(value, str):
            self._dropped[value] += 1
        else:
            self._heads.append((statement, property_, is_main))
            self._values.append(value)

    def _add_truthy(self, subject: int, snak: Mapping[str, Any]) -> None:
        """Add a claim as a truthy dump has it, as the value of a statement without qualifiers."""
        if self._selection.reads(snak["property"]):
            self._add_snak(subject, entity_number(snak["property"]), True, snak)
        else:
            self._dropped["other property"] += 1

    def _leave_out(self, property_: int, datatype: str) -> None:
        if datatype in _LEFT_OUT:
            self._left_out.add((property_, _LEFT_OUT[datatype]))

    def _value(self, snak: Mapping[str, Any], property_: int) -> Snak | str:
        """Return the value of a snak, or why it has none."""
        if snak["snaktype"] != "value":
            return UNKNOWN if snak["snaktype"] == "somevalue" else NO_VALUE
        datatype, (type_, value) = snak.get("datatype"), (snak["datavalue"]["type"], snak["datavalue"]["value"])
        if datatype in _LEFT_OUT:
            self._leave_out(property_, datatype)
        if datatype in _NO_FACT:
            return _NO_FACT[datatype]
        if type_ == "wikibase-entityid":
            id_ = value.get("id") or f"{'P' if value['entity-type'] == 'property' else 'Q'}{value['numeric-id']}"
            if is_wikidata_id(id_):
                return entity_number(id_), None, None, None
            return "entity schema" if id_.startswith("E") else "lexeme"
        if type_ == "string":
            return None, value, _TEXT, None
        if type_ == "monolingualtext":
            tag = value["language"]
            if self._ranks_of_tags.setdefault(tag, self._of_tag(tag)) is None:
                return "other language"
            return None, value["text"], _TEXT, None
        if type_ == "time":
            text = _written_time(value["time"], value["precision"], value["calendarmodel"], self._is_full)
            return MALFORMED if text is None else (None, text, _TIME, None)
        if type_ == "quantity":
            amount, unit = value["amount"], str(value.get("unit", "1")).removeprefix(_ENTITY)
            text = format_decimal(amount) or format_double(amount)
            number = entity_number(unit) if is_wikidata_id(unit) and unit != "Q199" and self._is_full else None
            return MALFORMED if text is None else (None, text, _QUANTITY, number)
        if type_ == "globecoordinate":
            globe = value.get("globe") or _EARTH
            point = f"Point({value['longitude']:.14G} {value['latitude']:.14G})"  # as RDF has them
            text = format_point(point if globe == _EARTH else f"<{globe}> {point}")
            return MALFORMED if text is None else (None, text, _PLACE, None)
        return MALFORMED

    def parsed(self) -> Parsed:
        """Return the rows."""
        result = Parsed(lines=0, dropped=self._dropped, faults=self._faults)
        result.tables["terms"] = self._made("terms", self._terms, self._term_texts)
        if self._is_full:
            result.tables["statements"] = table_of("statements", self._statements)
            result.tables["ranks"] = table_of("ranks", self._ranks)
            result.tables["snaks"] = self._snaks()
        else:
            snaks = self._snaks()
            columns = [snaks["statement"], *(snaks[name] for name in ("property", "object", "text", "kind"))]
            result.tables["claims"] = pa.table(columns, schema=SCHEMAS["claims"])
        result.tables["left_out"] = table_of("left_out", sorted(self._left_out))
        rows = sum(
            len(result.tables[name]) for name in ("terms", "statements", "snaks", "claims") if name in result.tables
        )
        result.statements = rows + self._dropped.total()
        result.lines = result.statements + len(self._faults)
        return result

    def _made(self, name: str, heads: list[tuple[int, int, int, int]], texts: list[str]) -> pa.Table:
        """Return rows of `terms`, without those whose text is empty."""
        clean = _cleaned(texts)
        rows = table_of(name, [(*head, "") for head in heads]).set_column(4, "text", clean)
        return self._without_empty(rows, pc.equal(pc.binary_length(clean), 0))

    def _snaks(self) -> pa.Table:
        rows = table_of("snaks", [(*head, *value, None) for head, value in zip(self._heads, self._values, strict=True)])
        filled = pc.is_valid(rows["text"])
        clean = _cleaned(rows["text"].filter(filled).to_pylist())
        texts = pc.replace_with_mask(rows["text"].combine_chunks(), filled.combine_chunks(), clean)
        rows = rows.set_column(4, "text", texts)
        return self._without_empty(rows, pc.fill_null(pc.equal(pc.binary_length(texts), 0), False))

    def _without_empty(self, rows: pa.Table, empty: pa.Array) -> pa.Table:
        if not empty.true_count:
            return rows
        self._dropped["empty part"] += empty.true_count
        return rows.filter(pc.invert(empty))


def _cleaned(texts: list[str]) -> pa.Array:
    """Return texts as clean parts (large_string)."""
    try:
        return clean_texts(pa.array(texts, pa.large_string()), clean_part)
    except UnicodeEncodeError:  # half a surrogate pair, which JSON may have
        return pa.array(map(clean_part, texts), pa.large_string())


def _fields(document: Mapping[str, Any], name: str) -> Iterable[Any]:
    """Return the values of a map; an empty one may be written as a list."""
    found = document.get(name)
    return found.values() if isinstance(found, dict) else ()


@lru_cache(maxsize=65_536)
def _written_time(text: str, precision: int, calendar: str, is_full: bool) -> str | None:
    if calendar not in _CALENDARS:
        return None
    literal = time_of_json(text, precision, julian=_CALENDARS[calendar])
    if literal is None:
        return None
    return format_time(literal, precision) if is_full else format_date(literal)
