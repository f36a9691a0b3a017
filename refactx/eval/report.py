"""A run in figures: one JSON document that the page, the Markdown and the plots are made from.

    {"settings": {...}, "questions": n, "judge": name or null,
     "runs": {"grounded": {"overall": S, "by_kind": {kind: S}, "by_source": {source: S}, "failures": [F]}, "free": ...},
     "comparison": {...} or null, "results": [...]}

S has the metrics of `refactx.eval.metrics` and the means of tokens, forward passes, seconds and facts an answer, each
`{"value", "low", "high", "of"}`. F is a reason of `refactx.eval.results` with its count and a few transcripts.
`comparison`: what facts change, question by question (grounded minus free; for times grounded by free).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from refactx.eval.intervals import Estimate, mean, proportion, ratio
from refactx.eval.metrics import accuracy, precision
from refactx.eval.results import REASONS, Result

TRANSCRIPTS = 5
"""So many of each reason are shown; all are in answers.jsonl."""


def report(
    settings: Mapping[str, Any], runs: Mapping[str, Sequence[Result]], judge: str | None = None
) -> dict[str, Any]:
    """The document. `runs`: results by way, `grounded` and perhaps `free`, of the same questions in the same order."""
    ways = list(runs)
    return {
        "settings": dict(settings),
        "questions": len(runs[ways[0]]),
        "judge": judge,
        "runs": {way: _run(results, judge is not None) for way, results in runs.items()},
        "comparison": _comparison(runs["grounded"], runs["free"]) if len(ways) == 2 else None,
        "results": [_line(way, result) for way, results in runs.items() for result in results],
    }


def _run(results: Sequence[Result], judged: bool) -> dict[str, Any]:
    return {
        "overall": summary(results, judged),
        "by_kind": _groups(results, judged, lambda result: result.question.kind),
        "by_source": _groups(results, judged, lambda result: result.question.source),
        "failures": _failures(results),
    }


def _groups(results: Sequence[Result], judged: bool, name: Callable[[Result], str]) -> dict[str, Any]:
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        groups[name(result)].append(result)
    return {key: summary(groups[key], judged) for key in sorted(groups, key=lambda key: (-len(groups[key]), key))}


def summary(results: Sequence[Result], judged: bool = False) -> dict[str, Any]:
    """The figures of a group of results. `judged`: there were verdicts."""
    given = [result.given for result in results]
    hit, exact = [result.score.hit for result in results], [result.score.exact for result in results]
    figures: dict[str, Estimate | None] = {
        "accuracy": accuracy(hit),
        "precision": precision(hit, given),
        "exact_accuracy": accuracy(exact),
        "exact_precision": precision(exact, given),
        "f1": mean([result.score.f1 for result in results]),
        "judge_accuracy": None,
        "judge_precision": None,
        "answered": proportion(sum(given), len(given)),
        "tokens": mean([result.tokens for result in results]),
        "forward_passes": mean([result.forward_passes for result in results]),
        "seconds": mean([result.seconds for result in results]),
        "seconds_per_token": ratio([result.seconds for result in results], [result.tokens for result in results]),
        "facts": mean([len(result.facts) for result in results]),
    }
    unparseable = None
    if judged:
        right = [result.verdict is True for result in results]
        figures |= {"judge_accuracy": accuracy(right), "judge_precision": precision(right, given)}
        unparseable = sum(result.given and result.verdict is None for result in results)
    return {
        "questions": len(results),
        "outcomes": dict(Counter(result.outcome for result in results).most_common()),
        **{name: None if estimate is None else estimate.to_json() for name, estimate in figures.items()},
        "judge_without_verdict": unparseable,
    }


def _failures(results: Sequence[Result]) -> list[dict[str, Any]]:
    """The reasons that occur, the commonest first."""
    found: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        if result.reason is not None:
            found[result.reason].append(result)
    return [
        {
            "reason": reason,
            "count": len(found[reason]),
            "share": round(len(found[reason]) / len(results), 4),
            "transcripts": [_transcript(result) for result in found[reason][:TRANSCRIPTS]],
        }
        for reason in sorted(found, key=lambda reason: (-len(found[reason]), REASONS.index(reason)))
    ]


def _transcript(result: Result) -> dict[str, Any]:
    question = result.question
    return {
        "key": question.key,
        "source": question.source,
        "kind": question.kind,
        "question": question.text,
        "gold": [next(iter(gold.names), gold.id or "") for gold in question.answers],
        "sparql": question.sparql,
        "answer": result.answer,
        "text": result.text,
        "facts": list(result.facts),
        "hit": result.score.hit,
        "f1": round(result.score.f1, 4),
        "verdict": result.verdict,
    }


def _line(way: str, result: Result) -> dict[str, Any]:
    return {
        "run": way,
        "key": result.question.key,
        "outcome": result.outcome,
        "hit": result.score.hit,
        "exact": result.score.exact,
        "f1": round(result.score.f1, 4),
        "verdict": result.verdict,
        "reason": result.reason,
    }


def _comparison(grounded: Sequence[Result], free: Sequence[Result]) -> dict[str, Any]:
    pairs = list(zip(grounded, free, strict=True))
    differences = {
        "accuracy": [float(g.score.hit) - float(f.score.hit) for g, f in pairs],
        "exact_accuracy": [float(g.score.exact) - float(f.score.exact) for g, f in pairs],
        "f1": [g.score.f1 - f.score.f1 for g, f in pairs],
    }
    asked = [(g, f) for g, f in pairs if g.tokens and f.tokens]
    seconds = ratio([g.seconds for g, _ in asked], [f.seconds for _, f in asked])
    passes = ratio([g.forward_passes for g, _ in asked], [f.forward_passes for _, f in asked])
    a_token = ratio([g.seconds / g.tokens for g, _ in asked], [f.seconds / f.tokens for _, f in asked])
    return {
        "gain": {name: mean(values).to_json() for name, values in differences.items()},
        "only_grounded": sum(g.score.hit and not f.score.hit for g, f in pairs),
        "only_free": sum(f.score.hit and not g.score.hit for g, f in pairs),
        "seconds": seconds.to_json(),
        "seconds_per_token": a_token.to_json(),
        "forward_passes": passes.to_json(),
    }
