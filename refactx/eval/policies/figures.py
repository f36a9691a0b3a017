"""The figures of many queries: shares and means with 95% intervals, and BLEU."""

from collections.abc import Sequence
from typing import Any

from refactx.eval.intervals import Estimate, mean, proportion, ratio
from refactx.eval.policies.scores import QueryScore
from refactx.eval.sparql import bleu

SHARES = (
    ("f1", "Execution F1", "rows of the query against those of the gold query, of questions whose gold query has rows"),
    ("exact", "Exact", "the same rows, of the same questions"),
    ("sqm_paper", "SQM, paper", "the gold query, up to names and the order of triples and of their terms"),
    ("sqm_strict", "SQM, strict", "the gold query, up to names and the order of triples"),
    ("qid_em", "Qid-EM", "the entities of the gold query, and no others"),
    ("pid_em", "Pid-EM", "the properties of the gold query, and no others"),
    ("hallucinated", "URI hallucination", "the query has an id that the index does not have"),
    ("refused", "Refused", "no query was written, for another reason than its syntax"),
    ("refusal_accuracy", "Refusal accuracy", "refused, of questions with a name that the index does not have"),
    ("sqm_answerable", "SQM, answerable", "SQM (strict) of questions whose names the index has"),
    ("syntax_errors", "Syntax errors", "what was written is not SPARQL"),
    ("fails", "Fails", "the engine could not run the query"),
)
"""The shares of questions: key, name, and what they are shares of."""
SECONDS = (
    ("writing", "Writing (T_dg)", "of the model, a question"),
    ("resolving", "Resolving (k x T_ret)", "of all else but running, a question"),
    ("a_name", "A name (T_ret)", "of resolving, a name"),
    ("names", "Names (k)", "that are resolved, a question"),
    ("running", "Running", "of the engine, a query"),
)


def figures(scores: Sequence[QueryScore]) -> dict[str, Any]:
    """Return the figures of some queries as JSON."""
    return {
        "questions": len(scores),
        "with_rows": sum(one.f1 is not None for one in scores),
        "unanswerable": sum(not one.answerable for one in scores),
        "unasked": sum(one.unasked for one in scores),
        **{name: estimate.to_json() for name, estimate in _shares(scores).items()},
        "bleu": bleu([one.sparql or "" for one in scores], [one.question.sparql for one in scores]).score,
        "seconds": {name: estimate.to_json() for name, estimate in _seconds(scores).items()},
    }


def _shares(scores: Sequence[QueryScore]) -> dict[str, Estimate]:
    compared = [one.f1 for one in scores if one.f1 is not None]
    lacking, whole = [one for one in scores if not one.answerable], [one for one in scores if one.answerable]
    return {
        "f1": mean(compared),
        "exact": proportion(sum(f1 == 1 for f1 in compared), len(compared)),
        "sqm_paper": _share([one.sqm_paper for one in scores]),
        "sqm_strict": _share([one.sqm_strict for one in scores]),
        "qid_em": _share([one.qid_em for one in scores]),
        "pid_em": _share([one.pid_em for one in scores]),
        "hallucinated": _share([one.made_up for one in scores]),
        "refused": _share([one.refused for one in scores]),
        "refusal_accuracy": _share([one.refused for one in lacking]),
        "sqm_answerable": _share([one.sqm_strict for one in whole]),
        "syntax_errors": _share([one.broken for one in scores]),
        "fails": _share([one.fails for one in scores]),
    }


def _share(hits: Sequence[bool]) -> Estimate:
    return proportion(sum(hits), len(hits))


def _seconds(scores: Sequence[QueryScore]) -> dict[str, Estimate]:
    asked = [one for one in scores if not one.unasked]
    named = [one for one in asked if one.names]
    return {
        "writing": mean([one.writing for one in asked]),
        "resolving": mean([one.resolving for one in asked]),
        "a_name": ratio([one.resolving for one in named], [float(one.names) for one in named]),
        "names": mean([float(one.names) for one in asked]),
        "running": mean([one.running for one in asked if one.sparql is not None]),
    }
