"""Databases as sources: all tables of SQLite or PostgreSQL with the keys that they declare, or the rows of a query.

A table is read as a file of its rows would be, with its primary key as `--id` and its foreign keys as `--key`. A database is
only read. A file of SQLite may be anybody's: nothing that it defines is run (no trigger fires on reading, views are left
out unless they are named, functions of its schema are not trusted).
"""

import itertools
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa

from refactx.errors import InputError
from refactx.fact import visible
from refactx.index.file import is_export
from refactx.ingest.parsers.tables import format_value
from refactx.ingest.sources import BatchSource, Source, TableKeys, format_by_name

_BATCH_ROWS = 122_880
_SQLITE = b"SQLite format 3\0"
_CELL_BYTES = 64 << 20
_SEPARATORS = str.maketrans(".=+", "___")
"""The characters that have a meaning in options, such as `TABLE.COLUMN`."""
_BYTES = ("blob", "bytea", "binary", "varbinary", "image")
_COLUMNS = """
SELECT n.nspname, c.relname, a.attname, format_type(a.atttypid, NULL), c.relkind IN ('v', 'm'),
    coalesce(array_position(p.conkey, a.attnum), 0)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_constraint p ON p.conrelid = c.oid AND p.contype = 'p'
WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') AND NOT c.relispartition
    AND n.nspname NOT IN ('information_schema', 'refactx') AND n.nspname !~ '^pg_'
    AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
ORDER BY 1, 2, a.attnum
"""
_FOREIGN = """
SELECT n.nspname, c.relname, array_agg(a.attname::text ORDER BY u.place), rn.nspname, r.relname,
    array_agg(ra.attname::text ORDER BY u.place)
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_class r ON r.oid = k.confrelid JOIN pg_namespace rn ON rn.oid = r.relnamespace
CROSS JOIN LATERAL unnest(k.conkey, k.confkey) WITH ORDINALITY AS u (own, other, place)
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.own
JOIN pg_attribute ra ON ra.attrelid = r.oid AND ra.attnum = u.other
WHERE k.contype = 'f' AND k.conparentid = 0 GROUP BY 1, 2, 4, 5, k.oid, k.conname ORDER BY 1, 2, k.conname
"""
ForeignKey = tuple[tuple[str, ...], str, tuple[str, ...]]


@dataclass
class _DatabaseTable:
    """A table of a database: what it is called, its name in SQL, its `columns` with their types, and its `primary` key: the
    columns by their places in it."""

    name: str
    quoted: str
    is_view: bool = False
    columns: dict[str, str] = field(default_factory=dict)
    primary: dict[int, str] = field(default_factory=dict)
    foreign: list[ForeignKey] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(self.primary[place] for place in sorted(self.primary))


def is_sqlite(path: Path) -> bool:
    """Return whether a file is a database of SQLite, whatever its name. Raises InputError if it is an exported index."""
    try:
        with path.open("rb") as file:
            start = file.read(100)
    except OSError:
        return False
    if is_export(start):
        raise InputError(f"{path} is an exported index, no source: add it with `refactx index import`")
    return start.startswith(_SQLITE)


def database_tables(address: str, named: Collection[str] = ()) -> list[Source]:
    """Return the tables of a database as sources; `address`: a file of SQLite, or a URL of SQLite or PostgreSQL.

    `named`: names, in lower case, of the views that are read too. Raises InputError if the database cannot be read, or has
    no table.
    """
    from refactx.postgres.connections import shown_address

    is_server = address.startswith("postgres")
    name = shown_address(address) if is_server else address
    tables = _postgres_tables(address) if is_server else _sqlite_tables(address)
    views = [table.name for table in tables if table.is_view and table.name.casefold() not in named]
    tables = [table for table in tables if table.name not in views]
    if not tables:
        also = f": its views are read if an option names them, such as --subject {views[0]}.COLUMN" if views else ""
        clients = f": export a view, such as {visible(views[0])}, as CSV, and give that" if views else ""
        raise InputError(f"{name} has no table", command=also, clients=clients)
    known = {table.name: table for table in tables}
    for table in tables:  # others may be left out; without a primary key, the id is what others refer to
        keys = table.foreign
        table.foreign = [key for key in keys if key[1] in known and set(key[2]) <= known[key[1]].columns.keys()]
        for _, other, columns in table.foreign:
            known[other].primary = known[other].primary or dict(enumerate(columns))
    names = dict(zip((table.name for table in tables), names_for_options(table.name for table in tables), strict=True))
    for table in tables:
        table.name = names[table.name]
        table.foreign = [(own, names[other], columns) for own, other, columns in table.foreign]
    found = [_source_of(table, tables, name, address) for table in tables]
    if views:
        shown = ", ".join(visible(one) for one in sorted(views)[:5]) + (", …" if len(views) > 5 else "")
        found[0].notes += (f"views of the database are left out, unless an option names them: {shown}",)
    return found


def query_source(address: str, query: str) -> BatchSource:
    """Return the rows of a query of SQLite (a file, or `sqlite:///file.db`) or PostgreSQL (`postgresql://host/database`)."""
    from refactx.postgres.connections import shown_address

    if address.startswith("postgres"):
        return BatchSource(shown_address(address), partial(_query_postgres, address, query))
    return BatchSource(address, partial(_query_sqlite, address, query))


def folder_tables(folder: Path, encoding: str | None = None) -> list[Source]:
    """Return the files of tables and JSON lines in a folder as sources. Raises InputError if there are none."""
    paths = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    found = [path for path in paths if format_by_name(path.name) in ("table", "JSON lines")]
    if not found:
        raise InputError(
            f"{folder} is a folder without tables (.csv, .tsv, .parquet, .jsonl): give the files in it, or another folder"
        )
    return [Source(path, encoding=encoding, keys=TableKeys()) for path in found]


def names_for_options(names: Iterable[str]) -> list[str]:
    """Return names of tables as options can have them, which differ without regard to case.

    >>> names_for_options(["v1.0", "V1_0", "a=b+c"])
    ['v1_0', 'V1_0_2', 'a_b_c']
    """
    found: dict[str, str] = {}
    for name in (one.translate(_SEPARATORS) for one in names):
        numbered = (f"{name}_{number}" for number in itertools.count(2))
        free = next(one for one in itertools.chain([name], numbered) if one.casefold() not in found)
        found[free.casefold()] = free
    return list(found.values())


def rows_of(values: Iterable[Sequence[object]], names: Sequence[str]) -> pa.RecordBatchReader:
    """Return rows of values of Python as columns of text, in batches.

    >>> rows_of([("Ann", 1956)], ["subject", "object"]).read_all().to_pylist()
    [{'subject': 'Ann', 'object': '1956'}]
    """
    schema = _schema_of(names)

    def batches() -> Iterator[pa.RecordBatch]:
        waiting = iter(values)
        while rows := list(itertools.islice(waiting, _BATCH_ROWS)):
            columns = [
                pa.array(list(map(format_value, column)), pa.large_string()) for column in zip(*rows, strict=True)
            ]
            yield pa.record_batch(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _schema_of(names: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, pa.large_string()) for name in names])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _source_of(table: _DatabaseTable, tables: Sequence[_DatabaseTable], database: str, address: str) -> Source:
    is_server = address.startswith("postgres")
    keys, foreign = {one.name: one for one in tables}, []
    cells = {name: _cell(name, kind, is_server=is_server) for name, kind in table.columns.items()}
    left_out = [name for name, kind in table.columns.items() if kind.casefold().partition("(")[0] in _BYTES]
    for own, other, columns in table.foreign:
        key = keys[other].key
        if columns != key and len(columns) == len(key) == 1:  # it refers to another column than that of the ids
            column, to = cells[own[0]], keys[other]
            is_needed = own[0] in table.key or sum(own[0] in used for used, _, _ in table.foreign) > 1
            own = (f"{own[0]} id",) if is_needed and f"{own[0]} id" not in cells else own  # noqa: PLW2901
            cells[own[0]] = (
                f"(SELECT {_quoted(key[0])} FROM {to.quoted} AS other WHERE other.{_quoted(columns[0])} = {column})"
            )
        elif set(columns) != set(key):
            continue
        in_order = own if len(key) == 1 else tuple(own[columns.index(one)] for one in key)
        foreign.append((in_order, other, key))
    names = [name for name in cells if name not in left_out] or list(cells)
    query = f"SELECT {', '.join(cells[name] for name in names)} FROM {table.quoted} AS own"
    read = _query_postgres if is_server else _query_sqlite
    in_keys = {*table.key, *(name for own, _, _ in foreign for name in own)}
    names = [_written((name,))[0] if name in in_keys else name for name in names]
    source = BatchSource(
        f"{database}: table {table.name}",
        partial(read, address, query, names),
        table=table.name,
        schema=_schema_of(names),
        keys=TableKeys(
            _written(table.key), tuple((_written(own), other, _written(key)) for own, other, key in foreign)
        ),
    )
    if left_out:
        source.notes = (f"column {visible(left_out[0])} has bytes, which are no facts",)
    return source


def _written(key: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a key as options can have them."""
    return tuple(name.translate(_SEPARATORS) for name in key)


def _cell(name: str, kind: str, *, is_server: bool) -> str:
    cell = f"own.{_quoted(name)}"
    if is_server and kind.endswith("[]"):
        return f"array_to_string({cell}, ', ')"
    return f"{cell}::text" if is_server and kind in ("json", "jsonb", "xml") else cell


def _sqlite_path(address: str) -> Path:
    if not address.startswith("sqlite:"):
        return Path(address)
    path = Path(unquote(address.removeprefix("sqlite://").removeprefix("/")))
    if not path.is_file():
        raise InputError(
            f"{address}: there is no file {path}: expected sqlite:///file.db, or sqlite:////folder/file.db"
        )
    return path


def _open_sqlite(address: str) -> sqlite3.Connection:
    """Open a file of SQLite, from which nothing is run: to read it alone, with limits."""
    path = _sqlite_path(address).absolute()
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, check_same_thread=False)
    connection.text_factory = bytes  # text that is not UTF-8 is a row of its own, not an error
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _CELL_BYTES)
    for pragma in ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _not_read(address: str, error: Exception, *, is_query: bool = False) -> InputError:
    if "is locked" in str(error):
        return InputError(f"{address} is being written by another program ({error}): try again when that has ended")
    if is_query:
        return InputError(f"{address} refuses the query: {error}: correct --query")
    return InputError(f"{address} cannot be read as a database of SQLite: {error}: check the file")


def _sqlite_tables(address: str) -> list[_DatabaseTable]:
    def text(value: bytes | None) -> str:
        return (value or b"").decode(errors="replace")

    found: dict[str, _DatabaseTable] = {}
    try:
        connection = _open_sqlite(address)
        try:
            for _, name, kind, *_ in connection.execute("PRAGMA main.table_list").fetchall():
                if kind in (b"table", b"view") and not text(name).startswith("sqlite_"):
                    found[text(name).casefold()] = _DatabaseTable(text(name), _quoted(text(name)), kind == b"view")
            for table in found.values():
                for _, name, type_, _, _, place, hidden in connection.execute(
                    'SELECT cid, name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)', [table.name]
                ):
                    if hidden != 1:
                        table.columns[text(name)] = text(type_)
                        table.primary |= {place: text(name)} if place else {}
            for table in found.values():
                _set_foreign(table, _sqlite_foreign(connection, table, found))
        finally:
            connection.close()
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise _not_read(address, error) from None
    return sorted(found.values(), key=lambda table: table.name)


def _sqlite_foreign(
    connection: sqlite3.Connection, table: _DatabaseTable, tables: dict[str, _DatabaseTable]
) -> Iterator[ForeignKey]:
    """Yield the foreign keys of a table; names are as the tables have them."""
    parts: defaultdict[int, list[tuple[str, bytes | None]]] = defaultdict(list)
    others: dict[int, _DatabaseTable] = {}
    rows = connection.execute(
        'SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(?) ORDER BY id, seq', [table.name]
    )
    for number, other, own, to in rows.fetchall():
        target = tables.get(other.decode(errors="replace").casefold())
        if target is not None:
            others[number] = target
            parts[number].append((own.decode(errors="replace"), to))
    own = {name.casefold(): name for name in table.columns}
    for number, columns in parts.items():
        target = others[number]
        spelt = {name.casefold(): name for name in target.columns}
        to = [spelt.get((one or b"").decode(errors="replace").casefold(), "") for _, one in columns]
        other = target.key if None in (one for _, one in columns) else tuple(to)
        names = tuple(own.get(name.casefold(), name) for name, _ in columns)
        if len(names) == len(other) and set(names) <= table.columns.keys():
            yield names, target.name, other


def _set_foreign(table: _DatabaseTable, keys: Iterable[ForeignKey]) -> None:
    """Give a table its foreign keys, in the order of their columns."""
    order = list(table.columns)
    table.foreign = sorted(keys, key=lambda key: [order.index(name) for name in key[0]])


def _query_sqlite(address: str, query: str, names: Sequence[str] | None = None) -> pa.RecordBatchReader:
    try:
        connection = _open_sqlite(address)
        cursor = connection.execute(query)
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise _not_read(address, error, is_query=names is None) from None
    return rows_of(
        _rows(cursor, address, is_query=names is None), names or [name for name, *_ in cursor.description or ()]
    )


def _rows(cursor: sqlite3.Cursor, address: str, *, is_query: bool) -> Iterator[Sequence[object]]:
    try:
        yield from cursor
    except sqlite3.Error as error:
        raise _not_read(address, error, is_query=is_query) from None
    finally:
        cursor.connection.close()


def _postgres_tables(address: str) -> list[_DatabaseTable]:
    from refactx.postgres.connections import stream_query

    found: dict[tuple[str, str], _DatabaseTable] = {}
    for schema, name, column, kind, is_view, place in stream_query(address, _COLUMNS)[1]:
        quoted = f"{_quoted(schema)}.{_quoted(name)}"
        table = found.setdefault((schema, name), _DatabaseTable(name, quoted, is_view))
        table.columns[column] = kind
        table.primary |= {place: column} if place else {}
    names = [name for _, name in found]
    for (schema, name), table in found.items():
        if names.count(name) > 1 and schema != "public":
            table.name = f"{schema}.{name}"
    for schema, name, own, to_schema, to_name, to in stream_query(address, _FOREIGN)[1]:
        one, other = found.get((schema, name)), found.get((to_schema, to_name))
        if one is not None and other is not None:
            _set_foreign(one, [*one.foreign, (tuple(own), other.name, tuple(to))])
    return sorted(found.values(), key=lambda table: table.name)


def _query_postgres(address: str, query: str, names: Sequence[str] | None = None) -> pa.RecordBatchReader:
    from refactx.postgres.connections import stream_query

    found, rows = stream_query(address, query)
    return rows_of(rows, names or found)
