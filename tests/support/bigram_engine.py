"""An engine in numpy whose logits depend on the last id alone: `refactx.engines.engine.Engine` in a few dozen lines.

With it, the loop, fact beams and the channel run in milliseconds and without torch.
"""

from collections.abc import Iterator, Sequence
from itertools import count

from refactx.engines.engine import Feed, IdPath, Logits


class BigramEngine:
    """`table`: float32[vocabulary, vocabulary], the logits after each id. `steps`: the number of calls that read."""

    can_forget = True

    def __init__(self, table: Logits) -> None:
        self.table, self.read, self.steps = table, dict[int, list[int]](), 0
        self._numbers = count()

    def prefill(self, ids: Sequence[int]) -> int:
        number = next(self._numbers)
        self.read[number] = list(ids)
        return number

    def feed(self, feeds: Sequence[Feed]) -> list[Logits]:
        assert len({feed.sequence for feed in feeds}) == len(feeds)
        self.steps += 1
        for feed in feeds:
            self.read[feed.sequence] += feed.ids
        return [self.table[list(feed.ids)[-feed.last :]] for feed in feeds]

    def fork(self, sequence: int) -> int:
        return self.prefill(self.read[sequence])

    def forget(self, sequence: int, count: int) -> None:
        assert count <= len(self.read[sequence])
        del self.read[sequence][len(self.read[sequence]) - count :]

    def drop(self, sequence: int) -> None:
        del self.read[sequence]

    def tree(self, sequence: int, ahead: Sequence[int] = ()) -> "BigramTree":
        assert self.read[sequence][len(self.read[sequence]) - len(ahead) :] == list(ahead)
        return BigramTree(self, sequence, tuple(ahead))


class BigramTree:
    is_incremental = True

    def __init__(self, engine: BigramEngine, sequence: int, ahead: IdPath) -> None:
        self._engine, self._sequence, self._ahead = engine, sequence, ahead
        self._paths = {ahead[: n + 1] for n in range(len(ahead))}

    def __contains__(self, path: IdPath) -> bool:
        return not path or path in self._paths

    def read(self, paths: Sequence[IdPath], wanted: Sequence[int] | None = None) -> Iterator[tuple[list[int], Logits]]:
        self._engine.steps += 1
        for path in paths:
            assert path[:-1] in self, "the ids of a path are read in order"
            self._paths.add(path)
        numbers = list(range(len(paths)) if wanted is None else wanted)
        yield numbers, self._engine.table[[paths[number][-1] for number in numbers]]

    def keep(self, path: IdPath) -> int:
        kept = next((n for n in range(len(path), 0, -1) if path[:n] in self._paths), 0)
        self._engine.forget(self._sequence, len(self._ahead))
        self._engine.read[self._sequence] += path[:kept]
        return kept
