"""The report's plots as SVG texts that take their colours from the page.

matplotlib draws with placeholder colours, which become CSS variables in the SVG (`var(--ink)`, ...), so that a plot fits
a light page and a dark one. A plot has no script, and its text stays text.
"""

import re
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from refactx.eval.run import LABELS

LIGHT = "--ink:#1d2127;--muted:#5f6771;--rule:#dfe3e8;--grounded:#1f5fbf;--free:#c2571a;"
DARK = "--ink:#e6e8eb;--muted:#9aa3ad;--rule:#343a43;--grounded:#6ea8fe;--free:#f0955a;"
_ROLES = {"#010101": "--ink", "#020202": "--muted", "#030303": "--rule", "#040404": "--grounded", "#050505": "--free"}
_INK, _MUTED, _RULE, _GROUNDED, _FREE = _ROLES
COLOURS = {"grounded": _GROUNDED, "free": _FREE}
STYLE = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 11,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _RULE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "xtick.color": _MUTED,
    "ytick.color": _INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "ytick.major.pad": 8,
    "grid.color": _RULE,
    "grid.linewidth": 0.8,
    "lines.linewidth": 2,
}
_METRICS = {
    "accuracy": "accuracy",
    "precision": "precision",
    "f1": "answer-set F1",
    "exact_accuracy": "accuracy, exact",
    "exact_precision": "precision, exact",
    "judge_accuracy": "accuracy, judge",
    "judge_precision": "precision, judge",
}


def metrics_plot(runs: Mapping[str, Any]) -> str:
    """Return a plot of each metric of each run, with its interval."""
    shown = [
        m
        for m in _METRICS
        if any(run["overall"][m] and run["overall"][m]["value"] is not None for run in runs.values())
    ]
    values = {way: [run["overall"][metric] for metric in shown] for way, run in runs.items()}
    return _dots([_METRICS[metric] for metric in shown], values, "metrics")


def groups_plot(runs: Mapping[str, Any], by: str) -> str:
    """Return a plot of the accuracy of each group of questions (`by_kind` or `by_source`) in each run, with intervals."""
    groups = list(next(iter(runs.values()))[by])
    values = {way: [run[by][group]["accuracy"] for group in groups] for way, run in runs.items()}
    counts = [next(iter(runs.values()))[by][group]["questions"] for group in groups]
    labels = [f"{_short(group)} ({count})" for group, count in zip(groups, counts, strict=True)]
    return _dots(labels, values, by)


def failures_plot(runs: Mapping[str, Any]) -> str:
    """Return a bar plot of the number of failures in each run by reason, the most frequent on top."""
    counts = {way: {f["reason"]: f["count"] for f in run["failures"]} for way, run in runs.items()}
    reasons = sorted({r for c in counts.values() for r in c}, key=lambda r: -max(c.get(r, 0) for c in counts.values()))
    with rc_context(STYLE):  # type: ignore[arg-type]
        figure, axes = _figure(len(reasons))
        height = 0.8 / len(counts)
        for at, (way, count) in enumerate(counts.items()):
            places = [row - 0.4 + height * (at + 0.5) for row in range(len(reasons))]
            lengths = [count.get(reason, 0) for reason in reasons]
            axes.barh(places, lengths, height * 0.86, color=COLOURS[way], label=LABELS[way])
            for place, length in zip(places, lengths, strict=True):
                if length:
                    axes.annotate(
                        str(length),
                        (length, place),
                        xytext=(4, 0),
                        textcoords="offset points",
                        va="center",
                        fontsize=9.5,
                    )
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        axes.set_xlabel("questions", color=_MUTED)
        return _finished(figure, axes, reasons, len(counts), "failures")


def seconds_plot(seconds: Mapping[str, Sequence[float]]) -> str:
    """Return a plot of the share of questions that took at most x seconds, in each run."""
    with rc_context(STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(5.6, 2.9), layout="constrained")
        axes = figure.add_subplot()
        for way, values in seconds.items():
            axes.ecdf(values, color=COLOURS[way], label=LABELS[way])
        axes.set_xlabel("seconds a question", color=_MUTED)
        axes.set_xlim(left=0)
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.grid(axis="y")
        _legend(figure, axes, len(seconds))
        return to_svg(figure, "seconds")


def confidence_plot(points: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return a plot of the precision against the share of questions answered, over all thresholds of the confidence.

    `points`: those of `refactx.eval.confidence.figures.confidence_of`, by way of asking.
    """
    with rc_context(STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(5.6, 3.4), layout="constrained")
        axes = figure.add_subplot()
        for way, curve in points.items():
            answered, precision = [p["answered"] for p in curve], [p["precision"] for p in curve]
            axes.plot(answered, precision, drawstyle="steps-post", color=COLOURS[way], label=LABELS[way])
        axes.set_xlabel("share of questions answered", color=_MUTED)
        axes.set_ylabel("precision", color=_MUTED)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(PercentFormatter(1))
        axes.grid(axis="y")
        _legend(figure, axes, len(points))
        return to_svg(figure, "confidence")


def throughput_plot(curves: Mapping[str, Sequence[tuple[int, float]]]) -> str:
    """Return a plot of seconds against tokens written; `curves`: (tokens, seconds) points by way of asking."""
    with rc_context(STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(5.6, 3.4), layout="constrained")
        axes = figure.add_subplot()
        for way, points in curves.items():
            axes.plot(*zip(*points, strict=True), color=COLOURS[way], label=LABELS[way])
        axes.set_xlabel("tokens written", color=_MUTED)
        axes.set_ylabel("seconds", color=_MUTED)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.grid(axis="y")
        _legend(figure, axes, len(curves))
        return to_svg(figure, "throughput")


def standalone(svg: str) -> str:
    """Return the content of an SVG file: a plot with its colours, light or dark as in the reader's settings."""
    media = f"@media(prefers-color-scheme:dark){{:root{{{DARK}background:#15181d}}}}"
    style = f"<style>:root{{{LIGHT}background:#fff}}{media}</style>"
    return '<?xml version="1.0" encoding="utf-8"?>\n' + svg.replace(">", f">{style}", 1)


def _dots(labels: Sequence[str], values: Mapping[str, Sequence[Mapping[str, Any]]], name: str) -> str:
    with rc_context(STYLE):  # type: ignore[arg-type]
        figure, axes = _figure(len(labels))
        step = 0.36 if len(values) > 1 else 0.0
        for at, (way, estimates) in enumerate(values.items()):
            rows = [
                (row + step * (at - (len(values) - 1) / 2), e)
                for row, e in enumerate(estimates)
                if e["value"] is not None
            ]
            axes.hlines(
                [r for r, _ in rows], [e["low"] for _, e in rows], [e["high"] for _, e in rows], colors=COLOURS[way]
            )
            axes.plot(
                [e["value"] for _, e in rows], [r for r, _ in rows], "o", ms=7, color=COLOURS[way], label=LABELS[way]
            )
            for row, estimate in rows:
                axes.annotate(
                    f"{estimate['value']:.2f}",
                    (estimate["high"], row),
                    xytext=(5, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=9.5,
                )
        axes.set_xlim(-0.02, 1.09)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
        return _finished(figure, axes, labels, len(values), name)


def _figure(rows: int) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(5.6, 0.95 + 0.46 * max(rows, 1)), layout="constrained")
    return figure, figure.add_subplot()


def _finished(figure: Figure, axes: Axes, labels: Sequence[str], runs: int, name: str) -> str:
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)
    axes.grid(axis="x")
    _legend(figure, axes, runs)
    return to_svg(figure, name)


def _legend(figure: Figure, axes: Axes, runs: int) -> None:
    if runs > 1:
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=runs, frameon=False)


def colour_of(number: int) -> str:
    """Return one of four placeholder colours, the same for the same number."""
    return (_GROUNDED, _FREE, _INK, _MUTED)[number % 4]


def to_svg(figure: Figure, name: str) -> str:
    """Return a figure as an SVG text, with CSS variables in place of placeholder colours."""
    file = StringIO()
    with rc_context({"svg.hashsalt": name}):  # ids that are reproducible, and differ from those of other plots
        canvas: Any = FigureCanvasSVG(figure)  # its print_svg has no types
        canvas.print_svg(file, metadata={"Date": None, "Creator": None})
    svg = re.sub(r"<metadata>.*?</metadata>", "", file.getvalue(), flags=re.DOTALL)
    svg = svg[svg.index("<svg") :]
    for colour, role in _ROLES.items():
        svg = svg.replace(colour, f"var({role})")
    svg = re.sub(r"<g id=\"patch_1\">.*?</g>", "", svg, count=1, flags=re.DOTALL)  # the figure's white background
    svg = re.sub(r"<g id=\"patch_2\">.*?</g>", "", svg, count=1, flags=re.DOTALL)  # the axes' white background
    svg = re.sub(r'(?<=font: )([^"]*?px) [^";]*', r"\1 system-ui, sans-serif", svg)
    head, rest = svg.split(">", 1)
    head = re.sub(r' (?:width|height)="[^"]*"', "", head)
    return f'{head} role="img">{rest}'


def _short(label: str) -> str:
    return label if len(label) <= 24 else label[:23] + "…"
