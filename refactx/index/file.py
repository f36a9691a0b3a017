"""An index as one file: a database of SQLite, which is written once and then read where it is.

```
parts       kind, number, checksum, value      header, tokens, codes and dict of each segment, end
tree_N      number, key, value                 the rows of segment N
names_N     number, key, value                 the rows of name table N, the oldest first
hubs_0      number, key, value                 if the index knows its hubs
```

`number` counts the rows of a table from 1 in the order of their keys. A row of `tree_N` is that of a database if it has
facts, else arrays (`refactx.tree.piece.pack_arrays`), a row of `names_N` that of a database. The key of a hub has object,
predicate and inverse predicate, joined by newlines; its value is the number of subjects, eight bytes, big-endian.

The checksum of a value is its SHA-256; that of a table the SHA-256 of, for each row, the sizes of key (2 bytes) and value
(4), big-endian, key and value; they are in `parts`, tables with NULL as value. That of `end` is the SHA-256 of all others
with their kinds and numbers, and so that of the whole index, wherever SQLite put its pages.

Nothing in a file is run: it has these tables or is refused before a row is read. A row of tree or names has a CRC-32,
which is checked when it is read. A name that is not found where its row would be is not there only if the next row has a
greater key, so a damaged B-tree is an error and no missing name. Hubs are checked by the checksum of their table when
they are first read. `IndexFile.faults` checks everything.
"""

import hashlib
import os
import sqlite3
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import zstandard

from refactx.errors import CorruptIndexError, InputError
from refactx.fact import written_part
from refactx.index.header import OF_INDEX, FileHeader, FileSegment, Member, damage_error, read_tokenizer
from refactx.index.names import ReadBlocks
from refactx.index.source import Segment, Snapshot, tree_of
from refactx.paths import needs_database
from refactx.postgres.entry import CatalogueEntry, IndexVersion
from refactx.tokenizer import FactTokenizer
from refactx.tree.codes import RowCodec, TokenCodes, frequent_tokens, shared_seed
from refactx.tree.piece import read_in_place
from refactx.tree.stored import StoredTree

if TYPE_CHECKING:
    from refactx.postgres.database import Database

FILE_VERSION = 4
"""The version of this layout, `user_version` of the database. A file of a newer one is refused."""

APPLICATION_ID = 0x52656658
"""`application_id` of the database: "RefX"."""

PAGE_BYTES = 4096
"""Larger pages make the file 1 to 6% smaller or larger, and a look-up up to twice as slow."""

MAX_VALUE_BYTES = 96 << 20
"""More than the largest row takes: its limit is 64 MiB before compression."""

OLD_MAGIC = b"\x89RefactX"
"""The beginning of the files of versions 1 to 3."""

_SQLITE = b"SQLite format 3\0"
_HEAD = struct.Struct(">16sH10xI28xI4xI28x")
"""SQLite's own: magic, bytes of a page, pages, `user_version`, `application_id`."""

_PARTS = (
    "CREATE TABLE parts (kind TEXT NOT NULL, number INTEGER NOT NULL, checksum BLOB NOT NULL, value BLOB,"
    " PRIMARY KEY (kind, number)) WITHOUT ROWID"
)
_END: Member = ("end", 0)
_ROWS_AT_ONCE = 32

KeyedRow = tuple[bytes, bytes]
_MOST_SUBJECTS = 1 << 50

MAX_DICTIONARY_BYTES = 1 << 22
"""40 times the size of the dictionaries that an ingest trains."""


def _create(table: str) -> str:
    return f"CREATE TABLE {table} (number INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, value BLOB NOT NULL)"


def _table(member: Member) -> str:
    return f"{member[0]}_{member[1]}"


class RowDigest:
    """The checksum of a table, row by row."""

    def __init__(self) -> None:
        self._sum = hashlib.sha256()

    def add(self, row: KeyedRow) -> None:
        """Add the next row."""
        key, value = row
        self._sum.update(struct.pack(">HI", len(key), len(value)) + key)
        self._sum.update(value)

    def digest(self) -> bytes:
        """Return the checksum of the rows so far."""
        return self._sum.digest()


def _checksum_of_all(header: FileHeader, checksums: Mapping[Member, bytes]) -> bytes:
    members = (*header.parts(), *header.tables())
    return hashlib.sha256(
        b"".join(f"{kind} {number} ".encode() + checksums[kind, number] for kind, number in members)
    ).digest()


class IndexFileWriter:
    """A new index file at a path, in one transaction without a journal: whoever stops writing removes the file.

    Methods raise sqlite3.Error if the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._checksums: dict[Member, bytes] = {}
        for setting, value in (
            ("page_size", PAGE_BYTES),
            ("journal_mode", "OFF"),
            ("synchronous", "OFF"),  # the caller does that once, at the end
            ("application_id", APPLICATION_ID),
            ("user_version", FILE_VERSION),
        ):
            self._connection.execute(f"PRAGMA {setting} = {value}")
        self._connection.execute(_PARTS)  # the file now says what it is, also if whoever writes it is killed
        self._connection.execute("BEGIN")

    def add(self, member: Member, value: bytes) -> None:
        """Add a single value."""
        self._add(member, hashlib.sha256(value).digest(), value)

    def add_table(self, member: Member, rows: Iterable[KeyedRow]) -> None:
        """Add a table of rows, given in the order of their keys."""
        table, digest = _table(member), RowDigest()
        self._connection.execute(_create(table))

        def numbered() -> Iterator[tuple[int, bytes, bytes]]:
            for number, row in enumerate(rows, 1):
                digest.add(row)
                yield number, *row

        self._connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", numbered())
        self._add(member, digest.digest(), None)

    def finish(self, header: FileHeader) -> str:
        """Complete the file, to which all other parts and tables of the header were added. Return its checksum, in hex."""
        self.add(("header", 0), header.to_bytes())
        checksum = _checksum_of_all(header, self._checksums)
        self._add(_END, checksum, None)
        self._connection.execute("COMMIT")
        return checksum.hex()

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _add(self, member: Member, checksum: bytes, value: bytes | None) -> None:
        self._checksums[member] = checksum
        self._connection.execute("INSERT INTO parts VALUES (?, ?, ?, ?)", (*member, checksum, value))


class IndexFile:
    """A file of `refactx index export`, open for reading. Safe to share between threads, and with forked processes,
    which open it anew.

    `name`: what errors call it, by default its path; `header`: what is in it; `checksum`: of the whole index, in hex.
    Raises InputError if the file cannot be read, is damaged, of another version or not an export.
    """

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.name = name or str(path)
        self.size = _check_head(path, self.name)
        self._path, self._process = path, os.getpid()
        self._lock = threading.Lock()
        self._connection = _connect(path)
        try:
            self.header = FileHeader.from_bytes(self._checked(("header", 0)))
            self._check_schema()
            members = [*self.header.parts(), *self.header.tables()]
            self.checksums = {member: self._part(member)[0] for member in members}
            if self._part(_END)[0] != _checksum_of_all(self.header, self.checksums):
                raise ValueError("its checksums are not those of its header")
        except BaseException as error:
            self.close()
            raise self._refusal(error) from None
        self.checksum = _checksum_of_all(self.header, self.checksums).hex()

    def value(self, member: Member) -> bytes:
        """Return a single value, after checking it. Raises InputError if it is damaged."""
        try:
            return self._checked(member)
        except (ValueError, CorruptIndexError) as error:
            raise self._refusal(error) from None

    def table(self, member: Member) -> "FileTable":
        """Return a table of rows."""
        return FileTable(self, member, self.header.tables()[member])

    def select(self, statement: str, *values: object) -> list[Any]:
        """Return the rows of a statement. Raises CorruptIndexError if SQLite cannot read them."""
        if os.getpid() != self._process:  # a lock may be held by a thread that is not in this process
            self._lock, self._connection, self._process = threading.Lock(), _connect(self._path), os.getpid()
        try:
            with self._lock:
                return self._connection.execute(statement, values).fetchall()
        except sqlite3.ProgrammingError as error:  # it was closed
            raise InputError(f"cannot read {self.name}: {error}") from error
        except (sqlite3.Error, MemoryError, UnicodeError) as error:
            raise self.damage(error) from error

    def damage(self, what: object) -> CorruptIndexError:
        """Return the error for rows that are not as they were written."""
        return CorruptIndexError(f"{self.name} is damaged: {what}. Copy or export it again")

    def faults(self) -> Iterator[str]:
        """Check the B-trees and the checksums of all values and tables, and yield what is wrong."""
        try:
            ((found,),) = self.select("PRAGMA integrity_check(1)")
            if found != "ok":
                yield f"its B-trees are damaged: {' '.join(str(found).split())}"
        except CorruptIndexError as error:
            yield str(error)
        for member in self.header.parts():
            try:
                self.value(member)
            except InputError as error:
                yield str(error)
        for member in self.header.tables():
            try:
                self.table(member).check()
            except CorruptIndexError as error:
                yield str(error)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _refusal(self, error: BaseException) -> BaseException:
        """Return what an error means on opening."""
        if isinstance(error, CorruptIndexError):
            return InputError(str(error))
        if isinstance(error, InputError):  # the header is of a newer refactx
            return InputError(f"{self.name}: {error}")
        return damage_error(self.name, error) if isinstance(error, ValueError) else error

    def _part(self, member: Member) -> tuple[bytes, bytes | None]:
        found = self.select("SELECT checksum, value FROM parts WHERE kind = ? AND number = ?", *member)
        if not found:
            raise ValueError(f"it has no {member[0]} {member[1]}")
        ((checksum, value),) = found
        if not isinstance(checksum, bytes) or not isinstance(value, bytes | None):
            raise ValueError(f"{member[0]} {member[1]} is of another type")
        return checksum, value

    def _checked(self, member: Member) -> bytes:
        checksum, value = self._part(member)
        if value is None or hashlib.sha256(value).digest() != checksum:
            raise ValueError(f"the checksum of {member[0]} {member[1]} is wrong")
        return value

    def _check_schema(self) -> None:
        """Raise ValueError unless the file has the tables of its header and nothing else, such as a view."""
        tables = list(map(_table, self.header.tables()))
        expected: set[tuple[str, str, str, str | None]] = {("table", "parts", "parts", _PARTS)}
        expected |= {("table", name, name, _create(name)) for name in tables}
        expected |= {("index", f"sqlite_autoindex_{name}_1", name, None) for name in tables}
        found = self.select("SELECT type, name, tbl_name, sql FROM sqlite_schema LIMIT ?", len(expected) + 1)
        if len(found) != len(expected) or set(found) != expected:
            raise ValueError("its tables are not those that its header describes")


def _check_head(path: Path, name: str) -> int:
    """Return the size of a file. Raises InputError if it does not begin as an export, or is cut off."""
    try:
        with path.open("rb") as file:
            if not path.is_file():
                raise InputError(f"cannot read the index file {name}: it is not a regular file")
            head = file.read(_HEAD.size)
            size = file.seek(0, 2)
    except OSError as error:
        raise InputError(
            f"cannot read the index file {name} ({error.strerror or error}): `refactx index export NAME FILE` makes one"
        ) from None
    if head.startswith(OLD_MAGIC):
        raise InputError(
            f"{name} was exported by an earlier refactx, in a format that this one does not read: export the index again"
        )
    if not head.startswith(_SQLITE[: len(head)]) or not head:
        raise InputError(f"{name} is not a file of `refactx index export`: it begins with {head[:8]!r}")
    if len(head) < _HEAD.size:
        raise _truncated(name, size)
    _, page, pages, version, application = _HEAD.unpack(head)
    if application != APPLICATION_ID:
        raise InputError(f"{name} is not a file of `refactx index export`, but another database of SQLite")
    if version > FILE_VERSION:
        raise InputError(f"{name} has version {version} of the file format (this is {FILE_VERSION}): upgrade refactx")
    if version != FILE_VERSION or page != PAGE_BYTES:
        raise damage_error(name, f"it claims version {version} of the file format")
    if size < page * pages:
        raise _truncated(name, size)
    if size > page * pages:
        raise damage_error(name, "it continues after its end")
    return size


def is_export(start: bytes) -> bool:
    """Return whether a file is an export, maybe an old or unfinished one, given its first 100 bytes."""
    if len(start) < _HEAD.size:
        return False
    magic, _, _, _, application = _HEAD.unpack(start)
    return start.startswith(OLD_MAGIC) or (magic, application) == (_SQLITE, APPLICATION_ID)


def _truncated(name: str, size: int) -> InputError:
    return InputError(f"{name} is truncated: it ends at byte {size:,}. Copy or export it again")


def _connect(path: Path) -> sqlite3.Connection:
    """Open a database that does not change and is not trusted."""
    # Immutable: no locks, and a journal that lies beside the file is not looked at.
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None, check_same_thread=False
    )
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 0)
    for setting in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON", "mmap_size = 0"):
        connection.execute(f"PRAGMA {setting}")
    return connection


class FileTable:
    """The rows of one table of a file: a `SegmentSource`, which has no round trips.

    Methods raise CorruptIndexError if the table does not hold what it should; the values of rows are not checked here.
    """

    def __init__(self, file: IndexFile, member: Member, rows: int) -> None:
        self._file, self._member, self._count = file, member, rows
        table = _table(member)
        self._one = f"SELECT value FROM {table} WHERE key = ?"
        self._last = f"SELECT number, key, value FROM {table} WHERE key <= ? ORDER BY key DESC LIMIT 1"
        self._numbered = f"SELECT number, key, value FROM {table} WHERE number >= ? ORDER BY number LIMIT ?"
        self.round_trips, self.seconds = 0, 0.0

    def fetch(self, key: bytes) -> bytes | None:
        """Return the row with a key; None if there is none."""
        found = self._file.select(self._one, key)
        if not found:
            return None
        value = found[0][0]
        if not isinstance(value, bytes):
            raise self._damage("a value is of another type")
        return value

    def fetch_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the rows with some keys; without the keys that have no row."""
        return {key: row for key in keys if (row := self.fetch(key)) is not None}

    def last(self, key: bytes) -> tuple[int, bytes, bytes] | None:
        """Return the number, key and value of the last row whose key is not greater; None if there is none."""
        found = self._file.select(self._last, key)
        row = self._row(found[0]) if found else None
        number = row[0] if row else 0
        below = self._file.select(self._numbered, number + 1, 1)
        if bool(below) != (number < self._count) or (below and self._row(below[0])[1] <= key):
            raise self._damage("the next row is not where it should be")
        return row

    def rows(self, first: int = 1) -> Iterator[KeyedRow]:
        """Yield the rows from a number on."""
        number, before = first, None
        while number <= self._count:
            found = self._file.select(self._numbered, number, _ROWS_AT_ONCE)
            for stored in found:
                at, key, value = self._row(stored)
                if at != number or (before is not None and key <= before):
                    raise self._damage(f"its keys do not ascend at row {number:,}")
                yield key, value
                number, before = number + 1, key
            if not found:
                break
        if number - 1 != self._count:
            raise self._damage(f"it has {number - 1:,} rows, but its header says {self._count:,}")

    def count(self) -> int:
        """Return the number of rows."""
        return self._count

    def check(self) -> None:
        """Raise CorruptIndexError unless all rows are those that were written."""
        digest = RowDigest()
        for row in self.rows():
            digest.add(row)
        if digest.digest() != self._file.checksums[self._member]:
            raise self._damage("its checksum is wrong")

    def _row(self, stored: tuple[Any, ...]) -> tuple[int, bytes, bytes]:
        number, key, value = stored
        if not isinstance(key, bytes) or not isinstance(value, bytes):
            raise self._damage("a key or value is of another type")
        return number, key, value

    def _damage(self, what: str) -> CorruptIndexError:
        return self._file.damage(f"{self._member[0]} {self._member[1]}: {what}")


def unpack_subjects(key: bytes, value: bytes) -> tuple[str, str, str, int]:
    """Return object, predicate, inverse predicate and subjects in a row. Raise ValueError if it is none that an ingest
    writes.

    >>> unpack_subjects(b"human\\ninstance of\\nhas instance", (52073).to_bytes(8, "big"))
    ('human', 'instance of', 'has instance', 52073)
    """
    names, subjects = key.decode().split("\n"), int.from_bytes(value, "big")
    if len(names) != 3 or any(written_part(name) != name or not name for name in names):
        raise ValueError("a hub does not have three names")
    if len(value) != 8 or not 0 < subjects <= _MOST_SUBJECTS:
        raise ValueError("a hub has an impossible number of subjects")
    object_, predicate, inverse = names
    return object_, predicate, inverse, subjects


def segment_codec(codes: bytes, dictionary: bytes) -> RowCodec:
    """Return the codec of a segment, given its token codes and its dictionary, which is loaded.

    Raises ValueError if the dictionary is too large, ZstdError if it is none.
    """
    if len(dictionary) > MAX_DICTIONARY_BYTES:
        raise ValueError(f"it has {len(dictionary):,} bytes, more than {MAX_DICTIONARY_BYTES:,}")
    codec = RowCodec(dictionary, seed=shared_seed(codes, dictionary))
    codec.prepare()
    return codec


Value = TypeVar("Value")


class FileSource:
    """An index in a file of `refactx index export`. Its name is the path.

    Raises InputError if the file cannot be read, is damaged, of another version or not an export.
    """

    def __init__(self, path: Path) -> None:
        self._file = file = IndexFile(path)
        self.entry = _entry(file)
        try:
            self._segments = tuple(
                _segment(file, number, segment) for number, segment in enumerate(file.header.segments)
            )
        except (CorruptIndexError, ValueError, zstandard.ZstdError) as error:
            file.close()
            raise damage_error(file.name, error) from error
        self._names = [file.table(("names", number)) for number in range(len(file.header.names))]
        self._hubs: dict[str, dict[str, int]] | None = None

    @property
    def database(self) -> "Database":
        """Raise InputError: there is none."""
        raise needs_database(self._file.name)

    def snapshot(self, cache_bytes: int, before: Sequence[Segment] = ()) -> Snapshot:
        """Return the index. It does not change, also if another file gets the path."""
        mark = IndexVersion((0, self._file.checksum), (), ())
        return Snapshot(
            self._segments,
            tree_of(self._segments, cache_bytes),
            tuple(range(len(self._names)))[::-1],
            mark,
            bool(self.entry.report.get("statements")),
        )

    def standby_wait(self) -> None:
        """Return None: a file does not change."""

    def prepare_tokenizer(self) -> Callable[[], FactTokenizer]:
        """Return what reads the tokenizer, which raises InputError if it is not the one that the header describes."""
        return lambda: read_tokenizer(self._file.value(("tokens", 0)), self._file.header, self._file.name)

    def read_names(self, find: Callable[[ReadBlocks], Value], *, unlimited: bool = False) -> Value:
        """Return what `find` finds in blocks of the name tables."""
        return find(self._read_blocks)

    def name_rows(self, table: int, first: bytes) -> list[tuple[bytes, bytes]]:
        """Return the keys and blocks of a name table from the key `first` on."""
        before = self._names[table].last(first)
        return [row for row in self._names[table].rows(before[0] if before else 1) if row[0] >= first]

    def hubs(self, objects: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return the subjects of some objects that are hubs, by object and inverse predicate."""
        if self._hubs is None:
            self._hubs = self._read_hubs()
        return {name: dict(self._hubs[name]) for name in objects if name in self._hubs}

    def faults(self) -> Iterable[str]:
        """Check the B-trees and all checksums, and yield what is wrong."""
        return self._file.faults()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _read_blocks(self, table: int, keys: list[bytes], first: bytes) -> Mapping[bytes, bytes]:
        found = map(self._names[table].last, keys)
        return {row[1]: row[2] for row in found if row is not None and row[1] >= first}

    def _read_hubs(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        if self._file.header.hubs is None:
            return found
        table = self._file.table(("hubs", 0))
        table.check()
        for key, value in table.rows():
            try:
                name, _, inverse, subjects = unpack_subjects(key, value)
            except ValueError as error:
                raise self._file.damage(error) from error
            counts = found.setdefault(name, {})
            counts[inverse] = counts.get(inverse, 0) + subjects
        return found


def _segment(file: IndexFile, number: int, segment: FileSegment) -> Segment:
    codes, dictionary = file.value(("codes", number)), file.value(("dict", number))
    rows = file.table(("tree", number))
    tree = StoredTree(
        rows,
        segment_codec(codes, dictionary),
        TokenCodes(frequent_tokens(codes, file.header.vocabulary_size)),
        levels=segment.levels,
        facts=segment.facts,
        name=file.name,
        read=read_in_place,
    )
    return Segment(number=number, sign=segment.sign, tokens=segment.tokens, tree=tree, rows=rows)


def _entry(file: IndexFile) -> CatalogueEntry:
    """Return what the catalogue of a database would say of the index."""
    header = file.header
    return CatalogueEntry(
        id=0,
        name=file.name,
        state="ready",
        **{name: getattr(header, name) for name in OF_INDEX},
        created=datetime.fromisoformat(header.created),
        knowledge_base=0,
        segments=len(header.segments),
        unfinished=0,
        facts=header.facts,
        tokens=sum(segment.sign * segment.tokens for segment in header.segments),
        levels=max((segment.levels for segment in header.segments), default=0),
        cut=max((segment.cut for segment in header.segments), default=0),
        table_bytes=file.size - header.names_bytes,
        index_bytes=0,
        toast_bytes=0,
        names_bytes=header.names_bytes,
    )
