"""From the parts of a fact back to the ids of the triple behind it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """A part that names something: its label, and its id and address where the knowledge base knows them.

    >>> Link("Danny Boyle", "Q103916").url
    'https://www.wikidata.org/wiki/Q103916'
    >>> Link("date of birth", "P569").url
    'https://www.wikidata.org/wiki/Property:P569'
    """

    label: str
    id: str | None = None

    @property
    def url(self) -> str | None:
        """The page on Wikidata; None where there is no id."""
        if self.id is None:
            return None
        return f"https://www.wikidata.org/wiki/{'Property:' if self.id.startswith('P') else ''}{self.id}"


@dataclass(frozen=True, slots=True)
class LinkedFact:
    """The parts of a fact with their ids. `object` is a plain string where it is a literal; `inverse` says that the fact was
    made from the triple (object, predicate, subject), and `predicate` has that property's id."""

    subject: Link
    predicate: Link
    object: Link | str
    inverse: bool = False
