"""The names of an index as a memory wants them: labels, descriptions and aliases, from its names and its facts."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from refactx.entity_ids import entity_number
from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS
from refactx.index.index import Index
from refactx.query.pgmr.index_names import split_name
from refactx.sparql.memory.entry import Entry, folded_hash

if TYPE_CHECKING:
    from refactx.postgres.memory.entries import NameRow, PartRow

_MOST_SEEN = 1_000_000
"""The names that are remembered as written, so that most are written once: some 100 MB."""


def entry_of(name: str, id_: str) -> Entry:
    """Return the entry of a name in an index. An id in brackets is not a description.

    >>> entry_of("Louisiana (state of the United States)", "Q1588").description, entry_of("Paris (Q90)", "Q90")
    ('state of the United States', Entry(id='Q90', label='Paris', description='', is_alias=False))
    """
    label, description = split_name(name, id_)
    return Entry(id_, label, "" if description == id_ else description)


def named_entries(index: Index) -> Iterator[tuple[str, Entry]]:
    """Yield the names of an index with their entries, those of the latest name table first.

    Names of predicates that read a property backwards are left out. A name may come again, of an older table.
    """
    for key, block in index.name_rows():
        for name, named in index.unpack_names(key, block).items():
            if named.object_kind != "inverse":
                yield name, entry_of(name, named.id)


def name_rows(index: Index) -> Iterator["NameRow"]:
    """Yield the names of an index for `update_entries`."""
    from refactx.postgres.memory.entries import NameRow  # psycopg, which entries alone do not need

    for place, (name, entry) in enumerate(named_entries(index)):
        number, folded = entity_number(entry.id), folded_hash(entry.label)
        yield NameRow(name, number, entry.label, entry.description, folded, place)


def part_rows(index: Index) -> Iterator["PartRow"]:
    """Yield what the facts of an index say of its names for `update_entries`. Reads all facts."""
    from refactx.postgres.memory.entries import PartRow

    seen = set[str]()
    for fact in index.all_facts():
        if fact.predicate in DESCRIPTIONS:
            yield PartRow("d" if fact.predicate == DESCRIPTIONS[0] else "s", fact.subject, fact.object)
        elif fact.predicate == ALIAS_OF and fact.subject.endswith(ALIAS):
            alias = fact.subject.removesuffix(ALIAS)
            yield PartRow("a", alias, fact.object, folded_hash(alias))
        for name in (fact.subject, fact.predicate, fact.object):
            if name not in seen:
                if len(seen) >= _MOST_SEEN:
                    seen.clear()
                seen.add(name)
                yield PartRow("u", name)
