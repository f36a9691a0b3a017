"""An engine in numpy whose logits depend on all ids that a sequence has read: a row of a table for the last id, and an
offset by a hash of all of them.

With it, the loop, fact beams and the channel run in milliseconds and without torch. `logits` is a function of ids, not
of the engine's state, so that tests can compare.
"""

from collections.abc import Iterator, Sequence
from itertools import count
from zlib import crc32

import numpy as np

from refactx.engines.engine import Feed, IdPath, Logits


class TableEngine:
    """`table`: float32[vocabulary, vocabulary], by the last id; `offsets`: float32[n, vocabulary], by the hash.

    `read`: what each sequence has read; `dropped`: what each dropped one had read; `steps`: the number of calls that
    read.
    """

    can_forget = True

    def __init__(self, table: Logits, offsets: Logits) -> None:
        self._table, self._offsets, self._numbers = table, offsets, count()
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

    def feed(self, feeds: Sequence[Feed]) -> list[Logits]:
        if len({feed.sequence for feed in feeds}) < len(feeds):
            raise ValueError("a sequence is fed twice")
        self.steps += 1
        for feed in feeds:
            self.read[feed.sequence] += feed.ids
        return [self.logits(self.read[feed.sequence], feed.last) for feed in feeds]

    def fork(self, sequence: int) -> int:
        return self.prefill(self.read[sequence])

    def forget(self, sequence: int, count: int) -> None:
        assert 0 <= count <= len(self.read[sequence])
        del self.read[sequence][len(self.read[sequence]) - count :]

    def drop(self, sequence: int) -> None:
        self.dropped[sequence] = self.read.pop(sequence)

    def tree(self, sequence: int, ahead: Sequence[int] = ()) -> "TableTree":
        return TableTree(self, sequence, tuple(ahead))


class TableTree:
    is_incremental = True

    def __init__(self, engine: TableEngine, sequence: int, ahead: IdPath) -> None:
        self._engine, self._sequence, self._ahead = engine, sequence, ahead
        ids = engine.read[sequence]
        self._text = ids[: len(ids) - len(ahead)]
        assert [*self._text, *ahead] == ids
        self._paths = {ahead[: n + 1] for n in range(len(ahead))}

    def __contains__(self, path: IdPath) -> bool:
        return not path or path in self._paths

    def read(self, paths: Sequence[IdPath], wanted: Sequence[int] | None = None) -> Iterator[tuple[list[int], Logits]]:
        self._engine.steps += 1
        for path in paths:
            assert path[:-1] in self, "the ids of a path are read in order"
            self._paths.add(path)
        numbers = list(range(len(paths)) if wanted is None else wanted)
        if numbers:
            yield numbers, np.concatenate([self._engine.logits([*self._text, *paths[number]]) for number in numbers])

    def keep(self, path: IdPath) -> int:
        kept = next((n for n in range(len(path), 0, -1) if path[:n] in self._paths), 0)
        assert self._engine.read[self._sequence] == [*self._text, *self._ahead], "no ids are read while a tree is"
        self._engine.read[self._sequence] = [*self._text, *path[:kept]]
        return kept
