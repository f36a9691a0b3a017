"""Single facts that are remembered, corrected and forgotten: each as one small segment or two, in well under a second.

A fact is said with names as people write them. What a name means is decided by what is read, which may be several indexes as
one; what is written goes to one of them. A fact about things has its inverse fact with it, where the index has these.

Small segments are merged now and then, in the transaction of the change that finds too many: the facts of all that are not
much larger than those merged so far become one segment or two. So an index of n remembered facts has some log n segments, and
a fact is written log n times. Segments above `LARGEST_MERGED` are left to `compact`.
"""

import random
import shlex
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

from refactx.errors import IndexExistsError, InputError
from refactx.fact import (
    ALIAS_OF,
    DESCRIPTIONS,
    Qualifiers,
    clean_part,
    cut_part,
    line,
    qualifiers_of,
    split_fact,
    verbalise,
)
from refactx.index.database import DatabaseSource
from refactx.index.index import Index, changed_sequences
from refactx.index.names import Named, pack_blocks, pack_id_blocks
from refactx.index.source import Segment
from refactx.ingest.build import RowJob, index_change
from refactx.ingest.compaction import merge_names
from refactx.ingest.encoding import WholeFacts
from refactx.ingest.publish import load_segment
from refactx.ingest.segment.builder import ZSTD_LEVEL
from refactx.ingest.segment.cutting import KeyedRow
from refactx.ingest.work import Resources
from refactx.linking import did_you_mean
from refactx.linking.linker import COMPARED_WHOLE
from refactx.postgres import writing
from refactx.postgres.catalogue import change_hubs, copy_rows, number
from refactx.postgres.database import Database
from refactx.postgres.entry import CatalogueEntry
from refactx.postgres.locks import Connection
from refactx.tree.bulk import facts_exist, joined
from refactx.tree.codes import RowCodec
from refactx.walks.facts import TreeFacts, drawn_subjects
from refactx.walks.values import parse_amount, parse_coordinates, parse_time

WAIT_SECONDS = 10.0
"""How long a change waits for another one of the same index."""
MANY_SEGMENTS, GROWTH, LARGEST_MERGED = 8, 4, 65_536
"""From so many small segments on they are merged; a segment of up to so many times the facts merged so far joins them; one
with more facts is none of them."""
SAMPLED, SHARING = 100, 50
"""Facts whose subjects show whether a predicate has one value, drawn by chance; and subjects that share the value."""
SMALL_TABLE = 128 << 10
"""Bytes up to which name tables are merged."""
LONGEST = 4000
"""The most characters of a fact."""
_PARSERS = {"time": (parse_time, "a date such as 1990-05-01"), "coordinates": (parse_coordinates, "coordinates"),
            "quantity": (parse_amount, "a number, with a unit of the index if it has one")}  # fmt: skip
_CACHE_BYTES = 8 << 20
Triple = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactChange:
    """What became of a fact. `change`: `remember`, `correct` or `forget`; `fact`: as the index has it.

    `added`, `removed`: all facts that were written or taken away, inverse ones too; none, if nothing had to be done, or if
    the fact contradicts those in `contradicts`, which stay. `notes`: what names were taken as, and what else is to be known.
    """

    index: str
    change: str
    fact: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    contradicts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def is_written(self) -> bool:
        """Whether the index has changed."""
        return bool(self.added or self.removed)


@dataclass(frozen=True, slots=True)
class _Claim:
    """A claim, and its inverse facts."""

    triple: Triple
    inverses: tuple[Triple, ...] = ()


@dataclass(frozen=True, slots=True)
class _Meant:
    """A fact by the names of the index that is read, the claims that it is or belongs to, and notes on its names."""

    triple: Triple
    claims: tuple[_Claim, ...]
    notes: tuple[str, ...]


class FactWriter:
    """Writes single facts to an index of a database. Safe to share between threads.

        with refactx.open_index("wikidata,mine") as index, connected() as database:
            FactWriter(index, database, "mine", work).remember("<Ann Lee> <residence> <Oslo>", new=["Ann Lee"])

    `reader`: the open index that says what names mean: that index, or several as one. It is refreshed after each change.
    `work`: a folder for temporary files. Methods raise InputError for what is no fact, or a name that is not there;
    IndexExistsError if another process writes the index for ten seconds; else as `refactx.ingest.append`.
    """

    def __init__(
        self, reader: Index, database: Database, index: str, work: Path, facts: TreeFacts | None = None
    ) -> None:
        self.index, self._reader, self._database, self._work = index, reader, database, work
        self._facts, self._lock, self._predicates = facts or TreeFacts(reader), Lock(), set[str]()

    def remember(
        self, fact: str, *, new: Sequence[str] = (), also: bool = False, reference: Qualifiers = ()
    ) -> FactChange:
        """Add a fact. `new`: names in it that the index may not have yet; `also`: beside another value of its predicate;
        `reference`: qualifiers that say where it comes from, which make a statement beside the fact.

        If the subject has another value of a predicate that seems to have one value, nothing is written without `also`.
        """
        started = time.perf_counter()
        with self._lock:
            self._reader.refresh()
            meant = self._meant(fact, new)
            if not also and (others := self._contradicted(meant.claims[0].triple)):
                return self._result("remember", meant, started, contradicts=others)
            return self._written("remember", meant, started, add=meant, reference=reference)

    def forget(self, fact: str) -> FactChange:
        """Take a fact away, with its inverse fact and its statements with qualifiers."""
        started = time.perf_counter()
        with self._lock:
            self._reader.refresh()
            meant = self._known(fact)
            return self._written("forget", meant, started, remove=meant)

    def correct(self, old: str, fact: str, *, new: Sequence[str] = ()) -> FactChange:
        """Put a fact in the place of another one, at once."""
        started = time.perf_counter()
        with self._lock:
            self._reader.refresh()
            known, meant = self._known(old), self._meant(fact, new)
            if known.triple == meant.triple:
                raise InputError(f"both facts are {_text(meant.triple)}: give one that differs")
            return self._written("correct", meant, started, add=meant, remove=known)

    # --- What names mean

    def _meant(self, fact: str, new: Sequence[str]) -> _Meant:
        """Return a fact to be written. Raises InputError if one of its names is not clear."""
        subject, predicate, object_ = _parts(fact)
        fresh, notes, linker = {cut_part(clean_part(one)) for one in new}, list[str](), self._facts.linker
        if unused := fresh - {subject, predicate, object_}:
            raise InputError(f"{_shown(unused)} is said to be new, and is no part of the fact: leave it out")
        subject = self._thing(subject, fresh, notes)
        known = linker.predicate(predicate, [subject])
        if known is not None:
            notes += [] if known.name == predicate else [known.note]
            predicate = known.name
        elif predicate not in fresh and not self._is_predicate(predicate):
            near = linker.predicates_called(predicate) or linker.near_predicates(predicate)
            raise _unknown("predicate", predicate, did_you_mean(near))
        if predicate in (ALIAS_OF, *DESCRIPTIONS[1:]):
            raise InputError(f"<{predicate}> is written by an ingest alone: choose another predicate")
        described = self._facts.describe([predicate]).get(predicate)
        kind = "mixed" if described is None else described.kind
        if kind == "entity":
            object_ = self._thing(object_, fresh, notes)
        elif kind in _PARSERS and not self._is_value(kind, object_):
            raise InputError(
                f"the values of <{predicate}> are {kind}, and <{object_}> is none: give {_PARSERS[kind][1]}"
            )
        triple = (subject, predicate, object_)
        if kind != "entity" and not (kind == "mixed" and (object_ in fresh or linker.is_name(object_))):
            return _Meant(triple, (_Claim(triple),), tuple(notes))
        if described is not None and described.inverse:
            claims = self._reader.claims_of([predicate]).get(predicate, ())[:1]
            return _Meant(triple, tuple(_Claim((object_, one, subject), (triple,)) for one in claims), tuple(notes))
        return _Meant(triple, (self._claim(triple),), tuple(notes))

    def _is_value(self, kind: str, text: str) -> bool:
        """Return whether a text is a literal of a kind: an amount with a unit only of those that the index has."""
        if kind != "quantity":
            return _PARSERS[kind][0](text) is not None
        amount = parse_amount(text)
        return amount is not None and amount[1] in ("", *self._reader.entry.report.get("units", ()))

    def _claim(self, triple: Triple) -> _Claim:
        subject, predicate, object_ = triple
        inverses = self._reader.inverses_of([predicate]).get(predicate, ())
        return _Claim(triple, tuple((object_, one, subject) for one in inverses))

    def _is_predicate(self, name: str) -> bool:
        """Return whether facts have a predicate without an id: a small index is read for that, of a large one some facts."""
        if name not in self._predicates:
            if self._facts.size <= COMPARED_WHOLE:
                self._predicates = set(self._facts.count_predicates())
            elif any(self._facts.counts(list(set(drawn_subjects(self._reader, SAMPLED, name))), name)):
                self._predicates.add(name)
        return name in self._predicates

    def _thing(self, name: str, fresh: set[str], notes: list[str]) -> str:
        linker = self._facts.linker
        if name in fresh:
            if linker.is_name(name):
                notes.append(f"<{name}> is there already")
            return name
        meant = linker.entity(name, clearly=True)
        if meant is None:
            raise _unknown("thing", name, did_you_mean(linker.suggestions(name)))
        if not meant.is_as_written:
            notes.append(meant.note)
        return meant.name

    def _known(self, fact: str) -> _Meant:
        """Return a fact that is there. Raises InputError if it is not, or if it is of another index alone."""
        subject, predicate, object_ = _parts(fact)
        linker, notes = self._facts.linker, list[str]()
        if not self._facts.hold([(subject, predicate, object_)])[0]:
            subject = self._thing(subject, set(), notes)
            predicate = named.name if (named := linker.predicate(predicate, [subject])) is not None else predicate
            values = [value for _, value in self._facts.objects([subject], predicate)]
            if object_ not in values and (meant := linker.entity(object_)) is not None:
                object_ = meant.name
            if object_ not in values:
                shown = ", ".join(_text((subject, predicate, value)) for value in values[:5])
                there = f": there is {shown}" if shown else f": <{subject}> has no <{predicate}>"
                raise InputError(f"there is no fact {_text((subject, predicate, object_))}{there}")
        triple = (subject, predicate, object_)
        if self.index not in (origins := self._reader.origins(_text(triple))):
            raise InputError(
                f"{_text(triple)} is a fact of index {' and '.join(origins)}, and this writes {self.index!r} alone"
            )
        others = ((object_, one, subject) for one in self._reader.claims_of([predicate]).get(predicate, ()))
        return _Meant(triple, (self._claim(triple), *map(self._claim, others)), tuple(notes))

    # --- Contradictions

    def _contradicted(self, triple: Triple) -> tuple[str, ...]:
        """Return the facts that a new one contradicts: the other value of its subject, if its predicate has one value."""
        subject, predicate, object_ = triple
        values = [value for _, value in self._facts.objects([subject], predicate)]
        if len(values) != 1 or object_ in values or self._has_several(predicate, subject, values[0]):
            return ()
        return (_text((subject, predicate, values[0])),)

    def _has_several(self, predicate: str, subject: str, value: str) -> bool:
        """Return whether another subject has several values of a predicate: of those with the same value, and of some drawn by
        chance."""
        subjects = dict.fromkeys(drawn_subjects(self._reader, SAMPLED, predicate))
        for inverse in self._reader.inverses_of([predicate]).get(predicate, ()):
            found = self._facts.objects([value], inverse)
            subjects |= dict.fromkeys(one for _, (_, one) in zip(range(SHARING), found, strict=False))
        subjects.pop(subject, None)
        return any(count > 1 for count in self._facts.counts(list(subjects), predicate))

    # --- Writing

    def _result(self, change: str, meant: _Meant, started: float, **fields: Any) -> FactChange:
        return FactChange(
            index=self.index,
            change=change,
            fact=_text(meant.triple),
            notes=meant.notes,
            seconds=time.perf_counter() - started,
            **fields,
        )

    def _written(
        self,
        change: str,
        meant: _Meant,
        started: float,
        *,
        add: _Meant | None = None,
        remove: _Meant | None = None,
        reference: Qualifiers = (),
    ) -> FactChange:
        adds, removes = (() if one is None else tuple(map(self._own, one.claims)) for one in (add, remove))
        names = self._own_names(() if add is None else add.claims)
        with _held(self._database, self.index, self._work, self._reader) as held:
            added, removed = held.change(adds, removes, names, reference)
        self._reader.refresh()
        notes = (*meant.notes, *(() if added or removed else ("the index has it already",)))
        return replace(self._result(change, meant, started, added=added, removed=removed), notes=notes)

    def _own(self, claim: _Claim) -> _Claim:
        """Return a claim with the names that its parts have in the index that is written."""
        return _Claim(self._own_triple(claim.triple), tuple(map(self._own_triple, claim.inverses)))

    def _own_triple(self, triple: Triple) -> Triple:
        return split_fact(self._reader.text_in(self.index, _text(triple))) or triple

    def _own_names(self, claims: Iterable[_Claim]) -> dict[str, Named]:
        """Return what the names of claims mean, by the names that the index has which is written."""
        found: dict[str, Named] = {}
        for triple in (one for claim in claims for one in (claim.triple, *claim.inverses)):
            named = self._reader.ids_of(triple)
            pairs = zip(triple, self._own_triple(triple), strict=True)
            found |= {own: named[name] for name, own in pairs if name in named}
        return found


@contextmanager
def _held(database: Database, index: str, work: Path, reader: Index) -> Iterator["_HeldIndex"]:
    """Hold an index for a change, waiting for others. `reader`: has its tokenizer."""
    deadline, chance = time.monotonic() + WAIT_SECONDS, random.Random()  # noqa: S311 - not for secrets
    with ExitStack() as stack:
        while True:
            try:
                connection, entry, folder = stack.enter_context(index_change(database, index, work, "remember"))
                break
            except IndexExistsError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(chance.uniform(0.01, 0.05))
        opened = Index(DatabaseSource(database, entry), cache_bytes=_CACHE_BYTES, tokenizer=reader.tokenizer)
        yield _HeldIndex(connection, database, entry, opened, folder)


@dataclass(frozen=True, slots=True)
class _HeldIndex:
    """An index that is held for the change of a fact."""

    connection: Connection
    database: Database
    entry: CatalogueEntry
    index: Index
    folder: Path

    def change(
        self,
        add: Sequence[_Claim],
        remove: Sequence[_Claim],
        names: Mapping[str, Named],
        reference: Qualifiers = (),
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Add claims and take some away, with their inverse facts, in one transaction. Return the facts that were added and
        removed. `names`: what names mean that the index may not have; `reference`: qualifiers of the claims."""
        known = self.index.ids_of(names)
        for name, own in known.items():
            if own.id != names[name].id:
                raise InputError(
                    f"<{name}> is {own.id} in index {self.entry.name!r}, and {names[name].id} is meant: "
                    f"`refactx rename` gives one of them another name"
                )
        hubs = self.index.hubs({claim.triple[2] for claim in (*add, *remove)})
        wanted, unwanted = (self._texts(claims, hubs) for claims in (add, remove))
        stated = {verbalise(*claim.triple, reference): None for claim in add if reference}
        wanted |= stated
        unwanted |= dict.fromkeys(text for claim in remove for text in self._statements(claim.triple))
        tokens = {text: self._encoded(text) for text in (*wanted, *unwanted)}
        there = dict(zip(tokens, facts_exist(self.index.snapshot.tree, list(tokens.values())), strict=True))
        added = [text for text in wanted if not there[text]]
        removed = [text for text in unwanted if there[text] and text not in wanted]
        if added or removed:
            signed = {tokens[text]: 1 for text in added} | {tokens[text]: -1 for text in removed}
            more = Counter[tuple[str, str]]()
            for texts, sign in ((added, 1), (removed, -1)):
                for _, predicate, object_ in filter(None, (split_fact(text) for text in texts if text not in stated)):
                    inverses = self.index.inverses_of([predicate]).get(predicate, ()) if object_ in hubs else ()
                    if any(one in hubs[object_] for one in inverses):
                        more[object_, predicate] += sign
            new = {name: one for name, one in names.items() if name not in known}
            counts = {pair: count for pair, count in more.items() if count}
            self._publish(signed, new, counts, sum(one in stated for one in added))
        return tuple(f"{text.lstrip()} ." for text in added), tuple(f"{text.lstrip()} ." for text in removed)

    def _texts(self, claims: Iterable[_Claim], hubs: Mapping[str, Mapping[str, int]]) -> dict[str, None]:
        """Return the texts of claims and of the inverse facts that the index lists."""
        triples = (
            one for claim in claims for one in (claim.triple, *claim.inverses) if one[1] not in hubs.get(one[0], {})
        )
        return {verbalise(*one): None for one in triples}

    def _statements(self, triple: Triple) -> list[str]:
        """Return the texts of the statements with qualifiers that a fact begins."""
        if not self.index.has_statements:
            return []
        return [verbalise(*triple, one) for one in TreeFacts(self.index).qualifiers(*triple)]

    def _encoded(self, text: str) -> tuple[int, ...]:
        tokenizer = self.index.tokenizer
        tokens = tuple(tokenizer.encode_after(self.index.trigger, text))
        if tokenizer.decode(tokens) != text:
            raise InputError(f"the tokenizer of index {self.entry.name!r} changes the text{text}: write it otherwise")
        return tokens

    def _publish(
        self,
        signed: Mapping[tuple[int, ...], int],
        names: Mapping[str, Named],
        hubs: Mapping[tuple[str, str], int],
        statements: int,
    ) -> None:
        """Write facts with their signs, so many of them with qualifiers, names, and more subjects of hubs, in one
        transaction."""
        connection, entry, merged = self.connection, self.entry, self._to_merge(len(signed))
        sums = Counter(dict(signed))
        for sign, fact in changed_sequences([(one.sign, one.tree) for one in merged]):
            sums[fact] += sign
        tables = self._tables_to_merge() if names else []
        job = RowJob(work=self.folder, resources=Resources(workers=1, progress=False))
        with connection.transaction():
            for sign in (-1, 1):
                if facts := sorted(fact for fact, count in sums.items() if count == sign):
                    segment = writing.add_segment(connection, entry.id, sign)
                    described = load_segment(connection, segment, WholeFacts(*joined(facts)), job)
                    writing.show_segment(connection, segment, described)
            for one in merged:
                writing.hide(connection, "segments", "id", one.number)
            for rows in (merge_names(self.database, tuple(tables)) if tables else (), _name_rows(names)):
                if kept := list(rows):
                    table = writing.add_name_table(connection, entry.knowledge_base)
                    copy_rows(connection, "names", table, kept)
                    writing.show_names(connection, table)
            for table in tables:
                writing.hide(connection, "name_tables", "id", table)
            if hubs:
                change_hubs(connection, entry.id, hubs)
            if statements:
                writing.note_statements(connection, entry, statements)
            writing.count_change(connection, entry)

    def _to_merge(self, facts: int) -> list[Segment]:
        """Return the segments that a change of so many facts is merged with."""
        segments = self.index.snapshot.segments
        small = sorted((one for one in segments if one.tree.facts <= LARGEST_MERGED), key=lambda one: one.tree.facts)
        chosen = list[Segment]()
        for one in small if len(small) >= MANY_SEGMENTS else ():
            if one.tree.facts > GROWTH * facts:
                break
            chosen.append(one)
            facts += one.tree.facts
        return chosen

    def _tables_to_merge(self) -> list[int]:
        """Return the latest small name tables, the oldest first, if they are many."""
        found = list[int]()
        for table in self.index.name_tables:
            if number(self.connection, f"SELECT pg_total_relation_size('refactx.names_{table}')", []) > SMALL_TABLE:
                break
            found.append(table)
        return found[::-1] if len(found) >= MANY_SEGMENTS else []


def _name_rows(names: Mapping[str, Named]) -> Iterator[KeyedRow]:
    codec = RowCodec(level=ZSTD_LEVEL)
    numbers = {-one.number if one.object_kind == "inverse" else one.number: name for name, one in names.items()}
    yield from pack_id_blocks(sorted(numbers.items()), codec)
    yield from pack_blocks(sorted(names.items(), key=lambda row: row[0].encode()), codec)


def _parts(fact: str) -> Triple:
    """Return the parts of a fact as they are written. Raises InputError if it is none, or has qualifiers."""
    parts = split_fact(fact) if len(fact) <= LONGEST else None
    if parts is None or qualifiers_of(fact) or not all(map(clean_part, parts)):
        raise InputError(f"{line(fact[:100])!r} is no fact: write <subject> <predicate> <object> .")
    subject, predicate, object_ = map(clean_part, parts)
    return cut_part(subject), cut_part(predicate), cut_part(object_)


def _text(triple: Triple) -> str:
    return f"{verbalise(*triple).lstrip()} ."


def _unknown(what: str, name: str, near: str) -> InputError:
    """Return the error of a name that is not there; `near`: names like it."""
    said = f"there is no {what} {name!r}{near.removesuffix('?') or ', and none like it'}"
    return InputError(
        said, command=f": if it is new, give --new {shlex.quote(name)}", clients=": if it is new, name it in `new`"
    )


def _shown(names: Iterable[str]) -> str:
    return ", ".join(f"<{name}>" for name in sorted(names))
