"""The facts of an index as a `FactSet`: a subject's facts with a predicate are those below ` <subject> <predicate>`.

Counts are leaf counts; where facts may have qualifiers (`Index.has_statements`), a fact counts without these, and is found
one by one: a statement beside a plain fact is no second one, and one without it none. Many subjects or facts at once are
read with a few round trips. With a tokenizer whose tokens cross the parts of facts, completions of texts take the place of
prefixes: they are always right, and slower.

They need a tokenizer none of whose tokens has text of two parts (`Units.are_whole`). Then the ids of a fact are those
of its parts one after another, and the first token with a closing bracket ends a part.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from typing import TypeVar, get_args

import numpy as np

from refactx.decoding.names import Units
from refactx.decoding.states import FactSource
from refactx.fact import (
    ALIAS_OF,
    DESCRIPTIONS,
    Link,
    LinkedFact,
    Qualifiers,
    qualifiers_of,
    split_fact,
    unit,
    verbalise,
)
from refactx.index.index import Index, completions, token_sequences
from refactx.linking.linker import Linker
from refactx.tree.bulk import facts_exist, read_ahead, surviving
from refactx.tree.stored import StoredTree
from refactx.tree.tree import Path, PathTree
from refactx.walks.language import Predicate, ValueKind

Segments = Sequence[tuple[int, StoredTree]]
ENTRIES_AT_ONCE = 8192
"""Facts that are decoded one by one between two checks whether to continue."""
AT_ONCE = 256
"""Subjects whose prefixes are read together: the first object waits for all of them."""
_KINDS: Mapping[str, ValueKind] = {"inverse": "entity", **{kind: kind for kind in get_args(ValueKind)}}
_WITHOUT_ID = {
    **{name: Predicate(name, None, False, "text") for name in DESCRIPTIONS},
    ALIAS_OF: Predicate(ALIAS_OF, None, False, "entity"),
}


def parts_below(
    tree: PathTree, prefix: Path, closing: frozenset[int], *, ends: bool = False
) -> Iterator[tuple[Path, int]]:
    """Yield the ids of each part that continues a prefix, and the number of facts with it, in ascending order. `ends`: only
    those with which a fact ends, which are objects.

    Raises as `StoredTree.children` does.
    """
    waiting, skipped = [(prefix, 0)], len(prefix)
    while waiting:
        path, leaves = waiting.pop()
        if len(path) > skipped and path[-1] in closing:
            if count := tree.children(path).terminal if ends else leaves:
                yield path[skipped:], count
            continue
        below = tree.children(path)
        if len(below.tokens) == 1:
            # Without an alternative up to the end of the part, no node in between is needed.
            only = tree.only_path(path).tolist() or below.tokens.tolist()
            end = next((n for n, token in enumerate(only, 1) if token in closing), len(only))
            waiting.append(((*path, *only[:end]), int(below.leaves[0])))
            continue
        tokens, counts = below.tokens.tolist(), below.leaves.tolist()
        waiting += [((*path, token), count) for token, count in zip(tokens[::-1], counts[::-1], strict=True)]


def count_facts(tree: PathTree, prefixes: Sequence[Path]) -> list[int]:
    """Return how many facts begin with each prefix, with few round trips. Raises as `StoredTree.children` does."""
    read_ahead(tree, dict.fromkeys(prefixes))
    return [tree.children(prefix).total for prefix in prefixes]


def begins_of(segments: Segments, ends: Sequence[Path], lasts: Callable[[], bool]) -> Iterator[tuple[Path, int]]:
    """Yield the token ids before one of some ends, and the number of that end, for each fact that has it.

    No end may be the end of another one. The scan stops if `lasts`, which is called now and then, returns False. Raises
    as `refactx.tree.bulk.surviving` does.
    """
    wanted = [np.array(end, np.uint32) + np.uint32(1) for end in ends]  # as entry matrices have token ids
    for matrix in surviving(segments):
        lengths = (matrix > 0).sum(1)
        for number, end in enumerate(wanted):
            rows = np.flatnonzero(lengths > len(end))
            for back, token in enumerate(end[::-1], 1):
                rows = rows[matrix[rows, lengths[rows] - back] == token]
                if not len(rows):
                    break
            for row, length in zip(rows.tolist(), (lengths[rows] - len(end)).tolist(), strict=True):
                yield tuple((matrix[row, :length].astype(np.int64) - 1).tolist()), number
        if not lasts():
            return


def sequences(segments: Segments, lasts: Callable[[], bool]) -> Iterator[Path]:
    """Yield the token ids of every fact, in order; stop if `lasts` returns False. Raises as `begins_of` does."""
    for number, tokens in enumerate(token_sequences(segments), 1):
        yield tokens
        if number % ENTRIES_AT_ONCE == 0 and not lasts():
            return


def drawn_subjects(index: FactSource, count: int, seed: str) -> Iterator[str]:
    """Yield the subjects of facts that are drawn by chance."""
    chance, table = random.Random(seed), index.tokenizer.token_bytes  # noqa: S311 - not for secrets
    for _ in range(count):
        path, text = list[int](), b""
        while b">" not in text and len((below := index.children(path)).tokens):
            path += chance.choices(below.tokens.tolist(), below.leaves.tolist())
            text += table[path[-1]]
        yield text.partition(b"<")[2].partition(b">")[0].decode("utf-8", "replace")


Value = TypeVar("Value")


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
            found_texts = self._completions(f"{before} <")
            if self._index.has_statements:
                names = [_last_part(text) for text, _ in found_texts]
                return {name: n for name in names if (n := sum(1 for _ in self.objects([subject], name)))}
            return {_last_part(text): count for text, count in found_texts}
        (prefix,) = self._units.encode([subject])
        found = self._with_tree(lambda tree: list(parts_below(tree, prefix, self._units.closing)))
        if self._index.has_statements:
            found = [(part, count) for part, _ in found if (count := self._count_objects((*prefix, *part)))]
        present = {self._units.text(part): leaves for part, leaves in found}
        return present | dict(self._catalogue.hub_counts([subject]).get(subject, {}))

    def describe(self, predicates: Sequence[str]) -> dict[str, Predicate]:
        """Return predicates by name, without those that the name tables do not have."""
        return self._catalogue.describe(predicates)

    def link(self, name: str, id_: str | None) -> Link:
        """Return the link of a name and its id, with the address of its page."""
        return self._index.link(name, None if id_ is None else self._own_id(id_))

    def inverse_of(self, predicate: str) -> str | None:
        """Return the predicate that has the same facts, read the other way; None if there is none."""
        return self._catalogue.inverse_of(predicate)

    def counts(self, subjects: Sequence[str], predicate: str) -> list[int]:
        """Return how many facts each subject has with a predicate."""
        if self._units.are_whole:
            prefixes = self._prefixes(subjects, predicate)
            present = self._with_tree(lambda tree: count_facts(tree, prefixes))
            if self._index.has_statements:  # a single fact may be a statement without its plain fact
                present = [count and self._count_objects(one) for count, one in zip(present, prefixes, strict=True)]
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
                # A token may have the end of an object and the begin of what follows: a text then comes twice.
                for text in dict(self._completions(f"{unit(subject)}{unit(predicate)} <")):
                    if not self._index.has_statements or text in self._index:
                        yield subject, _last_part(text)
            return
        for low in range(0, len(subjects), AT_ONCE):
            some = subjects[low : low + AT_ONCE]
            prefixes = self._prefixes(some, predicate)
            if len(some) > 1:
                self._with_tree(partial(count_facts, prefixes=prefixes))  # reads their rows at once
            for subject, prefix in zip(some, prefixes, strict=True):
                for part in self._parts(prefix):
                    yield subject, self._units.text(part)

    @property
    def has_statements(self) -> bool:
        """Whether some facts have qualifiers."""
        return self._index.has_statements

    def statements(self, subjects: Sequence[str], predicate: str) -> Iterator[tuple[str, str, Qualifiers]]:
        """Yield the subject, the object and the qualifiers of all facts with a predicate: none for a plain fact, which comes
        before those that it begins.

        A statement that is not of the best rank has no plain fact. They are read while they are taken.
        """
        for subject in subjects:
            if self._units.are_whole:
                for prefix in self._prefixes([subject], predicate):
                    for object_, *rest in self._parts_of_facts(prefix, ()):
                        yield subject, object_, tuple(zip(rest[::2], rest[1::2], strict=True))
                continue
            for text in self._texts_of_facts(f"{unit(subject)}{unit(predicate)}", 1):
                object_ = (split_fact(text) or ("", "", ""))[2]
                yield subject, object_, qualifiers_of(text)

    def qualifiers(self, subject: str, predicate: str, object_: str) -> list[Qualifiers]:
        """Return the qualifiers of each statement that a fact begins, of whatever rank."""
        found = self.statements([subject], predicate)
        return [qualifiers for _, other, qualifiers in found if other == object_ and qualifiers]

    def hold(self, facts: Sequence[tuple[str, str, str]]) -> list[bool]:
        """Return which facts (subject, predicate, object) exist."""
        if self._units.are_whole:
            ids = self._units.encode([part for fact in facts for part in fact])
            sequences = [(*ids[at], *ids[at + 1], *ids[at + 2]) for at in range(0, len(ids), 3)]
        else:
            sequences = self._units.encode_texts([verbalise(*fact) for fact in facts])
        return self._with_tree(lambda tree: facts_exist(tree, sequences))

    def origins(self, subject: str, predicate: str, object_: str) -> list[str]:
        """Return the indexes that have a fact, of several that are read as one; empty for a single one."""
        return self._index.origins(verbalise(subject, predicate, object_)) if self._index.is_joined else []

    def with_references(self, facts: Sequence[LinkedFact]) -> list[LinkedFact]:
        """Return facts with their references."""
        return self._index.with_references(facts)

    def count_predicates(self, lasts: Callable[[], bool] = lambda: True) -> dict[str, tuple[int, str]]:
        """Return each predicate with the number of its facts, and the text of one, by reading the whole index.

        Those with most facts are first.
        """
        closing, whole, decode = self._units.closing, self._units.are_whole, self._units.tokenizer.decode
        has_statements = self._index.has_statements

        def read(segments: Segments) -> dict[Path, tuple[int, Path]]:
            counts, first = Counter[Path](), dict[Path, Path]()
            for ids in sequences(segments, lasts):
                if has_statements and (
                    sum(map(closing.__contains__, ids)) > 3 if whole else qualifiers_of(decode(ids))
                ):
                    continue
                key: Path = ()
                if whole:
                    key = ids[slice(*islice((at for at, token in enumerate(ids, 1) if token in closing), 2))]
                elif parts := split_fact(decode(ids)):
                    [key] = self._units.encode(parts[1:2])
                counts[key] += 1
                first.setdefault(key, ids)
            return {key: (count, first[key]) for key, count in counts.most_common()}

        found = self._with_segments(read)
        return {self._units.text(key): (count, decode(ids).strip()) for key, (count, ids) in found.items()}

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
            yield from (
                fact
                for text in texts
                if (fact := split_fact(text)) is not None and fact[1:] in wanted and not qualifiers_of(text)
            )
            return
        ids = self._units.encode([part for end in ends for part in end])
        paths = [(*ids[at], *ids[at + 1]) for at in range(0, len(ids), 2)]
        closing, has_statements = self._units.closing, self._index.has_statements
        for begin, number in begins_of(segments, paths, lasts):
            if has_statements and sum(map(closing.__contains__, begin)) != 1:  # the pair is a qualifier and its value
                continue
            yield self._units.text(begin), *ends[number]

    def ids(self, names: Sequence[str]) -> dict[str, str]:
        """Return the ids of entities and properties by name, without names that have none."""
        return {name: named.id for name, named in self._index.ids_of(names).items()}

    def names(self, ids: Sequence[str], *, inverse: bool = False) -> dict[str, str]:
        """Return the names of entities and properties by id, or of the predicates that read these backwards. In a Wikibase,
        IRIs of its own are ids too."""
        if self.base is None:
            return self._index.names_of(ids, inverse=inverse)
        own = {id_: self._own_id(id_) for id_ in ids}
        found = self._index.names_of(own.values(), inverse=inverse)
        return {id_: found[one] for id_, one in own.items() if one in found}

    @property
    def base(self) -> str | None:
        """The beginning of all IRIs of a Wikibase other than Wikidata; None of another graph."""
        return self._index.base

    def _own_id(self, id_: str) -> str:
        is_own = self.base is not None and id_.startswith((f"{self.base}entity/", f"{self.base}prop/direct/"))
        return id_.rpartition("/")[2] if is_own else id_

    @cached_property
    def linker(self) -> Linker:
        """What names mean in the index, as people write them."""
        return Linker(self._index, self)

    # --- The tree

    def _prefixes(self, subjects: Sequence[str], predicate: str) -> list[Path]:
        *begins, end = self._units.encode([*subjects, predicate])
        return [(*begin, *end) for begin in begins]

    def _parts(self, prefix: Path) -> Iterator[Path]:
        """Yield the ids of each object below a prefix. After a compaction, continue with the index as it is then."""
        last: Path = ()
        for part, _ in self._index.stream(
            lambda snapshot: parts_below(snapshot.tree, prefix, self._units.closing, ends=snapshot.has_statements)
        ):
            if part > last:
                yield part
                last = part

    def _parts_of_facts(self, prefix: Path, parts: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """Yield the parts after a prefix of each fact that begins with it: those so far, and two more for a qualifier."""
        for path, text in self._parts_from(prefix):
            longer = (*parts, text)
            if len(longer) % 2:
                if self._index.children(path).terminal:
                    yield longer
                if not self._index.has_statements:
                    continue
            yield from self._parts_of_facts(path, longer)

    def _parts_from(self, prefix: Path) -> list[tuple[Path, str]]:
        found = self._with_tree(lambda tree: list(parts_below(tree, prefix, self._units.closing)))
        return [((*prefix, *part), self._units.text(part)) for part, _ in found]

    def _texts_of_facts(self, text: str, more: int) -> Iterator[str]:
        """Yield the texts of facts that begin with a text and have `more` parts after it, or two for each qualifier too."""
        for longer in dict(self._completions(f" {text.lstrip()} <")):
            if more == 1:
                if longer in self._index:
                    yield longer
                yield from self._texts_of_facts(longer, 2)
            else:
                yield from self._texts_of_facts(longer, 1)

    def _count_objects(self, prefix: Path) -> int:
        return sum(1 for _ in self._parts(prefix))

    def _with_tree(self, read: Callable[[PathTree], Value]) -> Value:
        """Call `read` with the tree of the index; after a compaction, again with that of then."""
        return self._index.read(lambda snapshot: read(snapshot.tree))

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
                described[name] = Predicate(
                    name, named.id, inverse, _KINDS.get(named.object_kind or "", "literal"), also
                )
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


def _last_part(text: str) -> str:
    return text.rpartition("<")[2].removesuffix(">")
