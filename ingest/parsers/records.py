"""What the rows of a table say: facts of three columns, edges between entities, or entities with a column for each predicate.

| table | a row says |
|---|---|
| columns subject, predicate, object | a ready-made fact; with `--edges` or `--labels`, a claim about two entities |
| a column that names the rows (`--subject`) | a claim for each other cell: the column is the predicate |
| `:ID`, `:LABEL`, `:START_ID`, `:END_ID`, `:TYPE` (Neo4j), `~id`, `~label`, `~from`, `~to` (Neptune) | a node or an edge |
| lines of `id<TAB>label<TAB>description` (`--labels`) | the label and the description of an entity |

Of JSON lines, an object is a row, and its fields are columns; a list has several values, and an object within it is a
blank node, which the joins make a path of (`address: city`). Of GraphML, the properties of a node or an edge are the
columns of its row.

An entity has the id in its key column, else its name. A cell is one line of the account, or each of its values is one; a
row without a name is one line.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from refactx.entity_ids import other_number
from refactx.errors import InputError
from refactx.fact import clean_part, cut_part, visible, written_part
from refactx.index.names import written_id
from refactx.ingest.parsers.nesting import within_bounds
from refactx.ingest.parsers.parsed import (
    COLUMNS,
    DESCRIPTION,
    END,
    LABEL,
    NULLS,
    OTHER_NAME,
    OWN_NAME,
    SCHEMAS,
    START,
    IdNumbers,
    Parsed,
    claims_of,
    clean_parts,
    cut_parts,
    decode_lines,
    facts_of_columns,
    fault,
    null_as_empty,
    table_of,
    terms_of,
    utf8_blocks,
    without_invalid,
)
from refactx.ingest.parsers.values import NO_LANGUAGE, kind_of_text
from refactx.ingest.profile import ROW_OF, TYPE, in_words, local_name, name_of_id, predicate_label
from refactx.ingest.source_options import Selection, TableOptions
from refactx.ingest.sources import Source

_TEXT = pa.large_string()
WHOLE = re.compile(r"^(-?[0-9]+)\.0+$")
_OF_KEY = re.compile(r"(?:(?:id|fk) )?(.*?)(?: (?:id|ids|fk|key|ref|uuid))?", re.IGNORECASE)
_OF_NUMBER = re.compile(r"(.*) (?:no|nr|num|number|code)", re.IGNORECASE)
_OF_TIME = re.compile(r"date|time|year|season|since|start|when", re.IGNORECASE)


class EntityRows:
    """Staged rows about entities of any id, made one by one. Each claim, term and dropped value is a line.

    >>> statements = EntityRows()
    >>> statements.claim(statements.entity("1"), statements.property("worksFor"), text="Acme")
    >>> parsed = statements.parsed()
    >>> parsed.lines, parsed.tables["terms"]["text"].to_pylist()
    (1, ['works for'])
    """

    def __init__(self) -> None:
        self._ids: dict[int, str] = {}
        self._own: dict[int, str] = {}
        self._properties: dict[str, int] = {}
        self._claims: list[tuple[int, int, int | None, str | None, int | None]] = []
        self._terms: list[tuple[int, int, int, int, str]] = []
        self.dropped = Counter[str]()
        self.faults: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._claims) + len(self._terms) + self.dropped.total() + len(self.faults)

    def entity(self, id_: str, own_name: str | None = None) -> int:
        """Return the number of an entity; `own_name`: what it is called if it has no label."""
        id_ = written_id(id_)
        number = other_number(id_)
        self._ids[number] = id_
        if own_name:
            self._own[number] = own_name
        return number

    def property(self, id_: str, own_name: str | None = None) -> int:
        """Return the number of a property."""
        number = self._properties.get(id_)
        if number is None:
            written = written_id(id_)
            number = self._properties[id_] = other_number(written) + 1
            self._ids[number] = written
            if name := own_name or predicate_label(id_):
                self._own[number] = name
        return number

    def claim(self, subject: int, property_: int, *, entity: int | None = None, text: str | None = None) -> None:
        """Add a claim about an entity, or about a text, which is cleaned; an empty one is dropped."""
        if text is None:
            self._claims.append((subject, property_, entity, None, None))
        elif clean := clean_part(text):
            self._claims.append((subject, property_, None, clean, kind_of_text(clean)))
        else:
            self.dropped["empty cell"] += 1

    def term(self, entity: int, kind: int, text: str) -> None:
        """Add a label or another text about an entity; an empty one is dropped."""
        if clean := clean_part(text):
            self._terms.append((entity, kind, 0, NO_LANGUAGE, clean))
        else:
            self.dropped["empty cell"] += 1

    def parsed(self) -> Parsed:
        result = Parsed(
            lines=len(self), statements=len(self) - len(self.faults), dropped=self.dropped, faults=self.faults
        )
        terms = self._terms + [(entity, OWN_NAME, 0, NO_LANGUAGE, text) for entity, text in self._own.items()]
        for name, rows in (("claims", self._claims), ("terms", terms), ("ids", list(self._ids.items()))):
            result.tables[name] = table_of(name, rows)
        return result


def edges_of_columns(texts: list[pa.Array], row_number: Callable[[int], int]) -> Parsed:
    """Return three columns of text as claims about entities, whose ids are the texts."""
    result = facts_of_columns(texts, row_number)
    facts = result.tables.pop("ready")
    numbers = IdNumbers()
    subject, predicate, object_ = (numbers.of(pa.chunked_array(facts[name]).combine_chunks()) for name in COLUMNS)
    result.tables["claims"] = claims_of(subject, predicate, object_)
    own: dict[str, str | None] = {
        text: name_of_id(text) for name in ("subject", "object") for text in facts[name].unique().to_pylist()
    }
    own |= {text: predicate_label(text) for text in facts["predicate"].unique().to_pylist() if text not in own}
    names = [(other_number(id_), name) for id_, name in own.items() if name and not re.match(r"https?://\S+$", id_)]
    result.tables["terms"] = terms_of(
        [number for number, _ in names], OWN_NAME, pa.array([name for _, name in names], _TEXT)
    )
    result.tables["ids"] = numbers.table()
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the columns of a table about entities are.

    `predicates`: the id of the predicate of each column, "" for one of no predicate. `subject`, `id`, `classes`: the
    places of columns; None if there is none. `row_of`: what all are rows of, "" for nothing. `prefix`: of all ids. `keys`: the
    prefixes of the ids that a column holds. `links`: what the predicates of such columns, or of the id, are called. `whole`:
    columns of keys, whose `1.0` is the key `1`. `lists`: what is between the values in its cells. `needs_name`: rows without
    a name are dropped, else those without an id.
    """

    predicates: tuple[str, ...]
    subject: int | None
    id: int | None = None
    descriptions: frozenset[int] = frozenset()
    aliases: frozenset[int] = frozenset()
    classes: int | None = None
    row_of: str = ""
    prefix: str = ""
    keys: Mapping[int, str] = field(default_factory=dict)
    links: Mapping[int, str] = field(default_factory=dict)
    whole: frozenset[int] = frozenset()
    lists: Mapping[int, str] = field(default_factory=dict)
    needs_name: bool = False
    noun: str = ""


def rows_of_plan(plan: Plan, keeps_aliases: bool, texts: list[pa.Array], row_number: Callable[[int], int]) -> Parsed:
    """Return the rows of a table about entities as claims, terms and ids."""
    result = Parsed(lines=0)
    texts = [clean_parts(column) for column in without_invalid(texts, row_number, result)]
    texts = [whole_numbers(column) if at in plan.whole else column for at, column in enumerate(texts)]
    texts = [null_as_empty(one) if at in (plan.subject, plan.id) else one for at, one in enumerate(texts)]
    names = texts[plan.subject] if plan.subject is not None else texts[plan.id or 0]
    keys = names if plan.id is None else pc.if_else(pc.equal(texts[plan.id], ""), names, texts[plan.id])
    kept = pc.not_equal(names if plan.needs_name else keys, "")
    if without := len(keys) - pc.sum(kept).as_py() if len(keys) else 0:
        result.dropped["no subject"] = without
        texts, names, keys = [one.filter(kept) for one in texts], names.filter(kept), keys.filter(kept)
    keys, _ = cut_parts(keys)
    if plan.noun:
        are_numbers = pc.match_substring_regex(names, "^[0-9 ]+$")
        names = pc.if_else(are_numbers, _prefixed(names, f"{plan.noun} "), names)
    numbers = IdNumbers()
    entities = numbers.of(_prefixed(keys, plan.prefix))
    rows = _PlanRows(plan, keeps_aliases, entities, result)
    if plan.subject is not None:
        rows.addterms_of(LABEL, np.arange(len(names)), names)
    distinct = pc.unique(keys)
    rows.terms.append(terms_of(numbers.of(_prefixed(distinct, plan.prefix)), OWN_NAME, distinct))
    for at, column in enumerate(texts):
        rows.add(at, column)
    if plan.row_of:
        rows.add_classes(np.arange(len(names)), pa.array([plan.row_of] * len(names), _TEXT), ROW_OF)
    tables = rows.tables()
    tables["ids"] = pa.concat_tables([numbers.table(), tables["ids"]])
    result.tables = tables
    result.lines += len(tables["claims"]) + rows.said + result.dropped.total() + len(result.faults)
    result.statements = result.lines - len(result.faults)
    return result


def notes_of_keys(options: TableOptions, table: str) -> list[str]:
    """Return what the report says of the keys of a table."""
    pairs = [[side.strip().rpartition(".") for side in key.partition("=")[::2]] for key in options.keys]
    notes = [
        f"column {column} is read as the key of {'its own table' if other.casefold() == of.casefold() else f'table {other}'}"
        for (of, _, column), (other, *_) in pairs
        if of.casefold() == table.casefold()
    ]
    return [*notes, *(note for of, note in options.notes if of == table)]


def names_of_thing(table: str) -> tuple[str, str]:
    """Return what many things of a table are called, and one of them.

    >>> names_of_thing("order_categories"), names_of_thing("Staff")
    (('order categories', 'order category'), ('staff', 'staff'))
    """
    plural = in_words(table).casefold()
    return plural, f"{plural[:-3]}y" if plural.endswith("ies") else plural.removesuffix("s")


def link_label(column: str, table: str) -> str:
    """Return what a link that a key gives is called, by the column of the key and the table that it is of: after its thing.

    >>> [link_label(one, "albums") for one in ("AlbumId", "albumid", "album number", "first_album_ID", "id", "ReportsTo")]
    ['album', 'album', 'album', 'first album', 'album', 'reports to']
    >>> link_label("CEO_id", "people")
    'CEO'
    """
    things = names_of_thing(table)
    words = (predicate_label(column) or column).split()
    label = " ".join(word.lower() if word[1:].islower() else word for word in words)
    match = _OF_KEY.fullmatch(label)
    label = "" if match is None or label.casefold() == "id" else match[1]
    number = _OF_NUMBER.fullmatch(label)
    if number and number[1].casefold() in things:
        label = number[1]
    run_on = label.casefold().removesuffix("id")
    return run_on if run_on in (one.replace(" ", "") for one in things) else label or things[1]


def whole_numbers(keys: pa.Array) -> pa.Array:
    """Return keys without the zeros of numbers that a program took for fractions.

    >>> whole_numbers(pa.array(["1.0", "E1", "2.50", "-3.000"])).to_pylist()
    ['1', 'E1', '2.50', '-3']
    """
    return pc.replace_substring_regex(keys, WHOLE.pattern, r"\1")


def _prefixed(keys: pa.Array, prefix: str) -> pa.Array:
    if not prefix:
        return keys
    return pc.binary_join_element_wise(pa.scalar(prefix, _TEXT), keys, pa.scalar("", _TEXT))


class _PlanRows:
    """The staged rows of a block of rows, column by column. `said`: how many of the terms are lines."""

    def __init__(self, plan: Plan, keeps_aliases: bool, entities: pa.Array, result: Parsed) -> None:
        self._plan, self._keeps_aliases, self._entities, self._result = plan, keeps_aliases, entities, result
        self._claims: list[pa.Table] = []
        self.terms: list[pa.Table] = []
        self._ids: dict[int, str] = {}
        self._own: dict[int, str] = {}
        self.said = 0

    def add(self, at: int, column: pa.Array) -> None:
        plan = self._plan
        if at == plan.subject or not (
            plan.predicates[at] or at in plan.descriptions | plan.aliases or at == plan.classes
        ):
            return
        places, values = _values(column, plan.lists.get(at))
        are_null = pc.is_in(values, pa.array(NULLS, values.type)).to_numpy(zero_copy_only=False)
        filled = pc.not_equal(values, "").to_numpy(zero_copy_only=False) & ~are_null
        self._result.dropped["NULL cell"] += int(np.count_nonzero(are_null))
        self._result.dropped["empty cell"] += int(np.count_nonzero(~filled & ~are_null))
        places, values = places[filled], values.filter(pa.array(filled))
        if at in plan.descriptions:
            self.addterms_of(DESCRIPTION, places, values)
        elif at in plan.aliases:
            if self._keeps_aliases:
                self.addterms_of(OTHER_NAME, places, values)
            else:
                self._result.dropped["alias"] += len(values)
        elif at == plan.classes:
            self.add_classes(places, values)
        elif at in plan.keys:
            objects = IdNumbers().of(_prefixed(values, plan.keys[at]))
            self._add_claims(plan.predicates[at], places, objects, None, plan.links.get(at))
        elif at == plan.id:
            is_code = np.array([not text.isdigit() for text in values.to_pylist()], np.bool_)
            self._result.dropped["key"] += int(np.count_nonzero(~is_code))
            codes = values.filter(pa.array(is_code))
            self._add_claims(plan.predicates[at], places[is_code], None, codes, plan.links.get(at))
        else:
            self._add_claims(plan.predicates[at], places, None, values)

    def addterms_of(self, kind: int, places: np.ndarray[Any, Any], texts: pa.Array) -> None:
        """Add texts about the rows at some places; an empty one is dropped."""
        filled = pc.not_equal(texts, "")
        self._result.dropped["empty cell"] += len(texts) - (pc.sum(filled).as_py() or 0)
        kept = places[filled.to_numpy(zero_copy_only=False)]
        self.terms.append(terms_of(self._entities.take(pa.array(kept)), kind, texts.filter(filled)))
        self.said += len(kept)

    def add_classes(self, places: np.ndarray[Any, Any], classes: pa.Array, predicate: str = TYPE) -> None:
        """Add the classes of the rows at some places, or what else they are a part of."""
        for text in pc.unique(classes).to_pylist():
            number = other_number(f":{text}")
            self._ids[number], self._own[number] = f":{text}", text
        self._add_claims(predicate, places, IdNumbers().of(_prefixed(classes, ":")), None)

    def tables(self) -> dict[str, pa.Table]:
        own = pa.array(self._own.values(), _TEXT)
        ids = [pa.array(self._ids, pa.int64()), pa.array(self._ids.values(), _TEXT)]
        return {
            "claims": pa.concat_tables([SCHEMAS["claims"].empty_table(), *self._claims]),
            "terms": pa.concat_tables([*self.terms, terms_of(list(self._own), OWN_NAME, own)]),
            "ids": pa.table(ids, schema=SCHEMAS["ids"]),
        }

    def _add_claims(
        self,
        predicate: str,
        places: np.ndarray[Any, Any],
        objects: pa.Array | None,
        texts: pa.Array | None,
        label: str | None = None,
    ) -> None:
        count, number = len(places), other_number(predicate) + 1
        if not count:
            return
        self._ids[number] = predicate
        if name := label or predicate_label(predicate):
            self._own[number] = name
        kinds = None
        if texts is not None:
            distinct = texts.dictionary_encode()
            of_kind = [kind_of_text(text) for text in distinct.dictionary.to_pylist()]
            kinds = pa.array(of_kind, pa.uint8()).take(distinct.indices)
        self._claims.append(claims_of(self._entities.take(pa.array(places)), number, objects, texts, kinds))


def _values(column: pa.Array, delimiter: str | None) -> tuple[np.ndarray[Any, Any], pa.Array]:
    """Return the values in the cells of a column, and the row of each."""
    places = np.arange(len(column))
    if delimiter is None:
        return places, column
    split = pc.split_pattern(column, delimiter)
    return places[pc.list_parent_indices(split).to_numpy()], clean_parts(
        pc.utf8_trim_whitespace(pc.list_flatten(split))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgePlan:
    """What the columns of a table of edges are: the places of the two ends, of the type and of the edge's id (None if there
    is none), the names of the properties in the others ("" for none), the prefixes of the ids of both ends, and the type of
    edges without one. `of_rows`: both ends are rows of tables, which have names there or none. `one_a_pair`: there is at most
    one edge between two ends, whose id does not depend on its properties."""

    ends: tuple[int, int]
    type: int | None
    id: int | None
    properties: tuple[str, ...]
    prefixes: tuple[str, str] = ("", "")
    lists: Mapping[int, str] = field(default_factory=dict)
    default_type: str = "edge"
    of_rows: bool = False
    one_a_pair: bool = False


def edges_of_plan(plan: EdgePlan, texts: list[pa.Array], row_number: Callable[[int], int]) -> Parsed:
    """Return the rows of a table of edges as claims."""
    checked = Parsed(lines=0)
    columns = [null_as_empty(clean_parts(one)).to_pylist() for one in without_invalid(texts, row_number, checked)]
    statements = EntityRows()
    statements.faults = checked.faults
    for row in zip(*columns, strict=True):
        one, other = (prefix + row[at] if row[at] else "" for prefix, at in zip(plan.prefixes, plan.ends, strict=True))
        if not (one and other):
            statements.dropped["edge without two ends"] += 1
            continue
        values = [
            (name, value)
            for at, (name, cell) in enumerate(zip(plan.properties, row, strict=True))
            if name and cell
            for value in (cell.split(plan.lists[at]) if at in plan.lists else (cell,))
        ]
        type_ = (row[plan.type] if plan.type is not None else "") or plan.default_type
        ends = zip((one, other), plan.ends, strict=True)
        numbers = [
            other_number(id_) if plan.of_rows else statements.entity(id_, name_of_id(row[at])) for id_, at in ends
        ]
        id_ = row[plan.id] if plan.id is not None else ""
        id_ = id_ or edge_id((one, other), type_, () if plan.one_a_pair else values)
        add_edge(statements, (numbers[0], numbers[1]), type_, values, id_)
    return statements.parsed()


def edge_id(ends: tuple[str, str], type_: str, values: Sequence[tuple[str, str]]) -> str:
    """Return the id of an edge that has none.

    >>> edge_id(("1", "2"), "played", [("result", "2-0")])
    '1 played 2 (result 2-0)'
    """
    return f"{ends[0]} {type_} {ends[1]} ({', '.join(f'{name} {value}' for name, value in values)})"


def edge_label(type_: str) -> str:
    """Return what the type of an edge is read as.

    >>> [edge_label(type_) for type_ in ("ACTED_IN", "KNOWS", "worksFor", "played")]
    ['acted in', 'knows', 'works for', 'played']
    """
    label = predicate_label(type_) or local_name(type_)
    return label.lower() if type_.isupper() else label


def add_edge(
    statements: EntityRows, ends: tuple[int, int], type_: str, values: Sequence[tuple[str, str]], id_: str
) -> None:
    """Add an edge: a claim about its two ends, and, if it has properties, an entity of its own that has these.

    Its label is made of those of its ends (`refactx.ingest.knowledge.structure`) and of its type, with the first property
    that is a time, else the first one: `Arsenal – Chelsea (played, 29 Apr 2014)`.
    """
    label = edge_label(type_)
    statements.claim(ends[0], statements.property(type_, label), entity=ends[1])
    values = [(name, clean) for name, value in values if (clean := clean_part(value))]
    if not values:
        return
    marked = next((value for name, value in values if _OF_TIME.search(name)), values[0][1])
    edge = statements.entity(f"edge:{id_}", f"({label}, {cut_part(marked[:100])})")
    statements.claim(edge, statements.property(":TYPE", "edge type"), text=label)
    for end, number, name in zip(ends, (START, END), ("from", "to"), strict=True):
        id_of_end = ":START_ID" if number == START else ":END_ID"
        statements.claim(edge, statements.property(id_of_end, name), entity=end)
    for name, value in values:
        statements.claim(edge, statements.property(name), text=value)


def parse_labels(source: Source, selection: Selection, advance: Callable[[int], object]) -> Iterator[Parsed]:
    """Yield the labels and descriptions in a file of lines `id<TAB>label<TAB>description`."""
    line = 1
    for block in utf8_blocks(source, advance):
        statements = EntityRows()
        for number, text in enumerate(decode_lines(block), line):
            cells = str(text).split("\t")
            if not any(map(str.strip, cells)):
                statements.dropped["blank"] += 1
            elif len(cells) == 1 or not clean_part(cells[0]):
                statements.faults.append((number, fault("not id<TAB>label", str(text))))
            else:
                entity = other_number(cut_part(clean_part(cells[0])))
                statements.term(entity, LABEL, cells[1])
                if len(cells) > 2 and cells[2].strip():
                    statements.term(entity, DESCRIPTION, cells[2])
        line += block.count(b"\n")
        yield statements.parsed()


def parse_json(source: Source, selection: Selection, advance: Callable[[int], object]) -> Iterator[Parsed]:
    """Yield what the objects in a file say, one a line, or all in one array.

    Raises InputError for text that is not UTF-8, and if no object has the field of its name.
    """
    if notes := notes_of_keys(selection.tables, source.table):
        yield Parsed(lines=0, notes=tuple(notes))
    for block in json_blocks(source, advance):
        rows = _JsonRows(selection, source)
        for number, value in block:
            rows.add(number, value)
        yield rows.parsed()


def json_blocks(source: Source, advance: Callable[[int], object]) -> Iterator[list[tuple[int, Any]]]:
    """Yield the values in a file with the numbers of their lines, or of their places in an array; `...` for a blank line,
    and a ValueError for one that is not JSON.

    Raises InputError for text that is not UTF-8 or nested too deep, and an array that is not JSON.
    """
    if source.first_lines().lstrip()[:1] == b"[":
        try:
            values = _json_value(b"".join(within_bounds(utf8_blocks(source, advance), "JSON lines", source.name)))
        except ValueError as error:
            raise InputError(
                f"{source.name} is not JSON ({error}): expected one object a line, or an array of objects"
            ) from None
        yield list(enumerate(values, 1))
        return
    line = 1
    for block in within_bounds(utf8_blocks(source, advance), "JSON lines", source.name):
        found: list[tuple[int, Any]] = []
        for number, text in enumerate(map(str, decode_lines(block)), line):
            try:
                found.append((number, _json_value(text) if text.strip() else ...))
            except ValueError as error:
                found.append((number, ValueError(fault(f"not JSON ({error})", text))))
        line += block.count(b"\n")
        yield found


def _json_value(text: str | bytes) -> Any:
    """Return a value of JSON, in which the names of fields are clean; of one that is there twice, both values are in a list.

    Raises ValueError for text that is not JSON.
    """
    return json.loads(text, object_pairs_hook=_fields)


def _fields(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of an object.

    >>> _fields([("job\\ntitle", 1), ("tag", "a"), ("tag", "b")])
    {'job title': 1, 'tag': ['a', 'b']}
    """
    found: dict[str, Any] = {}
    for raw, value in pairs:
        name = written_part(raw)
        found[name] = [found[name], value] if name in found else value
    return found


class _JsonRows:
    """The staged rows of JSON objects."""

    def __init__(self, selection: Selection, source: Source) -> None:
        self._selection, self._options, self._source = selection, selection.tables, source
        self._table, self._row_of = source.table, self._options.row_of(source.table)
        self._prefix = f"{self._table}:" if self._options.prefixed else ""
        self._subjects, self._id_fields = self._fields(self._options.subjects), self._fields(self._options.ids)
        self._kinds = dict.fromkeys(self._fields(self._options.descriptions), DESCRIPTION)
        self._kinds |= dict.fromkeys(self._fields(self._options.aliases), OTHER_NAME)
        split = (one.rpartition("=") for one in self._options.lists if "=" in one[:-1])
        self._lists = {column.removeprefix(f"{self._table}."): delimiter for column, _, delimiter in split}
        self._whole = self._fields(self._options.whole)
        self._keys, self._links = dict[str, str](), dict[str, str]()
        for left, _, right in (one.partition("=") for one in self._options.keys if one.startswith(f"{self._table}.")):
            (field_,), other = self._fields([left]), right.rpartition(".")[0]
            self._keys[field_] = self._prefix if other.casefold() == self._table.casefold() else f"{other}:"
            self._links[field_] = link_label(field_, other)
        self._facts: list[tuple[str, str, str]] = []
        self.statements = EntityRows()

    def add(self, number: int, value: object) -> None:
        """Add what an object says; `number`: of its line. `value`: as of `json_blocks`."""
        if value is ...:
            self.statements.dropped["blank"] += 1
            return
        if isinstance(value, ValueError):
            self.statements.faults.append((number, str(value)))
            return
        if not isinstance(value, dict):
            self.statements.faults.append((number, fault("not an object", json.dumps(value))))
            return
        columns = self._options.columns or COLUMNS
        if not self._options.subjects and all(name in value for name in columns):
            subject, predicate, object_ = (clean_part(json_text(value[name])) for name in columns)
            self._facts.append((subject, predicate, object_))
            return
        name_field = next((name for name in self._subjects if name in value), None)
        if name_field is None and not self._options.subjects:
            raise InputError(
                f"{self._source.name}:{number}: an object has the fields {', '.join(map(visible, list(value)[:20]))}: expected "
                "subject, predicate and object, or ",
                command="--subject FIELD, the one with its name",
                clients="the field with its name, given as the column that names the rows",
            )
        name = "" if name_field is None else cut_part(clean_part(json_text(value[name_field])))
        id_field = next((name for name in self._id_fields if name in value), None)
        key = "" if id_field is None else cut_part(self._key(id_field, json_text(value[id_field])))
        if not name:
            self.statements.dropped["no subject"] += 1
            return
        entity = self.statements.entity(self._prefix + (key or name))
        self.statements.term(entity, LABEL, name)
        if self._row_of:
            whole = self.statements.entity(f":{self._row_of}", self._row_of)
            self.statements.claim(entity, self.statements.property(ROW_OF), entity=whole)
        self._add_fields(entity, value, skipped=(name_field, id_field), node=f"_:{self._source.name}:{number}")

    def parsed(self) -> Parsed:
        result = self.statements.parsed()
        if self._facts:
            make = edges_of_columns if self._options.edges or self._options.labels else facts_of_columns
            texts = [pa.array(column, _TEXT) for column in zip(*self._facts, strict=True)]
            result.add(make(texts, lambda at: at + 1))
        return result

    def _key(self, name: str, text: str) -> str:
        clean = clean_part(text)
        return WHOLE.sub(r"\1", clean) if name in self._whole else clean

    def _fields(self, given: Sequence[str]) -> tuple[str, ...]:
        """Return the names of fields that options give for this file."""
        return tuple(one.removeprefix(f"{self._table}.") for one in given)

    def _add_fields(self, entity: int, value: Mapping[str, Any], skipped: Sequence[str | None], node: str) -> None:
        statements = self.statements
        for name, one in value.items():
            if name in skipped:
                continue
            if not name:
                statements.dropped["empty part"] += 1
                continue
            texts = one if isinstance(one, list) else (one,)
            if name in self._lists and isinstance(one, str):
                texts = one.split(self._lists[name])
            for place, text in enumerate(_flat(texts)):
                if isinstance(text, dict):
                    blank = statements.entity(f"{node}:{name}:{place}")
                    statements.claim(entity, statements.property(name), entity=blank)
                    self._add_fields(blank, text, (), f"{node}:{name}:{place}")
                else:
                    self._add_value(entity, name, text if isinstance(text, str) else json_text(text))

    def _add_value(self, entity: int, name: str, text: str) -> None:
        statements, kind, other = self.statements, self._kinds.get(name), self._keys.get(name)
        if kind == OTHER_NAME and not self._selection.aliases:
            statements.dropped["alias"] += 1
        elif kind is not None:
            statements.term(entity, kind, text)
        elif other is not None and (key := self._key(name, text)):
            statements.claim(entity, statements.property(name, self._links[name]), entity=other_number(other + key))
        else:
            statements.claim(entity, statements.property(name, self._links.get(name)), text=text)


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list):
            yield from _flat(value)
        else:
            yield value


def json_text(value: object) -> str:
    """Return a value of JSON as people write it.

    >>> [json_text(value) for value in ("Ann", True, 1.5, None, {"a": 1})]
    ['Ann', 'true', '1.5', '', '{"a": 1}']
    """
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
