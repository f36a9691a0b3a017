"""The hubs in a file: rows of keys and values.

The key has object, predicate and inverse predicate, joined by newlines; the value is the number of subjects, eight
bytes, big-endian.
"""

from refactx.fact import written_part
from refactx.tree.piece import Buffer

_MOST_SUBJECTS = 1 << 50


def hub_keys(object_: str) -> bytes:
    """Return the beginning of the keys of an object's hubs.

    >>> hub_keys("human")
    b'human\\n'
    """
    return object_.encode() + b"\n"


def unpack_subjects(key: bytes, value: Buffer) -> tuple[str, str, str, int]:
    """Return object, predicate, inverse predicate and subjects in a row. Raise ValueError if it is none that an ingest
    writes.

    >>> unpack_subjects(b"human\\ninstance of\\nhas instance", (52073).to_bytes(8, "big"))
    ('human', 'instance of', 'has instance', 52073)
    """
    names, subjects = key.decode().split("\n"), int.from_bytes(value, "big")
    if len(names) != 3 or any(written_part(name) != name or not name for name in names):
        raise ValueError("a hub does not have three names")
    if len(value) != 8 or not 0 < subjects <= _MOST_SUBJECTS:
        raise ValueError("a hub has an impossible number of subjects")
    object_, predicate, inverse = names
    return object_, predicate, inverse, subjects
