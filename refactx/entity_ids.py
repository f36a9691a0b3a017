"""The number of an entity: twice the number in its id, plus one for a property (`Q42` is 84, `P569` is 1139).

The tables of an ingest and the blocks of names in an index hold these numbers instead of ids. In tables that also have
inverses of properties, the inverse of a property has the property's number with a minus sign.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ID = re.compile(r"[PQ][1-9][0-9]{0,17}", re.ASCII)

SQL_MACROS = """
CREATE MACRO entity_number(id) AS CAST(substr(id, 2) AS BIGINT) * 2 + CAST(id[1] = 'P' AS BIGINT);
CREATE MACRO entity_id(number) AS (CASE WHEN number & 1 = 1 THEN 'P' ELSE 'Q' END) || (number >> 1);
CREATE MACRO is_property(number) AS number & 1 = 1;
"""
"""The functions of this module in DuckDB's SQL; `is_property` holds for the inverse of a property too."""


def entity_number(entity_id: str) -> int:
    """Return the number of an item or property, given its id.

    >>> entity_number("Q42"), entity_number("P569")
    (84, 1139)
    """
    return 2 * int(entity_id[1:]) + (entity_id[0] == "P")


def entity_id(number: int) -> str:
    """Return the id of an item or property, given its number.

    >>> entity_id(84), entity_id(1139)
    ('Q42', 'P569')
    """
    return f"{'P' if is_property(number) else 'Q'}{number >> 1}"


def numbers_of(ids: Iterable[str]) -> dict[str, int]:
    """Return the numbers of items and properties by id, without texts that are no ids.

    >>> numbers_of(["Q42", "P569", "Q042", "L7"])
    {'Q42': 84, 'P569': 1139}
    """
    return {one: entity_number(one) for one in ids if _ID.fullmatch(one)}


def inverse_numbers(ids: Iterable[str], pairs: object) -> dict[str, int]:
    """Return the numbers of the inverses of properties by id, without texts that are no ids of properties.

    `pairs` maps a property to the one that its inverse facts belong to; anything else stands for no pairs.

    >>> inverse_numbers(["Q42", "P569", "P22"], {"P22": "P40"})
    {'P569': -1139, 'P22': 81}
    """
    given = pairs.items() if isinstance(pairs, dict) else ()
    partner_of = {one: other for one, other in given if isinstance(other, str)}
    partners = numbers_of(partner_of.values())
    numbers = {one: number for one, number in numbers_of(ids).items() if is_property(number)}
    return {one: partners.get(partner_of.get(one, ""), -number) for one, number in numbers.items()}


def is_property(number: int) -> bool:
    """Return whether a number is that of a property, or of the inverse of one.

    >>> is_property(84), is_property(1139), is_property(-1139)
    (False, True, True)
    """
    return number & 1 == 1


def entity_numbers(numbers_in_ids: "NDArray[np.int64]", are_properties: "NDArray[np.bool_]") -> "NDArray[np.int64]":
    """Return the numbers of n entities, int64[n], given the numbers in their ids and which of them are properties.

    >>> import numpy as np
    >>> entity_numbers(np.array([42, 569]), np.array([False, True])).tolist()
    [84, 1139]
    """
    return 2 * numbers_in_ids + are_properties
