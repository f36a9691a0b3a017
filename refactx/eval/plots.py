"""Plots of reports as SVG texts that take their colours from the page.

matplotlib draws with placeholder colours, which become CSS variables in the SVG (`var(--ink)`, ...), so that a plot fits
a light page and a dark one. A plot has no script, and its text stays text. Runs are told apart by colours and marks.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from refactx.eval.report import DARK, LIGHT, Layout

_ROLES = {"#010101": "--ink", "#020202": "--muted", "#030303": "--rule", "#040404": "--first", "#050505": "--second"}
_INK, _MUTED, _RULE, _FIRST, _SECOND = _ROLES
_COLOURS, _MARKS = (_FIRST, _SECOND, _INK, _MUTED), ("o", "s", "^", "D", "v")
_STYLE = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 11,
    "text.color": _INK,
    "axes.labelcolor": _MUTED,
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
_WIDTH = 5.6

Estimates = Sequence[Mapping[str, Any] | None]


def figure_dots(layout: Layout, keys: Sequence[str]) -> str:
    """Return a plot of some figures of each run, from 0 to 1, with their intervals."""
    runs = {label: layout.runs[way]["overall"] for way, label in layout.labels.items()}
    shown = [one for one in layout.figures if one.key in keys and any(run[one.key] for run in runs.values())]
    values = {label: [run[one.key] for one in shown] for label, run in runs.items()}
    return dots([one.label for one in shown], values, "figures")


def group_dots(layout: Layout, by: str, key: str) -> str:
    """Return a plot of a figure of each group in each run, from 0 to 1, with its interval."""
    runs = {label: layout.runs[way][by] for way, label in layout.labels.items()}
    groups = {name: found["questions"] for name, found in next(iter(runs.values())).items()}
    values = {label: [run[name][key] for name in groups] for label, run in runs.items()}
    return dots([f"{name[:20]} ({count})" for name, count in groups.items()], values, by)


def dots(labels: Sequence[str], values: Mapping[str, Estimates], name: str) -> str:
    """Return a plot with a row for each label. `values`: the estimates of the labels, by run; `name`: unique on a page."""

    def draw(axes: Axes) -> None:
        step = 0.72 / len(values)
        for at, (run, estimates) in enumerate(values.items()):
            rows = [
                (row + step * (at - (len(values) - 1) / 2), one)
                for row, one in enumerate(estimates)
                if one is not None and one["value"] is not None
            ]
            places, colour = [row for row, _ in rows], _COLOURS[at % len(_COLOURS)]
            axes.hlines(places, [one["low"] for _, one in rows], [one["high"] for _, one in rows], colors=colour)
            mark = _MARKS[at % len(_MARKS)]
            axes.plot([one["value"] for _, one in rows], places, mark, ms=7, color=colour, label=run)
            for row, one in rows:
                _note(axes, f"{one['value']:.2f}", (one["high"], row))
        axes.set_xlim(-0.02, 1.09)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
        _rows(axes, labels)

    return _drawn(name, _height(len(labels), len(values)), draw, len(values))


def stacks(parts: Mapping[str, Mapping[str, float]], name: str, unit: str) -> str:
    """Return a plot with a bar for each label, of its parts one after the other. `parts`: sizes by label and by part."""
    kinds = list(dict.fromkeys(kind for some in parts.values() for kind in some))

    def draw(axes: Axes) -> None:
        ends = [0.0] * len(parts)
        for at, kind in enumerate(kinds):
            sizes = [some.get(kind, 0.0) for some in parts.values()]
            fill = {"color": _COLOURS[at % 4], "hatch": ("", "///", "...", "xxx")[at // 4 % 4], "edgecolor": _RULE}
            axes.barh(range(len(parts)), sizes, 0.7, ends, label=kind, **fill)  # type: ignore[arg-type]
            ends = [end + size for end, size in zip(ends, sizes, strict=True)]
        axes.set_xlabel(unit)
        axes.xaxis.set_major_formatter(PercentFormatter(1))
        _rows(axes, list(parts))

    return _drawn(name, _height(len(parts), 1) + 0.25 * (len(kinds) // 3), draw, len(kinds))


def bars(counts: Mapping[str, Mapping[str, int]], name: str, unit: str) -> str:
    """Return a plot with a row for each label, the largest on top. `counts`: how many there are of each label, by run."""
    labels = sorted({r for c in counts.values() for r in c}, key=lambda r: -max(c.get(r, 0) for c in counts.values()))

    def draw(axes: Axes) -> None:
        height = 0.8 / len(counts)
        for at, (run, count) in enumerate(counts.items()):
            places = [row - 0.4 + height * (at + 0.5) for row in range(len(labels))]
            lengths = [count.get(label, 0) for label in labels]
            axes.barh(places, lengths, height * 0.86, color=_COLOURS[at % len(_COLOURS)], label=run)
            for place, length in zip(places, lengths, strict=True):
                if length:
                    _note(axes, str(length), (length, place))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        axes.set_xlabel(unit)
        _rows(axes, labels)

    return _drawn(name, _height(len(labels), len(counts)), draw, len(counts))


def shares(values: Mapping[str, Sequence[float]], name: str, unit: str) -> str:
    """Return a plot of the share of values that are at most x, for each run."""

    def draw(axes: Axes) -> None:
        for at, (run, some) in enumerate(values.items()):
            axes.ecdf(some, color=_COLOURS[at % len(_COLOURS)], label=run)
        axes.set_xlabel(unit)
        axes.set_xlim(left=0)
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.grid(axis="y")

    return _drawn(name, 2.9, draw, len(values))


def curves(
    points: Mapping[str, Sequence[tuple[float, float]]],
    name: str,
    axes_labels: tuple[str, str],
    *,
    of_shares: bool = True,
    is_steps: bool = False,
) -> str:
    """Return a plot of a curve for each label. `points`: x and y; `of_shares`: y is a share; `is_steps`: x is one too."""

    def draw(axes: Axes) -> None:
        for at, (label, some) in enumerate(points.items()):
            xs, ys = [x for x, _ in some], [y for _, y in some]
            axes.plot(
                xs,
                ys,
                color=_COLOURS[at % len(_COLOURS)],
                label=label,
                drawstyle="steps-post" if is_steps else "default",
            )
        axes.set_xlabel(axes_labels[0])
        axes.set_ylabel(axes_labels[1])
        axes.set_ylim(bottom=0)
        if is_steps:
            axes.set_xlim(0, 1)
            axes.xaxis.set_major_formatter(PercentFormatter(1))
        if of_shares:
            axes.set_ylim(-0.02, 1.02)
            axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.grid(axis="y")

    return _drawn(name, 3.4, draw, len(points))


def standalone(svg: str) -> str:
    """Return the content of an SVG file: a plot with its colours, light or dark as in the reader's settings."""
    media = f"@media(prefers-color-scheme:dark){{:root{{{DARK}background:#15181d}}}}"
    style = f"<style>:root{{{LIGHT}background:#fff}}{media}</style>"
    return '<?xml version="1.0" encoding="utf-8"?>\n' + svg.replace(">", f">{style}", 1)


def _drawn(name: str, height: float, draw: Callable[[Axes], None], runs: int) -> str:
    with rc_context(_STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        if runs > 1:
            figure.legend(
                *axes.get_legend_handles_labels(),
                loc="outside upper left",
                ncols=runs if runs <= 5 else 3,
                frameon=False,
            )
        return _to_svg(figure, name)


def _height(rows: int, runs: int) -> float:
    return 0.95 + max(0.46, 0.2 * runs) * max(rows, 1)


def _rows(axes: Axes, labels: Sequence[str]) -> None:
    shown = [label if len(label) <= 28 else label[:27] + "…" for label in labels]
    axes.set_yticks(range(len(labels)), shown)
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)
    axes.grid(axis="x")


def _note(axes: Axes, text: str, at: tuple[float, float]) -> None:
    axes.annotate(text, at, xytext=(5, 0), textcoords="offset points", va="center", fontsize=9.5)


def _to_svg(figure: Figure, name: str) -> str:
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
