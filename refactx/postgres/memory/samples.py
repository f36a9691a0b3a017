"""Entries with embeddings at random: entities with an alias, properties, and entities with the label of another."""

from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from refactx.postgres.memory.records import MemoryRecord


class SampleRow(NamedTuple):
    """A name of an entity or property, with an alias of it; "" in samples without aliases."""

    number: int
    label: str
    description: str
    alias: str


def sample_aliased(
    connection: psycopg.Connection[Any], memory: MemoryRecord, *, count: int, seed: int
) -> list[SampleRow]:
    """Return at most `count` names of entities that have an alias other than their label in another case, with one."""
    statement = sql.SQL(
        """SELECT number, label, description, alias FROM (
            SELECT DISTINCT ON (m.number) m.number, m.label, m.description, a.label AS alias
            FROM {table} AS m JOIN {table} AS a ON a.number = m.number
            WHERE a.is_alias AND NOT m.is_alias AND m.embedding IS NOT NULL AND a.folded <> m.folded AND (m.number & 1) = 0
            ORDER BY m.number, hashtextextended(a.label, %(seed)s)
        ) AS named ORDER BY hashtextextended(number::text, %(seed)s), number LIMIT %(count)s"""
    ).format(table=memory.table)
    return [SampleRow(*row) for row in connection.execute(statement, {"seed": seed, "count": count}).fetchall()]


def sample_properties(
    connection: psycopg.Connection[Any], memory: MemoryRecord, *, count: int, seed: int
) -> list[SampleRow]:
    """Return at most `count` properties that have a description."""
    statement = sql.SQL(
        """SELECT number, label, description, '' FROM {}
        WHERE NOT is_alias AND embedding IS NOT NULL AND (number & 1) = 1 AND description <> ''
        ORDER BY hashtextextended(number::text, %(seed)s), number LIMIT %(count)s"""
    ).format(memory.table)
    return [SampleRow(*row) for row in connection.execute(statement, {"seed": seed, "count": count}).fetchall()]


def sample_namesakes(
    connection: psycopg.Connection[Any], memory: MemoryRecord, *, count: int, seed: int
) -> list[SampleRow]:
    """Return at most `count` names of entities that share their label with another one. All have a description."""
    statement = sql.SQL(
        """SELECT number, label, description, '' FROM {table} AS m
        WHERE NOT is_alias AND embedding IS NOT NULL AND (number & 1) = 0 AND description <> '' AND EXISTS (
            SELECT FROM {table} AS o WHERE o.folded = m.folded AND o.number <> m.number AND NOT o.is_alias
            AND o.embedding IS NOT NULL AND (o.number & 1) = 0 AND o.description <> ''
        ) ORDER BY hashtextextended(number::text, %(seed)s), number LIMIT %(count)s"""
    ).format(table=memory.table)
    return [SampleRow(*row) for row in connection.execute(statement, {"seed": seed, "count": count}).fetchall()]
