"""A memory without embeddings: the names of an index in this process, the nearest by their letters (rapidfuzz)."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from refactx.index.index import Index
from refactx.lazy import require
from refactx.linking.linker import COMPARED
from refactx.sparql.placeholders.entry import (
    LETTERS,
    Match,
    MemoryEntry,
    Near,
    entry_of,
    fold,
    has_label,
    label_keys,
    mention_text,
    named_entries,
)
from refactx.sparql.placeholders.index_names import IndexNames
from refactx.sparql.placeholders.text import Kind, Placeholder, kind_of
from refactx.walks.facts import TreeFacts

LEAST = 0.5
"""The least similarity of the nearest: what shares fewer letters has another name."""
_LABELS = 100
"""The labels that are compared by their descriptions too."""


class LinkedEntries:
    """What mentions mean in an open index as its linker finds them: by aliases, in any spelling, by ids."""

    def __init__(self, index: Index) -> None:
        self._index, self._linker, self._descriptions = index, TreeFacts(index).linker, IndexNames(index)

    def of(self, mention: Placeholder, own: Sequence[MemoryEntry]) -> list[MemoryEntry]:
        """Return the entries of a mention, its `own` and others, those with most facts first."""
        found = [*own, *self._others(mention, own)]
        ids = list(dict.fromkeys(one.id for one in found))
        if len(ids) < 2:
            return found
        names = self._index.names_of(ids[:COMPARED])
        facts = {id_: self._linker.count(name) for id_, name in names.items()}
        return sorted(found, key=lambda one: -facts.get(one.id, 0))

    def _others(self, mention: Placeholder, own: Sequence[MemoryEntry]) -> list[MemoryEntry]:
        """Return the entries beside its own that have a mention's label as an alias, or else in another spelling or as
        their id."""
        label = mention.label
        if mention.kind == "relation":
            names = [] if own else self._linker.predicates_called(label)
        else:
            names = self._linker.aliased(label) or self._linker.namesakes(label)
        ids = {name: named for name, named in self._index.ids_of(names).items() if named.object_kind != "inverse"}
        ids = {name: named for name, named in ids.items() if all(named.id != one.id for one in own)}
        entries = [entry_of(name, ids[name].id, kind_of(ids[name])) for name in names if name in ids]
        spelt = own[0].label if own else label  # which the resolver compares with the mention's
        return [replace(one, label=spelt, is_alias=True) for one in self.described(entries) if one.kind == mention.kind]

    def described(self, entries: Sequence[MemoryEntry]) -> list[MemoryEntry]:
        """Return entries with the descriptions that facts have, where names have none."""
        bare = [one.id for one in entries if not one.description]
        known = self._descriptions.mentions(bare) if bare else {}
        return [
            replace(one, description=known[one.id].description or "")
            if not one.description and one.id in known and known[one.id].description != one.id
            else one
            for one in entries
        ]


class NameMemory:
    """The names of an open index as a `Memory`. Safe to share between threads.

    All names are read when they are first needed, and again after a change: some seconds for a million. Aliases are
    found as they are written, or else in any spelling. Raises InputError if rapidfuzz is not
    installed.
    """

    def __init__(self, index: Index) -> None:
        require("rapidfuzz", "sparql")
        self._index, self._linked = index, LinkedEntries(index)
        self._reading = threading.Lock()
        self._tables: tuple[int, ...] | None = None
        self._known = _NameTables()

    @property
    def thresholds(self) -> Mapping[Match, float]:
        """Those of similarity by letters."""
        return LETTERS

    def exact(self, mentions: Sequence[Placeholder]) -> list[list[MemoryEntry]]:
        """Return the entries of each mention's kind that have its label; aliases as they are written."""
        names = self._names()
        found = []
        for mention in mentions:
            some = [one for key in label_keys(mention) for one in names.by_label.get(fold(key), ())]
            some = [one for one in dict.fromkeys(some) if one.kind == mention.kind]
            own = [one for one in self._linked.described(some) if has_label(one, mention)]
            found.append(self._linked.of(mention, own))
        return found

    def nearest(self, mentions: Sequence[Placeholder], count: int) -> list[list[Near]]:
        """Return the entries of each mention's kind whose labels have most letters in common with its own, in order.

        Of equally similar labels, those are first whose descriptions are more similar.
        """
        return [self._nearest(mention, count) for mention in mentions]

    def similarities(self, mention: Placeholder, entries: Sequence[MemoryEntry]) -> list[float]:
        """Return how many words of a mention's label and description entries have, from 0 to 1."""
        from rapidfuzz.fuzz import token_sort_ratio

        text = fold(mention_text(mention))
        return [token_sort_ratio(text, fold(one.text)) / 100 for one in self._linked.described(entries)]

    def _nearest(self, mention: Placeholder, count: int) -> list[Near]:
        from rapidfuzz import fuzz, process

        entries = self._names().entries[mention.kind]
        close = process.extract(
            fold(mention.label),
            self._names().labels[mention.kind],
            scorer=fuzz.ratio,
            limit=max(_LABELS, count),
            score_cutoff=100 * LEAST,
        )
        described = self._linked.described([entries[at] for _, _, at in close])
        likeness = self.similarities(mention, described)
        order = sorted(range(len(close)), key=lambda at: (-close[at][1], -likeness[at], described[at].id))
        return [Near(described[at], close[at][1] / 100) for at in order[:count]]

    def _names(self) -> "_NameTables":
        with self._reading:
            tables = self._index.name_tables
            if tables != self._tables:
                known = _NameTables()
                seen = set[str]()
                for name, _, entry in named_entries(self._index):
                    if name not in seen:
                        seen.add(name)
                        known.add(entry)
                self._known, self._tables = known, tables
            return self._known


@dataclass(slots=True)
class _NameTables:
    """Entries by their folded labels, and by kind in one order with these."""

    by_label: dict[str, list[MemoryEntry]] = field(default_factory=dict)
    entries: dict[Kind, list[MemoryEntry]] = field(default_factory=lambda: {"entity": [], "relation": []})
    labels: dict[Kind, list[str]] = field(default_factory=lambda: {"entity": [], "relation": []})

    def add(self, entry: MemoryEntry) -> None:
        folded = fold(entry.label)
        self.by_label.setdefault(folded, []).append(entry)
        self.entries[entry.kind].append(entry)
        self.labels[entry.kind].append(folded)
