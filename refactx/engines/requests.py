"""What the generator of a text asks for: lookups in the tree of facts, and reading by the model.

A text that is written is a generator without I/O: it yields a request and is sent the answer. It knows neither the
engine nor the index, so one thread can write many texts, and a pass of the model reads what all of them ask for
(`refactx.engines.scheduler`).

| request | answer |
|---|---|
| `Lookup(prefixes)` | a `Children` for each prefix |
| `Feed(ids, last)`: the text's sequence reads ids | `Logits`, float32[last, vocabulary] |
| `Forget(count)`: it takes back its last ids | None |
| `OpenTree(ahead)`: a tree of continuations of the text, or of the examples | its number |
| `FeedTree(tree, paths, wanted)` | `TreeLogits` of at least one wanted path |
| `KeepPath(tree, path)`: the text continues with a path; the tree is closed | how many ids it has read |
| `CloseTree(tree)` | None |
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from refactx.decoding.lookups import Lookup
from refactx.engines.engine import Feed, FeedTree, IdPath

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Forget:
    """The request to take back the last `count` ids that the text's sequence has read."""

    count: int


@dataclass(frozen=True, slots=True)
class OpenTree:
    """The request for a tree of continuations. `ahead`: as in `refactx.engines.engine.Engine.tree`.

    `of_examples`: continuations not of the text, but of these examples of its job, by number (`refactx.engines.job.Job`).
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


Request = Lookup | Feed | FeedTree | Forget | OpenTree | KeepPath | CloseTree

Steps = Generator[Request, Any, T]
"""A computation of a T that may need requests."""
