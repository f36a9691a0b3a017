"""Errors about names in queries: what the index does not have, and what is near."""

import difflib
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from refactx.query.fact_set import FactSet
from refactx.query.sets import Walks
from refactx.query.walk import QueryError

NEAR = 5
"""The most names that an error proposes."""


@runtime_checkable
class NearNames(Protocol):
    """A set of facts that finds names like another."""

    def near(self, name: str, most: int = NEAR) -> Sequence[str]:
        """Return names of entities with facts that are like a name, the most similar first."""
        ...


def check_start(facts: FactSet, start: str) -> None:
    """Raise QueryError, with names that are near, if a name is neither an entity's nor the subject of a fact."""
    if facts.predicates(start) or facts.ids([start]):
        return
    near = facts.near(start, NEAR) if isinstance(facts, NearNames) else ()
    raise QueryError(f"no fact begins with <{start}>{_proposed(near)}")


def check_predicate(walks: Walks, predicate: str, members: Sequence[str], *, must_have: bool) -> None:
    """Raise QueryError, with predicates that are near, if none of some members has a predicate.

    `must_have`: also for a predicate of the index, which members might have had.
    """
    if not members or any(walks.facts.counts(members, predicate)):
        return
    is_known = walks.is_known(predicate)
    if is_known and not must_have:
        return
    whose = f"<{members[0]}>" + (f" and the {len(members) - 1:,} others" if len(members) > 1 else "")
    if is_known:
        raise QueryError(
            f"no fact of {whose} has the predicate <{predicate}>{_proposed(_near(walks, predicate, members))}"
        )
    own = _near(walks, predicate, members)
    raise QueryError(
        f"<{predicate}> is no predicate of {whose}{_proposed(own)}{_inverse_hint(walks, predicate, members)}"
    )


def _near(walks: Walks, predicate: str, members: Sequence[str]) -> list[str]:
    """Return the predicates of some members that are like a name, or the ones with most facts."""
    own: dict[str, int] = {}
    for member in members[:NEAR]:
        for name, count in walks.facts.predicates(member).items():
            own[name] = own.get(name, 0) + count
    folded = {name.casefold(): name for name in own}
    close = difflib.get_close_matches(predicate.casefold(), folded, NEAR, cutoff=0.5)
    return [folded[one] for one in close] or sorted(own, key=lambda name: -own[name])[:NEAR]


def _inverse_hint(walks: Walks, predicate: str, members: Sequence[str]) -> str:
    reads_backwards = predicate.endswith((" of", " by", "(inverse)")) or predicate.startswith("has ")
    own = walks.facts.describe(list(walks.facts.predicates(members[0])))
    if reads_backwards and own and not any(described.inverse for described in own.values()):
        return ". It has no inverse facts: does the index (`ingest --inverse`)?"
    return ""


def _proposed(names: Sequence[str]) -> str:
    return f": did you mean {', '.join(f'<{name}>' for name in names)}?" if names else ""
