"""The members of a set that come first or last by a value, or by the number of their facts with a predicate.

As in SPARQL with ORDER BY, members without such facts are left out, and of several values of a member the best counts.
Members that are equal are in the order of their names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from refactx.query.sets import Triple, Walks
from refactx.query.unknown import check_predicate
from refactx.query.values import order_of, sort_key
from refactx.query.walk import By, QueryError


@dataclass(frozen=True, slots=True)
class Ranked:
    """A member with what it was sorted by: a literal or a count, and the fact with that literal."""

    member: str
    by: str
    fact: Triple | None


def ranked(walks: Walks, members: Sequence[str], by: By, *, most: bool, limit: int) -> list[Ranked]:
    """Return at most `limit` members, those with the most or least first.

    Raises QueryError if the values have no common order, or if no member has any.
    """
    names = sorted(members)
    if by.counted:
        counts = walks.counts(names, by.predicate)
        counted = [(count, name) for count, name in zip(counts, names, strict=True) if count]
        counted.sort(key=lambda one: one[0], reverse=most)
        found = [Ranked(name, str(count), None) for count, name in counted]
    else:
        found = _by_values(walks, names, by.predicate, most)
    if not found:
        check_predicate(walks, by.predicate, members, must_have=True)
    return found[:limit]


def _by_values(walks: Walks, names: Sequence[str], predicate: str, most: bool) -> list[Ranked]:
    kind, place = walks.kind(predicate), f"<{predicate}>"
    order_of((), kind, place)  # before anything is read: some kinds have no order
    pairs = list(walks.pairs(names, predicate))
    order = order_of((value for _, value in pairs), kind, place)
    best: dict[str, tuple[Any, str]] = {}  # keys of one kind: all times or all quantities
    for name, value in pairs:
        key: Any = sort_key(value, order)
        if key is not None and (name not in best or (key > best[name][0] if most else key < best[name][0])):
            best[name] = key, value
    if pairs and not best:
        raise QueryError(f"the values of <{predicate}> cannot be sorted: <{pairs[0][1]}> is no {order}")
    in_order = sorted(best.items(), key=lambda one: one[1][0], reverse=most)
    return [Ranked(name, value, (name, predicate, value)) for name, (_, value) in in_order]
