"""Which properties entities have, so that a query whose patterns match is preferred to one whose patterns cannot."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from refactx.index.index import Index
from refactx.query.tree_facts import TreeFacts

Reading = tuple[str, bool]
"""The id of a property, and whether it is read backwards, from its values."""

KEPT = 10_000
"""The entities whose properties are kept: some 20 MB."""


class Feasible(Protocol):
    """What is known of the facts of entities. Methods raise as `refactx.Index.children` does."""

    def readings(self, ids: Sequence[str]) -> Mapping[str, Mapping[Reading, int]]:
        """Return the properties that entities have, or are the values of, with numbers of facts, by the entities' ids."""
        ...

    def is_known(self, reading: Reading) -> bool:
        """Return whether all facts of a property are found, read so. Those read backwards may be unknown."""
        ...


class FactFeasibility:
    """The properties of entities in an open index: a `Feasible`.

    Safe to share between threads. Louisiana has four nicknames:

        FactFeasibility(index).readings(["Q1588"])["Q1588"]["P1449", False]  # 4
    """

    def __init__(self, index: Index) -> None:
        self._index, self._facts = index, TreeFacts(index)
        self._lock = threading.Lock()
        self._state: object = None
        self._readings: dict[str, Mapping[Reading, int]] = {}
        self._inverse: dict[str, bool] = {}

    def readings(self, ids: Sequence[str]) -> dict[str, Mapping[Reading, int]]:
        """Return the properties that entities have, or are the values of, with numbers of facts, by the entities' ids.

        An entity that the index does not name has none.
        """
        with self._lock:
            self._renew()
            unknown = [one for one in dict.fromkeys(ids) if one not in self._readings]
            names = self._index.names_of(unknown) if unknown else {}
            counts = {id_: self._facts.predicates(name) for id_, name in names.items()}
            described = self._facts.describe(list({name for some in counts.values() for name in some}))
            for id_ in unknown:
                some: dict[Reading, int] = {}
                for name, count in counts.get(id_, {}).items():
                    predicate = described.get(name)
                    if predicate is None or predicate.id is None:
                        continue
                    for reading in _readings(predicate.id, predicate.inverse, predicate.also):
                        some[reading] = some.get(reading, 0) + count
                self._readings[id_] = some
            return {id_: self._readings[id_] for id_ in ids}

    def is_known(self, reading: Reading) -> bool:
        """Return whether all facts of a property are found, read so: backwards, if the index has its inverse facts."""
        property_, inverse = reading
        with self._lock:
            self._renew()
            if inverse and property_ not in self._inverse:
                self._inverse[property_] = property_ in self._index.names_of([property_], inverse=True)
            return not inverse or self._inverse[property_]

    def _renew(self) -> None:
        """Forget what was read if the index has changed, or if it is much."""
        state = (self._index.name_tables, *(id(tree) for _, tree in self._index.segments))
        if state != self._state or len(self._readings) > KEPT:
            self._state, self._readings, self._inverse = state, {}, {}


def _readings(property_: str, inverse: bool, also: Iterable[str]) -> list[Reading]:
    return [(property_, inverse), *((other, not inverse) for other in also)]
