"""Lookups without I/O: a generator yields the prefixes that it needs, and whoever drives it answers from an index.

So the same code serves one text that waits for the database, and many texts whose lookups run in threads while the
model reads (`refactx.engines.scheduler`). The generators of psycopg (`psycopg.generators`) are made in this way.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from refactx.tree.children import OFF_TREE, Children  # noqa: F401  (for the example)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Lookup:
    """The request for the continuations of `prefixes` (token ids) in the tree. It is answered with a `Children` each."""

    prefixes: Sequence[Sequence[int]]


Lookups = Generator[Lookup, Any, T]
"""A computation of a T that may need lookups."""


def look_up(steps: Lookups[T], children: Callable[[Sequence[int]], Children]) -> T:
    """Return the result of `steps`, whose lookups `children` answers, one after the other.

    >>> def total(prefix):
    ...     found = yield Lookup([prefix])
    ...     return found[0].total
    >>> look_up(total((1, 2)), lambda prefix: OFF_TREE)
    0
    """
    try:
        request = next(steps)
        while True:
            request = steps.send([children(prefix) for prefix in request.prefixes])
    except StopIteration as done:
        result: T = done.value
        return result
