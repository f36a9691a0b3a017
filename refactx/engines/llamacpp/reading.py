"""Reading the paths of a tree: which ids are missing, and which slots get their cells."""

from collections.abc import Sequence

import numpy as np

from refactx.engines.engine import FeedTree, IdPath, Logits, TreeLogits
from refactx.engines.llamacpp.batch import Batch, Waiting
from refactx.engines.llamacpp.context import Context
from refactx.engines.llamacpp.slots import Slots
from refactx.engines.llamacpp.tree import Node, Tree, with_cells
from refactx.errors import ModelError


def shares(wanted: Sequence[int], rows: int) -> list[int]:
    """Return how many of its wanted paths each tree reads in a step that has `rows` rows, at least one.

    >>> shares([1, 100, 100], 100)
    [1, 49, 50]
    """
    found, left = [0] * len(wanted), rows
    order = sorted(range(len(wanted)), key=lambda n: wanted[n])
    for place, number in enumerate(order):
        found[number] = min(wanted[number], max(1, left // (len(order) - place)))
        left -= found[number]
    return found


class TreeReader:
    """Puts the missing ids of paths into a batch."""

    def __init__(self, context: Context, slots: Slots, batch: Batch) -> None:
        self._context, self._slots, self._batch = context, slots, batch

    def read(self, tree: Tree, asked: FeedTree, most: int) -> TreeLogits:
        """Read wanted paths, at most `most`, short ones first. The logits are there when the batch was read."""
        numbers = sorted(asked.numbers, key=lambda number: len(asked.paths[number]))[:most]
        logits = np.empty((len(numbers), self._context.vocabulary), np.float32)
        for number, into in zip(numbers, logits, strict=True):
            while not self._add(tree, asked.paths[number], into):
                self._make_room()
        return TreeLogits(numbers, logits)

    def _add(self, tree: Tree, path: IdPath, into: Logits) -> bool:
        """Add the ids of a path that have no cells, at least the last one. Return False if there is no free slot."""
        nodes = with_cells(tree.walk(path))
        if len(nodes) > len(path):
            return self._add_again(tree, nodes[-1], path[-1], into)
        slot = self._slot_after(tree, nodes)
        if slot is None:
            return False
        node = nodes[-1]
        for number in path[node.depth :]:
            node = node.child(number)
            node.slots.add(slot)
            self._slots.move_leaf(slot, node)
            wanted = into if node.depth == len(path) else None
            self._batch.add(Waiting(number, tree.start + node.depth - 1, node.slots, node, wanted))
        return True

    def _slot_after(self, tree: Tree, nodes: Sequence[Node]) -> int | None:
        """Return a leaf's slot that has the cells of `nodes` and no others; None if there is no free slot.

        It is the slot whose path ends there, or a new one. Of the ids that wait, the new slot gets the cells with the
        others, when they are read.
        """
        last = nodes[-1]
        if last.end is not None:
            return last.end
        in_memory = [node for node in nodes if not node.pending][-1]
        source = tree.slot if in_memory is tree.root else next(iter(in_memory.slots))
        slot = self._slots.acquire(spare=source)
        if slot is not None:
            self._context.copy(source, slot, 0, tree.start + in_memory.depth)
            for node in nodes[1:]:
                node.slots.add(slot)
        return slot

    def _add_again(self, tree: Tree, node: Node, number: int, into: Logits) -> bool:
        """Add an id that has a cell already, for its logits: by a slot that has the ids before it, for this batch.

        Return False if there is no free slot, or if the id waits in the batch (a path may come twice).
        """
        source = next(iter(node.slots))
        slot = None if node.pending else self._slots.acquire(spare=source)
        if slot is None:
            return False
        position = tree.start + node.depth - 1
        self._context.copy(source, slot, 0, position)
        self._batch.release_after(slot)
        self._batch.add(Waiting(number, position, (slot,), into=into))
        return True

    def _make_room(self) -> None:
        """Make a slot free: leaves in the batch can be dropped when they were read, any other one if it is not needed
        to read the next path faster."""
        if self._batch:
            self._batch.flush()
        elif not self._slots.drop_leaf():
            raise no_slot(self._context)


def no_slot(context: Context) -> ModelError:
    """Return the error for a sequence too many."""
    return ModelError(
        f"llama.cpp holds at most {context.slots} sequences, and all are in use: write fewer texts at once"
    )
