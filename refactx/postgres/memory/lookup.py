"""Queries on a memory: entries by label, nearest neighbours, and how near some entities are."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from refactx.postgres.memory.pgvector import halfvec
from refactx.postgres.memory.records import MemoryRecord

MOST_NAMESAKES = 1000
"""The most entries of the labels of one lookup."""
BEAM = 100
"""The candidates that a search of an HNSW index keeps (`hnsw.ef_search`), of which the nearest are the result."""


class EntryRow(NamedTuple):
    """An entry of a memory. `number`: of its entity or property (`refactx.entity_ids`)."""

    number: int
    label: str
    description: str
    is_alias: bool


class NearRow(NamedTuple):
    """An entry, and the cosine of its embedding with that of the text number `text`."""

    text: int
    similarity: float
    entry: EntryRow


def find_labels(connection: psycopg.Connection[Any], memory: MemoryRecord, folded: Sequence[int]) -> list[EntryRow]:
    """Return the entries whose labels have one of some hashes, with one query."""
    statement = sql.SQL(
        "SELECT number, label, description, is_alias FROM {} WHERE folded = ANY(%s) ORDER BY is_alias, number LIMIT %s"
    ).format(memory.table)
    return [EntryRow(*row) for row in connection.execute(statement, [list(folded), MOST_NAMESAKES]).fetchall()]


def find_nearest(
    connection: psycopg.Connection[Any],
    memory: MemoryRecord,
    embeddings: NDArray[np.float32],
    *,
    relations: bool,
    count: int,
    vectors: str,
) -> list[NearRow]:
    """Return the entries nearest to n embeddings, float32[n, width]: at most `count` of each, the nearest first.

    `relations`: properties, else entities. The search is approximate if there are many (HNSW). `vectors`: the schema
    of pgvector.
    """
    statement = sql.SQL(
        """SELECT q.text, 1 - f.distance, f.number, f.label, f.description, f.is_alias
        FROM unnest(%s::text[]::{halfvec}[]) WITH ORDINALITY AS q (embedding, text) CROSS JOIN LATERAL (
            SELECT number, label, description, is_alias, m.embedding OPERATOR({schema}.<=>) q.embedding AS distance
            FROM {table} AS m WHERE (number & 1) = {parity} AND m.embedding IS NOT NULL ORDER BY distance LIMIT %s
        ) AS f ORDER BY q.text, f.distance"""
    ).format(
        halfvec=halfvec(vectors), schema=sql.Identifier(vectors), table=memory.table, parity=sql.Literal(int(relations))
    )
    with connection.pipeline(), connection.transaction():
        connection.execute(f"SET LOCAL hnsw.ef_search = {max(BEAM, count)}".encode())
        rows = connection.execute(statement, [_texts(embeddings), count], binary=True)
    return [NearRow(int(row[0]) - 1, float(row[1]), EntryRow(*row[2:])) for row in rows.fetchall()]


def similarities(
    connection: psycopg.Connection[Any],
    memory: MemoryRecord,
    embedding: NDArray[np.float32],
    numbers: Sequence[int],
    *,
    vectors: str,
) -> dict[int, float]:
    """Return the largest cosine of an embedding, float32[width], with those of some entities' entries, by number."""
    statement = sql.SQL(
        """SELECT number, max(1 - (embedding OPERATOR({}.<=>) %s::text::{})) FROM {}
        WHERE number = ANY(%s) AND embedding IS NOT NULL GROUP BY number"""
    ).format(sql.Identifier(vectors), halfvec(vectors), memory.table)
    rows = connection.execute(statement, [_texts(embedding[None])[0], list(numbers)], binary=True).fetchall()
    return {int(number): float(similarity) for number, similarity in rows}


def _texts(embeddings: NDArray[np.float32]) -> list[str]:
    """Return embeddings as pgvector reads them.

    >>> _texts(np.array([[0.5, -1]], np.float32))
    ['[0.5,-1.0]']
    """
    return ["[" + ",".join(map(repr, row)) + "]" for row in embeddings.astype(np.float16).tolist()]
