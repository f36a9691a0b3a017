"""The engine over a causal language model of Transformers that reads many sequences as one row without padding.

The ids of a pass, of all its sequences and trees, follow one another in a batch of one row. Each has its own
position, and an attention mask of four dimensions lets it see the ids of its own sequence alone (as for the drafts of
Miao et al., SpecInfer, arXiv 2305.09781). Keys and values are in cells that sequences share: a prefix that many texts
begin with is computed and stored once.

A cell is a place in a buffer of each layer. A pass writes its ids into free cells, and attends to a window of the buffer:
what each id may see there is the attention mask's matter. So nothing is copied when sequences fork, end or grow.

Layers with a window (sliding, in chunks) see less than their sequence. Cells keep the keys of all ids for them too, so that
ids can be taken back and texts fork; `internals` has their masks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache
from transformers.cache_utils import DummyLayer, DynamicLayer, DynamicSlidingWindowLayer

from refactx.engines.engine import Feed, FeedTree, IdPath, Logits, TreeLogits, TreeReading, free_memory
from refactx.engines.scheduler import PASS_IDS
from refactx.engines.transformers.internals import CACHE, OwnAttention, PassMasks, cache_argument, chooses_logits
from refactx.errors import ModelError

Places = NDArray[np.int64]
"""Cells, as places in the buffers: int64[n]."""

SPARSE = 0.5
"""A pass copies the cells that it sees if they are less than this share of the span that they take up."""

_FIRST = 1024
"""The number of cells at first; it doubles when they are all taken."""

SHARE = 0.6
"""The share of the free memory that the cache may take. A pass needs some of the rest."""

UNKNOWN = 4 << 30
"""The bytes that are taken to be free if the system does not tell."""


IDS_A_PASS = 256
"""The most ids of all trees in a step, and of a prompt in one of its passes: they bound the memory for logits."""

LEAST_OF_A_TREE = 64
"""A step reads this many ids of a tree even if there are many: less of them would be mostly the fixed cost of a pass."""


class _Plan:
    """What a pass writes and sees: its `new` cells int64[n], the `window` of the buffers, how many of its cells were
    `seen` before the pass, and the least `size` of the buffers."""

    new: torch.Tensor
    window: slice | torch.Tensor
    seen: int
    size: int


_Layer: Any = DynamicLayer  # its methods have no types


class _CellLayer(_Layer):  # type: ignore[misc]
    """The `parts` of one layer: its keys and its values, each float[1, heads, cells, size]."""

    def __init__(self, plan: _Plan) -> None:
        super().__init__()
        self._plan, self.parts = plan, list[torch.Tensor]()

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the keys and values of the pass into its new cells. Return those of its window."""
        self.write(self._plan.new, [key_states, value_states], self._plan.size)
        window = self._plan.window
        if isinstance(window, slice):
            return self.parts[0][:, :, window], self.parts[1][:, :, window]
        return self.parts[0].index_select(2, window), self.parts[1].index_select(2, window)

    def write(self, places: torch.Tensor, states: Sequence[torch.Tensor], size: int) -> None:
        """Write keys and values into cells, of which there are at least `size`."""
        if not self.parts or self.parts[0].shape[2] < size:
            grown = [new.new_zeros((1, new.shape[1], size, new.shape[3])) for new in states]
            for old, buffer in zip(self.parts, grown, strict=False):
                buffer[:, :, : old.shape[2]] = old
            self.parts = grown
        for buffer, new in zip(self.parts, states, strict=True):
            buffer.index_copy_(2, places, new)

    def get_seq_length(self) -> int:
        """Return the number of keys that the pass sees besides its own, as masks are made for."""
        return self._plan.seen


class Cells:
    """The cells of one model.

    `cache`: what the model takes as its cache; valid for one pass after `plan`. `windowed`: whether layers have
    windows.
    """

    def __init__(self, model: Any) -> None:
        self._device, self._plan = model.device, _Plan()
        self.cache = DynamicCache(config=model.config)
        self.windowed = any(type(layer) is DynamicSlidingWindowLayer for layer in self.cache.layers)
        self._layers = [layer if type(layer) is DummyLayer else _CellLayer(self._plan) for layer in self.cache.layers]
        self.cache.layers = list(self._layers)
        self._holders = np.zeros(_FIRST, np.int32)  # how many sequences and trees hold each cell
        self.positions = np.zeros(_FIRST, np.int64)  # those of the ids in the cells

    @property
    def taken(self) -> int:
        """The number of cells that are held."""
        return int(np.count_nonzero(self._holders))

    def take(self, positions: Sequence[int] | NDArray[np.int64]) -> Places:
        """Return free cells for ids at some positions, which are then held once."""
        free = np.flatnonzero(self._holders == 0)[: len(positions)]
        while len(free) < len(positions):
            self._holders = np.concatenate([self._holders, np.zeros_like(self._holders)])
            self.positions = np.concatenate([self.positions, np.zeros_like(self.positions)])
            free = np.flatnonzero(self._holders == 0)[: len(positions)]
        self._holders[free], self.positions[free] = 1, positions
        return free

    def hold(self, places: Places) -> None:
        """Hold cells once more."""
        self._holders[places] += 1

    def release(self, places: Places | Sequence[int]) -> None:
        """Hold cells once less: those that nobody holds are free."""
        self._holders[places] -= 1

    def plan(self, new: Places, seen: Sequence[Places]) -> Places:
        """Prepare a pass that writes `new` cells, and whose ids see them and those in `seen`.

        Returns for each cell its column in the window: int64[cells], -1 outside of it.
        """
        marks = np.zeros(len(self._holders), np.bool_)
        for places in (new, *seen):
            marks[places] = True
        union = np.flatnonzero(marks)
        low, high = int(union[0]), int(union[-1]) + 1
        columns = np.full(len(self._holders), -1, np.int64)
        plan = self._plan
        if len(union) < SPARSE * (high - low):
            columns[union] = np.arange(len(union))
            plan.window, width = torch.from_numpy(union).to(self._device), len(union)
        else:
            columns[low:high] = np.arange(high - low)
            plan.window, width = slice(low, high), high - low
        plan.new = torch.from_numpy(new).to(self._device)
        plan.seen, plan.size = width - len(new), len(self._holders)
        return columns

    def copy_in(self, cache: Any, row: int, columns: Places, positions: NDArray[np.int64]) -> Places:
        """Copy keys and values of one row of a Transformers cache, at some columns, into new cells.

        A layer with a window has the last columns alone: cells of others get nothing, which no later id sees.
        """
        places = self.take(positions)
        with torch.inference_mode(False), torch.no_grad():
            for own, theirs in self._pairs(cache):
                first = theirs.get_seq_length() - theirs.keys.shape[2]
                at, some = (
                    torch.from_numpy(each[columns >= first]).to(self._device) for each in (places, columns - first)
                )
                states = [part[row : row + 1, :, some] for part in (theirs.keys, theirs.values)]
                own.write(at, states, len(self._holders))
        return places

    def copy_out(self, places: Places, cache: Any) -> None:
        """Replace the keys and values of a Transformers cache of one row by those of cells."""
        for own, theirs in self._pairs(cache):
            kept = places
            if type(theirs) is DynamicSlidingWindowLayer:
                theirs.cumulative_length, kept = len(places), places[1 - theirs.sliding_window :]
            at = torch.from_numpy(kept).to(self._device)
            theirs.keys, theirs.values = (part.index_select(2, at) for part in own.parts)

    def _pairs(self, cache: Any) -> "list[tuple[_CellLayer, Any]]":
        """Return the layers that have cells, each with that of a Transformers cache."""
        pairs = zip(self._layers, cache.layers, strict=True)
        return [(own, theirs) for own, theirs in pairs if type(own) is _CellLayer]


class PackedPass:
    """What a pass reads: ids with their positions, the cells that each sees, and whether its logits are wanted."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.positions: list[int] = []
        self.seen: list[tuple[int, int, Places]] = []  # rows [first, stop) see these cells
        self.wanted: list[int] = []

    def add(self, ids: Sequence[int], position: int, sees: Places, last: int) -> int:
        """Add ids that follow one another, of which the `last` ones want logits. Return the row of the first one."""
        first = len(self.ids)
        self.ids += ids
        self.positions += range(position, position + len(ids))
        self.seen.append((first, first + len(ids), sees))
        self.wanted += range(first + len(ids) - last, first + len(ids))
        return first


def split_passes(wants: Sequence[tuple[int, Places]], seen_an_id: int) -> list[list[int]]:
    """Return the numbers of what each forward pass reads, so that all passes together take little time.

    `wants`: how many ids are read, and the cells that they see. Each id of a pass attends to the cells of all others, so
    a pass of `n` ids that see `m` cells takes the time of `PASS_IDS + n * (1 + m / seen_an_id)` ids without attention.
    `seen_an_id`: how many seen cells take as long as the rest of an id: some 6 times the hidden size `h`, since a layer
    takes 24 h² operations for an id, and 4 h for a cell that it sees (Hoffmann et al., arXiv 2203.15556, appendix F).

    >>> some, others = np.arange(100), np.arange(500, 9000)
    >>> split_passes([(1, some), (1, some), (200, others)], 1000)
    [[0, 1], [2]]
    """

    def time(ids: int, cells: Places) -> float:
        return PASS_IDS + ids * (1 + (len(cells) + ids) / seen_an_id)

    groups: list[tuple[int, Places, list[int]]] = []
    for number, (ids, cells) in enumerate(wants):
        if groups:
            before, seen, group = groups[-1]
            union = np.union1d(seen, cells)
            if time(before + ids, union) <= time(before, seen) + time(ids, cells):
                groups[-1] = (before + ids, union, [*group, number])
                continue
        groups.append((ids, cells, [number]))
    return [group for _, _, group in groups]


def cells_that_fit(model: Any) -> int:
    """Return for how many ids the free memory of a model's device has room: keys and values of all layers."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    a_cell: int = 2 * config.num_hidden_layers * heads * size * model.dtype.itemsize
    free = torch.cuda.mem_get_info(model.device)[0] if model.device.type == "cuda" else free_memory()
    return max(1, int(SHARE * (UNKNOWN if free is None else free)) // a_cell)


@dataclass(slots=True, eq=False)
class _CellSequence:
    """The cells of the ids that it has read, and the position of its next id."""

    cells: Places
    position: int


@dataclass(slots=True, eq=False)
class _CellTree:
    """A tree of a sequence that has `text` cells without those `ahead`. `places`: the cell of each path.

    `own`: whether a path's cell is the tree's, and not the sequence's.
    """

    sequence: int
    text: Places
    position: int
    places: dict[IdPath, int]
    ahead: set[IdPath] = field(default_factory=set)


class PackedEngine:
    """An engine over a model whose attention takes masks of four dimensions (`refactx.engines.transformers.rows.takes_masks`).

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
        self._sequences: dict[int, _CellSequence] = {}
        self._trees: dict[int, _CellTree] = {}
        self._attention = OwnAttention(model, self._cells.windowed)
        self._chooses_logits = chooses_logits(model)
        self._cache_name = cache_argument(model) or CACHE
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
            at = np.arange(len(columns)) if own is None else own.numpy(force=True)[columns]
            position = len(columns) if own is None else int(own[-1]) + 1
            found.append(self._add(self._cells.copy_in(model_kwargs[CACHE], row, columns, at), position))
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
        for group in split_passes(wants, 6 * self._model.config.get_text_config().hidden_size):
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
        grown: list[tuple[_CellSequence, int]] = []
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
        new = self._cells.take(reading.positions)
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
        self._trees[number] = _CellTree(
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
        self._sequences[number] = _CellSequence(cells, position)
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
        device = self._model.device
        cells = np.zeros(width, np.int64)
        shown = np.flatnonzero(columns >= 0)
        cells[columns[shown]] = self._cells.positions[shown]
        position_ids = torch.tensor([reading.positions], device=device)
        masks = PassMasks(
            torch.from_numpy(seen).to(device), position_ids[0], torch.from_numpy(cells).to(device), self._model.dtype
        )
        windowed = self._cells.windowed
        inputs: dict[str, Any] = {
            "input_ids": torch.tensor([reading.ids], device=device),
            "position_ids": position_ids,
            "attention_mask": None if windowed else masks.of(),
            self._cache_name: self._cells.cache,
        }
        wanted = torch.tensor(reading.wanted, dtype=torch.long, device=device)
        if self._chooses_logits:
            inputs["logits_to_keep"] = wanted
        with torch.inference_mode(False), torch.no_grad(), self._attention.on(masks if windowed else None):
            logits = self._model(**inputs, use_cache=True, return_dict=True).logits[0]
        return to_numpy(logits if self._chooses_logits else logits[wanted])


def _along(tree: _CellTree, path: IdPath) -> Places:
    """Return the cells of the ids of a path."""
    try:
        return np.array([tree.places[path[: n + 1]] for n in range(len(path))], np.int64)
    except KeyError as missing:
        raise ModelError(f"the path {missing.args[0]} of a tree was not read before {path}") from missing


def to_numpy(logits: torch.Tensor) -> Logits:
    """Return logits as float32 in numpy, without a copy if they have that type and are on the CPU."""
    found: Logits = logits.to(torch.float32).numpy(force=True)
    return found
