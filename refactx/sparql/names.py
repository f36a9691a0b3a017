"""The names of an index for queries: properties by label in any case of letters, and what is near a label."""

import difflib
from collections import defaultdict
from functools import cached_property

from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS
from refactx.index import Index
from refactx.walks.facts import TreeFacts
from refactx.walks.values import bare_name

COMPARED = 400
"""For each beginning of a label, the names with most facts that begin so: these are compared with it."""


class Names:
    """The names of an open index; `facts`: its facts by name. Methods raise as `Index.children` does.

    All names of properties are read when a label is not exactly that of one: some 0.1 s for 4,000 of Wikidata's. In other
    graphs all names are read for that, some seconds for a million.
    """

    def __init__(self, index: Index) -> None:
        self._index, self.facts = index, TreeFacts(index)

    def property_called(self, label: str) -> tuple[str | None, int]:
        """Return the name of the property that has a label, and how many have it; None if none, or several, have it.

        The case of letters is as given, or any if then a single property has the label.
        """
        found = self._index.ids_of([label]).get(label)
        if found is not None and found.object_kind is not None:
            return label, 1
        names = self._by_folded.get(label.casefold(), [])
        return (names[0], 1) if len(names) == 1 else (None, len(names))

    @property
    def has_no_properties(self) -> bool:
        """Whether no property has an id, as those of ready-made facts: then any label may be a predicate."""
        return not self._properties

    def near_properties(self, label: str, most: int) -> list[str]:
        """Return names of properties that are like a label, the most similar first."""
        close = difflib.get_close_matches(label.casefold(), self._by_folded, most, cutoff=0.5)
        return [name for folded in close for name in self._by_folded[folded]][:most]

    def near_entities(self, label: str, most: int) -> list[str]:
        """Return names of entities with facts whose label or alias is like another, the most similar first."""
        lengths = sorted({len(label), len(label) * 3 // 4, len(label) // 2, 3, 2, 1} - {0}, reverse=True)
        plain = dict[str, str]()
        for begun in {
            f"{letter}{label[1:length]}" for length in lengths for letter in (label[:1], label[:1].swapcase())
        }:
            for text, _ in reversed(self._index.complete(f"<{begun}", COMPARED)):
                name = text[1:-1]
                plain[bare_name(name.removesuffix(ALIAS)).casefold()] = name
        close = difflib.get_close_matches(bare_name(label).casefold(), plain, most, cutoff=0.6)
        found = [plain[one] for one in close]
        meant = defaultdict[str, list[str]](list)
        for alias, entity in self.facts.objects([name for name in found if name.endswith(ALIAS)], ALIAS_OF):
            meant[alias].append(entity)
        return list(dict.fromkeys(entity for name in found for entity in meant.get(name, [name])))[:most]

    def entities_beginning(self, text: str, most: int) -> list[str]:
        """Return names and aliases of entities with facts that begin with a text, those with most facts first."""
        return [found[1:-1].removesuffix(ALIAS) for found, _ in self._index.complete(f"<{text}", most)]

    def properties_beginning(self, text: str) -> list[str]:
        """Return the names of properties that begin with a text, in alphabetical order."""
        return sorted(name for names in self._by_folded.values() for name in names if name.startswith(text))

    @cached_property
    def _by_folded(self) -> dict[str, list[str]]:
        found = defaultdict[str, list[str]](list)
        for name in dict.fromkeys((*self._properties, *DESCRIPTIONS[:1], ALIAS_OF)):
            found[name.casefold()].append(name)
        return dict(found)

    @cached_property
    def _properties(self) -> list[str]:
        return self._index.property_names()
