"""Entities and properties of an index by name: as it is written, or in any case of letters."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from refactx.index.index import Index
from refactx.index.names import Named
from refactx.query.facts import TreeFacts
from refactx.query.pgmr.index_names import full_name, split_name
from refactx.query.pgmr.mentions import Kind, Mention, kind_of


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entity or property that may be meant: its name in the index, and its id."""

    name: str
    id: str


class Lookup(Protocol):
    """The entities and properties that some mentions may mean."""

    def called(self, name: str, kind: Kind) -> Sequence[Candidate]:
        """Return those of a kind that have a name."""
        ...

    def labelled(self, label: str) -> Sequence[Candidate]:
        """Return the entities whose name is a label and a description."""
        ...

    def fold(self, text: str) -> str:
        """Return a text that is equal for texts which count as equal."""
        ...


class ExactLookup:
    """A `Lookup` by names as they are written."""

    def __init__(self, index: Index, facts: TreeFacts, mentions: Iterable[Mention]) -> None:
        self._index, self._facts = index, facts
        self._names = index.ids_of(
            {name for one in mentions for name in (one.label, full_name(one.label, one.description))}
        )

    def called(self, name: str, kind: Kind) -> list[Candidate]:
        named = self._names.get(name)
        return [Candidate(name, named.id)] if named is not None and _is_of(kind, named) else []

    def labelled(self, label: str) -> list[Candidate]:
        names = self._facts.labelled(label)
        found = self._index.ids_of(names)
        return [
            Candidate(name, found[name].id)
            for name in names
            if name in found and kind_of(found[name].id) == "entity" and split_name(name, found[name].id)[0] == label
        ]

    def fold(self, text: str) -> str:
        return text


class FoldedLookup:
    """A `Lookup` without regard to case, by all names of an index. If several differ in case alone, all are meant."""

    def __init__(self, mentions: Iterable[Mention], names: Iterable[tuple[str, Named]]) -> None:
        wanted = {self.fold(name) for one in mentions for name in (one.label, full_name(one.label, one.description))}
        self._named = defaultdict[tuple[str, Kind], dict[Candidate, None]](dict)
        self._labelled = defaultdict[str, dict[Candidate, None]](dict)
        for name, named in names:
            kind = kind_of(named.id)
            if (folded := self.fold(name)) in wanted and _is_of(kind, named):
                self._named[folded, kind][Candidate(name, named.id)] = None
            if kind == "entity" and " (" in name:
                label = split_name(name, named.id)[0]
                if (folded := self.fold(label)) in wanted and label != name:
                    self._labelled[folded][Candidate(name, named.id)] = None

    def called(self, name: str, kind: Kind) -> list[Candidate]:
        found = list(self._named.get((self.fold(name), kind), ()))
        return [one for one in found if one.name == name] or found

    def labelled(self, label: str) -> list[Candidate]:
        return list(self._labelled.get(self.fold(label), ()))

    def fold(self, text: str) -> str:
        return text.casefold()


def _is_of(kind: Kind, named: Named) -> bool:
    """Return whether a name is one of a kind. Predicates that read a property backwards are none of its names."""
    return kind_of(named.id) == kind and named.object_kind != "inverse"
