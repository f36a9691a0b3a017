"""A memory in the database: labels by their hashes, and nearest neighbours of embeddings by pgvector."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refactx.entity_ids import is_property, numbers_of
from refactx.errors import InputError, ModelError
from refactx.index.database import DatabaseSource
from refactx.index.index import Index
from refactx.postgres.catalogue import find_index
from refactx.postgres.database import Database
from refactx.postgres.locks import memory_lock
from refactx.postgres.memory import (
    MOST_NUMBERS,
    EntryRow,
    MemoryRecord,
    NearRow,
    begin_memory,
    build_graphs,
    copy_embeddings,
    count_changes,
    count_missing,
    find_labels,
    find_nearest,
    find_pgvector,
    finish_memory,
    make_pgvector,
    memory_session,
    missing_batches,
    similarities,
    store_embeddings,
    update_entries,
)
from refactx.postgres.writing import make_schema
from refactx.ranking.encoders import Encoder
from refactx.sparql.placeholders.entry import (
    PAPER,
    Match,
    MemoryEntry,
    Near,
    folded_hash,
    has_label,
    label_keys,
    mention_text,
    name_rows,
    part_rows,
)
from refactx.sparql.placeholders.name_memory import LinkedEntries
from refactx.sparql.placeholders.text import Kind, Placeholder

BATCH = 1024
"""The texts whose embeddings are stored together: what a killed build loses at most, some seconds."""
_CACHE_BYTES = 16 << 20  # each row is read once

Progress = Callable[[int, int], object]
_MORE = 3
"""How many entries are read for each that is wanted, if aliases have embeddings: an entity may have several."""


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
            raise InputError(f"index {index!r} has no names with ids, so there is nothing to remember")
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
            done = total - missing
            progress(done, total)
            for some in missing_batches(connection, memory, batch):
                embeddings = checked_embeddings(
                    encoder, [MemoryEntry("", one.label, one.description).text for one in some]
                )
                store_embeddings(connection, memory, [one.entry for one in some], embeddings, vectors)
                done += len(some)
                progress(done, total)
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


class VectorMemory:
    """A stored memory: a `Memory`. Safe to share between threads if its encoder is.

    `record`: what the catalogue says of it. Raises InputError if it was built with another encoder, DatabaseError
    without pgvector.
    """

    def __init__(self, index: Index, record: MemoryRecord, encoder: Encoder) -> None:
        check_encoder(record, encoder)
        self._index, self._database, self.record, self._encoder = index, index.database, record, encoder
        self._linked = LinkedEntries(index)
        self._vectors = index.database.retry(find_pgvector, record.index)

    @property
    def thresholds(self) -> Mapping[Match, float]:
        """Those of the paper."""
        return PAPER

    def exact(self, mentions: Sequence[Placeholder]) -> list[list[MemoryEntry]]:
        """Return the entries of each mention's kind that have its label, with one query; then those that the linker finds."""
        hashes = {folded_hash(key) for mention in mentions for key in label_keys(mention)}
        rows = self._database.retry(
            lambda connection: find_labels(connection, self.record, sorted(hashes)), self.record.index
        )
        entries = [one for one in self._entries(rows) if one.id]
        own = ([one for one in entries if has_label(one, mention)] for mention in mentions)
        return [self._linked.of(mention, some) for mention, some in zip(mentions, own, strict=True)]

    def nearest(self, mentions: Sequence[Placeholder], count: int) -> list[list[Near]]:
        """Return the entries of each mention's kind that are most similar to it, with one query for each kind."""
        found: list[list[Near]] = [[] for _ in mentions]
        if not mentions:
            return found
        embeddings = checked_embeddings(self._encoder, [mention_text(mention) for mention in mentions])
        for kind in ("entity", "relation"):
            places = [at for at, mention in enumerate(mentions) if mention.kind == kind]
            rows = self._near_rows(embeddings[places], kind == "relation", count) if places else []
            for row, entry in zip(rows, self._entries([row.entry for row in rows]), strict=True):
                near = found[places[row.text]]
                if entry.id and len(near) < count and all(one.entry.id != entry.id for one in near):
                    near.append(Near(entry, row.similarity))
        labels = [at for at, mention in enumerate(mentions) if mention.kind == "relation" and not mention.description]
        self._compare_labels(embeddings, found, labels)
        return found

    def _compare_labels(self, embeddings: NDArray[np.float32], found: list[list[Near]], places: Sequence[int]) -> None:
        """Let properties near a mention without a description be as similar as their labels, if that is more."""
        texts = sorted({near.entry.label for at in places for near in found[at]})
        if not texts:
            return
        encoded = dict(zip(texts, checked_embeddings(self._encoder, texts), strict=True))
        for at in places:
            alike = cosines(embeddings[at], [encoded[near.entry.label] for near in found[at]])
            near = [Near(one.entry, max(one.similarity, label)) for one, label in zip(found[at], alike, strict=True)]
            found[at] = sorted(near, key=lambda one: -one.similarity)

    def _near_rows(self, embeddings: NDArray[np.float32], relations: bool, count: int) -> list[NearRow]:
        return self._database.retry(
            lambda connection: find_nearest(
                connection,
                self.record,
                embeddings,
                relations=relations,
                count=count * (_MORE if self.record.aliases else 1),
                vectors=self._vectors,
            ),
            self.record.index,
        )

    def similarities(self, mention: Placeholder, entries: Sequence[MemoryEntry]) -> list[float]:
        """Return the cosines of a mention's embedding with those of entries' labels and descriptions."""
        if not entries:
            return []
        # Aliases may have no embedding, and of several of an entity it is this one that counts.
        aliases = [one.text for one in entries if one.is_alias]
        embedding, *encoded = checked_embeddings(self._encoder, [mention_text(mention), *aliases])
        ids = numbers_of(one.id for one in entries if not one.is_alias)
        rows = (
            self._database.retry(
                lambda connection: similarities(connection, self.record, embedding, list(ids), vectors=self._vectors),
                self.record.index,
            )
            if ids
            else {}
        )
        of_aliases, found = iter(cosines(embedding, encoded)), {ids[number]: alike for number, alike in rows.items()}
        return [next(of_aliases) if one.is_alias else found.get(one.id, 0.0) for one in entries]

    def _entries(self, rows: Sequence[EntryRow]) -> list[MemoryEntry]:
        """Return rows as entries. One of an id that is none of Wikidata's, and that the index has no more, has the id ""."""
        ids, found = self._index.ids_of_numbers({row.number for row in rows}), list[MemoryEntry]()
        for row in rows:
            kind: Kind = "relation" if is_property(row.number) else "entity"
            found.append(MemoryEntry(ids.get(row.number, ""), row.label, row.description, row.is_alias, kind))
        return found


def cosines(embedding: NDArray[np.float32], others: Sequence[NDArray[np.float32]]) -> list[float]:
    """Return the cosines of an embedding, float32[width], with others.

    >>> cosines(np.array([1, 0], np.float32), [np.array([2, 0], np.float32), np.array([0, 1], np.float32)])
    [1.0, 0.0]
    """
    length = float(np.linalg.norm(embedding))
    return [float(embedding @ one) / (length * float(np.linalg.norm(one))) for one in others]


def check_encoder(record: MemoryRecord, encoder: Encoder) -> None:
    """Raise InputError unless a memory was built with an encoder."""
    if (record.fingerprint, record.width) != (encoder.fingerprint, encoder.width):
        raise InputError(
            f"the memory of index {record.index!r} was built with encoder {record.encoder} ({record.width} numbers, weights "
            f"{record.fingerprint[:12]}), and {encoder.name} is another ({encoder.width} numbers, weights "
            f"{encoder.fingerprint[:12]}): give --encoder {record.encoder}, or run `refactx memory build --index "
            f"{record.index} --encoder {encoder.name}`"
        )
