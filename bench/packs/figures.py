"""The figures of detection and of retrieval: F1 of patterns, and examples with the same patterns among the first."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from refactx.sparql.packs.pack import Pack, PackExample
from refactx.sparql.packs.retrieval import Retriever

GOLD = 0.5
"""The least weight with which a pattern of an example counts as one that its question has."""
TOP = 5


@dataclass(frozen=True, slots=True)
class PatternScores:
    """The F1 of each gold pattern, their mean (`macro`), and the F1 of all decisions on these patterns (`micro`)."""

    macro: float
    micro: float
    each: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class RetrievalScores:
    """Of `questions` with another example that has the same patterns: the shares of those that have one among the first
    five (`top`), and as the first (`first`); and, over all questions, the mean of the best overlap of patterns among the
    first five, as intersection over union (`overlap`)."""

    questions: int
    top: float
    first: float
    overlap: float


def gold_of(example: PackExample) -> frozenset[str]:
    """Return the patterns of an example that count."""
    return frozenset(name for name, weight in example.patterns.items() if weight >= GOLD)


def pattern_scores(rows: Iterable[tuple[Collection[str], Collection[str]]]) -> PatternScores:
    """Return the scores of detected patterns (second) beside gold ones (first), over the patterns that gold has.

    >>> pattern_scores([({"A"}, {"A"}), ({"A", "B"}, {"B"})]).each
    {'A': 0.6666666666666666, 'B': 1.0}
    """
    pairs = [(set(gold), set(found)) for gold, found in rows]
    names = sorted(set().union(*(gold for gold, _ in pairs)))
    counts = {name: _counts(name, pairs) for name in names}
    each = {name: 2 * hit / max(2 * hit + wrong + missed, 1) for name, (hit, wrong, missed) in counts.items()}
    hit, wrong, missed = (sum(column) for column in zip(*counts.values(), strict=True))
    return PatternScores(mean(each.values()), 2 * hit / (2 * hit + wrong + missed), each)


def _counts(name: str, pairs: Sequence[tuple[set[str], set[str]]]) -> tuple[int, int, int]:
    hit = sum(name in gold and name in found for gold, found in pairs)
    return hit, sum(name in found for _, found in pairs) - hit, sum(name in gold for gold, _ in pairs) - hit


def retrieval_scores(pack: Pack, retriever: Retriever, ask: Callable[[PackExample], str]) -> RetrievalScores:
    """Return the scores of retrieval for each example's question (`ask`) among the other examples."""
    gold = {one.id: gold_of(one) for one in pack.examples}
    hits, firsts, overlaps = list[bool](), list[bool](), list[float]()
    for example in pack.examples:
        wanted = gold[example.id]
        found = [one.example.id for one in retriever.retrieve(ask(example), TOP, without=[example.id])]
        overlaps.append(max(len(gold[one] & wanted) / max(len(gold[one] | wanted), 1) for one in found))
        if any(gold[other] == wanted for other in gold if other != example.id):
            hits.append(any(gold[one] == wanted for one in found))
            firsts.append(gold[found[0]] == wanted)
    return RetrievalScores(len(hits), mean(hits), mean(firsts), mean(overlaps))
