"""BLEU of queries by sacrebleu, with the signature that says how it was computed."""

from collections.abc import Sequence
from dataclasses import dataclass

from refactx.lazy import require


@dataclass(frozen=True, slots=True)
class Bleu:
    """BLEU of a corpus, from 0 to 100, and sacrebleu's signature."""

    score: float
    signature: str


def bleu(predictions: Sequence[str], golds: Sequence[str]) -> Bleu:
    """Return the BLEU of queries, each against one gold query, on one line, with sacrebleu's defaults.

    >>> bleu(["ASK { wd:Q1 wdt:P2 ?x }"], ["ASK { wd:Q1 wdt:P2 ?x }"]).score
    100.0

    Raises ValueError if there are none, or if the lengths differ; InputError if sacrebleu is not installed.
    """
    require("sacrebleu", "eval")
    from sacrebleu.metrics.bleu import BLEU

    if not golds or len(predictions) != len(golds):
        raise ValueError(
            f"{len(predictions)} queries for {len(golds)} gold queries: expected as many, and at least one"
        )
    metric = BLEU()
    score = metric.corpus_score(
        [" ".join(text.split()) for text in predictions], [[" ".join(t.split()) for t in golds]]
    )
    return Bleu(round(score.score, 2), str(metric.get_signature()))
