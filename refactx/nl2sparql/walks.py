"""Queries that are walks of an index: a model chooses them by scores, and writes none."""

from collections.abc import Callable
from functools import lru_cache

from refactx.asking import Answer
from refactx.asking.answer import SEPARATOR
from refactx.nl2sparql.prompting import Task
from refactx.query import Hop, Query, QueryError, to_sparql
from refactx.query.fact_set import FactSet
from refactx.query.values import bare_name
from refactx.sparql.policies.strict import ChosenQueries, StrictPolicy

_KEPT = 16
"""For how many questions the scores are kept, so that a third attempt needs no model."""


class WalkWriter:
    """Writes the queries of a `Translator` as walks of an index: first the one that an answer with facts comes from, then
    those that the policy `strict` finds likely. One with rows stays, even if it is doubted: those after it are less
    likely, and do not learn from the doubt.

    `ask`: answers a question with facts and queries, such as `refactx.Asker.ask`; `choose`: returns the walks that it may
    ask, such as `refactx.Asker.query`; `facts`: of the index. Threads may share it if they may share these.
    """

    def __init__(self, ask: Callable[[str], Answer], choose: Callable[[str], ChosenQueries], facts: FactSet) -> None:
        self._ask, self._facts = ask, facts
        self._policy = StrictPolicy(lru_cache(_KEPT)(choose), facts)

    def write(self, task: Task) -> str | None:
        """Return the next walk that is not among the failed attempts, as SPARQL; None if there is none, or if one has rows."""
        if task.failed:
            if any(one.rows for one in task.failed):
                return None
            return self._policy.another(task.question, {one.text for one in task.failed})
        query = query_behind(self._ask(task.question), self._facts)
        try:
            return to_sparql(query, self._facts) if query is not None else self._policy.write(task.question).sparql
        except QueryError:  # of a name without an id
            return self._policy.write(task.question).sparql


def query_behind(answer: Answer, facts: FactSet) -> Query | None:
    """Return the query that has an answer's items as rows: its own, or the walk along its last fact that has one of them.

    None if there is neither. With the answer `Bern` after `<Switzerland> <capital> <Bern (city)>`, it is
    `list <Switzerland> <capital>`; with the answer `Switzerland`, `list <Bern (city)> <capital of>`.
    """
    if answer.queries:
        return answer.queries[-1].query
    items = {item.strip().casefold() for item in answer.answer.split(SEPARATOR)}
    for fact in reversed(answer.facts):
        if bare_name(fact.object).casefold() in items:
            return Query("list", fact.subject, (Hop(fact.predicate),))
        if bare_name(fact.subject).casefold() in items:
            inverse = facts.inverse_of(fact.predicate)
            if inverse is not None:
                return Query("list", fact.object, (Hop(inverse),))
    return None
