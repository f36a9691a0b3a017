"""The names of a memory that are nearest to a question, to be given to a model (retrieval-augmented generation)."""

import re
from collections.abc import Callable, Collection, Sequence

from refactx.query.pgmr import Mention
from refactx.query.pgmr.mentions import kind_of
from refactx.sparql.memory.entry import Entry, Memory, Near
from refactx.sparql.memory.feasibility import Feasible
from refactx.sparql.memory.name_memory import NameMemory

WORDS = 6
"""The most words of a name that is looked for in a question."""
NAMESAKES = 3
"""The most entities of a name, those with most facts."""
_WORD = re.compile(r"[^\W_]+(?:[.'’-][^\W_]+)*")

Retrieve = Callable[[str, int], Sequence[Entry]]
"""A function that returns the entities and properties nearest to a question, at most so many."""


def retriever_of(memory: Memory, feasible: Feasible, function: Collection[str] = ()) -> Retrieve:
    """Return what finds the names that are nearest to a question.

    By embeddings, the whole question is compared with names, as in the paper. A memory without embeddings compares
    letters, and no name is like a whole question: then those are found that stand in it. Half of them are entities and
    half properties, unless one kind has fewer. `function`: words in lower case that name nothing by themselves.
    """
    if isinstance(memory, NameMemory):
        return lambda question, count: _halves(*_by_words(question, memory, feasible, function), count)
    return lambda question, count: _halves(*_by_embedding(question, memory, count), count)


def _halves(entities: Sequence[Entry], relations: Sequence[Entry], count: int) -> list[Entry]:
    """Return some entities and properties, the first ones of each, each once."""
    entities, relations = _once(entities), _once(relations)
    of_relations = min(len(relations), max(count // 2, count - len(entities)))
    return [*relations[:of_relations], *entities[: count - of_relations]]


def _once(entries: Sequence[Entry]) -> list[Entry]:
    """Return the first entry of each id.

    >>> [one.label for one in _once([Entry("Q1", "a"), Entry("Q2", "b"), Entry("Q1", "c")])]
    ['a', 'b']
    """
    found = dict[str, Entry]()
    for one in entries:
        found.setdefault(one.id, one)
    return list(found.values())


def _by_embedding(question: str, memory: Memory, count: int) -> tuple[list[Entry], list[Entry]]:
    near = memory.nearest([Mention("entity", question), Mention("relation", question)], count)
    entities, relations = ([one.entry for one in some] for some in near)
    return entities, relations


def _by_words(
    question: str, memory: Memory, feasible: Feasible, function: Collection[str]
) -> tuple[list[Entry], list[Entry]]:
    """Return the entities and the properties whose labels or aliases stand in a question, the longest first; then the
    properties that are like a word of it."""
    words = [match[0] for match in _WORD.finditer(question)]
    spans = [
        " ".join(words[at : at + length])
        for length in range(min(WORDS, len(words)), 0, -1)
        for at in range(len(words) - length + 1)
        if any(word.casefold() not in function for word in words[at : at + length])
    ]
    entities, relations = list[Entry](), list[Entry]()
    taken = list[str]()  # of names of several words, the words are not names besides
    mentions = [Mention("entity", span) for span in spans] + [Mention("relation", span) for span in spans]
    for mention, found in zip(mentions, memory.exact(mentions) if mentions else [], strict=True):
        if mention.kind == "relation":
            relations += found
        elif found and not any(f" {mention.label} " in f" {longer} " for longer in taken):
            taken.append(mention.label)
            entities += _most_facts(found, feasible)
    content = [Mention("relation", word) for word in words if word.casefold() not in function]
    near: list[Near] = [one for some in memory.nearest(content, NAMESAKES) for one in some] if content else []
    relations += [one.entry for one in sorted(near, key=lambda one: -one.similarity)]
    return entities, [one for one in relations if kind_of(one.id) == "relation"]


def _most_facts(entries: Sequence[Entry], feasible: Feasible) -> list[Entry]:
    readings = feasible.readings([one.id for one in entries])
    return sorted(entries, key=lambda one: -sum(readings[one.id].values()))[:NAMESAKES]
