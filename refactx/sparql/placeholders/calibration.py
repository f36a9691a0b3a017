"""The thresholds of a stored memory: the best ones for cases at random, and their storage.

An alias of an entity takes the place of its label, and the short description of Wikipedia, or else its class, that of its
description. The first sentence of the description of a property, which has no aliases, takes the place of its label.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from refactx.errors import InputError
from refactx.fact import DESCRIPTIONS
from refactx.index.index import Index
from refactx.postgres.memory import (
    MemoryRecord,
    SampleRow,
    memory_session,
    sample_aliased,
    sample_namesakes,
    sample_properties,
    store_thresholds,
)
from refactx.sparql.placeholders.entry import (
    FEWEST,
    MATCHES,
    Entry,
    Match,
    Memory,
    Near,
    Pair,
    Threshold,
    best_threshold,
    fold,
)
from refactx.sparql.placeholders.index_names import split_name
from refactx.sparql.placeholders.name_memory import MemoryWithout
from refactx.sparql.placeholders.text import Placeholder
from refactx.sparql.placeholders.vector_memory import VectorMemory, entry_of_row
from refactx.walks.facts import TreeFacts

_CLASSES = ("P31", "http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
"""The properties of an entity's class."""


@dataclass(frozen=True, slots=True)
class Case:
    """An entry of a memory, and mentions of it.

    `mention`: in other words; `label`: the one by which it is sought when the memory is without it.
    """

    match: Match
    entry: Entry
    mention: Placeholder
    label: Placeholder


def sample_cases(index: Index, record: MemoryRecord, count: int, seed: int = 0) -> list[Case]:
    """Return cases of the stored memory of an open index: at most `count` of each kind. The same seed gives the same."""
    entities, relations, namesakes = (
        index.database.retry_unlimited(partial(sample, memory=record, count=count, seed=seed), index.name)
        for sample in (sample_aliased, sample_properties, sample_namesakes)
    )
    ids = index.ids_of_numbers({row.number for row in (*entities, *relations, *namesakes)})
    words = _other_words(index, ids, [*entities, *namesakes])
    cases = []
    for row in entities:
        description = words.get(row.number, row.description)
        mentions = (Placeholder("entity", label, description) for label in (row.alias, row.label))
        cases.append(Case("entity", entry_of_row(row, ids), *mentions))
    for row in relations:
        mention = Placeholder("relation", first_sentence(row.description))
        cases.append(Case("relation", entry_of_row(row, ids), mention, mention))
    for row in namesakes:
        if row.number in words:
            mention = Placeholder("entity", row.label, words[row.number])
            cases.append(Case("namesake", entry_of_row(row, ids), mention, mention))
    return [case for case in cases if case.entry.id]


def first_sentence(text: str) -> str:
    """Return the first sentence of a description, without what is in brackets.

    >>> first_sentence("male parent of the subject (a person). For stepfather, use another")
    'male parent of the subject'
    """
    return re.split(r"[.;] ", re.sub(r" ?\([^()]*\)", "", text))[0].strip() or text


def _other_words(index: Index, ids: Mapping[int, str], rows: Sequence[SampleRow]) -> dict[int, str]:
    """Return a description of entities in words other than their own, by number, where there is one."""
    facts = TreeFacts(index)
    names = index.names_of({ids[row.number] for row in rows if row.number in ids})
    found: dict[str, str] = {}
    for predicate in (DESCRIPTIONS[1], *index.names_of(_CLASSES).values()):
        for name, text in facts.objects(list(names.values()), predicate):
            found.setdefault(name, text if predicate == DESCRIPTIONS[1] else split_name(text)[0])
    own = {row.number: row.description.casefold() for row in rows}
    words = {number: found.get(names.get(ids.get(number, ""), ""), "") for number in own}
    return {number: text for number, text in words.items() if text and text.casefold() != own[number]}


_AT_ONCE = 64
"""The cases whose nearest entries are read together."""

Progress = Callable[[int, int], object]


def pairs_of(
    memory: Memory, cases: Sequence[Case], progress: Progress = lambda done, total: None
) -> list[tuple[Case, Pair]]:
    """Return what each case is resolved to, with its entry in the memory, and without it.

    Cases whose mention has the label of another entry count only as namesakes, since the nearest are not sought then.
    """
    found: list[tuple[Case, Pair]] = []
    near = [one for one in cases if one.match != "namesake"]
    namesakes = [one for one in cases if one.match == "namesake"]
    for at in range(0, len(near), _AT_ONCE):
        found += _near_pairs(memory, near[at : at + _AT_ONCE])
        progress(min(at + _AT_ONCE, len(near)), len(cases))
    for at, case in enumerate(namesakes):
        found += [(case, pair) for pair in _namesake_pairs(memory, case)]
        progress(len(near) + at + 1, len(cases))
    return found


def _near_pairs(memory: Memory, cases: Sequence[Case]) -> Iterator[tuple[Case, Pair]]:
    mentions = [case.mention for case in cases]
    exact = memory.exact(mentions)
    for case, with_label, near in zip(cases, exact, memory.nearest(mentions, 2), strict=True):
        if near and not any(one.id != case.entry.id for one in with_label):
            label = fold(case.mention.label)
            by_label = [  # what is near by the very alias of the mention
                Near(case.entry, memory.similarities(case.mention, [case.entry])[0])
                if one.entry.is_alias and one.entry.id == case.entry.id and fold(one.entry.label) == label
                else one
                for one in near
            ]
            best = max(by_label, key=lambda one: one.similarity)
            yield case, Pair(best.similarity, best.entry.id == case.entry.id)
    for case in cases:
        without = MemoryWithout(memory, {case.entry.id})
        if not without.exact([case.label])[0] and (near := without.nearest([case.label], 1)[0]):
            yield case, Pair(near[0].similarity, False)


def _namesake_pairs(memory: Memory, case: Case) -> Iterator[Pair]:
    for without in ((), (case.entry.id,)):
        rest = MemoryWithout(memory, without)
        entries = rest.exact([case.mention])[0]
        likeness = rest.similarities(case.mention, entries)
        near = [Near(entry, min(one, 1.0)) for entry, one in zip(entries, likeness, strict=True) if entry.description]
        if near:
            best = max(near, key=lambda one: one.similarity)
            yield Pair(best.similarity, best.entry.id == case.entry.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCalibration:
    """The thresholds of a memory that were found, by kind. There is none of a kind with fewer than `FEWEST` right or
    wrong pairs."""

    index: str
    encoder: str
    found: Mapping[Match, Threshold]

    def to_json(self) -> dict[str, Any]:
        """Return what `refactx memory calibrate --json` prints."""
        kinds = {
            match: {name: round(value, 4) for name, value in asdict(one).items()} for match, one in self.found.items()
        }
        return {"index": self.index, "encoder": self.encoder, "thresholds": kinds}


def calibrate_memory(
    index: Index,
    memory: VectorMemory,
    *,
    count: int = 500,
    seed: int = 0,
    refusal: float | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> MemoryCalibration:
    """Find the thresholds of the memory of an open index, and store them with it.

    `count`: the cases of each kind; `refusal`: as `best_threshold` has it; `progress`: called with the numbers of cases
    that are done and of all. Raises InputError if the index has too few names with aliases or namesakes; as
    `build_memory` does without the rights of a writer.
    """
    cases = sample_cases(index, memory.record, count, seed)
    pairs = pairs_of(memory, cases, progress)
    found: dict[Match, Threshold] = {}
    for match in MATCHES:
        some = [pair for case, pair in pairs if case.match == match]
        right = sum(one.right for one in some)
        if min(right, len(some) - right) >= FEWEST:
            found[match] = best_threshold(some, refusal)
    if not found:
        raise InputError(
            f"index {index.name!r} has too few names to calibrate its memory by: it needs {FEWEST} with an alias, or with "
            "the label of another entity. The thresholds stay as they are"
        )
    with memory_session(index.database, index.name) as connection:
        store_thresholds(connection, memory.record, {match: one.tau for match, one in found.items()})
    return MemoryCalibration(index=index.name, encoder=memory.record.encoder, found=found)
