"""Qualifiers of statements: which of them an index has, and their order in a fact.

A statement is a fact with further parts: `<Springfield> <mayor> <Ann Lee> <start time> <1990> <end time> <1994>`. After the
object come pairs of a qualifier and its value. Their order is that of `GROUPS`, in which a question asks for them: when,
the how manyth, of what, as what. All others follow by name, so that a pair has its place whatever else an index holds.
Those of tables and graphs have no ids of Wikidata: their names say their group (`start`, `number`, `role`).

`BOOKKEEPING` says how Wikidata came to a statement, or checks it, and answers no question about its subject. These are
left out unless they are asked for (`--qualifiers all`, or by id).
"""

import re
from collections.abc import Iterable, Mapping

from refactx.entity_ids import entity_number
from refactx.errors import InputError
from refactx.fact import QUALIFIER_NAMES

GROUPS: Mapping[str, tuple[str, ...]] = {
    # start, end, point in time; earliest and latest; publication, opening and closing; valid in period
    "time": (
        *(
            "P580",
            "P582",
            "P585",
            "P1319",
            "P1326",
            "P8555",
            "P8554",
            "P571",
            "P576",
            "P577",
            "P1619",
            "P3999",
            "P7588",
        ),
        *("P1264", "P2031", "P2032", "P837", "P2348", "P4566"),
    ),
    "ordinal": ("P1545", "P1352"),  # series ordinal, ranking
    # of, for work, applies to part, applies to jurisdiction, electoral district, statement is subject of
    "of": ("P642", "P1686", "P518", "P1001", "P768", "P805"),
    # object and subject has role, character role, its name, as; degree, subject of study, position played, kinship
    "role": ("P3831", "P2868", "P453", "P4633", "P794", "P512", "P812", "P413", "P39", "P1039"),
}
"""The groups of qualifiers in the order of facts, each with its properties in their order."""
ENDS = tuple(map(entity_number, ("P582", "P576")))
"""The properties whose unknown value says something: what it qualifies has ended (`refactx.fact.UNKNOWN_END`)."""
OTHER, ALL, NONE = "other", "all", "none"
BOOKKEEPING = frozenset(
    (
        *("P459", "P1480", "P887", "P1013", "P3680", "P5168"),  # how a value was found, and what it rests on
        *("P2241", "P7452", "P6607", "P2316"),  # reasons for a rank, or for a rule
        *("P1810", "P1932", "P5997", "P1683", "P248", "P813", "P854", "P973"),  # as a source writes it, and the source
        *("P2303", "P2304", "P2305", "P2306", "P2307", "P2308", "P2309", "P2310", "P2311", "P2312", "P2313"),
        *("P4155", "P4680", "P5314", "P6824", "P9729", "P2916", "P1793"),  # rules for the use of properties
    )
)
MOST = 50
"""The most qualifiers of a fact: further ones are left out."""
_LIKE = {"starts": "P580", "ends": "P582", "points": "P585", "ordinals": "P1545"}
_PROPERTY = re.compile(r"P[1-9][0-9]{0,17}", re.ASCII)


def order_of() -> dict[str, int]:
    """Return the places of the properties of `GROUPS`, from 0.

    >>> order_of()["P580"] < order_of()["P1545"] < order_of()["P642"]
    True
    """
    return {property_: place for place, property_ in enumerate(one for group in GROUPS.values() for one in group)}


def places_of_names() -> dict[str, int]:
    """Return the places of qualifiers that are no properties of Wikidata, by their names in lower case.

    >>> places = places_of_names()
    >>> places["since"] == order_of()["P580"] < places["until"] < places["number"] < places["role"]
    True
    """
    order, by_name = order_of(), {"of": "P642", "role": "P3831"}
    by_name |= {name: _LIKE[kind] for kind, names in QUALIFIER_NAMES.items() for name in names}
    return {name: order[like] for name, like in by_name.items()}


def qualifiers_of(text: str) -> tuple[str, ...]:
    """Return the groups and ids in `time,ordinal,P642`; ("all",) for all, and () for `none`.

    Raises InputError for a word that is neither.

    >>> qualifiers_of("none"), qualifiers_of("time, P642")
    ((), ('time', 'P642'))
    """
    words = text.replace(",", " ").split()
    if words == [NONE]:
        return ()
    check_qualifiers(words)
    return tuple(words)


def check_qualifiers(words: Iterable[str]) -> None:
    """Raise InputError for a word that names no qualifiers, or if there is no word."""
    words = list(words)
    wrong = next((one for one in words if one not in (*GROUPS, OTHER, ALL) and not _PROPERTY.fullmatch(one)), None)
    if wrong is not None or not words:
        found = "names no qualifiers" if wrong is None else f"has {wrong!r}, which is no group of qualifiers"
        raise InputError(
            f"--qualifiers {found}: expected some of {', '.join(GROUPS)}, {OTHER} and ids such as P580; or {ALL}, or {NONE}"
        )


def is_kept(property_: str, wanted: tuple[str, ...] | None) -> bool:
    """Return whether facts have a qualifier, given its id, or its name if it is none of Wikidata's. `wanted`: as
    `qualifiers_of` returns them; None: all but `BOOKKEEPING`.

    >>> is_kept("P580", None), is_kept("P459", None), is_kept("P459", ("all",)), is_kept("P459", ("time", "P459"))
    (True, False, True, True)
    >>> is_kept("since", ("time",)), is_kept("wage", ("time",)), is_kept("wage", ("other",))
    (True, False, True)
    """
    if wanted is None:
        return property_ not in BOOKKEEPING
    if ALL in wanted or property_ in wanted:
        return True
    if not _PROPERTY.fullmatch(property_):
        place = places_of_names().get(property_.casefold())
        property_ = next((one for one, at in order_of().items() if at == place), property_)
    group = next((name for name, properties in GROUPS.items() if property_ in properties), OTHER)
    return group in wanted and property_ not in BOOKKEEPING
