"""Cases for a calibration: mentions of what a memory has, in words other than its own, as a model writes them.

An alias of an entity takes the place of its label, and the short description of Wikipedia, or else its class, that of its
description. The first sentence of the description of a property, which has no aliases, takes the place of its label.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from refactx.entity_ids import entity_id
from refactx.fact import DESCRIPTIONS
from refactx.index.index import Index
from refactx.postgres.memory.records import MemoryRecord
from refactx.postgres.memory.samples import SampleRow, sample_aliased, sample_namesakes, sample_properties
from refactx.query.pgmr import Mention
from refactx.query.pgmr.index_names import split_name
from refactx.query.tree_facts import TreeFacts
from refactx.sparql.memory.entry import Entry
from refactx.sparql.memory.thresholds import Match

_CLASS = "P31"
"""The property of an entity's class."""


@dataclass(frozen=True, slots=True)
class Case:
    """An entry of a memory, and mentions of it.

    `mention`: in other words; `label`: the one by which it is sought when the memory is without it.
    """

    match: Match
    entry: Entry
    mention: Mention
    label: Mention


def sample_cases(index: Index, record: MemoryRecord, count: int, seed: int = 0) -> list[Case]:
    """Return cases of the stored memory of an open index: at most `count` of each kind. The same seed gives the same."""
    entities, relations, namesakes = (
        index.database.retry_unlimited(partial(sample, memory=record, count=count, seed=seed), index.name)
        for sample in (sample_aliased, sample_properties, sample_namesakes)
    )
    words = _other_words(index, [*entities, *namesakes])
    cases = []
    for row in entities:
        description = words.get(row.number, row.description)
        mentions = (Mention("entity", label, description) for label in (row.alias, row.label))
        cases.append(Case("entity", _entry(row), *mentions))
    for row in relations:
        mention = Mention("relation", first_sentence(row.description))
        cases.append(Case("relation", _entry(row), mention, mention))
    for row in namesakes:
        if row.number in words:
            mention = Mention("entity", row.label, words[row.number])
            cases.append(Case("namesake", _entry(row), mention, mention))
    return cases


def first_sentence(text: str) -> str:
    """Return the first sentence of a description, without what is in brackets.

    >>> first_sentence("male parent of the subject (a person). For stepfather, use another")
    'male parent of the subject'
    """
    return re.split(r"[.;] ", re.sub(r" ?\([^()]*\)", "", text))[0].strip() or text


def _entry(row: SampleRow) -> Entry:
    return Entry(entity_id(row.number), row.label, row.description)


def _other_words(index: Index, rows: Sequence[SampleRow]) -> dict[int, str]:
    """Return a description of entities in words other than their own, by number, where there is one."""
    facts = TreeFacts(index)
    names = index.names_of({entity_id(row.number) for row in rows})
    class_ = index.names_of([_CLASS]).get(_CLASS, "")
    found: dict[str, str] = {}
    for predicate in filter(None, (DESCRIPTIONS[1], class_)):
        for name, text in facts.objects(list(names.values()), predicate):
            found.setdefault(name, text if predicate == DESCRIPTIONS[1] else split_name(text, "")[0])
    own = {row.number: row.description.casefold() for row in rows}
    words = {number: found.get(names.get(entity_id(number), ""), "") for number in own}
    return {number: text for number, text in words.items() if text and text.casefold() != own[number]}
