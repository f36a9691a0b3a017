"""An index in a file, as what an `Index` reads: no database, no code from the file, and rows where they are.

What a row says is checked when it is read: rows of the tree and blocks of names by their checksums, as in a database.
Hubs have none, so the checksums of their blocks are checked on opening.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import zstandard

from refactx.errors import CorruptIndexError
from refactx.index.file.blocks import damage_error
from refactx.index.file.header import SharedSegment
from refactx.index.file.hubs import hub_keys, unpack_subjects
from refactx.index.file.mapped import CHECKED_BYTES, MappedFile
from refactx.index.file.segments import segment_codec
from refactx.index.file.table import Table
from refactx.index.file.tokenizer import read_tokenizer
from refactx.index.name_tables import ReadBlocks
from refactx.index.snapshot import Segment, Snapshot, tree_of
from refactx.paths import needs_database
from refactx.postgres.catalogue_entry import CatalogueEntry
from refactx.postgres.marks import IndexMark
from refactx.tokenizer import FactTokenizer
from refactx.tree.array_rows import read_in_place
from refactx.tree.stored import StoredTree
from refactx.tree.token_codes import TokenCodes, frequent_tokens

if TYPE_CHECKING:
    from refactx.postgres.database import Database

Value = TypeVar("Value")


class FileRows:
    """The rows of one segment in a file: a `SegmentSource`, which has no round trips."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.round_trips, self.seconds = 0, 0.0

    def fetch(self, key: bytes) -> memoryview | None:
        """Return the row with a key, where it is; None if there is none."""
        return self._table.get(key)

    def fetch_many(self, keys: Sequence[bytes]) -> dict[bytes, memoryview]:
        """Return the rows with some keys; without the keys that have no row."""
        return {key: row for key in keys if (row := self._table.get(key)) is not None}

    def count(self) -> int:
        """Return the number of rows."""
        return self._table.count()


class FileSource:
    """An index in a file of `refactx index export`. Its name is the path.

    Raises InputError if the file cannot be read, is damaged, of another version or not an export.
    """

    def __init__(self, path: Path, checked_bytes: int = CHECKED_BYTES) -> None:
        self._file = file = MappedFile(path, checked_bytes)
        self.entry = _entry(file)
        try:
            self._segments = tuple(
                _segment(file, number, segment) for number, segment in enumerate(file.header.segments)
            )
            self._names = [Table(file, ("names", number)) for number in range(len(file.header.names))]
            file.check(("hubs", 0))
            self._hubs = Table(file, ("hubs", 0))
        except (CorruptIndexError, ValueError, zstandard.ZstdError) as error:
            raise damage_error(file.name, str(error)) from error

    @property
    def database(self) -> "Database":
        """Raise InputError: there is none."""
        raise needs_database(self._file.name)

    def snapshot(self, cache_bytes: int, before: Sequence[Segment] = ()) -> Snapshot:
        """Return the index. It does not change, also if another file gets the path."""
        mark = IndexMark((0, self._file.checksum), (), ())
        return Snapshot(
            self._segments, tree_of(self._segments, cache_bytes), tuple(range(len(self._names)))[::-1], mark
        )

    def patience(self) -> None:
        """Return None: a file does not change."""

    def prepare_tokenizer(self) -> Callable[[], FactTokenizer]:
        """Return what reads the tokenizer, which raises InputError if it is not the one that the header describes."""
        return lambda: read_tokenizer(self._file.block(("tokens", 0)), self._file.header, self._file.name)

    def read_names(self, find: Callable[[ReadBlocks], Value], *, unlimited: bool = False) -> Value:
        """Return what `find` finds in blocks of the name tables."""
        return find(self._read_blocks)

    def name_rows(self, table: int, first: bytes) -> list[tuple[bytes, bytes]]:
        """Return the keys and blocks of a name table from the key `first` on."""
        return [(key, bytes(block)) for key, block in self._names[table].rows(first)]

    def hubs(self, objects: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return the subjects of some objects that are hubs, by object and inverse predicate."""
        found: dict[str, dict[str, int]] = {}
        for name in set(objects):
            beginning = hub_keys(name)
            for key, value in self._hubs.rows(beginning):
                if not key.startswith(beginning):
                    break
                try:
                    _, _, inverse, subjects = unpack_subjects(key, value)
                except ValueError as error:
                    raise CorruptIndexError(
                        f"{self._file.name} is damaged: {error}. Copy or export it again"
                    ) from error
                counts = found.setdefault(name, {})
                counts[inverse] = counts.get(inverse, 0) + subjects
        return found

    def faults(self) -> Iterable[str]:
        """Check the checksums of all blocks, and yield what is wrong."""
        return self._file.faults()

    def close(self) -> None:
        """Let go of the file. It stays mapped while there are results that refer to it."""
        self._file.close()

    def _read_blocks(self, table: int, keys: list[bytes], first: bytes) -> Mapping[bytes, bytes]:
        found = (self._names[table].last(key, first) for key in keys)
        return {row[0]: bytes(row[1]) for row in found if row is not None}


def _segment(file: MappedFile, number: int, segment: SharedSegment) -> Segment:
    codes, dictionary = (bytes(file.block((kind, number))) for kind in ("codes", "dict"))
    rows = FileRows(Table(file, ("tree", number)))
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


def _entry(file: MappedFile) -> CatalogueEntry:
    """Return what the catalogue of a database would say of the index."""
    header = file.header
    sizes = {kind: sum(one.size for one in file.blocks if one.kind == kind) for kind in ("tree", "names")}
    return CatalogueEntry(
        id=0,
        name=file.name,
        state="ready",
        format=header.format,
        tokenizer=header.tokenizer,
        fingerprint=header.fingerprint,
        vocabulary_size=header.vocabulary_size,
        trigger=header.trigger,
        terminator=header.terminator,
        source=header.source,
        report=header.report,
        created=datetime.fromisoformat(header.created),
        knowledge_base=0,
        segments=len(header.segments),
        unfinished=0,
        facts=header.facts,
        tokens=sum(segment.sign * segment.tokens for segment in header.segments),
        levels=max((segment.levels for segment in header.segments), default=0),
        cut=max((segment.cut for segment in header.segments), default=0),
        table_bytes=sizes["tree"],
        index_bytes=0,
        toast_bytes=0,
        names_bytes=sizes["names"],
    )
