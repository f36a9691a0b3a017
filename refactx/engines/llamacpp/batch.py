"""Ids of several sequences and trees that wait to be read in one call of `llama_decode`."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from refactx.engines.engine import Logits
from refactx.engines.llamacpp.context import Context, Entry
from refactx.engines.llamacpp.library import NO_ROOM
from refactx.engines.llamacpp.slots import Slots
from refactx.engines.llamacpp.tree import Node
from refactx.errors import ModelError


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """An id that waits. `node`: that of a tree which it reads; `into`: the vector that gets the logits after it."""

    id: int
    position: int
    slots: Collection[int]
    node: Node | None = None
    into: Logits | None = None


class Batch:
    """At most `ids` ids and `rows` rows of logits at a time: it is read when it is full, and by `flush`."""

    def __init__(self, context: Context, slots: Slots, *, ids: int, rows: int) -> None:
        self._context, self._slots, self._ids, self._rows = context, slots, ids, rows
        self._waiting: list[Waiting] = []
        self._temporary: list[int] = []
        self._wanted = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, one: Waiting) -> None:
        """Add an id. `slots` may grow until it is read, by slots that have the same ids before it."""
        self._waiting.append(one)
        self._wanted += one.into is not None
        if one.node is not None:
            one.node.pending = True
        if len(self._waiting) == self._ids or self._wanted == self._rows:
            self.flush()

    def release_after(self, slot: int) -> None:
        """Release a slot when the batch was read."""
        self._temporary.append(slot)

    def flush(self) -> None:
        """Read all that waits. Raises ModelError if the context has no room for it."""
        self._read(self._waiting)
        self.clear()

    def clear(self) -> None:
        """Remove what waits, read or not."""
        for one in self._waiting:
            if one.node is not None:
                one.node.pending = False
        for slot in self._temporary:
            self._slots.release(slot)
        self._waiting, self._temporary, self._wanted = [], [], 0

    def _read(self, some: Sequence[Waiting]) -> None:
        if not some:
            return
        while self._context.decode([Entry(w.id, w.position, w.slots, w.into is not None) for w in some]) == NO_ROOM:
            if self._slots.drop_leaves(len(some)):
                continue
            if len(some) == 1:
                raise ModelError(
                    f"the model's context of {self._context.cells:,} ids is full: give a larger one "
                    "(--context), or write fewer texts at once"
                )
            half = len(some) // 2  # after the first half, leaves that were read in it can be dropped
            self._read(some[:half])
            self._read(some[half:])
            return
        wanted = [w.into for w in some if w.into is not None]
        if wanted:
            for into, row in zip(wanted, self._context.logits(len(wanted)), strict=True):
                into[:] = row
        for one in some:
            if one.node is not None:
                one.node.pending, one.node.read = False, True
