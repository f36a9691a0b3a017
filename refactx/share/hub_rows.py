"""The hubs of an index as rows of keys and values in a file.

The key has object, predicate and inverse predicate, joined by newlines; the value is the number of subjects, eight
bytes, big-endian.
"""

from psycopg import sql

from refactx.fact import written_part
from refactx.postgres.hubs import Hub
from refactx.share.blocks import KeyedRow

_MOST_SUBJECTS = 1 << 50
_ROWS = """(
    SELECT convert_to(object || E'\\n' || predicate || E'\\n' || inverse, 'UTF8') AS key, int8send(subjects) AS subjects
    FROM refactx.hubs WHERE index_id = {index}
) AS hubs"""


def select_hubs(index: int) -> tuple[sql.Composable, sql.Composable]:
    """Return a subquery with the rows of an index, given its id, and its column of values; that of keys is `key`."""
    return sql.SQL(_ROWS).format(index=sql.Literal(index)), sql.Identifier("subjects")


def unpack_hub(row: KeyedRow) -> Hub:
    """Return the hub in a row. Raise ValueError if it is none that an ingest writes.

    >>> unpack_hub((b"human\\ninstance of\\nhas instance", (52073).to_bytes(8, "big"))).subjects
    52073
    """
    key, value = row
    names, subjects = key.decode().split("\n"), int.from_bytes(value, "big")
    if len(names) != 3 or any(written_part(name) != name or not name for name in names):
        raise ValueError("a hub does not have three names")
    if len(value) != 8 or not 0 < subjects <= _MOST_SUBJECTS:
        raise ValueError("a hub has an impossible number of subjects")
    object_, predicate, inverse = names
    return Hub(object_, predicate, inverse, subjects)
