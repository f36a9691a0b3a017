"""The mark of a store: what it was derived from, as a file beside those of its database. Queries do not see it."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refactx.postgres.marks import IndexMark

FORMAT = 2
"""The version of stores: it changes when the same facts give other triples, or are stored otherwise."""

_FILE = "refactx.json"


@dataclass(frozen=True, slots=True)
class StoreMark:
    """What a store was derived from: the `name` of the index and the database it is in, for people to read; its mark;
    `facts`, the number of its facts; when the store was brought to this (`updated`, ISO 8601); and `odd_dates`, as
    `refactx.sparql.store.triples.Triples` has them."""

    name: str
    database: str
    index: IndexMark
    facts: int
    updated: str
    odd_dates: Mapping[str, str]
    format: int = FORMAT

    def write(self, folder: Path) -> None:
        """Write the mark into the folder of a store, which has it on disk when this returns."""
        document = {
            "format": self.format,
            "name": self.name,
            "database": self.database,
            "facts": self.facts,
            "updated": self.updated,
            "odd_dates": dict(self.odd_dates),
            **self.index.to_json(),
        }
        with (folder / _FILE).open("w", encoding="utf-8") as file:
            json.dump(document, file)
            file.flush()
            os.fsync(file.fileno())


def read_store_mark(folder: Path) -> StoreMark | None:
    """Return the mark of the store in a folder; None if it has none that can be read. Raises OSError."""
    try:
        document: dict[str, Any] = json.loads((folder / _FILE).read_text(encoding="utf-8"))
        return StoreMark(
            name=document["name"],
            database=document["database"],
            index=IndexMark.from_json(document),
            facts=document["facts"],
            updated=document["updated"],
            odd_dates=dict(document["odd_dates"]),
            format=document["format"],
        )
    except (FileNotFoundError, KeyError, RecursionError, TypeError, ValueError):
        return None
