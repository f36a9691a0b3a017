"""The memory of an index as it is: a stored one with its encoder, or the index's names alone."""

import logging
from typing import TYPE_CHECKING

from refactx.errors import InputError
from refactx.index.index import Index
from refactx.ranking.encoders import Encoder, load_encoder
from refactx.sparql.placeholders.entry import Memory
from refactx.sparql.placeholders.name_memory import NameMemory

if TYPE_CHECKING:
    from refactx.postgres.memory import MemoryRecord

_log = logging.getLogger(__name__)


def open_memory(index: Index, encoder: Encoder | str | None = None) -> Memory:
    """Return the memory of an open index.

    `encoder`: the one that the memory was built with, or its name (`load_encoder`); None: that of the memory that was
    built last. If the index has none, its names are its memory (`NameMemory`): found as they are written, or by their
    letters.

        memory = open_memory(refactx.open_index())
        memory.exact([Placeholder("entity", "Louisiana")])[0][0].id  # "Q1588"

    If the memory does not follow all changes of its index, that is a warning in the log. Raises InputError if an encoder
    is given and the index has no memory of it, or if its memory was never finished; DatabaseError without pgvector; and
    as `load_encoder` does.
    """
    try:
        database = index.database
    except InputError:  # an index file has no memory but its names
        if encoder is None:
            return NameMemory(index)
        raise
    from refactx.postgres.memory import list_memories  # psycopg, which a file does not need
    from refactx.sparql.placeholders.vector_memory import VectorMemory, check_encoder

    records = database.retry_unlimited(lambda connection: list_memories(connection, index.entry), index.name)
    if encoder is None and not records:
        return NameMemory(index)
    ready = [one for one in records if one.ready]
    if not ready:
        raise InputError(_missing(index, records, encoder))
    loaded = load_encoder(encoder or ready[-1].encoder) if encoder is None or isinstance(encoder, str) else encoder
    record = next((one for one in ready if one.fingerprint == loaded.fingerprint), None)
    if record is None:
        check_encoder(ready[-1], loaded)
        raise AssertionError("a memory with another fingerprint was built with this encoder")
    if note := behind_note(record):
        _log.warning("%s", note)
    return VectorMemory(index, record, loaded)


def behind_note(record: "MemoryRecord") -> str:
    """Return that a memory is behind its index, and what to do; "" if it is not."""
    if not record.behind:
        return ""
    changes = "one change" if record.behind == 1 else f"{record.behind} changes"
    return (
        f"the memory of index {record.index!r} is {changes} of the index behind: run `refactx memory build --index "
        f"{record.index} --encoder {record.encoder}`"
    )


def _missing(index: Index, records: "list[MemoryRecord]", encoder: Encoder | str | None) -> str:
    if not records:
        name = encoder if isinstance(encoder, str) else getattr(encoder, "name", "MODEL")
        return f"index {index.name!r} has no memory: run `refactx memory build --index {index.name} --encoder {name}`"
    return (
        f"the memory of index {index.name!r} is not complete: its build is running or was killed. If it was killed, run "
        f"`refactx memory build --index {index.name} --encoder {records[-1].encoder}` again"
    )
