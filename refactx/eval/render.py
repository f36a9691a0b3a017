"""The report as Markdown and as one HTML page that needs nothing else: no script, no font, no picture from elsewhere.

Everything that a model, a knowledge base or a data set wrote is escaped by the template (HTML) or stands in an indented
block or a cell without markup (Markdown), and loses what could steer a terminal.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from refactx.cli.plain import visible
from refactx.eval.plots import DARK, LABELS, LIGHT, failures_plot, groups_plot, metrics_plot, seconds_plot

METRICS = (
    ("accuracy", "Accuracy", "at least one gold answer in the final answer, of all questions"),
    ("precision", "Precision", "the same, of the answers given"),
    ("f1", "Answer-set F1", "items of the answer against the gold answers"),
    ("exact_accuracy", "Accuracy, exact", "all gold answers and nothing else, of all questions"),
    ("exact_precision", "Precision, exact", "the same, of the answers given"),
    ("judge_accuracy", "Accuracy, judge", "right by the judge, of all questions"),
    ("judge_precision", "Precision, judge", "the same, of the answers given"),
    ("answered", "Answered", "answers given, of all questions"),
)
COSTS = (
    ("tokens", "Tokens", 1),
    ("forward_passes", "Forward passes", 1),
    ("seconds", "Seconds", 2),
    ("seconds_per_token", "Seconds a token", 4),
    ("facts", "Facts", 2),
)
_MARKUP = re.compile(r"([\\`*_{}\[\]#|~])")


def markdown(report: Mapping[str, Any]) -> str:
    """The report as Markdown."""
    return _environment().get_template("report.md.j2").render(_context(report)).strip() + "\n"


def html(report: Mapping[str, Any], seconds: Mapping[str, Sequence[float]]) -> str:
    """The report as one HTML page. `seconds`: those of each question by run, for their plot."""
    runs = report["runs"]
    plots = {
        "metrics": metrics_plot(runs),
        "by_kind": groups_plot(runs, "by_kind"),
        "by_source": groups_plot(runs, "by_source"),
        "failures": failures_plot(runs),
        "seconds": seconds_plot(seconds),
    }
    drawn = {name: Markup(plot) for name, plot in plots.items()}  # noqa: S704 - matplotlib escapes what it writes
    context = _context(report) | {"plots": drawn, "light": LIGHT, "dark": DARK}
    return _environment().get_template("report.html.j2").render(context)


def lines(report: Mapping[str, Any]) -> list[str]:
    """The report in a few lines, for a terminal."""
    told = [f"{report['questions']} questions"]
    for way, run in report["runs"].items():
        told.append(f"{LABELS[way]}:")
        for name, label, _ in METRICS:
            if run["overall"][name] is not None:
                told.append(f"  {label:<18} {_estimate(run['overall'][name]):>6}  {_interval(run['overall'][name])}")
        for name, label, digits in COSTS:
            told.append(f"  {label:<18} {_estimate(run['overall'][name], digits):>6}")
        told += [f"  {failure['count']:>5}  {failure['reason']}" for failure in run["failures"]]
    return told


def _context(report: Mapping[str, Any]) -> dict[str, Any]:
    return {"report": report, "runs": report["runs"], "labels": LABELS, "metrics": METRICS, "costs": COSTS}


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("refactx.eval"),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "estimate": _estimate,
        "interval": _interval,
        "pieces": _pieces,
        "cell": _cell,
        "block": _block,
        "visible": visible,
        "https": _https,
    }
    return environment


def _estimate(estimate: Mapping[str, Any] | None, digits: int = 2) -> str:
    return "–" if estimate is None or estimate["value"] is None else f"{estimate['value']:.{digits}f}"


def _interval(estimate: Mapping[str, Any] | None, digits: int = 2) -> str:
    if estimate is None or estimate["value"] is None:
        return ""
    return f"{estimate['low']:.{digits}f} to {estimate['high']:.{digits}f}"


def _pieces(text: str, facts: Sequence[Mapping[str, Any]]) -> list[tuple[str, bool]]:
    """A text in pieces, and whether each is one of the facts, which come in this order.

    >>> _pieces("a <s> <p> <o> . b", [{"text": "<s> <p> <o> ."}])
    [('a ', False), ('<s> <p> <o> .', True), (' b', False)]
    """
    text, pieces, behind = visible(text), [], 0
    for fact in facts:
        shown = visible(str(fact["text"]))
        start = text.find(shown, behind) if shown else -1
        if start >= 0:
            pieces += [(text[behind:start], False), (shown, True)]
            behind = start + len(shown)
    return [piece for piece in (*pieces, (text[behind:], False)) if piece[0]]


def _cell(text: str) -> str:
    """A text in a line or cell of Markdown, without markup.

    >>> _cell("a|b\\n<i>*c*")
    'a\\\\|b &lt;i>\\\\*c\\\\*'
    """
    line = " ".join(visible(text).split())
    return _MARKUP.sub(r"\\\1", line.replace("&", "&amp;").replace("<", "&lt;"))


def _block(text: str) -> str:
    """A text as an indented block of Markdown: nothing in it is markup."""
    return "\n".join(f"    {line}" for line in visible(text).replace("\t", " ").splitlines()) or "    (nothing)"


def _https(url: Any) -> str | None:
    """An address that may stand in a link; None for any other."""
    return url if isinstance(url, str) and url.startswith("https://") else None
