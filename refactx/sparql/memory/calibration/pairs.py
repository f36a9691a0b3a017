"""What a memory makes of cases: pairs of similarity and rightness, with each name in the memory and without it."""

from collections.abc import Callable, Iterator, Sequence

from refactx.query.pgmr import Mention
from refactx.sparql.memory.calibration.cases import Case
from refactx.sparql.memory.entry import Memory, Near, fold
from refactx.sparql.memory.thresholds import Pair
from refactx.sparql.memory.without import MemoryWithout

_AT_ONCE = 64
"""The cases whose nearest entries are read together."""

Progress = Callable[[int, int], object]


def pairs_of(
    memory: Memory, cases: Sequence[Case], progress: Progress = lambda done, total: None
) -> list[tuple[Case, Pair]]:
    """Return what each case is resolved to, with its entry in the memory, and without it.

    Cases whose mention has the label of another entry count only as namesakes, since the nearest are not sought then.
    """
    found: list[tuple[Case, Pair]] = []
    near = [one for one in cases if one.match != "namesake"]
    namesakes = [one for one in cases if one.match == "namesake"]
    for at in range(0, len(near), _AT_ONCE):
        found += _near_pairs(memory, near[at : at + _AT_ONCE])
        progress(min(at + _AT_ONCE, len(near)), len(cases))
    for at, case in enumerate(namesakes):
        found += [(case, pair) for pair in _namesake_pairs(memory, case)]
        progress(len(near) + at + 1, len(cases))
    return found


def _near_pairs(memory: Memory, cases: Sequence[Case]) -> Iterator[tuple[Case, Pair]]:
    mentions = [case.mention for case in cases]
    exact = memory.exact(mentions)
    for case, with_label, near in zip(cases, exact, memory.nearest(mentions, 2), strict=True):
        if near and not any(one.id != case.entry.id for one in with_label):
            best = max((_without_own_alias(memory, case, one) for one in near), key=lambda one: one.similarity)
            yield case, Pair(best.similarity, best.entry.id == case.entry.id)
    for case in cases:
        without = MemoryWithout(memory, {case.entry.id})
        if not without.exact([case.label])[0] and (near := without.nearest([case.label], 1)[0]):
            yield case, Pair(near[0].similarity, False)


def _without_own_alias(memory: Memory, case: Case, near: Near) -> Near:
    """Return how near a case's entry is by its label, if it is near by the very alias of the mention."""
    if near.entry.is_alias and near.entry.id == case.entry.id and fold(near.entry.label) == fold(case.mention.label):
        return Near(case.entry, memory.similarities(case.mention, [case.entry])[0])
    return near


def _namesake_pairs(memory: Memory, case: Case) -> Iterator[Pair]:
    for without in ((), (case.entry.id,)):
        best = _best_namesake(MemoryWithout(memory, without), case.mention)
        if best is not None:
            yield Pair(best.similarity, best.entry.id == case.entry.id)


def _best_namesake(memory: Memory, mention: Mention) -> Near | None:
    entries = memory.exact([mention])[0]
    likeness = memory.similarities(mention, entries)
    near = [Near(entry, min(one, 1.0)) for entry, one in zip(entries, likeness, strict=True) if entry.description]
    return max(near, key=lambda one: one.similarity, default=None)
