"""A memory in the database: labels by their hashes, and nearest neighbours of embeddings by pgvector."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from refactx.entity_ids import entity_id, entity_number
from refactx.errors import InputError
from refactx.postgres.database import Database
from refactx.postgres.memory.lookup import EntryRow, NearRow, find_labels, find_nearest, similarities
from refactx.postgres.memory.pgvector import find_pgvector
from refactx.postgres.memory.records import MemoryRecord
from refactx.query.pgmr import Mention
from refactx.sparql.memory.building import checked_embeddings
from refactx.sparql.memory.entry import Encoder, Entry, Near, folded_hash, mention_text
from refactx.sparql.memory.matching import has_label, label_keys
from refactx.sparql.memory.thresholds import PAPER, Thresholds

_MORE = 3
"""How many entries are read for each that is wanted, if aliases have embeddings: an entity may have several."""


class VectorMemory:
    """A stored memory: a `Memory`. Safe to share between threads if its encoder is.

    `record`: what the catalogue says of it. Raises InputError if it was built with another encoder, DatabaseError
    without pgvector.
    """

    def __init__(self, database: Database, record: MemoryRecord, encoder: Encoder) -> None:
        check_encoder(record, encoder)
        self._database, self.record, self._encoder = database, record, encoder
        self._vectors = database.retry(find_pgvector, record.index)

    @property
    def thresholds(self) -> Thresholds:
        """Those that `refactx memory calibrate` found, else the paper's."""
        return PAPER.updated(self.record.thresholds)

    def exact(self, mentions: Sequence[Mention]) -> list[list[Entry]]:
        """Return the entries of each mention's kind that have its label, with one query."""
        hashes = {folded_hash(key) for mention in mentions for key in label_keys(mention)}
        rows = self._database.retry(
            lambda connection: find_labels(connection, self.record, sorted(hashes)), self.record.index
        )
        entries = [_entry(row) for row in rows]
        return [[one for one in entries if has_label(one, mention)] for mention in mentions]

    def nearest(self, mentions: Sequence[Mention], count: int) -> list[list[Near]]:
        """Return the entries of each mention's kind that are most similar to it, with one query for each kind."""
        found: list[list[Near]] = [[] for _ in mentions]
        if not mentions:
            return found
        embeddings = checked_embeddings(self._encoder, [mention_text(mention) for mention in mentions])
        for kind in ("entity", "relation"):
            places = [at for at, mention in enumerate(mentions) if mention.kind == kind]
            for row in self._near_rows(embeddings[places], kind == "relation", count) if places else ():
                near, entry = found[places[row.text]], _entry(row.entry)
                if len(near) < count and all(one.entry.id != entry.id for one in near):
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

    def similarities(self, mention: Mention, entries: Sequence[Entry]) -> list[float]:
        """Return the cosines of a mention's embedding with those of entries' labels and descriptions."""
        if not entries:
            return []
        # Aliases may have no embedding, and of several of an entity it is this one that counts.
        aliases = [one.text for one in entries if one.is_alias]
        embedding, *encoded = checked_embeddings(self._encoder, [mention_text(mention), *aliases])
        numbers = [entity_number(one.id) for one in entries if not one.is_alias]
        found = (
            self._database.retry(
                lambda connection: similarities(connection, self.record, embedding, numbers, vectors=self._vectors),
                self.record.index,
            )
            if numbers
            else {}
        )
        of_aliases = iter(cosines(embedding, encoded))
        return [next(of_aliases) if one.is_alias else found.get(entity_number(one.id), 0.0) for one in entries]


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


def _entry(row: EntryRow) -> Entry:
    return Entry(entity_id(row.number), row.label, row.description, row.is_alias)
