"""Candidates for the query of a question, and the limits of the search for them."""

from dataclasses import dataclass

from refactx.choosing.queries.mentions import Mention
from refactx.fact import ALIAS_OF, DESCRIPTIONS
from refactx.query.budget import Limits
from refactx.query.fact_set import FactSet, Predicate
from refactx.query.walk import Query

UNASKED = frozenset((*DESCRIPTIONS, ALIAS_OF))
"""Predicates that no query has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """The limits and weights of the search. Scores are in nats.

    `prior`: the weight of the logarithm of a start's share of the facts of its namesakes; `starts`: how many starts are
    followed, those at most `within` below the best; `hopeless`: predicates that are this much below the best after a
    quarter of the question are dropped; `bases`: how many pairs of a start and a predicate are extended; `filter`: what
    a further filter has to gain; `sample`: how many members stand for a set; `scanned`: the most facts of an index that
    is scanned for a sample of a hub's members.
    """

    prior: float = 0.5
    starts: int = 2
    within: float = 3.0
    hopeless: float = 5.0
    bases: int = 3
    filter: float = 2.0
    sample: int = 50
    scanned: int = Limits().scanned


@dataclass(frozen=True, slots=True)
class Candidate:
    """A query, how the question's examples would write it (`line`), and its score in nats."""

    query: Query
    line: str
    score: float


@dataclass(frozen=True, slots=True)
class Base:
    """A start and a predicate of it, the set that they lead to, with the score of that in nats."""

    start: Mention
    predicate: Predicate
    score: float = 0.0


def predicates_of(facts: FactSet, subject: str) -> list[Predicate]:
    """Return the predicates of a subject that queries may have."""
    names = [name for name in facts.predicates(subject) if name not in UNASKED]
    described = facts.describe(names)
    return [described.get(name, Predicate(name, None, False, "literal")) for name in names]
