"""What names the rows of the tables of a database, a workbook or a folder, if no option says it.

It is a column that is called a name, a title or a label, or a given name and a family name together; else the key of the
table (`invoice 5`). A table of two keys and no name has no rows of its own: each is a link between two others.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from refactx.ingest.parsers.columns import (
    column_of,
    has_qualifiers,
    key_column,
    keys_of,
    parts_of_key,
    person_columns,
    wanted_columns,
)
from refactx.ingest.parsers.records import names_of_thing
from refactx.ingest.parsers.tables import Header, read_header
from refactx.ingest.profile import in_words
from refactx.ingest.source_options import TableOptions
from refactx.ingest.sources import Source

_NAMES = (
    r"name|title|label",
    r"{table}(?: ?(?:name|title|label))?",
    r".* (?:name|title|label)",
    r".*(?:name|title|label)",
)


def with_names(sources: Sequence[Source], options: TableOptions) -> TableOptions:
    """Return the options with the keys that tables declare, and a column that names the rows of each.

    It is the first two columns together where that cannot be known before keys are (`settle_names`).
    """
    tables = [source for source in sources if source.keys is not None]
    if not tables:
        return options
    options = _declared(tables, options)
    subjects = list(options.subjects)
    for source in tables:
        header = _header(source, options)
        if column_of(subjects, source.table, header.names) is None:
            places = _called_name(source.table, header, options) or _before_keys(source, header, options)
            subjects.append(_named(source, header, places))
    several = len({source.table for source in sources}) > 1
    return replace(options, subjects=tuple(subjects), prefixed=options.prefixed or several)


def settle_names(sources: Sequence[Source], given: TableOptions, options: TableOptions) -> TableOptions:
    """Return the options that `with_names` has made of those that were `given`, and to which keys were added, without names
    of the rows that are links, and with one column as the name of others that have none."""
    subjects = list(options.subjects)
    for source in sources:
        if source.keys is None:
            continue
        header = _header(source, options)
        names, table = header.names, source.table
        if column_of(given.subjects, table, names) is not None or _called_name(table, header, options):
            continue
        keys, key = keys_of(options, table, names), key_column(options, table, names)
        parts = {at for one in keys for at in header.joined.get(one, (one,))}
        before = _named(source, header, _before_keys(source, header, options))
        chosen = [one for one in subjects if one != before]
        is_of_links = key is None or set(header.joined.get(key, (key,))) <= parts
        if len(keys) == 2 and (is_of_links or has_qualifiers(table, names, options)):
            subjects = chosen
        elif key is None:
            own = (at for at, name in enumerate(names) if name and at not in parts and at not in header.joined)
            subjects = [*chosen, _named(source, header, [next(own, 0)])]
    return replace(options, subjects=tuple(subjects))


def _before_keys(source: Source, header: Header, options: TableOptions) -> list[int]:
    """Return the places of the columns that name rows which no column is called the name of: that of the key, else the first
    two, neither of which is then taken for a name when keys are looked for."""
    key = _key(source, header, options)
    return list(range(len(header.names)))[:2] if key is None else [key]


def _named(source: Source, header: Header, places: Sequence[int]) -> str:
    return f"{source.table}.{'+'.join(header.names[at] for at in places)}"


def declares_keys(sources: Iterable[Source]) -> bool:
    """Return whether all tables are of a database, and one has a foreign key: then no other keys are looked for."""
    keys = [source.keys for source in sources if not source.is_labels]
    return all(keys) and any(one.foreign for one in keys if one is not None)


def _declared(sources: Sequence[Source], options: TableOptions) -> TableOptions:
    """Return the options with the keys that tables declare, unless others are given."""
    ids, keys = list(options.ids), list(options.keys)
    given = {left.casefold() for left, _ in map(parts_of_key, keys)}
    for source in sources:
        if source.keys is None:
            continue
        table = source.table
        names = _header(source, options).names if options.qualifiers else ()
        is_key = column_of(options.subjects, table, names) is None or not has_qualifiers(table, names, options)
        if is_key and source.keys.primary and not any(one.casefold().startswith(f"{table.casefold()}.") for one in ids):
            ids.append(f"{table}.{'+'.join(source.keys.primary)}")
        for own, other, columns in source.keys.foreign:
            left = f"{table}.{'+'.join(own)}"
            if left.casefold() not in given:
                keys.append(f"{left}={other}.{'+'.join(columns)}")
    return replace(options, ids=tuple(ids), keys=tuple(keys))


def _header(source: Source, options: TableOptions) -> Header:
    """Return the header of a table; of JSON lines the fields of the first object."""
    if source.format_by_name != "JSON lines":
        return read_header(source, options, wanted_columns(options))
    first = next((line for line in source.first_lines().split(b"\n") if line.strip()), b"{}")
    try:
        value = json.loads(first)
    except ValueError:
        value = {}
    return Header(kind="rows", names=tuple(value) if isinstance(value, dict) and value else ("",))


def _called_name(table: str, header: Header, options: TableOptions) -> list[int]:
    """Return the places of the columns that are called the name of a row, if there are any."""
    keys = keys_of(options, table, header.names)
    parts = {at for key in keys for at in header.joined.get(key, (key,))}
    own = {
        at: " ".join(in_words(name).lower().split())
        for at, name in enumerate(header.names)
        if name and at not in parts and at not in header.joined
    }
    if pair := person_columns([name if at in own else "" for at, name in enumerate(header.names)]):
        return list(pair)
    for form in _NAMES:
        called = re.compile(form.format(table=re.escape(names_of_thing(table)[1])))
        if found := [at for at, name in own.items() if called.fullmatch(name)]:
            return found[:1]
    return []


def _key(source: Source, header: Header, options: TableOptions) -> int | None:
    """Return the place of the key of a table, or of what may be its key: the column `id` or `TABLE_id`."""
    key = key_column(options, source.table, header.names)
    if key is None:
        noun = names_of_thing(source.table)[1]
        key = column_of(
            [f"{one}{end}" for one in (source.table, noun) for end in ("_id", "id", " id")] + ["id"],
            source.table,
            header.names,
        )
    return key
