"""What the entities and properties of an index are called in PGMR text.

The name of an item is mostly `label (description)`, and that of a property is its label. Where a name has no
description, the fact `<name> <description> <...>` has it, if the index has descriptions.
"""

from collections.abc import Mapping, Sequence

from refactx.fact import DESCRIPTIONS
from refactx.index.index import Index
from refactx.query.facts import TreeFacts
from refactx.query.pgmr.mentions import Mention, kind_of


class IndexNames:
    """The names of an open index (`refactx.query.pgmr.Names`). Methods raise as `Index.children` does.

    Names are read once, and then kept.
    """

    def __init__(self, index: Index) -> None:
        self._index, self._facts = index, TreeFacts(index)
        self._known: dict[str, Mention] = {}

    def mentions(self, ids: Sequence[str]) -> Mapping[str, Mention]:
        """Return the mentions of ids, without ids that have no name in the index.

        names.mentions(["Q1588"])["Q1588"]  # Mention("entity", "Louisiana", "state of the United States of America")
        """
        unknown = [id_ for id_ in dict.fromkeys(ids) if id_ not in self._known]
        if unknown:
            self._known |= self._read(unknown)
        return {id_: self._known[id_] for id_ in ids if id_ in self._known}

    def _read(self, ids: Sequence[str]) -> dict[str, Mention]:
        names = self._index.names_of(ids)
        split = {id_: split_name(name, id_) for id_, name in names.items()}
        bare = [names[id_] for id_, (_, description) in split.items() if not description]
        described = dict[str, str]()
        for predicate in DESCRIPTIONS if bare else ():
            for name, description in self._facts.objects(bare, predicate):
                described.setdefault(name, description)
        return {
            id_: Mention(kind_of(id_), label, description or described.get(names[id_], ""))
            for id_, (label, description) in split.items()
        }


def split_name(name: str, id_: str) -> tuple[str, str]:
    """Return the label and the description of a name, which may be empty. `full_name` puts them together again.

    Of a property only its own id is a description.

    >>> split_name("Air (film) (film of 2023 (US))", "Q1"), split_name("(500) Days of Summer", "Q2")
    (('Air (film)', 'film of 2023 (US)'), ('(500) Days of Summer', ''))
    >>> split_name("weight (kg)", "P1"), split_name("weight (P1)", "P1")
    (('weight (kg)', ''), ('weight', 'P1'))
    """
    if kind_of(id_) == "relation":
        label = name.removesuffix(f" ({id_})")
        return label, id_ if label and label != name else ""
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
