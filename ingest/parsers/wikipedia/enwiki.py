"""Titles and short descriptions of English Wikipedia: its dumps of the tables `page` and `page_props`, joined.

| row | what becomes of it |
|---|---|
| `page`, namespace 0, no redirect | the title of its Wikidata item; without one dropped: `no Wikidata item` |
| any other `page` | dropped: `other namespace`, `redirect` |
| `page_props`: `wikibase_item` | ties a page to its item and is dropped as `Wikidata item`; of no article: `not an article` |
| `page_props`: `wikibase-shortdesc` | the item's short description; dropped as `not an article`, `no Wikidata item` |
| any other `page_props` | dropped: `other page property` |

Where names come from another Wikipedia (`Selection.wikipedia`), titles are dropped as `other wiki`; where English is none of
the languages, short descriptions as `other language`. An article is a page in namespace 0 that is no redirect. The two
tables are joined by page id, out of core: their rows go to tables of a work database, under its limit on memory, and spill
to its folder. Schemas: https://www.mediawiki.org/wiki/Manual:Page_table and .../Manual:Page_props_table.
"""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from ...parsers.cleaning import clean_parts
from ...parsers.parsed import Parsed, fault
from ...parsers.values import language_rank
from ...parsers.wikidata.rules import SHORT_DESCRIPTION, TITLE
from ...parsers.wikipedia.mysql import Rows, read_rows
from ...selection import Selection
from ...sources.source import Source
from ...work_database import Work, number

_ALL = Selection()
_TEXT = pa.large_string()
_PAGE = {"page_id": pa.int64(), "page_namespace": pa.int64(), "page_title": _TEXT, "page_is_redirect": pa.int64()}
_PAGE_PROPS = {"pp_page": pa.int64(), "pp_propname": _TEXT, "pp_value": pa.large_binary()}
"""Values of other properties are not text: TemplateData, say, is compressed."""
_ITEM, _SHORT = "wikibase_item", "wikibase-shortdesc"
_ITEM_ID = "^Q[1-9][0-9]{0,17}$"
_BATCH_ROWS = 122_880
"""DuckDB's row group: larger inserts are written in a third of the time of small ones."""

_ARTICLES = "CREATE TABLE articles (page BIGINT, title VARCHAR)"
_PROPERTIES = """
CREATE TABLE items (page BIGINT, item BIGINT);
CREATE TABLE short_descriptions (page BIGINT, text VARCHAR);
"""
# A page has one item: should a damaged dump say more, the least of them, so that a row is used once at most.
_ITEM_OF = """
CREATE TABLE item_of AS
SELECT page, min(item) AS item FROM items SEMI JOIN articles USING (page) GROUP BY page
"""
_TITLES = "SELECT 'Q' || item AS entity, title AS text FROM articles JOIN item_of USING (page)"
_DESCRIPTIONS = "SELECT 'Q' || item AS entity, text FROM short_descriptions JOIN item_of USING (page)"


def parse_page(source: Source, work: Work, advance: Callable[[int], object] = lambda _: None) -> Iterator[Parsed]:
    """The dump of `page`, kept in the database `work` for `parse_page_props`; `lines` counts rows. Titles come from there.

    Raises InputError, as `sql_dump.read_rows`.
    """
    work.execute(_ARTICLES)
    for rows in read_rows(source, "page", _PAGE, advance):
        yield _page_rows(work, rows)


def parse_page_props(
    source: Source,
    work: Work,
    selection: Selection = _ALL,
    advance: Callable[[int], object] = lambda _: None,
) -> Iterator[Parsed]:
    """The dump of `page_props`, and then what both dumps say: rows of `terms`, of kinds TITLE and SHORT_DESCRIPTION.

    The last blocks hold the terms, and what was dropped for want of a partner among rows counted before. The tables of both
    dumps are gone from `work` then. Raises InputError, as `sql_dump.read_rows`.
    """
    work.execute(_PROPERTIES)
    for rows in read_rows(source, "page_props", _PAGE_PROPS, advance):
        yield _page_props_rows(work, rows)
    work.execute(_ITEM_OF)
    yield _without_partner(work)
    if selection.wikipedia == "en":
        yield from _terms(work, _TITLES, TITLE, underscores=True)
    else:
        yield _unwanted(work, _TITLES, "other wiki")
    if language_rank("en", selection.languages) is not None:
        yield from _terms(work, _DESCRIPTIONS, SHORT_DESCRIPTION, underscores=False)
    else:
        yield _unwanted(work, _DESCRIPTIONS, "other language")
    for table in ("articles", "items", "short_descriptions", "item_of"):
        work.execute(f"DROP TABLE {table}")


def _page_rows(work: Work, read: Rows) -> Parsed:
    rows = read.table
    result = Parsed(read.count, len(rows), faults=read.faults)
    in_main = pc.equal(rows["page_namespace"], 0)
    articles = rows.filter(pc.and_(in_main, pc.equal(rows["page_is_redirect"], 0)))
    main = pc.sum(in_main).as_py() or 0
    result.dropped["other namespace"] = len(rows) - main
    result.dropped["redirect"] = main - len(articles)
    _insert(work, "articles", articles.select(["page_id", "page_title"]))
    return result


def _page_props_rows(work: Work, read: Rows) -> Parsed:
    rows = read.table
    result = Parsed(read.count, len(rows), faults=read.faults)
    items = rows.filter(pc.equal(rows["pp_propname"], _ITEM)).select(["pp_page", "pp_value"])
    short = rows.filter(pc.equal(rows["pp_propname"], _SHORT)).select(["pp_page", "pp_value"])
    result.dropped["other page property"] = len(rows) - len(items) - len(short)
    is_id = pc.fill_null(pc.match_substring_regex(items["pp_value"], _ITEM_ID), False)
    items = _without(items, is_id, "no Wikidata item", read.line, result)
    try:
        short["pp_value"].cast(_TEXT)
    except pa.ArrowInvalid:
        short = _without(short, _is_utf8(short["pp_value"]), "no UTF-8 in a short description", read.line, result)
    numbers = pc.utf8_slice_codeunits(items["pp_value"].cast(_TEXT), 1).cast(pa.int64())
    _insert(work, "items", pa.table({"page": items["pp_page"], "item": numbers}))
    _insert(work, "short_descriptions", short.set_column(1, "pp_value", short["pp_value"].cast(_TEXT)))
    return result


def _without(rows: pa.Table, good: pa.ChunkedArray, what: str, line: int, result: Parsed) -> pa.Table:
    """The good rows; the others are faults, at the first line of their block, with the page to find them by."""
    for row in rows.filter(pc.invert(good)).to_pylist():
        value = (row["pp_value"] or b"NULL").decode(errors="replace")
        result.faults.append((line, fault(f"{what}, in this line or behind it: page {row['pp_page']}", value)))
        result.statements -= 1
    return rows.filter(good)


def _is_utf8(values: pa.ChunkedArray) -> pa.Array:
    def is_utf8(value: bytes | None) -> bool:
        try:
            return value is None or value.decode() is not None
        except UnicodeDecodeError:
            return False

    return pa.array([is_utf8(value) for value in values.to_pylist()], pa.bool_())


def _unwanted(work: Work, query: str, reason: str) -> Parsed:
    """The rows of a query dropped for a reason."""
    result = Parsed(0)
    result.dropped[reason] = number(work, f"SELECT count(*) FROM ({query})")
    return result


def _without_partner(work: Work) -> Parsed:
    def count(query: str) -> int:
        return number(work, f"SELECT count(*) FROM {query}")

    result = Parsed(0)
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


def _terms(work: Work, query: str, kind: int, *, underscores: bool) -> Iterator[Parsed]:
    """What a query gives as terms, the texts clean; those with nothing visible are dropped."""
    for batch in work.sql(query).to_arrow_reader(_BATCH_ROWS):
        texts = batch["text"].cast(_TEXT)
        if underscores:
            texts = pc.replace_substring(texts, "_", " ")
        texts = clean_parts(texts)
        visible = pc.not_equal(texts, "")
        entities, texts = batch["entity"].cast(_TEXT).filter(visible), texts.filter(visible)
        terms = {
            "entity": entities,
            "kind": pa.repeat(pa.scalar(kind, pa.uint8()), len(texts)),
            "rank": pa.repeat(pa.scalar(0, pa.uint8()), len(texts)),
            "text": texts,
        }
        result = Parsed(0, tables={"terms": pa.table(terms)})
        if empty := len(batch) - len(texts):
            result.dropped["empty part"] = empty
        yield result


def _insert(work: Work, name: str, rows: pa.Table) -> None:
    if len(rows):
        work.register("rows", rows)
        work.execute(f"INSERT INTO {name} SELECT * FROM rows")
        work.unregister("rows")
