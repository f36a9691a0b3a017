"""The lines of queries as the examples of a prompt have them, and how likely they make a question."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refactx.engines.engine import Steps, TreeReading
from refactx.linking.names import bare_name
from refactx.selection.mentions import Mention
from refactx.selection.scores import QuestionScore
from refactx.tokenizer import FactTokenizer
from refactx.walks.language import Hop, Query, WalkFilter, write_line


@dataclass(frozen=True, slots=True)
class Candidate:
    """A query, how the question's examples would write it (`line`), and its score in nats."""

    query: Query
    line: str
    score: float


class UnscoredQuery(NamedTuple):
    """A query that is to be scored, its line, and its prior in nats."""

    query: Query
    line: str
    prior: float


@dataclass(frozen=True, slots=True)
class LineScores:
    """The likelihoods of one question after query lines.

    `question`: the likelihoods of the question after the examples and a text; `trees`: how the engine reads trees;
    `trigger`: the text before a query.
    """

    tokenizer: FactTokenizer
    question: QuestionScore
    trees: TreeReading
    trigger: str

    def likelihoods(
        self,
        lines: Sequence[str],
        priors: Sequence[float] = (),
        drop_below: float = math.inf,
        least: float = -math.inf,
    ) -> Steps[NDArray[np.float64]]:
        """Return log p(question | examples, line) with its prior, float64[lines].

        Lines that are more than `drop_below` below the best after a quarter of the question get minus infinity, and so do
        those that do not have more than `least`.
        """
        texts = [tuple(self.tokenizer.encode(f"{self.trigger} {line}".rstrip())) for line in lines]
        own = np.array(priors) if priors else np.zeros(len(lines))
        return (yield from self.question.likelihoods(texts, self.trees, own, drop_below, least)) + own

    def rank(
        self, ways: Iterable[UnscoredQuery], drop_below: float = math.inf, least: float = -math.inf
    ) -> Steps[list[Candidate]]:
        """Return queries with their scores, the likeliest first: without dropped ones, those of more than `least`."""
        some = list(ways)
        if not some:
            return []
        scores = yield from self.likelihoods([one.line for one in some], [one.prior for one in some], drop_below, least)
        found = [Candidate(one.query, one.line, float(score)) for one, score in zip(some, scores, strict=True)]
        return sorted((one for one in found if one.score > -math.inf), key=lambda one: -one.score)


def line_of(query: Query, *mentions: Mention) -> str:
    """Return the line of a query as examples have it: without descriptions, and with the question's own names.

    Examples have no closures either: `which <instance of> <film>` is what a reader says.
    """
    called = {one.name: one.called for one in mentions}

    def short(name: str) -> str:
        return called.get(name, bare_name(name))

    which = tuple(
        WalkFilter(
            tuple(Hop(hop.predicate) for hop in one.hops if hop.closure != "*"),
            one.operator,
            short(one.value),
            also=tuple(map(short, one.also)),
        )
        for one in query.which
    )
    minus = None if query.minus is None else replace(query.minus, start=short(query.minus.start))
    return write_line(replace(query, start=short(query.start), which=which, minus=minus))
