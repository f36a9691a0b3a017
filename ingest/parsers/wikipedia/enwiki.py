"""The parsers of English Wikipedia's dumps of the tables `page` and `page_props`, joined: titles, short descriptions.

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
"""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from refactx.ingest.parsers.parsed import Parsed, fault
from refactx.ingest.parsers.staging import SHORT_DESCRIPTION, TITLE, numbers_of_ids
from refactx.ingest.parsers.text import clean_parts
from refactx.ingest.parsers.values import language_rank
from refactx.ingest.parsers.wikipedia.mysql import DumpRows, read_rows
from refactx.ingest.selection import DEFAULT_SELECTION, Selection
from refactx.ingest.sources.source import Source
from refactx.ingest.work_database import WorkDatabase

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
        terms = {
            "entity": entities,
            "kind": pa.repeat(pa.scalar(kind, pa.uint8()), len(texts)),
            "rank": pa.repeat(pa.scalar(0, pa.uint8()), len(texts)),
            "text": texts,
        }
        result = Parsed(lines=0, tables={"terms": pa.table(terms)})
        if empty := len(batch) - len(texts):
            result.dropped["empty part"] = empty
        yield result


def _insert(work: WorkDatabase, name: str, rows: pa.Table) -> None:
    if len(rows):
        work.insert(name, rows)
