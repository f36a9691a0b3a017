"""The report on a run: one JSON document, from which the HTML page, the Markdown and the plots are made.

    {"settings": {...}, "questions": n, "judge": name or null,
     "runs": {"grounded": {"overall": S, "by_kind": {kind: S}, "by_source": {source: S},
               "confidence": C or null, "failures": [F]}, "free": ...},
     "comparison": {...} or null, "results": [...]}

S has the metrics of `refactx.eval.metrics`, the areas under the ROC curve of the confidence, and the means over answers
of tokens, forward passes, seconds and facts, each `{"value", "low", "high", "of"}`; and what is wrong with queries. C:
answers by threshold of the confidence (`refactx.eval.confidence.figures`). F is a reason of `refactx.eval.results` with
its count and some transcripts. `comparison`: the effect of facts over pairs of answers to a question (grounded - free;
for times grounded / free).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from refactx.eval.confidence import confidence_of, separation_of
from refactx.eval.intervals import Estimate, mean, proportion, ratio
from refactx.eval.metrics import accuracy, precision
from refactx.eval.queries import Checked
from refactx.eval.results import REASONS, QuestionResult

TRANSCRIPTS = 5
"""The number of transcripts for each reason; answers.jsonl has all."""


def report(
    settings: Mapping[str, Any],
    runs: Mapping[str, Sequence[QuestionResult]],
    judge: str | None = None,
    checks: Mapping[str, Checked] | None = None,
) -> dict[str, Any]:
    """Return the document. `runs`: results by way of asking (`grounded`, and maybe `free`), of the same questions in the
    same order; `judge`: the judge's name, if there was one; `checks`: those of the queries, by their lines."""
    checks = checks or {}
    ways = list(runs)
    return {
        "settings": dict(settings),
        "questions": len(runs[ways[0]]),
        "judge": judge,
        "runs": {way: _run(results, judge is not None, checks) for way, results in runs.items()},
        "comparison": _comparison(runs["grounded"], runs["free"]) if len(ways) == 2 else None,
        "results": [_line(way, result) for way, results in runs.items() for result in results],
    }


def _run(results: Sequence[QuestionResult], judged: bool, checks: Mapping[str, Checked]) -> dict[str, Any]:
    return {
        "overall": summary(results, judged, checks),
        "by_kind": _groups(results, judged, checks, lambda result: result.question.kind),
        "by_source": _groups(results, judged, checks, lambda result: result.question.source),
        "confidence": confidence_of(results),
        "failures": _failures(results),
    }


def _groups(
    results: Sequence[QuestionResult],
    judged: bool,
    checks: Mapping[str, Checked],
    name: Callable[[QuestionResult], str],
) -> dict[str, Any]:
    groups: dict[str, list[QuestionResult]] = defaultdict(list)
    for result in results:
        groups[name(result)].append(result)
    return {
        key: summary(groups[key], judged, checks) for key in sorted(groups, key=lambda key: (-len(groups[key]), key))
    }


def summary(
    results: Sequence[QuestionResult], judged: bool = False, checks: Mapping[str, Checked] | None = None
) -> dict[str, Any]:
    """Return the metrics of a group of results. `judged`: whether there was a judge; `checks`: those of the queries."""
    asked = [result for result in results if result.queries]
    lines = [query["query"] for result in asked for query in result.queries]
    found = [checks[line] for line in lines if line in checks] if checks else []
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
        "first_accuracy": _first_accuracy(results),
        **separation_of(results),
        "with_query": proportion(len(asked), len(results)) if asked else None,
        "tokens": mean([result.tokens for result in results]),
        "forward_passes": mean([result.forward_passes for result in results]),
        "seconds": mean([result.seconds for result in results]),
        "seconds_per_token": ratio([result.seconds for result in results], [result.tokens for result in results]),
        "facts": mean([len(result.facts) for result in results]),
    }
    without_verdict = None
    if judged:
        right = [result.verdict is True for result in results]
        figures |= {"judge_accuracy": accuracy(right), "judge_precision": precision(right, given)}
        without_verdict = sum(result.given and result.verdict is None for result in results)
    return {
        "questions": len(results),
        "outcomes": dict(Counter(result.outcome for result in results).most_common()),
        **{name: None if estimate is None else estimate.to_json() for name, estimate in figures.items()},
        "judge_without_verdict": without_verdict,
        "queries": len(lines),
        "queries_that_fail": sum(bool(one.error) for one in found) if found else None,
        "unknown_names": sum(len(one.unknown) for one in found) if found else None,
    }


def _first_accuracy(results: Sequence[QuestionResult]) -> Estimate | None:
    """Return the accuracy by the first gold answer, of the questions whose gold answers have an order."""
    ordered = [result for result in results if result.question.first]
    return accuracy([result.holds_first for result in ordered]) if ordered else None


def _failures(results: Sequence[QuestionResult]) -> list[dict[str, Any]]:
    """Return the reasons that occur, the most frequent first."""
    found: dict[str, list[QuestionResult]] = defaultdict(list)
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


def _transcript(result: QuestionResult) -> dict[str, Any]:
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
        "query": result.queries[-1]["query"] if result.queries else None,
        "told": result.told,
        "hit": result.score.hit,
        "f1": round(result.score.f1, 4),
        "verdict": result.verdict,
    }


def _line(way: str, result: QuestionResult) -> dict[str, Any]:
    return {
        "run": way,
        "key": result.question.key,
        "outcome": result.outcome,
        "hit": result.score.hit,
        "exact": result.score.exact,
        "f1": round(result.score.f1, 4),
        "verdict": result.verdict,
        "told": result.told,
        "reason": result.reason,
    }


def _comparison(grounded: Sequence[QuestionResult], free: Sequence[QuestionResult]) -> dict[str, Any]:
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
