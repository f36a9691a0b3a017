"""The catalogue entry of an index: its name, state, tokenizer and sizes, as `sql/list_indexes.sql` selects them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry:
    """One index in the catalogue.

    `state` is `building` until the index can be read. `knowledge_base` is the id of the one that has its names. `facts`
    and `tokens` (token ids without terminators) are signed sums over the ready segments; `segments` is the number of
    those. `unfinished` is the number of segments that are being written or were left by a killed writer. `levels` is
    the height of the tallest tree, `cut` the most facts in one row of a tree. `report` is the account of the ingest,
    with later changes of the index under its key `changes`.
    """

    id: int
    name: str
    state: Literal["building", "ready"]
    format: int
    tokenizer: str
    fingerprint: str
    vocabulary_size: int
    trigger: str
    terminator: str
    source: tuple[str, ...]
    report: dict[str, Any]
    created: datetime
    knowledge_base: int
    segments: int
    unfinished: int
    facts: int
    tokens: int
    levels: int
    cut: int
    table_bytes: int
    index_bytes: int
    toast_bytes: int
    names_bytes: int

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "CatalogueEntry":
        """Return the entry of a row of `sql/list_indexes.sql`, given as a mapping of its columns."""
        return cls(**{**row, "source": tuple(row["source"])})

    @property
    def tree_bytes(self) -> int:
        """The bytes of the tree on disk: tables, B-trees and TOAST of all ready segments, without the names."""
        return self.table_bytes + self.index_bytes + self.toast_bytes
