"""Files of the exact form of the dumps that Wikimedia publishes, at any size, and the truth about what they say.

`World(seed, items)` is a made-up Wikidata with its English Wikipedia. Everything about an entity follows from the seed and
its number alone, so that files of any size are written as a stream:

* `truthy_lines`: `latest-truthy.nt`, in dump order and with all its vocabularies
* `page_sql`, `page_props_sql`: `enwiki-…-page.sql` and `enwiki-…-page_props.sql`

`truth` gives what an ingest has to find in them.
"""

import gzip
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

WD = "http://www.wikidata.org/entity/"
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_LABELS = (
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://www.w3.org/2004/02/skos/core#prefLabel",
    "http://schema.org/name",
)
_ALIAS = "http://www.w3.org/2004/02/skos/core#altLabel"
_DESCRIPTION = "http://schema.org/description"
_SCHEMA = "http://schema.org/"
_WIKIBASE = "http://wikiba.se/ontology#"
_OWL = "http://www.w3.org/2002/07/owl#"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_WKT = "http://www.opengis.net/ont/geosparql#wktLiteral"
_CC0 = "<http://creativecommons.org/publicdomain/zero/1.0/>"
_DATATYPES = (
    *(
        "WikibaseItem",
        "WikibaseItem",
        "WikibaseItem",
        "WikibaseProperty",
        "String",
        "Monolingualtext",
        "Quantity",
        "Time",
    ),
    *("GlobeCoordinate", "Url", "ExternalId", "CommonsMedia", "GeoShape", "TabularData", "Math", "MusicalNotation"),
    *("WikibaseLexeme", "WikibaseForm", "WikibaseSense"),
)
"""P1 has the first of these datatypes, P2 the second and so on, over again."""
_SYLLABLES = (
    "ka",
    "lo",
    "mi",
    "ren",
    "tus",
    "O'",
    "vá",
    "ß",
    "東京",
    "ду",
    "Ð",
    "é",
    "x",
    "\U0001f600",
    "-",
    "St. ",
    "), (",
)
_WORDS = (
    "album",
    "village in",
    "river of",
    'the "Red"',
    "Ann's",
    "1990 film by",
    "back\\slash",
    "painter",
    "a),(b",
    "species",
)
_LANGUAGES = ("de", "fr", "ru", "zh-hans")
_BATCH_BYTES = 1 << 20
"""net_buffer_length, after which mysqldump begins a new INSERT statement."""


@dataclass(frozen=True)
class Item:
    """An item; `title` is that of its English Wikipedia article."""

    number: int
    label: str | None
    description: str | None
    title: str | None
    short_description: str | None
    claims: tuple[tuple[int, str, str | None], ...]
    """Property, the object in N-Triples, and the object of the fact that it makes: an id, a text, or None for no fact."""

    @property
    def id(self) -> str:
        return f"Q{self.number}"


@dataclass(frozen=True)
class Truth:
    """What is to be found. Facts are (subject id, property id, object id or text), for subjects and objects with a name."""

    titles: dict[str, str] = field(default_factory=dict)
    short_descriptions: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)
    facts: set[tuple[str, str, str]] = field(default_factory=set)


@dataclass(frozen=True)
class World:
    """So many items (Q1 to Q`items`) and properties (P1 to P`properties`)."""

    seed: int
    items: int
    properties: int = len(_DATATYPES)

    def item(self, number: int) -> Item:
        chance = random.Random(f"{self.seed} Q{number}")
        label = _name(chance) if chance.random() < 0.9 else None
        title = f"{_name(chance).capitalize()} {number}" if chance.random() < 0.5 else None
        return Item(
            number,
            label,
            _phrase(chance) if chance.random() < 0.7 else None,
            title,
            _phrase(chance) if title and chance.random() < 0.6 else None,
            tuple(self._claim(chance) for _ in range(chance.randint(0, 8))),
        )

    def property_label(self, number: int) -> str:
        return f"{random.Random(f'{self.seed} P{number}').choice(('part', 'place', 'type', 'number'))} of {number}"

    def named(self, entity: str) -> bool:
        """Whether an item or property has a name."""
        if entity[0] == "P":
            return int(entity[1:]) <= self.properties
        number = int(entity[1:])
        if number > self.items:
            return False
        item = self.item(number)
        return item.label is not None or item.title is not None

    def _claim(self, chance: random.Random) -> tuple[int, str, str | None]:
        property_ = chance.randint(1, self.properties)
        if chance.random() < 0.03:
            return property_, f"<http://www.wikidata.org/.well-known/genid/{chance.getrandbits(128):032x}>", None
        return property_, *self._value(chance, _DATATYPES[(property_ - 1) % len(_DATATYPES)])

    def _value(self, chance: random.Random, datatype: str) -> tuple[str, str | None]:
        match datatype:
            case "WikibaseItem":
                id_ = f"Q{chance.randint(1, self.items + self.items // 20)}"  # some were deleted since
                return f"<{WD}{id_}>", id_
            case "WikibaseProperty":
                id_ = f"P{chance.randint(1, self.properties)}"
                return f"<{WD}{id_}>", id_
            case "String":
                text = _phrase(chance)
                return literal(text), text
            case "Monolingualtext":
                text, language = _phrase(chance), chance.choice(("en", "en-gb", "fr"))
                return f"{literal(text)}@{language}", text if language != "fr" else None
            case "Quantity":
                number = chance.randint(0, 10**6)
                return f'"+{number}"^^<{_XSD}decimal>', str(number)
            case "Time":
                day = f"{chance.randint(1000, 2020)}-{chance.randint(2, 12):02}-{chance.randint(2, 28):02}"
                return f'"{day}T00:00:00Z"^^<{_XSD}dateTime>', day
            case "GlobeCoordinate":
                east, north = chance.randint(1, 179), chance.randint(1, 89)
                return f'"Point({east}.5 {north}.25)"^^<{_WKT}>', f"{north}.25°N, {east}.5°E"
            case "Url":
                return f"<http://www.example.com/?q={chance.randint(1, 99)}>", None
            case "ExternalId":
                return f'"{chance.getrandbits(32):08x}"', None
            case "CommonsMedia":
                return f"<http://commons.wikimedia.org/wiki/Special:FilePath/File%20{chance.randint(1, 99)}.jpg>", None
            case "GeoShape" | "TabularData":
                return f"<http://commons.wikimedia.org/data/main/Data:X{chance.randint(1, 99)}.map>", None
            case "Math":
                return '"<math><mi>x</mi></math>"^^<http://www.w3.org/1998/Math/MathML>', None
            case "MusicalNotation":
                text = f"c{chance.randint(1, 9)}"
                return literal(text), text
        suffix = {"WikibaseLexeme": "", "WikibaseForm": "-F1", "WikibaseSense": "-S1"}[datatype]
        return f"<{WD}L{chance.randint(1, 9)}{suffix}>", None


def truth(world: World) -> Truth:
    """What an ingest of all files of a world has to find (external identifiers and media files are left out)."""
    found = Truth()
    for number in range(1, world.properties + 1):
        found.labels[f"P{number}"] = world.property_label(number)
    for item in map(world.item, range(1, world.items + 1)):
        for texts, text in (
            (found.labels, item.label),
            (found.descriptions, item.description),
            (found.titles, item.title),
            (found.short_descriptions, item.short_description),
        ):
            if text is not None:
                texts[item.id] = text
        if not world.named(item.id):
            continue
        for property_, written, object_ in item.claims:
            if object_ is not None and (not written.startswith(f"<{WD}") or world.named(object_)):
                found.facts.add((item.id, f"P{property_}", object_))
    return found


def truthy_lines(world: World) -> Iterator[str]:
    """`latest-truthy.nt` line by line: what the dump is, then items and properties as they come, lexemes at the end."""
    yield from _triples(
        f"<{_WIKIBASE}Dump>",
        (_RDF, f"<{_SCHEMA}Dataset>"),
        (_RDF, f"<{_OWL}Ontology>"),
        ("http://creativecommons.org/ns#license", _CC0),
        (_SCHEMA + "softwareVersion", '"1.0.0"'),
        (_SCHEMA + "dateModified", f'"2025-11-19T23:00:01Z"^^<{_XSD}dateTime>'),
        (_OWL + "imports", "<http://wikiba.se/ontology-1.0.owl>"),
    )
    for number in range(1, max(world.items, world.properties) + 1):
        if number <= world.items:
            yield from _item_lines(world, world.item(number))
        if number <= world.properties:
            yield from _property_lines(world, number)
    for number in range(1, world.items // 10 + 2):
        yield from _lexeme_lines(number)


def page_sql(world: World, *, row_lines: bool = False) -> Iterator[bytes]:
    """`enwiki-…-page.sql`, statement by statement; with `row_lines` as newer versions of mariadb-dump write it."""
    yield _header("page", _PAGE_TABLE)
    yield from _inserts("page", _page_rows(world), row_lines)
    yield _footer("page")


def page_props_sql(world: World, *, row_lines: bool = False) -> Iterator[bytes]:
    """`enwiki-…-page_props.sql`."""
    yield _header("page_props", _PAGE_PROPS_TABLE)
    yield from _inserts("page_props", _page_props_rows(world), row_lines)
    yield _footer("page_props")


def write_dumps(world: World, folder: Path) -> tuple[Path, Path, Path]:
    """The three dumps, gzipped, under the names that they are published with."""
    paths = tuple(folder / f"{name}.gz" for name in ("latest-truthy.nt", "enwiki-page.sql", "enwiki-page_props.sql"))
    lines = (line.encode() for line in truthy_lines(world))
    for path, pieces in zip(paths, (lines, page_sql(world), page_props_sql(world)), strict=True):
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.writelines(pieces)
    return paths[0], paths[1], paths[2]


def literal(text: str) -> str:
    r"""A string as the dumps write it: escapes for quotes, controls and everything that is not ASCII.

    >>> literal('é "x"\\ 😀')
    '"\\u00E9 \\"x\\"\\\\ \\U0001F600"'
    """
    short = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    written = (
        short.get(c) or (c if " " <= c <= "~" else f"\\u{ord(c):04X}" if c <= "\uffff" else f"\\U{ord(c):08X}")
        for c in text
    )
    return f'"{"".join(written)}"'


def quoted(text: str) -> bytes:
    r"""A string as mysqldump writes it.

    >>> quoted('O\'Brien "x"\\')
    b'\'O\\\'Brien \\"x\\"\\\\\''
    """
    escapes = {"\\": "\\\\", "'": "\\'", '"': '\\"', "\n": "\\n", "\r": "\\r", "\0": "\\0", "\x1a": "\\Z"}
    return f"'{''.join(escapes.get(c, c) for c in text)}'".encode()


def _triples(subject: str, *pairs: tuple[str, str]) -> Iterator[str]:
    for predicate, object_ in pairs:
        yield f"{subject} <{predicate}> {object_} .\n"


def _integer(number: int) -> str:
    return f'"{number}"^^<{_XSD}integer>'


def _data_lines(entity: str, statements: int) -> Iterator[str]:
    """The page about an entity, ahead of it."""
    yield from _triples(
        f"<https://www.wikidata.org/wiki/Special:EntityData/{entity}>",
        (_RDF, f"<{_SCHEMA}Dataset>"),
        (_SCHEMA + "about", f"<{WD}{entity}>"),
        ("http://creativecommons.org/ns#license", _CC0),
        (_SCHEMA + "softwareVersion", '"1.0.0"'),
        (_SCHEMA + "version", _integer(2_000_000_000 + statements)),
        (_SCHEMA + "dateModified", f'"2025-11-18T22:35:59Z"^^<{_XSD}dateTime>'),
        (_WIKIBASE + "statements", _integer(statements)),
        (_WIKIBASE + "identifiers", _integer(0)),
        (_WIKIBASE + "sitelinks", _integer(1)),
    )


def _item_lines(world: World, item: Item) -> Iterator[str]:
    subject = f"<{WD}{item.id}>"
    yield from _data_lines(item.id, len(item.claims))
    if item.number % 50 == 0:  # a redirect besides, to this item
        other = f"Q{world.items * 2 + item.number}"
        yield from _data_lines(other, 0)
        yield from _triples(f"<{WD}{other}>", (_OWL + "sameAs", subject))
    yield from _triples(subject, (_RDF, f"<{_WIKIBASE}Item>"))
    languages = (*_LANGUAGES[: item.number % 4], *(("en",) if item.label else ()))
    for language in languages:
        text = item.label if language == "en" else f"{language} {item.number}"
        yield from _triples(subject, *((name, f"{literal(text or '')}@{language}") for name in _LABELS))
    if item.description is not None:
        yield from _triples(subject, (_DESCRIPTION, f"{literal(item.description)}@en"), (_DESCRIPTION, '"Ding"@de'))
    yield from _triples(subject, (_ALIAS, f'"alias {item.number}"@en'), (_ALIAS, '"Beiname"@de'))
    for property_, written, _ in item.claims:
        yield from _triples(subject, (f"http://www.wikidata.org/prop/direct/P{property_}", written))
        if _DATATYPES[(property_ - 1) % len(_DATATYPES)] == "ExternalId":
            normalized = f"http://www.wikidata.org/prop/direct-normalized/P{property_}"
            yield from _triples(subject, (normalized, f"<https://id.example.com/{item.number}>"))
    if item.number % 30 == 0:
        yield from _triples(subject, (_RDF, "<http://www.wikidata.org/prop/novalue/P1>"))
    if item.title is not None:
        yield from _sitelink_lines("en", item.title, subject)
    if item.number % 3 == 0:
        yield from _sitelink_lines("de", f"Ding {item.number}", subject)


def _sitelink_lines(language: str, title: str, item: str) -> Iterator[str]:
    wiki = f"https://{language}.wikipedia.org/"
    yield from _triples(
        f"<{wiki}wiki/{quote(title.replace(' ', '_'), safe='/:,()!-;@*')}>",
        (_RDF, f"<{_SCHEMA}Article>"),
        (_SCHEMA + "about", item),
        (_SCHEMA + "inLanguage", f'"{language}"'),
        (_SCHEMA + "isPartOf", f"<{wiki}>"),
        (_SCHEMA + "name", f"{literal(title)}@{language}"),
    )
    yield from _triples(f"<{wiki}>", (_WIKIBASE + "wikiGroup", '"wikipedia"'))


def _property_lines(world: World, number: int) -> Iterator[str]:
    subject, prop = f"<{WD}P{number}>", "http://www.wikidata.org/prop/"
    label = f"{literal(world.property_label(number))}@en"
    yield from _data_lines(f"P{number}", 0)
    yield from _triples(
        subject,
        (_RDF, f"<{_WIKIBASE}Property>"),
        *((name, label) for name in _LABELS),
        (_WIKIBASE + "propertyType", f"<{_WIKIBASE}{_DATATYPES[(number - 1) % len(_DATATYPES)]}>"),
        (_WIKIBASE + "directClaim", f"<{prop}direct/P{number}>"),
        (_WIKIBASE + "claim", f"<{prop}P{number}>"),
        (_WIKIBASE + "statementProperty", f"<{prop}statement/P{number}>"),
        (_WIKIBASE + "qualifier", f"<{prop}qualifier/P{number}>"),
        (_WIKIBASE + "reference", f"<{prop}reference/P{number}>"),
        (_WIKIBASE + "novalue", f"<{prop}novalue/P{number}>"),
    )
    yield from _triples(f"<{prop}direct/P{number}>", (_RDF, f"<{_OWL}ObjectProperty>"))
    yield from _triples(
        f"<{prop}novalue/P{number}>", (_RDF, f"<{_OWL}Class>"), (_OWL + "complementOf", f"_:genid{number}")
    )
    yield from _triples(
        f"_:genid{number}",
        (_RDF, f"<{_OWL}Restriction>"),
        (_OWL + "onProperty", f"<{prop}direct/P{number}>"),
        (_OWL + "someValuesFrom", f"<{_OWL}Thing>"),
    )


def _lexeme_lines(number: int) -> Iterator[str]:
    lexeme, ontolex = f"<{WD}L{number}>", "http://www.w3.org/ns/lemon/ontolex#"
    yield from _data_lines(f"L{number}", 1)
    yield from _triples(
        lexeme,
        (_RDF, f"<{_WIKIBASE}Lexeme>"),
        (_RDF, f"<{ontolex}LexicalEntry>"),
        (_LABELS[0], '"statement"@en'),
        (_WIKIBASE + "lemma", '"statement"@en'),
        ("http://purl.org/dc/terms/language", f"<{WD}Q1>"),
        (_WIKIBASE + "lexicalCategory", f"<{WD}Q2>"),
        (ontolex + "lexicalForm", f"<{WD}L{number}-F1>"),
        (ontolex + "sense", f"<{WD}L{number}-S1>"),
        ("http://www.wikidata.org/prop/direct/P1", f"<{WD}Q1>"),
    )
    yield from _triples(
        f"<{WD}L{number}-F1>",
        (_RDF, f"<{ontolex}Form>"),
        (ontolex + "representation", '"statements"@en'),
        (_WIKIBASE + "grammaticalFeature", f"<{WD}Q1>"),
    )
    yield from _triples(
        f"<{WD}L{number}-S1>",
        (_RDF, f"<{ontolex}LexicalSense>"),
        (_LABELS[0], '"declaration"@en'),
        ("http://www.w3.org/2004/02/skos/core#definition", '"declaration"@en'),
        ("http://www.wikidata.org/prop/direct/P1", f"<{WD}Q2>"),
    )


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
    """For each item the article, if it has one, its talk page, and here and there a redirect and a category."""
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
    start = f"({page},{namespace},".encode() + quoted(title.replace(" ", "_"))
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
    return b"(%d,%b,%b,%b)" % (page, quoted(name), quoted(value), sortkey.encode())


def _name(chance: random.Random) -> str:
    return "".join(chance.choices(_SYLLABLES, k=chance.randint(2, 5))).strip()


def _phrase(chance: random.Random) -> str:
    return " ".join(chance.choices(_WORDS, k=chance.randint(1, 4)))
