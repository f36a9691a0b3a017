"""The facts of an index as a `FactSet`: a subject's facts with a predicate are those below ` <subject> <predicate>`.

Counts are leaf counts. Many subjects or facts at once are read with a few round trips. With a tokenizer whose tokens
cross the parts of facts, completions of texts take the place of prefixes: they are always right, and slower.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TypeVar, get_args

from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS, split_fact, unit, verbalise
from refactx.index.index import Index, completions
from refactx.index.names import Named
from refactx.query.fact_set import Predicate, ValueKind
from refactx.query.tree_scan import begins_of, sequences
from refactx.query.tree_walks import Segments, Units, count_facts, facts_exist, parts_below
from refactx.query.values import bare_name
from refactx.tree.tree import Path

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
        """Return the predicate that has the same facts, read the other way; None if there is none."""
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

    @property
    def size(self) -> int:
        """How many facts a scan reads, forgotten ones too."""
        return sum(tree.facts for _, tree in self._index.segments)

    def scan(
        self, ends: Sequence[tuple[str, str]], lasts: Callable[[], bool], most: int | None = None
    ) -> list[tuple[str, str, str]]:
        """Return the facts that end in one of some pairs of a predicate and an object, by reading the whole index.

        With a tokenizer whose tokens cross the parts of facts it takes ten times as long.
        """
        return self._with_segments(lambda segments: list(islice(self._scan(ends, lasts, segments), most)))

    def _scan(
        self, ends: Sequence[tuple[str, str]], lasts: Callable[[], bool], segments: Segments
    ) -> Iterator[tuple[str, str, str]]:
        if not self._units.are_whole:
            texts = map(self._units.tokenizer.decode, sequences(segments, lasts))
            wanted = set(ends)
            yield from (fact for text in texts if (fact := split_fact(text)) is not None and fact[1:] in wanted)
            return
        ids = self._units.encode([part for end in ends for part in end])
        paths = [(*ids[at], *ids[at + 1]) for at in range(0, len(ids), 2)]
        for begin, number in begins_of(segments, paths, lasts):
            yield self._units.text(begin), *ends[number]

    def ids(self, names: Sequence[str]) -> dict[str, str]:
        """Return the ids of entities and properties by name, without names that have none."""
        return {name: named.id for name, named in self._index.ids_of(names).items()}

    def names(self, ids: Sequence[str], *, inverse: bool = False) -> dict[str, str]:
        """Return the names of entities and properties by id, or of the predicates that read these backwards."""
        return self._index.names_of(ids, inverse=inverse)

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
        for part, _ in self._index.stream(
            lambda snapshot: parts_below(snapshot.signed_trees, prefix, self._units.closing)
        ):
            if part > last:
                yield part
                last = part

    def _with_segments(self, read: Callable[[Segments], Value]) -> Value:
        """Call `read` with the segments of the index; after a compaction, again with those of then."""
        return self._index.read(lambda snapshot: read(snapshot.signed_trees))

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
                inverse = named.object_kind == "inverse"
                pairs = {} if inverse else self._pairs
                also = tuple(sorted(one for one, other in pairs.items() if other == named.id))
                described[name] = Predicate(name, named.id, inverse, _kind(named), also)
        return {name: described[name] for name in predicates if name in described}

    def inverse_of(self, predicate: str) -> str | None:
        self._renew()
        inverse = self._inverse
        if predicate not in inverse:
            inverse[predicate] = self._find_inverse(predicate)
        return inverse[predicate]

    def _find_inverse(self, predicate: str) -> str | None:
        one = self.describe([predicate]).get(predicate)
        if one is None or one.id is None:
            return None
        # A predicate has the facts of its property, and the inverse ones of the properties in `also`. Those of two
        # predicates are the same if neither has facts of a third property.
        partner = one.id if one.inverse else self._pairs.get(one.id)
        if partner is None:
            return None if one.also else self._index.names_of([one.id], inverse=True).get(one.id)
        name = self._index.names_of([partner]).get(partner, "")
        other = self.describe([name]).get(name)
        expected = ((), ()) if one.inverse else ((partner,), (one.id,))
        return name if other is not None and (one.also, other.also) == expected else None

    @property
    def _pairs(self) -> Mapping[str, str]:
        """Properties, each with the property that its inverse facts are of (P1696)."""
        pairs: Mapping[str, str] = self._index.entry.report.get("inverse_properties", {})
        return pairs

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
