"""The policy of open text: a model writes PGMR text, whose names a memory resolves to ids, or refuses."""

from refactx.extras import require
from refactx.sparql.memory import MemoryResolver
from refactx.sparql.policies.policy import MAX_NEW_TOKENS, TextModel, Written
from refactx.sparql.policies.prompt import SparqlPrompt
from refactx.sparql.policies.resolution import resolved


class OpenPolicy:
    """A `Policy`: PGMR text of any model, whose names a resolver finds.

    Raises InputError if rdflib is not installed.
    """

    def __init__(self, model: TextModel, prompt: SparqlPrompt, resolver: MemoryResolver) -> None:
        require("rdflib", "sparql")
        self._model, self._prompt, self._resolver = model, prompt, resolver

    def write(self, question: str) -> Written:
        """Return the query of the text, with the ids that its names were resolved to."""
        text = self._model.generate(self._prompt.messages("open", question), MAX_NEW_TOKENS)
        return resolved(Written(policy="open", question=question, text=text), self._resolver)
