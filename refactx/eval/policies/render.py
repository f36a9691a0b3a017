"""A report on policies as Markdown, as one HTML page, and as lines for a terminal.

What comes from a model or a data set is escaped, as in `refactx.eval.render`.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from markupsafe import Markup

from refactx.eval.policies.figures import SECONDS, SHARES
from refactx.eval.render import environment
from refactx.fact import counted

BY_KIND = ("f1", "exact", "sqm_strict", "hallucinated", "refused")
"""The figures of kinds of questions in tables; the JSON has all."""


def markdown(report: Mapping[str, Any]) -> str:
    """Return the report as Markdown."""
    return environment().get_template("policies.md.j2").render(_context(report)).strip() + "\n"


def html(report: Mapping[str, Any]) -> str:
    """Return the report as one HTML page, with plots if matplotlib is installed."""
    plots, colours = dict[str, Markup](), {"light": "", "dark": ""}
    if find_spec("matplotlib") is not None:
        from refactx.eval.policies.plots import colours as colours_of
        from refactx.eval.policies.plots import plots_of

        plots = {title: Markup(plot) for title, plot in plots_of(report).items()}  # noqa: S704 - matplotlib escapes
        colours = colours_of()
    return environment().get_template("policies.html.j2").render(_context(report) | colours | {"plots": plots})


def lines(report: Mapping[str, Any]) -> list[str]:
    """Return the report as a few lines for a terminal."""
    names, estimate = list(report["policies"]), environment().filters["estimate"]
    runs = [run["overall"] for run in report["policies"].values()]
    width = max(len(label) for _, label, _ in (*SHARES, *SECONDS))
    shown = [f"{counted(report['questions'], 'question')}, on the {report['engine']}", _row("", names, width)]
    for key, label, _ in SHARES:
        if any(run[key]["value"] is not None for run in runs):
            shown.append(_row(label, [estimate(run[key]) for run in runs], width))
    shown.append(_row("BLEU", [f"{run['bleu']:.1f}" for run in runs], width))
    for key, label, _ in SECONDS:
        shown.append(_row(label, [estimate(run["seconds"][key], 3) for run in runs], width))
    for row in report.get("ablation", ()):
        if row["tau"] is None:
            shown.append(
                f"{row['share']:.0%} of names taken out: refusal accuracy {estimate(row['refusal_accuracy'])} of "
                f"{row['unanswerable']}; answerable: SQM {estimate(row['sqm_strict'])}, F1 {estimate(row['f1'])}"
            )
    for row in report.get("distractors", ()):
        over = "–" if row["over"] is None else f"{row['over']:.2f}"
        shown.append(f"memory x {row['factor']}: SQM {estimate(row['sqm_strict'])}, {over} of that without")
    return shown


def _row(label: str, cells: list[str], width: int) -> str:
    return f"{label:<{width}}" + "".join(f"{cell:>9}" for cell in cells)


def _context(report: Mapping[str, Any]) -> dict[str, Any]:
    shares = [
        one for one in SHARES if any(run["overall"][one[0]]["value"] is not None for run in report["policies"].values())
    ]
    return {
        "report": report,
        "runs": report["policies"],
        "shares": shares,
        "seconds": SECONDS,
        "by_kind": [(key, label) for key, label, _ in SHARES if key in BY_KIND],
        "ablation": report.get("ablation", ()),
        "distractors": report.get("distractors", ()),
    }
