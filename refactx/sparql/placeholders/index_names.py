"""The names of an index in PGMR text, and the ids that they mean.

The name of an item is mostly `label (description)`, and that of a property is its label. Where a name has no
description, the fact `<name> <description> <...>` has it, if the index has descriptions. A mention means what has its
name; or, as in the paper, the only entity of its label, and of several the one whose description it has.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from refactx.fact import DESCRIPTIONS
from refactx.index.index import Index
from refactx.index.names import Named
from refactx.sparql.placeholders.text import Kind, Placeholder, Refusal, kind_of
from refactx.walks.facts import TreeFacts

SHOWN = 3
"""The most names that a refusal shows."""


class IndexNames:
    """The names of an open index (`refactx.sparql.placeholders.MentionNames`). Methods raise as `Index.children` does.

    Names are read once, and then kept.
    """

    def __init__(self, index: Index) -> None:
        self._index, self._facts = index, TreeFacts(index)
        self._known: dict[str, Placeholder] = {}

    def mentions(self, ids: Sequence[str]) -> Mapping[str, Placeholder]:
        """Return the mentions of ids, without ids that have no name in the index.

        names.mentions(["Q1588"])["Q1588"]  # Placeholder("entity", "Louisiana", "state of the United States of America")
        """
        unknown = [id_ for id_ in dict.fromkeys(ids) if id_ not in self._known]
        if unknown:
            self._known |= self._read(unknown)
        return {id_: self._known[id_] for id_ in ids if id_ in self._known}

    def _read(self, ids: Sequence[str]) -> dict[str, Placeholder]:
        names = self._index.names_of(ids)
        named = self._index.ids_of(names.values())
        kinds = {id_: kind_of(named[name]) for id_, name in names.items() if name in named}
        split = {id_: split_name(names[id_], id_ if kind == "relation" else "") for id_, kind in kinds.items()}
        bare = [names[id_] for id_, (_, description) in split.items() if not description]
        described = dict[str, str]()
        for predicate in DESCRIPTIONS if bare else ():
            for name, description in self._facts.objects(bare, predicate):
                described.setdefault(name, description)
        return {
            id_: Placeholder(kinds[id_], label, description or described.get(names[id_], ""))
            for id_, (label, description) in split.items()
        }


def split_name(name: str, property_id: str = "") -> tuple[str, str]:
    """Return the label and the description of a name, which may be empty. `full_name` puts them together again.

    `property_id`: that of a property, of whose name nothing else is a description.

    >>> split_name("Air (film) (film of 2023 (US))"), split_name("(500) Days of Summer")
    (('Air (film)', 'film of 2023 (US)'), ('(500) Days of Summer', ''))
    >>> split_name("weight (kg)", "P1"), split_name("weight (P1)", "P1")
    (('weight (kg)', ''), ('weight', 'P1'))
    """
    if property_id:
        label = name.removesuffix(f" ({property_id})")
        return label, property_id if label and label != name else ""
    if not name.endswith(")"):
        return name, ""
    at, depth = len(name), 0
    while at > 0 and (at == len(name) or depth > 0):
        at -= 1
        depth += {")": 1, "(": -1}.get(name[at], 0)
    if depth > 0 or name[at - 1 : at] != " " or at < 2:  # not closed, or without a label before it
        at = name.find(" (") + 1
    return (name[: at - 1], name[at + 1 : -1]) if at > 1 else (name, "")


def full_name(label: str, description: str | None) -> str:
    """Return a label and a description as the name that an index has for them.

    >>> full_name("Louisiana", "state of the United States of America"), full_name("nickname", "")
    ('Louisiana (state of the United States of America)', 'nickname')
    """
    return f"{label} ({description})" if description else label


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

    def __init__(self, index: Index, facts: TreeFacts, mentions: Iterable[Placeholder]) -> None:
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
            if name in found and not found[name].is_property and split_name(name)[0] == label
        ]

    def fold(self, text: str) -> str:
        return text


class FoldedLookup:
    """A `Lookup` without regard to case, by all names of an index. If several differ in case alone, all are meant."""

    def __init__(self, mentions: Iterable[Placeholder], names: Iterable[tuple[str, Named]]) -> None:
        wanted = {self.fold(name) for one in mentions for name in (one.label, full_name(one.label, one.description))}
        self._named = defaultdict[tuple[str, Kind], dict[Candidate, None]](dict)
        self._labelled = defaultdict[str, dict[Candidate, None]](dict)
        for name, named in names:
            kind = kind_of(named)
            if (folded := self.fold(name)) in wanted and _is_of(kind, named):
                self._named[folded, kind][Candidate(name, named.id)] = None
            if kind == "entity" and " (" in name:
                label = split_name(name)[0]
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
    return kind_of(named) == kind and named.object_kind != "inverse"


class IndexResolver:
    """A resolver by the names of an open index (see `Resolver`). Methods raise as `Index.children` does.

    `ignore_case`: for text in lower case. Then each call of `resolve` reads all names of the index, which takes some
    seconds for a million of them: resolve the mentions of many queries at once.
    """

    def __init__(self, index: Index, *, ignore_case: bool = False) -> None:
        self._index, self._facts, self._ignore_case = index, TreeFacts(index), ignore_case

    def resolve(self, mentions: Sequence[Placeholder]) -> list[str | Refusal]:
        """Return the id of each mention, or why it has none.

        A mention means the entity or property of this label and description, or else the only one of this label. Without
        a description, it means the one whose name is the label; if the description is None, the only one of the label.

        IndexResolver(index).resolve([Placeholder("relation", "nickname")])  # ["P1449"]
        """
        wanted = list(dict.fromkeys(mentions))
        lookup: Lookup = ExactLookup(self._index, self._facts, wanted)
        if self._ignore_case:
            blocks = (self._index.unpack_names(key, block) for key, block in self._index.name_rows())
            lookup = FoldedLookup(wanted, (one for block in blocks for one in block.items()))
        answers = {mention: self._choose(mention, lookup) for mention in wanted}
        return [answers[mention] for mention in mentions]

    def _choose(self, mention: Placeholder, lookup: Lookup) -> str | Refusal:
        if mention.description is not None:
            whole = lookup.called(full_name(mention.label, mention.description), mention.kind)
            if len(whole) == 1:
                return whole[0].id
        found = list(lookup.called(mention.label, mention.kind))
        if mention.kind == "entity":
            described = [
                one
                for one in found
                if mention.description
                and any(
                    lookup.fold(text) == lookup.fold(mention.description)
                    for predicate in DESCRIPTIONS
                    for _, text in self._facts.objects([one.name], predicate)
                )
            ]
            if len(described) == 1:
                return described[0].id
            found += [one for one in lookup.labelled(mention.label) if one not in found]
        if len(found) == 1:
            return found[0].id
        one, many = ("entity", "entities") if mention.kind == "entity" else ("property", "properties")
        if not found:
            return Refusal(f"no {one} of the index is called <{mention.label}>")
        some = ", ".join([f"<{candidate.name}>" for candidate in found[:SHOWN]] + ["…"] * (len(found) > SHOWN))
        which = ", none of them with this description" if mention.description else ""
        return Refusal(f"{len(found)} {many} of the index are called <{mention.label}>{which}: {some}")
