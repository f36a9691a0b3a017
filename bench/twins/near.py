"""Objects that are near the one of a true fact, and make the fact false."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from refactx.fact import ALIAS
from refactx.linking.names import bare_name
from refactx.walks.language import FactSet

CLASS = ("P31", "P279")
PLACE = ("P131", "P17", "P27", "P276", "P361")
WHOLES = ("P131", "P361", "P17", "P279", "P276", "P30")
"""Properties that lead from a part, or from a narrower class, to what holds it."""

SIBLINGS = 400
"""The most entities that are read of each class or place, and of other subjects."""

UP = 6
"""The most steps from a part to a whole."""

LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Near:
    """Another object: its name, what it shares with the true one (`class`, `place`, `other`), and how many facts it is
    the object of."""

    name: str
    shares: tuple[str, ...]
    facts: int


def near_objects(facts: FactSet, subject: str, predicate: str, true: str) -> list[Near]:
    """Return other objects of a predicate, the nearest first, that the subject does not have.

    Each is the object of some fact with the predicate. No whole or part of an object of the subject is among them: who
    was born in Manhattan was born in New York City too.
    """
    inverse = facts.inverse_of(predicate)
    if inverse is None:
        return []
    shared: dict[str, set[str]] = defaultdict(set)
    for what, ids in (("class", CLASS), ("place", PLACE)):
        for name in _siblings(facts, true, ids):
            shared[name].add(what)
    for name in _others(facts, subject, predicate, true, inverse):
        shared[name].add("other")
    own = [object_ for _, object_ in facts.objects([subject], predicate)]
    names = _usable(facts, sorted(shared), [subject, *own])
    counts = dict(zip(names, facts.counts(names, inverse), strict=True))
    above = _wholes(facts, own)
    found = [
        Near(name, tuple(sorted(shared[name])), counts[name])
        for name in names
        if counts[name] and name not in above and not _wholes(facts, [name]) & set(own)
    ]
    return sorted(
        found, key=lambda one: (-len({*one.shares} - {"other"}), "class" not in one.shares, -one.facts, one.name)
    )


def _siblings(facts: FactSet, entity: str, ids: Sequence[str]) -> Iterable[str]:
    """Yield what has the same value of a property as an entity."""
    for name in facts.names(ids).values():
        back = facts.inverse_of(name)
        for _, value in islice(facts.objects([entity], name), 10):
            if back is not None and not facts.is_hub(value, back):
                yield from (other for _, other in islice(facts.objects([value], back), SIBLINGS))


def _others(facts: FactSet, subject: str, predicate: str, true: str, inverse: str) -> Iterable[str]:
    """Yield the objects of other subjects: of those that have the true object too, then of those like the subject."""
    like = [other for _, other in islice(facts.objects([true], inverse), SIBLINGS)]
    like += islice(_siblings(facts, subject, ("P31", "P106", "P17", "P463", "P136", "P161")), SIBLINGS)
    yield from (object_ for _, object_ in islice(facts.objects(like, predicate), 4 * SIBLINGS))


def _usable(facts: FactSet, names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Return the names that can stand in a question: of entities with ids, short, and none of those that are taken."""
    ids, known = facts.ids(names), {bare_name(name).casefold() for name in taken}
    return [
        name
        for name in names
        if name in ids
        and ids[name].startswith("Q")
        and not name.endswith(ALIAS)
        and len(bare_name(name)) <= LONGEST_NAME
        and bare_name(name).casefold() not in known
    ]


def _wholes(facts: FactSet, parts: Sequence[str]) -> set[str]:
    """Return what some entities are part of, over several steps."""
    names, seen, now = list(facts.names(WHOLES).values()), set[str](), set(parts)
    for _ in range(UP):
        now = {whole for name in names for _, whole in facts.objects(sorted(now), name)} - seen
        if not now:
            break
        seen |= now
    return seen
