"""A tree of continuations: which paths were read, and which slots of the context have their cells.

A node is the last id of a path. Its cell belongs to one slot for each leaf below it, so that a leaf's slot has the
whole path. When slots or cells run out, leaves that were not used for longest are dropped; their nodes stay, without
slots, and are read again when they are needed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Optional

from refactx.engines.engine import IdPath


@dataclass(eq=False, slots=True)
class Node:
    """The last id of a path of `depth` ids. `slots`: those that have its cell, or will when it was read.

    `end`: the slot whose path ends here. `read`: whether it was ever read; `pending`: whether it waits in a batch.
    """

    depth: int
    parent: Optional["Node"] = None
    children: dict[int, "Node"] = field(default_factory=dict)
    slots: set[int] = field(default_factory=set)
    end: int | None = None
    read: bool = False
    pending: bool = False

    def child(self, number: int) -> "Node":
        """Return the child of an id, made if it is missing."""
        found = self.children.get(number)
        if found is None:
            found = self.children[number] = Node(self.depth + 1, self)
        return found

    def path_up(self) -> Iterator["Node"]:
        """Yield this node and those above it, without the root."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent


class Tree:
    """A tree over the text of a `sequence` in `slot`, which has `start` ids and then `ahead`."""

    def __init__(self, sequence: int, slot: int, start: int, ahead: Sequence[int]) -> None:
        self.sequence, self.slot, self.start, self.ahead = sequence, slot, start, tuple(ahead)
        self.root = node = Node(0, slots={slot}, read=True)
        for number in ahead:
            node = node.child(number)
            node.slots, node.read = {slot}, True

    def walk(self, path: IdPath) -> list[Node]:
        """Return the root and the nodes along a path, as far as there are any."""
        nodes = [self.root]
        for number in path:
            found = nodes[-1].children.get(number)
            if found is None:
                break
            nodes.append(found)
        return nodes

    def depth_ahead(self, path: IdPath) -> int:
        """Return how many ids at the start of a path are those of `ahead`."""
        pairs = zip(path, self.ahead, strict=False)
        return next((n for n, (one, other) in enumerate(pairs) if one != other), min(len(path), len(self.ahead)))

    def leaves(self) -> list[int]:
        """Return the slots of its leaves."""
        found, nodes = [], [self.root]
        while nodes:
            node = nodes.pop()
            nodes += node.children.values()
            if node.end is not None:
                found.append(node.end)
        return found


def with_cells(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes of a path, from its start, that have slots."""
    count = next((n for n, node in enumerate(nodes) if not node.slots), len(nodes))
    return list(nodes[:count])
