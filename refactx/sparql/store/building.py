"""The building of a store from an index, and its update after a change of the index.

A triple is removed if its fact was forgotten and no other fact gives it: `<1.5>` and `<1.50>` are one number. So for
each forgotten fact the other facts of its subject and predicate are read.

Facts that have not changed give the triples that they gave before. Where they would not, CannotFollowError is raised:
if facts had a name before it got an id, or if a property gets objects of another kind, so that its values become
literals of other datatypes.

Where the index was compacted, the store moves to the new tables by the note of the compaction
(`refactx.postgres.entry.after_compactions`). A store that cannot follow is built anew: if it belongs to an earlier
index of the name or is damaged, if too much has changed, or in rare cases in which facts that have not changed would
become other triples (`refactx.sparql.store.building`).
"""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import groupby, islice
from pathlib import Path
from shutil import rmtree
from typing import Any

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, Store

from refactx.decoding.names import Units
from refactx.errors import IndexNotFoundError
from refactx.fact import DESCRIPTIONS, Fact
from refactx.index import Index, Named
from refactx.index.index import changed_sequences, fact_of
from refactx.postgres.entry import IndexVersion, after_compactions
from refactx.sparql.store.folder import (
    READ_ERRORS,
    FactStore,
    StoreError,
    StoreFolder,
    StoreMark,
    folder_of,
    open_latest,
)
from refactx.sparql.store.statements import (
    StatementTriples,
    dated,
    has_own_statements,
    has_statements,
    is_own,
    links_of_property,
    predicate_of,
    statements_in_store,
)
from refactx.sparql.store.triples import (
    LABEL,
    OWN,
    Triples,
    entity,
    literal,
    node,
    odd_date,
    own,
    own_names,
    property_,
)
from refactx.walks.facts import TreeFacts

_STRING, _INTEGER = Literal("").datatype, Literal(1).datatype
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
BATCH = 8192
"""Facts that become triples together."""

Advance = Callable[[int], object]
"""Called with a number of facts that are done."""
_NODE = NamedNode(OWN + "node")
SMALL = 10_000
"""So many changed facts are followed however few the index has."""
_PART = 4  # to follow more than a quarter of the facts takes longer than to build the store anew
STORE_FACTS = 200_000
"""An index of at most so many facts has a store from the beginning: 30,000 facts a second, 100 bytes each; 0.04 s at least."""


@dataclass(slots=True, kw_only=True)
class Published:
    """What a store has of a graph as it was published, and beside it.

    `rewritten`: how many of its literals the store gives back in another spelling or datatype of the same value, as it does
    "007"^^xsd:integer, and `example`: one of them, and what it became; `labels`, `added`: triples that the graph does not
    have, those that are labels of names and those of facts.
    """

    rewritten: int = 0
    example: tuple[str, str] | None = None
    labels: int = 0
    added: int = 0

    def watched(self, quads: Iterable[Quad]) -> Iterator[Quad]:
        """Yield quads, and count the literals that a store gives back otherwise."""
        quads = iter(quads)
        while some := list(islice(quads, BATCH)):
            typed = Counter(
                quad.object for quad in some if isinstance(quad.object, Literal) and not _stays(quad.object)
            )
            stored = _stored(typed)
            for literal_ in typed.keys() - stored:  # what a store gives back, it gives back as that again
                self.rewritten += typed[literal_]
                self.example = self.example or (str(literal_), str(*_stored([literal_])))
            yield from some


def _stays(literal: Literal) -> bool:
    """Return whether a store gives back a literal as it is, for certain: a text, or a number as people write it."""
    if literal.datatype == _INTEGER:
        return _WHOLE.fullmatch(literal.value) is not None
    return literal.language is not None or literal.datatype == _STRING


def _stored(literals: Iterable[Literal]) -> set[Any]:
    """Return literals as a store gives them back."""
    return {quad.object for quad in _as_stored(Quad(_NODE, _NODE, one) for one in literals)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReport:
    """A store after it was built or updated.

    `change`: `built`, `updated`, or `unchanged`; `why`: why it was built anew instead of updated, if so; `added`,
    `removed`: triples, in an update; `triples`: how many it has; `size`: its bytes on disk; `seconds`: what it took;
    `odd_dates`: by the IRI of the predicate, a date of its triples that is no xsd:dateTime; `published`: what became of
    the graph as it was published.
    """

    index: str
    change: str
    facts: int
    triples: int
    size: int
    seconds: float
    folder: str
    added: int = 0
    removed: int = 0
    why: str = ""
    odd_dates: Mapping[str, str] = field(default_factory=dict)
    published: "Published | None" = None

    def to_json(self) -> dict[str, Any]:
        """Return what the commands print with `--json`."""
        document = asdict(self) | {"seconds": round(self.seconds, 3)}
        return {"bytes" if name == "size" else name: value for name, value in document.items()}


def build_store(
    index: Index,
    *,
    published: Callable[[], Iterable[Quad]] = tuple,
    advance: Advance = lambda done: None,
    why: str = "",
) -> StoreReport:
    """Build the store of an index, in place of the one that it may have. Readers keep theirs.

    The index is refreshed first. Memory holds all its names, some 250 bytes each. `advance` is called as facts are
    done; `why`: for the report. `published`: returns the quads of the graph as it was published, which the store gets
    too; of the facts it then gets the triples that these do not have.

    Raises InputError if the folder cannot be written, OSError if the disk is full; and as `Index.children` does.
    """
    folder = folder_of(index)
    with folder.writing() as path:
        return build_at(path, folder, index, advance, why, published=published)


def build_at(
    path: Path,
    folder: StoreFolder,
    index: Index,
    advance: Advance,
    why: str,
    *,
    published: Callable[[], Iterable[Quad]] = tuple,
) -> StoreReport:
    """Build a store at a path where nothing is."""
    begun = time.monotonic()
    index.refresh()
    while True:
        mark, odd_dates = index.snapshot.mark, dict[str, str]()
        store, watched = Store(str(path)), Published()
        store.bulk_extend(watched.watched(published()))
        has_quads = len(store) > 0
        if has_quads and next(store.quads_for_pattern(None, None, None, DefaultGraph()), None) is None:
            store.bulk_extend([Quad(*quad.triple) for quad in store])  # in the default graph too
        triples = all_triples(index, advance, odd_dates, stated=not has_statements(store))
        store.bulk_extend(_unpublished(store, triples, watched) if has_quads else triples)
        if index.snapshot.mark == mark:
            break
        del store  # the index was compacted, and maybe changed, while it was read
        rmtree(path)
    finish(store, path, mark, index, odd_dates)
    count = len(store)
    del store  # closes it
    return StoreReport(
        index=index.name,
        change="built",
        facts=index.facts,
        triples=count,
        size=folder.bytes(path),
        seconds=time.monotonic() - begun,
        folder=str(folder.path),
        why=why,
        odd_dates=odd_dates,
        published=watched if has_quads else None,
    )


def _unpublished(store: Store, triples: Iterable[Quad], count: Published) -> Iterator[Quad]:
    """Yield triples that a graph does not have. A value counts as there if the subject has any by this predicate: facts
    have it as people write it, in one language."""
    for quad in triples:
        if is_own(quad.subject):
            count.added += 1
            yield quad
            continue
        known = store.quads_for_pattern(quad.subject, quad.predicate, None, DefaultGraph())
        if isinstance(quad.object, Literal):
            is_new = not any(isinstance(one.object, Literal) for one in known)
        else:
            is_new = quad not in store
        if is_new:
            if quad.predicate == LABEL:
                count.labels += 1
            else:
                count.added += 1
            yield quad


def finish(store: Store, path: Path, mark: IndexVersion, index: Index, odd_dates: Mapping[str, str]) -> None:
    """Have a store with its mark on disk."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    store.flush()
    StoreMark(index.name, index.database.shown, mark, index.facts, now, odd_dates).write(path)


def triples_of(index: Index, find: Callable[[set[str]], dict[str, Named]]) -> Triples:
    """Return the maker of triples for an index, given a lookup of its names."""
    selection = index.entry.report.get("selection") or {}
    languages = selection.get("languages") or ["en"]
    return Triples(find, languages[0], described=selection.get("descriptions", True))


def statements_of(index: Index, triples: Triples) -> StatementTriples:
    """Return the maker of the triples of statements, given that of the others."""
    return StatementTriples(triples.find, index.entry.report.get("units", {}), triples.odd_dates)


def all_triples(index: Index, advance: Advance, odd_dates: dict[str, str], *, stated: bool = True) -> Iterator[Quad]:
    """Yield the triples of all facts of an index and of all its names; labels of names without ids are repeated.

    `odd_dates`: gets those of the triples; `stated`: if facts may have qualifiers, they are statements too.
    """
    stated = stated and index.has_statements
    named = all_names(index)
    triples = triples_of(index, lambda names: {name: named[name] for name in names if name in named})
    triples.odd_dates = odd_dates
    statements = statements_of(index, triples) if stated else None
    described: defaultdict[str, list[str]] = defaultdict(list)
    labelled: set[str] = set()
    for some in _batches(index, apart=not stated):
        for fact in some:
            if fact.predicate in DESCRIPTIONS and f" ({fact.object})" in fact.subject:
                described[fact.subject].append(fact.object)
        for triple in (*triples.of(some), *(statements.of(some) if statements is not None else ())):
            if triple is None:
                continue
            yield triple
            for name in own_names(triple):
                if name not in labelled:
                    labelled.add(name)
                    yield triples.label(name, None)
        advance(len(some))
    for name, one in named.items():
        if one.object_kind != "inverse":
            yield triples.label(name, one, described.get(name, ()))
            yield from triples.of_property(one)
            yield from links_of_property(one) if stated else ()


def _batches(index: Index, *, apart: bool) -> Iterator[list[Fact]]:
    """Yield all facts, some at a time; unless they may be `apart`, those of a subject with a predicate together."""
    facts = index.all_facts()
    if apart:
        while some := list(islice(facts, BATCH)):
            yield some
        return
    if not Units(index.tokenizer, index.trigger).are_whole:  # their order is not that of their parts
        facts = iter(sorted(facts, key=_about))
    some = []
    for _, group in groupby(facts, _about):
        some += group
        if len(some) >= BATCH:
            yield some
            some = []
    yield some


def _about(fact: Fact) -> tuple[str, str]:
    return fact.subject, fact.predicate


def all_names(index: Index) -> dict[str, Named]:
    """Return all names of an index with their ids."""
    named: dict[str, Named] = {}
    for key, block in reversed(index.name_rows()):  # the latest table is the first, and it decides
        named |= index.unpack_names(key, block)
    return named


class CannotFollowError(Exception):
    """A store has to be built anew; the message says why."""


@dataclass(slots=True)
class StoreDelta:
    """Triples to add to a store, and triples to remove from it; and the odd dates of those (`Triples.odd_dates`)."""

    added: set[Quad] = field(default_factory=set)
    removed: set[Quad] = field(default_factory=set)
    odd_dates: dict[str, str] = field(default_factory=dict)


class _Differences:
    """What brings a store, which is only read, from an earlier mark of its index to the index's snapshot."""

    def __init__(self, before: IndexVersion, index: Index, store: Store) -> None:
        self._index, self._store, self._snapshot = index, store, index.snapshot
        known = {number for number, _ in before.segments}
        self._segments = [(s.sign, s.tree) for s in self._snapshot.segments if s.number not in known]
        self._old_tables = [number for number, _ in reversed(before.names)]
        self._new_tables = [table for table in self._snapshot.name_tables if table not in self._old_tables]
        self._triples: Triples = triples_of(index, lambda names: index.ids_in(self._snapshot.name_tables, names))
        self._statements = statements_of(index, self._triples)
        self._stated = index.has_statements and (has_own_statements(store) or not has_statements(store))
        self._facts = TreeFacts(index)

    def find(self) -> StoreDelta:
        """Return the triples. Memory holds the changed facts.

        Raises CannotFollowError, IndexNotFoundError if the index is compacted meanwhile, and as `Index.children` does.
        """
        changed = sum(tree.facts for _, tree in self._segments)
        if changed > max(SMALL, self._index.facts // _PART):
            raise CannotFollowError(f"{changed:,} facts have changed, of {self._index.facts:,}")
        self._check_statements()
        new = self._new_names()
        delta, described, stated = StoreDelta(), set[str](), set[tuple[str, str]]()
        for sign, facts in self._changed_facts():
            found = [triple for triple in self._triples.of(facts) if triple is not None]
            described |= {fact.subject for fact in facts if fact.predicate in DESCRIPTIONS}
            stated |= set(map(_about, facts)) if self._stated else set()
            if sign > 0:
                delta.added |= _as_stored(found)
                delta.added |= {self._triples.label(name, None) for triple in found for name in own_names(triple)}
            else:
                delta.removed |= _as_stored(found) - self._remaining(facts)
        self._state(sorted(stated), delta)
        delta.removed -= delta.added
        # Labels of names without ids that no triple is about any more.
        labels = {name: self._triples.label(name, None) for triple in delta.removed for name in own_names(triple)}
        delta.removed |= {
            label
            for name, label in labels.items()
            if label not in delta.added and not self._is_used(own(name), {*delta.removed, label})
        }
        self._label(new, described, delta)
        return StoreDelta(
            {triple for triple in delta.added if triple not in self._store},
            {triple for triple in delta.removed if triple in self._store},
            self._triples.odd_dates,
        )

    # --- Statements

    def _check_statements(self) -> None:
        """Raise CannotFollowError if facts that have not changed are statements now, or have other units."""
        if self._stated and not has_own_statements(self._store):
            raise CannotFollowError("some facts have qualifiers now")
        for label in self._index.entry.report.get("units", {}) if self._stated else ():
            if self._is_used(own(label), set()):
                raise CannotFollowError(f"the unit <{label}> has got an id")

    def _state(self, pairs: Sequence[tuple[str, str]], delta: StoreDelta) -> None:
        """Add and remove what brings the statements of subjects with predicates to those that the index has."""
        named = self._triples.find({name for pair in pairs for name in pair})
        removed = set[Quad]()
        for subject, predicate in pairs:
            found = self._facts.statements([subject], predicate)
            facts = [Fact(subject, predicate, object_, "", (0, 0), qualifiers) for _, object_, qualifiers in found]
            now = _as_stored(self._statements.of(facts))
            delta.added |= now | {self._triples.label(name, None) for triple in now for name in own_names(triple)}
            claims = predicate_of("p", predicate, named)
            removed |= statements_in_store(self._store, node(subject, named), claims) - now
        ends = {quad.object for quad in removed if is_own(quad.object)}
        shared = {end for end in ends if not removed.issuperset(self._store.quads_for_pattern(None, None, end))}
        delta.removed |= {quad for quad in removed if quad.subject not in shared}

    # --- Names

    def _new_names(self) -> dict[str, Named]:
        """Return the names that the store does not have yet. Raise CannotFollowError if they change other triples."""
        found: dict[str, Named] = {}
        for table in reversed(self._new_tables):
            for key, block in self._index.name_table_rows(table):
                found |= self._index.unpack_names(key, block)
        old = self._index.ids_in(self._old_tables, set(found))
        mixed: dict[NamedNode, bool] = {}
        for name, named in found.items():
            before = old.get(name)
            if before is None:
                self._check_unused(name, mixed)
            elif before.object_kind != named.object_kind and any(
                not isinstance(quad.object, NamedNode) or quad.object.value.startswith(OWN)
                for use in (property_(named.id), *(predicate_of(use, name, found) for use in ("ps", "pq")))
                for quad in self._store.quads_for_pattern(None, use, None)
            ):
                raise CannotFollowError(f"<{name}> has got objects of another kind")
        return {name: named for name, named in found.items() if name not in old}

    def _check_unused(self, name: str, mixed: dict[NamedNode, bool]) -> None:
        """Raise CannotFollowError if facts have a name that is new, as that of something without an id or as text."""
        uses = [predicate_of(use, name, {}) for use in ("p", "pq")]
        if self._is_used(own(name), set()) or any(
            next(self._store.quads_for_pattern(None, use, None), None) is not None for use in uses
        ):
            raise CannotFollowError(f"<{name}> has got an id")
        for text in {Literal(name), value := literal(name, "mixed"), dated(value)[0]}:
            for quad in self._store.quads_for_pattern(None, None, text):
                if quad.predicate not in mixed:
                    mixed[quad.predicate] = self._may_name(quad.predicate)
                if mixed[quad.predicate]:
                    raise CannotFollowError(f"the text <{name}> has become the name of an entity")

    def _may_name(self, predicate: NamedNode) -> bool:
        """Return whether the objects of a property may be entities."""
        id_ = predicate.value.rpartition("/")[2]
        if id_.startswith("ontology#"):  # of the node of a value
            return False
        (name,) = self._index.names_of([id_]).values() or (None,)
        kinds = self._index.ids_of([name]) if name is not None else {}
        return name not in kinds or kinds[name].object_kind in ("entity", "mixed")

    def _label(self, new: Mapping[str, Named], described: set[str], delta: StoreDelta) -> None:
        """Label new names, and again those whose descriptions have changed: a label is a name without these."""
        named = {**self._index.ids_in(self._snapshot.name_tables, described), **new}
        descriptions = self._descriptions([name for name in named if name.endswith(")")])
        for name, one in named.items():
            if one.object_kind == "inverse":
                continue
            label = self._triples.label(name, one, descriptions.get(name, ()))
            there = set(self._store.quads_for_pattern(entity(one.id), LABEL, None))
            delta.removed |= there - {label}
            delta.added |= {label, *self._triples.of_property(one)} - there
            delta.added |= set(links_of_property(one)) if self._stated else set()

    def _descriptions(self, names: Sequence[str]) -> dict[str, list[str]]:
        found = defaultdict[str, list[str]](list)
        for predicate in DESCRIPTIONS:
            for name, description in self._facts.objects(names, predicate):
                found[name].append(description)
        return found

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
            objects = self._facts.objects(list(some), predicate)
            facts = (Fact(subject, predicate, object_, "", (0, 0)) for subject, object_ in objects)
            while batch := list(islice(facts, BATCH)):
                found |= _as_stored(triple for triple in self._triples.of(batch) if triple is not None)
        return found


def _as_stored(triples: Iterable[Quad]) -> set[Quad]:
    """Return triples as a store gives them back: it has 1.5 for 1.50."""
    store = Store()
    store.extend(triples)
    return set(store)


def update_store(index: Index, *, advance: Advance = lambda done: None) -> StoreReport:
    """Bring the store of an index to what the index has now. Build it if there is none, or if it cannot follow.

    The index is refreshed first. Readers keep the store as it was. `advance` is called as facts are done.

    Raises as `refactx.sparql.store.build_store` does.
    """
    folder = folder_of(index)
    with folder.writing() as path:
        try:
            store = open_latest(folder, index.name)
        except StoreError as error:
            what, _, _ = str(error).rpartition(": ")
            return build_at(path, folder, index, advance, what if folder.exists() else "")
        with store:
            try:
                return _update_at(path, folder, store, index)
            except CannotFollowError as error:
                reason = str(error)
            except READ_ERRORS as error:  # of the store as it is, or of the next one: then the build raises it again
                reason = f"it was damaged ({' '.join(str(error).split())})"
        rmtree(path, ignore_errors=True)
        return build_at(path, folder, index, advance, reason)


def keep_store(
    index: Index, builds: bool | None = False, *, advance: Advance = lambda done: None
) -> StoreReport | None:
    """Bring the store of an index that was made or changed to what the index has now; None if it has none.

    `builds`: whether one is built if there is none; None: if the index has at most `STORE_FACTS` facts. Raises as
    `update_store` does.
    """
    if not folder_of(index).exists() and not (index.facts <= STORE_FACTS if builds is None else builds):
        return None
    return update_store(index, advance=advance)


def _update_at(path: Path, folder: StoreFolder, store: FactStore, index: Index) -> StoreReport:
    begun = time.monotonic()
    while True:
        before = _moved(store.mark.index, index)
        snapshot = index.snapshot
        try:
            delta = StoreDelta() if before == snapshot.mark else _Differences(before, index, store.oxigraph).find()
        except IndexNotFoundError:  # the index was compacted while it was read, or another server answers
            if index.snapshot is snapshot and not index.refresh() and index.snapshot is snapshot:
                raise
            continue
        if index.snapshot.mark == snapshot.mark:
            break
    change, count, odd_dates = "unchanged", len(store.oxigraph), store.mark.odd_dates
    if store.mark.index != snapshot.mark:
        change, (count, odd_dates) = "updated", _write(path, store, snapshot.mark, index, delta)
    return StoreReport(
        index=index.name,
        change=change,
        facts=index.facts,
        triples=count,
        size=folder.bytes(path if path.exists() else store.path),
        seconds=time.monotonic() - begun,
        folder=str(folder.path),
        added=len(delta.added),
        removed=len(delta.removed),
        odd_dates={iri: text for iri, text in delta.odd_dates.items() if iri in odd_dates},
    )


def _moved(mark: IndexVersion, index: Index) -> IndexVersion:
    """Refresh an index, and return a store's mark as it would be if the store had followed all compactions.

    Raises CannotFollowError if the store is of another index or has tables that the index does not have any more.
    """
    from refactx.postgres.catalogue import find_index  # psycopg, which a file does not need

    while True:  # the account of changes and the tables are of one moment
        index.refresh()
        entry = find_index(index.database, index.name)
        if not index.refresh():
            break
    now = index.snapshot.mark
    if mark.index != now.index:
        raise CannotFollowError("it was that of another index of this name")
    mark = after_compactions(mark, entry.report.get("changes", ()))
    if not (set(mark.segments) <= set(now.segments) and set(mark.names) <= set(now.names)):
        raise CannotFollowError(
            "the index was compacted after changes that the store does not have, or things of it got other names"
        )
    return mark


def _write(
    path: Path, store: FactStore, mark: IndexVersion, index: Index, delta: StoreDelta
) -> tuple[int, dict[str, str]]:
    """Write the next version of a store. Return the number of its triples, and its odd dates."""
    if path.exists():
        rmtree(path)
    store.oxigraph.backup(str(path))  # hard links to files that do not change
    opened = Store(str(path))
    for triple in delta.removed:
        opened.remove(triple)
    opened.extend(delta.added)
    odd_dates = {**delta.odd_dates, **store.mark.odd_dates}
    for predicate in {triple.predicate for triple in delta.removed if triple.predicate.value in odd_dates}:
        left = odd_date(triple.object for triple in opened.quads_for_pattern(None, predicate, None))
        del odd_dates[predicate.value]
        odd_dates |= {} if left is None else {predicate.value: left}
    finish(opened, path, mark, index, odd_dates)
    return len(opened), odd_dates
