"""The entries of a memory, and the protocols of a memory and of an encoder."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS, clean_part
from refactx.index.index import Index
from refactx.index.names import Named
from refactx.sparql.placeholders.index_names import full_name, split_name
from refactx.sparql.placeholders.text import Kind, Placeholder, kind_of

if TYPE_CHECKING:
    from refactx.postgres.memory import NameRow, PartRow


Match = Literal["entity", "relation", "namesake"]
"""What a threshold is for: an entity or a relation that is only near a mention, or an entity with the mention's label
and another description."""
Thresholds = float | Mapping[Match, float]
"""The least similarity, for all kinds of matches or for some of them."""

PAPER: Mapping[Match, float] = {"entity": 0.85, "relation": 0.85, "namesake": 0.85}
"""The least similarities of the paper, found with BGE as the encoder."""
LETTERS: Mapping[Match, float] = {"entity": 0.9, "relation": 0.85, "namesake": 0.5}
"""Those of names without embeddings, set by judgement: one letter of ten may be wrong, and half of the words of a
namesake's description are to be those of the index."""
MAX_REMEMBERED_NAMES = 1_000_000
"""The names that are remembered as written, so that most are written once: some 100 MB."""
How = Literal["name", "label", "alias", "nearest"]
"""How an id was found: by label and description, by label, by alias, or as the nearest entry."""


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """A name in a memory: the id of its entity or property (`Q42`, an IRI, the key of a row), a label or (`is_alias`) an
    alias of it, and its description, which may be empty."""

    id: str
    label: str
    description: str = ""
    is_alias: bool = False
    kind: Kind = "entity"

    @property
    def text(self) -> str:
        """The label with the description, as an encoder reads it.

        >>> MemoryEntry("Q1588", "Louisiana", "state of the United States of America").text
        'Louisiana (state of the United States of America)'
        """
        return full_name(self.label, self.description)


@dataclass(frozen=True, slots=True)
class Near:
    """An entry, and how similar it is to a mention: at most 1, which means equal."""

    entry: MemoryEntry
    similarity: float


class Memory(Protocol):
    """The names of an index, by which mentions are resolved. Methods raise as `refactx.Index.children` does."""

    @property
    def thresholds(self) -> Mapping[Match, float]:
        """The least similarity of what a mention is resolved to, by kind; one that is equal passes."""
        ...

    def exact(self, mentions: Sequence[Placeholder]) -> Sequence[Sequence[MemoryEntry]]:
        """Return the entries of each mention's kind that have its label, in any spelling, those with most facts first."""
        ...

    def nearest(self, mentions: Sequence[Placeholder], count: int) -> Sequence[Sequence[Near]]:
        """Return the entries of each mention's kind that are most similar to it, each entity or property once: at most
        `count`, the nearest first."""
        ...

    def similarities(self, mention: Placeholder, entries: Sequence[MemoryEntry]) -> Sequence[float]:
        """Return how similar entries are to a mention, by labels and descriptions."""
        ...


def fold(text: str) -> str:
    """Return a text that is equal for labels which differ in case or white space alone.

    >>> fold("Straße  in Rom") == fold("STRASSE IN ROM")
    True
    """
    return clean_part(text).casefold()


def folded_hash(text: str) -> int:
    """Return a hash of `fold(text)`, an int64 that does not change from one process to another.

    >>> folded_hash("JFK") == folded_hash("jfk"), -(2**63) <= folded_hash("JFK") < 2**63
    (True, True)
    """
    digest = hashlib.blake2b(fold(text).encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def mention_text(mention: Placeholder) -> str:
    """Return a mention as an encoder reads it."""
    return full_name(mention.label, mention.description)


def label_keys(mention: Placeholder) -> set[str]:
    """Return the labels that entries of a mention's label may have: a label may also be a whole name of the index.

    >>> sorted(label_keys(Placeholder("entity", "Air (film)")))
    ['Air', 'Air (film)']
    """
    return {mention.label, split_name(mention.label)[0]}


def has_label(entry: MemoryEntry, mention: Placeholder) -> bool:
    """Return whether an entry is of a mention's kind and has its label, in any case.

    >>> [has_label(MemoryEntry("Q1", "Air", "film"), Placeholder(kind, "air")) for kind in ("entity", "relation")]
    [True, False]
    """
    return entry.kind == mention.kind and fold(mention.label) in (fold(entry.label), fold(entry.text))


def is_described(entry: MemoryEntry, mention: Placeholder) -> bool:
    """Return whether an entry has the description of a mention, in any case; its id counts as one.

    An entry without a description has that of a mention with an empty one. A label that is a whole name of the index
    has its description in it.

    >>> is_described(MemoryEntry("Q1", "Air", "a film"), Placeholder("entity", "air", "A film"))
    True
    >>> is_described(MemoryEntry("Q1", "Air", "a film"), Placeholder("entity", "Air (a film)"))
    True
    """
    description = fold(mention.description or "")
    if description:
        return description in (fold(entry.description), entry.id.casefold())
    if fold(entry.text) != fold(mention.label):
        return False
    return mention.description is not None or entry.description != ""


@dataclass(frozen=True, slots=True)
class MentionChoice:
    """What a mention was resolved to. `similarity`: 1 unless it is only near, or is an entity that is described otherwise;
    `feasible`: whether all patterns with it match facts, None if no pattern says."""

    mention: Placeholder
    entry: MemoryEntry
    similarity: float
    how: How
    feasible: bool | None = None

    @property
    def match(self) -> Match | None:
        """What the threshold of its similarity is for; None for a label with the right description, or with none."""
        if self.how != "nearest":
            return "namesake" if self.similarity < 1 else None
        return self.mention.kind


@dataclass(frozen=True, slots=True)
class ResolvedMentions:
    """The choices of a query, by placeholder."""

    choices: Mapping[str, MentionChoice]

    @property
    def ids(self) -> dict[str, str]:
        """The ids by placeholder, for `PgmrQuery.with_ids`."""
        return {name: choice.entry.id for name, choice in self.choices.items()}


@dataclass(frozen=True, slots=True)
class Refused:
    """A query that was refused. `which`: the placeholder of the mention that is least similar to anything in the memory;
    `best`: what it would have been, None if there is nothing; `similarity`: of that; `reason`: in words."""

    which: str
    best: MentionChoice | None
    similarity: float
    reason: str


@dataclass(frozen=True, slots=True)
class WeighedChoice:
    """A choice that may be made. `weight`: what speaks for it, some 0 to 1."""

    choice: MentionChoice
    weight: float


def entry_of(name: str, id_: str, kind: Kind = "entity") -> MemoryEntry:
    """Return the entry of a name in an index. An id in brackets is not a description.

    >>> entry_of("Louisiana (state of the United States)", "Q1588").description
    'state of the United States'
    >>> entry_of("Paris (Q90)", "Q90")
    MemoryEntry(id='Q90', label='Paris', description='', is_alias=False, kind='entity')
    """
    label, description = split_name(name, id_ if kind == "relation" else "")
    return MemoryEntry(id_, label, "" if description == id_ else description, kind=kind)


def named_entries(index: Index) -> Iterator[tuple[str, Named, MemoryEntry]]:
    """Yield the names of an index with what they name and their entries, those of the latest name table first.

    Names of predicates that read a property backwards are left out. A name may come again, of an older table.
    """
    for key, block in index.name_rows():
        for name, named in index.unpack_names(key, block).items():
            if named.object_kind != "inverse":
                yield name, named, entry_of(name, named.id, kind_of(named))


def name_rows(index: Index) -> Iterator["NameRow"]:
    """Yield the names of an index for `update_entries`."""
    from refactx.postgres.memory import NameRow  # psycopg, which entries alone do not need

    for place, (name, named, entry) in enumerate(named_entries(index)):
        yield NameRow(name, named.number, entry.label, entry.description, folded_hash(entry.label), place)


def part_rows(index: Index) -> Iterator["PartRow"]:
    """Yield what the facts of an index say of its names for `update_entries`. Reads all facts."""
    from refactx.postgres.memory import PartRow

    seen = set[str]()
    for fact in index.all_facts():
        if fact.predicate in DESCRIPTIONS:
            yield PartRow("d" if fact.predicate == DESCRIPTIONS[0] else "s", fact.subject, fact.object)
        elif fact.predicate == ALIAS_OF and fact.subject.endswith(ALIAS):
            alias = fact.subject.removesuffix(ALIAS)
            yield PartRow("a", alias, fact.object, folded_hash(alias))
        for name in (fact.subject, fact.predicate, fact.object):
            if name not in seen:
                if len(seen) >= MAX_REMEMBERED_NAMES:
                    seen.clear()
                seen.add(name)
                yield PartRow("u", name)
