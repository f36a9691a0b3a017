"""All that an index is made of, in a form that can be compared with that of another."""

import hashlib
from typing import Any

import psycopg

_INDEX = "SELECT id, knowledge_base, report FROM refactx.indexes WHERE name = %s AND state = 'ready'"
_SEGMENTS = "SELECT id, sign, levels, cut, facts, tokens, codes, dictionary FROM refactx.segments WHERE index_id = %s"
_NAMES = "SELECT id FROM refactx.name_tables WHERE knowledge_base = %s ORDER BY id"
_HUBS = "SELECT object, predicate, inverse, subjects FROM refactx.hubs WHERE index_id = %s ORDER BY 1, 2, 3"


def whole_index(url: str, name: str) -> dict[str, Any]:
    """Return the rows, names and hubs of an index, with its account and what the catalogue says of its segments."""

    def rows(query: str, *values: object) -> list[Any]:
        return connection.execute(query.encode(), values).fetchall()

    def digest(column: str, table: str) -> tuple[int, str]:
        found = rows(f"SELECT key, {column} FROM refactx.{table} ORDER BY key")
        return len(found), hashlib.sha256(b"".join(key + value for key, value in found)).hexdigest()

    with psycopg.connect(url) as connection:
        ((index, base, report),) = rows(_INDEX, name)
        segments = rows(_SEGMENTS, index)
        return {
            "rows": [digest("piece", f"pieces_{number}") for number, *_ in segments],
            "segments": [rest for _, *rest in segments],
            "names": [digest("block", f"names_{number}") for (number,) in rows(_NAMES, base)],
            "hubs": rows(_HUBS, index),
            "report": report,
        }
