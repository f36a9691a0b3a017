"""The protocol of a set of facts that queries are answered with: names in, names out.

`refactx.query.tree_facts` implements it on the tree of an index; tests implement it on Python sets. Names are those of
the index, as parts of facts. A literal is the text that facts have (`refactx.query.values` compares them).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

ValueKind = Literal["entity", "mixed", "time", "quantity", "coordinates", "text", "literal"]
"""The kind of a predicate's objects. `literal`: literals of several kinds, or of one that is not known."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate of the index: its `name`, the `id` of its property (`P57`; None: it has none), whether it reads that
    property backwards, and the kind of its objects.

    `also`: the ids of properties whose facts it has too, read backwards, since it is their inverse property (P1696):
    `child` has those of `father` and `mother`.
    """

    name: str
    id: str | None
    inverse: bool
    kind: ValueKind
    also: tuple[str, ...] = ()


class FactSet(Protocol):
    """Facts, by name. All methods raise as `refactx.Index.children` does."""

    def predicates(self, subject: str) -> Mapping[str, int]:
        """Return the predicates of a subject's facts, with the number of facts of each; empty if it has none.

        Those of a hub's inverse facts, which the index does not have, are there with the number of subjects.
        """
        ...

    def describe(self, predicates: Sequence[str]) -> Mapping[str, Predicate]:
        """Return predicates by name, without the names that are no predicate of the index."""
        ...

    def inverse_of(self, predicate: str) -> str | None:
        """Return the predicate that has the same facts, read the other way; None if there is none."""
        ...

    def counts(self, subjects: Sequence[str], predicate: str) -> Sequence[int]:
        """Return how many facts each subject has with a predicate; a hub's inverse facts are counted too."""
        ...

    def is_hub(self, subject: str, predicate: str) -> bool:
        """Return whether the facts of a subject with a predicate are counted, but not in the index: a hub's inverse."""
        ...

    def objects(self, subjects: Sequence[str], predicate: str) -> Iterator[tuple[str, str]]:
        """Yield pairs of a subject and an object of its facts with a predicate, one subject after another, in order.

        They are read while they are taken, so a part of many is cheap. A hub's inverse facts are not among them.
        """
        ...

    def hold(self, facts: Sequence[tuple[str, str, str]]) -> Sequence[bool]:
        """Return which facts (subject, predicate, object) exist."""
        ...

    @property
    def size(self) -> int:
        """How many facts a scan reads."""
        ...

    def scan(
        self, ends: Sequence[tuple[str, str]], lasts: Callable[[], bool], most: int | None = None
    ) -> Sequence[tuple[str, str, str]]:
        """Return the facts (subject, predicate, object) that end in one of some pairs of a predicate and an object.

        All facts are read: for hubs, whose inverse facts do not exist. The scan stops if `lasts`, which is called now
        and then, returns False, and after `most` such facts.
        """
        ...

    def ids(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return the ids of entities and properties by name, without names that have none."""
        ...

    def names(self, ids: Sequence[str], *, inverse: bool = False) -> Mapping[str, str]:
        """Return the names of entities and properties by id, without ids that the index does not name.

        With `inverse`: the names of predicates that read these properties backwards. Such a predicate may be that of
        another property.
        """
        ...
