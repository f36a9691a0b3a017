"""The policy of open text on our own engines: SPARQL that is held to the grammar and to names of the index."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from refactx.query.pgmr import Mention
from refactx.query.pgmr.mentions import kind_of
from refactx.sparql.engines.engine import QueryRefusedError, SparqlSyntaxError
from refactx.sparql.labels import LabelError, Labelled, with_iris
from refactx.sparql.memory.choices import Choice
from refactx.sparql.memory.names import entry_of
from refactx.sparql.names import Names
from refactx.sparql.policies.direct import NO_QUERY
from refactx.sparql.policies.policy import MAX_NEW_TOKENS, Written
from refactx.sparql.policies.prompt import SparqlPrompt
from refactx.writing.conversation import Message

HeldModel = Callable[[Sequence[Message], int], str]
"""A function that writes a query with names in angle brackets after a conversation, of at most so many tokens; empty if it
is not whole (`refactx.sparql.decoding.SparqlWriter.generate`)."""


class HeldPolicy:
    """A `Policy`: open text of a model that can write nothing but SPARQL with names of the index."""

    def __init__(self, model: HeldModel, prompt: SparqlPrompt, names: Names) -> None:
        self._model, self._prompt, self._names = model, prompt, names

    def write(self, question: str) -> Written:
        """Return the query with ids; refused if a name of it means nothing there, or if it is not whole. Of the entities
        of an alias, the likeliest is meant."""
        text = self._model(self._prompt.messages("names", question), MAX_NEW_TOKENS)
        written = Written(policy="open", question=question, text=text)
        if not text:
            return replace(written, reason=f"{NO_QUERY} of at most {MAX_NEW_TOKENS} tokens")
        try:
            labelled = with_iris(text, self._names, likeliest=True)
        except (LabelError, QueryRefusedError, SparqlSyntaxError) as error:
            return replace(written, reason=str(error))
        return replace(written, sparql=labelled.sparql, choices=self._choices(labelled))

    def _choices(self, labelled: Labelled) -> dict[str, Choice]:
        """Return what names became ids, by the names in their brackets."""
        ids = {
            labelled.tokens[at].label: iri.rpartition(":")[2]
            for at, iri in labelled.texts.items()
            if labelled.tokens[at].kind == "label" and iri.lstrip("^").startswith(("wd:", "wdt:"))
        }
        named = self._names.facts.names(list(ids.values()))
        return {
            f"<{label}>": Choice(Mention(kind_of(id_), label), entry_of(named.get(id_, label), id_), 1.0, "name")
            for label, id_ in ids.items()
        }
