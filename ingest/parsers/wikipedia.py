r"""The parsers of English Wikipedia's dumps of the tables `page` and `page_props`, joined: titles, short descriptions.

| row | what becomes of it |
|---|---|
| `page`, namespace 0, no redirect | the title of its Wikidata item; without an item dropped as `no Wikidata item` |
| any other `page` | dropped: `other namespace`, `redirect` |
| `page_props`: `wikibase_item` | links an article to its item, dropped as `Wikidata item`; others: `not an article` |
| `page_props`: `wikibase-shortdesc` | the item's short description, or dropped: `not an article`, `no Wikidata item` |
| any other `page_props` | dropped: `other page property` |

If names come from another Wikipedia (`Selection.wikipedia`), titles are dropped as `other wiki`; if English is none of
the languages, short descriptions as `other language`. An article is a page in namespace 0 that is no redirect. The two
tables are joined by page id in a work database, which spills to disk what exceeds its memory. Schemas:
https://www.mediawiki.org/wiki/Manual:Page_table and .../Manual:Page_props_table.

A dump is text: comments, `CREATE TABLE`, and statements of a megabyte, ``INSERT INTO `t` VALUES (1,'a'),(2,NULL);``,
each on one line or (in newer versions) with one line for each row. The order of the columns is that of `CREATE TABLE`,
or of the statement's own list.

The rows of a block become CSV, which pyarrow reads. `),(` becomes a line feed; as strings contain no raw line feed (it
is written as `\n`), a `),(` inside a value can be restored. Before that, `\\` and `\'` become two bytes that a dump
always escapes, even in binary values, so that every remaining quotation mark begins or ends a string. A damaged block,
for which this fails, is read row by row with the grammar of a value, to the same result.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from refactx.errors import InputError
from refactx.ingest.parsers.parsed import SHORT_DESCRIPTION, TITLE, Parsed, clean_parts, fault, numbers_of_ids, terms_of
from refactx.ingest.parsers.values import language_rank
from refactx.ingest.source_options import DEFAULT_SELECTION, Selection
from refactx.ingest.sources import Source
from refactx.ingest.work import WorkDatabase

_CREATE = re.compile(rb"CREATE TABLE (?:IF NOT EXISTS )?`([^`]+)` \(")
_COLUMN = re.compile(rb"\s*`([^`]+)` ")
_INSERT = re.compile(rb"INSERT (?:IGNORE )?INTO `([^`]+)` (?:\(([^)]*)\) )?VALUES\s*")
_VALUE = rb"(?:_binary )?'([^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+)'|([^'(),]*)"
_ONE_VALUE = re.compile(_VALUE, re.DOTALL)
_ROW = re.compile(rb"\((?:%b)(?:,(?:%b))*\)" % (_VALUE, _VALUE), re.DOTALL)
_BACKSLASH, _QUOTE = b"\x1a", b"\0"
"""Stand-ins: mysqldump escapes these two bytes, so that they do not occur raw in a dump."""
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"0": b"\0", b"Z": b"\x1a"}
"""What some characters mean after a backslash (https://dev.mysql.com/doc/refman/8.4/en/string-literals.html)."""
_CSV_BLOCK = 4 << 20
_TEXT = pa.large_string()
_PAGE = {"page_id": pa.int64(), "page_namespace": pa.int64(), "page_title": _TEXT, "page_is_redirect": pa.int64()}
_PAGE_PROPS = {"pp_page": pa.int64(), "pp_propname": _TEXT, "pp_value": pa.large_binary()}
"""Values are bytes, since some properties have no text (TemplateData is compressed)."""
_ITEM, _SHORT = "wikibase_item", "wikibase-shortdesc"
_ITEM_ID = "^Q[1-9][0-9]{0,17}$"
_BATCH_ROWS = 122_880
"""A row group of DuckDB: inserts of this size take a third of the time of small ones."""
_ARTICLES = "CREATE TABLE articles (page BIGINT, title VARCHAR)"
_PROPERTIES = """
CREATE TABLE items (page BIGINT, item BIGINT);
CREATE TABLE short_descriptions (page BIGINT, text VARCHAR);
"""
# A page has one item. If a damaged dump has several, the least counts, so that a row is used at most once.
_ITEM_OF = """
CREATE TABLE item_of AS
SELECT page, min(item) AS item FROM items SEMI JOIN articles USING (page) GROUP BY page
"""
_TITLES = "SELECT item AS entity, title AS text FROM articles JOIN item_of USING (page)"
_DESCRIPTIONS = "SELECT item AS entity, text FROM short_descriptions JOIN item_of USING (page)"


@dataclass(slots=True, kw_only=True)
class DumpRows:
    """The rows of one block of a dump.

    `table` has the columns asked for. `line` is the number of the block's first line with rows. `count` is the number
    of rows, malformed ones included; `faults` has these as (line number, what is wrong).
    """

    table: pa.Table
    line: int
    count: int = 0
    faults: list[tuple[int, str]] = field(default_factory=list)


def read_rows(
    source: Source, name: str, types: Mapping[str, pa.DataType], advance: Callable[[int], object] = lambda _: None
) -> Iterator[DumpRows]:
    """Yield some columns of the rows of table `name` in a dump; rows of other tables are skipped.

    `types`: the columns and their types, `pa.int64()`, `pa.large_string()` for UTF-8 text, or `pa.large_binary()`. A
    row with a value that is not of its type is malformed; NULL becomes a null.

    Raises:
        InputError: the file is no dump, not one of that table, lacks a column or ends too early; or as `Source.blocks`.
    """
    reader = _InsertReader(source.name, name)
    for block in source.blocks(advance):
        row_lists = list(reader.row_lists(block))
        if row_lists:
            at, width = reader.positions(types), len(reader.columns)
            try:
                table = _read_csv([rows for _, rows in row_lists], at, width, types)
                parsed = DumpRows(table=table, line=row_lists[0][0], count=len(table))
            except (pa.ArrowInvalid, _NotPlainError):
                parsed = _read_each(row_lists, at, width, types)
            yield parsed
    reader.finish()


_RowList = tuple[int, bytes]
"""The number of a line, and the rows in it as they are written, `(1,'a'),(2,'b')`."""


class _InsertReader:
    """A reader of a dump's lines, which finds the rows of one table and the order of their columns."""

    def __init__(self, file: str, name: str) -> None:
        self._file, self._name = file, name
        self.columns: list[str] = []
        self._tables: list[str] = []
        self._creating = self._inserting = self._locked = self._any_rows = False
        self._line = 0
        self._first = b""

    def row_lists(self, block: bytes) -> Iterator[_RowList]:
        """Yield the rows in the lines of a block."""
        for line in block.removesuffix(b"\n").split(b"\n"):
            self._line += 1
            self._first = self._first or line[:200].strip()
            if self._inserting and line.lstrip().startswith(b"("):
                rows = line.strip()
            elif line.startswith(b"INSERT"):
                insert = _INSERT.match(line)
                if insert is None or insert[1].decode(errors="replace") != self._name:
                    continue
                if insert[2] is not None:
                    self.columns = [one.strip(b"` ").decode(errors="replace") for one in insert[2].split(b",")]
                self._inserting = self._any_rows = True
                rows = line[insert.end() :].strip()
            else:
                self._read_other(line)
                continue
            if rows.endswith(b";"):
                self._inserting = False
            if rows := rows.rstrip(b",;"):
                yield self._line, rows

    def positions(self, types: Mapping[str, pa.DataType]) -> dict[str, int]:
        """Return the place of each column in a row. Raise InputError if one is missing."""
        missing = [name for name in types if name not in self.columns]
        if missing:
            raise InputError(
                f"table {self._name} in {self._file} has no column {', '.join(missing)}: found "
                f"{', '.join(self.columns) or 'no CREATE TABLE before the rows'}; expected a dump made by MediaWiki"
            )
        return {name: self.columns.index(name) for name in types}

    def finish(self) -> None:
        """Raise InputError if the dump ended too early, or had no row of the table."""
        if self._inserting or self._locked or self._creating:
            raise InputError(
                f"{self._file} is truncated: it ends at line {self._line} within table {self._name}: download it again"
            )
        if self._any_rows:
            return
        if self._name in self._tables:
            raise InputError(f"{self._file} has table {self._name}, but no rows in it: download it again")
        if self._tables:
            found = f"found a dump of table {', '.join(self._tables)}: check which file is given for which option"
        else:
            found = f"it has no CREATE TABLE, and {fault('begins with', self._first.decode(errors='replace'))}; "
            found += "expected a file of dumps.wikimedia.org"
        raise InputError(f"{self._file} is not a MySQL dump of table {self._name}: {found}")

    def _read_other(self, line: bytes) -> None:
        if self._creating:
            column = _COLUMN.match(line)
            if column is not None and self._tables[-1] == self._name:
                self.columns.append(column[1].decode(errors="replace"))
            self._creating = not line.startswith(b")")
        elif (create := _CREATE.match(line)) is not None:
            self._tables.append(create[1].decode(errors="replace"))
            self._creating = True
        elif line.startswith(b"LOCK TABLES"):
            self._locked = f"`{self._name}`".encode() in line
        elif line.startswith(b"UNLOCK TABLES"):
            self._locked = False


class _NotPlainError(Exception):
    """Rows that cannot be turned into CSV and back without loss."""


def _read_csv(row_lists: list[bytes], at: dict[str, int], width: int, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Return the rows of a block by way of CSV. Raise ArrowInvalid or _NotPlainError if one is malformed."""
    lines = []
    for rows in row_lists:
        if not (rows.startswith(b"(") and rows.endswith(b")")):
            raise _NotPlainError
        lines.append(rows[1:-1])
    text = b"\n".join(lines)
    if _BACKSLASH in text or _QUOTE in text or b"\r" in text:
        raise _NotPlainError
    if b"\\" in text:
        text = text.replace(b"\\\\", _BACKSLASH).replace(b"\\'", _QUOTE)
    stand_ins = [one for one in (b"\\", _QUOTE, _BACKSLASH) if one in text]
    if b",_binary '" in text:
        text = text.replace(b",_binary '", b",'")
    if text.count(b"'") % 2:
        raise _NotPlainError
    text = text.replace(b"),(", b"\n")
    raw = {str(at[name]): type_ if type_ == pa.int64() else pa.large_binary() for name, type_ in types.items()}
    table = csv.read_csv(
        pa.BufferReader(text),
        csv.ReadOptions(column_names=[str(column) for column in range(width)], block_size=_CSV_BLOCK),
        csv.ParseOptions(quote_char="'", newlines_in_values=True, ignore_empty_lines=False),
        csv.ConvertOptions(
            include_columns=list(raw),
            column_types=raw,
            null_values=["NULL"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    columns = {}
    for (name, type_), column in zip(types.items(), table.columns, strict=True):
        columns[name] = column if type_ == pa.int64() else _unescape(column, stand_ins).cast(type_)
    return pa.table(columns)


def _unescape(column: pa.ChunkedArray, stand_ins: Sequence[bytes]) -> pa.Array:
    """Return the values that line feeds, stand-ins and escapes stand for; values without any are not touched."""
    column = column.combine_chunks()
    has_any = pc.match_substring(column, b"\n")
    for stand_in in stand_ins:
        has_any = pc.or_(has_any, pc.match_substring(column, stand_in))
    has_any = pc.fill_null(has_any, False)
    changed = pc.replace_substring(column.filter(has_any), b"\n", b"),(")
    changed = pc.replace_substring(changed, b'\\"', b'"')
    rare = pc.match_substring(changed, b"\\")  # escapes of control characters: one by one
    decoded = [
        _decode(value.replace(_BACKSLASH, b"\\\\").replace(_QUOTE, b"\\'"))
        for value in changed.filter(rare).to_pylist()
    ]
    for stand_in, meant in ((_QUOTE, b"'"), (_BACKSLASH, b"\\")):
        changed = pc.replace_substring(changed, stand_in, meant)
    if decoded:
        changed = pc.replace_with_mask(changed, rare, pa.array(decoded, pa.large_binary()))
    return pc.replace_with_mask(column, has_any, changed) if len(changed) else column


def _read_each(row_lists: list[_RowList], at: dict[str, int], width: int, types: Mapping[str, pa.DataType]) -> DumpRows:
    """Return the same rows, read one at a time, with a fault for each that cannot be read."""
    found: dict[str, list[object]] = {name: [] for name in types}
    result = DumpRows(table=pa.table({}), line=row_lists[0][0])
    for line, rows in row_lists:
        for row in _split_rows(rows):
            result.count += 1
            try:
                values = _values(row, width)
                read = [_convert(values[at[name]], type_) for name, type_ in types.items()]
            except ValueError as error:
                result.faults.append((line, fault(str(error), row[:200].decode(errors="replace"))))
                continue
            for column, value in zip(found.values(), read, strict=True):
                column.append(value)
    result.table = pa.table({name: pa.array(found[name], type_) for name, type_ in types.items()})
    return result


def _split_rows(rows: bytes) -> Iterator[bytes]:
    """Yield the rows of a statement; after a damaged one, continue at the next `),(`."""
    position = 0
    while position < len(rows):
        row = _ROW.match(rows, position)
        end = row.end() if row else -1
        if end != len(rows) and rows[end : end + 2] != b",(":
            end = rows.find(b"),(", position) + 1 or len(rows)
        yield rows[position:end]
        position = end + 1


def _values(row: bytes, width: int) -> list[bytes | None]:
    """Return the decoded values of a row; None for NULL. Raise ValueError if the row is malformed."""
    if _ROW.fullmatch(row) is None:
        raise ValueError("not a row of values")
    values: list[bytes | None] = []
    position = 1
    while position < len(row):
        value = _ONE_VALUE.match(row, position)
        assert value is not None  # noqa: S101 - the row consists of them
        values.append(_decode(value[1]) if value[1] is not None else None if value[2] == b"NULL" else value[2])
        position = value.end() + 1
    if len(values) != width:
        raise ValueError(f"{len(values)} values instead of {width}")
    return values


def _decode(text: bytes) -> bytes:
    return re.sub(rb"\\(.)|''", lambda m: _ESCAPES.get(m[1], m[1]) if m[1] else b"'", text, flags=re.DOTALL)


def _convert(value: bytes | None, type_: pa.DataType) -> object:
    if value is None:
        return None
    if type_ == pa.large_binary():
        return value
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    if type_ == pa.large_string():
        return text
    if not re.fullmatch(r"-?[0-9]{1,18}", text, re.ASCII):
        raise ValueError(f"{text[:40]!r} is not a number")
    return int(text)


def parse_page(
    source: Source, work: WorkDatabase, advance: Callable[[int], object] = lambda _: None
) -> Iterator[Parsed]:
    """Read the dump of `page` into the database `work`, for `parse_page_props`, and yield the account of its rows.

    `lines` counts rows; titles come from `parse_page_props`. Raises InputError, as `mysql.read_rows`.
    """
    work.execute(_ARTICLES)
    for rows in read_rows(source, "page", _PAGE, advance):
        yield _load_pages(work, rows)


def parse_page_props(
    source: Source,
    work: WorkDatabase,
    selection: Selection = DEFAULT_SELECTION,
    advance: Callable[[int], object] = lambda _: None,
) -> Iterator[Parsed]:
    """Read the dump of `page_props`, and yield the account of its rows, then the terms that both dumps give.

    The last blocks have the rows of `terms`, of kinds TITLE and SHORT_DESCRIPTION, and count as dropped those rows of
    earlier blocks that have no partner in the other table. Then the tables of both dumps are removed from `work`.
    Raises InputError, as `mysql.read_rows`.
    """
    work.execute(_PROPERTIES)
    for rows in read_rows(source, "page_props", _PAGE_PROPS, advance):
        yield _load_page_props(work, rows)
    work.execute(_ITEM_OF)
    yield _drop_without_partner(work)
    if selection.wikipedia == "en":
        yield from _read_terms(work, _TITLES, TITLE, underscores=True)
    else:
        yield _drop_all(work, _TITLES, "other wiki")
    if language_rank("en", selection.languages) is not None:
        yield from _read_terms(work, _DESCRIPTIONS, SHORT_DESCRIPTION, underscores=False)
    else:
        yield _drop_all(work, _DESCRIPTIONS, "other language")
    for table in ("articles", "items", "short_descriptions", "item_of"):
        work.execute(f"DROP TABLE {table}")


def _load_pages(work: WorkDatabase, read: DumpRows) -> Parsed:
    rows = read.table
    result = Parsed(lines=read.count, statements=len(rows), faults=read.faults)
    in_main = pc.equal(rows["page_namespace"], 0)
    articles = rows.filter(pc.and_(in_main, pc.equal(rows["page_is_redirect"], 0)))
    main = pc.sum(in_main).as_py() or 0
    result.dropped["other namespace"] = len(rows) - main
    result.dropped["redirect"] = main - len(articles)
    _insert(work, "articles", articles.select(["page_id", "page_title"]))
    return result


def _load_page_props(work: WorkDatabase, read: DumpRows) -> Parsed:
    rows = read.table
    result = Parsed(lines=read.count, statements=len(rows), faults=read.faults)
    items = rows.filter(pc.equal(rows["pp_propname"], _ITEM)).select(["pp_page", "pp_value"])
    short = rows.filter(pc.equal(rows["pp_propname"], _SHORT)).select(["pp_page", "pp_value"])
    result.dropped["other page property"] = len(rows) - len(items) - len(short)
    is_id = pc.fill_null(pc.match_substring_regex(items["pp_value"], _ITEM_ID), False)
    items = _keep_good(items, is_id, "no Wikidata item", read.line, result)
    try:
        short["pp_value"].cast(_TEXT)
    except pa.ArrowInvalid:
        short = _keep_good(short, _is_utf8(short["pp_value"]), "no UTF-8 in a short description", read.line, result)
    _insert(work, "items", pa.table({"page": items["pp_page"], "item": numbers_of_ids(items["pp_value"].cast(_TEXT))}))
    _insert(work, "short_descriptions", short.set_column(1, "pp_value", short["pp_value"].cast(_TEXT)))
    return result


def _keep_good(rows: pa.Table, good: pa.ChunkedArray, what: str, line: int, result: Parsed) -> pa.Table:
    """Return the good rows; add a fault for each other row, with its page and the first line of its block."""
    for row in rows.filter(pc.invert(good)).to_pylist():
        value = (row["pp_value"] or b"NULL").decode(errors="replace")
        result.faults.append((line, fault(f"{what}, on this line or after it: page {row['pp_page']}", value)))
        result.statements -= 1
    return rows.filter(good)


def _is_utf8(values: pa.ChunkedArray) -> pa.Array:
    def is_utf8(value: bytes | None) -> bool:
        try:
            return value is None or value.decode() is not None
        except UnicodeDecodeError:
            return False

    return pa.array([is_utf8(value) for value in values.to_pylist()], pa.bool_())


def _drop_all(work: WorkDatabase, query: str, reason: str) -> Parsed:
    """Return an account that drops the rows of a query for a reason."""
    result = Parsed(lines=0)
    result.dropped[reason] = work.number(f"SELECT count(*) FROM ({query})")
    return result


def _drop_without_partner(work: WorkDatabase) -> Parsed:
    """Return an account that drops the rows that name an item, and those without a partner in the other table."""

    def count(query: str) -> int:
        return work.number(f"SELECT count(*) FROM {query}")

    result = Parsed(lines=0)
    of_articles = count("items SEMI JOIN articles USING (page)")
    described_articles = count("short_descriptions SEMI JOIN articles USING (page)")
    result.dropped["Wikidata item"] = of_articles
    result.dropped["not an article"] = count("items") - of_articles + count("short_descriptions") - described_articles
    result.dropped["no Wikidata item"] = (
        count("articles ANTI JOIN item_of USING (page)")
        + described_articles
        - count("short_descriptions SEMI JOIN item_of USING (page)")
    )
    result.dropped = +result.dropped
    return result


def _read_terms(work: WorkDatabase, query: str, kind: int, *, underscores: bool) -> Iterator[Parsed]:
    """Yield the rows of a query as terms with clean texts; those without visible text are dropped."""
    for batch in work.batches(query, _BATCH_ROWS):
        texts = batch["text"].cast(_TEXT)
        if underscores:
            texts = pc.replace_substring(texts, "_", " ")
        texts = clean_parts(texts)
        visible = pc.not_equal(texts, "")
        entities, texts = batch["entity"].filter(visible), texts.filter(visible)
        result = Parsed(lines=0, tables={"terms": terms_of(entities, kind, texts)})
        if empty := len(batch) - len(texts):
            result.dropped["empty part"] = empty
        yield result


def _insert(work: WorkDatabase, name: str, rows: pa.Table) -> None:
    if len(rows):
        work.insert(name, rows)
