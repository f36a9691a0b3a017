"""More names in the memory: near-duplicates of those that it has, as many for each name.

A near-duplicate has the description and the facts of its name, and a label with a letter left out, doubled or changed for
its neighbour, or with another word. It counts as an entity or property of its own, so a mention that is resolved to it is
resolved wrongly. Near-duplicates are made when a mention is compared with their names: those of names that are
far from it are far from it too.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from refactx.eval.policies.experiments.remembered import RememberedMemory
from refactx.eval.policies.experiments.texts import PgmrText, Resolving
from refactx.query.pgmr import Mention
from refactx.sparql.memory import Entry, Feasible, Near, Thresholds
from refactx.sparql.memory.entry import fold
from refactx.sparql.memory.resolver import Reading

SEED = 0
BEFORE, AFTER = ("New", "Old", "North", "South", "Little"), ("II", "County", "Park", "Society", "Hall")
_DIGITS = 12
_FIRST = 900


def add_distractors(
    texts: Sequence[PgmrText], memory: RememberedMemory, resolving: Resolving, factors: Sequence[int], seed: int = SEED
) -> list[dict[str, Any]]:
    """Return a row for each factor by which the memory grows, and first for 1: the memory as it is.

    `sqm_strict`, `sqm_paper`, `f1`, `refused`: of all texts; `over`: SQM (strict) over that with factor 1, None if that is
    0; `changed`: the texts whose query is not that with factor 1.
    """
    rows: list[dict[str, Any]] = []
    before: list[str | None] = []
    for factor in dict.fromkeys((1, *factors)):
        feasible = None if resolving.feasible is None else GrownFeasible(resolving.feasible)
        resolver = resolving.resolver(GrownMemory(memory, factor, seed), feasible=feasible)
        queries = [text.resolved(resolver) for text in texts]
        before = before or queries
        scores = resolving.scores(texts, queries)
        first = (rows[0] if rows else scores)["sqm_strict"]["value"]
        rows.append(
            {
                "factor": factor,
                **scores,
                "over": round(scores["sqm_strict"]["value"] / first, 4) if first else None,
                "changed": sum(one != other for one, other in zip(queries, before, strict=True)),
            }
        )
    return rows


class GrownMemory:
    """A memory with `factor` - 1 near-duplicates of each name: a `Memory`."""

    def __init__(self, memory: RememberedMemory, factor: int, seed: int = SEED) -> None:
        self._memory, self._factor, self._seed = memory, factor, seed

    @property
    def thresholds(self) -> Thresholds:
        """Those of the memory without near-duplicates."""
        return self._memory.thresholds

    def exact(self, mentions: Sequence[Mention]) -> list[Sequence[Entry]]:
        """Return the entries that have each mention's label; near-duplicates if no name has it."""
        found = self._memory.exact(mentions)
        others = [at for at, some in enumerate(found) if not some]
        near = self._memory.nearest([mentions[at] for at in others], _NEAR) if others else []
        for at, some in zip(others, near, strict=True):
            label = fold(mentions[at].label)
            found[at] = [one for one in self._duplicates([near.entry for near in some]) if fold(one.label) == label]
        return found

    def nearest(self, mentions: Sequence[Mention], count: int) -> list[list[Near]]:
        """Return the names and near-duplicates that are most similar to each mention, at most `count`."""
        return [
            self._merged(mention, near, count)
            for mention, near in zip(mentions, self._memory.nearest(mentions, count), strict=True)
        ]

    def similarities(self, mention: Mention, entries: Sequence[Entry]) -> list[float]:
        """Return how similar entries are to a mention."""
        own = iter(self._memory.similarities(mention, [one for one in entries if original_of(one.id) is None]))
        made = iter(self._memory.alike(mention, [one for one in entries if original_of(one.id) is not None]))
        return [next(own if original_of(one.id) is None else made) for one in entries]

    def _merged(self, mention: Mention, near: Sequence[Near], count: int) -> list[Near]:
        made = self._duplicates([one.entry for one in near])
        others = [Near(entry, alike) for entry, alike in zip(made, self._memory.alike(mention, made), strict=True)]
        return sorted([*near, *others], key=lambda one: -one.similarity)[:count]

    def _duplicates(self, entries: Sequence[Entry]) -> list[Entry]:
        return [near_duplicate(one, number, self._seed) for one in entries for number in range(1, self._factor)]


_NEAR = 10
"""The names whose near-duplicates may have a mention's very label."""


class GrownFeasible:
    """What is known of facts, where near-duplicates have the facts of their names: a `Feasible`."""

    def __init__(self, feasible: Feasible) -> None:
        self._feasible = feasible

    def readings(self, ids: Sequence[str]) -> dict[str, Mapping[Reading, int]]:
        """Return the properties that entities have, also under the ids of near-duplicates of these."""
        own = {one: original_of(one) or one for one in ids}
        found = self._feasible.readings(list(dict.fromkeys(own.values())))
        return {one: found[of] for one, of in own.items()}

    def is_known(self, reading: Reading) -> bool:
        """Return whether all facts of a property are found."""
        property_, inverse = reading
        return self._feasible.is_known((original_of(property_) or property_, inverse))


def near_duplicate(entry: Entry, number: int, seed: int = SEED) -> Entry:
    """Return a near-duplicate of an entry, the same for the same number and seed.

    >>> near_duplicate(Entry("Q42", "Adams", "writer"), 1).id, original_of("Q901000000000042"), original_of("Q42")
    ('Q901000000000042', 'Q42', None)
    """
    drawn = random.Random(f"{seed} {entry.id} {entry.label} {number}")  # noqa: S311 - not for secrets
    label, at = entry.label, drawn.randrange(max(1, len(entry.label) - 1))
    changed = {
        "left out": label[:at] + label[at + 1 :],
        "doubled": label[: at + 1] + label[at:],
        "changed": label[:at] + label[at : at + 2][::-1] + label[at + 2 :],
        "before": f"{drawn.choice(BEFORE)} {label}",
        "after": f"{label} {drawn.choice(AFTER)}",
    }
    others = [text for text in changed.values() if text.strip() and fold(text) != fold(label)]
    id_ = f"{entry.id[0]}{_FIRST + number}{int(entry.id[1:]):0{_DIGITS}d}"
    return replace(entry, id=id_, label=drawn.choice(others))


def original_of(id_: str) -> str | None:
    """Return the id of the name of which an id is a near-duplicate; None if it is none."""
    if len(id_) != 1 + len(str(_FIRST)) + _DIGITS or int(id_[1:4]) <= _FIRST:
        return None
    return f"{id_[0]}{int(id_[4:])}"
