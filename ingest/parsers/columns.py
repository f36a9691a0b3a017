"""What the columns of a table are: facts in three columns, things with their properties, nodes, edges, and keys of tables.

Options name columns, and the names of columns say the rest (`table_form`). Several tables are joined by keys, which are
given or recognised (`with_keys`).
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from refactx.errors import InputError
from refactx.fact import clean_part, visible
from refactx.ingest.parsers.parsed import COLUMNS, Parsed, RowParser, clean_parts, facts_of_columns
from refactx.ingest.parsers.records import EdgePlan, Plan, edges_of_columns, edges_of_plan, rows_of_plan
from refactx.ingest.parsers.tables import BETWEEN, Header, check_type, read_header, read_rows
from refactx.ingest.selection import Selection, TableOptions
from refactx.ingest.sources import Source

_GRAPH_COLUMNS = (":id", ":start_id", ":end_id", "~id", "~from", "~to")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableForm:
    """How a table is read: its header, the places of the columns that `make` takes, and remarks for the user."""

    header: Header
    positions: tuple[int, ...]
    make: RowParser
    what: str
    notes: tuple[str, ...] = ()


def table_form(source: Source, selection: Selection) -> TableForm:
    """Return how a table is read, by the selection's options and its header.

    Raises InputError if a column is missing or occurs twice, or as `read_header`.
    """
    options = selection.tables
    header = read_header(source, options, wanted_columns(options))
    folded = [name.casefold() for name in header.names]
    if any(name.endswith(_GRAPH_COLUMNS) or re.search(r":(?:start_|end_)?id\(", name) for name in folded):
        return _graph_form(source, header, selection)
    table = source.table
    subject = None if options.columns else column_of(options.subjects, table, header.names)
    if subject is not None:
        return _wide_form(source, header, subject, selection)
    positions = _fact_columns(source, header, options)
    _refuse_lists(source, header, positions)
    make = edges_of_columns if options.edges or options.labels else facts_of_columns
    ignored = [name for at, name in enumerate(header.names) if at not in positions]
    notes: tuple[str, ...] = ()
    if ignored:
        columns = f"column {ignored[0]} is" if len(ignored) == 1 else f"columns {', '.join(ignored)} are"
        notes = (f"{columns} ignored: facts come from subject, predicate and object",)
    return TableForm(
        header=header, positions=positions, make=make, what="subject, predicate and object in each row", notes=notes
    )


def _refuse_lists(source: Source, header: Header, places: Iterable[int | None]) -> None:
    for at in places:
        if at is not None and at in header.lists:
            check_type(source.name, header.lists[at], may_be_list=False)


def parse_table(source: Source, form: TableForm, advance: Callable[[int], object] = lambda _: None) -> Iterator[Parsed]:
    """Yield what the rows of a table say.

    A row with an empty subject, predicate or object is dropped as `empty part`, or as `blank` if all three are empty.
    Raises InputError as `read_rows` does, and if no row is complete.
    """
    empty, first_fault = True, ""
    if form.notes:
        yield Parsed(lines=0, notes=form.notes)
    for parsed in read_rows(source, form.header, form.positions, form.make, advance):
        if parsed.faults and not first_fault:
            first_fault = "row {}: {}; ".format(*min(parsed.faults))
        yield parsed
        empty = empty and not parsed.statements
    if empty:
        after = "" if form.header.kind == "rows" or not form.header.header_rows else " after its header"
        raise InputError(f"{source.name} has no complete row{after}: {first_fault}expected {form.what}")


def column_of(given: Sequence[str], table: str, names: Sequence[str]) -> int | None:
    """Return the place of the first column that is given for a table: by its name, `TABLE.NAME`, or its number from 1.

    >>> column_of(["suppliers.company", "name"], "products", ["id", "Name"]), column_of(["2"], "products", ["id", "Name"])
    (1, 1)
    """
    folded = [name.strip().casefold() for name in names]
    for one in map(clean_part, given):
        wanted = one.casefold().removeprefix(f"{table.casefold()}.")
        exact = one[len(one) - len(wanted) :]
        if wanted in folded:
            return names.index(exact) if exact in names else folded.index(wanted)
        if wanted.isdecimal() and 0 < int(wanted) <= len(names):
            return int(wanted) - 1
    return None


def wanted_columns(options: TableOptions) -> set[str]:
    """Return the names, in lower case, by which the header of a table is recognised."""
    given = (*options.columns, *options.subjects, *options.ids)
    names = {name.casefold() for one in map(clean_part, given) for name in (one, one.rpartition(".")[2])}
    return names | (set() if options.columns or options.subjects else set(COLUMNS)) | set(_GRAPH_COLUMNS)


def _fact_columns(source: Source, header: Header, options: TableOptions) -> tuple[int, int, int]:
    """Return the places of subject, predicate and object. Raise InputError if one is missing or occurs twice."""
    names = header.names
    if not options.columns and len(names) == 3 and (header.kind == "rows" or not options.header):
        return 0, 1, 2
    places = [column_of((one,), source.table, names) for one in options.columns or COLUMNS]
    missing = [one for one, at in zip(options.columns or COLUMNS, places, strict=True) if at is None]
    if missing:
        raise InputError(_no_column(source, header, missing, options))
    folded = [name.casefold() for name in names]
    twice = [one for one in options.columns or COLUMNS if folded.count(one.casefold()) > 1]
    if twice or len(set(places)) < 3:
        raise InputError(
            f"{source.name} has column {', '.join(twice) or names[places[0] or 0]} twice: its columns are "
            f"{shown_names(names)}: rename one of them, or give their numbers with --columns 1,2,3"
        )
    return places[0] or 0, places[1] or 0, places[2] or 0


def _no_column(source: Source, header: Header, missing: Sequence[str], options: TableOptions) -> str:
    found = f"{source.name} has no column {', '.join(missing)}: its columns are {shown_names(header.names)}"
    if options.subjects:
        given = ", ".join(options.subjects)
        return f"{source.name} has no column {given}: its columns are {shown_names(header.names)}: correct --subject"
    if options.columns:
        return f"{found}: correct --columns"
    subject = _proposed_subject(source, header)
    if len(header.names) == 3 and header.kind == "CSV":
        return (
            f"{found}: give --no-header if this line is a fact, else --columns 1,2,3, or {subject} if the other columns are "
            "predicates"
        )
    return f"{found}: give {subject} if the other columns are predicates, or --columns SUBJECT,PREDICATE,OBJECT"


_NAMING = (r"(name|label|title)$", r".*\b(name|label|title)$", r".*(name|label|title)")


def _proposed_subject(source: Source, header: Header) -> str:
    """Return `--subject` with a column that can name the rows, and why it can: in the first rows no cell of it is empty,
    and all differ. One that is called a name comes first, then one of text."""
    columns: list[list[str]] = []
    with suppress(InputError):  # what is refused is the header
        places = range(len(header.names))
        next(read_rows(source, header, places, partial(_keep_cells, columns), lambda _: None), None)
    found: list[tuple[int, str]] = []
    for name, cells in zip(header.names, columns, strict=False):
        if name and all(cells) and len(set(cells)) == len(cells):
            called = (at for at, one in enumerate(_NAMING) if re.match(one, name.replace("_", " "), re.IGNORECASE))
            found.append((next(called, len(_NAMING) + all(map(str.isdecimal, cells))), name))
    if not found:
        return "--subject COLUMN, the one that names the rows,"
    _, best = min(found, key=lambda one: one[0])
    return f"--subject {_quoted(best)} (its cells differ, and none is empty)"


def _keep_cells(columns: list[list[str]], texts: list[pa.Array], _: Callable[[int], int]) -> Parsed:
    columns += [clean_parts(one).to_pylist() for one in texts]
    return Parsed(lines=len(texts[0]))


def shown_names(names: Sequence[str]) -> str:
    """Return the names of columns for a message."""
    return ", ".join(visible(name[:40]) for name in names[:60]) + (", …" if len(names) > 60 else "")


def _quoted(name: str) -> str:
    return f"'{name[:40]}'" if re.search(r"[^\w.-]", name) else name


def _wide_form(source: Source, header: Header, subject: int, selection: Selection) -> TableForm:
    options, table, names = selection.tables, source.table, header.names
    key = key_column(options, table, names)
    for option, given in (("--description", options.descriptions), ("--alias", options.aliases), ("--id", options.ids)):
        for one in given:
            if column_of((one,), table, names) is None and not _of_other_table(one, table):
                raise InputError(f"{source.name} has no column {one} ({option}): its columns are {shown_names(names)}")
    _refuse_lists(source, header, (subject, key))
    lists, keys = _lists(source, header, options) | dict.fromkeys(header.lists, BETWEEN), dict[int, str]()
    notes = []
    for left, right in map(parts_of_key, options.keys):
        place = column_of((left,), table, names) if not _of_other_table(left, table) else None
        if place is not None and place != subject:
            keys[place] = f"{right.rpartition('.')[0]}:"
            notes.append(f"column {names[place]} is read as the key of table {right.rpartition('.')[0]}")
        elif place is None and left.casefold().startswith(f"{table.casefold()}."):
            raise InputError(
                f"{source.name} has no column {left.rpartition('.')[2]} (--key): its columns are {shown_names(names)}"
            )
    if "" in names:
        notes.append("a column without a name is ignored")
    plan = Plan(
        predicates=names,
        subject=subject,
        id=None if key == subject else key,
        descriptions=frozenset(_all_columns(options.descriptions, table, names)),
        aliases=frozenset(_all_columns(options.aliases, table, names)),
        prefix=f"{table}:" if options.prefixed else "",
        keys=keys,
        lists=lists,
        row_of=options.row_of(table),
        needs_name=True,
    )
    make = partial(rows_of_plan, plan, bool(selection.aliases))
    what = f"a name in column {names[subject]}"
    return TableForm(header=header, positions=tuple(range(len(names))), make=make, what=what, notes=tuple(notes))


def _of_other_table(given: str, table: str) -> bool:
    return "." in given and not given.casefold().startswith(f"{table.casefold()}.")


def _all_columns(given: Sequence[str], table: str, names: Sequence[str]) -> list[int]:
    return [at for one in given if (at := column_of((one,), table, names)) is not None]


def _lists(source: Source, header: Header, options: TableOptions) -> dict[int, str]:
    """Return what is between the values in the cells of each column that has several."""
    table, names = source.table, header.names
    found: dict[int, str] = {}
    for one in sorted(options.lists, key=lambda one: "=" in one[:-1]):
        column, _, delimiter = one.rpartition("=") if "=" in one[:-1] else ("", "", one)
        if not column:
            found |= dict.fromkeys(range(len(names)), delimiter)
            for given in (options.subjects, options.ids, options.descriptions):
                for at in _all_columns(given, table, names):
                    found.pop(at, None)
            continue
        place = column_of((column,), table, names)
        if place is None and not _of_other_table(column, table):
            raise InputError(f"{source.name} has no column {column} (--list): its columns are {shown_names(names)}")
        if place is not None:
            found[place] = delimiter
    return found


def parts_of_key(key: str) -> tuple[str, str]:
    """Return the two columns of `products.supplier=suppliers.id`.

    >>> parts_of_key("products.supplier=suppliers.id")
    ('products.supplier', 'suppliers.id')
    """
    left, _, right = key.partition("=")
    return left.strip(), right.strip()


def key_column(options: TableOptions, table: str, names: Sequence[str]) -> int | None:
    """Return the place of a table's key: that of `--id`, or that `--key` names; None if its names are its keys."""
    rights = [
        right for _, right in map(parts_of_key, options.keys) if right.casefold().startswith(f"{table.casefold()}.")
    ]
    return column_of((*(one for one in options.ids if not _of_other_table(one, table)), *rights), table, names)


def _graph_form(source: Source, header: Header, selection: Selection) -> TableForm:
    """Return how a table of nodes or edges of Neo4j or Neptune is read."""
    names, lists, places = [], dict[int, str](), dict[str, int]()
    groups: dict[str, str] = {}
    lists |= dict.fromkeys(header.lists, BETWEEN)
    for at, name in enumerate(header.names):
        field_ = re.fullmatch(r"(.*?):?(?::|~)(start_id|end_id|type|label|ignore|id|from|to)(?:\((.*)\))?", name, re.I)
        if field_:
            kind = {"from": "start_id", "to": "end_id"}.get(field_[2].casefold(), field_[2].casefold())
            places[kind], groups[kind] = at, f"{field_[3]}:" if field_[3] else ""
            names.append(field_[1] if kind == "id" and not name.startswith("~") else "")
            continue
        typed = re.fullmatch(r"(.*):([A-Za-z0-9]+(?:\{.*\})?)(\[\])?(?:\((?:single|set)\))?", name, re.IGNORECASE)
        names.append(typed[1] if typed else name)
        if typed and typed[3]:
            lists.setdefault(at, ";")
    positions = tuple(range(len(names)))
    _refuse_lists(source, header, (places.get(kind) for kind in ("id", "start_id", "end_id", "type")))
    if "start_id" in places and "end_id" in places:
        plan = EdgePlan(
            ends=(places["start_id"], places["end_id"]),
            type=places.get("type", places.get("label")),
            id=places.get("id"),
            properties=tuple(names),
            prefixes=(groups["start_id"], groups["end_id"]),
            lists=lists,
            default_type=source.table,
        )
        what = "the ids of both ends in each row"
        return TableForm(header=header, positions=positions, make=partial(edges_of_plan, plan), what=what)
    if "id" not in places:
        raise InputError(
            f"{source.name} has neither an id of nodes nor both ends of edges: its columns are {shown_names(header.names)}: "
            "expected :ID, or :START_ID and :END_ID"
        )
    if "label" in places:
        lists.setdefault(places["label"], ";")
    subject = column_of(selection.tables.subjects or ("name", "title", "label"), source.table, names)
    plan_of_nodes = Plan(
        predicates=tuple(names),
        subject=subject,
        id=places["id"],
        descriptions=frozenset(_all_columns(selection.tables.descriptions, source.table, names)),
        aliases=frozenset(_all_columns(selection.tables.aliases, source.table, names)),
        classes=places.get("label"),
        prefix=groups["id"],
        lists=lists,
    )
    make = partial(rows_of_plan, plan_of_nodes, bool(selection.aliases))
    return TableForm(header=header, positions=positions, make=make, what="an id in each row")


def with_keys(sources: Sequence[Source], options: TableOptions) -> TableOptions:
    """Return the options with the keys that join several tables: those that are given, and those that are recognised.

    A column is recognised as the key of another table if it is named after that table (`supplier`, `supplier_id` or
    `supplierId` for `suppliers`) or as its key column is, if that is not just `id`, and if all its cells are keys there.
    The key column of a table is given, or named `id` or after the table; its cells are filled and differ.

    Raises InputError if a key is given of which no cell is a key of the other table.
    """
    files = [source for source in sources if not (source.is_labels or source.is_standard_input)]
    if not options.subjects or len(files) < 2:
        return options
    tables: dict[str, _Table] = {}
    for source in files:
        header = read_header(source, options, wanted_columns(options))
        name = source.table
        if column_of(options.subjects, name, header.names) is not None:
            tables.setdefault(name.casefold(), _Table(name, header)).sources.append(source)
    if len(tables) < 2:
        return options
    keys = list(options.keys)
    ids = list(options.ids)
    for table in tables.values():
        at = key_column(options, table.name, table.header.names)
        if at is None:
            at = column_of((*_named_after(table.name), "id"), table.name, table.header.names)
            if at is None or not table.is_key(at):
                continue
            ids.append(f"{table.name}.{table.header.names[at]}")
        table.key = at
    for key in options.keys:
        _check_key(key, tables)
    given = {left.casefold() for left, _ in map(parts_of_key, keys)}
    for one, other in itertools.permutations(tables.values(), 2):
        found = _recognised_key(one, other)
        if found and found.partition("=")[0].casefold() not in given:
            keys.append(found)
    return replace(options, keys=tuple(keys), ids=tuple(ids), prefixed=True) if keys else options


@dataclass
class _Table:
    """A table of one or several files, with the place of its key column."""

    name: str
    header: Header
    sources: list[Source] = field(default_factory=list)
    key: int | None = None
    _cells: dict[int, list[str]] = field(default_factory=dict)

    def cells(self, at: int) -> list[str]:
        """Return the cells of a column that are not empty."""
        if at not in self._cells:
            found: list[str] = []

            def keep(texts: list[pa.Array], _: Callable[[int], int]) -> Parsed:
                found.extend(cell for cell in clean_parts(texts[0]).to_pylist() if cell)
                return Parsed(lines=len(texts[0]))

            for source in self.sources:
                for _ in read_rows(source, self.header, [at], keep, lambda _: None):
                    pass
            self._cells[at] = found
        return self._cells[at]

    def is_key(self, at: int) -> bool:
        """Return whether the cells of a column differ."""
        cells = self.cells(at)
        return bool(cells) and len(set(cells)) == len(cells)


def _named_after(table: str) -> list[str]:
    """Return the names that a column with the key of a table may have.

    >>> _named_after("categories")[:4]
    ['categories', 'categories_id', 'categoriesid', 'categories id']
    """
    plural = table.casefold()
    singular = f"{plural[:-3]}y" if plural.endswith("ies") else plural.removesuffix("s")
    return [f"{name}{end}" for name in (plural, singular) for end in ("", "_id", "id", " id")]


def _recognised_key(one: _Table, other: _Table) -> str | None:
    if other.key is None:
        return None
    key = other.header.names[other.key]
    named = [*_named_after(other.name), *([key.casefold()] if key.casefold() != "id" else [])]
    for at, name in enumerate(one.header.names):
        if name.casefold() in named and at != one.key:
            cells = one.cells(at)
            if cells and set(cells) <= set(other.cells(other.key)):
                return f"{one.name}.{name}={other.name}.{key}"
    return None


def _check_key(key: str, tables: Mapping[str, _Table]) -> None:
    """Raise InputError unless a given key has a cell that is one of the other table's keys."""
    sides = []
    for part in parts_of_key(key):
        table = tables.get(part.rpartition(".")[0].casefold())
        if table is None:
            return  # of another change
        at = column_of((part,), table.name, table.header.names)
        if at is None:
            raise InputError(
                f"--key {key}: table {table.name} has no such column: it has {shown_names(table.header.names)}"
            )
        sides.append(table.cells(at))
    if sides[0] and not set(sides[0]) & set(sides[1]):
        raise InputError(
            f"--key {key}: no cell of the first column ({visible(sides[0][0][:40])}) is one of the second "
            f"({visible(sides[1][0][:40]) if sides[1] else 'empty'}): correct the columns"
        )
