"""What had been generated when an error ended it: `error.partial` of a `RefactxError`.

Facts come from the states of the sequences, so that the database, which may be what is missing, is not asked again.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Self

from refactx.asking.answer import Answer
from refactx.errors import RefactxError, without_password
from refactx.fact import Fact
from refactx.index.links import Link, LinkedFact


@dataclass(frozen=True, slots=True)
class Partial:
    """The sequences so far. `ids`: int64[rows, length], prompts included; under beam search the beams, the best of a row
    first. `lengths`: of each row, behind which it is padded. `facts`: those that each row had completed, in order. `answers`:
    the same for who asked by an `Asker`, an answer for each question; the links of its facts have no ids."""

    ids: Any
    lengths: tuple[int, ...]
    facts: tuple[tuple[Fact, ...], ...]
    answers: tuple[Answer, ...] = ()

    @classmethod
    def of(cls, ids: Any, facts: Iterable[tuple[Fact, ...]]) -> Self:
        """Rows that are all as long as `ids`."""
        return cls(ids, (ids.shape[1],) * len(ids), tuple(facts))


@contextmanager
def kept(so_far: Callable[[], Partial]) -> Iterator[None]:
    """Give an error of ours that leaves the block what there was so far, unless it has that already."""
    try:
        yield
    except RefactxError as error:
        if error.partial is None:
            with suppress(RefactxError):  # an index that holds what is no fact: the first error counts
                error.partial = so_far()
        raise


@contextmanager
def answered(answers: Callable[[Partial], Iterable[Answer]]) -> Iterator[None]:
    """Add to an error that leaves the block with something generated the answers that it makes."""
    try:
        yield
    except RefactxError as error:
        if error.partial is not None:
            error.partial = replace(error.partial, answers=tuple(answers(error.partial)))
        raise


@contextmanager
def shown(show: Callable[[Answer, str], object]) -> Iterator[None]:
    """Have the answers that an error which leaves the block broke off shown, with what the error says."""
    try:
        yield
    except RefactxError as error:
        for answer in error.partial.answers if error.partial else ():
            show(answer, without_password(str(error)))
        raise


def unlinked(fact: Fact) -> LinkedFact:
    """A fact without the ids of its parts, which the database knows.

    >>> unlinked(Fact("a", "b", "c", "<a> <b> <c> .", (0, 4))).subject
    Link(label='a', id=None)
    """
    return LinkedFact(Link(fact.subject), Link(fact.predicate), Link(fact.object))
