"""The report of an evaluation of policies as one JSON document."""

from collections.abc import Mapping, Sequence
from typing import Any

from refactx.eval.policies.execution import has_answer
from refactx.eval.policies.figures import figures
from refactx.eval.policies.run import Record
from refactx.eval.policies.scores import QueryScore
from refactx.eval.sparql import bleu

VERSION = 1


def report(
    settings: Mapping[str, Any],
    scored: Mapping[str, Sequence[QueryScore]],
    golds: Sequence[Record],
    experiments: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the report. `scored`: scores by policy; `golds`: the lines of all gold queries."""
    first = next(iter(scored.values()))
    return {
        "version": VERSION,
        "settings": dict(settings),
        "questions": len(first),
        "engine": golds[0]["engine"],
        "gold": _gold_figures(golds),
        "bleu_signature": bleu(
            [one.question.sparql for one in first], [one.question.sparql for one in first]
        ).signature,
        "policies": {
            name: {"overall": figures(scores), "by_kind": _by_kind(scores)} for name, scores in scored.items()
        },
        **experiments,
        "results": [_result(name, one) for name, scores in scored.items() for one in scores],
    }


def _gold_figures(golds: Sequence[Record]) -> dict[str, int]:
    """Return how many gold queries there are, are no SPARQL (and are left out), fail, have no rows, and lack names."""
    results = [gold["result"] for gold in golds if gold["result"] is not None]
    return {
        "queries": len(golds),
        "left_out": sum(gold["result"] is None for gold in golds),
        "fail": sum("error" in result for result in results),
        "without_rows": sum("error" not in result and not has_answer(result) for result in results),
        "lack_names": sum(bool(gold["unknown"]) for gold in golds),
    }


def _by_kind(scores: Sequence[QueryScore]) -> dict[str, Any]:
    kinds = sorted({one.question.kind for one in scores})
    return {kind: figures([one for one in scores if one.question.kind == kind]) for kind in kinds}


def _result(policy: str, one: QueryScore) -> dict[str, Any]:
    return {
        "policy": policy,
        "key": one.question.key,
        "kind": one.question.kind,
        "question": one.question.text,
        "gold": one.question.sparql,
        "sparql": one.sparql,
        "reason": one.reason or None,
        "f1": None if one.f1 is None else round(one.f1, 4),
        "sqm_strict": one.sqm_strict,
        "sqm_paper": one.sqm_paper,
        "hallucinated": one.made_up,
        "refused": one.refused,
        "syntax_error": one.broken,
    }
