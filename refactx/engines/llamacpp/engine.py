"""The engine over llama.cpp: sequences and trees as slots of one context, whose cells they share.

A node is the last id of a path. Its cell belongs to one slot for each leaf below it, so that a leaf's slot has the
whole path. When slots or cells run out, leaves that were not used for longest are dropped; their nodes stay, without
slots, and are read again when they are needed.

A recurrent layer has no cells, but one state of a slot after all that it has read. Such a state is copied, never taken
back: trees are then read as copies of their text's slot (`StatesEngine`).
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Optional

import numpy as np

from refactx.engines.engine import Feed, FeedTree, IdPath, Logits, TreeLogits, TreeReading, longest_paths
from refactx.engines.llamacpp.library import NO_ROOM, Context, Entry
from refactx.engines.llamacpp.prefixes import Prefixes
from refactx.errors import ModelError


@dataclass(eq=False, slots=True)
class PathNode:
    """The last id of a path of `depth` ids. `slots`: those that have its cell, or will when it was read.

    `end`: the slot whose path ends here. `read`: whether it was ever read; `pending`: whether it waits in a batch.
    """

    depth: int
    parent: Optional["PathNode"] = None
    children: dict[int, "PathNode"] = field(default_factory=dict)
    slots: set[int] = field(default_factory=set)
    end: int | None = None
    read: bool = False
    pending: bool = False

    def child(self, number: int) -> "PathNode":
        """Return the child of an id, made if it is missing."""
        found = self.children.get(number)
        if found is None:
            found = self.children[number] = PathNode(self.depth + 1, self)
        return found

    def path_up(self) -> Iterator["PathNode"]:
        """Yield this node and those above it, without the root."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent


class SlotTree:
    """A tree over the text of a `sequence` in `slot`, which has `start` ids and then `ahead`."""

    def __init__(self, sequence: int, slot: int, start: int, ahead: Sequence[int]) -> None:
        self.sequence, self.slot, self.start, self.ahead = sequence, slot, start, tuple(ahead)
        self.root = node = PathNode(0, slots={slot}, read=True)
        for number in ahead:
            node = node.child(number)
            node.slots, node.read = {slot}, True

    def walk(self, path: IdPath) -> list[PathNode]:
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


def with_cells(nodes: Sequence[PathNode]) -> list[PathNode]:
    """Return the nodes of a path, from its start, that have slots."""
    count = next((n for n, node in enumerate(nodes) if not node.slots), len(nodes))
    return list(nodes[:count])


class Slots:
    """The slots of a context. A slot that is neither free nor a leaf's belongs to a sequence, or to a batch."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._free = list(range(context.slots))
        self._leaves: dict[int, PathNode] = {}  # the least recently used one first

    @property
    def free(self) -> int:
        """How many slots are empty."""
        return len(self._free)

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

    def move_leaf(self, slot: int, node: PathNode) -> None:
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


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """An id that waits. `node`: that of a tree which it reads; `into`: the vector that gets the logits after it."""

    id: int
    position: int
    slots: Collection[int]
    node: PathNode | None = None
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
                raise context_is_full(self._context)
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

    def read(self, tree: SlotTree, asked: FeedTree, most: int) -> TreeLogits:
        """Read wanted paths, at most `most`, short ones first. The logits are there when the batch was read."""
        numbers = sorted(asked.numbers, key=lambda number: len(asked.paths[number]))[:most]
        logits = np.empty((len(numbers), self._context.vocabulary), np.float32)
        for number, into in zip(numbers, logits, strict=True):
            while not self._add(tree, asked.paths[number], into):
                # Leaves in the batch can be dropped when they were read, any other one if it is not needed to read the
                # next path faster.
                if self._batch:
                    self._batch.flush()
                elif not self._slots.drop_leaf():
                    raise no_slot(self._context)
        return TreeLogits(numbers, logits)

    def _add(self, tree: SlotTree, path: IdPath, into: Logits) -> bool:
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

    def _slot_after(self, tree: SlotTree, nodes: Sequence[PathNode]) -> int | None:
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

    def _add_again(self, tree: SlotTree, node: PathNode, number: int, into: Logits) -> bool:
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


def no_slot(context: Context) -> ModelError:
    """Return the error for a sequence too many."""
    return ModelError(
        f"llama.cpp holds at most {context.slots} sequences, and all are in use: write fewer texts at once"
    )


def context_is_full(context: Context) -> ModelError:
    """Return the error for an id too many."""
    return ModelError(
        f"the model's context of {context.cells:,} ids is full: give a larger one (--context), or write fewer texts at once"
    )


@dataclass
class _SlotSequence:
    """A sequence in a `slot`, which has read `length` ids; `trees`: the numbers of its trees."""

    slot: int
    length: int
    trees: set[int] = field(default_factory=set)


class _ContextEngine(ABC):
    """What engines over a context share: sequences in slots, and prefixes that are kept. `ids`, `rows`: the most ids and
    rows of logits of one call of `llama_decode`, at most the context's. `prefixes`: what `prefill` has read is kept
    there, and loaded instead of read again, by this engine or another one."""

    pads = False

    def __init__(self, context: Context, ids: int | None, rows: int | None, prefixes: Prefixes | None) -> None:
        self._context, self._slots, self._prefixes = context, Slots(context), prefixes
        self._ids, self._rows = min(ids or context.ids, context.ids), min(rows or context.rows, context.rows)
        self._numbers = count()
        self._sequences: dict[int, _SlotSequence] = {}

    @property
    def most_texts(self) -> int:
        """A quarter of the context's slots: the others are paths of trees."""
        return max(1, self._context.slots // 4)

    @property
    def capacity(self) -> int:
        return self._context.cells

    @abstractmethod
    def feed(
        self, feeds: Sequence[tuple[int, Feed]], trees: Sequence[FeedTree] = ()
    ) -> tuple[list[Logits], list[TreeLogits]]: ...

    @abstractmethod
    def drop(self, sequence: int) -> None: ...

    def prefill(self, ids: Sequence[int]) -> int:
        """Return a new sequence that has read `ids`. Raise ModelError if there is no room for it."""
        sequence = self._add(0)
        own = self._sequences[sequence]
        try:
            if self._prefixes is not None and self._prefixes.load(own.slot, ids):
                own.length = len(ids)
            elif ids:
                self.feed([(sequence, Feed(ids))])
                if self._prefixes is not None:
                    with suppress(MemoryError):
                        self._prefixes.save(own.slot, ids)
        except BaseException:
            self.drop(sequence)
            raise
        return sequence

    def fork(self, sequence: int) -> int:
        """Return a new sequence that has read the same ids. Raise ModelError if there are too many."""
        own = self._sequences[sequence]
        new = self._add(own.length)
        self._context.copy(own.slot, self._sequences[new].slot, 0, own.length)
        return new

    def _add(self, length: int) -> int:
        """Return a new sequence in an empty slot. Raise ModelError if there is none."""
        number = next(self._numbers)
        self._sequences[number] = _SlotSequence(self._acquire(), length)
        return number

    def _acquire(self) -> int:
        """Return an empty slot. Raise ModelError if there is none."""
        slot = self._slots.acquire()
        if slot is None:
            raise no_slot(self._context)
        return slot

    def _batch(self) -> Batch:
        return Batch(self._context, self._slots, ids=self._ids, rows=self._rows)

    def _add_ids(self, batch: Batch, sequence: int, ids: Sequence[int], last: int = 0) -> Logits:
        """Add ids of a sequence to a batch. Return the array that gets the logits after the `last` ones."""
        own, start = self._sequences[sequence], self._sequences[sequence].length
        logits = np.empty((last, self._context.vocabulary), np.float32)
        own.length += len(ids)
        first, slots = len(ids) - last, (own.slot,)
        for n, number in enumerate(ids):
            batch.add(Waiting(number, start + n, slots, into=logits[n - first] if n >= first else None))
        return logits


def check_once(feeds: Sequence[tuple[int, Feed]], trees: Sequence[FeedTree]) -> None:
    """Raise ValueError if a sequence or a tree comes twice."""
    if len({sequence for sequence, _ in feeds}) < len(feeds) or len({one.tree for one in trees}) < len(trees):
        raise ValueError("a sequence or a tree is fed twice in one step")


class LlamaCppEngine(_ContextEngine):
    """An engine over a context; see `refactx.engines.engine.Engine`.

    A `feed` reads the ids of all sequences and trees in as few calls of `llama_decode` as possible. A step reads at most
    `rows` paths of its trees.

    If a call fails, sequences are as before, and trees have to be read again. `can_forget`: whether the model has no
    sliding window (its cells before the window are written over). `ids`, `rows`, `prefixes`: see `_ContextEngine`.
    """

    trees = TreeReading.SHARED

    def __init__(
        self,
        context: Context,
        *,
        can_forget: bool = True,
        ids: int | None = None,
        rows: int | None = None,
        prefixes: Prefixes | None = None,
    ) -> None:
        super().__init__(context, ids, rows, prefixes)
        self.can_forget = can_forget
        self._trees: dict[int, SlotTree] = {}

    def feed(
        self, feeds: Sequence[tuple[int, Feed]], trees: Sequence[FeedTree] = ()
    ) -> tuple[list[Logits], list[TreeLogits]]:
        check_once(feeds, trees)
        batch, before = self._batch(), [self._sequences[sequence].length for sequence, _ in feeds]
        reader = TreeReader(self._context, self._slots, batch)
        most = shares([len(one.numbers) for one in trees], self._rows)
        try:
            logits = [self._add_ids(batch, sequence, feed.ids, feed.last) for sequence, feed in feeds]
            found = [reader.read(self._trees[one.tree], one, part) for one, part in zip(trees, most, strict=True)]
            batch.flush()
        except BaseException:
            batch.clear()
            for (sequence, _), length in zip(feeds, before, strict=True):
                own = self._sequences[sequence]
                own.length = length
                self._context.remove(own.slot, length)
            for one in trees:
                self._release(self._trees[one.tree].leaves())
            raise
        return logits, found

    def forget(self, sequence: int, count: int) -> None:
        own = self._sequences[sequence]
        own.length -= count
        self._context.remove(own.slot, own.length)

    def drop(self, sequence: int) -> None:
        own = self._sequences[sequence]
        for tree in tuple(own.trees):
            self.close(tree)
        self._slots.release(own.slot)
        del self._sequences[sequence]

    def tree(self, sequence: int, ahead: Sequence[int] = ()) -> int:
        """Open a tree of continuations of a sequence, whose last ids `ahead` are a path of it."""
        own, number = self._sequences[sequence], next(self._numbers)
        self._trees[number] = SlotTree(sequence, own.slot, own.length - len(ahead), ahead)
        own.trees.add(number)
        return number

    def keep(self, tree: int, path: IdPath) -> int:
        """Append `path` to the tree's sequence as far as it was read, and close the tree. Return how many ids were
        appended. Those whose cells were dropped are read again."""
        own, nodes = self._trees[tree], self._trees[tree].walk(path)
        sequence = self._sequences[own.sequence]
        kept = next((n for n, node in enumerate(nodes) if not node.read), len(nodes)) - 1
        last = with_cells(nodes[: kept + 1])[-1]
        same = own.depth_ahead(path[: last.depth])
        self._context.remove(sequence.slot, own.start + same)
        if last.depth > same:
            self._context.copy(next(iter(last.slots)), sequence.slot, own.start + same, own.start + last.depth)
        sequence.length = own.start + last.depth
        self.close(tree)
        if kept > last.depth:
            self.feed([(own.sequence, Feed(path[last.depth : kept]))])
        return kept

    def close(self, tree: int) -> None:
        own = self._trees.pop(tree)
        self._sequences[own.sequence].trees.discard(tree)
        self._release(own.leaves())

    def _release(self, slots: Iterable[int]) -> None:
        for slot in slots:
            self._slots.release(slot)


class StatesEngine(_ContextEngine):
    """An engine over a context of a model with recurrent layers; see `refactx.engines.engine.Engine`.

    A slot has one state of such a layer, after all ids that it has read. A fork copies it, and a path of a tree is read
    from a copy of its text's slot. Nothing is taken back, so there are no draft tokens. `ids`, `rows`, `prefixes`: see
    `_ContextEngine`. If a call fails, the sequences that it has fed must be dropped.
    """

    trees = TreeReading.ROWS
    can_forget = False

    def __init__(
        self,
        context: Context,
        *,
        ids: int | None = None,
        rows: int | None = None,
        prefixes: Prefixes | None = None,
    ) -> None:
        super().__init__(context, ids, rows, prefixes)
        self._trees: dict[int, int] = {}  # the sequence of each

    def feed(
        self, feeds: Sequence[tuple[int, Feed]], trees: Sequence[FeedTree] = ()
    ) -> tuple[list[Logits], list[TreeLogits]]:
        check_once(feeds, trees)
        batch, copies, most = self._batch(), list[int](), shares([len(one.numbers) for one in trees], self._rows)
        try:
            logits = [self._add_ids(batch, sequence, feed.ids, feed.last) for sequence, feed in feeds]
            found = []
            for n, (one, part) in enumerate(zip(trees, most, strict=True)):
                found.append(self._add_paths(batch, copies, one, part, self._slots.free // (len(trees) - n)))
            batch.flush()
        finally:
            for slot in copies:
                self._slots.release(slot)
        return logits, found

    def forget(self, sequence: int, count: int) -> None:
        """Raise ValueError for any `count` but 0: a recurrent state cannot be taken back."""
        if count:
            raise ValueError(f"{count} ids cannot be taken back from a recurrent state: see can_forget")

    def drop(self, sequence: int) -> None:
        self._trees = {tree: other for tree, other in self._trees.items() if other != sequence}
        self._slots.release(self._sequences.pop(sequence).slot)

    def tree(self, sequence: int, ahead: Sequence[int] = ()) -> int:
        """Open a tree of continuations of a sequence. Raise ValueError for ids `ahead`, which would be taken back."""
        self.forget(sequence, len(ahead))
        number = next(self._numbers)
        self._trees[number] = sequence
        return number

    def keep(self, tree: int, path: IdPath) -> int:
        self.close(tree)
        return 0

    def close(self, tree: int) -> None:
        del self._trees[tree]

    def _add_paths(self, batch: Batch, copies: list[int], asked: FeedTree, rows: int, slots: int) -> TreeLogits:
        """Add the longest paths of a tree in copies of its text: at least one, else at most as many as there are slots
        and rows. The logits are there when the ids were read."""
        own, paths = self._sequences[self._trees[asked.tree]], asked.paths
        longest, wanted = longest_paths(paths), dict[int, list[int]]()
        for number in asked.numbers:
            wanted.setdefault(longest[number], []).append(number)
        numbers, ends = list[int](), dict[tuple[int, int], int]()  # the row after so many ids of a longest path
        some = sorted(wanted, key=lambda number: len(paths[number]))[: max(1, slots)]
        for n, leaf in enumerate(some):
            if n and len(numbers) + len(wanted[leaf]) > rows:
                some = some[:n]
                break
            for number in wanted[leaf]:
                if (leaf, len(paths[number])) not in ends:  # a path may come twice: then it is asked for again
                    ends[leaf, len(paths[number])] = len(numbers)
                    numbers.append(number)
        logits = np.empty((len(ends), self._context.vocabulary), np.float32)
        for leaf in some:
            copies.append(slot := self._acquire())
            self._context.copy(own.slot, slot, 0, own.length)
            for n, number in enumerate(paths[leaf]):
                row = ends.get((leaf, n + 1))
                batch.add(Waiting(number, own.length + n, (slot,), into=None if row is None else logits[row]))
        return TreeLogits(numbers, logits)
