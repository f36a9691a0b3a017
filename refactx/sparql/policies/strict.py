"""The strict policy: a query that the index can answer, which a model chooses by scores, as SPARQL."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Protocol

from refactx.choosing.queries.candidate import Candidate
from refactx.query import AnsweredQuery, QueryError, to_sparql, write_line
from refactx.query.fact_set import FactSet
from refactx.sparql.policies.policy import Written


class ChosenQueries(Protocol):
    """The queries that a question may ask, the likeliest first, as `refactx.Asker.query` returns them."""

    @property
    def tells(self) -> float:
        """How much likelier than no query one has to make the question, in nats, to count as what it asks."""
        ...

    @property
    def candidates(self) -> Sequence[Candidate]:
        """The queries with their scores."""
        ...

    def told(self, candidate: Candidate) -> float:
        """Return how much likelier than no query a candidate makes the question, in nats."""
        ...

    def answer(self) -> AnsweredQuery | None:
        """Return the likeliest candidate that has an answer, with it; None if there is none."""
        ...


class StrictPolicy:
    """A `Policy`: the walk of the fact tree that makes the question likeliest.

    `choose`: returns the queries that a question may ask; `facts`: of the index.
    """

    def __init__(self, choose: Callable[[str], ChosenQueries], facts: FactSet) -> None:
        self._choose, self._facts = choose, facts

    def write(self, question: str) -> Written:
        """Return the likeliest query that has an answer, or else the likeliest one."""
        choice = self._choose(question)
        if not choice.candidates:
            reason = "the question names no entity of the index that a query can start from"
            return Written(policy="strict", question=question, text="", reason=reason)
        best, answered = choice.candidates[0], choice.answer()
        query, told = (best.query, choice.told(best)) if answered is None else (answered.query, answered.told)
        written = Written(policy="strict", question=question, text=write_line(query), told=told)
        try:
            return replace(written, sparql=to_sparql(query, self._facts))
        except QueryError as error:  # a name without an id, as in graphs that are not Wikidata's
            return replace(written, reason=str(error))

    def another(self, question: str, tried: Collection[str]) -> str | None:
        """Return the SPARQL of the likeliest query that is not in `tried`, of those that count as what the question asks;
        None if there is none."""
        choice = self._choose(question)
        for candidate in choice.candidates:
            if choice.told(candidate) < choice.tells:
                return None
            try:
                sparql = to_sparql(candidate.query, self._facts)
            except QueryError:
                continue
            if sparql not in tried:
                return sparql
        return None
