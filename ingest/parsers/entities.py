"""The parser of Wikidata's JSON: its dump (`latest-all.json.gz`), one entity a line, and entities as their pages give them.

Terms become rows as those of RDF do (`refactx.ingest.parsers.wikidata`). Of a claim, the statement, its value and the
values of its qualifiers are a line each, as the triples `p:`, `ps:` and `pq:` of RDF are, and so is a reference. With
`--qualifiers none` the values are those of a truthy dump: of the best rank, without units, years as their 1 January.

Values are written by the same functions as those of RDF, after a time has become what RDF has (`time_of_json`).
"""

import gc
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from refactx.entity_ids import entity_number, is_wikidata_id, other_number
from refactx.fact import UNKNOWN_END, clean_part
from refactx.ingest.parallel import in_processes
from refactx.ingest.parsers.parsed import (
    DEPRECATED,
    DESCRIPTION,
    LABEL,
    NORMAL,
    OTHER_NAME,
    PREFERRED,
    REFERENCE_PLACES,
    SCHEMAS,
    TITLE,
    Parsed,
    clean_texts,
    fault,
    reference_url,
    table_of,
)
from refactx.ingest.parsers.statement_triples import UNKNOWN
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
from refactx.ingest.qualifiers import ENDS
from refactx.ingest.source_options import Selection
from refactx.ingest.sources import BLOCK_BYTES, Source, numbered_blocks

Snak = tuple[int | None, str | None, int | None, int | None]
"""An entity, or a text with the place of its kind in `VALUE_KINDS`, and the unit of an amount."""
EXAMPLE = '{"type":"item","id":"Q42","labels":{...},"claims":{...}},'
NO_VALUE, MALFORMED = "no value", "unknown datatype value"
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
_LARGE = 8 * BLOCK_BYTES
"""Bytes of JSON that take as long as processes take to start."""
_BRACKETS = (b"", b"[", b"]")
_OF_REFERENCES = ("referred", "reference_urls")
_TABLES = ("terms", "statements", "ranks", "snaks", *_OF_REFERENCES)


def parse_entities(block: bytes, first_line: int, selection: Selection, scope: str = "") -> Parsed:
    """Return a block of lines of the dump as staged rows. `first_line`: its number in the file; `scope`: that file."""
    rows = EntityDocuments(selection, other_number(f"{scope}\n{first_line}"))
    for number, line in enumerate(block.split(b"\n"), first_line):
        text = line.strip().removesuffix(b",")
        if text not in _BRACKETS:
            rows.add_text(number, text)
    return rows.parsed()


def read_entities(
    source: Source, selection: Selection, workers: int, advance: Callable[[int], object]
) -> Iterator[Parsed]:
    """Yield what the blocks of a source of one entity a line say; those of a large one are parsed in processes, since Python
    makes the objects of JSON in one thread at a time."""
    blocks, size = numbered_blocks(source, advance), source.size
    if workers < 2 or (size is not None and size * source.text_per_byte() < _LARGE):
        yield from (parse_entities(*block, selection, source.name) for block in blocks)
    else:
        yield from in_processes(_parse_block, (selection, source.name), blocks, workers)


def _parse_block(shared: tuple[Selection, str], block: tuple[bytes, int]) -> Parsed:
    gc.disable()  # in a process of its own: what is made here leads nowhere in a circle
    return parse_entities(*block, *shared)


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
        # The values of rows, one row after another: tuples would be many objects for Python's collector to go through.
        self._rows: dict[str, list[Any]] = {name: [] for name in _TABLES}
        self._terms, self._statements, self._ranks, self._snaks, self._referred, self._urls = self._rows.values()
        self._left_out = set[tuple[int, str]]()
        self._title = selection.wikipedia.replace("-", "_") + "wiki"
        self._ranks_of_tags: dict[str, tuple[int, int] | None] = {}
        self._properties: dict[str, tuple[int, bool, bool]] = {}

    def add_text(self, number: int, text: bytes) -> None:
        """Add what the text of one entity, of some in a list, or of a page says; `number`: of its line."""
        try:
            value = _read(text)
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
                self._add_terms(entity, kind, _fields(one, field))
            for aliases in _fields(one, "aliases"):
                if self._selection.aliases:
                    self._add_terms(entity, OTHER_NAME, aliases)
                else:
                    self._dropped["alias"] += len(aliases)
            for link in _fields(one, "sitelinks"):
                if link["site"] == self._title:
                    self._terms += entity, TITLE, 0, NO_LANGUAGE, link["title"]
                else:
                    self._dropped["other wiki"] += 1
            for claims in _fields(one, "claims"):
                self._add_claims(number, entity, claims)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"{one['id']} has a part that is not as in Wikidata ({type(error).__name__}: {error})"
            self._faults.append((number, fault(what, "")))

    def _add_terms(self, entity: int, kind: int, terms: Iterable[Mapping[str, str]]) -> None:
        for term in terms:
            found = self._ranks_of_tags.get(tag := term["language"], ...)
            if found is ...:
                found = self._of_tag(tag)
            if found is None:
                self._dropped["other language"] += 1
            else:
                self._terms += entity, kind, *found, term["value"]

    def _of_tag(self, tag: str) -> tuple[int, int] | None:
        """Return the rank of a language and its place; None if it is not wanted."""
        languages, code = self._selection.languages, _LANGUAGES.get(tag, tag)
        rank = language_rank(code, languages)
        found = self._ranks_of_tags[tag] = None if rank is None else (rank, language_place(code, languages))
        return found

    def _add_claims(self, number: int, subject: int, claims: Iterable[Mapping[str, Any]]) -> None:
        """Add the claims of one property."""
        good = []
        for claim in claims:
            snak, rank = claim.get("mainsnak"), _RANKS.get(claim.get("rank", ""))
            property_ = self._property(str(snak.get("property"))) if isinstance(snak, dict) else None
            if not isinstance(snak, dict) or property_ is None or rank is None:
                self._faults.append((number, fault("a claim without a value or a rank", json.dumps(claim))))
            elif self._is_full:
                self._add_statement(subject, property_, snak, rank, claim)
            else:
                good.append((property_, snak, rank))
        best = max((rank for *_, rank in good), default=0)
        for property_, snak, rank in good:
            if rank == DEPRECATED or rank < best:
                self._dropped["deprecated" if rank == DEPRECATED else "not of best rank"] += 1
            elif property_[1]:  # as a truthy dump has it: the value of a statement without qualifiers
                self._add_snak(subject, property_[0], True, snak)
            else:
                self._dropped["other property"] += 1

    def _property(self, id_: str) -> tuple[int, bool, bool] | None:
        """Return the number of a property, and whether its claims are read, and whether facts have it as a qualifier; None if
        it is none of Wikidata's."""
        found = self._properties.get(id_)
        if found is None and is_wikidata_id(id_):
            reads, keeps = self._selection.reads(id_), self._selection.keeps_qualifier(id_)
            found = self._properties[id_] = entity_number(id_), reads, keeps
        return found

    def _add_statement(
        self,
        subject: int,
        property_: tuple[int, bool, bool],
        snak: Mapping[str, Any],
        rank: int,
        claim: Mapping[str, Any],
    ) -> None:
        self._next += 1
        statement, (number, is_read, _) = self._next, property_
        self._statements += statement, subject, number
        self._ranks += statement, rank
        if is_read:
            self._add_snak(statement, number, True, snak)
        else:
            self._dropped["other property"] += 1
        for some in qualifiers.values() if (qualifiers := claim.get("qualifiers")) else ():
            for one in some:
                found = self._property(name := one["property"])
                if found is None:
                    raise ValueError(f"a qualifier by {name!r:.40}")
                if found[2]:
                    self._add_snak(statement, found[0], False, one)
                else:
                    self._dropped["other qualifier"] += 1
        for reference in claim.get("references") or ():
            self._add_reference(statement, reference)

    def _add_reference(self, statement: int, reference: Mapping[str, Any]) -> None:
        """Add the addresses of a reference; count one that has none."""
        urls = _urls_of(reference) if self._selection.references else []
        self._dropped["structure" if urls else "reference"] += 1
        if urls:
            self._next += 1
            self._referred += statement, self._next
        for place, url in urls:
            self._urls += self._next, place, url

    def _add_snak(self, statement: int, property_: int, is_main: bool, snak: Mapping[str, Any]) -> None:
        value = self._value(snak, property_)
        if value == UNKNOWN and not is_main and property_ in ENDS:
            value = None, UNKNOWN_END, _TIME, None
        if isinstance(value, str):
            self._dropped[value] += 1
        else:
            self._snaks += statement, property_, is_main, *value, None

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
            id_ = _id_of(value)
            if is_wikidata_id(id_):
                return entity_number(id_), None, None, None
            return "entity schema" if id_.startswith("E") else "lexeme"
        if type_ == "string":
            return None, value, _TEXT, None
        if type_ == "monolingualtext":
            found = self._ranks_of_tags.get(tag := value["language"], ...)
            if (self._of_tag(tag) if found is ... else found) is None:
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
        tables = {name: self._made(name, values) for name, values in self._rows.items()}
        if not self._is_full:
            snaks = tables.pop("snaks").rename_columns({"statement": "subject"})
            tables = {"terms": tables["terms"], "claims": snaks.select(SCHEMAS["claims"].names)}
        result.tables = {**tables, "left_out": table_of("left_out", sorted(self._left_out))}
        rows = sum(len(made) for name, made in tables.items() if name not in ("ranks", *_OF_REFERENCES))
        result.statements = rows + self._dropped.total()
        result.lines = result.statements + len(self._faults)
        return result

    def _made(self, name: str, values: list[Any]) -> pa.Table:
        """Return the rows of values, with texts as clean parts, without those of which nothing is left."""
        schema = SCHEMAS[name]
        if (at := schema.get_field_index("text")) < 0:
            return _columns(schema, values)
        try:
            made = _columns(schema, values)
        except UnicodeEncodeError:  # half a surrogate pair, which JSON may have
            texts = [text and clean_part(text) for text in values[at :: len(schema)]]
            values[at :: len(schema)] = texts
            made = _columns(schema, values)
        texts = clean_texts(made["text"].combine_chunks(), clean_part)
        made = made.set_column(at, "text", texts)
        if not (empty := pc.equal(pc.binary_length(texts), 0)).true_count:
            return made
        self._dropped["empty part"] += empty.true_count
        return made.filter(pc.fill_null(pc.invert(empty), True))


def _columns(schema: pa.Schema, values: list[Any]) -> pa.Table:
    return pa.table([pa.array(values[at :: len(schema)], one.type) for at, one in enumerate(schema)], schema=schema)


def _read(text: bytes) -> Any:
    """Return a value of JSON. Raises ValueError, RecursionError."""
    try:
        return orjson.loads(text)
    except ValueError:  # also for half a surrogate pair, and for other encodings
        return json.loads(text)


def _urls_of(reference: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Return the addresses of a reference, each after its place in `REFERENCE_PLACES`."""
    snaks, found = reference.get("snaks") or {}, []
    for property_, place in REFERENCE_PLACES.items():
        for snak in snaks.get(property_, ()):
            value = snak["datavalue"]["value"] if snak["snaktype"] == "value" else None
            id_ = _id_of(value) if isinstance(value, dict) and place else ""
            text = value if isinstance(value, str) and not place else ""
            if url := reference_url(entity_number(id_) if is_wikidata_id(id_) else text):
                found.append((place, url))
    return found


def _id_of(value: Mapping[str, Any]) -> str:
    return str(value.get("id") or f"{'P' if value['entity-type'] == 'property' else 'Q'}{value['numeric-id']}")


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
