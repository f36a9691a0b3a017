"""The names of an index that stand for the ids of a SPARQL query: entities, and predicates that read its properties."""

from collections.abc import Sequence

from refactx.fact import DESCRIPTIONS
from refactx.query.language import FactSet, Hop
from refactx.query.sparql.patterns import Step, Term
from refactx.query.sparql.writer import PREFIXES


class NotAWalk(Exception):  # noqa: N818  # the reason for None, within this package
    """A query that is not a walk."""


class Names:
    """The names of a set of facts. `exact`: predicates must have the facts of what a step says, and no others.

    Methods raise NotAWalk if there is no such name, and as those of `facts` do.
    """

    def __init__(self, facts: FactSet, *, exact: bool) -> None:
        self.facts, self.exact = facts, exact

    def entity(self, term: Term) -> str:
        """Return the name of an entity that is given by its id."""
        name = self.facts.names([term.id]).get(term.id) if term.id is not None else None
        if name is None:
            raise NotAWalk
        return name

    def hops(self, steps: Sequence[Step]) -> tuple[Hop, ...]:
        """Return the hops that steps are, by the predicates that read their properties in that direction."""
        return tuple(Hop(self._predicate(step), step.closure) for step in steps)

    def has_text(self, predicate: str) -> bool:
        """Return whether a predicate leads to text: SPARQL has it in the order of the alphabet, walks as numbers."""
        described = self.facts.describe([predicate]).get(predicate)
        return described is not None and described.kind == "text"

    def _predicate(self, step: Step) -> str:
        if step.iri == PREFIXES["schema"] + "description" and not step.inverse:
            return DESCRIPTIONS[0]
        if not all(iri.startswith(PREFIXES["wdt"]) for iri in (step.iri, *step.others)):
            raise NotAWalk
        if step.inverse and len(step.others) == 1:  # `(^wdt:P36|wdt:P1376)` is `(wdt:P1376|^wdt:P36)`
            step = Step(step.others[0], False, step.closure, (step.iri,))
        id_, *others = (iri.removeprefix(PREFIXES["wdt"]) for iri in (step.iri, *step.others))
        name = self.facts.names([id_], inverse=step.inverse).get(id_, "")
        found = self.facts.describe([name]).get(name)
        if found is None or (others and (step.inverse or set(others) != set(found.also))):
            raise NotAWalk
        if found.inverse or set(others) == set(found.also):
            return name
        # The predicate has facts of other properties too: of one that is the inverse property, or more.
        if self.exact or (step.inverse and found.also != (id_,)):
            raise NotAWalk
        return name
