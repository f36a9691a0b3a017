"""The search for queries on graphs of the twin: random graphs with what a question names of them, and a fake score."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from hypothesis import strategies as st

from refactx.engines.engine import TreeReading
from refactx.selection.mentions import Mention, Mentions, QueryWords
from refactx.selection.queries import QuerySearch
from refactx.selection.query_lines import Candidate, LineScores
from refactx.selection.weights import Weights
from refactx.walks.language import Head
from support.query.twin import CLAIMS, ENTITIES, NUMBERS, PREDICATES, Graph, SetFacts
from support.query.world import FakeScore, overlap, result_of
from support.tiny_model import tiny_fact_tokenizer

PLAIN, CLASSES = QueryWords(), QueryWords(class_of="P112", subclass_of="P113")
"""Without classes, and with `p` to an entity's classes, `q` to wider ones."""
EVERY = Weights(
    nearest_properties=99,
    starts=99,
    keep_starts_within=math.inf,
    drop_queries_below=math.inf,
    extended=999,
    sampled_members=999,
)
"""Nothing is left out."""


def mentions_of(
    names: Iterable[str] = ENTITIES, predicates: Iterable[str] = (), numbers: Iterable[str] = (), share: float = 1.0
) -> Mentions:
    """Entities at places of their own."""
    entities = [Mention(2 * n, 2 * n + 1, name, name.partition(" (")[0], share) for n, name in enumerate(names)]
    return Mentions(entities, frozenset(predicates), list(numbers))


@dataclass(frozen=True)
class Asked:
    """A graph and what a question names of it. `limit`, `size`: as in `SetFacts`."""

    claims: Graph
    mentions: Mentions
    words: QueryWords = PLAIN
    limit: float = math.inf
    question: str = ""
    size: int = 1 << 60

    @cached_property
    def facts(self) -> SetFacts:
        return SetFacts(self.claims, self.limit, size=self.size)

    def search(self, weights: Weights = EVERY, of_line: Callable[[str], float] | None = None) -> QuerySearch:
        names = [one.called for one in self.mentions.entities]
        score = FakeScore(tiny_fact_tokenizer(), of_line or overlap(" ".join([*names, *self.mentions.predicates])))
        return QuerySearch(
            facts=self.facts,
            words=self.words,
            question=self.question,
            mentions=self.mentions,
            scores=LineScores(tiny_fact_tokenizer(), score, TreeReading.ROWS, "Query:"),
            weights=weights,
        )

    def candidates(
        self, head: Head, weights: Weights = EVERY, of_line: Callable[[str], float] | None = None
    ) -> list[Candidate]:
        return result_of(self.search(weights, of_line).candidates(head))


def some_asked(limits: st.SearchStrategy[float] | None = None) -> st.SearchStrategy[Asked]:
    return st.builds(
        Asked,
        CLAIMS,
        st.builds(
            mentions_of,
            st.lists(st.sampled_from(ENTITIES), min_size=1, max_size=3, unique=True),
            st.lists(st.sampled_from(PREDICATES), max_size=2, unique=True),
            st.lists(st.sampled_from((*NUMBERS, "1990")), max_size=1),
            st.sampled_from([1.0, 0.5]),
        ),
        st.sampled_from([PLAIN, CLASSES]),
        st.just(math.inf) if limits is None else limits,
    )
