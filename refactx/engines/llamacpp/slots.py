"""The slots of a context: which are free, and which belong to leaves of trees, by the time of their last use."""

from refactx.engines.llamacpp.context import Context
from refactx.engines.llamacpp.tree import Node


class Slots:
    """The slots of a context. A slot that is neither free nor a leaf's belongs to a sequence, or to a batch."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._free = list(range(context.slots))
        self._leaves: dict[int, Node] = {}  # the least recently used one first

    def acquire(self, spare: int | None = None) -> int | None:
        """Return an empty slot; None if there is none, and no leaf can be dropped. `spare`: a slot not to drop."""
        return self._free.pop() if self._free or self.drop_leaf(spare) else None

    def release(self, slot: int) -> None:
        """Make a slot empty and free. A leaf's nodes lose it."""
        node = self._leaves.pop(slot, None)
        if node is not None:
            node.end = None
            for above in node.path_up():
                above.slots.discard(slot)
        self._context.remove(slot)
        self._free.append(slot)

    def move_leaf(self, slot: int, node: Node) -> None:
        """Make `node` the end of the path of a leaf's slot, which is thereby the most recently used one."""
        before = self._leaves.pop(slot, None)
        if before is not None:
            before.end = None
        node.end = slot
        self._leaves[slot] = node

    def drop_leaf(self, spare: int | None = None) -> bool:
        """Drop the least recently used leaf that does not wait in a batch. Return whether there was one."""
        slot = next((slot for slot, node in self._leaves.items() if not node.pending and slot != spare), None)
        if slot is not None:
            self.release(slot)
        return slot is not None

    def drop_leaves(self, cells: int) -> bool:
        """Drop leaves until that many cells are free, or as many as there are. Return whether any was dropped."""
        dropped, freed = False, 0
        for slot, node in list(self._leaves.items()):
            if not node.pending:
                freed += sum(above.slots == {slot} for above in node.path_up())
                self.release(slot)
                dropped = True
            if freed >= cells:
                break
        return dropped
