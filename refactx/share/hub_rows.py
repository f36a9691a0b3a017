"""The hubs of an index as rows of keys and values in a file.

The key has object, predicate and inverse predicate, joined by newlines; the value is the number of subjects, eight
bytes, big-endian.
"""

from psycopg import sql

from refactx.index.file.hubs import unpack_subjects
from refactx.index.file.row_blocks import KeyedRow
from refactx.postgres.hubs import Hub

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
    return Hub(*unpack_subjects(*row))
