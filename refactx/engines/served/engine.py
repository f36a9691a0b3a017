"""An engine over a model server that scores given ids (`refactx.engines.served.servers`).

Sequences are lists of ids, kept here: the server finds what it has read before in its own cache. Text is written ahead:
one request asks for as much as the model writes up to the next fact, and what texts read of it afterwards takes no
request. All paths of a tree that a pass wants are scored together.

A server gives the log-probabilities of some ids alone. In rows for a text's next id, the others are unlikely, all alike;
in rows of trees they share what the known ones leave of the probability, so that sums are right.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refactx.engines.engine import Feed, FeedTree, IdPath, Ids, Logits, TreeLogits, TreeReading
from refactx.engines.served.servers import ModelServer, Row
from refactx.errors import ModelError
from refactx.tree.tree import Tokens

AHEAD, LEAST_AHEAD = 32, 2
"""The most ids that are written ahead in one request, and the fewest: those after an id that the text does not take are in
vain, so they are halved where it has taken another one than the likeliest, as sampled text does, and doubled where not."""

KEPT = 20_000
"""The most texts after which rows are kept."""

EXACT = 64
"""The most ids asked for after a path that are all scored; of more, those that the server finds likely are."""

DENSE = 64
"""The most rows of a tree that are given at a time: each has the whole vocabulary."""

UNLIKELY = 30.0
"""How far below the known ids of a row the others are, in nats."""

Prefix = tuple[int, ...]


@dataclass(slots=True)
class _ServedTree:
    """A tree: its sequence, the ids that it continues, and how many ids the sequence has read after them."""

    sequence: int
    base: Prefix
    ahead: int


class _Rows:
    """The rows after texts, those used last at the end. `whole`: texts after which the likeliest ids are known."""

    def __init__(self) -> None:
        self._rows: OrderedDict[Prefix, Row] = OrderedDict()
        self._whole: set[Prefix] = set()

    def get(self, text: Prefix) -> Row | None:
        """Return the known log-probabilities after a text."""
        if text in self._rows:
            self._rows.move_to_end(text)
        return self._rows.get(text)

    def has_likeliest(self, text: Prefix) -> bool:
        """Return whether the likeliest ids after a text are among the known ones."""
        return text in self._whole

    def has(self, text: Prefix, ids: Sequence[int]) -> bool:
        """Return whether ids after a text are known."""
        row = self._rows.get(text)
        return row is not None and all(token in row for token in ids)

    def add(self, text: Prefix, row: Row, *, likeliest: bool) -> None:
        """Add what is known after a text."""
        self._rows[text] = {**self._rows.get(text, {}), **row}
        self._rows.move_to_end(text)
        if likeliest:
            self._whole.add(text)
        while len(self._rows) > KEPT:
            self._whole.discard(self._rows.popitem(last=False)[0])


class ServedEngine:
    """A `refactx.engines.engine.Engine` over a server.

    `size`: the ids of the vocabulary; `stop`: the text before which the model's own text ends, such as a trigger, since
    facts follow; `ends`: ids that end a text.
    """

    trees = TreeReading.ROWS
    can_forget = False
    pads = False
    capacity: int | None = None
    most_texts: int | None = None

    def __init__(self, server: ModelServer, *, size: int, ends: Sequence[int], stop: str = "") -> None:
        self.server, self._size, self._ends, self._stop = server, size, list(ends), [stop] if stop else []
        self._sequences: dict[int, list[int]] = {}
        self._trees: dict[int, _ServedTree] = {}
        self._rows, self._next, self._ahead = _Rows(), 0, AHEAD

    def prefill(self, ids: Sequence[int]) -> int:
        return self._new(self._sequences, list(ids))

    def fork(self, sequence: int) -> int:
        return self._new(self._sequences, list(self._sequences[sequence]))

    def forget(self, sequence: int, count: int) -> None:
        own = self._sequences[sequence]
        if count > len(own):
            raise ValueError(f"{count} ids to take back of {len(own)}")
        del own[len(own) - count :]

    def drop(self, sequence: int) -> None:
        for number in [number for number, tree in self._trees.items() if tree.sequence == sequence]:
            del self._trees[number]
        del self._sequences[sequence]

    def tree(self, sequence: int, ahead: Sequence[int] = ()) -> int:
        own = self._sequences[sequence]
        count = len(ahead)
        if count and own[len(own) - count :] != list(ahead):
            raise ValueError("the ids ahead are not the last ones of the sequence")
        return self._new(self._trees, _ServedTree(sequence, tuple(own[: len(own) - count]), count))

    def keep(self, tree: int, path: IdPath) -> int:
        own = self._trees.pop(tree)
        self.forget(own.sequence, own.ahead)
        return 0

    def close(self, tree: int) -> None:
        del self._trees[tree]

    def feed(
        self, feeds: Sequence[tuple[int, Feed]], trees: Sequence[FeedTree] = ()
    ) -> tuple[list[Logits], list[TreeLogits]]:
        numbers = [number for number, _ in feeds]
        if len(set(numbers)) < len(numbers) or len({one.tree for one in trees}) < len(trees):
            raise ValueError("a sequence or a tree comes twice in a pass")
        asked: list[_Next] = []
        for number, feed in feeds:
            own = self._sequences[number]
            text = (*own, *feed.ids)
            for left in range(feed.last - 1, -1, -1):
                asked.append(_Next(text[: len(text) - left], None if left else feed.allowed))
        self._write([one for one in asked if not self._is_known(one)])
        found = iter([self._after(one) for one in asked])
        logits = [np.stack([next(found) for _ in range(feed.last)]) for _, feed in feeds]
        for number, feed in feeds:
            self._sequences[number] += feed.ids
        return logits, [self._feed_tree(one) for one in trees]

    def _new(self, table: dict[int, Any], value: Any) -> int:
        self._next += 1
        table[self._next] = value
        return self._next

    # --- Texts

    def _is_known(self, one: "_Next") -> bool:
        """Return whether the next id of a text can be told."""
        row = self._rows.get(one.text)
        if row is None:
            return False
        if one.ids is None:
            return self._rows.has_likeliest(one.text)
        return any(token in row for token in one.ids) and self._rows.has_likeliest(one.text)

    def _write(self, asked: Sequence["_Next"]) -> None:
        """Let the model write after texts, ahead where any id may follow."""
        free = list(dict.fromkeys(one.text for one in asked if one.ids is None))
        if free:
            for text in free:
                row = self._rows.get(text[:-1])
                is_likeliest = not row or text[-1] == max(row, key=lambda token: row[token])
                self._ahead = min(AHEAD, 2 * self._ahead) if is_likeliest else max(LEAST_AHEAD, self._ahead // 2)
            for text, found in zip(free, self.server.write(free, self._ahead, self._stop), strict=True):
                self._add(text, found.ids, found.rows, found.ended)
        for one in asked:
            if one.ids is not None and not self._is_known(one):
                [found] = self.server.write([one.text], 1, allowed=one.ids)
                if found.rows:  # the likeliest of these ids may not be among the likeliest of all
                    one.row = found.rows[0]
                    others = {token: value for token, value in one.row.items() if token != found.ids[0]}
                    self._rows.add(one.text, others, likeliest=bool(others))
                else:
                    self._add(one.text, (), (), found.ended)

    def _add(self, text: Prefix, ids: Sequence[int], rows: Sequence[Row], ended: bool) -> None:
        self._size = max(self._size, *(token + 1 for row in rows for token in row), 0)  # a model may have more ids
        for token, row in zip(ids, rows, strict=True):
            self._rows.add(text, row, likeliest=True)
            text = (*text, token)
        if ended and not (ids and ids[-1] in self._ends):  # the server does not give the id that ended the text
            self._rows.add(text, {self._ends[0]: 0.0}, likeliest=True)
        elif not ids:
            raise ModelError(
                f"the model server {self.server.connection.shown} wrote nothing after a prompt: check its log"
            )

    def _after(self, one: "_Next") -> Logits:
        row = (self._rows.get(one.text) or {}) if one.row is None else one.row
        logits = np.full(self._size, min(row.values(), default=0.0) - UNLIKELY, np.float32)
        self._put(logits, row)
        return logits

    # --- Trees

    def _feed_tree(self, asked: FeedTree) -> TreeLogits:
        tree = self._trees[asked.tree]
        numbers = list(asked.numbers)[:DENSE]
        texts = {number: (*tree.base, *asked.paths[number]) for number in numbers}
        following: Sequence[Ids] = asked.asked or [()] * len(asked.numbers)
        self._read({(*tree.base, *asked.paths[n]): ids for n, ids in zip(asked.numbers, following, strict=True)})
        return TreeLogits(numbers, np.stack([self._shared(texts[number]) for number in numbers]))

    def _read(self, asked: dict[Prefix, Ids]) -> None:
        """Ask for the rows after texts: of the ids given with them, or of the likeliest ones if none or many are."""
        few = {text: [int(token) for token in ids] for text, ids in asked.items() if 0 < len(ids) <= EXACT}
        many = [text for text in asked if text not in few and not self._rows.has_likeliest(text)]
        single = {text: ids[0] for text, ids in few.items() if len(ids) == 1 and not self._rows.has(text, ids)}
        several = [text for text, ids in few.items() if len(ids) > 1 and not self._rows.has(text, ids)]
        rows = self.server.rows(several, [few[text] for text in several]) if several else []
        for text, row in zip(several, rows, strict=True):
            least = (
                min(row.values(), default=0.0) - 1.0
            )  # of ids that the server does not find likely enough to tell it
            self._rows.add(text, {**dict.fromkeys(few[text], least), **row}, likeliest=False)
        for text, row in zip(many, self.server.rows(many, [()] * len(many)) if many else (), strict=True):
            self._rows.add(text, row, likeliest=True)
        chains = _chains(single)
        for (ids, count), scores in zip(chains, self.server.scores(chains) if chains else (), strict=True):
            for end, score in enumerate(scores, len(ids) - count):
                self._rows.add(tuple(ids[:end]), {ids[end]: score}, likeliest=False)

    def _shared(self, text: Prefix) -> Logits:
        """Return a row in which the ids that are not known share what the known ones leave."""
        row = self._rows.get(text) or {}
        left = 1.0 - math.fsum(math.exp(min(value, 0.0)) for value in row.values())
        rest = math.log(max(left, 1e-9) / max(1, self._size - len(row)))
        logits = np.full(self._size, rest, np.float32)
        self._put(logits, row)
        return logits

    def _put(self, logits: Logits, row: Row) -> None:
        known = [(token, value) for token, value in row.items() if token < self._size]
        logits[[token for token, _ in known]] = [value for _, value in known]


class _Next:
    """The next id of a text. `ids`: those of which it is one, None: any; `row`: what the server told of these."""

    def __init__(self, text: Prefix, allowed: Callable[[], Tokens | None] | None) -> None:
        found = None if allowed is None else allowed()
        self.row: Row | None = None
        self.text, self.ids = text, None if found is None or not len(found) else [int(token) for token in found]


def _chains(single: dict[Prefix, int]) -> list[tuple[Prefix, int]]:
    """Return texts whose last ids are to be scored, and how many, given each text with the id to score after it.

    >>> _chains({(1,): 2, (1, 2): 3, (5,): 6})
    [((1, 2, 3), 2), ((5, 6), 1)]
    """
    left, found = dict(single), list[tuple[Prefix, int]]()
    for text in sorted(single, key=len, reverse=True):
        if text not in left:
            continue
        whole, count = (*text, left.pop(text)), 1
        while count + 1 < len(whole) and left.get(whole[: -count - 1]) == whole[-count - 1]:
            del left[whole[: -count - 1]]
            count += 1
        found.append((whole, count))
    return found
