"""`refactx index import`: a file of `refactx index export` becomes an index of its own, in bounded steps.

Nothing of the file is believed: `refactx.share.reader` checks blocks and header, `ingest.import_checks` the tokenizer, each row
and the counts, and only then rows go in, through COPY, into tables of numbers that this database gave. A step commits some rows
together with how far it is. So an import that was stopped goes on there when it runs again with the same file, and a file with
something wrong leaves nothing. Readers see the index when it is complete: B-trees, sizes and names are one transaction.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO

import psycopg
from psycopg.types.json import Jsonb

from refactx.errors import DatabaseError, InputError, without_password
from refactx.postgres import building as catalogue
from refactx.postgres.database import Database, list_indexes, open_session
from refactx.postgres.locks import name_lock
from refactx.postgres.rights import check_rights
from refactx.postgres.tables import Kind, add_key, add_rows
from refactx.share.blocks import TruncatedFileError
from refactx.share.checks import Checks, read_tokenizer
from refactx.share.header import ROWS, Member
from refactx.share.reader import Part, SharedIndex, open_shared
from refactx.tokenizer import FactTokenizer

STEP_BYTES = 16 << 20
"""Of blocks that go in by one transaction, and are held in memory until then."""

_KINDS: dict[str, Kind] = {"tree": "pieces", "names": "names"}

Connection = psycopg.Connection[Any]
Progress = Callable[[int, int], object]
"""Is told bytes of rows that were done since it was called last, and those of the whole index."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A finished import. `size`: bytes of rows; `resumed`: those of them that an earlier run had put in; `checksum`: the last
    block's, in hex, as the export gave it."""

    index: str
    facts: int
    size: int
    resumed: int
    checksum: str


@dataclass(frozen=True, slots=True)
class _Position:
    """How far an import is, as the catalogue entry keeps it while it is under way. `file`: the checksum of the header's block,
    in hex; `blocks` behind it are in, of which the last has `checksum`; `counted`: what `Checks` had counted."""

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
    progress: Progress = lambda done, total: None,
) -> Imported:
    """Import a file under a name, by default the one that it was exported under.

    Raises InputError (not a file of ours, damaged, made by hand: nothing of it is left), TruncatedFileError (of such a file),
    IndexExistsError (the name is taken, or being written), DatabaseError. What is in stays if the file is truncated or
    cannot be read on, and if the database fails: the same call goes on behind it.
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
    progress: Progress = lambda done, total: None,
) -> Imported:
    """Import what a stream holds; errors call it `source`. Given once more from its beginning, it is gone on with, too."""
    try:
        shared = open_shared(stream, source)
    except TruncatedFileError as error:
        raise TruncatedFileError(f"{error}. Nothing of it was imported: give the same command the whole file") from None
    name = shared.header.name if name is None else name
    catalogue.check_name(name)
    try:
        # A session of its own, not the pool's: it holds the lock on the name.
        with open_session(database.url) as connection, name_lock(connection, name):
            check_rights(connection, name)
            catalogue.check_free(connection, name, replace)
            return _Import(connection, shared, source, name, replace, progress).run(step_bytes)
    except TruncatedFileError as error:
        raise TruncatedFileError(
            f"{error}. What is in the database stays: give the same command the whole file"
        ) from None
    except psycopg.Error as error:
        reason = without_password(" ".join(str(error).split()))
        raise DatabaseError(
            f"PostgreSQL could not take index {name!r}: {reason}. The same command goes on with what is in"
        ) from error


class _Import:
    """One import, under the lock on its name."""

    def __init__(
        self, connection: Connection, shared: SharedIndex, source: str, name: str, replace: bool, progress: Progress
    ) -> None:
        self._connection, self._header, self._source, self._name = connection, shared.header, source, name
        self._file, self._parts = shared.head.checksum.hex(), shared.parts
        self._replace, self._progress = replace, progress
        self._checks = Checks(shared.header, source)
        self._index = self._resumed = 0
        self._tables: dict[Member, int] = {}

    def run(self, step_bytes: int) -> Imported:
        first = next(self._parts)
        tokenizer = read_tokenizer(first.block.payload, self._header, self._source)
        position = self._find()
        if position is None:
            start = _Position(self._file, first.index, first.block.checksum.hex(), self._checks.counted)
            position = self._begin(tokenizer, start)
        elif position.counted:  # empty where an earlier version of this program stopped before its first step
            self._checks.go_on_from(position.counted)
        try:
            for step in _steps(self._checked(position), step_bytes):
                position = self._store(step)
            self._checks.finish()
            self._publish()
        except TruncatedFileError:
            raise
        except InputError:
            catalogue.discard(self._connection, [self._index])
            raise
        return Imported(self._name, self._header.facts, self._header.size, self._resumed, position.checksum)

    def _find(self) -> _Position | None:
        """Where an earlier import of the same file stopped."""
        for entry in list_indexes(self._connection, self._name, every=True):
            begun = entry["report"].get("import")
            if entry["state"] == "building" and begun is not None and begun.get("file") == self._file:
                self._index = entry["id"]
                self._find_tables(entry["knowledge_base"])
                return _Position(**begun)
        return None

    def _begin(self, tokenizer: FactTokenizer, position: _Position) -> _Position:
        """Commit an empty index with all its tables, after removing what else was begun under its name."""
        header = self._header
        entry = catalogue.Header(
            *(self._name, header.tokenizer, tokenizer, header.trigger, header.terminator, header.source)
        )
        catalogue.clear_way(self._connection, self._name)
        with self._connection.transaction():
            knowledge_base = catalogue.add_knowledge_base(self._connection)
            self._index = catalogue.add_index(self._connection, entry, knowledge_base)
            for segment in header.segments:
                catalogue.add_segment(self._connection, self._index, segment.sign)
            for _ in header.names:
                catalogue.add_name_table(self._connection, knowledge_base)
            self._save(position)
        self._find_tables(knowledge_base)
        return position

    def _find_tables(self, knowledge_base: int) -> None:
        """The numbers of the tables, in the order in which they were made: that of the file."""
        for kind, table, owner, value in (
            ("tree", "segments", "index_id", self._index),
            ("names", "name_tables", "knowledge_base", knowledge_base),
        ):
            statement = f"SELECT id FROM refactx.{table} WHERE {owner} = %s ORDER BY id"
            for number, made in enumerate(catalogue.numbers(self._connection, statement, [value])):
                self._tables[kind, number] = made

    def _checked(self, position: _Position) -> Iterator[Part]:
        """The parts that are not in yet, each checked."""
        for part in self._parts:
            is_known = part.index <= position.blocks
            if part.index == position.blocks and part.block.checksum.hex() != position.checksum:
                raise InputError(
                    f"{self._source} is not the file whose import was begun, which is now discarded: run the command again"
                )
            self._checks.add(part, is_known)
            size = sum(len(key) + len(value) for key, value in part.rows)
            self._progress(size, self._header.size)
            if is_known:
                self._resumed += size
            else:
                yield part

    def _store(self, step: list[Part]) -> _Position:
        """Commit some parts, and how far that is."""
        last = step[-1]
        position = _Position(self._file, last.index, last.block.checksum.hex(), self._checks.counted)
        with self._connection.transaction():
            for member, parts in groupby(step, lambda part: part.member):
                if member[0] in ROWS:
                    rows = (row for part in parts for row in part.rows)
                    add_rows(self._connection, _KINDS[member[0]], self._tables[member], rows)
                elif member[0] in ("codes", "dict"):
                    column = {"codes": "codes", "dict": "dictionary"}[member[0]]
                    self._connection.execute(
                        f"UPDATE refactx.segments SET {column} = %s WHERE id = %s".encode(),
                        [next(parts).block.payload, self._tables["tree", member[1]]],
                    )
            self._save(position)
        return position

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
                    catalogue.show_names(connection, made)
                else:
                    segment = self._header.segments[number]
                    columns = ("levels", "cut", "facts", "tokens")
                    catalogue.show_segment(connection, made, {column: getattr(segment, column) for column in columns})
            catalogue.show_index(connection, self._index, self._header.report, self._replace)
        catalogue.discard_unfinished(connection, self._name)


def _steps(parts: Iterator[Part], step_bytes: int) -> Iterator[list[Part]]:
    """Parts in lists of `step_bytes` or somewhat more. None is taken from `parts` before the list before it is done with."""
    step: list[Part] = []
    size = 0
    for part in parts:
        step.append(part)
        size += len(part.block.payload)
        if size >= step_bytes:
            yield step
            step, size = [], 0
    if step:
        yield step
