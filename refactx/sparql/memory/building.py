"""The building of a memory: the names of an index and their embeddings, in batches, and again after a change."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refactx.errors import InputError, ModelError
from refactx.index.database_source import DatabaseSource
from refactx.index.index import Index
from refactx.postgres.building import make_schema
from refactx.postgres.catalogue import find_index
from refactx.postgres.database import Database
from refactx.postgres.locks import Connection, memory_lock
from refactx.postgres.memory.embeddings import (
    build_graphs,
    copy_embeddings,
    count_missing,
    missing_batches,
    store_embeddings,
)
from refactx.postgres.memory.entries import update_entries
from refactx.postgres.memory.pgvector import MOST_NUMBERS, make_pgvector
from refactx.postgres.memory.records import MemoryRecord, begin_memory, count_changes, finish_memory
from refactx.postgres.memory.session import memory_session
from refactx.sparql.memory.entry import Encoder, Entry
from refactx.sparql.memory.names import name_rows, part_rows

BATCH = 1024
"""The texts whose embeddings are stored together: what a killed build loses at most, some seconds."""
_CACHE_BYTES = 16 << 20  # each row is read once

Progress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResult:
    """The result of building a memory.

    `texts`: how many labels, and with `aliases` aliases, have embeddings; `added`, `removed`: the entries that the index
    has had since the last build, or has no more; `encoded`: how many texts were encoded; `copied`: how many embeddings
    were taken from other memories of the encoder; `seconds`: of the whole.
    """

    index: str
    encoder: str
    width: int
    aliases: bool
    texts: int
    added: int
    removed: int
    encoded: int
    copied: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return what `refactx memory build --json` prints."""
        return asdict(self) | {"seconds": round(self.seconds, 2)}


def build_memory(
    database: Database,
    encoder: Encoder,
    *,
    index: str = "default",
    aliases: bool = False,
    batch: int = BATCH,
    progress: Progress = lambda done, total: None,
) -> BuildResult:
    """Make or update the memory of an index for an encoder, with what is missing. A stopped build continues.

    `aliases`: give aliases embeddings too; they are found as they are written anyway. `progress`: called with the
    numbers of texts that have embeddings and of all.

    Raises IndexNotFoundError if there is no such index, IndexExistsError if another process builds a memory of it,
    DatabaseError without pgvector or the rights of a writer, ModelError if the encoder does not do as it says,
    InputError if no name of the index has an id.
    """
    started = time.monotonic()
    if not 0 < encoder.width <= MOST_NUMBERS:
        raise ModelError(
            f"encoder {encoder.name} has embeddings of {encoder.width} numbers: expected 1 to {MOST_NUMBERS}"
        )
    with memory_session(database, index) as connection:
        entry = find_index(database, index)
        opened = Index(DatabaseSource(database, entry), cache_bytes=_CACHE_BYTES)
        if next(name_rows(opened), None) is None:
            raise InputError(f"index {index!r} has no names with ids such as Q42, so there is nothing to remember")
        with memory_lock(connection, entry.id, index):
            make_schema(connection)
            vectors = make_pgvector(connection)
            changes = count_changes(connection, entry)  # before the facts are read: of later ones the memory lacks some
            opened.refresh()
            memory = begin_memory(
                connection,
                entry,
                encoder=encoder.name,
                fingerprint=encoder.fingerprint,
                width=encoder.width,
                aliases=aliases,
                vectors=vectors,
            )
            removed, added = update_entries(connection, memory, name_rows(opened), part_rows(opened))
            copied = copy_embeddings(connection, memory)
            total, missing = count_missing(connection, memory)
            _encode_missing(
                connection, memory, encoder, vectors, batch, lambda done: progress(total - missing + done, total)
            )
            build_graphs(connection, memory, vectors)
            finish_memory(connection, memory, changes)
    return BuildResult(
        index=index,
        encoder=encoder.name,
        width=encoder.width,
        aliases=memory.aliases,
        texts=total,
        added=added,
        removed=removed,
        encoded=missing,
        copied=copied,
        seconds=time.monotonic() - started,
    )


def _encode_missing(
    connection: Connection,
    memory: MemoryRecord,
    encoder: Encoder,
    vectors: str,
    batch: int,
    progress: Callable[[int], object],
) -> None:
    done = 0
    progress(done)
    for some in missing_batches(connection, memory, batch):
        embeddings = checked_embeddings(encoder, [Entry("", one.label, one.description).text for one in some])
        store_embeddings(connection, memory, [one.entry for one in some], embeddings, vectors)
        done += len(some)
        progress(done)


def checked_embeddings(encoder: Encoder, texts: Sequence[str]) -> NDArray[np.float32]:
    """Return the embeddings of n texts, float32[n, width]. Raises ModelError if they are not what a memory needs."""
    found = np.asarray(encoder.encode(texts), np.float32)
    if found.shape != (len(texts), encoder.width):
        raise ModelError(
            f"encoder {encoder.name} returned embeddings of shape {found.shape} for {len(texts)} texts: expected "
            f"({len(texts)}, {encoder.width})"
        )
    if not (np.isfinite(found).all() and found.any(1).all()):
        raise ModelError(f"encoder {encoder.name} returned an embedding that is not finite, or zero")
    return found
