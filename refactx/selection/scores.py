"""Scored continuations of one text, read by a model: the logits after them, and the log-probabilities of their last ids.

They are read as a tree (`refactx.engines.engine.FeedTree`), in as few passes as is efficient.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from refactx.decoding.machine import Machine
from refactx.decoding.states import InFact
from refactx.engines.engine import (
    CloseTree,
    FeedTree,
    IdPath,
    Ids,
    KeepPath,
    Logits,
    OpenTree,
    ScoreReading,
    Steps,
    TreeReading,
)

ScoredText = tuple[IdPath, int]
"""Ids after a text, and for how many of the last ones log-probabilities are wanted."""

Found = Callable[[list[IdPath], Logits], object]
"""A function that takes paths, and the logits after them, float32[n, vocabulary]."""


DESCRIBED = 4
"""The number of words of a subject's description that are read: the first ones say what kind of thing it is, and each
id takes time."""

FIRST, RACED = 0.25, 8
"""From `RACED` texts on, all are first compared by the share `FIRST` of the question. (The additional pass takes as
long as some 16 ids: `refactx.engines.scheduler.PASS_IDS`.)"""


class ScoredContinuations:
    """The continuations of a text, as paths of ids. `asked`: those whose logits were requested.

    `trees`: how the engine reads trees; `known`: the logits after paths that were read before; `earlier`: paths that may
    be requested later, which the first pass reads too; `ahead`: as in `OpenTree`; `of_examples`: the number of
    the examples that are the text; None: that of the job.
    """

    def __init__(
        self,
        trees: TreeReading,
        known: dict[IdPath, Logits] | None = None,
        earlier: Sequence[IdPath] = (),
        ahead: IdPath = (),
        of_examples: int | None = None,
    ) -> None:
        self._opening, self._tree = OpenTree(ahead, of_examples), -1  # it is opened when it is first read
        self._known = {} if known is None else known
        self._shares = trees is TreeReading.SHARED
        self._earlier = earlier if self._shares else ()
        self._has_read = {ahead[:n] for n in range(len(ahead) + 1)}
        self.asked: list[IdPath] = []

    @classmethod
    def of(cls, reading: ScoreReading, earlier: Sequence[IdPath] = ()) -> "ScoredContinuations":
        """Return the continuations of a text that a model has read."""
        known = {reading.ahead[:n]: after for n, after in enumerate(reading.logits)}
        return cls(reading.trees, known, earlier, reading.ahead)

    def logits(self, paths: Sequence[IdPath], following: Sequence[Ids] = ()) -> Steps[list[Logits]]:
        """Return the logits after each path, each float32[vocabulary]. `following`: the ids after each that matter; empty:
        all."""
        self.asked += paths
        found: dict[IdPath, Logits] = {}
        asked = dict(zip(paths, following, strict=bool(following)))
        if any(path not in self._known for path in paths):
            wanted = dict.fromkeys(path for path in (*paths, *self._earlier) if path not in self._known)
            yield from self._read(wanted, asked, lambda some, logits: found.update(zip(some, logits, strict=True)))
            self._known |= {path: found[path] for path in self._earlier if path in found}
            self._earlier = ()
        return [self._known[path] if path in self._known else found[path] for path in paths]

    def log_probabilities(self, texts: Sequence[ScoredText]) -> Steps[list[NDArray[np.float64]]]:
        """Return the log-probabilities of the last ids of each text, log p(id | ids before it), each float64[wanted].

        There must be at least one id before them.
        """
        found = [np.empty(count) for _, count in texts]
        # The texts that continue each path: their numbers, and the id that follows there with its place in the result.
        asked: dict[IdPath, list[tuple[int, int, int]]] = {}
        for number, (ids, count) in enumerate(texts):
            for at, end in enumerate(range(len(ids) - count, len(ids))):
                asked.setdefault(ids[:end], []).append((number, at, ids[end]))

        def score(some: list[IdPath], logits: Logits) -> None:
            rows = [(row, *one) for row, path in enumerate(some) for one in asked[path]]
            scores = log_probabilities(logits, [row for row, *_ in rows], [token for *_, token in rows])
            for (_, number, at, _), value in zip(rows, scores.tolist(), strict=True):
                found[number][at] = value

        yield from self._read(asked, {path: [token for *_, token in ways] for path, ways in asked.items()}, score)
        return found

    def keep(self, path: IdPath) -> Steps[int]:
        """Append `path` to the text as far as it was read, and close the tree. Return how many ids were appended."""
        yield from self._open()
        kept: int = yield KeepPath(self._tree, path)
        return kept

    def close(self) -> Steps[None]:
        """Close the tree."""
        if self._tree >= 0:
            yield CloseTree(self._tree)
            self._tree = -1

    def _open(self) -> Steps[None]:
        if self._tree < 0:
            self._tree = yield self._opening

    def _read(self, wanted: Collection[IdPath], asked: Mapping[IdPath, Ids], found: Found) -> Steps[None]:
        """Read paths, and call `found` with those that each pass reads.

        A path that was read before is read again: the logits after all paths would take too much memory.
        """
        if not wanted:
            return
        yield from self._open()
        leading = (path[:end] for path in wanted for end in range(1, len(path)) if path[:end] not in self._has_read)
        paths = sorted({**dict.fromkeys(leading), **dict.fromkeys(wanted)}, key=len)
        numbers = [number for number, path in enumerate(paths) if path in wanted]
        yield from read_tree(self._tree, paths, numbers, found, asked)
        self._has_read |= set(paths)


def read_tree(
    tree: int,
    paths: Sequence[IdPath],
    wanted: Sequence[int],
    found: Found,
    asked: Mapping[IdPath, Ids] | None = None,
) -> Steps[None]:
    """Read paths of a tree in as many passes as the engine takes. Call `found` with the wanted ones of each pass.

    `asked`: the ids after a path whose log-probabilities matter; all of a path that it does not have.
    """
    while wanted:
        following = None if asked is None else [asked.get(paths[number], ()) for number in wanted]
        numbers, logits = yield FeedTree(tree, paths, wanted, following)
        found([paths[number] for number in numbers], logits)
        done = set(numbers)
        wanted = [number for number in wanted if number not in done]


def log_sum(logits: Logits) -> np.float32:
    """Return the logarithm of the sum of the exponentials of logits, float32[n].

    >>> float(log_sum(np.log(np.array([1, 3], np.float32)))) == float(np.log(np.float32(4)))
    True
    """
    highest = logits.max()
    return np.float32(highest + np.log(np.exp(logits - highest).sum()))


def log_softmax(logits: Logits) -> NDArray[np.float32]:
    """Return the log-probabilities of logits, float32[n]."""
    return logits - log_sum(logits)


def log_probabilities(logits: Logits, rows: Sequence[int], ids: Sequence[int]) -> NDArray[np.float64]:
    """Return the log-probability of each of `ids` in its row (`rows`) of `logits`, [n, vocabulary]: float64[ids]."""
    sums = [log_sum(row) for row in logits]
    return np.array([logits[row, token] - sums[row] for row, token in zip(rows, ids, strict=True)], np.float64)


class QuestionScore:
    """The likelihoods of one question after texts.

    `question`: the ids between a text and the end of the question; `lead`: how many of them introduce the question and are
    not scored; `examples`: the number of the examples before each text, of those that the text's job has read
    (`refactx.engines.scheduler.Job`).

    Likelihoods are remembered: the next fact of a text is mostly of the same subject, and the same texts are compared
    again. What was read is kept as a tree until it is closed (`close`), for texts that begin alike.
    """

    def __init__(self, *, question: Sequence[int], lead: int, examples: int = 0) -> None:
        self._question, self._lead, self._examples = tuple(question), lead, examples
        self._known: dict[IdPath, NDArray[np.float64]] = {}  # by text: of the question's first ids, as far as read
        self._continuations: ScoredContinuations | None = None

    def likelihoods(
        self,
        texts: Sequence[IdPath],
        trees: TreeReading,
        priors: NDArray[np.float64] | None = None,
        drop_below: float = math.inf,
        least: float = -math.inf,
    ) -> Steps[NDArray[np.float64]]:
        """Return the log-probability of the question after the examples and each text: float64[len(texts)].

        If there are many texts, those that are more than `drop_below` below the best after a quarter of the question are
        dropped and get minus infinity, and so do all that do not have more than `least` in the end. `priors`,
        float64[len(texts)], are added for these comparisons. `trees`: how the engine reads trees.
        """
        scored = len(self._question) - self._lead
        is_race = len(texts) >= RACED and (drop_below < math.inf or least > -math.inf)
        first = max(1, math.ceil(FIRST * scored)) if is_race else scored
        own = np.zeros(len(texts)) if priors is None else priors
        yield from self._read(texts, trees, first)
        early = np.array([self._known[text][:first].sum() for text in texts]) + own
        left = early >= early.max(initial=-math.inf) - (drop_below if first < scored else math.inf)
        left &= early > least  # which only falls
        yield from self._read([text for text, stays in zip(texts, left, strict=True) if stays], trees, scored)
        found = np.array([self._known[text].sum() if n else -math.inf for text, n in zip(texts, left, strict=True)])
        return np.where(found + own > least, found, -math.inf)

    def close(self) -> Steps[None]:
        """Release what was read of texts; their likelihoods stay."""
        if self._continuations is not None:
            yield from self._continuations.close()
            self._continuations = None

    def _read(self, texts: Sequence[IdPath], trees: TreeReading, count: int) -> Steps[None]:
        """Read the question's first `count` scored ids after each text, except those that were read before."""
        known = {text: self._known.get(text, np.empty(0)) for text in texts}
        missing = {text: scores for text, scores in known.items() if len(scores) < count}
        if self._continuations is None:
            self._continuations = ScoredContinuations(trees, of_examples=self._examples)
        ids = self._question[: self._lead + count]
        found = yield from self._continuations.log_probabilities(
            [((*text, *ids), count - len(scores)) for text, scores in missing.items()]
        )
        for (text, scores), more in zip(missing.items(), found, strict=True):
            self._known[text] = np.append(scores, more)


def no_fact(machine: Machine) -> IdPath:
    """Return the ids of a trigger without a fact, after which the question is scored for comparison."""
    return tuple(machine.source.tokenizer.encode(machine.source.trigger))


def fact_so_far(machine: Machine, state: InFact, alias: str = "") -> IdPath:
    """Return the ids of a fact so far, with its trigger, as the question is scored after them.

    `state`: that after the subject. `alias`: the alias that led to the subject and takes the place of its name, since
    the question uses it. A description is cut to its first words. If an earlier fact of the text has the subject as
    object, that fact comes first: a question of two steps is about both.
    """
    subject = machine.text_of(state.prefix).partition(b">")[0].strip()
    before: IdPath = ()
    for fact in reversed(state.facts):
        if machine.text_of(fact.tokens).strip().removesuffix(b">").endswith(subject):
            encode = machine.source.tokenizer.encode
            before = (*no_fact(machine), *fact.tokens, *encode(machine.source.terminator), *encode("\n"))
            break
    return (*before, *no_fact(machine), *_shorten(machine, state.prefix, alias))


def _shorten(machine: Machine, prefix: Sequence[int], alias: str) -> Sequence[int]:
    """Return the ids of a fact so far with the first words of its subject's description, and with `alias` as the name
    unless that is empty."""
    text = machine.text_of(prefix).decode("utf-8", "replace")
    subject, bracket, rest = text.partition(">")
    name, opened, described = subject.partition(" (")
    words = described.split(" ") if opened and described.endswith(")") else []
    if not bracket or (not alias and len(words) <= DESCRIBED):
        return prefix
    short = f" <{alias}" if alias else name
    if words:
        short += f" ({' '.join(words[:DESCRIBED])}" + ")" * (len(words) > DESCRIBED)
    return machine.source.tokenizer.encode_after(machine.source.trigger, f"{short}>{rest}")
