"""The pairs of a property and its inverse property in the report of an index, which the catalogue keeps."""

from collections.abc import Mapping

from refactx.entity_ids import entity_number
from refactx.errors import CorruptIndexError
from refactx.ingest.selection import is_property
from refactx.postgres.catalogue_entry import CatalogueEntry
from refactx.postgres.changes import add_to_report
from refactx.postgres.locks import Connection


def inverse_properties(entry: CatalogueEntry) -> dict[int, int]:
    """Return the pairs in the report of an index, as numbers: a property → the property of its inverse facts.

    Raises:
        CorruptIndexError: the report has something else in place of pairs of properties.
    """
    pairs = entry.report.get("inverse_properties", {})
    if not isinstance(pairs, dict) or not all(
        isinstance(other, str) and is_property(one) and is_property(other) for one, other in pairs.items()
    ):
        raise CorruptIndexError(
            f"index {entry.name!r}: the inverse properties in its account are damaged: {pairs!r:.100}, expected pairs "
            "such as P22 and P40. Ingest the index again"
        )
    return {entity_number(one): entity_number(other) for one, other in pairs.items()}


def add_inverse_properties(connection: Connection, entry: CatalogueEntry, found: Mapping[str, str]) -> int:
    """Add to the report of an index those pairs whose property it does not have yet, and return how many.

    `found`: pairs as in `Report.inverse_properties`.
    """
    known = entry.report.get("inverse_properties", {})
    new = {one: other for one, other in found.items() if one not in known}
    if new:
        add_to_report(connection, entry, "inverse_properties", new)
    return len(new)
