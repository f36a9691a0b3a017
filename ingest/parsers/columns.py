"""What the columns of a table are: facts in three columns, things with their properties, nodes, edges, and keys of tables.

Options name columns, and the names of columns say the rest. Keys that join tables are those of the options, to which
`refactx.ingest.parsers.keys` has added the ones that the tables show.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from refactx.errors import InputError
from refactx.fact import clean_part, visible
from refactx.ingest.parsers.edges import EdgePlan, Keeps, edges_of_plan
from refactx.ingest.parsers.parsed import COLUMNS, Parsed, RowParser, clean_parts, null_as_empty
from refactx.ingest.parsers.records import (
    Plan,
    link_label,
    names_of_thing,
    parser_of_facts,
    rows_of_plan,
)
from refactx.ingest.parsers.tables import BETWEEN, Header, check_type, read_header, read_rows
from refactx.ingest.profile import in_words, predicate_label
from refactx.ingest.source_options import Selection, TableOptions
from refactx.ingest.sources import Source

_MOST_COLUMNS = 20_000
"""More than a sheet has (16,384). Each takes half a millisecond, and a kilobyte for each block of rows."""
NODE_NAMES = ("name", "title", "label", "desc")
"""The properties that name the nodes of a graph of properties, the best first."""
_GRAPH_COLUMNS = (":id", ":start_id", ":end_id", "~id", "~from", "~to")
_GIVEN_NAMES = ("first name", "given name", "forename", "firstname", "givenname")
_FAMILY_NAMES = ("last name", "family name", "surname", "lastname", "familyname")
_NAMING = (r"(name|label|title)$", r".*\b(name|label|title)$", r".*(name|label|title)")


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

    Raises InputError if a column is missing or occurs twice, if there are too many, or as `read_header`.
    """
    options = selection.tables
    header = read_header(source, options, wanted_columns(options))
    if len(header.names) > _MOST_COLUMNS:
        raise InputError(
            f"{source.name} has {len(header.names):,} columns, of which at most {_MOST_COLUMNS:,} are read: write a row for "
            "each value (subject, predicate, object), or leave columns out"
        )
    folded = [name.casefold() for name in header.names]
    if any(name.endswith(_GRAPH_COLUMNS) or re.search(r":(?:start_|end_)?id\(", name) for name in folded):
        return _graph_form(source, header, selection)
    table = source.table
    subject = None if options.columns else column_of(options.subjects, table, header.names)
    if subject is not None:
        return _wide_form(source, header, subject, selection)
    if len(keys := keys_of(options, table, header.names)) == 2 and not options.columns:
        return _link_form(source, header, keys, selection)
    more = qualifier_columns(source, header.names, options)
    positions = (*_fact_columns(source, header, options), *more)
    _refuse_lists(source, header, positions)
    is_graph = options.edges or bool(options.labels)
    make = parser_of_facts(source.name, [header.names[at] for at in more], is_graph=is_graph)
    ignored = [name for at, name in enumerate(header.names) if at not in positions]
    notes: tuple[str, ...] = ()
    if ignored:
        columns = f"column {ignored[0]} is" if len(ignored) == 1 else f"columns {', '.join(ignored)} are"
        notes = (f"{columns} ignored: facts come from subject, predicate and object",)
    return TableForm(
        header=header, positions=positions, make=make, what="subject, predicate and object in each row", notes=notes
    )


def has_qualifiers(table: str, names: Sequence[str], options: TableOptions) -> bool:
    """Return whether a table has columns of qualifiers: then several of its rows may be about one thing."""
    return column_of(options.qualifiers, table, names) is not None


def qualifier_columns(source: Source, names: Sequence[str], options: TableOptions) -> list[int]:
    """Return the places of the columns that say more about the facts of their rows. Raise InputError for one that is not
    there."""
    for one in options.qualifiers:
        if column_of((one,), source.table, names) is None and not _of_other_table(one, source.table):
            raise InputError(f"{source.name} has no column {one} (--qualifier): its columns are {shown_names(names)}")
    return list(dict.fromkeys(_all_columns(options.qualifiers, source.table, names)))


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
    if empty and source.keys is not None:
        yield Parsed(lines=0, notes=(f"it has no complete row: {first_fault}expected {form.what}",))
    elif empty:
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


def person_columns(names: Sequence[str]) -> tuple[int, ...]:
    """Return the places of the columns that have a given name and a family name; nothing unless there are both.

    >>> person_columns(["id", "LastName", "first_name"]), person_columns(["id", "last name"])
    ((2, 1), ())
    """
    words = [in_words(name).lower() for name in names]
    pair = (next((at for at, one in enumerate(words) if one in some), None) for some in (_GIVEN_NAMES, _FAMILY_NAMES))
    found = tuple(at for at in pair if at is not None)
    return found if len(found) == 2 else ()


def with_persons(sources: Iterable[Source], options: TableOptions) -> TableOptions:
    """Return the options with both columns of a person's name as the name of rows, where one of them is given."""
    subjects, notes = list[str](), list[tuple[str, str]]()
    for source in sources:
        names = read_header(source, options, wanted_columns(options)).names
        pair = person_columns(names)
        if column_of(options.subjects, source.table, names) in pair:
            given, family = (names[at] for at in pair)
            subjects.append(f"{source.table}.{given}+{family}")
            notes.append((source.table, f"its rows are named by columns {given} and {family} together"))
    return replace(options, subjects=(*subjects, *options.subjects), notes=(*notes, *options.notes))


def of_tables(sources: Sequence[Source], options: TableOptions, *, may_be_others: bool) -> TableOptions:
    """Return the options in which a column that some of several tables have is that of those, as `TABLE.COLUMN`.

    `may_be_others`: the columns of other tables may be meant. Raises InputError for a column that no table has.
    """
    tables = {one.table: read_header(one, options, wanted_columns(options)).names for one in sources}

    def placed(option: str, given: Sequence[str]) -> tuple[str, ...]:
        found: list[str] = []
        for one in given:
            column = one.rpartition("=")[0] if option == "--list" else one
            of = [table for table, names in tables.items() if column_of((column,), table, names) is not None]
            if column and not of and not may_be_others:
                columns = "; ".join(f"{table} has {shown_names(names)}" for table, names in tables.items())
                raise InputError(f"no table has the column {column} ({option}): {columns}")
            is_of_all = len(of) in (0, len(tables)) or "." in column
            found += [one] if is_of_all else [f"{table}.{one}" for table in of]
        return tuple(found)

    return replace(
        options,
        ids=placed("--id", options.ids),
        descriptions=placed("--description", options.descriptions),
        aliases=placed("--alias", options.aliases),
        lists=placed("--list", options.lists),
        qualifiers=placed("--qualifier", options.qualifiers),
    )


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
        raise _no_column(source, header, missing, options)
    folded = [name.casefold() for name in names]
    twice = [one for one in options.columns or COLUMNS if folded.count(one.casefold()) > 1]
    if twice or len(set(places)) < 3:
        raise InputError(
            f"{source.name} has column {', '.join(twice) or names[places[0] or 0]} twice: its columns are "
            f"{shown_names(names)}: rename one of them",
            command=", or give their numbers with --columns 1,2,3",
        )
    return places[0] or 0, places[1] or 0, places[2] or 0


def _no_column(source: Source, header: Header, missing: Sequence[str], options: TableOptions) -> InputError:
    given = options.subjects or missing
    found = f"{source.name} has no column {', '.join(given)}: its columns are {shown_names(header.names)}: "
    if options.subjects or options.columns:
        option = "--subject" if options.subjects else "--columns"
        return InputError(found, command=f"correct {option}", clients="give one of these as that which names the rows")
    subject, why = _proposed_subject(source, header)
    give = f"give --subject {quoted(subject[:40]) if why else 'COLUMN'}{why or ', the one that names the rows,'}"
    if len(header.names) == 3 and header.kind == "CSV":
        command = f"give --no-header if this line is a fact, else --columns 1,2,3, or {give.removeprefix('give ')}"
        command += " if the other columns are predicates"
    else:
        command = f"{give} if the other columns are predicates, or --columns SUBJECT,PREDICATE,OBJECT"
    name = f"such as {subject}{why}, " if why else ""
    choose = f"give the column that names the rows, {name}or call three columns subject, predicate and object"
    return InputError(found, command=command, clients=choose)


def _proposed_subject(source: Source, header: Header) -> tuple[str, str]:
    """Return a column that can name the rows, and why it can, both "" for none: in the first rows no cell of it is empty, and
    all differ. One that is called a name comes first, then one of text. Before all comes a person's name in two columns."""
    columns: list[list[str]] = []
    with suppress(InputError):  # what is refused is the header
        first = next(clean_columns(source, header, range(len(header.names))), [])
        columns = [one.to_pylist() for one in first]
    found: list[tuple[int, str]] = []
    for name, cells in zip(header.names, columns, strict=False):
        if name and all(cells) and len(set(cells)) == len(cells):
            called = (at for at, one in enumerate(_NAMING) if re.match(one, name.replace("_", " "), re.IGNORECASE))
            is_text = all(re.search(r"[^\W\d_]{3}", cell) for cell in cells)
            found.append((next(called, len(_NAMING) + (not is_text)), name))
    if pair := person_columns(header.names):
        return "+".join(header.names[at] for at in pair), " (the given name and the family name)"
    if not found:
        return "", ""
    _, best = min(found, key=lambda one: one[0])
    return best, " (its cells differ, and none is empty)"


def clean_columns(source: Source, header: Header, places: Sequence[int]) -> Iterator[list[pa.Array]]:
    """Yield the cells of some columns of a table, clean, a block of rows at a time. Raises as `read_rows`."""
    found: list[list[pa.Array]] = []

    def keep(texts: list[pa.Array], _: object) -> Parsed:
        found.append([null_as_empty(clean_parts(one)) for one in texts])
        return Parsed(lines=len(texts[0]))

    for _ in read_rows(source, header, places, keep, lambda _: None):
        yield found.pop()


def shown_names(names: Sequence[str]) -> str:
    """Return the names of columns for a message."""
    return ", ".join(visible(name[:40]) for name in names[:60]) + (", …" if len(names) > 60 else "")


def quoted(text: str) -> str:
    """Return a text as a shell takes it for one word."""
    return f"'{text}'" if re.search(r"[^\w.=-]", text) else text


def _wide_form(source: Source, header: Header, subject: int, selection: Selection) -> TableForm:
    options, table, names = selection.tables, source.table, header.names
    key = key_column(options, table, names)
    for option, given in (("--description", options.descriptions), ("--alias", options.aliases), ("--id", options.ids)):
        for one in given:
            if column_of((one,), table, names) is None and not _of_other_table(one, table):
                raise InputError(f"{source.name} has no column {one} ({option}): its columns are {shown_names(names)}")
    _refuse_lists(source, header, (subject, key))
    qualifiers = frozenset(qualifier_columns(source, names, options))
    if taken := sorted(qualifiers & {subject, key}):
        raise InputError(f"{source.name}: column {names[taken[0]]} names the rows: it is no qualifier (--qualifier)")
    lists = lists_of(source, header, options) | dict.fromkeys(header.lists, BETWEEN)
    prefix = f"{table}:" if options.prefixed else ""
    keys, links, notes = dict[int, str](), dict[int, str](), options.notes_of_keys(table)
    for left, right in map(parts_of_key, options.keys):
        place = column_of((left,), table, names) if not _of_other_table(left, table) else None
        if place is not None and place != subject:
            other = right.rpartition(".")[0]
            is_own = other.casefold() == table.casefold()
            keys[place], links[place] = (
                prefix if is_own else f"{other}:",
                names_of_thing(other)[1] if place in header.joined else link_label(names[place], other),
            )
        elif place is None and left.casefold().startswith(f"{table.casefold()}."):
            raise InputError(
                f"{source.name} has no column {left.rpartition('.')[2]} (--key): its columns are {shown_names(names)}"
            )
    predicate_of = dict(enumerate(names))
    if key is not None and _is_linked_by_name(options, table, names[key]):  # links have that name, and mean the thing
        predicate_of[key], links[key] = f"{table}.{names[key]}", predicate_label(names[key]) or names[key]
    parts = {part for at in keys for part in header.joined.get(at, ())}  # of keys: they say nothing by themselves
    parts |= _numbers_of_rows(source, names) - {subject, *qualifiers} if qualifiers and key is None else set()
    unsaid = parts | header.joined.keys() - keys.keys()
    predicates = tuple("" if at in unsaid and at not in keys else name for at, name in predicate_of.items())
    others = {predicate_label(name) for at, name in enumerate(predicates) if at not in links and name}
    if "" in names:
        notes.append("a column without a name is ignored")
    if source.keys is not None:
        notes.insert(0, f"its rows are named by column {names[subject]}")
    plan = Plan(
        predicates=predicates,
        subject=subject,
        id=None if key == subject else key,
        descriptions=frozenset(_all_columns(options.descriptions, table, names)),
        aliases=frozenset(_all_columns(options.aliases, table, names)),
        prefix=prefix,
        keys=keys,
        links={at: label for at, label in links.items() if at == key or label not in others},
        whole=frozenset(_all_columns(options.whole, table, names)),
        lists=lists,
        row_of=options.row_of(table),
        needs_name=True,
        noun=names_of_thing(table)[1] if options.prefixed and key == subject else "",
        qualifiers=qualifiers,
        scope=source.name,
    )
    make = partial(rows_of_plan, plan, bool(selection.aliases))
    what = f"a name in column {names[subject]}"
    return TableForm(
        header=header, positions=tuple(range(len(names))), make=make, what=what, notes=(*source.notes, *notes)
    )


def _numbers_of_rows(source: Source, names: Sequence[str]) -> set[int]:
    """Return the columns that number rows: where several rows are about one thing, they say nothing of it."""
    numbers = {"id", *(one.casefold() for one in (source.keys.primary if source.keys is not None else ()))}
    return {at for at, name in enumerate(names) if name.casefold() in numbers}


def keys_of(options: TableOptions, table: str, names: Sequence[str]) -> dict[int, tuple[str, str]]:
    """Return the table and the column there that each key of a table leads to, by the key's place."""
    found: dict[int, tuple[str, str]] = {}
    for left, right in map(parts_of_key, options.keys):
        if not _of_other_table(left, table) and (at := column_of((left,), table, names)) is not None:
            found[at] = right.partition(".")[0], right.partition(".")[2]
    return found


def _link_form(source: Source, header: Header, keys: Mapping[int, tuple[str, str]], selection: Selection) -> TableForm:
    """Return how a table is read whose rows have no name and two keys: each row is a link between two others."""
    options = selection.tables
    qualifier_columns(source, header.names, options)  # all others are
    one, other = sorted(keys, key=lambda at: header.joined.get(at, (at,)))
    parts = {at for key in keys for at in header.joined.get(key, (key,))}
    key = key_column(options, source.table, header.names)
    keeps = [at not in parts and at != key and at not in keys for at in range(len(header.names))]
    thing = names_of_thing(keys[other][0])[1]
    link = thing if other in header.joined else link_label(header.names[other], keys[other][0])
    plan = EdgePlan(
        ends=(one, other),
        type=None,
        id=None,
        properties=tuple(name if kept else "" for name, kept in zip(header.names, keeps, strict=True)),
        prefixes=(f"{keys[one][0]}:", f"{keys[other][0]}:"),
        lists=dict.fromkeys(header.lists, BETWEEN),
        default_type=link,
        keeps=_keeps(selection),
        scope=source.name,
        of_rows=True,
        one_a_pair=key is not None and (key in parts or set(header.joined.get(key, (key,))) <= parts),
    )
    note = f"its rows are links from {keys[one][0]} to {keys[other][0]} ({link})"
    return TableForm(
        header=header,
        positions=tuple(range(len(header.names))),
        make=partial(edges_of_plan, plan),
        what="both keys in each row",
        notes=(*source.notes, note),
    )


def _is_linked_by_name(options: TableOptions, table: str, key: str) -> bool:
    """Return whether columns of other tables that are called as the key of a table lead to it."""
    parts = ((left.rpartition("."), right.rpartition(".")) for left, right in map(parts_of_key, options.keys))
    return any(
        right[0].casefold() == table.casefold() != left[0].casefold() and left[2].casefold() == key.casefold()
        for left, right in parts
    )


def refuse_unnamed(sources: Sequence[Source], options: TableOptions) -> None:
    """Raise InputError if several tables have no column that names their rows: it says one for each."""
    give, without = list[str](), list[str]()
    for source in sources:
        header = read_header(source, options, wanted_columns(options))
        names = header.names
        is_graph = any(name.casefold().endswith(_GRAPH_COLUMNS) for name in names)
        is_known = is_graph or column_of(options.subjects, source.table, names) is not None
        is_of_facts = len(names) == 3 and (header.kind == "rows" or not options.header)
        is_of_facts = is_of_facts or {one.casefold() for one in names}.issuperset(COLUMNS)
        if is_known or is_of_facts or len(keys_of(options, source.table, names)) == 2:
            continue
        subject, why = _proposed_subject(source, header)
        give.append(f"--subject {quoted(f'{source.table}.{subject}' if why else f'{source.table}.COLUMN')}")
        without.append(f"{source.table} ({shown_names(names)})" if not why else source.table)
    if len(give) > 1:
        raise InputError(
            f"no column is given that names the rows of the tables {', '.join(without)}: ",
            command=f"give {' '.join(give)} if the other columns are predicates",
            clients=f"give for each the column that names its rows, such as {', '.join(one[10:] for one in give)}",
        )


def _keeps(selection: Selection) -> Keeps | None:
    """Return what says which properties of edges are qualifiers; None without qualifiers."""
    if selection.qualifiers == ():
        return None
    given = {one.casefold() for one in selection.tables.qualifiers}
    return lambda name: name.casefold() in given or selection.keeps_qualifier(name)


def _of_other_table(given: str, table: str) -> bool:
    return "." in given and not given.casefold().startswith(f"{table.casefold()}.")


def _all_columns(given: Sequence[str], table: str, names: Sequence[str]) -> list[int]:
    return [at for one in given if (at := column_of((one,), table, names)) is not None]


def lists_of(source: Source, header: Header, options: TableOptions) -> dict[int, str]:
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
            keeps=_keeps(selection),
            scope=source.name,
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
    subject = column_of(selection.tables.subjects or NODE_NAMES, source.table, names)
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
