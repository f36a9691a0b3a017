"""The import of a file of `refactx index export` as a new index, in steps of bounded size.

Everything in the file is checked before it is shown: `refactx.index.file` checks the tables, the order and number of
their rows, and header; this module the checksums, the tokenizer and each row, as a reader would (`refactx.tree.codes`,
`refactx.tree.piece`, `refactx.index.names`). Rows are stored by COPY in tables with numbers that this database assigned.
A step commits some rows and how many there are. So an import that was stopped continues there if it runs again with the
same file, and a file with an error leaves nothing. Readers see the index when it is complete: the last transaction makes
the B-trees and shows the index.

Whether pieces agree with each other is checked by `refactx index verify`, which walks the whole tree, and by readers for
the pieces that they read.
"""

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import numpy as np
import psycopg
import zstandard
from psycopg.types.json import Jsonb

from refactx.errors import CorruptIndexError, DatabaseError, InputError
from refactx.index.file import IndexFile, KeyedRow, RowDigest, segment_codec
from refactx.index.header import Member, damage_error, read_tokenizer
from refactx.index.names import check_block
from refactx.index.verify import unwritten_facts
from refactx.postgres import writing as building
from refactx.postgres import writing as removal
from refactx.postgres.catalogue import Kind, add_hubs, add_key, add_rows, check_catalogue, list_indexes, numbers
from refactx.postgres.database import Database
from refactx.postgres.locks import check_rights, name_lock
from refactx.share.export import RowProgress, to_database, unpack_hub
from refactx.tokenizer import FactTokenizer
from refactx.tree.codes import RowCodec, TokenCodes, frequent_tokens
from refactx.tree.piece import MAX_KEY, TERMINAL, from_members, row_key

STEP_BYTES = 16 << 20
"""The bytes of rows that one transaction stores, and that are in memory until then."""

_KINDS: dict[str, Kind] = {"tree": "pieces", "names": "names"}


class Checks:
    """The checks of the rows of one import.

    `counted`: the facts and roots so far, a pair for each segment. An import that is resumed continues from them.
    """

    def __init__(self, file: IndexFile, tokenizer: FactTokenizer) -> None:
        self._header, self._tokenizer = file.header, tokenizer
        self._codecs: list[tuple[TokenCodes, RowCodec]] = []
        for number in range(len(self._header.segments)):
            codes, dictionary = file.value(("codes", number)), file.value(("dict", number))
            frequent = frequent_tokens(codes, self._header.vocabulary_size)
            self._codecs.append((TokenCodes(frequent), segment_codec(codes, dictionary)))
        self.counted = [[0, 0] for _ in self._header.segments]

    def add(self, member: Member, row: KeyedRow) -> KeyedRow:
        """Check a row, and return it as a database has it. Raises CorruptIndexError, ValueError or OverflowError."""
        kind, number = member
        key, value = row
        if kind == "names":
            check_block(key, value, RowCodec(), f"block of names {key[:40]!r}")
        elif kind == "hubs":
            unpack_hub(row)
        else:
            codec, where = self._codecs[number][1], f"row {key[:40].hex()}"
            row = row if key[:1] <= b"\0" else to_database(row, codec, where)
            self._count_piece(number, row, where)
        return row

    def finish(self) -> None:
        """Raise ValueError unless the rows had as many facts as the header says."""
        for number, ((facts, roots), segment) in enumerate(zip(self.counted, self._header.segments, strict=True)):
            if (facts, roots) != (segment.facts, 1):
                raise ValueError(
                    f"tree {number} has {facts:,} facts and {roots} roots, but its header says {segment.facts:,} and 1"
                )

    def _count_piece(self, number: int, row: KeyedRow, where: str) -> None:
        key, packed = row
        segment, counted = self._header.segments[number], self.counted[number]
        codes, codec = self._codecs[number]
        if not key or key[0] >= segment.levels or len(key) > MAX_KEY:
            raise ValueError(f"{where} has an impossible key")
        piece = from_members(codec.unpack(key, packed, where), key[0])
        if key[0] == 0:
            counted[0] += len(piece)
        else:
            counted[0] += int(np.count_nonzero(piece.kinds == TERMINAL))
        for text in unwritten_facts(piece, codes, self._tokenizer):
            raise ValueError(f"{where} has the fact {text!a}, with a character that no ingest writes")
        if key[0] == segment.levels - 1:
            if key != row_key(segment.levels - 1, []) or piece.total() != segment.facts:
                raise ValueError(f"{where} is not a root of {segment.facts:,} facts")
            counted[1] += 1


Connection = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """A finished import.

    `size`: bytes of the file. `rows`: of all tables. `resumed`: those of them that an earlier run had stored.
    `checksum`: of the whole index, in hex, as the export printed it.
    """

    index: str
    facts: int
    size: int
    rows: int
    resumed: int
    checksum: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Position:
    """The position of an unfinished import, as its catalogue entry stores it.

    `file`: the checksum of the index in the file, in hex. `rows`: the number of rows that are stored. `counted`: the
    counts of `Checks` at the last of them.
    """

    file: str
    rows: int
    counted: list[list[int]]


def import_index(
    database: Database,
    path: Path,
    name: str | None = None,
    *,
    source: str | None = None,
    replace: bool = False,
    step_bytes: int = STEP_BYTES,
    progress: RowProgress = lambda done, total: None,
) -> ImportResult:
    """Import a file, which errors call `source`, as the index `name`; by default with the name that it was exported with.

    Raises InputError if the file is damaged, truncated or not an export; then nothing of it is left. Raises
    IndexExistsError if the name is taken or being written, DatabaseError if the database fails: then what was stored
    stays, and the same call continues after it.
    """
    with closing(IndexFile(path, source)) as file:
        name = file.header.name if name is None else name
        building.check_name(name)
        try:
            # A session of its own, not the pool's: it holds the lock on the name.
            with database.session() as connection, name_lock(connection, name):
                check_rights(connection, name)
                check_catalogue(connection)
                building.check_free(connection, name, replace)
                return _Import(connection, file, name=name, replace=replace, progress=progress).run(step_bytes)
        except psycopg.Error as error:
            raise DatabaseError(
                f"PostgreSQL could not store index {name!r}: {database.reason(error)}. The same command continues "
                "after what was stored"
            ) from error


def import_stream(
    database: Database,
    stream: BinaryIO,
    source: str,
    name: str | None = None,
    *,
    replace: bool = False,
    progress: RowProgress = lambda done, total: None,
) -> ImportResult:
    """Import the file in a stream, which errors call `source`, by way of a temporary file. Raises as `import_index` does."""
    with TemporaryDirectory(prefix="refactx-import-") as folder:
        path = Path(folder, "index.refactx")
        try:
            with path.open("wb") as file:
                shutil.copyfileobj(stream, file, 1 << 20)
        except OSError as error:
            raise InputError(f"cannot copy {source} to {path} ({error.strerror or error})") from error
        return import_index(database, path, name, source=source, replace=replace, progress=progress)


class _Import:
    """One import, whose caller holds the lock on its name."""

    def __init__(
        self, connection: Connection, file: IndexFile, *, name: str, replace: bool, progress: RowProgress
    ) -> None:
        self._connection, self._file, self._header, self._name = connection, file, file.header, name
        self._replace, self._progress = replace, progress
        self._index = 0
        self._tables: dict[Member, int] = {}

    def run(self, step_bytes: int) -> ImportResult:
        file = self._file
        tokenizer = read_tokenizer(file.value(("tokens", 0)), self._header, file.name)
        try:
            self._checks = Checks(file, tokenizer)
        except (CorruptIndexError, ValueError, zstandard.ZstdError) as error:
            raise damage_error(file.name, error) from error
        position = self._find()
        if position is None:
            position = self._begin(tokenizer)
        self._checks.counted = position.counted
        self._stored = resumed = position.rows
        try:
            for step in self._steps(step_bytes):
                self._store(step)
            self._checks.finish()
        except (CorruptIndexError, ValueError, OverflowError, zstandard.ZstdError) as error:
            removal.discard(self._connection, [self._index])
            raise damage_error(file.name, error.__cause__ or error) from error
        self._publish()
        return ImportResult(
            index=self._name,
            facts=self._header.facts,
            size=file.size,
            rows=self._header.rows,
            resumed=resumed,
            checksum=file.checksum,
        )

    def _find(self) -> _Position | None:
        """Return the position of an earlier import of the same file; None if there is none."""
        for entry in list_indexes(self._connection, self._name, every=True):
            begun = entry.report.get("import")
            if entry.state == "building" and begun is not None and begun.get("file") == self._file.checksum:
                self._index = entry.id
                self._find_tables(entry.knowledge_base)
                return _Position(**begun)
        return None

    def _begin(self, tokenizer: FactTokenizer) -> _Position:
        """Commit an empty index with all its tables, after removing other unfinished indexes of its name."""
        header = self._header
        entry = building.IndexHeader(
            name=self._name,
            tokenizer_name=header.tokenizer,
            tokenizer=tokenizer,
            trigger=header.trigger,
            terminator=header.terminator,
            source=header.source,
        )
        building.prepare_catalogue(self._connection, self._name)
        with self._connection.transaction():
            knowledge_base = building.add_knowledge_base(self._connection)
            self._index = building.add_index(self._connection, entry, knowledge_base)
            for segment in header.segments:
                building.add_segment(self._connection, self._index, segment.sign)
            for _ in header.names:
                building.add_name_table(self._connection, knowledge_base)
            self._find_tables(knowledge_base)
            for number in range(len(header.segments)):
                self._connection.execute(
                    "UPDATE refactx.segments SET codes = %s, dictionary = %s WHERE id = %s",
                    [
                        self._file.value(("codes", number)),
                        self._file.value(("dict", number)),
                        self._tables["tree", number],
                    ],
                )
            return self._save(0)

    def _find_tables(self, knowledge_base: int) -> None:
        """Find the numbers of the tables, which were made in the order of the file."""
        for kind, table, owner, value in (
            ("tree", "segments", "index_id", self._index),
            ("names", "name_tables", "knowledge_base", knowledge_base),
        ):
            statement = f"SELECT id FROM refactx.{table} WHERE {owner} = %s ORDER BY id"
            for number, made in enumerate(numbers(self._connection, statement, [value])):
                self._tables[kind, number] = made

    def _rows(self) -> Iterator[tuple[Member, KeyedRow]]:
        """Check all rows, and yield those that are not stored yet. Raises as `Checks.add` does."""
        done, stored = 0, self._stored
        for member in self._header.tables():
            digest = RowDigest()
            try:
                for row in self._file.table(member).rows():
                    digest.add(row)
                    done += 1
                    if done > stored:
                        yield member, self._checks.add(member, row)
                    self._progress(1, self._header.rows)
            except (CorruptIndexError, ValueError, OverflowError, zstandard.ZstdError) as error:
                raise ValueError(f"{member[0]} {member[1]}: {error.__cause__ or error}") from None
            if digest.digest() != self._file.checksums[member]:
                raise ValueError(f"the checksum of {member[0]} {member[1]} is wrong")

    def _steps(self, step_bytes: int) -> Iterator[list[tuple[Member, KeyedRow]]]:
        """Yield the rows to store in lists of `step_bytes` or somewhat more.

        The next row is read when the caller asks for the next list: its checks change the counts that a position stores.
        """
        step: list[tuple[Member, KeyedRow]] = []
        size = 0
        for member, row in self._rows():
            step.append((member, row))
            size += len(row[0]) + len(row[1])
            if size >= step_bytes:
                yield step
                step, size = [], 0
        if step:
            yield step

    def _store(self, step: list[tuple[Member, KeyedRow]]) -> None:
        """Commit some rows and the position after them."""
        with self._connection.transaction():
            for (kind, number), group in groupby(step, lambda one: one[0]):
                rows = (row for _, row in group)
                if kind == "hubs":
                    add_hubs(self._connection, self._index, map(unpack_hub, rows))
                else:
                    add_rows(self._connection, _KINDS[kind], self._tables[kind, number], rows)
            self._save(self._stored + len(step))
        self._stored += len(step)

    def _save(self, rows: int) -> _Position:
        position = _Position(file=self._file.checksum, rows=rows, counted=self._checks.counted)
        self._connection.execute(
            "UPDATE refactx.indexes SET report = %s WHERE id = %s", [Jsonb({"import": asdict(position)}), self._index]
        )
        return position

    def _publish(self) -> None:
        """Make the B-trees and show the index, in one transaction."""
        connection = self._connection
        with connection.transaction():
            for (kind, number), made in self._tables.items():
                add_key(connection, _KINDS[kind], made)
                if kind == "names":
                    building.show_names(connection, made)
                else:
                    segment = self._header.segments[number]
                    columns = ("levels", "cut", "facts", "tokens")
                    building.show_segment(connection, made, {column: getattr(segment, column) for column in columns})
            building.show_index(connection, self._index, self._header.report, self._replace)
        removal.discard_unfinished(connection, self._name)
