"""The outcome of parsing a block: rows for the joins, and what became of every line.

| table | rows |
|---|---|
| `claims` | `subject, property, object BIGINT, text VARCHAR, kind UTINYINT`: the object is an entity or a text |
| `quoted` | `node BIGINT` and the columns of `claims`: a triple that a node is about (`rdf:reifies`) |
| `terms` | `entity BIGINT, kind, rank, language UTINYINT, text`: labels, descriptions, titles, other names |
| `redirects` | `entity, target BIGINT`: an entity that was merged, and into which |
| `left_out` | `property BIGINT, reason VARCHAR`: properties whose claims are dropped, by their datatype |
| `ready` | `subject, predicate, object VARCHAR`: ready-made facts |
| `ready_statements` | the same and `tail VARCHAR`: what follows the object, its parts joined by `> <` |
| `statements` | `statement, subject, property BIGINT`: the statements of Wikidata that are given in full |
| `ranks` | `statement BIGINT, rank UTINYINT`: 0 deprecated, 1 quoted, 2 normal, 3 preferred |
| `snaks` | `statement, property BIGINT, is_main BOOLEAN`, an object as in `claims`, `unit, value BIGINT` |
| `value_nodes` | `value BIGINT, field UTINYINT, text VARCHAR, entity BIGINT`: what RDF says of a time or an amount |
| `referred` | `statement, reference BIGINT`: the references of statements |
| `reference_urls` | `reference BIGINT, place UTINYINT, url VARCHAR`: their addresses, by `REFERENCE_PLACES` |
| `ids` | `entity BIGINT, id VARCHAR`: the ids of entities that are not Wikidata's, maybe more than once |

The kind of a text is a place in `refactx.ingest.parsers.values.VALUE_KINDS`, the language of a term one in the languages
of the selection (`language_place`). An entity is a number here
(`refactx.entity_ids`); one that is not Wikidata's has the number of an item, until the join knows which are properties.
Each table is a Parquet file: on the development data it is written in a quarter of the time of a DuckDB table, takes half
the space, and is read as fast. A snak is the value of a statement, or of one of its qualifiers; in RDF it may be a `value`
of several triples, which gives the precision of a time and the unit of an amount.

Nearly all parts of facts are plain: visible characters with single spaces between them, nothing that `clean_part` would
change. These are kept; only the others go through Python, one by one, to the same result.
"""

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import parquet

from refactx.entity_ids import entity_id, entity_numbers, other_number, other_numbers
from refactx.errors import InputError
from refactx.fact import ADDRESS, MAX_PART_CHARACTERS, UNWRITTEN, Link, clean_part, cut_part
from refactx.index.names import written_id
from refactx.ingest.parsers.values import NO_LANGUAGE
from refactx.ingest.sources import Source
from refactx.tree.codes import ragged

_GIVE_ENCODING = "give --encoding latin-1"
NOT_UTF8 = f"not UTF-8, perhaps Latin-1: {_GIVE_ENCODING}"
_TEXT = pa.large_string()
_CLAIM = {"subject": pa.int64(), "property": pa.int64(), "object": pa.int64(), "text": _TEXT, "kind": pa.uint8()}
SCHEMAS: dict[str, pa.Schema] = {
    "claims": pa.schema(_CLAIM),
    "quoted": pa.schema({"node": pa.int64(), **_CLAIM}),
    "terms": pa.schema(
        {"entity": pa.int64(), "kind": pa.uint8(), "rank": pa.uint8(), "language": pa.uint8(), "text": _TEXT}
    ),
    "redirects": pa.schema({"entity": pa.int64(), "target": pa.int64()}),
    "left_out": pa.schema({"property": pa.int64(), "reason": _TEXT}),
    "ready": pa.schema({"subject": _TEXT, "predicate": _TEXT, "object": _TEXT}),
    "ready_statements": pa.schema(dict.fromkeys(("subject", "predicate", "object", "tail"), _TEXT)),
    "ids": pa.schema({"entity": pa.int64(), "id": _TEXT}),
    "statements": pa.schema({"statement": pa.int64(), "subject": pa.int64(), "property": pa.int64()}),
    "ranks": pa.schema({"statement": pa.int64(), "rank": pa.uint8()}),
    "snaks": pa.schema(
        {
            **{"statement": pa.int64(), "property": pa.int64(), "is_main": pa.bool_(), "object": pa.int64()},
            **{"text": _TEXT, "kind": pa.uint8(), "unit": pa.int64(), "value": pa.int64()},
        }
    ),
    "value_nodes": pa.schema({"value": pa.int64(), "field": pa.uint8(), "text": _TEXT, "entity": pa.int64()}),
    "referred": pa.schema({"statement": pa.int64(), "reference": pa.int64()}),
    "reference_urls": pa.schema({"reference": pa.int64(), "place": pa.uint8(), "url": _TEXT}),
}
DEPRECATED, QUOTED, NORMAL, PREFERRED = range(4)
"""The values of `ranks.rank`. QUOTED: a triple that a node is about, and that no line asserts."""
TIME, PRECISION, AMOUNT, UNIT = range(4)
"""The values of `value_nodes.field`."""
REFERENCE_PLACES = {"P854": 0, "P248": 1, "P143": 2}
"""The properties whose values say where a reference is, the best first: by URL, or the thing that it is stated in or imported
from."""
LABEL, DESCRIPTION, TITLE, SHORT_DESCRIPTION, OTHER_NAME, GIVEN_NAME, FAMILY_NAME, OWN_NAME, OWN_LABEL = range(9)
"""The values of `terms.kind`; short descriptions come from English Wikipedia (`refactx.ingest.parsers.wikipedia`). The
names of a person make a label if there is none, and so do OWN_LABEL, by a predicate of a graph's own, and OWN_NAME, what an
id or a column alone is read as: these have no line of their own. Of an edge (`START`, `END`) OWN_NAME is what follows the
labels of its ends."""
START, END = (other_number(id_) + 1 for id_ in (":START_ID", ":END_ID"))
"""The properties that lead from an edge of a graph of properties, which has some of its own, to its two ends."""
INVALID = "\ufdd0"
"""The mark before a byte that is not UTF-8: a noncharacter, which Unicode reserves for such uses."""
# Characters that `clean_part` leaves alone whatever their neighbours are: visible, no brackets, and neither changed by
# Unicode NFC nor combined with a neighbour. ASCII except the backslash (an escape in N-Triples), Latin, Cyrillic,
# dashes and quotation marks, kana, Han.
_CHARACTERS = (
    r"!-;=?-\[\]-~"
    "\u00a1-\u00ac\u00ae-\u02af\u0400-\u0482\u048a-\u052f\u2010-\u2027\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff"
)
PLAIN_TEXT = f"[{_CHARACTERS}]+(?: [{_CHARACTERS}]+)*"
"""A regular expression (RE2) that matches plain text only."""
COLUMNS = ("subject", "predicate", "object")
OF_NO_FACT = "qualifier of no fact"
NULLS = ("NULL", "\\N")
"""What databases write into cells without a value. (`NA` is none: it is Namibia, too.)"""
_COLUMN_NOT_UTF8 = "not UTF-8, perhaps Latin-1: write the column as text in UTF-8"


@dataclass(slots=True, kw_only=True)
class Parsed:
    """The outcome of parsing a block of `lines` lines (rows, triples).

    `statements`: how many of them are what their file should hold, used or not. `dropped`: how many were left out so
    far, by reason. `faults`: the malformed ones, as (line number, what is wrong). `tables`: rows for the tables of
    `refactx.ingest.parsers.parsed`, by their names. `cut`: how many parts were longer than
    `refactx.fact.MAX_PART_CHARACTERS`. `notes`: other remarks on the source for the user.
    """

    lines: int
    _: KW_ONLY
    statements: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[int, str]] = field(default_factory=list)
    tables: dict[str, pa.Table] = field(default_factory=dict)
    cut: int = 0
    notes: tuple[str, ...] = ()

    def add(self, other: "Parsed", numbers: Sequence[int] | NDArray[np.int64] | None = None) -> None:
        """Add the outcome of other lines. `numbers`: those of these lines in their file, if they were counted from 1."""
        self.lines += other.lines
        self.statements += other.statements
        self.dropped += other.dropped
        self.faults += [(at if numbers is None else int(numbers[at - 1]), what) for at, what in other.faults]
        self.cut += other.cut
        for name, rows in other.tables.items():
            before = [self.tables[name]] if name in self.tables else []
            self.tables[name] = pa.concat_tables([*before, cast_rows(name, rows)])


def decode_lines(block: bytes) -> list[str | bytes]:
    """Return the lines of a block without their line feeds; those that are not UTF-8 as bytes.

    >>> decode_lines(b"a\\r\\nb\\xff\\n\\nc")
    ['a\\r', b'b\\xff', '', 'c']
    """
    try:
        lines: list[str | bytes] = list(block.decode().split("\n"))
    except UnicodeDecodeError:
        lines = [_decode_line(line) for line in block.split(b"\n")]
    if lines[-1] == "":
        lines.pop()
    return lines


def fault(what: str, line: str) -> str:
    """Return the description of a fault, with the start of its line to find it by, without what a terminal would obey.

    >>> fault("not a triple", "<x:s> \\x1b[2Jnonsense")
    'not a triple: <x:s> [2Jnonsense'
    """
    start = " ".join("".join(letter if letter.isprintable() else " " for letter in line[:200]).split())
    return f"{what}: {start[:60]}{'…' if len(start) > 60 else ''}"


def not_utf8(line: bytes) -> str:
    """Return the description of a line that is not UTF-8, which shows it as Windows-1252, a superset of Latin-1.

    >>> not_utf8(b"M\\xfcller").rpartition(": ")[2]
    'Müller'
    """
    return fault(NOT_UTF8, line.decode("cp1252", errors="replace"))


def unreadable(what: str) -> InputError:
    """Return the error for a text that cannot be read, maybe since it is not UTF-8.

    >>> unreadable("a.csv:1: " + not_utf8(b"M\\xfcller")).for_clients
    'a.csv:1: not UTF-8, perhaps Latin-1: save the file in UTF-8: Müller'
    """
    found, give, rest = what.partition(_GIVE_ENCODING)
    return InputError(found, command=give + rest, clients=f"{give and 'save the file in UTF-8'}{rest}")


def utf8_blocks(source: Source, advance: Callable[[int], object]) -> Generator[bytes, None, None]:
    """Yield the blocks of a source. Raise InputError for the first line that is not UTF-8."""
    lines = 1
    for block in source.blocks(advance):
        try:
            block.decode()
        except UnicodeDecodeError as error:
            lines += block.count(b"\n", 0, error.start)
            line = block[block.rfind(b"\n", 0, error.start) + 1 :].partition(b"\n")[0]
            raise unreadable(f"{source.name}:{lines}: {not_utf8(line)}") from None
        lines += block.count(b"\n")
        yield block


def _decode_line(line: bytes) -> str | bytes:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line


def table_of(name: str, rows: Sequence[tuple[Any, ...]], entity: pa.DataType | None = None) -> pa.Table:
    """Return rows of a table of `SCHEMAS`. `entity`: the type of entities, if they are no numbers.

    >>> table_of("redirects", [("Q1", "Q2")], pa.string()).to_pylist()
    [{'entity': 'Q1', 'target': 'Q2'}]
    """
    schema = SCHEMAS[name]
    types = [entity if entity is not None and one.type == pa.int64() else one.type for one in schema]
    columns: Iterable[Any] = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return pa.table([pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)], names=schema.names)


def claims_of(
    subjects: pa.Array, properties: Any, objects: pa.Array | None, texts: pa.Array | None = None, kinds: Any = None
) -> pa.Table:
    """Return n rows of `claims`, about entities (`objects`) or `texts` with their `kinds`: an array of n, or one for all."""
    count, schema = len(subjects), SCHEMAS["claims"]
    columns: list[Any] = [subjects, properties, objects, texts, kinds]
    for at, (column, field_) in enumerate(zip(columns, schema, strict=True)):
        if column is None:
            columns[at] = pa.nulls(count, field_.type)
        elif isinstance(column, int):
            columns[at] = pa.repeat(pa.scalar(column, field_.type), count)
    return pa.table(columns, schema=schema)


Rows = tuple[NDArray[np.int64], pa.Table]
"""The places of some rows, and a row of `claims` for each."""


def statement_rows(facts: Rows, pairs: Rows, first: int) -> tuple[pa.Table, dict[str, pa.Table], int]:
    """Return statements, given n facts and m qualifiers as rows of `claims` (that of a qualifier has any subject), each with
    the place of its row: a qualifier is one of all facts of its row. The first statement has the number `first`.

    The first result are the facts without qualifiers, as claims; the tables have a row of `snaks` for each other fact and each
    of its qualifiers; the number is that of qualifiers of no fact.
    """
    (places, claims), (places_of_pairs, values) = facts, pairs
    stated = np.isin(places, places_of_pairs)
    plain, main = claims.filter(pa.array(~stated)), claims.filter(pa.array(stated))
    numbers = first + np.arange(len(main), dtype=np.int64)
    order = np.argsort(places[stated], kind="stable")
    low, high = (np.searchsorted(places[stated][order], places_of_pairs, side) for side in ("left", "right"))
    which = ragged(low, high - low)
    snaks = [
        _snaks_of(main, numbers, is_main=True),
        _snaks_of(
            values.take(pa.array(np.repeat(np.arange(len(values)), high - low))), numbers[order][which], is_main=False
        ),
    ]
    of_facts = pa.table([pa.array(numbers), main["subject"], main["property"]], schema=SCHEMAS["statements"])
    ranks = pa.table([pa.array(numbers), pa.array(np.full(len(main), NORMAL, np.uint8))], schema=SCHEMAS["ranks"])
    tables = {"statements": of_facts, "ranks": ranks, "snaks": pa.concat_tables(snaks)}
    return plain, tables, int(np.count_nonzero(low == high))


def _snaks_of(claims: pa.Table, statements: NDArray[np.int64], *, is_main: bool) -> pa.Table:
    none = pa.nulls(len(claims), pa.int64())
    main = pa.array(np.full(len(claims), is_main, np.bool_))
    values = [claims[name] for name in ("property", "object", "text", "kind")]
    return pa.table([pa.array(statements), values[0], main, *values[1:], none, none], schema=SCHEMAS["snaks"])


def reference_url(value: str | int) -> str | None:
    """Return the address that a reference has: a URL as it is written (`written_id`), or the page on Wikidata of an entity,
    given by its number; None for what is no address, or too long.

    >>> reference_url("http://e.org/a\\u202e"), reference_url(84), reference_url("javascript:x")
    ('http://e.org/a%E2%80%AE', 'https://www.wikidata.org/wiki/Q42', None)
    """
    url = written_id(value) if isinstance(value, str) else Link("", entity_id(value)).url
    return url if url and len(url) <= MAX_PART_CHARACTERS and ADDRESS.fullmatch(url) else None


def terms_of(entities: Any, kind: int, texts: pa.Array) -> pa.Table:
    """Return texts about entities as rows of `terms` of one kind, all of the best rank and of no language."""
    numbers = pa.array(entities, pa.int64())
    columns = (pa.repeat(pa.scalar(value, pa.uint8()), len(texts)) for value in (kind, 0, NO_LANGUAGE))
    return pa.table([numbers, *columns, texts], schema=SCHEMAS["terms"])


def cast_rows(name: str, rows: pa.Table) -> pa.Table:
    """Return rows for a table in exactly the columns of `SCHEMAS`; their entities may be numbers or ids as text.

    >>> cast_rows("left_out", pa.table({"property": ["P569"], "reason": ["url"]})).to_pylist()
    [{'property': 1139, 'reason': 'url'}]
    """
    schema = SCHEMAS[name]
    columns = []
    for wanted in schema:
        column = rows[wanted.name]
        if pa.types.is_integer(wanted.type) and not pa.types.is_integer(column.type):
            column = numbers_of_ids(column)
        columns.append(column.cast(wanted.type))
    return pa.table(columns, schema=schema)


def numbers_of_ids(ids: pa.ChunkedArray) -> pa.Array:
    """Return the numbers of entities (int64), given their ids as text; null for null.

    >>> numbers_of_ids(pa.chunked_array([["Q42", None, "P569"]])).to_pylist()
    [84, None, 1139]
    """
    filled = pc.fill_null(ids, "Q0")
    numbers = pc.utf8_slice_codeunits(filled, 1).cast(pa.int64()).to_numpy()
    found = entity_numbers(numbers, pc.starts_with(filled, "P").to_numpy())
    return pa.array(found, mask=ids.is_null().to_numpy())


class IdNumbers:
    """The numbers of ids that are not Wikidata's, for one block.

    >>> numbers = IdNumbers()
    >>> numbers.of(pa.array(["x:a", None, "x:a"])).to_pylist()
    [5125264893503736888, None, 5125264893503736888]
    >>> numbers.table().to_pylist()
    [{'entity': 5125264893503736888, 'id': 'x:a'}]
    """

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def of(self, ids: pa.Array) -> pa.Array:
        """Return the numbers of ids, int64, as those of items; null for null."""
        encoded = ids.dictionary_encode()
        texts = encoded.dictionary
        odd = pc.match_substring_regex(texts, UNWRITTEN.pattern)
        if odd.true_count:
            written = pa.array([written_id(id_) for id_ in texts.filter(odd).to_pylist()], texts.type)
            texts = pc.replace_with_mask(texts, odd, written)
        distinct: list[bytes] = texts.cast(pa.large_binary()).to_pylist()
        known = self._numbers
        new = [one for one in distinct if one not in known]
        known.update(zip(new, other_numbers(new), strict=True))
        return pa.array([known[one] for one in distinct], pa.int64()).take(encoded.indices)

    def table(self) -> pa.Table:
        ids = pa.array(self._numbers, pa.large_binary()).cast(_TEXT)
        return pa.table([pa.array(self._numbers.values(), pa.int64()), ids], schema=SCHEMAS["ids"])


RowParser = Callable[[list[pa.Array], Callable[[int], int]], Parsed]
"""Some columns of a block of rows (large_string; null and empty are alike), and the number of a row by its place in them →
what they say."""


def mark_invalid_bytes(text: bytes) -> bytes:
    """Return the bytes of a text with `INVALID` and its character in Windows-1252 for each byte that is not UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        escaped = text.decode(errors="surrogateescape")
        return re.sub(
            "[\udc80-\udcff]",
            lambda byte: INVALID + bytes([ord(byte[0]) & 0xFF]).decode("cp1252", errors="replace"),
            escaped,
        ).encode()
    return text


class StagingWriter:
    """A writer of staged rows to `NAME.parquet` in a folder, one file for each table, complete when it is closed."""

    def __init__(self, folder: Path) -> None:
        self._writers = {
            name: parquet.ParquetWriter(folder / f"{name}.parquet", schema, compression="zstd", use_dictionary=False)
            for name, schema in SCHEMAS.items()
        }

    def write(self, tables: Mapping[str, pa.Table]) -> None:
        for name, rows in tables.items():
            if len(rows):
                self._writers[name].write_table(cast_rows(name, rows))

    def __enter__(self) -> "StagingWriter":
        return self

    def __exit__(self, *exception: object) -> None:
        for writer in self._writers.values():
            writer.close()


def is_plain(texts: pa.Array) -> pa.Array:
    """Return for each text whether it is plain.

    >>> is_plain(pa.array(["Café", "two  spaces", "<", ""])).to_pylist()
    [True, False, False, False]
    """
    return pc.match_substring_regex(texts, f"^{PLAIN_TEXT}$")


def clean_texts(texts: pa.Array, clean: Callable[[str], str | None]) -> pa.Array:
    """Return plain texts as they are, and the others as `clean` returns them (which must not change plain ones).

    >>> clean_texts(pa.array(["plain", " x "], pa.large_string()), str.strip).to_pylist()
    ['plain', 'x']
    """
    odd = pc.invert(is_plain(texts))
    if not odd.true_count:
        return texts
    cleaned = pa.array([clean(text) for text in texts.filter(odd).to_pylist()], pa.large_string())
    return pc.replace_with_mask(texts, odd, cleaned)


def clean_parts(texts: pa.Array) -> pa.Array:
    """Return each text (large_string) as a clean part, not cut; empty if nothing visible is left, or if it is null.

    >>> clean_parts(pa.array(["plain", " a  <b>", None, "\\u200b"], pa.large_string())).to_pylist()
    ['plain', 'a ‹b›', '', '']
    """
    return clean_texts(pc.fill_null(texts, ""), clean_part)


def null_as_empty(cells: pa.Array) -> pa.Array:
    """Return the cells of a column with "" for `NULLS`.

    >>> null_as_empty(pa.array(["NULL", "Null", "\\\\N", "NA"], pa.large_string())).to_pylist()
    ['', 'Null', '', 'NA']
    """
    return pc.if_else(pc.is_in(cells, pa.array(NULLS, cells.type)), "", cells)


def cut_parts(parts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return clean parts with those over `MAX_PART_CHARACTERS` cut, and which ones were cut (boolean).

    >>> parts, long = cut_parts(pa.array(["short", "a" * 2000], pa.large_string()))
    >>> [len(part) for part in parts.to_pylist()], long.to_pylist()
    ([5, 1000], [False, True])
    """
    long = pc.greater(pc.utf8_length(parts), MAX_PART_CHARACTERS)
    ends = [cut_part(part) for part in parts.filter(long).to_pylist()]
    return (pc.replace_with_mask(parts, long, pa.array(ends, pa.large_string())) if ends else parts), long


def facts_of_columns(texts: list[pa.Array], row_number: Callable[[int], int]) -> Parsed:
    """Return three columns of text as facts; `row_number` maps the place of a row in them to its number.

    Further columns have their numbers from 0 as names, and may be empty.
    """
    result = Parsed(lines=len(texts[0]))
    texts = without_invalid(texts, row_number, result)
    result.statements = len(texts[0])
    parts = [clean_parts(column) for column in texts]
    is_empty = [pc.equal(column, "") for column in parts[: len(COLUMNS)]]
    empty = _any(is_empty)
    if dropped := pc.sum(empty).as_py():
        blank = pc.sum(reduce(pc.and_, is_empty)).as_py()
        result.dropped += Counter({"empty part": dropped - blank, "blank": blank})
        parts = [column.filter(pc.invert(empty)) for column in parts]
    facts = {}
    names = (*COLUMNS, *map(str, range(len(parts) - len(COLUMNS))))
    for name, column in zip(names, parts, strict=True):
        facts[name], long = cut_parts(column)
        result.cut += pc.sum(long).as_py() or 0
    result.tables["ready"] = pa.table(facts)
    return result


def without_invalid(texts: list[pa.Array], row_number: Callable[[int], int], result: Parsed) -> list[pa.Array]:
    """Return columns without the rows that are not UTF-8, which become faults."""
    wrong = pc.fill_null(_any(pc.match_substring(column, INVALID) for column in texts), False)
    if not pc.any(wrong).as_py():
        return texts
    for at in pc.indices_nonzero(wrong).to_pylist():
        start = " ".join(column[at].as_py() or "" for column in texts).replace(INVALID, "")
        result.faults.append((row_number(at), fault(_COLUMN_NOT_UTF8, start)))
    return [column.filter(pc.invert(wrong)) for column in texts]


def _any(masks: Iterable[pa.Array]) -> pa.Array:
    return reduce(pc.or_kleene, masks)
