"""Errors about the names of a query: starts, predicates and qualifiers that the facts do not have, with those that are near."""

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from refactx.linking.linker import Linker, did_you_mean
from refactx.linking.names import alike
from refactx.walks.language import FactSet, Hop, QueryError
from refactx.walks.sets import Walks

NEAR = 5
"""The most names that an error proposes."""


@runtime_checkable
class LinkedFactSet(Protocol):
    """A set of facts that finds what names are like."""

    @property
    def linker(self) -> Linker:
        """What names mean in the index."""
        ...


def check_start(facts: FactSet, start: str) -> None:
    """Raise QueryError, with names that are near, if a name is neither an entity's nor the subject of a fact."""
    if facts.predicates(start) or facts.ids([start]):
        return
    near = facts.linker.suggestions(start, NEAR) if isinstance(facts, LinkedFactSet) else ()
    raise QueryError(f"no fact begins with <{start}>{did_you_mean(near)}")


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
            f"no fact of {whose} has the predicate <{predicate}>{did_you_mean(_near(walks, predicate, members))}"
        )
    hint, command = did_you_mean(_near(walks, predicate, members)), ""
    own = walks.facts.describe(list(walks.facts.predicates(members[0])))
    reads_backwards = predicate.endswith((" of", " by", "(inverse)")) or predicate.startswith("has ")
    if reads_backwards and own and not any(described.inverse for described in own.values()):
        hint, command = f"{hint}. It has no inverse facts", ": does the index (`ingest --inverse`)?"
    raise QueryError(f"<{predicate}> is no predicate of {whose}{hint}", command=command)


def _near(walks: Walks, predicate: str, members: Sequence[str]) -> list[str]:
    """Return the predicates of some members that are like a name, or the ones with most facts."""
    own: dict[str, int] = {}
    for member in members[:NEAR]:
        for name, count in walks.facts.predicates(member).items():
            own[name] = own.get(name, 0) + count
    return alike(predicate, own, NEAR) or sorted(own, key=lambda name: -own[name])[:NEAR]


def check_hops(walks: Walks, hops: Iterable[Hop], members: Sequence[str], *, must_have: bool) -> None:
    """Raise QueryError, with names that are near, if no member has the predicate of a hop, or none of their statements a
    qualifier; each hop begins at what the one before it leads to. `must_have`: as in `check_predicate`."""
    before: Hop | None = None
    for hop in hops:
        if before is not None:
            members = list(walks.follow(dict.fromkeys(members), before))
        before = hop
        if hop.closure != "*":
            check_predicate(walks, hop.predicate, list(members), must_have=must_have)
        for one in hop.where:
            if one.word == "with":
                check_qualifier(walks, hop.predicate, one.values[0], must_have=must_have)
        if hop.its:
            check_qualifier(walks, hop.predicate, hop.its, must_have=must_have)


def check_qualifier(walks: Walks, predicate: str, qualifier: str, *, must_have: bool) -> None:
    """Raise QueryError if statements with a predicate were read, and none has a qualifier."""
    seen = walks.qualifiers.get(predicate)
    if seen is None or qualifier in seen or (not must_have and walks.is_known(qualifier)):
        return
    near = alike(qualifier, dict.fromkeys(seen, 0), NEAR) or list(seen)[:NEAR]
    raise QueryError(f"no statement with <{predicate}> has the qualifier <{qualifier}>{did_you_mean(near)}")


def check_statements(facts: FactSet, hops: Iterable[Hop]) -> None:
    """Raise QueryError if hops read qualifiers, and no fact has any."""
    for hop in hops:
        if not facts.has_statements and (
            hop.its is not None or any(one.word not in ("being", "now") for one in hop.where)
        ):
            raise QueryError(
                f"the statements of <{hop.predicate}> have no qualifiers in this index",
                command=": ingest it again with --qualifiers, or --qualifier COLUMN of a table",
            )
