"""Queries that are walks of an index: a model scores them, and writes none."""

from collections.abc import Callable
from functools import lru_cache

from refactx.nl2sparql.prompting import Task
from refactx.query.fact_set import FactSet
from refactx.sparql.policies.strict import ChosenQueries, StrictPolicy

_KEPT = 16
"""For how many questions the scores are kept, so that a second attempt needs no model."""


class WalkWriter:
    """Writes the queries of a `Translator` by the policy `strict`: at first the likeliest walk that has an answer, then
    those after it.

    `choose`: returns the walks that a question may ask, such as `refactx.Asker.query`; `facts`: of the index. Threads may
    share it.
    """

    def __init__(self, choose: Callable[[str], ChosenQueries], facts: FactSet) -> None:
        self._policy = StrictPolicy(lru_cache(_KEPT)(choose), facts)

    def write(self, task: Task) -> str | None:
        """Return the likeliest walk that is not among the failed attempts, as SPARQL; None if there is none."""
        if not task.failed:
            return self._policy.write(task.question).sparql
        return self._policy.another(task.question, {one.text for one in task.failed})
