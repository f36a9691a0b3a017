"""The keys of tables: those that options give, and those that the cells show.

A column is the key of another table if it is named after that table (`supplier`, `supplier_id`, `home_supplierId` for
`suppliers`) or as its key column is, if that is not just `id`, and if all its cells are keys there. It is one of its own
table if its name says so (`manager`, `reports_to`, `parent_category` in `categories`), or if keys are codes (`E17`), and
if all its cells are keys of it. What nearly fits is told in the report.

The key column of a table is given, or named `id` or after the table, and its cells are filled and differ. The rows of a
single table are called by their names alone, unless two have one name, or the table has a key to itself.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from refactx.errors import InputError
from refactx.fact import clean_part, counted, visible
from refactx.ingest.parsers.columns import (
    clean_columns,
    column_of,
    has_qualifiers,
    key_column,
    lists_of,
    parts_of_key,
    quoted,
    shown_names,
    wanted_columns,
)
from refactx.ingest.parsers.records import json_blocks, json_text, names_of_thing, whole_numbers
from refactx.ingest.parsers.tables import BETWEEN, Header, read_header
from refactx.ingest.profile import in_words
from refactx.ingest.source_options import TableOptions
from refactx.ingest.sources import BatchSource, Source

_TEXT = pa.large_string()
_LARGEST = 1 << 30
"""Bytes of text up to which a single table is looked through for names that rows share, and for keys to itself."""
_MOST_COLUMNS = 1000
"""Of a table, that are looked through for keys."""
_FIRST_CELLS = 1000
"""Of a column that is not called as keys are, that are looked up among the keys of other tables."""
_FIELDS_OF = 1000
"""The objects of JSON whose fields are the columns."""
_OWN_LINK = re.compile(
    r"(?:.* )?(?:manager|mgr|boss|chief|supervisor|superior|leader|mentor|coach|parent|mother|father|spouse|partner|"
    r"husband|wife|predecessor|successor|previous|next|original|ancestor|reports? to|reply to|belongs to|part of|"
    r"(?:managed|supervised|led|replaced|followed|preceded|superseded) by|derived from|follows|precedes|replaces)"
)
_ID_WORD = re.compile(r"(?:.* )?(?:id|no|nr|num|number|code|key|uuid)|[a-z]{1,12}(?:id|no|nr)")
_OF_NUMBERS = re.compile(r" (?:id|ids|key|fk|no|nr|num|number|code)$")
_CODE = re.compile(r"(?=.*\d)(?=.*[^\W\d]).{2,}|[^\W\d]\w{4,}")


def with_keys(
    sources: Sequence[Source], json: Sequence[Source], options: TableOptions, *, is_new: bool
) -> TableOptions:
    """Return the options with the keys that join tables, the columns of ids, and notes for the report.

    `sources`: the tables. `json`: those of them that are JSON. `is_new`: of an ingest; a change has the keys of its index,
    whose ids stay what they are.

    Raises InputError if a key is given of which no cell is a key of the other table, or, of an ingest, whose table is
    not there.
    """
    tables: dict[str, _Table] = {}
    for source in sources:
        header = None if source in json else read_header(source, options, wanted_columns(options))
        names = _names_of(source) if header is None else header.names
        subject = column_of(options.subjects, source.table, names)
        if subject is not None:
            table = tables.setdefault(source.table.casefold(), _Table(source.table, names, subject))
            if names == table.names:
                lists = (
                    {} if header is None else lists_of(source, header, options) | dict.fromkeys(header.lists, BETWEEN)
                )
                table.parts.append((source, header, lists))
    if not options.subjects or not tables:
        return options
    joins = _Joins(options, tables)
    joins.add_given([source.table.casefold() for source in sources] if is_new else None)
    for one, other in itertools.permutations(tables.values(), 2):
        joins.recognise(one, other)
    for one, other in itertools.permutations(tables.values(), 2) if is_new else ():
        joins.tell_of_codes(one, other)
    small = [table for table in tables.values() if is_new and table.is_small]
    for table in small:
        table.load([table.subject, *_ids_of(table)[:_MOST_COLUMNS]])
        joins.recognise_own(table)
    for table in small:
        joins.tell_rows_apart(table)
    return joins.options()


def _names_of(source: Source) -> tuple[str, ...]:
    values = (value for block in json_blocks(source, lambda _: None) for _, value in block)
    objects = itertools.islice((value for value in values if isinstance(value, dict)), _FIELDS_OF)
    return tuple(dict.fromkeys(name for value in objects for name in value if name))


@dataclass(eq=False)
class _Table:
    """A table of one or several files, with the places of the columns that have its names and its keys.

    `parts`: its files, each with its header (None: JSON) and with what is between the values in the cells of columns.
    """

    name: str
    names: tuple[str, ...]
    subject: int
    parts: list[tuple[Source, Header | None, dict[int, str]]] = field(default_factory=list)
    key: int | None = None
    _columns: dict[int, pa.ChunkedArray] = field(default_factory=dict)

    @property
    def is_small(self) -> bool:
        """Whether it can be read twice, and is not too large for that."""
        sources = [source for source, _, _ in self.parts]
        sizes = (0 if isinstance(one, BatchSource) else (one.size or 0) * one.text_per_byte() for one in sources)
        return not any(one.reads_once for one in sources) and sum(sizes) <= _LARGEST

    def load(self, places: Iterable[int]) -> None:
        """Read some columns at once; there are no cells of a table that can be read only once."""
        new = [at for at in dict.fromkeys(places) if at not in self._columns]
        found: list[list[pa.Array]] = [[] for _ in new]
        for columns in self._read(new) if new else ():
            for chunks, column in zip(found, columns, strict=True):
                chunks.append(column)
        self._columns |= {at: pa.chunked_array(chunks, _TEXT) for at, chunks in zip(new, found, strict=True)}

    def _read(self, places: Sequence[int]) -> Iterator[list[pa.Array]]:
        for source, header, _ in self.parts:
            if not source.reads_once:
                names = [self.names[at] for at in places]
                yield from _fields(source, names) if header is None else clean_columns(source, header, places)

    def column(self, at: int) -> pa.ChunkedArray:
        """Return the cells of a column, "" for an empty one."""
        self.load([at])
        return self._columns[at]

    def cells(self, at: int) -> pa.ChunkedArray:
        """Return the values in the cells of a column, those of an empty one aside."""
        cells = self.column(at)
        delimiter = self.parts[0][2].get(at)
        if delimiter is not None:
            cells = pa.chunked_array(
                [pc.utf8_trim_whitespace(pc.list_flatten(pc.split_pattern(cells, delimiter)))], _TEXT
            )
        return cells.filter(pc.not_equal(cells, ""))

    def is_key(self, at: int) -> bool:
        """Return whether all cells of a column are filled and differ."""
        cells = self.column(at)
        return len(cells) > 0 and _differ(cells)

    def first_cells(self) -> dict[int, pa.Array]:
        """Return the first filled cells of the columns that have some, but that of names."""
        places = [at for at, name in enumerate(self.names) if name and at != self.subject][:_MOST_COLUMNS]
        first = next(self._read(places), [])
        cut = {at: column.slice(0, _FIRST_CELLS) for at, column in zip(places, first, strict=False)}
        filled = {at: column.filter(pc.not_equal(column, "")) for at, column in cut.items()}
        return {at: column for at, column in filled.items() if len(column)}

    def able_keys(self) -> list[int]:
        """Return the columns, but that of names, whose cells are filled and differ."""
        places = [at for at, name in enumerate(self.names) if name and at != self.subject][:_MOST_COLUMNS]
        able = {at: list[pa.Array]() for at in places}
        for columns in self._read(places):
            for at, column in zip(places, columns, strict=True):
                if at in able:
                    able[at].append(column)
                    if not _differ(column):
                        del able[at]
        return [at for at, chunks in able.items() if chunks and _differ(pa.chunked_array(chunks, _TEXT))]

    def named(self, at: int) -> str:
        return f"{self.name}.{self.names[at]}"


def _differ(cells: pa.Array | pa.ChunkedArray) -> bool:
    distinct = pc.unique(cells)
    return len(distinct) == len(cells) and not pc.any(pc.equal(distinct, "")).as_py()


def _fields(source: Source, names: Sequence[str]) -> Iterator[list[pa.Array]]:
    for block in json_blocks(source, lambda _: None):
        rows = [value for _, value in block if isinstance(value, dict)]
        texts = ([_text_of(row.get(name)) for row in rows] for name in names)
        yield [pa.array(column, _TEXT) for column in texts]


def _text_of(value: object) -> str:
    return "" if isinstance(value, list | dict) else clean_part(json_text(value))


class _Joins:
    """The keys of some tables, as they are found."""

    def __init__(self, options: TableOptions, tables: dict[str, _Table]) -> None:
        self._options, self._tables = options, tables
        only = next(iter(tables.values())) if len(tables) == 1 else None
        self._keys = [_of_only(key, only) for key in options.keys]
        self._ids, self._whole, self._notes = list(options.ids), list(options.whole), list(options.notes)
        self._unused: list[str] = []  # columns of ids that are none if no key leads to them
        named = replace(options, keys=tuple(self._keys))
        for table in tables.values():
            table.key = key_column(named, table.name, table.names)
            if table.key is None and only is None:
                at = _called_key(table)
                if at is not None and table.is_key(at):
                    table.key = at
                    self._unused.append(table.named(at))

    def options(self) -> TableOptions:
        """Return the options with what was found."""
        return replace(
            self._options,
            keys=tuple(self._keys),
            ids=(*self._ids, *(self._unused if self._keys else ())),
            whole=tuple(dict.fromkeys(self._whole)),
            notes=tuple(self._notes),
            prefixed=self._options.prefixed or (bool(self._keys) and len(self._tables) > 1),
        )

    def add_given(self, known: Sequence[str] | None) -> None:
        """Check the keys that are given. `known`: the names of all tables, None if others may be meant."""
        for key in self._keys:
            sides = []
            for part in parts_of_key(key):
                name = part.rpartition(".")[0]
                table = self._tables.get(name.casefold())
                if table is None and known is not None and name.casefold() not in known:
                    raise InputError(f"--key {key}: there is no table {name}: there is {', '.join(known)}")
                at = None if table is None else column_of((part,), table.name, table.names)
                if table is not None and at is None:
                    raise InputError(
                        f"--key {key}: table {table.name} has no such column: it has {shown_names(table.names)}"
                    )
                sides.append((table, at))
            (one, left), (other, right) = sides
            if one is not None and other is not None and left is not None and right is not None:
                self._check(key, one, left, other, right, are_all=known is not None)

    def _check(self, key: str, one: "_Table", left: int, other: "_Table", right: int, *, are_all: bool) -> None:
        """Check a key. `are_all`: the tables have all rows; those that others of a change name may be in the index."""
        id_ = key_column(replace(self._options, keys=()), other.name, other.names)
        if id_ not in (None, right):
            raise InputError(
                f"--key {key}: the ids of table {other.name} are in column {other.names[id_ or 0]} (--id): name the same column"
            )
        if id_ is None and right != other.subject:
            self._ids.append(other.named(right))
        cells, keys = one.cells(left), other.cells(right)
        missing, is_whole = _missing(cells, keys)
        if is_whole:
            self._whole += [one.named(left), other.named(right)]
        if not are_all:
            return
        if len(cells) and len(missing) == len(cells) and not other.parts[0][0].reads_once:
            raise InputError(
                f"--key {key}: no cell of the first column ({_shown(cells)}) is one of the second "
                f"({_shown(keys) if len(keys) else 'empty'}): correct the columns"
            )
        if len(missing):
            self._notes.append((one.name, _misfits(one, left, other, len(cells), missing)))

    def recognise(self, one: "_Table", other: "_Table") -> None:
        """Add the keys of another table that the names of columns say."""
        if other.key is None:
            return
        of_key = other.names[other.key].casefold()
        for at, name in enumerate(one.names):
            is_named = _is_named_after(name, other.name) or (of_key != "id" and name.casefold() == of_key)
            if is_named and self._is_free(one, at):
                self._add_fitting(one, at, other, other.key)

    def tell_of_codes(self, one: "_Table", other: "_Table") -> None:
        """Tell of the columns of codes that are keys of another table by their cells, though not by their names."""
        key = other.subject if other.key is None else other.key
        if not (one.is_small and other.is_small):
            return
        keys = other.cells(key)
        for at, cells in one.first_cells().items():
            known = pc.sum(pc.is_in(cells, keys)).as_py() or 0
            is_code = len(pc.unique(cells)) > 1 and all(map(_CODE.fullmatch, cells.to_pylist()))
            if is_code and 2 * known > len(cells) and self._is_free(one, at) and not self._is_told(one, at):
                what = (
                    f"{known:,} of the first {counted(len(cells), 'cell')} of column {one.names[at]} are keys of table "
                )
                what += other.name
                self._notes.append((one.name, what + _give(one, at, other, key)))

    def _is_told(self, table: "_Table", at: int) -> bool:
        return any(of == table.name and f" of column {table.names[at]} (" in note for of, note in self._notes)

    def recognise_own(self, table: "_Table") -> None:
        """Add the keys of a table to itself. If it has no column of keys, one that is called so has them, or its names are."""
        ids = _ids_of(table) if table.key is None else [table.key]
        for at, name in enumerate(table.names):
            if not self._is_free(table, at):
                continue
            label = re.sub(r" (?:id|no|nr|key|fk)$", "", in_words(name).casefold())
            says_so = _OWN_LINK.fullmatch(label) is not None or (
                _is_named_after(name, table.name) and name.casefold() not in _named_after(table.name)
            )
            # Other columns do not have codes by chance, as they have numbers.
            if says_so or (table.key is not None and all(map(_CODE.fullmatch, table.cells(table.key).to_pylist()))):
                able = (key for key in [*ids, table.subject] if key != at and table.is_key(key))
                any(self._add_fitting(table, at, table, key, tells=says_so and key in ids) for key in able)

    def _is_free(self, table: "_Table", at: int) -> bool:
        given = {left.casefold() for left, _ in map(parts_of_key, self._keys)}
        return (
            at not in (table.key, table.subject) and table.named(at).casefold() not in given and bool(table.names[at])
        )

    def _add_fitting(self, one: "_Table", at: int, other: "_Table", key: int, *, tells: bool = True) -> bool:
        """Add a key if all cells of a column fit; tell of it if most of them do. Return whether it was added."""
        cells = one.cells(at)
        missing, is_whole = _missing(cells, other.cells(key))
        written = (one.column(at), other.column(key))
        left, right = map(whole_numbers, written) if is_whole else written
        if not len(cells) or (one is other and left.equals(right)):
            return False
        if not len(missing):
            self._keys.append(f"{one.named(at)}={other.named(key)}")
            if is_whole:
                self._whole += [one.named(at), other.named(key)]
            if one is other and other.key is None and key != other.subject:
                self._set_key(other, key)
            return True
        if tells and 2 * len(missing) <= len(cells):
            give = f"{_give(one, at, other, key)} the others"
            self._notes.append((one.name, _misfits(one, at, other, len(cells), missing) + give))
        return False

    def _set_key(self, table: "_Table", at: int) -> None:
        table.key = at
        self._ids.append(table.named(at))

    def tell_rows_apart(self, table: "_Table") -> None:
        """Take the column of ids of a table in which rows have one name; without one, tell how many. Of a table with columns of
        qualifiers these rows are of one thing."""
        if table.key is None and has_qualifiers(table.name, table.names, self._options):
            return
        is_unused = table.key is not None and table.named(table.key) in self._unused
        if is_unused and self._keys:
            return
        has_key = table.key is not None and not is_unused
        cells = table.cells(table.key if table.key is not None and has_key else table.subject)
        shared = pc.value_counts(cells)
        repeated = shared.filter(pc.greater(shared.field("counts"), 1))
        if not len(repeated):
            return
        rows = len(cells) - len(shared)
        what = (
            f"{counted(rows, 'row')} {'has' if rows == 1 else 'have'} the {'id' if has_key else 'name'} of another row"
        )
        what += f" (such as {_shown(repeated.field('values'))})"
        if has_key:
            self._notes.append((table.name, f"{what}: their facts are of one thing"))
            return
        ids = next((one for one in _ids_of(table) if table.is_key(one)), None)
        if ids is not None:
            self._set_key(table, ids)
            self._notes.append((table.name, f"{what}: column {table.names[ids]} is read as the id of the rows"))
            return
        able = [table.names[one] for one in table.able_keys()]
        give = f"give --id {able[0]}, whose cells differ" if able else "add a column of numbers, and give it by --id"
        self._notes.append((table.name, f"{what}, and their facts are of one thing: to keep them apart, {give}"))


def _of_only(key: str, table: "_Table | None") -> str:
    """Return a key that is within one table as one of the only table, if that has no name of its own."""
    left, right = (part.rpartition(".") for part in parts_of_key(key))
    has_name = table is None or not (isinstance(table.parts[0][0], BatchSource) or table.parts[0][0].reads_once)
    if table is None or has_name or left[0].casefold() != right[0].casefold():
        return key
    return f"{table.name}.{left[2]}={table.name}.{right[2]}"


def _missing(cells: pa.ChunkedArray, keys: pa.ChunkedArray) -> tuple[pa.ChunkedArray, bool]:
    """Return the cells that are no keys, and whether `1.0` counts as `1` among them, which makes more of them fit."""
    missing = cells.filter(pc.invert(pc.is_in(cells, pc.unique(keys))))
    if not len(missing):
        return missing, False
    whole = whole_numbers(cells)
    less = cells.filter(pc.invert(pc.is_in(whole, pc.unique(whole_numbers(keys)))))
    return (less, True) if len(less) < len(missing) else (missing, False)


def _misfits(one: "_Table", at: int, other: "_Table", cells: int, missing: pa.ChunkedArray) -> str:
    be, of = ("is", "key") if len(missing) == 1 else ("are", "keys")
    whose = "its own table" if one is other else f"table {other.name}"
    return (
        f"{len(missing):,} of {counted(cells, 'cell')} of column {one.names[at]} (such as {_shown(missing)}) {be} no {of} of "
        f"{whose}"
    )


def _give(one: "_Table", at: int, other: "_Table", key: int) -> str:
    return f": give --key {quoted(f'{one.named(at)}={other.named(key)}')} to link"


def _shown(cells: pa.ChunkedArray) -> str:
    return visible(str(cells[0].as_py())[:40])


def _named_after(table: str) -> list[str]:
    """Return the names that a column with the key of a table may have.

    >>> _named_after("categories")[:4]
    ['categories', 'categories_id', 'categoriesid', 'categories id']
    """
    plural = table.casefold()
    singular = names_of_thing(table)[1] if "_" not in plural else plural.removesuffix("s")
    return [f"{name}{end}" for name in (plural, singular) for end in ("", "_id", "id", " id")]


def _is_named_after(column: str, table: str) -> bool:
    """Return whether a column is called as things of a table are, or their keys, maybe after other words.

    >>> [_is_named_after(name, "teams") for name in ("team", "TeamId", "home_team_id", "team size", "steam")]
    [True, True, True, False, False]
    """
    words = _OF_NUMBERS.sub("", in_words(column).casefold())
    return column.casefold() in _named_after(table) or any(
        f" {words}".endswith(f" {one}") for one in names_of_thing(table)
    )


def _called_key(table: "_Table") -> int | None:
    """Return the column that is called as the keys of a table are: `id`, `supplier`, `SupplierID`, `Supplier No`."""
    things = names_of_thing(table.name)
    numbered = [name for name in table.names if _OF_NUMBERS.sub("", in_words(name).casefold()) in things]
    return column_of((*_named_after(table.name), "id", *numbered), table.name, table.names)


def _ids_of(table: "_Table") -> list[int]:
    """Return the columns that are called as ids are."""
    named = (*_named_after(table.name), "id")
    return [
        at
        for at, name in enumerate(table.names)
        if at != table.subject and (name.casefold() in named or _ID_WORD.fullmatch(in_words(name).casefold()))
    ]
