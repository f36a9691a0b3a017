"""The report as Markdown and as one self-contained HTML page, without scripts, fonts or pictures from elsewhere.

Text from a model, a knowledge base or a data set is escaped by the template (HTML), or put into an indented block or a
cell without markup (Markdown). Control characters are removed from it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from refactx.eval.run import LABELS
from refactx.fact import counted, visible

METRICS = (
    ("accuracy", "Accuracy", "share of all questions with at least one gold answer in the final answer"),
    ("precision", "Precision", "the same as a share of the given answers"),
    ("f1", "Answer-set F1", "items of the answer compared with the gold answers"),
    ("exact_accuracy", "Accuracy, exact", "share of all questions with all gold answers and nothing else"),
    ("exact_precision", "Precision, exact", "the same as a share of the given answers"),
    ("judge_accuracy", "Accuracy, judge", "share of all questions that the judge found right"),
    ("judge_precision", "Precision, judge", "the same as a share of the given answers"),
    ("answered", "Answered", "share of all questions with a given answer"),
    (
        "first_accuracy",
        "First",
        "share of the questions whose gold answers have an order with the first one in the answer",
    ),
    ("with_query", "With a query", "share of all questions whose answer is that of a query"),
    ("auc", "AUC", "of pairs of a right and a wrong answer, the share in which the right one has more confidence"),
    ("auc_f1", "AUC, F1", "the same, where answers are right if their F1 is at least 0.5"),
)
COSTS = (
    ("tokens", "Tokens", 1),
    ("forward_passes", "Forward passes", 1),
    ("seconds", "Seconds", 2),
    ("seconds_per_token", "Seconds a token", 4),
    ("facts", "Facts", 2),
)
CHECKS = (
    ("queries_that_fail", "Queries that fail", "queries of answers that do not run on the index"),
    ("unknown_names", "Unknown names", "names in queries of answers that the index does not have"),
)
POINT = ("answered", "accuracy", "precision", "refusal_accuracy")
"""The figures of a threshold of the confidence."""
_MARKUP = re.compile(r"([\\`*_{}\[\]#|~])")


def markdown(report: Mapping[str, Any]) -> str:
    """Return the report as Markdown."""
    return environment().get_template("report.md.j2").render(_context(report)).strip() + "\n"


def html(report: Mapping[str, Any], seconds: Mapping[str, Sequence[float]]) -> str:
    """Return the report as one HTML page. `seconds`: those of each question by run, for a plot. Needs matplotlib."""
    from refactx.eval.plots import (
        DARK,
        LIGHT,
        confidence_plot,
        failures_plot,
        groups_plot,
        metrics_plot,
        seconds_plot,
    )

    runs = report["runs"]
    plots = {
        "metrics": metrics_plot(runs),
        "by_kind": groups_plot(runs, "by_kind"),
        "by_source": groups_plot(runs, "by_source"),
        "failures": failures_plot(runs),
        "seconds": seconds_plot(seconds),
    }
    told = {way: run["confidence"]["points"] for way, run in runs.items() if run["confidence"]}
    if told:
        plots["confidence"] = confidence_plot(told)
    drawn = {name: Markup(plot) for name, plot in plots.items()}  # noqa: S704 - matplotlib escapes texts
    context = _context(report) | {"plots": drawn, "light": LIGHT, "dark": DARK}
    return environment().get_template("report.html.j2").render(context)


def lines(report: Mapping[str, Any]) -> list[str]:
    """Return the report as a few lines for a terminal."""
    shown = [counted(report["questions"], "question")]
    for way, run in report["runs"].items():
        shown.append(f"{LABELS[way]}:")
        for name, label, _ in METRICS:
            if run["overall"][name] is not None:
                shown.append(f"  {label:<18} {_estimate(run['overall'][name]):>6}  {_interval(run['overall'][name])}")
        for name, label, _ in CHECKS:
            if run["overall"][name] is not None:
                shown.append(f"  {label:<18} {run['overall'][name]:>6}")
        for name, label, digits in COSTS:
            shown.append(f"  {label:<18} {_estimate(run['overall'][name], digits):>6}")
        shown += [f"  {failure['count']:>5}  {failure['reason']}" for failure in run["failures"]]
    return shown


def _context(report: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "report": report,
        "runs": report["runs"],
        "labels": LABELS,
        "metrics": METRICS,
        "checks": CHECKS,
        "point": POINT,
        "costs": COSTS,
    }


def environment() -> Environment:
    """Return the templates of reports, with filters that escape what comes from models and data sets."""
    made = Environment(
        loader=PackageLoader("refactx.eval"),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "estimate": _estimate,
        "interval": _interval,
        "pieces": _pieces,
        "cell": _cell,
        "block": _block,
        "visible": visible,
        "https": _https,
    }
    return made


def _estimate(estimate: Mapping[str, Any] | None, digits: int = 2) -> str:
    return "–" if estimate is None or estimate["value"] is None else f"{estimate['value']:.{digits}f}"


def _interval(estimate: Mapping[str, Any] | None, digits: int = 2) -> str:
    if estimate is None or estimate["value"] is None:
        return ""
    return f"{estimate['low']:.{digits}f} to {estimate['high']:.{digits}f}"


def _pieces(text: str, facts: Sequence[Mapping[str, Any]]) -> list[tuple[str, bool]]:
    """Return the pieces of a text, each with whether it is one of `facts`, which are in the order of the text.

    >>> _pieces("a <s> <p> <o> . b", [{"text": "<s> <p> <o> ."}])
    [('a ', False), ('<s> <p> <o> .', True), (' b', False)]
    """
    text, pieces, end = visible(text), [], 0  # `end`: of the last fact
    for fact in facts:
        shown = visible(str(fact["text"]))
        start = text.find(shown, end) if shown else -1
        if start >= 0:
            pieces += [(text[end:start], False), (shown, True)]
            end = start + len(shown)
    return [piece for piece in (*pieces, (text[end:], False)) if piece[0]]


def _cell(text: str) -> str:
    """Return a text for a line or a cell of Markdown, without markup.

    >>> _cell("a|b\\n<i>*c*")
    'a\\\\|b &lt;i>\\\\*c\\\\*'
    """
    line = " ".join(visible(text).split())
    return _MARKUP.sub(r"\\\1", line.replace("&", "&amp;").replace("<", "&lt;"))


def _block(text: str) -> str:
    """Return a text as an indented block of Markdown, in which nothing is markup."""
    return "\n".join(f"    {line}" for line in visible(text).replace("\t", " ").splitlines()) or "    (nothing)"


def _https(url: Any) -> str | None:
    """Return a URL if it may be in a link; None for any other."""
    return url if isinstance(url, str) and url.startswith("https://") else None
