"""Examples of queries that are taken from training data: questions with gold queries, as in the papers' 25 shots.

A question becomes an example if the index has a name for every id of its query. Those that are shown are the nearest to the
question in meaning, the nearest one last, or the same ones for all questions, drawn by chance.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, get_args

import numpy as np

from refactx.entity_ids import is_wikidata_property
from refactx.errors import InputError
from refactx.ranking.encoders import Encoder, embeddings_of
from refactx.sparql.engines.checking import check_query
from refactx.sparql.engines.engine import QueryRefusedError, SparqlSyntaxError
from refactx.sparql.labels import ids_of
from refactx.sparql.packs.prompt import SparqlExample
from refactx.sparql.placeholders.entry import MemoryEntry, entry_of
from refactx.walks.language import QueryError

ShotChoice = Literal["nearest", "random"]
SHOT_CHOICES: tuple[ShotChoice, ...] = get_args(ShotChoice)
NamesOf = Callable[[Sequence[str]], Mapping[str, str]]
"""A function that returns the names of those of some ids that exist, such as `index.names_of`."""


def training_examples(pairs: Iterable[tuple[str, str]], names_of: NamesOf) -> list[SparqlExample]:
    """Return the examples of questions with their queries, without those whose query cannot be read or has an id without a
    name.

    >>> pairs = [("Who wrote Emma?", "SELECT ?x { wd:Q1 wdt:P50 ?x }"), ("Where is it?", "SELECT ?x { wd:Q2 wdt:P17 ?x }")]
    >>> known = {"Q1": "Emma (novel)", "P50": "author", "P17": "country"}
    >>> [one.question for one in training_examples(pairs, lambda ids: {id_: known[id_] for id_ in ids if id_ in known})]
    ['Who wrote Emma?']
    """
    found = list[SparqlExample]()
    for question, sparql in pairs:
        try:
            check_query(sparql)
            ids = ids_of(sparql)
        except (QueryError, QueryRefusedError, SparqlSyntaxError):
            continue
        names = names_of(sorted(ids.all))
        if ids.all and names.keys() >= ids.all:
            found.append(SparqlExample(question=question, sparql=sparql, names=_entries(names, ids.properties)))
    return found


def _entries(names: Mapping[str, str], properties: frozenset[str]) -> tuple[MemoryEntry, ...]:
    return tuple(
        entry_of(name, id_, "relation" if id_ in properties or is_wikidata_property(id_) else "entity")
        for id_, name in sorted(names.items())
    )


def shots_of(
    examples: Sequence[SparqlExample], count: int, by: ShotChoice, encoder: Encoder, seed: int = 0
) -> Callable[[str], Sequence[SparqlExample]]:
    """Return what chooses the examples of a question: `count` of them. `encoder`: compares questions in meaning; `seed`: of
    those that are drawn. The question itself is none of its examples.

    Raises InputError if there are fewer examples.
    """
    if len(examples) < count:
        raise InputError(
            f"the training data has {len(examples)} queries whose ids all have a name in the index: give --shots "
            f"{len(examples)} or fewer"
        )
    drawn = random.Random(seed).sample(examples, len(examples))  # noqa: S311  # it hides nothing
    vectors = embeddings_of(encoder, [one.question for one in examples]) if by == "nearest" else None

    def choose(question: str) -> Sequence[SparqlExample]:
        if vectors is None:
            return [one for one in drawn if one.question != question][:count]
        order = np.argsort(-(vectors @ encoder.encode([question])[0]), kind="stable")
        near = [examples[n] for n in order.tolist() if examples[n].question != question]
        return near[:count][::-1]

    return choose
