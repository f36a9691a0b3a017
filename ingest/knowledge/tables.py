"""What the joins need of an engine of SQL: tables made by queries, whose text is the same for every engine.

The SQL may use the macros of `refactx.entity_ids`, `cut(part, size)`, which shortens a part as `refactx.fact.cut_part`
does, and `starts_with` and `ends_with`. Everything else in it is SQL that DuckDB and Spark share.
"""

from typing import Any, Protocol

import pyarrow as pa


class Tables(Protocol):
    """Named tables and views in an engine of SQL. Every method raises the engine's errors."""

    def table(self, name: str, query: str) -> None:
        """Make a table of the rows of a query, in place of one of that name, which the query may read."""
        ...

    def view(self, name: str, query: str) -> None:
        """Make a view of a query, in place of one of that name, which the query may not read."""
        ...

    def numbered(self, name: str, query: str, number: str) -> None:
        """Make a table of the rows of a query with the column `text`, distinct, after a column `number` INTEGER: from 0,
        in the order of the texts' bytes."""
        ...

    def table_of(self, name: str, rows: pa.Table) -> None:
        """Make a table of an Arrow table, in place of one of that name."""
        ...

    def insert(self, name: str, rows: pa.Table) -> None:
        """Add rows to a table, by the position of their columns."""
        ...

    def drop(self, *names: str) -> None:
        """Remove tables."""
        ...

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        ...

    def number(self, query: str) -> int:
        """Return the one number that a query gives; 0 for NULL (a sum over nothing)."""
        ...
