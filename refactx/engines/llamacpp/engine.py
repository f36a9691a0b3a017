"""The engine over llama.cpp: sequences and trees as slots of one context, whose cells they share."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from refactx.engines.engine import Feed, FeedTree, IdPath, Logits, TreeLogits, TreeReading
from refactx.engines.llamacpp.batch import Batch, Waiting
from refactx.engines.llamacpp.context import Context
from refactx.engines.llamacpp.prefixes import Prefixes
from refactx.engines.llamacpp.reading import TreeReader, no_slot, shares
from refactx.engines.llamacpp.slots import Slots
from refactx.engines.llamacpp.tree import Tree, with_cells


@dataclass
class _Sequence:
    """A sequence in a `slot`, which has read `length` ids; `trees`: the numbers of its trees."""

    slot: int
    length: int
    trees: set[int] = field(default_factory=set)


class LlamaCppEngine:
    """An engine over a context; see `refactx.engines.engine.Engine`.

    A `feed` reads the ids of all sequences and trees in as few calls of `llama_decode` as possible. `ids`, `rows`: the
    most ids and rows of logits of such a call, at most the context's. A step reads at most `rows` paths of its trees.

    If a call fails, sequences are as before, and trees have to be read again. `can_forget`: whether the model has no
    sliding window (its cells before the window are written over). `prefixes`: what `prefill` has read is kept there,
    and loaded instead of read again, by this engine or another one.
    """

    trees = TreeReading.SHARED
    pads = False

    def __init__(
        self,
        context: Context,
        *,
        can_forget: bool = True,
        ids: int | None = None,
        rows: int | None = None,
        prefixes: Prefixes | None = None,
    ) -> None:
        self._context, self._slots = context, Slots(context)
        self.can_forget, self._prefixes = can_forget, prefixes
        self._ids, self._rows = min(ids or context.ids, context.ids), min(rows or context.rows, context.rows)
        self._numbers = count()
        self._sequences: dict[int, _Sequence] = {}
        self._trees: dict[int, Tree] = {}

    @property
    def most_texts(self) -> int:
        """A quarter of the context's sequences: the others are leaves of trees."""
        return max(1, self._context.slots // 4)

    @property
    def capacity(self) -> int:
        """The cells of the context."""
        return self._context.cells

    def prefill(self, ids: Sequence[int]) -> int:
        """Return a new sequence that has read `ids`. Raise ModelError if there is no room for it."""
        sequence, batch = self._add(0), self._batch()
        own = self._sequences[sequence]
        try:
            if self._prefixes is not None and self._prefixes.load(own.slot, ids):
                own.length = len(ids)
                return sequence
            self._add_ids(batch, sequence, ids)
            batch.flush()
            if self._prefixes is not None:
                with suppress(MemoryError):
                    self._prefixes.save(own.slot, ids)
        except BaseException:
            batch.clear()
            self.drop(sequence)
            raise
        return sequence

    def feed(
        self, feeds: Sequence[tuple[int, Feed]], trees: Sequence[FeedTree] = ()
    ) -> tuple[list[Logits], list[TreeLogits]]:
        """Read ids after sequences and paths of trees, as the protocol says."""
        if len({sequence for sequence, _ in feeds}) < len(feeds) or len({one.tree for one in trees}) < len(trees):
            raise ValueError("a sequence or a tree is fed twice in one step")
        batch, before = self._batch(), [self._sequences[sequence].length for sequence, _ in feeds]
        reader = TreeReader(self._context, self._slots, batch)
        most = shares([len(one.numbers) for one in trees], self._rows)
        try:
            logits = [self._add_ids(batch, sequence, feed.ids, feed.last) for sequence, feed in feeds]
            found = [reader.read(self._trees[one.tree], one, part) for one, part in zip(trees, most, strict=True)]
            batch.flush()
        except BaseException:
            batch.clear()
            self._take_back(feeds, before)
            for one in trees:
                self._release(self._trees[one.tree].leaves())
            raise
        return logits, found

    def fork(self, sequence: int) -> int:
        """Return a new sequence that has read the same ids. Raise ModelError if there are too many."""
        own = self._sequences[sequence]
        new = self._add(own.length)
        self._context.copy(own.slot, self._sequences[new].slot, 0, own.length)
        return new

    def forget(self, sequence: int, count: int) -> None:
        """Take back the last `count` ids of a sequence."""
        own = self._sequences[sequence]
        own.length -= count
        self._context.remove(own.slot, own.length)

    def drop(self, sequence: int) -> None:
        """Release a sequence and its trees."""
        own = self._sequences[sequence]
        for tree in tuple(own.trees):
            self.close(tree)
        self._slots.release(own.slot)
        del self._sequences[sequence]

    def tree(self, sequence: int, ahead: Sequence[int] = ()) -> int:
        """Open a tree of continuations of a sequence, whose last ids `ahead` are a path of it."""
        own, number = self._sequences[sequence], next(self._numbers)
        self._trees[number] = Tree(sequence, own.slot, own.length - len(ahead), ahead)
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
        """Release a tree."""
        own = self._trees.pop(tree)
        self._sequences[own.sequence].trees.discard(tree)
        self._release(own.leaves())

    def _batch(self) -> Batch:
        return Batch(self._context, self._slots, ids=self._ids, rows=self._rows)

    def _add(self, length: int) -> int:
        """Return a new sequence in an empty slot. Raise ModelError if there is none."""
        slot = self._slots.acquire()
        if slot is None:
            raise no_slot(self._context)
        number = next(self._numbers)
        self._sequences[number] = _Sequence(slot, length)
        return number

    def _add_ids(self, batch: Batch, sequence: int, ids: Sequence[int], last: int = 0) -> Logits:
        """Add ids of a sequence to a batch. Return the array that gets the logits after the `last` ones."""
        own, start = self._sequences[sequence], self._sequences[sequence].length
        logits = np.empty((last, self._context.vocabulary), np.float32)
        own.length += len(ids)
        first, slots = len(ids) - last, (own.slot,)
        for n, number in enumerate(ids):
            batch.add(Waiting(number, start + n, slots, into=logits[n - first] if n >= first else None))
        return logits

    def _take_back(self, feeds: Sequence[tuple[int, Feed]], lengths: Sequence[int]) -> None:
        for (sequence, _), length in zip(feeds, lengths, strict=True):
            own = self._sequences[sequence]
            own.length = length
            self._context.remove(own.slot, length)

    def _release(self, slots: Iterable[int]) -> None:
        for slot in slots:
            self._slots.release(slot)
