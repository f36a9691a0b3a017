"""The changes of an index as values that tests compose, and what the index should be after each, by brute force.

The facts are of a small graph whose names begin alike. A moment of an index is its facts and those that it has had
since it was ingested, whose entities have names.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from refactx.index.names import Named
from refactx.share.importing import import_index
from support.ingest.graph_twin import Fact, Line, kind_of_all, written
from support.ingest.living_index import LivingIndex
from support.shared_index import opened

LABELS = {
    **{"Q1": "Ann", "Q2": "An", "Q3": "b", "Q4": "bb"},
    **{"P1": "p", "P2": "pp", "P3": "q"},
}
TEXTS = ("1", "10", "c")
_ITEMS = [entity for entity in LABELS if entity[0] == "Q"]
_OBJECTS = {"P1": _ITEMS, "P2": [*_ITEMS[:2], *TEXTS[:2]], "P3": TEXTS}
EVERY: list[Fact] = [(s, p, o) for s, p in product(_ITEMS, _OBJECTS) for o in _OBJECTS[p]]
"""P1 has entities as objects, P3 texts and numbers, P2 both."""


@dataclass(frozen=True)
class Moment:
    """What an index has. `had`: also forgotten facts. `built` counts the indexes that replaced it, `compacted` its
    compactions."""

    facts: frozenset[Fact] = frozenset()
    had: frozenset[Fact] = frozenset()
    built: int = 0
    compacted: int = 0

    @property
    def named(self) -> dict[str, Named]:
        """The entities that have a name, by name."""
        kinds: defaultdict[str, set[str]] = defaultdict(set)
        for _, predicate, meant in self.had:
            kinds[predicate].add("entity" if meant in LABELS else "quantity" if meant.isdigit() else "text")
        kind_of = {predicate: kind_of_all(every) for predicate, every in kinds.items()}
        return {LABELS[entity]: Named(entity, kind_of.get(entity)) for entity in entities(self.had)}


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change.

    `kind`: ingest, append, forget, compact or import. `name`: of the index. `path`: the source, or the file to import.
    """

    kind: str
    name: str
    path: Path = Path()
    facts: frozenset[Fact] = frozenset()
    labelled: bool = True
    imported: Moment | None = None

    def effective_facts(self, before: Moment) -> frozenset[Fact]:
        """Return those of its facts that take effect: without labels, only entities with a name are known."""
        return frozenset(
            fact
            for fact in self.facts
            if self.labelled or self.kind == "ingest" or entities([fact]) <= entities(before.had)
        )

    def after(self, before: Moment) -> Moment:
        """Return the moment after it."""
        facts = self.effective_facts(before)
        match self.kind:
            case "append":
                return replace(before, facts=before.facts | facts, had=before.had | facts)
            case "forget":
                return replace(before, facts=before.facts - facts)
            case "ingest":
                return replace(before, facts=facts, had=facts, built=before.built + 1)
            case "import":
                assert self.imported is not None
                return replace(before, facts=self.imported.facts, had=self.imported.had, built=before.built + 1)
        return replace(before, compacted=before.compacted + 1)


def entities(facts: Iterable[Fact]) -> frozenset[str]:
    """Return the entities in facts.

    >>> sorted(entities([("Q1", "P3", "10")]))
    ['P3', 'Q1']
    """
    return frozenset(part for fact in facts for part in fact if part in LABELS)


def text_of(fact: Fact) -> str:
    """Return a fact as `LivingIndex` takes it.

    >>> text_of(("Q1", "P3", "10"))
    'Ann q 10'
    """
    return " ".join(LABELS.get(part, part) for part in fact)


def write_source(path: Path, facts: Iterable[Fact], labelled: bool) -> None:
    """Write a file of N-Triples, with all labels or with none."""
    lines: list[Line] = [("label", entity, label, "en") for entity, label in LABELS.items() if labelled]
    for subject, predicate, meant in sorted(facts):
        if meant in LABELS:
            lines.append(("claim", subject, predicate, meant))
        else:
            lines.append(("literal", subject, predicate, meant, "^^decimal" if meant.isdigit() else None))
    path.write_text("".join(written(line) + "\n" for line in lines))


def run(url: str, folder: Path, change: Change) -> None:
    """Make a change."""
    living = LivingIndex(url, folder, change.name)
    match change.kind:
        case "ingest":
            living.ingest_from(change.path, replace=True)
        case "append":
            living.append_from(change.path)
        case "forget":
            living.forget_from(change.path)
        case "compact":
            living.compact()
        case "import":
            with opened(url) as database:
                import_index(database, change.path, change.name, replace=True, step_bytes=1)
