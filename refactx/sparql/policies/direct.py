"""The baselines: a model writes SPARQL with ids, from what it knows (direct), or with the nearest names given (RAG).

Nothing keeps it from making ids up: those that the index does not have are reported.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Literal

from refactx.sparql.engines.engine import QueryRefusedError, SparqlSyntaxError
from refactx.sparql.ids import ids_of
from refactx.sparql.labels import has_labels
from refactx.sparql.memory.entry import Entry
from refactx.sparql.policies.extraction import query_in
from refactx.sparql.policies.policy import MAX_NEW_TOKENS, TextModel, Written
from refactx.sparql.policies.prompt import SparqlPrompt
from refactx.sparql.syntax import check_query

Known = Callable[[Sequence[str]], Collection[str]]
"""A function that returns those of some ids that exist, such as `index.names_of`."""
NEAREST = 10
"""The names that are given to the model, as in the paper."""
NO_QUERY = "the model wrote no SELECT or ASK query"


class DirectPolicy:
    """A `Policy`: SPARQL with ids, as the model writes it. `known`: returns the ids that exist."""

    name: Literal["direct", "rag"] = "direct"

    def __init__(self, model: TextModel, prompt: SparqlPrompt, known: Known) -> None:
        self._model, self._prompt, self._known = model, prompt, known

    def write(self, question: str) -> Written:
        """Return the query that the model writes; refused if it is not SPARQL."""
        return self._write(question, ())

    def _write(self, question: str, given: Sequence[Entry]) -> Written:
        text = self._model.generate(self._prompt.messages(self.name, question, given), MAX_NEW_TOKENS)
        query = query_in(text)
        reason = NO_QUERY if query is None else _fault(query)
        if query is None or reason:
            return Written(policy=self.name, question=question, text=text, reason=reason, given=tuple(given))
        ids = sorted(ids_of(query).all)
        existing = set(self._known(ids)) if ids else set()
        return Written(
            policy=self.name,
            question=question,
            text=text,
            sparql=query,
            made_up=tuple(id_ for id_ in ids if id_ not in existing),
            given=tuple(given),
        )


class RagPolicy(DirectPolicy):
    """A `Policy`: as `DirectPolicy`, with names in the prompt. `retrieve`: returns the nearest for a question, at most
    so many."""

    name: Literal["direct", "rag"] = "rag"

    def __init__(
        self, model: TextModel, prompt: SparqlPrompt, known: Known, retrieve: Callable[[str, int], Sequence[Entry]]
    ) -> None:
        super().__init__(model, prompt, known)
        self._retrieve = retrieve

    def write(self, question: str) -> Written:
        """Return the query that the model writes, given the nearest names; refused if it is not SPARQL."""
        return self._write(question, self._retrieve(question, NEAREST))


def _fault(query: str) -> str:
    """Return why a query cannot be run; empty if it can."""
    try:
        check_query(query)
    except (SparqlSyntaxError, QueryRefusedError) as error:
        return str(error)
    return "the model wrote labels in place of ids" if has_labels(query) else ""
