"""The policy of harvest: a query of nothing but the entities and properties of facts that were written for the question."""

from collections.abc import Callable, Sequence

from refactx.extras import require
from refactx.fact import Link, LinkedFact
from refactx.query.pgmr import Mention, Names
from refactx.query.pgmr.index_names import split_name
from refactx.sparql.memory import MemoryResolver
from refactx.sparql.memory.entry import Entry, Near
from refactx.sparql.memory.feasibility import Feasible
from refactx.sparql.memory.matching import has_label, is_described
from refactx.sparql.memory.thresholds import Thresholds
from refactx.sparql.policies.policy import MAX_NEW_TOKENS, TextModel, Written
from refactx.sparql.policies.prompt import SparqlPrompt
from refactx.sparql.policies.resolution import resolved

NO_FACTS = "no fact was written for the question, so there are no names for a query"
_TAKEN = Thresholds(entity=1.0, relation=1.0, namesake=0.0)


class HarvestPolicy:
    """A `Policy`: PGMR text of a model that is given the names of facts, and a query of these names alone.

    `ask`: returns the facts that answer a question, as `refactx.Asker.ask` has them in `links`; `names`: those of the
    index; `feasible`: what is known of its facts. Raises InputError if rdflib is not installed.
    """

    def __init__(
        self,
        ask: Callable[[str], Sequence[LinkedFact]],
        model: TextModel,
        prompt: SparqlPrompt,
        names: Names,
        feasible: Feasible | None = None,
    ) -> None:
        require("rdflib", "sparql")
        self._ask, self._model, self._prompt, self._names = ask, model, prompt, names
        self._feasible = feasible

    def write(self, question: str) -> Written:
        """Return the query of the text; refused if the question has no facts, or the text a name that they do not have."""
        facts = tuple(self._ask(question))
        given = tuple(_entries(facts, self._names))
        if not given:
            return Written(policy="harvest", question=question, text="", reason=NO_FACTS, facts=facts)
        text = self._model.generate(self._prompt.messages("harvest", question, given), MAX_NEW_TOKENS)
        resolver = MemoryResolver(GivenNames(given), feasible=self._feasible)
        return resolved(Written(policy="harvest", question=question, text=text, given=given, facts=facts), resolver)


class GivenNames:
    """A `Memory` of some entries alone. A mention that has none of their labels has nothing near it."""

    thresholds = _TAKEN

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = tuple(entries)

    def exact(self, mentions: Sequence[Mention]) -> list[list[Entry]]:
        return [[one for one in self._entries if has_label(one, mention)] for mention in mentions]

    def nearest(self, mentions: Sequence[Mention], count: int) -> list[list[Near]]:
        return [[] for _ in mentions]

    def similarities(self, mention: Mention, entries: Sequence[Entry]) -> list[float]:
        return [float(is_described(one, mention)) for one in entries]


def _entries(facts: Sequence[LinkedFact], names: Names) -> list[Entry]:
    """Return the properties and entities of facts, each once: properties by the labels that they have forwards."""
    links = {
        part.id: part
        for fact in facts
        for part in (fact.predicate, fact.subject, fact.object)
        if isinstance(part, Link) and part.id is not None
    }
    known = names.mentions(list(links))
    entries = []
    for id_, link in links.items():
        label, description = split_name(link.label, id_)
        mention = known.get(id_) or Mention("entity", label, description)
        entries.append(Entry(id_, mention.label, (mention.description or "").removeprefix(id_)))
    return sorted(entries, key=lambda one: not one.id.startswith("P"))
