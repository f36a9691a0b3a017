"""A fact index, open for reading: the facts of a knowledge base as one tree for one tokenizer.

`Index` reads a whole index; functions beside it list the facts of segments, and the changes that some of them make.
"""

import heapq
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain, islice, pairwise
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from refactx.entity_ids import entity_id, fact_number, inverse_numbers, is_wikidata, numbers_of
from refactx.errors import CorruptIndexError, IndexNotFoundError
from refactx.fact import (
    ADDRESS,
    Fact,
    Link,
    LinkedFact,
    page_of,
    qualifiers_of,
    split_fact,
    written_fact,
)
from refactx.index.linked import link_facts
from refactx.index.names import FIRST_KEY, LITERAL_KINDS, REFERENCES, Named, find_names, find_numbers, unpack_block
from refactx.index.source import IndexSource, RefreshedSnapshot, SegmentSource, Snapshot
from refactx.postgres.entry import CatalogueEntry
from refactx.tokenizer import FactTokenizer
from refactx.tree.bulk import EntryMatrix, changed, from_matrix, surviving
from refactx.tree.codes import RowCodec
from refactx.tree.piece import TERMINAL
from refactx.tree.stored import StoredTree
from refactx.tree.tree import Children, FactTree, Path

if TYPE_CHECKING:
    import pyarrow as pa

    from refactx.postgres.database import Database


FACTS_AT_ONCE = 1024
"""Facts whose names one query looks up: a round trip takes as long as some ten blocks of names."""

_COLUMNS = ("subject", "predicate", "object", "subject_id", "predicate_id", "object_id", "object_kind")

CACHE_BYTES = 256 << 20
"""The default bound of an index's cache: at some 30 bytes a fact, enough for pieces with millions of facts."""

LARGEST_PROPERTY = 20_000
"""The largest number of a property's id that is looked up: Wikidata had some 13,700 in 2026."""


def _row(fact: LinkedFact, kind: str | None) -> tuple[str | None, ...]:
    """Return the row of a fact in the columns of `Index.arrow_batches`, given the kind of its predicate's objects."""
    subject, predicate, object_ = fact.subject, fact.predicate, fact.object
    if isinstance(object_, str):
        own = kind if kind in LITERAL_KINDS else "literal"
        return subject.label, predicate.label, object_, subject.id, predicate.id, None, own
    of_entity = "entity" if object_.id is not None else None
    return subject.label, predicate.label, object_.label, subject.id, predicate.id, object_.id, of_entity


def normalise_prefix(text: str) -> str:
    """Return the beginning of a fact as the tree spells it: one space before it and between words, Unicode NFC.

    >>> normalise_prefix("<Danny  Boyle> <")
    ' <Danny Boyle> <'
    """
    text = text.encode("utf-8", "replace").decode()  # a shell may have passed bytes that are not UTF-8
    # Bracket by bracket: NFC would join a bracket with a combining mark after it.
    parts = [unicodedata.normalize("NFC", part) for part in re.split("([<>])", text)]
    return " " + re.sub(r"\s+", " ", "".join(parts)).lstrip()


def completions(tree: FactTree, tokenizer: FactTokenizer, prefix: str) -> Iterator[tuple[str, int]]:
    """Yield the texts that begin with `prefix` (normalised) and end with the next part, with their numbers of facts.

    Texts with more facts come first: the search always opens the node with the most leaves, and no node has more than
    its parent. So the first twenty cost no more than the search for those.
    """
    table, wanted = tokenizer.token_bytes, prefix.encode()
    heap: list[tuple[int, bool, Path, bytes]] = []
    for path, text, leaves in _matching(tree, table, wanted):
        heapq.heappush(heap, (-leaves, b">" not in text[len(wanted) :], path, text))
    while heap:
        leaves, is_open, path, text = heapq.heappop(heap)
        if not is_open:
            end = text.index(b">", len(wanted)) + 1
            yield text[:end].decode("utf-8", "replace").lstrip(), -leaves
            continue
        below = tree.children(path)
        for token, count in zip(below.tokens.tolist(), below.leaves.tolist(), strict=True):
            grown = text + table[token]
            heapq.heappush(heap, (-count, b">" not in grown[len(wanted) :], (*path, token), grown))


def _matching(tree: FactTree, table: list[bytes], wanted: bytes) -> Iterator[tuple[Path, bytes, int]]:
    """Yield the shortest paths whose text begins with `wanted`: ids, text and leaves."""
    waiting: list[tuple[Path, bytes, int]] = [((), b"", tree.children(()).total)]
    while waiting:
        path, text, leaves = waiting.pop()
        if len(text) >= len(wanted):
            yield path, text, leaves
            continue
        rest = wanted[len(text) :]
        below = tree.children(path)
        for token, count in zip(below.tokens.tolist(), below.leaves.tolist(), strict=True):
            piece = table[token]
            if piece.startswith(rest) or (piece and rest.startswith(piece)):
                waiting.append(((*path, token), text + piece, count))


TokenIds = tuple[int, ...]


def token_sequences(segments: Sequence[tuple[int, StoredTree]], after: TokenIds | None = None) -> Iterator[TokenIds]:
    """Yield the token ids of each fact whose signed sum over the segments is 1, in ascending order.

    `after`: yield only facts that come after these ids. Memory holds at most 8,192 facts of each segment at a time,
    besides the caches of the trees. Raises CorruptIndexError if the levels of a tree contradict each other, or if a
    sum is neither 0 nor 1.
    """
    for matrix in surviving(segments):
        for fact in _sequences(matrix):
            if after is None or fact > after:
                yield fact


def changed_sequences(segments: Sequence[tuple[int, StoredTree]]) -> Iterator[tuple[int, TokenIds]]:
    """Yield the facts whose signed sum over some segments of an index is 1 (these add them to the others) or -1 (they
    take them away): that sum, and the fact's token ids. Memory and errors are those of `token_sequences`.
    """
    for sign, matrix in changed(segments):
        for fact in _sequences(matrix):
            yield sign, fact


def _sequences(matrix: EntryMatrix) -> Iterator[TokenIds]:
    tokens, offsets = from_matrix(matrix)
    ids, ends = tokens.tolist(), offsets.tolist()
    return (tuple(ids[start:end]) for start, end in pairwise(ends))


def fact_of(tokens: TokenIds, tokenizer: FactTokenizer, terminator: str, index: str) -> Fact:
    """Return the fact with these token ids (without its terminator); its `token_span` is `(0, len(tokens))`.

    Raises CorruptIndexError, which names the index, if their text is not a fact.
    """
    text = tokenizer.decode(tokens)
    parts = split_fact(text)
    if parts is None:
        raise CorruptIndexError(
            f"index {index!r} has the token ids {list(tokens)}, whose text {text!r} is not <subject> <predicate> <object>. "
            "Ingest the index again"
        )
    return Fact(*parts, text.lstrip(" ") + terminator, (0, len(tokens)), qualifiers_of(text))


Value = TypeVar("Value")
Wanted = TypeVar("Wanted")


class Index:
    """A ready index in a database or a file, open for reading. Safe to share between threads, and with forked children.

    It is a `FactTree` (`children`) and a set of facts (`in`, `len`), and completes texts (`complete`). Close it, or use
    it in a `with` block:

        with refactx.open_index("demo") as index:
            index.complete("<Alaska", limit=5)  # a list of texts with their numbers of facts
            "<Danny Boyle> <date of birth> <1956-10-20> ." in index

    It shows the index as it was when it was opened, until `refresh`. If the index is compacted meanwhile, it continues
    with the index as it is then: the answer for one prefix is of one moment, those for two may be of two.

    Methods that read raise as `children` does. `entry`: its catalogue entry.
    """

    def __init__(
        self, source: IndexSource, *, cache_bytes: int = CACHE_BYTES, tokenizer: FactTokenizer | None = None
    ) -> None:
        """Open an index, given the place that it is read from; `refactx.open_index` finds that.

        `tokenizer`: the index's own, if it is known: then it is not read.
        """
        self._source, self.entry = source, source.entry
        self.name: str = self.entry.name
        self.trigger: str = self.entry.trigger
        self.terminator: str = self.entry.terminator
        self.fingerprint: str = self.entry.fingerprint
        self.tokenizer_name: str = self.entry.tokenizer
        self._refreshed = RefreshedSnapshot(source, cache_bytes)
        if tokenizer is None:
            self._load_tokenizer = source.prepare_tokenizer()
        else:
            self.tokenizer = tokenizer
        self._names_codec = RowCodec()

    @property
    def database(self) -> "Database":
        """The database of the index. Raises InputError if it is read from a file."""
        return self._source.database

    @property
    def segments(self) -> list[tuple[int, StoredTree]]:
        """The sign and the tree of each segment, at this moment."""
        return self._refreshed.now.signed_trees

    @property
    def rows(self) -> list[SegmentSource]:
        """The rows of each segment, at this moment."""
        return [segment.rows for segment in self._refreshed.now.segments]

    @property
    def name_tables(self) -> tuple[int, ...]:
        """The numbers of the tables with the names of the knowledge base, the latest first."""
        return self._refreshed.now.name_tables

    @property
    def snapshot(self) -> Snapshot:
        """The tables that the index consists of, at this moment, and their mark."""
        return self._refreshed.now

    @property
    def facts(self) -> int:
        """The number of facts."""
        return self._refreshed.now.facts

    @property
    def tokens(self) -> int:
        """The number of tokens of all facts, without terminators."""
        return self._refreshed.now.tokens

    def refresh(self) -> bool:
        """Show the index as it is now, with what was appended and forgotten. Return whether anything has changed.

        Raises IndexNotFoundError if the index was dropped or replaced.
        """
        return self._refreshed.refresh()

    def read(self, read: Callable[[Snapshot], Value]) -> Value:
        """Return `read(snapshot)`, with a new snapshot if the index is compacted meanwhile. Raises as `children` does."""
        return self._refreshed.read(read)

    def stream(self, read: Callable[[Snapshot], Iterable[Value]]) -> Iterator[Value]:
        """Yield what `read(snapshot)` yields. If the index is compacted meanwhile, `read` is called again with a new
        snapshot, and has to leave out what it has yielded. Raises as `children` does."""
        return self._refreshed.stream(read)

    def children(self, prefix: Sequence[int]) -> Children:
        """Return the continuations of `prefix`, the token ids after the trigger.

        `.tokens`: int32[n], the next ids, ascending; `.leaves`: int64[n], how many facts each leads to; `.terminal`:
        how many facts end at the prefix. If no fact starts with it, `.total` is 0.

        Raises CorruptIndexError, which names index and row, if a row is damaged; DatabaseError if PostgreSQL cannot be
        reached for longer than the limits allow; IndexNotFoundError if the index was dropped or replaced.
        """
        try:
            return self._refreshed.now.tree.children(prefix)
        except IndexNotFoundError:  # a segment's table is gone: the index was compacted, or dropped
            return self._refreshed.read(lambda snapshot: snapshot.tree.children(prefix))

    def __len__(self) -> int:
        return self.facts

    def __bool__(self) -> bool:
        return True

    def __contains__(self, fact: object) -> bool:
        """Return whether a fact, with or without its terminator, is in the index: `"<s> <p> <o> ." in index`."""
        written = written_fact(fact) if isinstance(fact, str) else None
        if written is None:
            return False
        tokens = self.tokenizer.encode_after(self.trigger, written)
        return self.children(tokens).terminal > 0

    def count(self, prefix: str) -> int:
        """Return how many facts begin with a text, such as `<Danny Boyle> <director of> <`. Raises as `children` does."""
        found = _matching(self, self.tokenizer.token_bytes, normalise_prefix(prefix).encode())
        return sum(leaves for _, _, leaves in found)

    is_joined = False
    """Whether several indexes are read as one (`refactx.index.joined`)."""

    @property
    def part_names(self) -> tuple[str, ...]:
        """The names of the indexes that are read: one, or several as one."""
        return (self.name,)

    def origins(self, fact: str) -> list[str]:
        """Return the names of the indexes that have a fact: of several that are read as one, those that have it."""
        return [self.name] if fact in self else []

    def text_in(self, index: str, fact: str) -> str:
        """Return the text of a fact with the names that one of several indexes, which are read as one, has for its parts."""
        return fact

    def complete(self, prefix: str, limit: int = 20) -> list[tuple[str, int]]:
        """Return how facts continue after a text such as `<Danny Boyle> <`, those with most facts first.

        Each result is the text up to the end of the next part, and the number of facts that begin with it; at most
        `limit` of them. After the text of a whole fact it is that fact, if it exists, and its qualifiers. The prefix may
        end inside a token. Raises as `children` does.
        """
        if written := written_fact(prefix):
            whole = [(written.lstrip() + self.terminator, 1)] if written in self else []
            more = completions(self, self.tokenizer, f"{written} <") if self.has_statements else ()
            return list(islice(chain(whole, more), limit))
        return list(islice(completions(self, self.tokenizer, normalise_prefix(prefix)), limit))

    def all_facts(self) -> Iterator[Fact]:
        """Yield every fact of the index, without forgotten ones, in the order of their token ids.

        The `token_span` of a fact with n token ids (without its terminator) is `(0, n)`. Memory holds at most 8,192
        facts of each segment at a time, besides the cache. If the index is compacted meanwhile, the stream continues
        after the last fact with the index as it is then. Raises as `children` does.
        """
        last: TokenIds | None = None

        def rest(snapshot: Snapshot) -> Iterator[TokenIds]:
            return token_sequences(snapshot.signed_trees, after=last)

        for tokens in self._refreshed.stream(rest):
            last = tokens
            yield fact_of(tokens, self.tokenizer, self.terminator, self.name)

    def to_arrow(self) -> "pa.Table":
        """Return all facts as an Arrow table; `arrow_batches` has its columns.

            index.to_arrow().to_pandas()

        Raises as `children` does.
        """
        import pyarrow as pa

        batches = list(self.arrow_batches())
        return pa.Table.from_batches(
            batches, None if batches else pa.schema([(name, pa.string()) for name in _COLUMNS])
        )

    def arrow_batches(self, rows: int = 65_536) -> "Iterator[pa.RecordBatch]":
        """Yield all facts as record batches of at most `rows`, of text columns: memory holds one at a time.

        `subject, predicate, object`: as in facts. `subject_id, predicate_id, object_id`: null for what has none.
        `object_kind`: `entity`, or the kind of a literal (`refactx.index.names.LITERAL_KINDS`); null if it is not known.
        Raises as `children` does.
        """
        import pyarrow as pa  # which walks of an index do not need

        schema = pa.schema([(name, pa.string()) for name in _COLUMNS])
        waiting = self.links_of(self.all_facts())
        kinds: dict[str, str | None] = {}
        while some := list(islice(waiting, rows)):
            new = {fact.predicate.label for fact in some} - kinds.keys()
            named = self.ids_of(new)
            kinds |= {name: named[name].object_kind if name in named else None for name in new}
            columns = zip(*(_row(fact, kinds[fact.predicate.label]) for fact in some), strict=True)
            yield pa.record_batch([pa.array(column, pa.string()) for column in columns], schema=schema)

    def links(self, fact: Fact) -> LinkedFact:
        """Return the parts of a fact with their ids, if the knowledge base has them, and its references.

        The predicate of an inverse fact has the id of the property that it reads backwards, an alias the id of its
        entity. Raises as `children` does.
        """
        (linked,) = self.with_references(link_facts([fact], partial(self._find, find_names), self.link))
        return linked

    def links_of(self, facts: Iterable[Fact]) -> Iterator[LinkedFact]:
        """Yield `links` of each fact, in order, with two queries of each name table for 1,024 facts.

        `facts` may be a stream of any length, such as `all_facts()`: memory holds 1,024 of them at a time.
        """
        waiting = iter(facts)
        while some := list(islice(waiting, FACTS_AT_ONCE)):
            # Up to 2,048 blocks from a cold disk may take longer than the limit for one lookup.
            find = partial(self._find, find_names, unlimited=True)
            yield from self.with_references(link_facts(some, find, self.link))

    def with_references(self, facts: Iterable[LinkedFact]) -> list[LinkedFact]:
        """Return facts with their references, with one query of each name table for all of them."""
        given = list(facts)
        found = self.references_of([one.text for one in given])
        return [replace(one, references=urls) for one, urls in zip(given, found, strict=True)] if any(found) else given

    def references_of(self, facts: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the addresses of the sources that Wikidata has for facts, given as texts without terminators: none, unless
        the ingest kept references.

        index.references_of(["<Oslo> <population> <709037> <point in time> <2022>"])  # [("https://www.ssb.no/",)]
        """
        if not (self.entry.report.get("selection") or {}).get("references"):
            return [()] * len(facts)
        numbers = [fact_number(one.strip()) for one in facts]
        found = self._find(partial(find_numbers, language=REFERENCES), set(numbers), unlimited=True)
        return [tuple(filter(ADDRESS.fullmatch, found.get(number, "").split(" "))) for number in numbers]

    def link(self, label: str, id_: str | None) -> Link:
        """Return the link of a part and its id, with the address of its page: by the pattern `--link` of the ingest, or
        in a Wikibase by its IRI. Without them, it is the page on Wikidata, or the id itself if that is an address."""
        if id_ is None or self.page_pattern is None:
            return Link(label, id_)
        return Link(label, id_, page_of(id_, label, self.page_pattern) if self.page_pattern else "")

    @cached_property
    def page_pattern(self) -> str | None:
        """The pattern of pages (`refactx.fact.page_of`); None: an id says its page; "": ids have none."""
        if isinstance(pattern := self.entry.report.get("selection", {}).get("link"), str):
            return pattern
        return f"{self.base}entity/{{id}}" if self.base else None

    @cached_property
    def base(self) -> str | None:
        """The beginning of all IRIs of a Wikibase, such as `https://kb.example.org/`; None for Wikidata and other graphs."""
        return (self.entry.report.get("selection", {}).get("profile") or {}).get("base")

    @property
    def property_aliases(self) -> Mapping[str, Sequence[str]]:
        """The other names of predicates, by name."""
        found: Mapping[str, Sequence[str]] = self.entry.report.get("property_aliases", {})
        return found

    def ids_of(self, names: Iterable[str]) -> dict[str, Named]:
        """Return the ids of items and properties by name, and the kinds of properties' objects, without names that
        have none, with one query of each name table for all of them."""
        return self._find(find_names, set(names))

    def ids_in(self, tables: Sequence[int], names: set[str]) -> dict[str, Named]:
        """Return `ids_of` names by some name tables, the latest first. Raises IndexNotFoundError if one is gone."""
        where = f"index {self.name!r}"
        return self._source.read_names(
            lambda read: find_names(read, tables, names, self._names_codec, where), unlimited=True
        )

    def names_of(self, ids: Iterable[str], *, inverse: bool = False) -> dict[str, str]:
        """Return the names of items and properties by id, with one query of each name table for all of them.

        With `inverse`: the names of predicates that read these properties backwards. Ids that have no name in the
        knowledge base are left out: all, if an older ReFactX made the index.

            index.names_of(["Q103916", "P57"])  # {"Q103916": "Danny Boyle", "P57": "director"}
            index.names_of(["P57"], inverse=True)  # {"P57": "director of"}
        """
        numbers = inverse_numbers(ids, self.entry.report.get("inverse_properties")) if inverse else numbers_of(ids)
        return {numbers[number]: name for number, name in self._find(find_numbers, set(numbers)).items()}

    def names_of_numbers(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the names of items and properties by their numbers (`refactx.entity_ids`), negative for the predicate that
        reads a property backwards, without those that have none."""
        return self._find(find_numbers, set(numbers))

    def inverses_of(self, predicates: Iterable[str]) -> dict[str, list[str]]:
        """Return the predicates of the inverse facts of claims with some predicates, without those that have none.

        index.inverses_of(["director"])  # {"director": ["director of"]}
        """
        named = {name: one for name, one in self.ids_of(predicates).items() if one.object_kind != "inverse"}
        called = self.names_of({one.id for one in named.values() if one.is_property}, inverse=True)
        found = {name: [called[one.id]] for name, one in named.items() if one.id in called}
        ready = ready_inverses(self.entry.report)
        return found | {name: [ready[name]] for name in predicates if ready.get(name)}

    def claims_of(self, predicates: Iterable[str]) -> dict[str, list[str]]:
        """Return the predicates of the claims that facts with some predicates may be the inverse ones of.

        index.claims_of(["director of", "child"])  # {"director of": ["director"], "child": ["father", "mother"]}
        """
        found: dict[str, list[str]] = {}
        ready, pairs = ready_inverses(self.entry.report), self.entry.report.get("inverse_properties") or {}
        for name, one in self.ids_of(predicates).items():
            ids = [one.id] if one.object_kind == "inverse" else [id_ for id_, other in pairs.items() if other == one.id]
            if names := list(self.names_of(ids).values()):
                found[name] = names
        for name in predicates:
            if names := [claim for claim, inverse in ready.items() if inverse == name]:
                found[name] = names
        return found

    def ids_of_numbers(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the ids of items and properties by their numbers (`refactx.entity_ids`), without those of ids that are
        none of Wikidata's and that the index does not name."""
        ids = {number: entity_id(number) for number in numbers if is_wikidata(number)}
        if others := set(numbers) - ids.keys():
            names = self._find(find_numbers, others)
            named = self.ids_of(names.values())
            ids |= {number: named[name].id for number, name in names.items() if name in named}
        return ids

    def property_names(self) -> list[str]:
        """Return the names of all properties, and of those read backwards: of Wikidata by the numbers that they may have;
        of another graph, whose ids cannot be guessed, by reading all names."""
        numbers = {sign * (2 * number + 1) for number in range(1, LARGEST_PROPERTY) for sign in (1, -1)}
        if found := list(self._find(find_numbers, numbers).values()):
            return found
        blocks = (self.unpack_names(key, block) for key, block in self.name_rows())
        return [name for block in blocks for name, named in block.items() if named.is_property]

    def hubs(self, objects: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return how many subjects hubs have, by object and by the predicate of the inverse facts that the index does
        not have: `{"human": {"has instance": 52073}}`. One query for all objects; those that are no hubs are left out.

        The counts are of now, also if the index was opened before a change.
        """
        if not (names := list(objects) if self.has_hubs else []):
            return {}
        return self._refreshed.read(lambda _: self._source.hubs(names))

    @property
    def has_statements(self) -> bool:
        """Whether facts may have qualifiers: a fact may then begin others, and facts below a prefix are not plain facts."""
        return self._refreshed.now.has_statements

    @property
    def has_hubs(self) -> bool:
        """Whether hubs, names by id and kinds of literals are stored: not if an older ReFactX ingested the index."""
        return isinstance(self.entry.report.get("hubs"), int)

    def _find(
        self, find: Callable[..., dict[Wanted, Value]], wanted: set[Wanted], *, unlimited: bool = False
    ) -> dict[Wanted, Value]:
        given = self._names_codec, f"index {self.name!r}"
        return self._refreshed.read(
            lambda snapshot: self._source.read_names(
                lambda read: find(read, snapshot.name_tables, wanted, *given), unlimited=unlimited
            )
        )

    def labels_of(self, names: Iterable[str], language: str) -> dict[str, str]:
        """Return the labels of things in a language by their names, without those that have none or are called so.

        index.labels_of(["Germany (country in Central Europe)"], "de")  # {"Germany (...)": "Deutschland"}
        """
        numbers = (
            {name: named.number for name, named in self.ids_of(names).items()} if language in self.languages else {}
        )
        found = self._find(partial(find_numbers, language=language), set(numbers.values()))
        return {name: found[number] for name, number in numbers.items() if number in found}

    @property
    def languages(self) -> Sequence[str]:
        """The languages of names, best first, as the ingest was given them; none for an index of ready-made facts."""
        found: Sequence[str] = (self.entry.report.get("selection") or {}).get("languages") or ()
        return found

    def name_rows(self, first: bytes = FIRST_KEY) -> list[tuple[bytes, bytes]]:
        """Return the keys and blocks of all names, each table's in the order of its keys; the latest table is first.
        `first`: as in `name_table_rows`."""
        return self._refreshed.read(
            lambda snapshot: [row for table in snapshot.name_tables for row in self.name_table_rows(table, first)]
        )

    def name_table_rows(self, table: int, first: bytes = FIRST_KEY) -> list[tuple[bytes, bytes]]:
        """Return the keys and blocks of one name table by key; with `first` b"" also those of names by id."""
        return self._source.name_rows(table, first)

    def read_blocks(self, table: int, keys: list[bytes], first: bytes) -> Mapping[bytes, bytes]:
        """Return the blocks of one name table in which the entries of keys would be (`refactx.index.names.ReadBlocks`)."""
        return self._source.read_names(lambda read: read(table, keys, first))

    def faults(self) -> Iterable[str]:
        """Check how the index is stored, apart from its rows, and yield what is wrong: checksums in a file."""
        return self._source.faults()

    def unpack_names(self, key: bytes, block: bytes) -> dict[str, Named]:
        """Return all names of a block. Raises CorruptIndexError if it is damaged."""
        return unpack_block(key, block, self._names_codec, f"index {self.name!r}: block of names {key!r}")

    @cached_property
    def tokenizer(self) -> FactTokenizer:
        """The tokenizer that the index was built for. Raises CorruptIndexError, or InputError for a file, if it is
        damaged."""
        return self._load_tokenizer()

    @property
    def round_trips(self) -> int:
        """The number of queries for rows of the tree so far."""
        return self._refreshed.gone_round_trips + sum(rows.round_trips for rows in self.rows)

    def close(self) -> None:
        """Let go of the file, or close the connections. An embedded server stops when nothing uses it any more."""
        self._source.close()

    def __enter__(self) -> "Index":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def ready_inverses(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the predicates of ready-made facts, each with that of its inverse facts, by the account of an index: those that
    the ingest was given, and those by its rules ("" for none)."""
    given = (report.get("selection") or {}).get("inverse_names") or {}
    return {**given, **(report.get("ready_inverses") or {})}


def index_document(entry: CatalogueEntry) -> dict[str, Any]:
    """Return the JSON document of a catalogue entry, as `refactx index list --json` prints it.

    `bytes`: the size of the tree with B-tree and TOAST; `names_bytes`: that of the names, which have tables of their
    own.
    """
    size = entry.tree_bytes
    return {
        "name": entry.name,
        "state": entry.state,
        "facts": entry.facts,
        "tokens": entry.tokens,
        "segments": entry.segments,
        "unfinished": entry.unfinished,
        "levels": entry.levels,
        "bytes": size,
        "table_bytes": entry.table_bytes,
        "index_bytes": entry.index_bytes,
        "toast_bytes": entry.toast_bytes,
        "names_bytes": entry.names_bytes,
        "bytes_per_fact": round(size / entry.facts, 3) if entry.facts else None,
        "tokenizer": entry.tokenizer,
        "fingerprint": entry.fingerprint,
        "vocabulary_size": entry.vocabulary_size,
        "trigger": entry.trigger,
        "terminator": entry.terminator,
        "format": entry.format,
        "knowledge_base": entry.knowledge_base,
        "source": list(entry.source),
        "created": entry.created.isoformat(timespec="seconds"),
        "report": entry.report,
    }


def shape_of(index: Index) -> dict[str, Any]:
    """Return the rows, depth and fan-out of an index as a JSON document.

    `depth_mean`: tokens of a fact; `fan_out_root`, `fan_out_widest`: children of the root, and of the widest node in
    the root pieces.
    """
    rows = sum(source.count() for source in index.rows)
    widest = 0
    for _, tree in index.segments:
        root = tree.piece(tree.root_key)
        if root.level:
            kinds = root.kinds != TERMINAL
            depths, counts = np.unique(root.lcp[kinds], return_counts=True)
            widest = max(widest, int(counts.max(initial=0)) if len(depths) else 0)
    return {
        "rows": rows,
        "facts_per_row": round(index.facts / max(1, rows), 1),
        "depth_mean": round(index.tokens / max(1, index.facts), 1),
        "fan_out_root": len(index.children([]).tokens),
        "fan_out_widest": widest,
    }
