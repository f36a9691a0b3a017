"""Amounts of different units, by pint: metres and kilometres compare, metres and years do not."""

import re
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pint import UnitRegistry

_WORDS = re.compile(r"[^\W\d_]+(?:[ -][^\W\d_]+)*")
"""What is read as a unit: words alone, since pint evaluates the numbers and powers of an expression."""
_LONGEST = 60
_OF_OTHERS = frozenset(("per", "square", "cubic"))
"""Words of units that are made of others; any other two words would be a product."""


def converted(number: Decimal, unit: str, to: str) -> Decimal | None:
    """Return an amount of one unit in another; None if one is not known, or if they measure different things.

    >>> converted(Decimal("2.5"), "square kilometre", "hectare") == 250, converted(Decimal(5), "metre", "year")
    (True, None)
    """
    if unit == to:
        return number
    from pint import PintError

    known, other = _known(unit), _known(to)
    if not (known and other):
        return None
    try:
        found: Decimal = _registry().Quantity(number, known).to(other).magnitude
    except (PintError, ArithmeticError):
        return None
    return found


@cache
def _registry() -> "UnitRegistry":
    from pint import UnitRegistry

    return UnitRegistry(non_int_type=Decimal, cache_folder=None)


@cache
def _known(unit: str) -> str:
    """Return a unit as pint writes it; empty if it does not know it."""
    from pint import PintError

    if len(unit) > _LONGEST or not _WORDS.fullmatch(unit):
        return ""
    name = unit.replace(" ", "_").replace("-", "_")
    words = set(unit.split())
    for text in (name, unit) if words & _OF_OTHERS else (name,):
        try:
            return str(_registry().parse_units(text))
        except (PintError, ValueError, ArithmeticError, TypeError, AttributeError):
            continue
    return ""
