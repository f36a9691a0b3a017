"""Units of a query's line: words, and names in brackets with the sign after them."""

from dataclasses import dataclass

from refactx.walks.language import Hop
from refactx.walks.values import Ordered


@dataclass(frozen=True, slots=True)
class Choices:
    """The units that may follow: `texts`; with `subjects` also the name of any subject of the index, in brackets; with
    `literals` also numbers or times that a model writes by itself."""

    texts: frozenset[str] = frozenset()
    subjects: bool = False
    literals: frozenset[Ordered] = frozenset()

    def __or__(self, other: "Choices") -> "Choices":
        return Choices(self.texts | other.texts, self.subjects or other.subjects, self.literals | other.literals)

    def __bool__(self) -> bool:
        return bool(self.texts or self.subjects or self.literals)


def name_of(unit: str) -> str:
    """Return the name in a unit."""
    return unit[1:-1]


def unit_of(hop: Hop) -> str:
    """Return a hop as a unit.

    >>> unit_of(Hop("part of", "+"))
    '<part of>+'
    """
    return f"<{hop.predicate}>{hop.closure}"


def hop_of(unit: str) -> Hop:
    """Return the hop that a unit is.

    >>> hop_of("<part of>+"), hop_of("<c++>")
    (Hop(predicate='part of', closure='+'), Hop(predicate='c++', closure=''))
    """
    sign = next(sign for sign in ("+", "*", "") if unit.endswith(f">{sign}"))
    return Hop(unit[1:].removesuffix(f">{sign}"), "+" if sign == "+" else "*" if sign == "*" else "")
