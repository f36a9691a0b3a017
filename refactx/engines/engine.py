"""The protocol of an engine: a language model and its key-value cache, as sequences of token ids that it has read.

Writing texts takes few operations: read ids after several sequences in one step, and trees of continuations with them;
fork a sequence; take back its last ids. Ids and logits are plain Python and numpy, so the code above this protocol does
not depend on the library that runs the model.

Sequences and trees have numbers, which are valid until they are dropped or closed. One thread at a time uses an engine.

A text that is written is a generator: it yields a request to the model and is sent the answer. It does not know the
engine, so a pass of the model can read what many texts ask for (`refactx.engines.scheduler`).

| request | answer |
|---|---|
| `Feed(ids, last)`: the text's sequence reads ids | `Logits`, float32[last, vocabulary] |
| `Forget(count)`: it takes back its last ids | None |
| `OpenTree(ahead)`: a tree of continuations of the text, or of the examples | its number |
| `FeedTree(tree, paths, wanted)` | `TreeLogits` of at least one wanted path |
| `KeepPath(tree, path)`: the text continues with a path; the tree is closed | how many ids it has read |
| `CloseTree(tree)` | None |

The writing of a text (`refactx.engines.writer`) uses nothing but this protocol.
"""

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from refactx.decoding.states import FactSource, State
from refactx.errors import TokenizerMismatchError
from refactx.tree.tree import Tokens

Logits = NDArray[np.float32]
"""Logits over the vocabulary, float32[n, vocabulary] or float32[vocabulary]."""

Ids = Sequence[int] | Tokens
"""Token ids, in Python or as an array."""

IdPath = tuple[int, ...]
"""A path in a tree of continuations: the ids after a text."""

T = TypeVar("T")


class TreeReading(IntEnum):
    """The ways in which an engine reads trees of continuations.

    NONE: not at all. ROWS: each path from its start, as a row of a batch; `Engine.keep` keeps nothing. SHARED: an id is
    read once for all paths that begin with it, and what was read can be kept.
    """

    NONE = 0
    ROWS = 1
    SHARED = 2


@dataclass(frozen=True, slots=True)
class Feed:
    """Ids for a sequence to read; `last`: after how many of the last ones logits are wanted, at least one.

    `allowed`: returns the ids of which one follows the last id, int32[n], None if any may: an engine that cannot give all
    logits gives those of the likeliest of these.

    Raises ValueError if `last` is not among 1 to the number of ids.
    """

    ids: Sequence[int]
    last: int = 1
    allowed: Callable[[], Tokens | None] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.last <= len(self.ids):
            raise ValueError(
                f"logits after the last {self.last} of {len(self.ids)} ids were asked for: give at least 1"
            )


@dataclass(frozen=True, slots=True)
class FeedTree:
    """Paths of a tree to read: the last id of each. Its other ids were read before, or a path before it reads them.

    `wanted`: the numbers (in `paths`) of those after which logits are wanted, at least one; None: all. A wanted path
    that was read before is read again. `asked`: for each of these, the ids after it whose log-probabilities matter; None:
    all. An engine that cannot give all logits gives those.
    """

    tree: int
    paths: Sequence[IdPath]
    wanted: Sequence[int] | None = None
    asked: Sequence[Ids] | None = None

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the wanted paths."""
        return range(len(self.paths)) if self.wanted is None else self.wanted


class TreeLogits(NamedTuple):
    """The `numbers` of the wanted paths that a step read, and the logits after each of them, float32[n, vocabulary]."""

    numbers: Sequence[int]
    logits: Logits


class Engine(Protocol):
    """A language model that reads sequences."""

    @property
    def trees(self) -> TreeReading:
        """The way in which it reads trees."""

    @property
    def can_forget(self) -> bool:
        """Whether ids can be taken back: a sliding window may have dropped the ids before them."""

    @property
    def pads(self) -> bool:
        """Whether a step reads a rectangle, where sequences with fewer ids are padded: its time is by the longest."""

    @property
    def capacity(self) -> int | None:
        """The most ids that all sequences and trees together can hold, shared ones counted once; None: not known."""

    @property
    def most_texts(self) -> int | None:
        """The most texts that can be written at once, with trees of theirs; None: any number."""

    def prefill(self, ids: Sequence[int]) -> int:
        """Return a new sequence that has read `ids`. Raise ModelError if the model's sequences cannot be forked."""

    def feed(
        self, feeds: Sequence[tuple[int, Feed]], trees: Sequence[FeedTree] = ()
    ) -> tuple[list[Logits], list[TreeLogits]]:
        """Read ids after sequences and paths of trees, in one forward pass if that is efficient.

        Returns the logits of each feed, float32[last, vocabulary], and of each tree those of at least one wanted path:
        a part, if reading all would take too much memory. For the others, ask again with the same paths; what was read
        is not read again. Raises ValueError if a sequence or a tree comes twice, ModelError if the `capacity` is
        exceeded.
        """

    def fork(self, sequence: int) -> int:
        """Return a new sequence that has read the same ids."""

    def forget(self, sequence: int, count: int) -> None:
        """Take back the last `count` ids of a sequence."""

    def drop(self, sequence: int) -> None:
        """Release a sequence that is not needed any more. Its trees are closed."""

    def tree(self, sequence: int, ahead: Sequence[int] = ()) -> int:
        """Open a tree of continuations of a sequence, which does not change before `keep` or `close`.

        `ahead`: the last ids that the sequence has read, which are not yet text: they become a path of the tree. A
        sequence may have several trees.
        """

    def keep(self, tree: int, path: IdPath) -> int:
        """Append `path` to the tree's sequence as far as it was read, and close the tree. Return how many ids were
        appended."""

    def close(self, tree: int) -> None:
        """Release a tree. Its sequence keeps what it has read, `ahead` included."""


@dataclass(frozen=True, slots=True)
class Forget:
    """The request to take back the last `count` ids that the text's sequence has read."""

    count: int


@dataclass(frozen=True, slots=True)
class OpenTree:
    """The request for a tree of continuations. `ahead`: as in `refactx.engines.engine.Engine.tree`.

    `of_examples`: continuations not of the text, but of these examples of its job, by number (`refactx.engines.scheduler.Job`).
    """

    ahead: IdPath = ()
    of_examples: int | None = None


@dataclass(frozen=True, slots=True)
class KeepPath:
    """The request to continue the text with a path of a tree, and to close the tree."""

    tree: int
    path: IdPath


@dataclass(frozen=True, slots=True)
class CloseTree:
    """The request to release a tree."""

    tree: int


Request = Feed | FeedTree | Forget | OpenTree | KeepPath | CloseTree

Steps = Generator[Request, Any, T]
"""A computation of a T that may need requests."""


def longest_paths(paths: Sequence[IdPath]) -> list[int]:
    """Return for each path the number of the longest of `paths` that begins with it.

    >>> longest_paths([(1,), (1, 2), (1, 2, 3), (4,)])
    [2, 2, 2, 3]
    """
    numbers = {path: number for number, path in enumerate(paths)}
    longest = dict[IdPath, int]()
    for path in sorted(numbers, key=len, reverse=True):
        for end in range(len(path), 0, -1):
            if longest.setdefault(path[:end], numbers[path]) != numbers[path]:
                break
    return [longest[path] for path in paths]


def free_memory() -> int | None:
    """Return the bytes of memory that can be allocated without swapping; None if this system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    if found:
        group = Path("/sys/fs/cgroup")  # of a container
        with suppress(OSError, ValueError):  # no control group, or no limit ("max")
            found.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return min(found, default=None)


def mismatch_error(index: FactSource, found: str) -> TokenizerMismatchError:
    """Return the error of an index for another tokenizer than a model's. `found`: what that is, or where it differs."""
    return TokenizerMismatchError(
        f"the index was built for another tokenizer ({getattr(index, 'tokenizer_name', 'unnamed')}, fingerprint "
        f"{index.tokenizer.fingerprint_of_facts[:12]}) than the model's ({found}): use a model with that tokenizer, or "
        "build an index for this one",
        command=": refactx ingest FILE --index NAME --tokenizer MODEL",
    )


class LanguageModel(Protocol):
    """A model that reads sequences, and its tokenizer."""

    @property
    def has_generate(self) -> bool:
        """Whether it is a model of Transformers, whose `generate` has beams over the whole text."""

    @property
    def engine(self) -> Engine | None:
        """The model as an engine; None if its cache cannot be read and shared in the way that engines do."""

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer: `encode`, `decode`, `chat_template` and `apply_chat_template` as in Transformers."""

    @property
    def ends(self) -> Collection[int]:
        """The ids that end a sequence."""

    @property
    def room(self) -> int | None:
        """The most ids that it takes, prompt and text together; None if that is not known."""

    def check_tokenizer(self, index: Any) -> None:
        """Raise TokenizerMismatchError if an index was built for another tokenizer."""

    @property
    def token_bytes(self) -> Sequence[bytes]:
        """The bytes of each id, by id; empty for special tokens."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ScoreReading:
    """A text that the model has read to its end, and then maybe the ids `ahead`, which are not yet text.

    `logits`: float32[1 + len(ahead), vocabulary], after the text and after each of `ahead`; `written`: int64[n], the
    ids of the text; `room`: the most ids that may follow; `trees`: how the engine reads trees of continuations.
    """

    logits: Logits
    written: NDArray[np.int64]
    room: int
    trees: TreeReading
    ahead: IdPath = ()

    @property
    def position(self) -> int:
        """The position of the text's next id."""
        return len(self.written)


class Choice(NamedTuple):
    """The next `ids` of a text; the engine has `read` the first of them (a number), but not all."""

    ids: Sequence[int] = ()
    read: int = 0


NOTHING = Choice()
"""The choice to leave the next id to the model."""


class FactChooser(Protocol):
    """A way to choose facts within a text. One object serves one text."""

    @property
    def needs(self) -> TreeReading:
        """The way in which the engine must read trees."""

    @property
    def examples(self) -> Sequence[IdPath]:
        """The ids of each text of examples that it reads continuations of (`OpenTree.of_examples`)."""

    def without_trees(self) -> "FactChooser":
        """Return the chooser for engines that lack what this one needs. Raise ModelError if there is none."""

    def decides(self, state: State) -> bool:
        """Return whether it searches for the next ids after `state`: then `choose` can use ids that were read ahead."""

    def choose(self, state: State, reading: ScoreReading) -> Steps[Choice]:
        """Return the next ids of the text; `NOTHING` if the model is to choose the next id.

        If it `decides`, the sequence has afterwards read the text and the first `Choice.read` ids, but not `ahead`.
        """

    def following(self, state: State, at_fact_end: bool) -> Steps[Sequence[int]]:
        """Return ids that have to follow without a forward pass. `at_fact_end`: the last id completed a fact."""

    def draft(self, state: State, ids: NDArray[np.int64], unread: int, greedy: bool) -> Sequence[int]:
        """Return draft tokens for the text, which the next pass of the model verifies.

        `ids`: int64[n], the text so far; `unread`: how many of its last ids that pass reads besides the draft;
        `greedy`: whether the model's likeliest id is always chosen.
        """
