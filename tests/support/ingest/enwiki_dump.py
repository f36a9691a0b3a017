"""`enwiki-…-page.sql` and `enwiki-…-page_props.sql` of a made-up world, as mysqldump writes them."""

from collections.abc import Iterable, Iterator

from support.ingest.dump_world import World

_BATCH_BYTES = 1 << 20
"""mysqldump's net_buffer_length: a longer INSERT statement is split."""


def page_sql(world: World, *, row_lines: bool = False) -> Iterator[bytes]:
    """Yield `enwiki-…-page.sql`, statement by statement; `row_lines`: as newer versions of mariadb-dump write it."""
    yield _header("page", _PAGE_TABLE)
    yield from _inserts("page", _page_rows(world), row_lines)
    yield _footer("page")


def page_props_sql(world: World, *, row_lines: bool = False) -> Iterator[bytes]:
    """Yield `enwiki-…-page_props.sql`, like `page_sql`."""
    yield _header("page_props", _PAGE_PROPS_TABLE)
    yield from _inserts("page_props", _page_props_rows(world), row_lines)
    yield _footer("page_props")


def quote(text: str) -> bytes:
    r"""Return a string as mysqldump writes it.

    >>> quote('O\'Brien "x"\\')
    b'\'O\\\'Brien \\"x\\"\\\\\''
    """
    escapes = {"\\": "\\\\", "'": "\\'", '"': '\\"', "\n": "\\n", "\r": "\\r", "\0": "\\0", "\x1a": "\\Z"}
    return f"'{''.join(escapes.get(c, c) for c in text)}'".encode()


_PAGE_TABLE = """\
  `page_id` int(8) unsigned NOT NULL AUTO_INCREMENT,
  `page_namespace` int(11) NOT NULL DEFAULT 0,
  `page_title` varbinary(255) NOT NULL DEFAULT '',
  `page_is_redirect` tinyint(1) unsigned NOT NULL DEFAULT 0,
  `page_is_new` tinyint(1) unsigned NOT NULL DEFAULT 0,
  `page_random` double unsigned NOT NULL DEFAULT 0,
  `page_touched` binary(14) NOT NULL,
  `page_links_updated` varbinary(14) DEFAULT NULL,
  `page_latest` int(8) unsigned NOT NULL DEFAULT 0,
  `page_len` int(8) unsigned NOT NULL DEFAULT 0,
  `page_content_model` varbinary(32) DEFAULT NULL,
  `page_lang` varbinary(35) DEFAULT NULL,
  PRIMARY KEY (`page_id`),
  UNIQUE KEY `page_name_title` (`page_namespace`,`page_title`),
  KEY `page_random` (`page_random`)
"""
_PAGE_PROPS_TABLE = """\
  `pp_page` int(8) unsigned NOT NULL,
  `pp_propname` varbinary(60) NOT NULL DEFAULT '',
  `pp_value` blob NOT NULL,
  `pp_sortkey` float DEFAULT NULL,
  PRIMARY KEY (`pp_page`,`pp_propname`),
  UNIQUE KEY `pp_propname_page` (`pp_propname`,`pp_page`)
"""


def _header(table: str, columns: str) -> bytes:
    return f"""\
/*M!999999\\- enable the sandbox mode */\x20
-- MariaDB dump 10.19  Distrib 10.5.29-MariaDB, for debian-linux-gnu (x86_64)
--
-- Host: db1234    Database: enwiki
-- ------------------------------------------------------
-- Server version\t10.11.13-MariaDB-log

/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40101 SET NAMES utf8mb4 */;
/*!40103 SET TIME_ZONE='+00:00' */;

--
-- Table structure for table `{table}`
--

DROP TABLE IF EXISTS `{table}`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `{table}` (
{columns}) ENGINE=InnoDB AUTO_INCREMENT=82000000 DEFAULT CHARSET=binary;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `{table}`
--

LOCK TABLES `{table}` WRITE;
/*!40000 ALTER TABLE `{table}` DISABLE KEYS */;
""".encode()


def _footer(table: str) -> bytes:
    return f"""\
/*!40000 ALTER TABLE `{table}` ENABLE KEYS */;
UNLOCK TABLES;
/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */;

-- Dump completed on 2025-11-20  3:04:05
""".encode()


def _inserts(table: str, rows: Iterable[bytes], row_lines: bool) -> Iterator[bytes]:
    start, separator = f"INSERT INTO `{table}` VALUES ".encode(), b","
    if row_lines:
        start, separator = start.rstrip() + b"\n", b",\n"
    held: list[bytes] = []
    size = 0
    for row in rows:
        if held and size + len(row) > _BATCH_BYTES:
            yield start + separator.join(held) + b";\n"
            held, size = [], 0
        held.append(row)
        size += len(row) + 1
    if held:
        yield start + separator.join(held) + b";\n"


def _page_rows(world: World) -> Iterator[bytes]:
    """Yield for each item its article and talk page, if it has any, and for some a redirect and a category."""
    for item in map(world.item, range(1, world.items + 1)):
        if item.title is not None:
            yield _page_row(item.number * 10, 0, item.title, redirect=False)
            yield _page_row(item.number * 10 + 1, 1, item.title, redirect=False)
            if item.number % 4 == 0:
                yield _page_row(item.number * 10 + 2, 0, f"{item.title} (other)", redirect=True)
        if item.number % 7 == 0:
            yield _page_row(item.number * 10 + 3, 14, f"Things {item.number}", redirect=False)
        if item.number % 11 == 0:
            yield _page_row(item.number * 10 + 4, 0, f"Without item {item.number}", redirect=False)


def _page_row(page: int, namespace: int, title: str, *, redirect: bool) -> bytes:
    updated = "NULL" if redirect else "'20251119101112'"
    start = f"({page},{namespace},".encode() + quote(title.replace(" ", "_"))
    return (
        start
        + f",{int(redirect)},0,0.{page * 7919 % 10**12:012d},'20251119101112',{updated},{10**9 + page},{page},".encode()
        + (b"'wikitext',NULL)")
    )


def _page_props_rows(world: World) -> Iterator[bytes]:
    for item in map(world.item, range(1, world.items + 1)):
        page = item.number * 10
        if item.title is not None:
            yield _props_row(page, "defaultsort", item.title.upper())
            yield _props_row(page, "wikibase_item", item.id)
            if item.short_description is not None:
                yield _props_row(page, "wikibase-shortdesc", item.short_description)
            if item.number % 4 == 0:
                yield _props_row(page + 2, "wikibase-shortdesc", "a redirect")
        if item.number % 7 == 0:
            yield _props_row(page + 3, "wikibase_item", f"Q{world.items * 3 + item.number}")
            yield _props_row(page + 3, "wikibase_badges", "1", "1")
        if item.number % 11 == 0:
            yield _props_row(page + 4, "wikibase-shortdesc", "an article without item")


def _props_row(page: int, name: str, value: str, sortkey: str = "NULL") -> bytes:
    return b"(%d,%b,%b,%b)" % (page, quote(name), quote(value), sortkey.encode())
