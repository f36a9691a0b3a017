"""What had been generated when an error ended it: `error.partial` of a `RefactxError`.

The states of the sequences have the facts, so that reading them asks no database, which may be what is missing.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from refactx.errors import RefactxError
from refactx.fact import Fact
from refactx.links import Link, LinkedFact
from refactx.state import Machine, State


@dataclass(frozen=True, slots=True)
class Partial:
    """The sequences so far. `ids`: int64[rows, length], prompts included, padded on the right; rows are beams under beam
    search, the best first. `facts`: the facts that each row had completed, in order."""

    ids: Any
    facts: tuple[tuple[Fact, ...], ...]


@contextmanager
def kept(machine: Machine, written: Callable[[], tuple[Any, Sequence[State]]]) -> Iterator[None]:
    """Give an error of ours that leaves the block what was `written`: ids as in `Partial`, and the state of each row."""
    try:
        yield
    except RefactxError as error:
        if error.partial is None:
            ids, states = written()
            error.partial = Partial(ids, tuple(machine.facts_of(state) for state in states))
        raise


def unlinked(fact: Fact) -> LinkedFact:
    """A fact without the ids of its parts, which only the database knows.

    >>> unlinked(Fact("a", "b", "c", "<a> <b> <c> .", (0, 4))).subject
    Link(label='a', id=None)
    """
    return LinkedFact(Link(fact.subject), Link(fact.predicate), Link(fact.object))
