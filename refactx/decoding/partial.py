"""The output of a generation that an error ended: `error.partial` of a `RefactxError`.

Its facts are read from the states of the sequences, without the database, whose loss may be the error.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

from refactx.errors import RefactxError
from refactx.fact import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """The output so far of a generation that an error ended.

    `ids`: int64[rows, length], prompts included; under beam search the rows are beams, the best of each text first.
    `lengths`: the number of ids of each row without the padding after them. `facts`: those that each row had completed,
    in order. `answers`: if an `Asker` was asked, a `refactx.Answer` for each question; its links have no ids.
    """

    ids: Any
    lengths: tuple[int, ...]
    facts: tuple[tuple[Fact, ...], ...]
    answers: tuple[Any, ...] = ()

    @classmethod
    def of(cls, ids: Any, facts: Iterable[tuple[Fact, ...]]) -> Self:
        """Return the partial output of rows without padding."""
        return cls(ids=ids, lengths=(ids.shape[1],) * len(ids), facts=tuple(facts))


@contextmanager
def attach_partial(so_far: Callable[[], Partial]) -> Iterator[None]:
    """Attach the output so far to a `RefactxError` that leaves the block, unless it has a partial already."""
    try:
        yield
    except RefactxError as error:
        if error.partial is None:
            with suppress(RefactxError):  # the index has something that is no fact: the first error is raised
                error.partial = so_far()
        raise
