"""The triples that a store lacks of its index, and those that it has too much, given the mark of what it has.

A triple is removed if its fact was forgotten and no other fact gives it: `<1.5>` and `<1.50>` are one number. So for
each forgotten fact the other facts of its subject and predicate are read.

Facts that have not changed give the triples that they gave before. Where they would not, CannotFollowError is raised:
if facts had a name before it got an id, or if a property gets objects of another kind, so that its values become
literals of other datatypes.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from pyoxigraph import Literal, NamedNode, Quad, Store

from refactx.fact import DESCRIPTIONS, Fact
from refactx.index import Index, Named
from refactx.index.all_facts import changed_sequences, fact_of
from refactx.postgres.marks import IndexMark
from refactx.query.tree_facts import TreeFacts
from refactx.sparql.store.building import BATCH, triples_of
from refactx.sparql.store.terms import LABEL, OWN, entity, literal, own, property_
from refactx.sparql.store.triples import Triples, own_names

SMALL = 10_000
"""So many changed facts are followed however few the index has."""
_PART = 4  # to follow more than a quarter of the facts takes longer than to build the store anew


class CannotFollowError(Exception):
    """A store has to be built anew; the message says why."""


@dataclass(slots=True)
class Delta:
    """Triples to add to a store, and triples to remove from it; and the odd dates of those (`Triples.odd_dates`)."""

    added: set[Quad] = field(default_factory=set)
    removed: set[Quad] = field(default_factory=set)
    odd_dates: dict[str, str] = field(default_factory=dict)


def delta_since(before: IndexMark, index: Index, store: Store) -> Delta:
    """Return what brings a store from an earlier mark of its index to the index's snapshot.

    `store` is only read. Memory holds the changed facts. Raises CannotFollowError, IndexNotFoundError if the index is
    compacted meanwhile, and as `Index.children` does.
    """
    return _Differences(before, index, store).find()


class _Differences:
    def __init__(self, before: IndexMark, index: Index, store: Store) -> None:
        self._index, self._store, self._snapshot = index, store, index.snapshot
        known = {number for number, _ in before.segments}
        self._segments = [(s.sign, s.tree) for s in self._snapshot.segments if s.number not in known]
        self._old_tables = [number for number, _ in reversed(before.names)]
        self._new_tables = [table for table in self._snapshot.name_tables if table not in self._old_tables]
        self._triples: Triples = triples_of(index, lambda names: self._find(self._snapshot.name_tables, names))
        self._facts = TreeFacts(index)

    def find(self) -> Delta:
        changed = sum(tree.facts for _, tree in self._segments)
        if changed > max(SMALL, self._index.facts // _PART):
            raise CannotFollowError(f"{changed:,} facts have changed, of {self._index.facts:,}")
        new = self._new_names()
        delta, described = Delta(), set[str]()
        for sign, facts in self._changed_facts():
            found = [triple for triple in self._triples.of(facts) if triple is not None]
            described |= {fact.subject for fact in facts if fact.predicate in DESCRIPTIONS}
            if sign > 0:
                delta.added |= _as_stored(found)
                delta.added |= {self._triples.label(name, None) for triple in found for name in own_names(triple)}
            else:
                delta.removed |= _as_stored(found) - self._remaining(facts)
        delta.removed -= delta.added
        delta.removed |= set(self._unused_labels(delta))
        self._label(new, described, delta)
        return Delta(
            {triple for triple in delta.added if triple not in self._store},
            {triple for triple in delta.removed if triple in self._store},
            self._triples.odd_dates,
        )

    # --- Names

    def _new_names(self) -> dict[str, Named]:
        """Return the names that the store does not have yet. Raise CannotFollowError if they change other triples."""
        found: dict[str, Named] = {}
        for table in reversed(self._new_tables):
            for key, block in self._index.name_table_rows(table):
                found |= self._index.unpack_names(key, block)
        old = self._find(self._old_tables, set(found))
        mixed: dict[NamedNode, bool] = {}
        for name, named in found.items():
            before = old.get(name)
            if before is None:
                self._check_unused(name, mixed)
            elif before.object_kind != named.object_kind:
                self._check_kind(name, named)
        return {name: named for name, named in found.items() if name not in old}

    def _check_unused(self, name: str, mixed: dict[NamedNode, bool]) -> None:
        """Raise CannotFollowError if facts have a name that is new, as that of something without an id or as text."""
        if self._is_used(own(name), set()):
            raise CannotFollowError(f"<{name}> has got an id")
        for text in {Literal(name), literal(name, "mixed")}:
            for quad in self._store.quads_for_pattern(None, None, text):
                if quad.predicate not in mixed:
                    mixed[quad.predicate] = self._may_name(quad.predicate)
                if mixed[quad.predicate]:
                    raise CannotFollowError(f"the text <{name}> has become the name of an entity")

    def _may_name(self, predicate: NamedNode) -> bool:
        """Return whether the objects of a property may be entities."""
        id_ = predicate.value.rpartition("/")[2]
        (name,) = self._index.names_of([id_]).values() or (None,)
        kinds = self._index.ids_of([name]) if name is not None else {}
        return name not in kinds or kinds[name].object_kind in ("entity", "mixed")

    def _check_kind(self, name: str, named: Named) -> None:
        """Raise CannotFollowError if a property whose objects are of another kind now has objects without an id."""
        for quad in self._store.quads_for_pattern(None, property_(named.id), None):
            if not isinstance(quad.object, NamedNode) or quad.object.value.startswith(OWN):
                raise CannotFollowError(f"<{name}> has got objects of another kind")

    def _label(self, new: Mapping[str, Named], described: set[str], delta: Delta) -> None:
        """Label new names, and again those whose descriptions have changed: a label is a name without these."""
        named = {**self._find(self._snapshot.name_tables, described), **new}
        descriptions = self._descriptions([name for name in named if name.endswith(")")])
        for name, one in named.items():
            if one.object_kind == "inverse":
                continue
            label = self._triples.label(name, one, descriptions.get(name, ()))
            there = set(self._store.quads_for_pattern(entity(one.id), LABEL, None))
            delta.removed |= there - {label}
            delta.added |= {label} - there

    def _descriptions(self, names: Sequence[str]) -> dict[str, list[str]]:
        found = defaultdict[str, list[str]](list)
        for predicate in DESCRIPTIONS:
            for name, description in self._facts.objects(names, predicate):
                found[name].append(description)
        return found

    def _unused_labels(self, delta: Delta) -> Iterator[Quad]:
        """Yield the labels of names without ids that no triple is about any more."""
        for name in {name for triple in delta.removed for name in own_names(triple)}:
            label = self._triples.label(name, None)
            if label not in delta.added and not self._is_used(own(name), {*delta.removed, label}):
                yield label

    def _is_used(self, node: NamedNode, without: set[Quad]) -> bool:
        """Return whether the store has triples about a node, other than some."""
        patterns = ((node, None, None), (None, node, None), (None, None, node))
        return any(quad not in without for pattern in patterns for quad in self._store.quads_for_pattern(*pattern))

    # --- Facts

    def _changed_facts(self) -> Iterator[tuple[int, list[Fact]]]:
        """Yield added (1) and forgotten (-1) facts, a few at a time."""
        index = self._index
        sequences = changed_sequences(self._segments)
        while some := list(islice(sequences, BATCH)):
            for sign in (1, -1):
                facts = [
                    fact_of(tokens, index.tokenizer, index.terminator, index.name)
                    for own, tokens in some
                    if own == sign
                ]
                if facts:
                    yield sign, facts

    def _remaining(self, forgotten: Sequence[Fact]) -> set[Quad]:
        """Return the triples of the facts that the index still has of the same subjects and predicates."""
        subjects: dict[str, dict[str, None]] = defaultdict(dict)
        for fact in forgotten:
            for predicate in DESCRIPTIONS if fact.predicate in DESCRIPTIONS else (fact.predicate,):
                subjects[predicate][fact.subject] = None
        found = set[Quad]()
        for predicate, some in subjects.items():
            facts = (
                Fact(subject, predicate, object_, "", (0, 0)) for subject, object_ in self._objects(some, predicate)
            )
            while batch := list(islice(facts, BATCH)):
                found |= _as_stored(triple for triple in self._triples.of(batch) if triple is not None)
        return found

    def _objects(self, subjects: Iterable[str], predicate: str) -> Iterator[tuple[str, str]]:
        return self._facts.objects(list(subjects), predicate)

    def _find(self, tables: Sequence[int], names: set[str]) -> dict[str, Named]:
        """Return the entities of names by some name tables, the latest first."""
        return self._index.ids_in(tables, names)


def _as_stored(triples: Iterable[Quad]) -> set[Quad]:
    """Return triples as a store gives them back: it has 1.5 for 1.50."""
    store = Store()
    store.extend(triples)
    return set(store)
