"""The names of an index in PGMR text, and the ids that they mean.

The name of an item is mostly `label (description)`, and that of a property is its label. Where a name has no
description, the fact `<name> <description> <...>` has it, if the index has descriptions. A mention means what has its
name; or, as in the paper, the only entity of its label, and of several the one whose description it has.
"""

from collections.abc import Mapping, Sequence

from refactx.fact import DESCRIPTIONS
from refactx.index.index import Index
from refactx.linking.names import fold
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


class IndexResolver:
    """A resolver by the names of an open index (see `Resolver`). Methods raise as `Index.children` does.

    `ignore_case`: for text in lower case: names are found in any spelling, and those that are spelt so come first.
    """

    def __init__(self, index: Index, *, ignore_case: bool = False) -> None:
        self._index, self._facts, self._ignore_case = index, TreeFacts(index), ignore_case
        self._linker = self._facts.linker

    def resolve(self, mentions: Sequence[Placeholder]) -> list[str | Refusal]:
        """Return the id of each mention, or why it has none.

        A mention means the entity or property of this label and description, or else the only one of this label. Without
        a description, it means the one whose name is the label; if the description is None, the only one of the label.

        IndexResolver(index).resolve([Placeholder("relation", "nickname")])  # ["P1449"]
        """
        answers = {mention: self._choose(mention) for mention in dict.fromkeys(mentions)}
        return [answers[mention] for mention in mentions]

    def _choose(self, mention: Placeholder) -> str | Refusal:
        """Return the id that a mention means. What it may mean is known by names, with the ids of these."""
        if mention.description is not None:
            whole = self._called(full_name(mention.label, mention.description), mention.kind)
            if len(whole) == 1:
                return next(iter(whole.values()))
        found = self._called(mention.label, mention.kind)
        if mention.kind == "entity":
            described = [
                name for name in found if mention.description and self._is_described(name, mention.description)
            ]
            if len(described) == 1:
                return found[described[0]]
            found |= self._labelled(mention.label)
        if len(found) == 1:
            return next(iter(found.values()))
        one, many = ("entity", "entities") if mention.kind == "entity" else ("property", "properties")
        if not found:
            return Refusal(f"no {one} of the index is called <{mention.label}>")
        some = ", ".join([f"<{name}>" for name in list(found)[:SHOWN]] + ["…"] * (len(found) > SHOWN))
        which = ", none of them with this description" if mention.description else ""
        return Refusal(f"{len(found)} {many} of the index are called <{mention.label}>{which}: {some}")

    def _spellings(self, text: str) -> list[str]:
        """Return a text, and its other spellings in the index if they count."""
        return list(dict.fromkeys([text, *(sorted(self._linker.spellings(text)) if self._ignore_case else ())]))

    def _called(self, name: str, kind: Kind) -> dict[str, str]:
        """Return the ids of those of a kind that have a name, as it is written or else in another spelling."""
        spelt = (
            self._linker.predicates_called(name) if self._ignore_case and kind == "relation" else self._spellings(name)
        )
        found = self._ids([name, *spelt], kind)
        return {name: found[name]} if name in found else found

    def _labelled(self, label: str) -> dict[str, str]:
        """Return the ids of the entities whose name is a label and a description."""
        found = ((name, one) for one in self._spellings(label) for name in self._linker.labelled(one))
        return self._ids([name for name, one in found if split_name(name)[0] == one], "entity")

    def _ids(self, names: Sequence[str], kind: Kind) -> dict[str, str]:
        """Return the ids of the names of a kind. Predicates that read a property backwards are none of its names."""
        named = self._index.ids_of(names)
        of_kind = (one for one in dict.fromkeys(names) if one in named and named[one].object_kind != "inverse")
        return {name: named[name].id for name in of_kind if kind_of(named[name]) == kind}

    def _is_described(self, name: str, description: str) -> bool:
        texts = (text for predicate in DESCRIPTIONS for _, text in self._facts.objects([name], predicate))
        return any(text == description or (self._ignore_case and fold(text) == fold(description)) for text in texts)
