"""Two indexes of one tokenizer, read as one: the facts of both, each once, and the names of both.

Its tree is the signed sum of the segments of both, and of two segments in memory: one takes away what both have, so that
each fact counts once; the other has the facts of things that the indexes call otherwise. A thing is known by its id: the
second index's facts about it get the name that the first has for the id. What has the same name and another id in both is
two things, and the second index's is called `Name (index)`. Things without ids are known by their names. Literals stay.

Hubs are those of either index. So the second index's inverse facts about a hub of the first are counted, not listed, but
those of a predicate that has claims of its own.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, islice, tee
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from refactx.errors import IndexNotFoundError, InputError, TokenizerMismatchError
from refactx.fact import DESCRIPTIONS, Fact, Link, LinkedFact, qualifiers_of, split_fact, verbalise
from refactx.index.index import CACHE_BYTES, Index, changed_sequences, ready_inverses, token_sequences
from refactx.index.names import LITERAL_KINDS, Named, ReadBlocks, pack_blocks, pack_id_blocks
from refactx.index.source import Segment, Snapshot, StandbyWait, tree_of
from refactx.postgres.entry import CatalogueEntry, IndexVersion
from refactx.tokenizer import FactTokenizer
from refactx.tree.bulk import facts_exist, joined
from refactx.tree.codes import RowCodec, TokenCodes, offsets_of, shared_lengths
from refactx.tree.piece import Piece, row_key, to_members
from refactx.tree.stored import StoredTree

if TYPE_CHECKING:
    from refactx.postgres.database import Database

MOST_SHARED = 1_000_000
"""The most facts that two indexes may share, or call otherwise: these are in memory, some 300 bytes each."""
AT_ONCE = 8192
"""Facts of the second index that are looked up in the first together."""
MOST_CHANGED = 65_536
"""With more changed facts since the last look, all are looked up."""
_NAMES_AT_ONCE = 40
_ATTEMPTS = 5
_LINKED = 65_536
"""Ids of which it is kept which index names them, where their pages differ."""

Value = TypeVar("Value")
Tokens = tuple[int, ...]
Hub = tuple[str, str]
"""An object and the predicate of its inverse facts."""


class MemoryRows:
    """The rows of a segment in memory: a single one."""

    round_trips, seconds = 0, 0.0

    def __init__(self, rows: Mapping[bytes, bytes]) -> None:
        self._rows = rows

    def fetch(self, key: bytes) -> bytes | None:
        """Return the row with a key; None if there is none."""
        return self._rows.get(key)

    def fetch_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the rows with some keys."""
        return {key: self._rows[key] for key in keys if key in self._rows}

    def count(self) -> int:
        return len(self._rows)


def memory_segment(facts: Sequence[Tokens], sign: int, name: str) -> Segment:
    """Return a segment of distinct, ascending facts (token ids), at least one, in memory. `name`: of the index, for errors."""
    tokens, offsets = joined(facts)
    codes, codec, key = TokenCodes.from_sample(tokens), RowCodec(level=1), row_key(0, [])
    shared = shared_lengths(tokens, offsets)
    own = np.arange(len(tokens)) >= np.repeat(offsets[:-1] + shared, np.diff(offsets))
    data, sizes = codes.encode(tokens[own])
    ends = offsets_of(sizes.astype(np.int64))[offsets_of((np.diff(offsets) - shared).astype(np.int64))]
    piece = Piece.of_facts(lcp=shared.astype(np.uint32), ends=ends.astype(np.int32), codes=data.tobytes())
    rows = MemoryRows({key: codec.pack(key, to_members(piece))})
    tree = StoredTree(rows, codec, codes, levels=1, facts=len(facts), name=name)
    return Segment(number=0, sign=sign, tokens=len(tokens), tree=tree, rows=rows)


class JoinedIndex(Index):
    """Several open indexes of one tokenizer, read as one; it closes them. `parts`: they, in any order.

        with refactx.open_index("wikidata,mine") as index:
            index.origins("<Oslo> <capital of> <Norway> .")  # ["wikidata"]

    Names are those of the largest, then of the next one. Raises TokenizerMismatchError if their tokenizers differ, InputError
    if they have not the same trigger and terminator, or share more than `MOST_SHARED` facts.
    """

    is_joined = True

    def __init__(self, parts: Sequence[Index], *, cache_bytes: int = CACHE_BYTES) -> None:
        name = ",".join(part.name for part in parts)
        self.parts = tuple(parts)
        first, *others = sorted(parts, key=lambda part: -part.facts)
        for part in others[:-1]:
            first = JoinedIndex([first, part], cache_bytes=cache_bytes)
        self._joined = JoinedSource(first, others[-1], name)
        super().__init__(self._joined, cache_bytes=cache_bytes)

    @property
    def part_names(self) -> tuple[str, ...]:
        """The names of the parts."""
        return tuple(part.name for part in self.parts)

    def origins(self, fact: str) -> list[str]:
        """Return the names of the parts that have a fact, in their order."""
        found = self._joined.origins(fact)
        return [part.name for part in self.parts if part.name in found]

    def link(self, label: str, id_: str | None) -> Link:
        """Return the link of a part and its id, with the page that it has in the first index that names it."""
        return self._joined.link(label, id_)

    def links(self, fact: Fact) -> LinkedFact:
        """Return the parts of a fact with their ids, and the indexes that have it."""
        return replace(super().links(fact), indexes=tuple(self.origins(fact.text)))

    def links_of(self, facts: Iterable[Fact]) -> Iterator[LinkedFact]:
        """Yield `links` of each fact, in order."""
        waiting, again = tee(facts)
        for linked, fact in zip(super().links_of(waiting), again, strict=False):
            yield replace(linked, indexes=tuple(self.origins(fact.text)))

    def references_of(self, facts: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the references of facts, given as texts without terminators, in all parts."""
        found = [part.references_of([self._joined.own_text(part.name, one) for one in facts]) for part in self.parts]
        return [tuple(dict.fromkeys(chain(*urls))) for urls in zip(*found, strict=True)]

    def text_in(self, index: str, fact: str) -> str:
        """Return the text of a fact with the names that a part has."""
        return self._joined.text_in(index, fact)


class JoinedSource:
    """Two open indexes as what an `Index` reads. `first`: the one whose names count; `name`: of both together.

    Raises TokenizerMismatchError if their tokenizers, or the texts around their facts, differ.
    """

    def __init__(self, first: Index, second: Index, name: str) -> None:
        self.first, self.second = first, second
        _check_match(first, second)
        self.entry = _joined_entry(first.entry, second.entry, name)
        self._names = _JoinedNames(first, second)
        self._facts = _JoinedFacts(first, second, self._names, name)
        self._is_of_first = lru_cache(_LINKED)(
            lambda id_: bool(first.names_of([id_]) or first.names_of([id_], inverse=True))
        )

    @property
    def database(self) -> "Database":
        """Raise InputError: there may be two."""
        self._refuse("is read as one, and this needs a single index")

    def _refuse(self, what: str) -> NoReturn:
        raise InputError(f"{self.entry.name} {what}: give one of {self.first.name} and {self.second.name}")

    def snapshot(self, cache_bytes: int, before: Sequence[Segment] = ()) -> Snapshot:
        """Return both as they are now. The parts keep their segments and caches themselves."""
        for _ in range(_ATTEMPTS):
            self.first.refresh()
            self.second.refresh()
            both = one, other = self.first.snapshot, self.second.snapshot
            try:
                self._names.renew()
                own = self._facts.segments(*both)
                break
            except IndexNotFoundError:  # one was compacted meanwhile
                continue
        else:
            raise IndexNotFoundError(f"{self.entry.name} changes again and again, or one was dropped: open it again")
        segments = (*one.segments, *other.segments, *own)
        mark = IndexVersion(
            one.mark.index, (*one.mark.segments, *other.mark.segments), (*one.mark.names, *other.mark.names)
        )
        return Snapshot(
            segments,
            tree_of(segments, cache_bytes),
            self._names.tables,
            mark,
            one.has_statements or other.has_statements,
        )

    def standby_wait(self) -> StandbyWait | None:
        """Return None: the parts wait themselves."""
        return None

    def prepare_tokenizer(self) -> Callable[[], FactTokenizer]:
        """Return what has the tokenizer of both."""
        return lambda: self.first.tokenizer

    def read_names(self, find: Callable[[ReadBlocks], Value], *, unlimited: bool = False) -> Value:
        """Return what `find` finds in blocks of the names of both."""
        return find(self._names.read)

    def name_rows(self, table: int, first: bytes) -> list[tuple[bytes, bytes]]:
        """Return the keys and blocks of a name table from the key `first` on."""
        return self._names.rows(table, first)

    def hubs(self, objects: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return the subjects of hubs of either index, which both together have, by object and inverse predicate."""
        return self._facts.hubs(list(objects))

    def origins(self, fact: str) -> list[str]:
        """Return the names of the indexes that have a fact, given as its text, of which one begins the other's."""
        return [*self.first.origins(fact), *self.second.origins(self._names.own_text(fact))]

    def link(self, label: str, id_: str | None) -> Link:
        """Return the link of a part and its id, as the index has it that names it, the first one if both do."""
        is_same = self.first.page_pattern == self.second.page_pattern and not self.first.is_joined
        return (self.first if is_same or id_ is None or self._is_of_first(id_) else self.second).link(label, id_)

    def text_in(self, index: str, fact: str) -> str:
        """Return the text of a fact as one of the indexes has it, or would have it: a name that it lacks stays."""
        return self._names.text_there(fact) if index == self.second.name else self.first.text_in(index, fact)

    def own_text(self, index: str, fact: str) -> str:
        """Return the text of a fact as one of the indexes has it; empty if it cannot have it."""
        return self._names.own_text(fact) if index == self.second.name else self.first.text_in(index, fact)

    def faults(self) -> Iterable[str]:
        """Check both."""
        yield from self.first.faults()
        yield from self.second.faults()

    def close(self) -> None:
        """Close both."""
        self.first.close()
        self.second.close()


def _check_match(first: Index, second: Index) -> None:
    for one, other, what in (
        (first.trigger, second.trigger, "trigger"),
        (first.terminator, second.terminator, "terminator"),
    ):
        if one != other:
            raise InputError(
                f"indexes {first.name!r} and {second.name!r} differ in the {what} of their facts ({one!r}, {other!r}): "
                "ingest one of them again with that of the other"
            )
    if first.fingerprint == second.fingerprint:
        return
    if first.tokenizer.fingerprint_of_facts != second.tokenizer.fingerprint_of_facts:
        raise TokenizerMismatchError(
            f"index {first.name!r} was built for tokenizer {first.tokenizer_name}, {second.name!r} for "
            f"{second.tokenizer_name}, so they cannot be read as one: build one of them for the tokenizer of the other, "
            "with `refactx ingest --kb NAME --tokenizer MODEL`"
        )


def _joined_entry(one: CatalogueEntry, other: CatalogueEntry, name: str) -> CatalogueEntry:
    """Return the entry of two indexes as one: that of the first, with what both know of predicates."""
    report: dict[str, Any] = {key: value for key, value in one.report.items() if key != "changes"}
    report["ready_inverses"] = {**ready_inverses(other.report), **ready_inverses(one.report)}
    for key in ("inverse_properties", "property_aliases"):
        report[key] = {**other.report.get(key, {}), **one.report.get(key, {})}
    aliases = other.report.get("property_aliases", {})
    for predicate, own in one.report.get("property_aliases", {}).items():
        report["property_aliases"][predicate] = sorted({*own, *aliases.get(predicate, ())})
    counts = [entry.report["hubs"] for entry in (one, other) if isinstance(entry.report.get("hubs"), int)]
    report["hubs"] = sum(counts) if counts else None
    return replace(one, name=name, report=report, source=(*one.source, *other.source))


class _JoinedNames:
    """The names of two indexes. Their tables are numbered 3n + 1 and 3n + 2; a table in memory is a multiple of three.

    `renamed`: names of the second index, each with the one that its thing has here; `original`: the other way. Literals
    are never renamed.
    """

    def __init__(self, first: Index, second: Index) -> None:
        self._parts = (first, second)
        self._seen: tuple[tuple[int, ...], ...] = ()
        self._rows: list[tuple[bytes, bytes]] = []
        self._number = 0
        self.tables: tuple[int, ...] = ()
        self.renamed: dict[str, str] = {}
        self.original: dict[str, str] = {}
        self._own_literals, self._literals = set[str](), set[str]()

    def renew(self) -> None:
        """Compare the names of both, if a table was added."""
        seen = tuple(part.name_tables for part in self._parts)
        if seen == self._seen:
            return
        own, self.renamed, self._own_literals = self._compared()
        self.original = {new: old for old, new in self.renamed.items()}
        self._literals = {self.renamed.get(name, name) for name in self._own_literals}
        codec = RowCodec(level=1)
        numbers = sorted(
            {-one.number if one.object_kind == "inverse" else one.number: n for n, one in own.items()}.items()
        )
        by_name = sorted(own.items(), key=lambda row: row[0].encode())
        self._rows = [*pack_id_blocks(numbers, codec), *pack_blocks(by_name, codec)]
        self._number, self._seen = self._number + 3, seen
        tables = [3 * table + place for place, part in enumerate(seen, 1) for table in part]
        self.tables = (self._number, *tables) if self._rows else tuple(tables)

    def _compared(self) -> tuple[dict[str, Named], dict[str, str], set[str]]:
        """Return names that neither index has so, names of the second index by which its things are not called here, and its
        predicates of literals."""
        first, second = self._parts
        own, renamed, kept, literals = dict[str, Named](), dict[str, str](), set[str](), set(DESCRIPTIONS)
        for some in _batches(second.name_rows(), _NAMES_AT_ONCE):
            named = {name: one for key, block in some for name, one in second.unpack_names(key, block).items()}
            numbers = {name: -one.number if one.object_kind == "inverse" else one.number for name, one in named.items()}
            called, known = first.names_of_numbers(numbers.values()), first.ids_of(named)
            inverses = first.names_of({one.id for one in named.values() if one.object_kind == "inverse"}, inverse=True)
            apart = dict[str, Named]()
            for name, one in named.items():
                if name in kept:  # an older table has it too
                    continue
                kept.add(name)
                literals |= {name} if one.object_kind in LITERAL_KINDS else set()
                same = known.get(name)
                there = inverses.get(one.id) if one.object_kind == "inverse" else called.get(numbers[name])
                if there is not None and there != name:
                    renamed[name] = there
                elif there is None and same is not None and same.id != one.id:
                    apart[name] = one
                elif same is not None and same.object_kind != one.object_kind:
                    own[name] = Named(one.id, _kind_of_both(same.object_kind, one.object_kind), one.number)
            new = {name: f"{name} ({second.name})" for name in apart}
            taken = {**first.ids_of(new.values()), **second.ids_of(new.values())} if new else {}
            for name, one in apart.items():
                renamed[name] = called_so = f"{new[name]} ({one.id})" if new[name] in taken else new[name]
                own[called_so] = one
        return own, renamed, literals

    def name_here(self, name: str) -> str:
        """Return what a thing of the second index is called here."""
        return self.renamed.get(name, name)

    def own_name(self, name: str) -> str:
        """Return what a thing is called in the second index; empty if its name is that of another thing there."""
        return self.original.get(name, "" if name in self.renamed else name)

    def own_text(self, fact: str) -> str:
        """Return the text of a fact as the second index has it; empty if a name in it is that of another thing there."""
        text = self._with_names(fact, self.own_name, self._literals)
        return "" if "<>" in text else text

    def text_there(self, fact: str) -> str:
        """Return `own_text`, with a name that is another thing's as it is."""
        return self._with_names(fact, lambda name: self.own_name(name) or name, self._literals)

    def text_here(self, fact: str) -> str:
        """Return the text of a fact of the second index with the names that its things have here."""
        return self._with_names(fact, self.name_here, self._own_literals)

    def _with_names(self, fact: str, new: Callable[[str], str], literals: Collection[str]) -> str:
        """Return a fact with new names. `literals`: predicates, by their names in the fact, whose objects stay."""
        parts = split_fact(fact) if self.renamed else None
        if parts is None:
            return fact
        pairs = [
            (new(name), value if name in literals else new(value)) for name, value in (parts[1:], *qualifiers_of(fact))
        ]
        return verbalise(new(parts[0]), *pairs[0], tuple(pairs[1:]))

    def read(self, table: int, keys: list[bytes], first: bytes) -> Mapping[bytes, bytes]:
        """Return the blocks in which the entries of keys would be (`ReadBlocks`)."""
        number, part = divmod(table, 3)
        if part:
            return self._parts[part - 1].read_blocks(number, keys, first)
        there = [key for key, _ in self._rows]
        found = (self._rows[at - 1] for key in keys if (at := bisect_right(there, key)))
        return {key: block for key, block in found if key >= first}

    def rows(self, table: int, first: bytes) -> list[tuple[bytes, bytes]]:
        number, part = divmod(table, 3)
        if part:
            return self._parts[part - 1].name_table_rows(number, first)
        return [row for row in self._rows if row[0] >= first]


def _kind_of_both(one: str | None, other: str | None) -> str | None:
    """Return the kind of objects of a property that two indexes know with different kinds.

    >>> _kind_of_both("time", "text"), _kind_of_both("time", "entity"), _kind_of_both(None, "entity")
    ('literal', 'mixed', 'entity')
    """
    if one is None or other is None:
        return one or other
    return "literal" if {one, other} <= set(LITERAL_KINDS) else "mixed"


class _JoinedFacts:
    """What the sum of two indexes has too often, and what it has under another name.

    `_removed`: token ids of facts, each with the hub that its claim counts for in both indexes; `_added`: token ids.
    """

    def __init__(self, first: Index, second: Index, names: _JoinedNames, name: str) -> None:
        self._first, self._second, self._names, self._name = first, second, names, name
        self._seen: tuple[Snapshot, Snapshot] | None = None
        self._had_renamed = False
        self._removed: dict[Tokens, Hub | None] = {}
        self._added: set[Tokens] = set()
        self._shared = Counter[Hub]()
        self._segments: tuple[Segment, ...] = ()

    def segments(self, one: Snapshot, other: Snapshot) -> tuple[Segment, ...]:
        """Return the segments in memory for two snapshots. Raises IndexNotFoundError if a table of one is gone."""
        if self._seen is not None and one.same_as(self._seen[0]) and other.same_as(self._seen[1]):
            return self._segments
        changed = None if self._seen is None else self._changed(self._seen, (one, other))
        self._seen = None  # until all is looked up
        if changed is None or self._names.renamed or self._had_renamed:
            self._removed, self._added, self._shared = {}, set(), Counter()
            self._had_renamed = bool(self._names.renamed)
            facts = token_sequences(other.signed_trees)
        else:
            for fact in changed:
                self._shared[self._removed.pop(fact, None) or ("", "")] -= 1
            facts = iter(_those_in(other, changed))
        for some in _batches(facts, AT_ONCE):
            self._compare(some, one, other)
        signed = ((-1, sorted(self._removed)), (1, sorted(self._added)))
        self._segments = tuple(memory_segment(found, sign, self._name) for sign, found in signed if found)
        self._seen = one, other
        return self._segments

    def _changed(self, before: tuple[Snapshot, Snapshot], now: tuple[Snapshot, Snapshot]) -> list[Tokens] | None:
        """Return the facts that either index got or lost, ascending; None if these are many, or no longer known."""
        found = set[Tokens]()
        for old, new in zip(before, now, strict=True):
            gone, come = ({id(s): s for s in part.segments} for part in (old, new))
            segments = [(s.sign, s.tree) for key, s in come.items() if key not in gone]
            segments += [(-s.sign, s.tree) for key, s in gone.items() if key not in come]
            if sum(tree.facts for _, tree in segments) > MOST_CHANGED:
                return None
            try:
                found.update(fact for _, fact in changed_sequences(segments))
            except IndexNotFoundError:
                return None
        return sorted(found)

    def _compare(self, facts: Sequence[Tokens], one: Snapshot, other: Snapshot) -> None:
        """Look up facts of the second index in the first."""
        texts = [self._first.tokenizer.decode(fact) for fact in facts] if self._needs_texts else []
        renamed = {
            fact: new for fact, text in zip(facts, texts, strict=False) if (new := self._new_ids(text)) is not None
        }
        wanted = [renamed.get(fact, fact) for fact in facts]
        there = set(_those_in(one, wanted))
        kept = [new for new in renamed.values() if self._new_ids(self._first.tokenizer.decode(new)) is None]
        second = set(_those_in(other, kept)) if kept else set()
        parts = [split_fact(self._names.text_here(text)) or ("", "", "") for text in texts]
        hubs = self._hubs_of_each({name for subject, _, object_ in parts for name in (subject, object_)})
        inverses = self._inverses_of({predicate for _, predicate, _ in parts}) if hubs else {}
        for at, fact in enumerate(facts):
            subject, predicate, object_ = parts[at] if parts else ("", "", "")
            is_counted = predicate in hubs.get(subject, {}) and predicate not in inverses  # those of claims are listed
            if is_counted or wanted[at] in there or fact in renamed:
                of_hub = next((i for i in inverses.get(predicate, ()) if i in hubs.get(object_, {})), None)
                hub = (object_, of_hub) if of_hub is not None and wanted[at] in there else None
                self._removed[fact] = hub
                self._shared[hub or ("", "")] += 1
            if fact in renamed and not is_counted and wanted[at] not in there and wanted[at] not in second:
                self._added.add(wanted[at])
        if len(self._removed) > MOST_SHARED:
            raise InputError(
                f"indexes {self._first.name!r} and {self._second.name!r} share more than {MOST_SHARED:,} facts, or have "
                "other names for as many: ingest their sources into one index"
            )

    @property
    def _needs_texts(self) -> bool:
        return bool(self._names.renamed) or self._first.has_hubs or self._second.has_hubs

    def _inverses_of(self, predicates: Collection[str]) -> dict[str, set[str]]:
        """Return the predicates of the inverse facts of claims in either index."""
        here, own = self._names.name_here, {self._names.own_name(one) for one in predicates}
        found = {name: set(some) for name, some in self._first.inverses_of(predicates).items()}
        for name, some in self._second.inverses_of(own).items():
            found.setdefault(here(name), set()).update(map(here, some))
        return found

    def _new_ids(self, text: str) -> Tokens | None:
        """Return the token ids of a fact with the names that it has here; None if these are its own."""
        if (new := self._names.text_here(text)) == text:
            return None
        return tuple(self._first.tokenizer.encode_after(self._first.trigger, new))

    def hubs(self, objects: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return the subjects of hubs: those of both, less those of facts that both have."""
        own, found = self._names.own_name, dict[str, dict[str, int]]()
        for one, inverses in self._hubs_of_each(objects).items():
            for inverse, (of_first, of_second) in inverses.items():
                first = self._first.count(f"<{one}> <{inverse}> <") if of_first is None else of_first
                second = self._second.count(f"<{own(one)}> <{own(inverse)}> <") if of_second is None else of_second
                found.setdefault(one, {})[inverse] = first + second - self._shared[one, inverse]
        return found

    def _hubs_of_each(self, objects: Iterable[str]) -> dict[str, dict[str, list[int | None]]]:
        """Return the subjects of hubs in the first and in the second index, None where one lists them, by object and inverse
        predicate."""
        wanted, here, found = set(objects), self._names.name_here, dict[str, dict[str, list[int | None]]]()
        second = self._second.hubs({self._names.own_name(one) for one in wanted})
        in_second = {here(one): {here(i): count for i, count in some.items()} for one, some in second.items()}
        for place, hubs in enumerate((self._first.hubs(wanted), in_second)):
            for one, some in hubs.items():
                for inverse, count in some.items():
                    found.setdefault(one, {}).setdefault(inverse, [None, None])[place] = count
        return found


def _those_in(snapshot: Snapshot, facts: Sequence[Tokens]) -> list[Tokens]:
    """Return which facts a snapshot has."""
    there = facts_exist(snapshot.tree, facts)
    return [fact for fact, is_there in zip(facts, there, strict=True) if is_there]


def _batches(items: Iterable[Value], size: int) -> Iterator[list[Value]]:
    waiting = iter(items)
    while some := list(islice(waiting, size)):
        yield some
