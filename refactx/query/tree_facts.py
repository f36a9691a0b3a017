"""The facts of an index as a `FactSet`: a subject's facts with a predicate are those below ` <subject> <predicate>`.

Counts are leaf counts. Many subjects or facts at once are read with a few round trips. With a tokenizer whose tokens
cross the parts of facts, completions of texts take the place of prefixes: they are always right, and slower.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar, get_args

from refactx.errors import IndexNotFoundError
from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS, unit, verbalise
from refactx.index.completion import completions
from refactx.index.index import Index
from refactx.index.names import Named
from refactx.query.fact_set import Predicate, ValueKind
from refactx.query.tree_walks import Segments, Units, count_facts, facts_exist, parts_below
from refactx.query.values import bare_name
from refactx.tree.children import Path

Value = TypeVar("Value")

AT_ONCE = 256
"""Subjects whose prefixes are read together: the first object waits for all of them."""
NEAR_NAMES = 200
"""Names that are compared to find those near another."""
_KINDS: Mapping[str, ValueKind] = {"inverse": "entity", **{kind: kind for kind in get_args(ValueKind)}}
_WITHOUT_ID = {
    **{name: Predicate(name, None, False, "text") for name in DESCRIPTIONS},
    ALIAS_OF: Predicate(ALIAS_OF, None, False, "entity"),
}


class TreeFacts:
    """The facts of an open index: a `FactSet`. Safe to share between threads. Methods raise as `Index.children` does.

    facts = TreeFacts(refactx.open_index())
    facts.counts(["Louisiana"], "nickname")  # [4]
    list(facts.objects(["Louisiana"], "nickname"))  # pairs of "Louisiana" and one of its nicknames
    """

    def __init__(self, index: Index) -> None:
        self._index, self._units = index, Units(index.tokenizer, index.trigger)
        self._catalogue = _Catalogue(index)

    def predicates(self, subject: str) -> dict[str, int]:
        """Return the predicates of a subject, and the number of facts of each, in the order of the tree."""
        if not self._units.are_whole:
            before = unit(subject)
            return {_last_part(text): count for text, count in self._completions(f"{before} <")}
        (prefix,) = self._units.encode([subject])
        found = self._with_segments(lambda segments: list(parts_below(segments, prefix, self._units.closing)))
        present = {self._units.text(part): leaves for part, leaves in found}
        return present | dict(self._catalogue.hub_counts([subject]).get(subject, {}))

    def describe(self, predicates: Sequence[str]) -> dict[str, Predicate]:
        """Return predicates by name, without those that the name tables do not have."""
        return self._catalogue.describe(predicates)

    def inverse_of(self, predicate: str) -> str | None:
        """Return the predicate that reads the same property the other way, if its facts are exactly the inverse ones."""
        return self._catalogue.inverse_of(predicate)

    def counts(self, subjects: Sequence[str], predicate: str) -> list[int]:
        """Return how many facts each subject has with a predicate."""
        if self._units.are_whole:
            prefixes = self._prefixes(subjects, predicate)
            present = self._with_segments(lambda segments: count_facts(segments, prefixes))
        else:
            present = [sum(1 for _ in self.objects([subject], predicate)) for subject in subjects]
        hubs = self._catalogue.hub_counts(subjects)
        return [hubs.get(subject, {}).get(predicate, found) for subject, found in zip(subjects, present, strict=True)]

    def is_hub(self, subject: str, predicate: str) -> bool:
        """Return whether facts are counted, but not in the index."""
        return predicate in self._catalogue.hub_counts([subject]).get(subject, {})

    def objects(self, subjects: Sequence[str], predicate: str) -> Iterator[tuple[str, str]]:
        """Yield pairs of a subject and an object, in the order of the tree below each subject.

        They are read while they are taken.
        """
        if not self._units.are_whole:
            for subject in subjects:
                for text, _ in self._completions(f"{unit(subject)}{unit(predicate)} <"):
                    yield subject, _last_part(text)
            return
        for low in range(0, len(subjects), AT_ONCE):
            some = subjects[low : low + AT_ONCE]
            prefixes = self._prefixes(some, predicate)
            if len(some) > 1:
                self._with_segments(partial(count_facts, prefixes=prefixes))  # reads their rows at once
            for subject, prefix in zip(some, prefixes, strict=True):
                for part in self._parts(prefix):
                    yield subject, self._units.text(part)

    def hold(self, facts: Sequence[tuple[str, str, str]]) -> list[bool]:
        """Return which facts (subject, predicate, object) exist."""
        if self._units.are_whole:
            ids = self._units.encode([part for fact in facts for part in fact])
            sequences = [(*ids[at], *ids[at + 1], *ids[at + 2]) for at in range(0, len(ids), 3)]
        else:
            sequences = self._units.encode_texts([verbalise(*fact) for fact in facts])
        return self._with_segments(lambda segments: facts_exist(segments, sequences))

    def ids(self, names: Sequence[str]) -> dict[str, str]:
        """Return the ids of entities and properties by name, without names that have none."""
        return {name: named.id for name, named in self._index.ids_of(names).items()}

    def names(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the names of entities and properties by id, without ids that the index does not name."""
        return self._catalogue.names_of(ids)

    def near(self, name: str, most: int = 5) -> list[str]:
        """Return names of entities with facts that are like a name; an alias stands for its entities."""
        begins, found = name, list[str]()
        while len(begins) >= 2 and not found:
            texts = self._index.complete(f"<{begins}", NEAR_NAMES) or self._index.complete(
                f"<{begins[:1].swapcase()}{begins[1:]}", NEAR_NAMES
            )
            plain = {bare_name(text[1:-1]).casefold(): text[1:-1] for text, _ in reversed(texts)}
            close = difflib.get_close_matches(bare_name(name).casefold(), plain, most, cutoff=0.4)
            found = [plain[one] for one in close]
            begins = begins[: min(len(begins) - 1, len(begins) * 3 // 4)]
        aliases = [one for one in found if one.endswith(ALIAS)]
        meant: dict[str, list[str]] = {}
        for alias, entity in self.objects(aliases, ALIAS_OF):
            meant.setdefault(alias, []).append(entity)
        return list(dict.fromkeys(entity for one in found for entity in meant.get(one, [one])))[:most]

    def labelled(self, label: str) -> list[str]:
        """Return names of entities with facts that are a label and a description, those with most facts first."""
        names = (text[1:-1] for text, _ in self._index.complete(f"<{label} (", NEAR_NAMES))
        return [name for name in names if name.endswith(")") and not name.endswith(ALIAS)]

    def aliased(self, alias: str) -> list[str]:
        """Return names of entities that have an alias."""
        return [entity for _, entity in self.objects([f"{alias}{ALIAS}"], ALIAS_OF)]

    # --- The tree

    def _prefixes(self, subjects: Sequence[str], predicate: str) -> list[Path]:
        *begins, end = self._units.encode([*subjects, predicate])
        return [(*begin, *end) for begin in begins]

    def _parts(self, prefix: Path) -> Iterator[Path]:
        """Yield the ids of each object below a prefix. After a compaction, continue with the index as it is then."""
        last: Path = ()
        while True:
            segments = self._index.segments
            try:
                for part, _ in parts_below(segments, prefix, self._units.closing):
                    if part > last:
                        yield part
                        last = part
                return
            except IndexNotFoundError as error:
                self._renew(segments, error)

    def _with_segments(self, read: Callable[[Segments], Value]) -> Value:
        """Call `read` with the segments of the index; after a compaction, again with those of then."""
        while True:
            segments = self._index.segments
            try:
                return read(segments)
            except IndexNotFoundError as error:
                self._renew(segments, error)

    def _renew(self, stale: Segments, error: IndexNotFoundError) -> None:
        """Show the index as it is now, since a table of a segment is gone. Raise `error` if it is unchanged."""
        if not self._index.refresh() and self._index.segments == stale:
            raise error

    def _completions(self, text: str) -> Iterator[tuple[str, int]]:
        return completions(self._index, self._units.tokenizer, text)


class _Catalogue:
    """What an index knows of predicates and hubs besides its facts."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._state: tuple[object, ...] = ()
        self._described: dict[str, Predicate] = {}
        self._inverse: dict[str, str | None] = {}
        self._hubs: dict[str, dict[str, int]] = {}

    def describe(self, predicates: Sequence[str]) -> dict[str, Predicate]:
        self._renew()
        described = self._described
        unknown = {name for name in predicates if name not in described}
        for name, named in (self._index.ids_of(unknown) if unknown else {}).items():
            if named.object_kind is not None:
                described[name] = Predicate(name, named.id, named.object_kind == "inverse", _kind(named))
        return {name: described[name] for name in predicates if name in described}

    def inverse_of(self, predicate: str) -> str | None:
        self._renew()
        inverse = self._inverse
        if predicate not in inverse:
            inverse[predicate] = self._find_inverse(predicate)
        return inverse[predicate]

    def _find_inverse(self, predicate: str) -> str | None:
        described = self.describe([predicate]).get(predicate)
        if described is None or described.id is None:
            return None
        pairs: Mapping[str, str] = self._index.entry.report.get("inverse_properties", {})
        if described.id in pairs or described.id in pairs.values():
            # Such a predicate has the facts of its property and the inverse ones of others (P1696). If two properties
            # are each other's inverse, and of no third one, all facts of one are those of the other backwards.
            other = pairs.get(described.id, "")
            same = [one for one in pairs.values() if one in (described.id, other)]
            if pairs.get(other) != described.id or len(same) != 2:
                return None
            return self._index.names_of([other]).get(other)
        return self._index.names_of([described.id], inverse=not described.inverse).get(described.id)

    def names_of(self, ids: Sequence[str]) -> dict[str, str]:
        return self._index.names_of(ids)

    def hub_counts(self, subjects: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
        """Return the predicates of hubs, whose facts the index counts without having them, and these counts.

        Those of subjects that are no hubs are empty.
        """
        self._renew()
        hubs = self._hubs
        unknown = [subject for subject in dict.fromkeys(subjects) if subject not in hubs]
        if unknown:
            found = self._index.hubs(unknown)
            hubs.update({subject: found.get(subject, {}) for subject in unknown})
        return hubs

    def _renew(self) -> None:
        """Forget what was read if the index has changed: new facts may have objects of another kind."""
        state = (self._index.name_tables, *(id(tree) for _, tree in self._index.segments))
        if self._state != state:
            self._state, self._described, self._inverse, self._hubs = state, dict(_WITHOUT_ID), {}, {}


def _kind(named: Named) -> ValueKind:
    return _KINDS.get(named.object_kind or "", "literal")


def _last_part(text: str) -> str:
    return text.rpartition("<")[2].removesuffix(">")
