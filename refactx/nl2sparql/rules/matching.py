"""Which patterns a check is about: those with one of some properties or classes."""

from dataclasses import dataclass

from refactx.nl2sparql.parsed import Pattern

TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Names of properties and classes, as terms. One that ends with `*>` stands for all that begin so.

    >>> Wanted(("<http://e.org/a>", "<http://l.org/*>")).has("<http://l.org/Lemma>")
    True
    """

    names: tuple[str, ...]

    def has(self, term: str) -> bool:
        """Return whether a term is one of them."""
        return any(term == name or (name.endswith("*>") and term.startswith(name[:-2])) for name in self.names)

    def name_of(self, pattern: Pattern) -> str | None:
        """Return the property or class by which a pattern is one of these; None if it is not."""
        found = pattern.object if pattern.predicate == TYPE else pattern.predicate
        return found if self.has(found) else None
