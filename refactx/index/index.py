"""A fact index as its users see it: the facts of a knowledge base as one tree for one tokenizer."""

import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import islice
from types import TracebackType
from typing import Any

import zstandard

from refactx.errors import CorruptIndexError, IndexNotFoundError, RefactxError, without_password
from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS, Fact, split_fact, verbalise, written_part
from refactx.index.completion import completions, normalise_prefix
from refactx.index.links import Link, LinkedFact
from refactx.index.names import Named, block_key, find, unpack_block
from refactx.index.snapshot import Snapshot, open_snapshot
from refactx.postgres.database import Database, SegmentRows, list_indexes
from refactx.tokenizer import FactTokenizer
from refactx.tree.children import Children
from refactx.tree.codec import FORMAT_VERSION, RowCodec
from refactx.tree.stored import StoredTree

CACHE_BYTES = 256 << 20
"""Default bound of the client's cache: at some 30 bytes a fact it holds the neighbourhood of millions."""

MAX_TOKENIZER_BYTES = 256 << 20


class Index:
    """A ready index, open for reading. Safe to share between threads; a forked child makes its own connections.

    It is a `FactTree` (`children`), a set of facts (`in`), and can be walked by text (`complete`). Close it, or use it in
    a `with` block.

    It shows the index as it was when it was opened, until `refresh`. Where the index is compacted meanwhile, it goes on by
    itself with the index as it is then: each prefix is answered as of one moment, two prefixes maybe not as of the same.
    """

    def __init__(
        self,
        database: Database,
        entry: dict[str, Any],
        cache_bytes: int = CACHE_BYTES,
        on_close: Callable[[], object] = lambda: None,
        tokenizer: FactTokenizer | None = None,
    ) -> None:
        """`tokenizer`: the index's own, where it is at hand: then it is not read."""
        self._database, self.entry, self._on_close = database, entry, on_close
        self.name: str = entry["name"]
        self.trigger: str = entry["trigger"]
        self.terminator: str = entry["terminator"]
        self.fingerprint: str = entry["fingerprint"]
        self.tokenizer_name: str = entry["tokenizer"]
        self._cache_bytes, self._earlier_round_trips = cache_bytes, 0
        self._renewing = threading.Lock()
        self._snapshot = open_snapshot(database, entry, cache_bytes)
        if tokenizer is None:
            self._packed_tokenizer = self._stored_tokenizer()
        else:
            self.tokenizer = tokenizer
        self._names_codec = RowCodec()

    def _stored_tokenizer(self) -> bytes:
        row = self._database.retry(
            lambda connection: connection.execute(
                "SELECT serialized FROM refactx.tokenizers WHERE fingerprint = %s", [self.fingerprint]
            ).fetchone(),
            self.name,
        )
        if row is None:
            raise IndexNotFoundError(f"index {self.name!r} was dropped or replaced: open it again")
        packed: bytes = row[0]
        return packed

    @property
    def segments(self) -> list[tuple[int, StoredTree]]:
        """The sign and the tree of each segment, of the moment."""
        return [(segment.sign, segment.tree) for segment in self._snapshot.segments]

    @property
    def rows(self) -> list[SegmentRows]:
        """The rows of each segment, of the moment."""
        return [segment.rows for segment in self._snapshot.segments]

    @property
    def name_tables(self) -> tuple[int, ...]:
        """The numbers of the tables with the names of the knowledge base, the one written last first."""
        return self._snapshot.name_tables

    @property
    def facts(self) -> int:
        """How many facts there are."""
        return self._snapshot.facts

    @property
    def tokens(self) -> int:
        """How many tokens the facts have, without terminators."""
        return self._snapshot.tokens

    def refresh(self) -> bool:
        """Take up what was appended or forgotten since the index was opened; whether there was anything.

        Without it an open index stays as it is until it is compacted. Raises IndexNotFoundError if it was dropped or replaced.
        """
        with self._renewing:
            before = self._snapshot
            fresh = open_snapshot(self._database, self.entry, self._cache_bytes, before.segments)
            if fresh.same_as(before):
                return False
            kept = {segment.number for segment in fresh.segments}
            self._earlier_round_trips += sum(s.rows.round_trips for s in before.segments if s.number not in kept)
            self._snapshot = fresh
            return True

    def _renew(self, stale: Snapshot, error: IndexNotFoundError) -> None:
        """A table of a snapshot is gone: go on with the index as it is now. Raises `error` if it has not changed."""
        if self._snapshot is stale and not self.refresh() and self._snapshot is stale:
            raise error

    def children(self, prefix: Sequence[int]) -> Children:
        """What may follow `prefix` (token ids behind the trigger): `.tokens` int32[n] ascending, `.leaves` int64[n], how many
        facts lie under each, and `.terminal`, how many end exactly here. Nothing (total 0) off the tree.

        Raises CorruptIndexError naming index and row if a row is damaged, DatabaseError if PostgreSQL stays away,
        IndexNotFoundError if the index was dropped or replaced.
        """
        while True:
            snapshot = self._snapshot
            try:
                return snapshot.tree.children(prefix)
            except IndexNotFoundError as error:  # a segment's table is gone: compacted, or dropped
                self._renew(snapshot, error)

    def __len__(self) -> int:
        return self.facts

    def __bool__(self) -> bool:
        return True

    def __contains__(self, fact: object) -> bool:
        """Whether a fact, with or without its terminator, is in the index: `"<s> <p> <o> ." in index`."""
        parts = split_fact(fact) if isinstance(fact, str) else None
        if parts is None:
            return False
        tokens = self.tokenizer.encode_after(self.trigger, verbalise(*map(written_part, parts)))
        return self.children(tokens).terminal > 0

    def complete(self, prefix: str, limit: int = 20) -> list[tuple[str, int]]:
        """What may follow a text such as `<Danny Boyle> <`: each text to the end of its next part, with how many facts begin
        so, most first. For the text of a whole fact: that fact, if it exists.

        The prefix may end inside a token. `limit` bounds the answer.
        """
        parts = split_fact(prefix)
        if parts:
            known = prefix in self
            return [(verbalise(*map(written_part, parts)).lstrip() + self.terminator, 1)] if known else []
        found = completions(self, self.tokenizer, normalise_prefix(prefix))
        return list(islice(found, limit))

    def links(self, fact: Fact) -> LinkedFact:
        """A fact's parts with the ids of the triple behind it, where the knowledge base has them. The predicate of an inverse
        fact has the id of the property that it reads backwards, an alias that of whose it is."""
        subject, predicate = self._named(fact.subject), self._named(fact.predicate)
        kind = predicate.object_kind if predicate else None
        is_alias = predicate is None and fact.predicate == ALIAS_OF and fact.subject.endswith(ALIAS)
        named = self._named(fact.object) if is_alias or kind in ("entity", "mixed", "inverse") else None
        subject = named if is_alias else subject
        is_literal = kind == "literal" or fact.predicate in DESCRIPTIONS or (kind == "mixed" and named is None)
        return LinkedFact(
            Link(fact.subject, subject.id if subject else None),
            Link(fact.predicate, predicate.id if predicate else None),
            fact.object if is_literal else Link(fact.object, named.id if named else None),
            inverse=kind == "inverse",
        )

    def name_rows(self) -> list[tuple[bytes, bytes]]:
        """Keys and blocks of all names: of each name table in the order of the keys, those written last first."""
        while True:
            snapshot = self._snapshot
            try:
                return [row for table in snapshot.name_tables for row in self.name_table_rows(table)]
            except IndexNotFoundError as error:
                self._renew(snapshot, error)

    def name_table_rows(self, table: int) -> list[tuple[bytes, bytes]]:
        """Keys and blocks of one name table, in the order of the keys."""
        statement = f"SELECT key, block FROM refactx.names_{table} ORDER BY key".encode()
        return self._database.retry_unlimited(
            lambda connection: connection.execute(statement, binary=True).fetchall(), self.name
        )

    def unpack_names(self, key: bytes, block: bytes) -> dict[str, Named]:
        """All names of a block."""
        return unpack_block(key, block, self._names_codec, self._block(key))

    def _block(self, key: bytes) -> str:
        return f"index {self.name!r}: block of names {key!r}"

    def _named(self, name: str) -> Named | None:
        while True:
            snapshot = self._snapshot
            try:
                found = (self._named_in(table, name) for table in snapshot.name_tables)
                return next(filter(None, found), None)
            except IndexNotFoundError as error:
                self._renew(snapshot, error)

    def _named_in(self, table: int, name: str) -> Named | None:
        """What one name table says of a name."""
        statement = f"SELECT key, block FROM refactx.names_{table} WHERE key <= %s ORDER BY key DESC LIMIT 1".encode()
        row = self._database.retry(
            lambda connection: connection.execute(statement, [block_key(name)], binary=True).fetchone(), self.name
        )
        return find(name, row[0], row[1], self._names_codec, self._block(row[0])) if row else None

    @cached_property
    def tokenizer(self) -> FactTokenizer:
        """The tokenizer that the index was built for."""
        try:
            return FactTokenizer(unpack_tokenizer(self._packed_tokenizer))
        except (zstandard.ZstdError, ValueError, RefactxError) as error:
            raise CorruptIndexError(f"index {self.name!r}: its tokenizer is damaged: {error}") from error

    @property
    def round_trips(self) -> int:
        """How many queries for rows of the tree were sent so far."""
        return self._earlier_round_trips + sum(rows.round_trips for rows in self.rows)

    def close(self) -> None:
        """Give the connections back; the embedded server stops when nobody uses it any more."""
        self._database.close()
        self._on_close()

    def __enter__(self) -> "Index":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def unpack_tokenizer(packed: bytes) -> str:
    """The tokenizer.json that the catalogue keeps compressed. Raises ZstdError or ValueError if it is damaged."""
    if zstandard.get_frame_parameters(packed).content_size > MAX_TOKENIZER_BYTES:
        raise ValueError(f"it claims more than {MAX_TOKENIZER_BYTES:,} bytes")
    return zstandard.ZstdDecompressor().decompress(packed, max_output_size=MAX_TOKENIZER_BYTES).decode()


def find_index(database: Database, name: str) -> dict[str, Any]:
    """The catalogue's entry of a ready index. Raises IndexNotFoundError, or RefactxError if its format is too new."""
    entries = database.retry_unlimited(lambda connection: list_indexes(connection, name, every=True))
    for entry in entries:
        if entry["state"] == "ready":
            if entry["format"] > FORMAT_VERSION:
                raise RefactxError(
                    f"index {name!r} has format {entry['format']}, newer than {FORMAT_VERSION}: upgrade refactx"
                )
            return entry
    if entries:
        raise IndexNotFoundError(f"index {name!r} is not complete: its ingest is running or was killed; run it again")
    ready = [entry["name"] for entry in database.retry_unlimited(list_indexes)]
    known = f"there are: {', '.join(ready)}" if ready else "there is none yet"
    raise IndexNotFoundError(
        f"there is no index {name!r} in {without_password(database.url)} ({known}): build it with "
        f"`refactx ingest --index {name}`, or give another database with --db or REFACTX_DB"
    )
