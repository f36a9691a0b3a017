"""The mark of a store, in the store itself: what it was derived from, as one literal in a graph of its own.

The graph is not part of the default one, so queries do not see it unless they ask for named graphs.
"""

import json
from dataclasses import dataclass
from typing import Any

from pyoxigraph import Literal, NamedNode, Quad, Store

from refactx.postgres.marks import IndexMark

FORMAT = 1
"""The version of how facts become triples: it changes when the same facts give other triples."""

_GRAPH = NamedNode("urn:refactx:")
_NODE, _HAS = NamedNode("urn:refactx:store"), NamedNode("urn:refactx:mark")


@dataclass(frozen=True, slots=True)
class StoreMark:
    """What a store was derived from: the `name` of the index and the database it is in, for people to read; its mark;
    `facts`, the number of its facts; and when the store was brought to this (`updated`, ISO 8601)."""

    name: str
    database: str
    index: IndexMark
    facts: int
    updated: str
    format: int = FORMAT

    def to_quad(self) -> Quad:
        """Return the quad that holds the mark in a store."""
        document = {
            "format": self.format,
            "name": self.name,
            "database": self.database,
            "facts": self.facts,
            "updated": self.updated,
            **self.index.to_json(),
        }
        return Quad(_NODE, _HAS, Literal(json.dumps(document)), _GRAPH)


def read_store_mark(store: Store) -> StoreMark | None:
    """Return the mark of a store; None if it has none that can be read."""
    found = list(store.quads_for_pattern(_NODE, _HAS, None, _GRAPH))
    if len(found) != 1 or not isinstance(found[0].object, Literal):
        return None
    try:
        document: dict[str, Any] = json.loads(found[0].object.value)
        return StoreMark(
            name=document["name"],
            database=document["database"],
            index=IndexMark.from_json(document),
            facts=document["facts"],
            updated=document["updated"],
            format=document["format"],
        )
    except (KeyError, TypeError, ValueError):
        return None
