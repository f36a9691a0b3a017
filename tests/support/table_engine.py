"""An engine in numpy whose logits depend on all ids that a sequence has read: a row of a table for the last id, and an
offset by a hash of all of them.

With it, texts, fact beams and the channel run in milliseconds and without torch. `logits` is a function of ids, not of
the engine's state, so that tests can compare.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from zlib import crc32

import numpy as np

from refactx.engines.engine import Feed, FeedTree, IdPath, Logits, TreeLogits, TreeReading


@dataclass
class _Tree:
    sequence: int
    text: list[int]
    ahead: IdPath
    paths: set[IdPath]


class TableEngine:
    """`table`: float32[vocabulary, vocabulary], by the last id; `offsets`: float32[n, vocabulary], by the hash.

    `read`: what each sequence has read; `dropped`: what each dropped one had read; `steps`: the number of calls that
    read. A step answers at most `part` paths of a tree.
    """

    trees = TreeReading.SHARED
    can_forget = True
    pads = False
    capacity: int | None = None
    most_texts: int | None = None
    part = 40

    def __init__(self, table: Logits, offsets: Logits) -> None:
        self._table, self._offsets, self._numbers = table, offsets, count()
        self._trees: dict[int, _Tree] = {}
        self.read, self.dropped, self.steps = dict[int, list[int]](), dict[int, list[int]](), 0

    def logits(self, ids: Sequence[int], last: int = 1) -> Logits:
        """Return the logits after the `last` ids of a text, float32[last, vocabulary]."""
        ends = range(len(ids) - last + 1, len(ids) + 1)
        hashes = [crc32(np.array(ids[:end], np.int64).tobytes()) for end in ends]
        return self._table[list(ids[-last:])] + self._offsets[np.array(hashes) % len(self._offsets)]

    def prefill(self, ids: Sequence[int]) -> int:
        number = next(self._numbers)
        self.read[number] = list(ids)
        return number

    def feed(
        self, feeds: Sequence[tuple[int, Feed]], trees: Sequence[FeedTree] = ()
    ) -> tuple[list[Logits], list[TreeLogits]]:
        if len({sequence for sequence, _ in feeds}) < len(feeds) or len({one.tree for one in trees}) < len(trees):
            raise ValueError("a sequence or a tree is fed twice")
        self.steps += 1
        for sequence, feed in feeds:
            self.read[sequence] += feed.ids
        return [self.logits(self.read[sequence], feed.last) for sequence, feed in feeds], list(map(self._read, trees))

    def fork(self, sequence: int) -> int:
        return self.prefill(self.read[sequence])

    def forget(self, sequence: int, count: int) -> None:
        assert 0 <= count <= len(self.read[sequence])
        del self.read[sequence][len(self.read[sequence]) - count :]

    def drop(self, sequence: int) -> None:
        self.dropped[sequence] = self.read.pop(sequence)
        self._trees = {number: tree for number, tree in self._trees.items() if tree.sequence != sequence}

    def tree(self, sequence: int, ahead: Sequence[int] = ()) -> int:
        ids, number = self.read[sequence], next(self._numbers)
        text = ids[: len(ids) - len(ahead)]
        assert [*text, *ahead] == ids
        paths = {tuple(ahead[: n + 1]) for n in range(len(ahead))}
        self._trees[number] = _Tree(sequence, text, tuple(ahead), paths)
        return number

    def keep(self, tree: int, path: IdPath) -> int:
        own = self._trees.pop(tree)
        kept = next((n for n in range(len(path), 0, -1) if path[:n] in own.paths), 0)
        assert self.read[own.sequence] == [*own.text, *own.ahead], "no ids are read while a tree is"
        self.read[own.sequence] = [*own.text, *path[:kept]]
        return kept

    def close(self, tree: int) -> None:
        del self._trees[tree]

    def _read(self, asked: FeedTree) -> TreeLogits:
        own, numbers = self._trees[asked.tree], list(asked.numbers)[: self.part]
        for path in asked.paths[: max(numbers) + 1]:
            assert len(path) == 1 or path[:-1] in own.paths, "the ids of a path are read in order"
            own.paths.add(path)
        return TreeLogits(
            numbers, np.concatenate([self.logits([*own.text, *asked.paths[number]]) for number in numbers])
        )
