"""An engine over a causal language model of Transformers that reads many sequences as one row without padding.

The ids of a pass, of all its sequences and trees, follow one another in a batch of one row. Each has its own
position, and an attention mask of four dimensions lets it see the ids of its own sequence alone (as for the drafts of
Miao et al., SpecInfer, arXiv 2305.09781). Keys and values are in cells that sequences share (`refactx.engines.hf.cells`):
a prefix that many texts begin with is computed and stored once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import torch

from refactx.engines.engine import Feed, FeedTree, IdPath, Logits, TreeLogits, TreeReading
from refactx.engines.hf.cells import Cells, Places
from refactx.engines.hf.memory import cells_that_fit
from refactx.engines.hf.passes import PackedPass, divide
from refactx.engines.hf.shared_heads import SharedHeads
from refactx.errors import ModelError

IDS_A_PASS = 256
"""The most ids of all trees in a step, and of a prompt in one of its passes: they bound the memory for logits."""

LEAST_OF_A_TREE = 64
"""A step reads this many ids of a tree even if there are many: less of them would be mostly the fixed cost of a pass."""


@dataclass(slots=True, eq=False)
class _Sequence:
    """The cells of the ids that it has read, and the position of its next id."""

    cells: Places
    position: int


@dataclass(slots=True, eq=False)
class _Tree:
    """A tree of a sequence that has `text` cells without those `ahead`. `places`: the cell of each path.

    `own`: whether a path's cell is the tree's, and not the sequence's.
    """

    sequence: int
    text: Places
    position: int
    places: dict[IdPath, int]
    ahead: set[IdPath] = field(default_factory=set)


class PackedEngine:
    """An engine over a model whose attention takes masks of four dimensions (`refactx.engines.hf.rows.takes_masks`).

    >>> engine = PackedEngine(model)  # doctest: +SKIP
    >>> text = engine.prefill([1, 2, 3])  # doctest: +SKIP
    >>> [logits], _ = engine.feed([(text, Feed([4, 5], last=2))])  # doctest: +SKIP
    >>> logits.shape  # doctest: +SKIP
    (2, 49152)
    """

    trees = TreeReading.SHARED
    can_forget = True
    pads = False
    most_texts: int | None = None

    def __init__(self, model: Any) -> None:
        self._model, self._cells, self._numbers = model, Cells(model), count()
        self._sequences: dict[int, _Sequence] = {}
        self._trees: dict[int, _Tree] = {}
        self._heads = SharedHeads(model)
        self._chooses_logits = bool(model._supports_logits_to_keep())
        self._capacity: int | None = None

    @property
    def capacity(self) -> int:
        if self._capacity is None:
            self._capacity = cells_that_fit(self._model)
        return self._capacity

    def prefill(self, ids: Sequence[int]) -> int:
        sequence = self._add(np.empty(0, np.int64), 0)
        try:
            for first in range(0, len(ids), IDS_A_PASS):
                self.feed([(sequence, Feed(ids[first : first + IDS_A_PASS]))])
        except BaseException:
            self.drop(sequence)
            raise
        return sequence

    def add_cache(self, model_kwargs: Mapping[str, Any], shape: tuple[int, int]) -> list[int]:
        """Return the sequences of a `generate` call whose prompts the model has read, one for each row.

        `model_kwargs`: the inputs as `generate` prepared them; `shape`: rows and length of the prompts.
        """
        rows, length = shape
        mask, positions = model_kwargs.get("attention_mask"), model_kwargs.get("position_ids")
        found = []
        for row in range(rows):
            read = np.ones(length, np.bool_) if mask is None else mask[row].bool().numpy(force=True)
            columns = np.flatnonzero(read)
            own = None if positions is None else positions[min(row, len(positions) - 1)]
            position = len(columns) if own is None else int(own[-1]) + 1
            found.append(self._add(self._cells.copy_in(model_kwargs["past_key_values"], row, columns), position))
        return found

    def write_cache(self, sequence: int, cache: Any) -> None:
        """Replace the contents of a Transformers cache of one row by what a sequence has read."""
        self._cells.copy_out(self._sequences[sequence].cells, cache)

    def feed(
        self, feeds: Sequence[tuple[int, Feed]], trees: Sequence[FeedTree] = ()
    ) -> tuple[list[Logits], list[TreeLogits]]:
        if len({sequence for sequence, _ in feeds}) < len(feeds) or len({one.tree for one in trees}) < len(trees):
            raise ValueError("a sequence or a tree is fed twice in one step: join its ids")
        chosen = [self._choose(asked, max(LEAST_OF_A_TREE, IDS_A_PASS // len(trees))) for asked in trees]
        wants = [(len(feed.ids), self._sequences[number].cells) for number, feed in feeds]
        for asked, numbers in zip(trees, chosen, strict=True):
            own = self._trees[asked.tree]
            wants.append((len(numbers), np.array([*own.text.tolist(), *own.places.values()], np.int64)))
        logits, answered = dict[int, Logits](), dict[int, TreeLogits]()
        for group in divide(wants, 6 * self._model.config.get_text_config().hidden_size):
            fed = [at for at in group if at < len(feeds)]
            read = [at - len(feeds) for at in group if at >= len(feeds)]
            some, found = self._feed([feeds[at] for at in fed], [trees[at] for at in read], [chosen[at] for at in read])
            logits |= zip(fed, some, strict=True)
            answered |= zip(read, found, strict=True)
        return [logits[at] for at in range(len(feeds))], [answered[at] for at in range(len(trees))]

    def _feed(
        self, feeds: Sequence[tuple[int, Feed]], trees: Sequence[FeedTree], chosen: Sequence[Sequence[int]]
    ) -> tuple[list[Logits], list[TreeLogits]]:
        """Read in one forward pass. `chosen`: the numbers of the paths to read of each tree."""
        reading, ends = PackedPass(), list[int]()
        grown: list[tuple[_Sequence, int]] = []
        for number, feed in feeds:
            own = self._sequences[number]
            grown.append((own, reading.add(feed.ids, own.position, own.cells, feed.last)))
            ends.append(len(reading.wanted))
        for asked, numbers in zip(trees, chosen, strict=True):
            tree, wanted = self._trees[asked.tree], set(asked.numbers)
            for number in numbers:
                path = asked.paths[number]
                reading.add(path[-1:], tree.position + len(path) - 1, tree.text, number in wanted)
            ends.append(len(reading.wanted))
        new = self._cells.take(len(reading.ids))
        try:
            logits = self._run(reading, new, self._see_branches(reading, trees, chosen, new))
        except BaseException:
            self._cells.release(new[: len(new) - sum(map(len, chosen))])  # the trees hold the others
            raise
        for (own, first), (_, feed) in zip(grown, feeds, strict=True):
            own.cells = np.concatenate([own.cells, new[first : first + len(feed.ids)]])
            own.position += len(feed.ids)
        parts = np.split(logits, ends)
        answered = []
        for asked, numbers, part in zip(trees, chosen, parts[len(feeds) :], strict=False):
            wanted = set(asked.numbers)
            answered.append(TreeLogits([number for number in numbers if number in wanted], part))
        return parts[: len(feeds)], answered

    def fork(self, sequence: int) -> int:
        own = self._sequences[sequence]
        self._cells.hold(own.cells)
        return self._add(own.cells, own.position)

    def forget(self, sequence: int, count: int) -> None:
        if count:
            own = self._sequences[sequence]
            self._cells.release(own.cells[-count:])
            own.cells, own.position = own.cells[:-count], own.position - count

    def drop(self, sequence: int) -> None:
        for number in [number for number, tree in self._trees.items() if tree.sequence == sequence]:
            self.close(number)
        self._cells.release(self._sequences.pop(sequence).cells)

    def tree(self, sequence: int, ahead: Sequence[int] = ()) -> int:
        own, number = self._sequences[sequence], next(self._numbers)
        text = len(own.cells) - len(ahead)
        paths = [tuple(ahead[: n + 1]) for n in range(len(ahead))]
        self._trees[number] = _Tree(
            sequence,
            own.cells[:text],
            own.position - len(ahead),
            dict(zip(paths, own.cells[text:].tolist(), strict=True)),
            set(paths),
        )
        return number

    def keep(self, tree: int, path: IdPath) -> int:
        own = self._trees[tree]
        kept = next((n for n in range(len(path), 0, -1) if path[:n] in own.places), 0)
        along = _along(own, path[:kept])
        self._cells.hold(along)
        self.close(tree)
        sequence = self._sequences[own.sequence]
        self._cells.release(sequence.cells[len(own.text) :])
        sequence.cells, sequence.position = np.concatenate([own.text, along]), own.position + kept
        return kept

    def close(self, tree: int) -> None:
        own = self._trees.pop(tree)
        self._cells.release([place for path, place in own.places.items() if path not in own.ahead])

    def _add(self, cells: Places, position: int) -> int:
        number = next(self._numbers)
        self._sequences[number] = _Sequence(cells, position)
        return number

    def _choose(self, asked: FeedTree, most: int) -> list[int]:
        """Return the numbers of the paths that a pass reads: about `most`, and at least one that is wanted."""
        places, wanted = self._trees[asked.tree].places, set(asked.numbers)
        if not wanted:
            raise ValueError("no path of a tree is wanted: a step answers at least one")
        chosen: list[int] = []
        answers = False
        for number, path in enumerate(asked.paths[: max(wanted) + 1]):
            if len(chosen) >= most and answers:
                break
            if number in wanted or path not in places:
                chosen.append(number)
                answers = answers or number in wanted
        return chosen

    def _see_branches(
        self, reading: PackedPass, trees: Sequence[FeedTree], chosen: Sequence[Sequence[int]], new: Places
    ) -> list[tuple[int, Places]]:
        """Give the paths their new cells. Return for each row of a path the cells of the ids before it."""
        row = len(reading.ids) - sum(map(len, chosen))
        branches: list[tuple[int, Places]] = []
        for asked, numbers in zip(trees, chosen, strict=True):
            own = self._trees[asked.tree]
            for number in numbers:
                path = asked.paths[number]
                if path in own.places and path not in own.ahead:
                    self._cells.release([own.places[path]])
                own.ahead.discard(path)
                own.places[path] = int(new[row])
                branches.append((row, _along(own, path)))
                row += 1
        return branches

    def _run(self, reading: PackedPass, new: Places, branches: Sequence[tuple[int, Places]]) -> Logits:
        """Run the model once. Return the logits of the wanted rows, float32[wanted, vocabulary]."""
        columns = self._cells.plan(new, [*(sees for _, _, sees in reading.seen), *(sees for _, sees in branches)])
        width, rows = int(columns.max()) + 1, len(reading.ids)
        seen = np.zeros((rows, width), np.bool_)
        for first, stop, sees in reading.seen:
            seen[first:stop, columns[sees]] = True
            own = np.ix_(np.arange(first, stop), columns[new[first:stop]])
            seen[own] = np.tri(stop - first, dtype=np.bool_)
        for row, sees in branches:
            seen[row, columns[sees]] = True
        device, dtype = self._model.device, self._model.dtype
        blocked = ~torch.from_numpy(seen).to(device)
        mask = torch.zeros((rows, width), dtype=dtype, device=device).masked_fill_(blocked, torch.finfo(dtype).min)
        inputs: dict[str, Any] = {
            "input_ids": torch.tensor([reading.ids], device=device),
            "position_ids": torch.tensor([reading.positions], device=device),
            "attention_mask": mask[None, None],
            "past_key_values": self._cells.cache,
        }
        wanted = torch.tensor(reading.wanted, dtype=torch.long, device=device)
        if self._chooses_logits:
            inputs["logits_to_keep"] = wanted
        with torch.inference_mode(False), torch.no_grad(), self._heads.on(device.type):
            logits = self._model(**inputs, use_cache=True, return_dict=True).logits[0]
        return to_numpy(logits if self._chooses_logits else logits[wanted])


def _along(tree: _Tree, path: IdPath) -> Places:
    """Return the cells of the ids of a path."""
    try:
        return np.array([tree.places[path[: n + 1]] for n in range(len(path))], np.int64)
    except KeyError as missing:
        raise ModelError(f"the path {missing.args[0]} of a tree was not read before {path}") from missing


def to_numpy(logits: torch.Tensor) -> Logits:
    """Return logits as float32 in numpy, without a copy if they have that type and are on the CPU."""
    found: Logits = logits.to(torch.float32).numpy(force=True)
    return found
