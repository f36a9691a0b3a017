"""The number of an entity: what the tables of an ingest and the blocks of names hold instead of its id.

| id | number |
|---|---|
| of Wikidata (`Q42`, `P569`) | twice the number in the id, plus one for a property: 84, 1139 |
| any other (an IRI, the key of a row) | 2^62 plus twice the first 60 bits of BLAKE2b of its text, plus one for a property |

So the kind of an entity is in its number, and a number is found without a table; the ids of the second kind are kept
beside it (`refactx.index.names`). Only what says that a text is a predicate makes it a property: its number without
that is even. Two ids of a graph with 100 million would have the same number in one of 200 such graphs: an ingest finds
it. In tables that also have inverses of properties, the inverse has the property's number with a minus sign.

What is kept of a fact beside it is found by a number too: the first 60 bits of SHA-256 of its text (`fact_number`).
"""

import re
import struct
from collections.abc import Iterable, Sequence
from hashlib import blake2b, sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FIRST_OTHER = 1 << 62
"""The least number of an id that is not Wikidata's."""
_ID = re.compile(r"[PQ][1-9][0-9]{0,17}", re.ASCII)
_UNUSED_BITS = 4

SQL_MACROS = """
CREATE MACRO entity_number(id) AS CAST(substr(id, 2) AS BIGINT) * 2 + CAST(id[1] = 'P' AS BIGINT);
CREATE MACRO entity_id(number) AS (CASE WHEN number & 1 = 1 THEN 'P' ELSE 'Q' END) || (number >> 1);
CREATE MACRO is_property(number) AS number & 1 = 1;
CREATE MACRO fact_number(text) AS CAST('0x' || substr(sha256(text), 1, 15) AS BIGINT);
"""
"""The functions of this module in DuckDB's SQL, for ids of Wikidata; `is_property` holds for any number, also for that
of the inverse of a property."""


def entity_number(id_: str) -> int:
    """Return the number of an item or property of Wikidata, given its id.

    >>> entity_number("Q42"), entity_number("P569")
    (84, 1139)
    """
    return 2 * int(id_[1:]) + (id_[0] == "P")


def other_number(id_: str) -> int:
    """Return the number of an id that is not Wikidata's, as that of an item.

    >>> other_number("http://example.org/acme#Ann")
    5339241309526416642
    """
    return other_numbers([id_.encode("utf-8", "surrogatepass")])[0]


def other_numbers(ids: Sequence[bytes]) -> list[int]:
    """Return the numbers of ids in UTF-8, as `other_number` does."""
    digests = b"".join([blake2b(id_, digest_size=8).digest() for id_ in ids])
    return [FIRST_OTHER + 2 * (digest >> _UNUSED_BITS) for digest in struct.unpack(f">{len(ids)}Q", digests)]


def entity_id(number: int) -> str:
    """Return the id of an item or property of Wikidata, given its number.

    >>> entity_id(84), entity_id(1139)
    ('Q42', 'P569')
    """
    return f"{'P' if is_property(number) else 'Q'}{number >> 1}"


def fact_number(fact: str) -> int:
    """Return the number of a fact, given its text without the space before it and the terminator.

    >>> fact_number("<Danny Boyle> <date of birth> <1956-10-20>")
    191918332351395273
    """
    return int(sha256(fact.encode()).hexdigest()[:15], 16)


def is_wikidata(number: int) -> bool:
    """Return whether a number is that of an id of Wikidata, or of the inverse of one.

    >>> is_wikidata(-1139), is_wikidata(other_number("http://example.org/acme#Ann"))
    (True, False)
    """
    return abs(number) < FIRST_OTHER


def numbers_of(ids: Iterable[str]) -> dict[int, str]:
    """Return the ids of entities by all numbers that they may have: as one of Wikidata, as any other item or property; as
    one of Wikidata also that of its IRI, which a graph about other things may have.

    >>> sorted(numbers_of(["Q42"]).items())[0], len(numbers_of(["Q42", "Q042"]))
    ((84, 'Q42'), 7)
    """
    found: dict[int, str] = {}
    for one in ids:
        if _ID.fullmatch(one):
            found[entity_number(one)] = one
            number = other_number(f"http://www.wikidata.org/entity/{one}")
            found.setdefault(number, one)
            found.setdefault(number + 1, one)
        number = other_number(one)
        found[number] = found[number + 1] = one
    return found


def inverse_numbers(ids: Iterable[str], pairs: object) -> dict[int, str]:
    """Return the ids of properties by the numbers that their inverses may have.

    `pairs` maps the id of a property to that of the one that its inverse facts belong to; anything else stands for no
    pairs.

    >>> [(n, id_) for n, id_ in inverse_numbers(["Q42", "P569", "P22"], {"P22": "P40"}).items() if is_wikidata(n)]
    [(-1139, 'P569'), (81, 'P22')]
    """
    given = pairs if isinstance(pairs, dict) else {}
    found: dict[int, str] = {}
    for one in ids:
        partner = given.get(one)
        sign, named = (1, partner) if isinstance(partner, str) else (-1, one)
        found |= {sign * number: one for number in numbers_of([named]) if is_property(number)}
    return found


def is_property(number: int) -> bool:
    """Return whether a number is that of a property, or of the inverse of one.

    >>> is_property(84), is_property(1139), is_property(-1139)
    (False, True, True)
    """
    return number & 1 == 1


def is_wikidata_id(id_: str) -> bool:
    """Return whether an id is that of an item or property of Wikidata.

    >>> is_wikidata_id("Q42"), is_wikidata_id("Queen")
    (True, False)
    """
    return _ID.fullmatch(id_) is not None


def is_wikidata_property(id_: str) -> bool:
    """Return whether an id is that of a property of Wikidata.

    >>> is_wikidata_property("P57"), is_wikidata_property("Prague")
    (True, False)
    """
    return id_.startswith("P") and is_wikidata_id(id_)


def entity_numbers(numbers_in_ids: "NDArray[np.int64]", are_properties: "NDArray[np.bool_]") -> "NDArray[np.int64]":
    """Return the numbers of n entities of Wikidata, int64[n], given the numbers in their ids and which are properties.

    >>> import numpy as np
    >>> entity_numbers(np.array([42, 569]), np.array([False, True])).tolist()
    [84, 1139]
    """
    return 2 * numbers_in_ids + are_properties
