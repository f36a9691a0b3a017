"""The writing of one text, a row: forced tokens need no forward pass, draft tokens are verified in passes made anyway.

More than four of five ids of a fact have no alternative in the tree. They are appended at once, and the model reads
such a chain in one pass, which takes little longer than one id: a text takes one pass for each unforced id, and one
more. A chooser of facts (`refactx.engines.engine`) adds chains of its own and draft tokens; a draft token counts only
if the model chooses the same.

Nothing here depends on the library that runs the model, on the index, or on how an id is picked: a row is a generator of
requests to the model (`refactx.engines.engine`), and a constraint and a picker are passed in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from refactx.decoding.states import Constraint, Free, InFact, InTerminator, State
from refactx.engines.engine import FactChooser, Feed, Forget, Logits, ScoreReading, Steps, TreeReading
from refactx.tree.tree import Tokens


class Row:
    """One text while it is written.

    `ids`: int64[capacity], of which the first `length` are the text; `pending`: the last ids of the text, which the
    model has not read; `forced`: how many ids had no alternative; `at_fact_end`: whether the last id completes a
    fact; `done`: whether the text has ended.
    """

    __slots__ = ("at_fact_end", "done", "forced", "ids", "length", "pending", "state")

    def __init__(self, prompt: Sequence[int], state: State, *, capacity: int, unread: int = 0) -> None:
        self.state, self.length = state, len(prompt)
        self.ids = np.zeros(max(capacity, self.length + 1), np.int64)
        self.ids[: self.length] = prompt
        self.pending = list(prompt[self.length - unread :])
        self.done = self.at_fact_end = False
        self.forced = 0

    @property
    def written(self) -> NDArray[np.int64]:
        """The ids so far, prompt included: int64[length]."""
        return self.ids[: self.length]


class Picker(Protocol):
    """A way to pick the next id of a row from logits."""

    @property
    def greedy(self) -> bool:
        """Whether it always picks the likeliest id."""

    def pick(self, row: Row, logits: Logits) -> int:
        """Return the next id of a row. `logits`: float32[vocabulary]; they may be written to."""

    def skip(self) -> None:
        """Take note that the next id was forced, not picked."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """The functions that are called after each id. `is_done`: whether a row has ended; `on_token`: takes the id."""

    is_done: Callable[[Row], bool]
    on_token: Callable[[int], object] = lambda token: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What the engine can do for a row. `trees`: how it reads trees; `drafts`: whether draft tokens can be taken back,
    and do not make a pass longer for other rows."""

    trees: TreeReading
    drafts: bool


class TextWriter:
    """The writing of one row, which ends at `max_length` ids or when `hooks` say so."""

    def __init__(
        self,
        row: Row,
        *,
        constraint: Constraint[Any],
        chooser: FactChooser,
        picker: Picker,
        hooks: Hooks,
        max_length: int,
        capabilities: Capabilities,
    ) -> None:
        self._row, self._constraint, self._chooser, self._picker = row, constraint, chooser, picker
        self._hooks, self._max_length, self._capabilities = hooks, max_length, capabilities
        self._ahead: list[int] = []  # the ids that the model has read after the text, for a chooser that decides

    def write(self, logits: Logits | None = None) -> Steps[None]:
        """Write the row to its end. `logits`: those after the prompt, float32[1, vocabulary].

        Without logits, the row must have pending ids.
        """
        row = self._row
        while True:
            if logits is not None:
                yield from self._choose(logits)
            if row.done:
                return
            draft = self._draft()
            pending, row.pending = row.pending, []
            state = row.state
            allowed = None if draft else lambda state=state: self._constraint.allowed(state)
            logits = yield Feed(pending + draft, last=len(draft) + 1, allowed=allowed)
            if draft:
                logits = yield from self._check(draft, logits)

    def _draft(self) -> list[int]:
        row = self._row
        if not self._capabilities.drafts:
            return []
        draft = self._chooser.draft(row.state, row.written, len(row.pending), self._picker.greedy)
        return list(draft[: max(0, self._max_length - row.length - 1)])

    def _check(self, draft: list[int], logits: Logits) -> Steps[Logits | None]:
        """Choose id by id as long as the draft is right.

        `logits`: those before the draft and after each of its ids. The engine forgets the wrong rest of the draft,
        unless the chooser decides what follows, since that can use it. Returns the logits after the last id of the text
        that the model has read, and after each id of the rest if that is kept; None if there are pending ids.
        """
        row, right = self._row, 0
        while right < len(draft) and not (row.pending or row.done or self._chooser.decides(row.state)):
            yield from self._choose(logits[right : right + 1])
            same = common_length(row.pending, draft[right:])
            right, row.pending = right + same, row.pending[same:]
        if not (row.pending or row.done) and self._chooser.decides(row.state):
            self._ahead = draft[right:]
            return logits[right:]
        if row.done and not row.pending:  # the last id must not be in the cache: whoever continues the text feeds it
            right -= 1
            row.pending = draft[right : right + 1]
        if right < len(draft):
            yield Forget(len(draft) - right)
        return None if row.pending else logits[right : right + 1]

    def _choose(self, logits: Logits) -> Steps[None]:
        """Append the next id of the row, all of which the model has read, and the forced ids after it."""
        row = self._row
        ahead, self._ahead = tuple(self._ahead), []
        reading = ScoreReading(
            logits=logits,
            written=row.written,
            room=self._max_length - row.length,
            trees=self._capabilities.trees,
            ahead=ahead,
        )
        chosen = yield from self._chooser.choose(row.state, reading)
        if chosen.ids:
            yield from self._append_read(chosen.ids, chosen.read)
        else:
            self._append(self._picker.pick(row, logits[0]))
        while not row.done:
            ids = yield from self._chooser.following(row.state, row.at_fact_end)
            if not ids:
                return
            for token in ids:
                self._picker.skip()
                row.forced += not row.done
                self._append(token)

    def _append_read(self, ids: Sequence[int], read: int) -> Steps[None]:
        """Append ids, of which the engine has read the first `read`, but not all."""
        row = self._row
        for token in ids:
            self._append(token)
        if read:
            surplus = max(0, read + 1 - len(row.pending))  # the text may end within them
            if surplus:
                yield Forget(surplus)
            row.pending = row.pending[read - surplus :]

    def _append(self, token: int) -> None:
        row = self._row
        if row.done:
            return
        row.ids[row.length] = token
        before = row.state
        row.state = self._constraint.advance(before, token, row.length)
        row.at_fact_end = isinstance(before, InFact | InTerminator) and isinstance(row.state, Free)
        row.length += 1
        row.pending.append(token)
        self._hooks.on_token(token)
        row.done = self._hooks.is_done(row)


def common_length(some: Sequence[int], others: Sequence[int]) -> int:
    """Return the length of the longest common prefix.

    >>> common_length([1, 2, 3], [1, 2, 4, 5])
    2
    """
    pairs = enumerate(zip(some, others, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(some), len(others)))


Allowed = Callable[[State], Tokens | None]
"""A function that returns the ids that may follow a state, int32[n]; None if any may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Options of sampling.

    `temperature`: 0 for the likeliest id, else scores are divided by it; then only the `top_k` likeliest ids count, and
    of these the likeliest ones with a total probability of `top_p` (None: all). `seed`: None for another text each time.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None


GREEDY_SAMPLING = Sampling()


@dataclass(frozen=True, slots=True)
class Score:
    """How likely an id of a text was: `logprob`, in nats, among the ids that might follow, whatever the temperature; and the
    likeliest of these, `top`. `is_picked`: whether the model picked it; else the index or a rule gave it, and it has 0."""

    token: int
    logprob: float = 0.0
    top: tuple[tuple[int, float], ...] = ()
    is_picked: bool = False


class ScoreLog:
    """The scores of the ids of a text, in their order, each with the `most` likeliest ids."""

    def __init__(self, most: int = 0) -> None:
        self.found: list[Score] = []
        self._most, self._picked = most, cast("Score | None", None)

    def pick(self, token: int, logits: Logits, tokens: Tokens | None) -> None:
        """Note that an id was picked. `logits`: of the ids that might follow, `tokens`, or of all."""
        scores = logits.astype(np.float64)
        scores -= scores.max()
        scores -= np.log(np.exp(scores).sum())
        ids = np.arange(len(scores)) if tokens is None else tokens
        order = np.argsort(-scores, kind="stable")[: self._most] if self._most else ()
        top = tuple((int(ids[at]), float(scores[at])) for at in order if np.isfinite(scores[at]))
        self._picked = Score(token, float(scores[int(np.flatnonzero(ids == token)[0])]), top, is_picked=True)

    def add(self, token: int) -> None:
        """Add an id of the text: the picked one, or one that the model did not pick."""
        picked, self._picked = self._picked, None
        self.found.append(picked if picked is not None and picked.token == token else Score(token))


class Sampler:
    """A `refactx.engines.writer.Picker` with random numbers of its own.

    `allowed`: returns the ids that may follow a state, int32[n]; None if any may. `log`: takes the scores of picked ids.

    >>> Sampler(Sampling()).greedy
    True
    """

    def __init__(self, sampling: Sampling, allowed: Allowed | None = None, log: ScoreLog | None = None) -> None:
        self._sampling, self._allowed, self._log = sampling, allowed, log
        self._random = np.random.default_rng(sampling.seed)

    @property
    def greedy(self) -> bool:
        return self._sampling.temperature == 0

    def pick(self, row: Row, logits: Logits) -> int:
        tokens = None if self._allowed is None else self._allowed(row.state)
        if tokens is not None:
            tokens = tokens[tokens < len(logits)]
            if not len(tokens):  # off the tree: nothing may follow, and the last id does the least harm
                return int(row.written[-1])
            logits = logits[tokens]
        at = int(logits.argmax()) if self.greedy else self._draw(logits)
        token = at if tokens is None else int(tokens[at])
        if self._log is not None:
            self._log.pick(token, logits, tokens)
        return token

    def skip(self) -> None:
        """Do nothing: forced ids take no random numbers."""

    def _draw(self, logits: Logits) -> int:
        """Return the place of a sample."""
        options = self._sampling
        order = np.argsort(-logits, kind="stable")[: options.top_k]
        scores = logits[order].astype(np.float64) / options.temperature
        weights = np.exp(scores - scores[0])
        sums = np.cumsum(weights)
        if options.top_p is not None:
            kept = 1 + int(np.searchsorted(sums, options.top_p * sums[-1]))
            sums = sums[:kept]
        at = int(np.searchsorted(sums, self._random.random() * sums[-1], side="right"))
        return int(order[min(at, len(sums) - 1)])
