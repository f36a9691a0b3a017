"""Thresholds of similarity: below them a mention is refused. The best ones are found by pairs of known rightness."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from refactx.errors import InputError

Match = Literal["entity", "relation", "namesake"]
"""What a threshold is for: an entity or a relation that is only near a mention, or an entity with the mention's label
and another description."""
MATCHES: tuple[Match, ...] = ("entity", "relation", "namesake")
FEWEST = 20
"""The fewest right pairs, and the fewest wrong ones, by which a threshold is found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The least similarity of a choice, by what it is. One that is equal passes."""

    entity: float
    relation: float
    namesake: float

    def updated(self, found: Mapping[str, float]) -> "Thresholds":
        """Return the same with some thresholds in place of their own.

        >>> Thresholds(entity=0.8, relation=0.7, namesake=0.6).updated({"relation": 0.5}).relation
        0.5
        """
        return replace(self, **{name: tau for name, tau in found.items() if name in MATCHES})

    def to_json(self) -> dict[str, float]:
        """Return the thresholds by kind."""
        return {name: round(float(tau), 4) for name, tau in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Pair:
    """What a mention would be resolved to: how similar that is, and whether it is right. Of a mention of something that
    the memory does not have, whatever is nearest is wrong."""

    similarity: float
    right: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A threshold, with what it does on some pairs.

    `kept`: the share of the right pairs that it keeps; `refused`: the share of the wrong ones that it refuses (refusal
    accuracy); `right`, `wrong`: how many pairs there are.
    """

    tau: float
    kept: float
    refused: float
    right: int
    wrong: int


def curve_of(pairs: Sequence[Pair]) -> list[Threshold]:
    """Return all thresholds that differ on some pairs, from the lowest: that which keeps all comes first.

    Each is halfway between two similarities. Raises InputError without a right pair, or without a wrong one.

    >>> pairs = [Pair(0.9, True), Pair(0.7, True), Pair(0.5, False), Pair(0.3, False)]
    >>> [(one.tau, one.kept, one.refused) for one in curve_of(pairs)][2:4]
    [(0.6, 1.0, 1.0), (0.8, 0.5, 1.0)]
    """
    right = sum(one.right for one in pairs)
    wrong = len(pairs) - right
    if not right or not wrong:
        raise InputError(f"a threshold needs right and wrong pairs: there are {right} right and {wrong} wrong ones")
    ordered = sorted(pairs, key=lambda one: one.similarity)
    found = [_threshold(ordered[0].similarity, 0, 0, right, wrong)]
    right_below = wrong_below = 0
    for at, one in enumerate(ordered):
        right_below, wrong_below = right_below + one.right, wrong_below + (not one.right)
        above = ordered[at + 1].similarity if at + 1 < len(ordered) else one.similarity + 2e-4
        if above > one.similarity:
            found.append(_threshold((one.similarity + above) / 2, right_below, wrong_below, right, wrong))
    return found


def best_threshold(pairs: Sequence[Pair], refusal: float | None = None) -> Threshold:
    """Return the best threshold for some pairs.

    It is that with the largest sum of `kept` and `refused`; with `refusal`, the one that keeps most of those that refuse
    at least this share of the wrong pairs. Raises InputError without a right pair, or without a wrong one.

    >>> best_threshold([Pair(0.9, True), Pair(0.4, True), Pair(0.5, False), Pair(0.3, False)], refusal=0.5).tau
    0.35
    """
    curve = curve_of(pairs)
    if refusal is not None:
        return max((one for one in curve if one.refused >= refusal), key=lambda one: (one.kept, one.refused))
    return max(curve, key=lambda one: (one.kept + one.refused, one.kept))


def _threshold(tau: float, right_below: int, wrong_below: int, right: int, wrong: int) -> Threshold:
    return Threshold(tau=tau, kept=1 - right_below / right, refused=wrong_below / wrong, right=right, wrong=wrong)


PAPER = Thresholds(entity=0.85, relation=0.85, namesake=0.85)
"""The threshold of the paper, found with BGE as the encoder. `refactx memory calibrate` finds those of another one."""
LETTERS = Thresholds(entity=0.9, relation=0.85, namesake=0.5)
"""Those of names without embeddings, set by judgement: one letter of ten may be wrong, and half of the words of a
namesake's description are to be those of the index."""
