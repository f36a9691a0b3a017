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
from functools import partial
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
    LABEL,
    NULLS,
    OF_NO_FACT,
    OTHER_NAME,
    OWN_NAME,
    SCHEMAS,
    IdNumbers,
    Parsed,
    RowParser,
    Rows,
    claims_of,
    clean_parts,
    cut_parts,
    decode_lines,
    facts_of_columns,
    fault,
    null_as_empty,
    statement_rows,
    table_of,
    terms_of,
    utf8_blocks,
    without_invalid,
)
from refactx.ingest.parsers.values import NO_LANGUAGE, kind_of_text
from refactx.ingest.profile import ROW_OF, TYPE, in_words, name_of_id, predicate_label
from refactx.ingest.qualifiers import places_of_names
from refactx.ingest.source_options import Selection
from refactx.ingest.sources import Source

_TEXT = pa.large_string()
_Claim = tuple[int, int, int | None, str | None, int | None]
WHOLE = re.compile(r"^(-?[0-9]+)\.0+$")
_OF_KEY = re.compile(r"(?:(?:id|fk) )?(.*?)(?: (?:id|ids|fk|key|ref|uuid))?", re.IGNORECASE)
_OF_NUMBER = re.compile(r"(.*) (?:no|nr|num|number|code)", re.IGNORECASE)


class EntityRows:
    """Staged rows about entities of any id, made one by one. Each claim, term and dropped value is a line.

    Claims with the number of a row are facts, or more about these (`qualifies`): each such fact is a statement with all
    qualifiers of its row, if it has any. The first statement has the number `first`.

    >>> statements = EntityRows()
    >>> statements.claim(statements.entity("1"), statements.property("worksFor"), text="Acme")
    >>> parsed = statements.parsed()
    >>> parsed.lines, parsed.tables["terms"]["text"].to_pylist()
    (1, ['works for'])
    """

    def __init__(self, first: int = 0) -> None:
        self._first = first
        self._of_rows: tuple[list[tuple[int, _Claim]], list[tuple[int, _Claim]]] = [], []
        self._ids: dict[int, str] = {}
        self._own: dict[int, str] = {}
        self._properties: dict[str, int] = {}
        self._claims: list[_Claim] = []
        self._terms: list[tuple[int, int, int, int, str]] = []
        self.dropped = Counter[str]()
        self.faults: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return (
            len(self._claims)
            + sum(map(len, self._of_rows))
            + len(self._terms)
            + self.dropped.total()
            + len(self.faults)
        )

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

    def claim(
        self,
        subject: int,
        property_: int,
        *,
        entity: int | None = None,
        text: str | None = None,
        row: int | None = None,
        qualifies: bool = False,
    ) -> None:
        """Add a claim about an entity, or about a text, which is cleaned; an empty one is dropped."""
        clean = None if text is None else clean_part(text)
        if clean == "":
            self.dropped["empty cell"] += 1
            return
        claim = subject, property_, entity, clean, None if clean is None else kind_of_text(clean)
        if row is None:
            self._claims.append(claim)
        else:
            self._of_rows[qualifies].append((row, claim))

    def term(self, entity: int, kind: int, text: str) -> None:
        """Add a label or another text about an entity; an empty one is dropped."""
        if clean := clean_part(text):
            self._terms.append((entity, kind, 0, NO_LANGUAGE, clean))
        else:
            self.dropped["empty cell"] += 1

    def parsed(self) -> Parsed:
        plain, of_rows, of_none = statement_rows(_placed(self._of_rows[0]), _placed(self._of_rows[1]), self._first)
        self.dropped[OF_NO_FACT] += of_none
        lines = len(self._claims) + len(plain) + len(of_rows["snaks"]) + len(self._terms) + self.dropped.total()
        result = Parsed(
            lines=lines + len(self.faults), statements=lines, dropped=+self.dropped, faults=self.faults, tables=of_rows
        )
        terms = self._terms + [(entity, OWN_NAME, 0, NO_LANGUAGE, text) for entity, text in self._own.items()]
        for name, rows in (("claims", self._claims), ("terms", terms), ("ids", list(self._ids.items()))):
            result.tables[name] = table_of(name, rows)
        result.tables["claims"] = pa.concat_tables([result.tables["claims"], plain])
        return result


def _placed(rows: Sequence[tuple[int, _Claim]]) -> Rows:
    """Return claims with the places of their rows."""
    places = np.fromiter((row for row, _ in rows), np.int64, len(rows))
    return places, table_of("claims", [claim for _, claim in rows])


def statements_of_columns(names: Sequence[str], texts: list[pa.Array], row_number: Callable[[int], int]) -> Parsed:
    """Return columns of subject, predicate, object and of qualifiers with these names as facts, and as facts with qualifiers,
    each of which is a line more."""
    result = facts_of_columns(texts, row_number)
    places, labels = places_of_names(), [predicate_label(name) or name for name in names]
    order = sorted(range(len(names)), key=lambda at: (places.get(labels[at].casefold(), len(places)), labels[at]))
    facts = result.tables["ready"]
    columns = [null_as_empty(facts[name].combine_chunks()).to_pylist() for name in facts.column_names[3:]]
    tails = [
        "> <".join(f"{labels[at]}> <{cells[at]}" for at in order if cells[at]) for cells in zip(*columns, strict=True)
    ]
    result.tables["ready"] = facts.select(COLUMNS)
    statements = result.tables["ready"].append_column("tail", pa.array(tails, _TEXT))
    result.tables["ready_statements"] = statements.filter(pc.not_equal(statements["tail"], ""))
    result.lines += len(result.tables["ready_statements"])
    return result


def parser_of_facts(scope: str, names: Sequence[str], *, is_graph: bool) -> RowParser:
    """Return the parser of rows of subject, predicate and object, and of qualifiers with these names. `is_graph`: subjects and
    objects are entities; `scope`: the file."""
    if is_graph:
        return partial(edges_of_columns, scope, names)
    return partial(statements_of_columns, names) if names else facts_of_columns


def edges_of_columns(
    scope: str, names: Sequence[str], texts: list[pa.Array], row_number: Callable[[int], int]
) -> Parsed:
    """Return three columns of text as claims about entities, whose ids are the texts; further ones, with these names, are
    qualifiers of them. `scope`: the file, in which statements are numbered."""
    result = facts_of_columns(texts, row_number)
    facts = result.tables.pop("ready")
    numbers = IdNumbers()
    subject, predicate, object_ = (numbers.of(pa.chunked_array(facts[name]).combine_chunks()) for name in COLUMNS)
    if names:
        rows = EntityRows(other_number(f"{scope}\n{row_number(0)}") if len(facts) else 0)
        for at, (one, link, other) in enumerate(
            zip(*map(pa.Array.to_pylist, (subject, predicate, object_)), strict=True)
        ):
            rows.claim(one, link, entity=other, row=at)
        for name, column in zip(names, facts.columns[3:], strict=True):
            for at, cell in enumerate(null_as_empty(column.combine_chunks()).to_pylist()):
                if cell:
                    rows.claim(0, rows.property(name), text=cell, row=at, qualifies=True)
        parsed = rows.parsed()
        result.lines += parsed.lines - len(facts)
        result.tables = parsed.tables
    else:
        result.tables["claims"] = claims_of(subject, predicate, object_)
    own: dict[str, str | None] = {
        text: name_of_id(text) for name in ("subject", "object") for text in facts[name].unique().to_pylist()
    }
    own |= {text: predicate_label(text) for text in facts["predicate"].unique().to_pylist() if text not in own}
    said = [(other_number(id_), name) for id_, name in own.items() if name and not re.match(r"https?://\S+$", id_)]
    terms = terms_of([number for number, _ in said], OWN_NAME, pa.array([name for _, name in said], _TEXT))
    result.add(Parsed(lines=0, tables={"terms": terms, "ids": numbers.table()}))
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the columns of a table about entities are.

    `predicates`: the id of the predicate of each column, "" for one of no predicate. `subject`, `id`, `classes`: the
    places of columns; None if there is none. `row_of`: what all are rows of, "" for nothing. `prefix`: of all ids. `keys`: the
    prefixes of the ids that a column holds. `links`: what the predicates of such columns, or of the id, are called.
    `whole`: columns of keys, whose `1.0` is the key `1`. `lists`: what is between the values in its cells. `needs_name`:
    rows without a name are dropped, else those without an id. `qualifiers`: columns that say more about the row's facts.
    `scope`: the file, in which statements are numbered.
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
    qualifiers: frozenset[int] = frozenset()
    scope: str = ""


def rows_of_plan(plan: Plan, keeps_aliases: bool, texts: list[pa.Array], row_number: Callable[[int], int]) -> Parsed:
    """Return the rows of a table about entities as claims, terms and ids."""
    result = Parsed(lines=0)
    first = other_number(f"{plan.scope}\n{row_number(0)}") if plan.qualifiers and len(texts[0]) else 0
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
    tables = rows.tables(first)
    tables["ids"] = pa.concat_tables([numbers.table(), tables["ids"]])
    result.tables = tables
    result.lines += (
        len(tables["claims"]) + len(tables.get("snaks", ())) + rows.said + result.dropped.total() + len(result.faults)
    )
    result.statements = result.lines - len(result.faults)
    return result


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
        self._facts: list[Rows] = []
        self._pairs: list[Rows] = []
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
            rows = self._claims_of(plan.predicates[at], places, (objects, None), plan.links.get(at))
            self._add_facts(at, places, rows)
        elif at == plan.id:
            is_code = np.array([not text.isdigit() for text in values.to_pylist()], np.bool_)
            self._result.dropped["key"] += int(np.count_nonzero(~is_code))
            codes = values.filter(pa.array(is_code))
            codes_of = self._claims_of(plan.predicates[at], places[is_code], (None, codes), plan.links.get(at))
            self._claims.append(codes_of)
        else:
            self._add_facts(at, places, self._claims_of(plan.predicates[at], places, (None, values)))

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
        objects = IdNumbers().of(_prefixed(classes, ":"))
        self._claims.append(self._claims_of(predicate, places, (objects, None)))

    def tables(self, first: int) -> dict[str, pa.Table]:
        """Return the rows; the first statement has the number `first`."""
        tables = dict[str, pa.Table]()
        if self._facts or self._pairs:
            facts, pairs = (_joined(some) for some in (self._facts, self._pairs))
            plain, tables, of_none = statement_rows(facts, pairs, first)
            self._claims.append(plain)
            self._result.dropped[OF_NO_FACT] += of_none
        own = pa.array(self._own.values(), _TEXT)
        ids = [pa.array(self._ids, pa.int64()), pa.array(self._ids.values(), _TEXT)]
        return {
            **tables,
            "claims": pa.concat_tables([SCHEMAS["claims"].empty_table(), *self._claims]),
            "terms": pa.concat_tables([*self.terms, terms_of(list(self._own), OWN_NAME, own)]),
            "ids": pa.table(ids, schema=SCHEMAS["ids"]),
        }

    def _add_facts(self, at: int, places: np.ndarray[Any, Any], rows: pa.Table) -> None:
        """Add what a column says of the rows at some places: facts, or more about these."""
        if at in self._plan.qualifiers:
            self._pairs.append((places, rows))
        elif self._plan.qualifiers:
            self._facts.append((places, rows))
        else:
            self._claims.append(rows)

    def _claims_of(
        self,
        predicate: str,
        places: np.ndarray[Any, Any],
        values: tuple[pa.Array | None, pa.Array | None],
        label: str | None = None,
    ) -> pa.Table:
        """Return claims about the rows at some places; `values`: entities or texts."""
        objects, texts = values
        count, number = len(places), other_number(predicate) + 1
        if not count:
            return SCHEMAS["claims"].empty_table()
        self._ids[number] = predicate
        if name := label or predicate_label(predicate):
            self._own[number] = name
        kinds = None
        if texts is not None:
            distinct = texts.dictionary_encode()
            of_kind = [kind_of_text(text) for text in distinct.dictionary.to_pylist()]
            kinds = pa.array(of_kind, pa.uint8()).take(distinct.indices)
        return claims_of(self._entities.take(pa.array(places)), number, objects, texts, kinds)


def _joined(some: list[Rows]) -> Rows:
    places = np.concatenate([np.empty(0, np.int64), *(places for places, _ in some)])
    return places, pa.concat_tables([SCHEMAS["claims"].empty_table(), *(rows for _, rows in some)])


def _values(column: pa.Array, delimiter: str | None) -> tuple[np.ndarray[Any, Any], pa.Array]:
    """Return the values in the cells of a column, and the row of each."""
    places = np.arange(len(column))
    if delimiter is None:
        return places, column
    split = pc.split_pattern(column, delimiter)
    return places[pc.list_parent_indices(split).to_numpy()], clean_parts(
        pc.utf8_trim_whitespace(pc.list_flatten(split))
    )


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
    if notes := selection.tables.notes_of_keys(source.table):
        yield Parsed(lines=0, notes=tuple(notes))
    for block in json_blocks(source, advance):
        rows = _JsonRows(selection, source, block[0][0] if block else 0)
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
    """The staged rows of JSON objects. `first`: the number of the first line."""

    def __init__(self, selection: Selection, source: Source, first: int) -> None:
        self._selection, self._options, self._source = selection, selection.tables, source
        self._table, self._row_of = source.table, self._options.row_of(source.table)
        self._prefix = f"{self._table}:" if self._options.prefixed else ""
        self._subjects, self._id_fields = self._fields(self._options.subjects), self._fields(self._options.ids)
        self._kinds = dict.fromkeys(self._fields(self._options.descriptions), DESCRIPTION)
        self._kinds |= dict.fromkeys(self._fields(self._options.aliases), OTHER_NAME)
        split = (one.rpartition("=") for one in self._options.lists if "=" in one[:-1])
        self._lists = {column.removeprefix(f"{self._table}."): delimiter for column, _, delimiter in split}
        self._whole = self._fields(self._options.whole)
        self._qualifiers = self._fields(self._options.qualifiers)
        self._keys, self._links = dict[str, str](), dict[str, str]()
        for left, _, right in (one.partition("=") for one in self._options.keys if one.startswith(f"{self._table}.")):
            (field_,), other = self._fields([left]), right.rpartition(".")[0]
            self._keys[field_] = self._prefix if other.casefold() == self._table.casefold() else f"{other}:"
            self._links[field_] = link_label(field_, other)
        self._facts: list[tuple[str, ...]] = []
        self._first = first
        self.statements = EntityRows(other_number(f"{source.name}\n{first}"))

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
            names = (*columns, *self._qualifiers)
            self._facts.append(tuple(clean_part(json_text(value.get(name))) for name in names))
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
        row = number if self._qualifiers else None
        node = f"_:{self._source.name}:{number}"
        self._add_fields(entity, value, skipped=(name_field, id_field), node=node, row=row)

    def parsed(self) -> Parsed:
        result = self.statements.parsed()
        if self._facts:
            is_graph = self._options.edges or bool(self._options.labels)
            make = parser_of_facts(f"{self._source.name}\n{self._first}", self._qualifiers, is_graph=is_graph)
            texts = [pa.array(column, _TEXT) for column in zip(*self._facts, strict=True)]
            result.add(make(texts, lambda at: at + 1))
        return result

    def _key(self, name: str, text: str) -> str:
        clean = clean_part(text)
        return WHOLE.sub(r"\1", clean) if name in self._whole else clean

    def _fields(self, given: Sequence[str]) -> tuple[str, ...]:
        """Return the names of fields that options give for this file."""
        return tuple(one.removeprefix(f"{self._table}.") for one in given)

    def _add_fields(
        self,
        entity: int,
        value: Mapping[str, Any],
        *,
        skipped: Sequence[str | None],
        node: str,
        row: int | None = None,
    ) -> None:
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
                    self._add_fields(blank, text, skipped=(), node=f"{node}:{name}:{place}")
                else:
                    self._add_value(entity, name, text if isinstance(text, str) else json_text(text), row)

    def _add_value(self, entity: int, name: str, text: str, row: int | None) -> None:
        statements, kind, other = self.statements, self._kinds.get(name), self._keys.get(name)
        if kind == OTHER_NAME and not self._selection.aliases:
            statements.dropped["alias"] += 1
        elif kind is not None:
            statements.term(entity, kind, text)
        elif other is not None and (key := self._key(name, text)):
            property_ = statements.property(name, self._links[name])
            number, qualifies = other_number(other + key), name in self._qualifiers
            statements.claim(entity, property_, entity=number, row=row, qualifies=qualifies)
        else:
            property_ = statements.property(name, self._links.get(name))
            statements.claim(entity, property_, text=text, row=row, qualifies=name in self._qualifiers)


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
