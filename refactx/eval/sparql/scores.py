"""All scores of written queries over a set of questions."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from refactx.eval.sparql.bleu import bleu
from refactx.eval.sparql.same import Mode, same_query
from refactx.lazy import require
from refactx.query.language import QueryError
from refactx.sparql.ids import ids_of, unknown_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryScores:
    """Scores of `questions` queries: shares from 0 to 1, and BLEU from 0 to 100.

    `written`: a query was written, and not refused; `parses`: it is SPARQL; `sqm_strict`, `sqm_paper`: it is the gold
    query (`same_query`); `qid_em`, `pid_em`: it has gold's entities, and gold's properties; `hallucinated`: it has an id
    that the knowledge base does not have; None if that is not known.
    """

    questions: int
    written: float
    parses: float
    sqm_strict: float
    sqm_paper: float
    qid_em: float
    pid_em: float
    bleu: float
    bleu_signature: str
    hallucinated: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the scores by name."""
        return asdict(self)


def score_queries(
    predictions: Sequence[str | None],
    golds: Sequence[str],
    known: Callable[[Collection[str]], Collection[str]] | None = None,
) -> QueryScores:
    """Return the scores of queries against gold queries. None: no query was written. `known`: as for `unknown_ids`.

    >>> scores = score_queries(["ASK { ?y wdt:P2 wd:Q1 }", None], ["ASK { ?x wdt:P2 wd:Q1 }", "ASK {}"])
    >>> scores.sqm_strict, scores.qid_em, scores.parses
    (0.5, 0.5, 0.5)

    Raises QueryError if a gold query is not SPARQL, and as `bleu` does.
    """
    require("rdflib", "sparql")
    texts = [text or "" for text in predictions]
    measured = bleu(texts, golds)
    for gold in golds:
        same_query(gold, gold)
    pairs = list(zip(predictions, golds, strict=True))
    written = [text for text in predictions if text is not None]
    unknown = None if known is None else unknown_ids(written, known)

    def share(hits: Collection[object]) -> float:
        return sum(map(bool, hits)) / len(golds)

    def matches(mode: Mode) -> float:
        return share([text is not None and _is_same(text, gold, mode) for text, gold in pairs])

    return QueryScores(
        questions=len(golds),
        written=share(written),
        parses=share([text is not None and _parses(text) for text in predictions]),
        sqm_strict=matches("strict"),
        sqm_paper=matches("paper"),
        qid_em=share([text is not None and ids_of(text).entities == ids_of(gold).entities for text, gold in pairs]),
        pid_em=share([text is not None and ids_of(text).properties == ids_of(gold).properties for text, gold in pairs]),
        bleu=measured.score,
        bleu_signature=measured.signature,
        hallucinated=None if unknown is None else share(unknown),
    )


def _parses(text: str) -> bool:
    try:
        same_query(text, text)
    except QueryError:
        return False
    return True


def _is_same(text: str, gold: str, mode: Mode) -> bool:
    try:
        return same_query(text, gold, mode)
    except QueryError:
        return False
