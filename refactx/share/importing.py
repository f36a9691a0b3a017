"""The import of a file of `refactx index export` as a new index, in steps of bounded size.

Everything in the file is checked before it is stored: `refactx.share.export` checks blocks and header,
`refactx.share.importing` the tokenizer, each row and the counts. Rows are stored by COPY in tables with numbers that this
database assigned. A step commits some rows and the position in the file. So an import that was stopped continues there
if it runs again with the same file, and a file with an error leaves nothing. Readers see the index when it is complete:
the last transaction makes the B-trees and shows the index.

Each row is unpacked as a reader would (`refactx.tree.codes`, `refactx.tree.piece`, `refactx.index.names`). Whether
pieces agree with each other is checked by `refactx index verify`, which walks the whole tree, and by readers for the
pieces that they read.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import psycopg
import zstandard
from psycopg.types.json import Jsonb

from refactx.errors import CorruptIndexError, DatabaseError, InputError
from refactx.index.file.format import (
    IN_PLACE,
    ROWS,
    Member,
    ShareHeader,
    TruncatedFileError,
    damage_error,
    read_tokenizer,
)
from refactx.index.file.rows import KeyedRow, segment_codec
from refactx.index.names import check_block
from refactx.index.verify import unwritten_facts
from refactx.postgres import writing as building
from refactx.postgres import writing as removal
from refactx.postgres.catalogue import Kind, add_hubs, add_key, add_rows, check_catalogue, list_indexes, numbers
from refactx.postgres.database import Database
from refactx.postgres.locks import check_rights, name_lock
from refactx.share.export import (
    ByteProgress,
    MemberBlock,
    SharedIndex,
    counted_size,
    open_shared,
    to_database,
    unpack_hub,
)
from refactx.tokenizer import FactTokenizer
from refactx.tree.codes import RowCodec, TokenCodes, frequent_tokens
from refactx.tree.piece import MAX_KEY, TERMINAL, from_members, row_key


class Checks:
    """The checks of one import, for parts in their order.

    `counted`: the facts and roots so far, a pair for each segment. An import that is resumed continues from them.
    """

    def __init__(self, header: ShareHeader, source: str, tokenizer: FactTokenizer) -> None:
        self._header, self._source, self._tokenizer = header, source, tokenizer
        self._codes, self._token_codes = b"", TokenCodes(np.empty(0, np.int32))
        self._codec = self._names_codec = RowCodec()
        self.counted = [[0, 0] for _ in header.segments]

    def resume(self, counted: list[list[int]]) -> None:
        """Continue from the counts of an earlier run."""
        self.counted = counted

    def add(self, part: MemberBlock, is_known: bool) -> MemberBlock:
        """Check one part, and return it with its rows as a database has them.

        Of a part that is known, only read what later parts depend on. Raises InputError.
        """
        kind, number = part.member
        try:
            if kind == "codes":
                self._codes = part.block.payload
                self._token_codes = TokenCodes(frequent_tokens(self._codes, self._header.vocabulary_size))
            elif kind == "dict":
                self._codec = segment_codec(self._codes, part.block.payload)
            elif kind == "tree" and not is_known:
                if part.block.version >= IN_PLACE:
                    part = replace(part, rows=tuple(map(self._stored, part.rows)))
                for row in part.rows:
                    self._count_piece(number, row)
            elif kind == "names" and not is_known:
                self._check_names(part)
            elif kind == "hubs":
                for row in part.rows:
                    unpack_hub(row)
        except CorruptIndexError as error:
            raise damage_error(self._source, f"{kind} {number}: {error.__cause__ or error}") from error
        except (ValueError, OverflowError, zstandard.ZstdError) as error:
            raise damage_error(self._source, f"{kind} {number}: {error}") from error
        return part

    def finish(self) -> None:
        """Raise InputError unless the parts had as many facts as the header says."""
        for number, ((facts, roots), segment) in enumerate(zip(self.counted, self._header.segments, strict=True)):
            if (facts, roots) != (segment.facts, 1):
                raise damage_error(
                    self._source,
                    f"tree {number} has {facts:,} facts and {roots} roots, but its header says {segment.facts:,} and 1",
                )

    def _stored(self, row: KeyedRow) -> KeyedRow:
        return row if row[0][:1] <= b"\0" else to_database(row, self._codec, f"row {row[0][:40].hex()}")

    def _count_piece(self, number: int, row: KeyedRow) -> None:
        key, packed = row
        segment, counted = self._header.segments[number], self.counted[number]
        where = f"row {key[:40].hex()}"
        if not key or key[0] >= segment.levels or len(key) > MAX_KEY:
            raise ValueError(f"{where} has an impossible key")
        piece = from_members(self._codec.unpack(key, packed, where), key[0])
        if key[0] == 0:
            counted[0] += len(piece)
        else:
            counted[0] += int(np.count_nonzero(piece.kinds == TERMINAL))
        for text in unwritten_facts(piece, self._token_codes, self._tokenizer):
            raise ValueError(f"{where} has the fact {text!a}, with a character that no ingest writes")
        if key[0] == segment.levels - 1:
            if key != row_key(segment.levels - 1, []) or piece.total() != segment.facts:
                raise ValueError(f"{where} is not a root of {segment.facts:,} facts")
            counted[1] += 1

    def _check_names(self, part: MemberBlock) -> None:
        for key, packed in part.rows:
            check_block(key, packed, self._names_codec, f"block of names {key[:40]!r}")


STEP_BYTES = 16 << 20
"""The bytes of blocks that one transaction stores, and that are in memory until then."""

_KINDS: dict[str, Kind] = {"tree": "pieces", "names": "names"}

Connection = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """A finished import.

    `size`: bytes of rows. `resumed`: bytes of them that an earlier run had stored. `checksum`: of the last block, in
    hex, as the export printed it.
    """

    index: str
    facts: int
    size: int
    resumed: int
    checksum: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Position:
    """The position of an unfinished import, as its catalogue entry stores it.

    `file`: the checksum of the header's block, in hex. `blocks`: the number of blocks after it that are stored.
    `checksum`: of the last of them. `counted`: the counts of `Checks` at that block.
    """

    file: str
    blocks: int
    checksum: str
    counted: list[list[int]]


def import_index(
    database: Database,
    path: Path,
    name: str | None = None,
    *,
    replace: bool = False,
    step_bytes: int = STEP_BYTES,
    progress: ByteProgress = lambda done, total: None,
) -> ImportResult:
    """Import a file as the index `name`, by default with the name that it was exported with.

    Raises InputError if the file is damaged or not an export; then nothing of it is left. Raises TruncatedFileError if
    the file ends early, IndexExistsError if the name is taken or being written, DatabaseError if the database fails.
    After those, or if the file cannot be read to its end, what was stored stays: the same call continues after it.
    """
    try:
        with path.open("rb") as file:
            return import_stream(
                database, file, str(path), name, replace=replace, step_bytes=step_bytes, progress=progress
            )
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error


def import_stream(
    database: Database,
    stream: BinaryIO,
    source: str,
    name: str | None = None,
    *,
    replace: bool = False,
    step_bytes: int = STEP_BYTES,
    progress: ByteProgress = lambda done, total: None,
) -> ImportResult:
    """Import the file in a stream, which errors call `source`. Raises as `import_index` does.

    To continue an import, give the stream from its beginning.
    """
    try:
        shared = open_shared(stream, source)
    except TruncatedFileError as error:
        raise TruncatedFileError(
            f"{error}. Nothing of it was stored: run the same command with the whole file"
        ) from None
    name = shared.header.name if name is None else name
    building.check_name(name)
    try:
        # A session of its own, not the pool's: it holds the lock on the name.
        with database.session() as connection, name_lock(connection, name):
            check_rights(connection, name)
            check_catalogue(connection)
            building.check_free(connection, name, replace)
            return _Import(connection, shared, source=source, name=name, replace=replace, progress=progress).run(
                step_bytes
            )
    except TruncatedFileError as error:
        raise TruncatedFileError(f"{error}. What was stored stays: run the same command with the whole file") from None
    except psycopg.Error as error:
        raise DatabaseError(
            f"PostgreSQL could not store index {name!r}: {database.reason(error)}. The same command continues "
            "after what was stored"
        ) from error


class _Import:
    """One import, whose caller holds the lock on its name."""

    def __init__(
        self,
        connection: Connection,
        shared: SharedIndex,
        *,
        source: str,
        name: str,
        replace: bool,
        progress: ByteProgress,
    ) -> None:
        self._connection, self._header, self._source, self._name = connection, shared.header, source, name
        self._file, self._parts = shared.head.checksum.hex(), shared.parts
        self._replace, self._progress = replace, progress
        self._index = self._resumed = 0
        self._tables: dict[Member, int] = {}

    def run(self, step_bytes: int) -> ImportResult:
        first = next(self._parts)
        tokenizer = read_tokenizer(first.block.payload, self._header, self._source)
        self._checks = Checks(self._header, self._source, tokenizer)
        position = self._find()
        if position is None:
            position = self._begin(tokenizer, self._position_after(first))
        elif position.counted:  # empty if an earlier version of this program stopped before its first step
            self._checks.resume(position.counted)
        try:
            for step in _steps(self._checked(position), step_bytes):
                position = self._store(step)
            self._checks.finish()
            self._publish()
        except TruncatedFileError:
            raise
        except InputError:
            removal.discard(self._connection, [self._index])
            raise
        return ImportResult(
            index=self._name,
            facts=self._header.facts,
            size=self._header.size,
            resumed=self._resumed,
            checksum=position.checksum,
        )

    def _find(self) -> _Position | None:
        """Return the position of an earlier import of the same file; None if there is none."""
        for entry in list_indexes(self._connection, self._name, every=True):
            begun = entry.report.get("import")
            if entry.state == "building" and begun is not None and begun.get("file") == self._file:
                self._index = entry.id
                self._find_tables(entry.knowledge_base)
                return _Position(**begun)
        return None

    def _begin(self, tokenizer: FactTokenizer, position: _Position) -> _Position:
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
            self._save(position)
        self._find_tables(knowledge_base)
        return position

    def _find_tables(self, knowledge_base: int) -> None:
        """Find the numbers of the tables, which were made in the order of the file."""
        for kind, table, owner, value in (
            ("tree", "segments", "index_id", self._index),
            ("names", "name_tables", "knowledge_base", knowledge_base),
        ):
            statement = f"SELECT id FROM refactx.{table} WHERE {owner} = %s ORDER BY id"
            for number, made in enumerate(numbers(self._connection, statement, [value])):
                self._tables[kind, number] = made

    def _checked(self, position: _Position) -> Iterator[MemberBlock]:
        """Check all parts, and yield those that are not stored yet."""
        for part in self._parts:
            is_known = part.index <= position.blocks
            if part.index == position.blocks and part.block.checksum.hex() != position.checksum:
                raise InputError(
                    f"{self._source} is not the file of the unfinished import, which was removed: run the command again"
                )
            size = sum(counted_size(part.member, row, part.block.version) for row in part.rows)
            checked = self._checks.add(part, is_known)
            self._progress(size, self._header.size)
            if is_known:
                self._resumed += size
            else:
                yield checked

    def _store(self, step: list[MemberBlock]) -> _Position:
        """Commit some parts and the position after them."""
        position = self._position_after(step[-1])
        with self._connection.transaction():
            for member, group in groupby(step, lambda part: part.member):
                parts = list(group)
                rows = (row for part in parts for row in part.rows)
                if member[0] == "hubs":
                    add_hubs(self._connection, self._index, map(unpack_hub, rows))
                elif member[0] in ROWS:
                    add_rows(self._connection, _KINDS[member[0]], self._tables[member], rows)
                elif member[0] in ("codes", "dict"):
                    column = "codes" if member[0] == "codes" else "dictionary"
                    statement = f"UPDATE refactx.segments SET {column} = %s WHERE id = %s".encode()
                    self._connection.execute(statement, [parts[0].block.payload, self._tables["tree", member[1]]])
            self._save(position)
        return position

    def _position_after(self, last: MemberBlock) -> _Position:
        return _Position(
            file=self._file, blocks=last.index, checksum=last.block.checksum.hex(), counted=self._checks.counted
        )

    def _save(self, position: _Position) -> None:
        self._connection.execute(
            "UPDATE refactx.indexes SET report = %s WHERE id = %s", [Jsonb({"import": asdict(position)}), self._index]
        )

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


def _steps(parts: Iterator[MemberBlock], step_bytes: int) -> Iterator[list[MemberBlock]]:
    """Yield parts in lists of `step_bytes` or somewhat more.

    The next part is read when the caller asks for the next list: its checks change the counts that a position stores.
    """
    step: list[MemberBlock] = []
    size = 0
    for part in parts:
        step.append(part)
        size += len(part.block.payload)
        if size >= step_bytes:
            yield step
            step, size = [], 0
    if step:
        yield step
