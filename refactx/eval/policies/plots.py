"""The plots of a report on policies, as SVG texts. They take their colours from the page, as those of `refactx.eval.plots`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from refactx.eval.plots import DARK, LIGHT, STYLE, colour_of, to_svg

MARKS = ("o", "s", "^", "D", "v")
"""The marks of policies, which tell them apart without colours."""
FIGURES = (("f1", "execution F1"), ("sqm_strict", "SQM"), ("hallucinated", "URI hallucination"), ("refused", "refused"))


def colours() -> dict[str, str]:
    """Return the colours of a light page and of a dark one, as CSS variables."""
    return {"light": LIGHT, "dark": DARK}


def plots_of(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the plots of a report by title."""
    plots = {"Policies": _drawn("policies", lambda axes: _policies(axes, report["policies"]))}
    plots["Execution F1 by kind"] = _drawn("kinds", lambda axes: _kinds(axes, report["policies"]))
    if report.get("ablation"):
        for key, title in (("refusal_accuracy", "Refusal accuracy"), ("sqm_strict", "SQM of answerable questions")):
            plots[f"{title} by least similarity"] = _drawn(
                key, lambda axes, k=key: _ablation(axes, report["ablation"], k)
            )
    if report.get("distractors"):
        plots["SQM by size of memory"] = _drawn("distractors", lambda axes: _distractors(axes, report["distractors"]))
    return plots


def _drawn(name: str, draw: Callable[..., None]) -> str:
    with rc_context(STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(5.6, 3.6), layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        axes.set_ylim(-0.02, 1.05)
        axes.grid(axis="y")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=5, frameon=False)
        return to_svg(figure, name)


def _policies(axes: Axes, runs: Mapping[str, Any]) -> None:
    labels = [label for _, label in FIGURES]
    _marks(axes, labels, {name: [run["overall"][key] for key, _ in FIGURES] for name, run in runs.items()})


def _kinds(axes: Axes, runs: Mapping[str, Any]) -> None:
    kinds = list(next(iter(runs.values()))["by_kind"])
    _marks(axes, kinds, {name: [run["by_kind"][kind]["f1"] for kind in kinds] for name, run in runs.items()})


def _marks(axes: Axes, labels: Sequence[str], values: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    step = 0.7 / max(1, len(values))
    for at, (name, estimates) in enumerate(values.items()):
        places = [place + step * (at - (len(values) - 1) / 2) for place in range(len(labels))]
        there = [(place, one) for place, one in zip(places, estimates, strict=True) if one["value"] is not None]
        lows, highs = [one["low"] for _, one in there], [one["high"] for _, one in there]
        axes.vlines([place for place, _ in there], lows, highs, colors=colour_of(at))
        values_of = [one["value"] for _, one in there]
        axes.plot([place for place, _ in there], values_of, MARKS[at % len(MARKS)], color=colour_of(at), label=name)
    axes.set_xticks(range(len(labels)), [label[:20] for label in labels])


def _ablation(axes: Axes, rows: Sequence[Mapping[str, Any]], key: str) -> None:
    for at, share in enumerate(dict.fromkeys(row["share"] for row in rows)):
        some = [row for row in rows if row["share"] == share and row["tau"] is not None]
        some = [row for row in some if row[key]["value"] is not None]
        points = [row["tau"] for row in some], [row[key]["value"] for row in some]
        axes.plot(*points, MARKS[at % len(MARKS)] + "-", color=colour_of(at), label=f"{share:.0%} taken out")
    axes.set_xlabel("least similarity (τ)")


def _distractors(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    for at, (key, label) in enumerate((("sqm_strict", "strict"), ("sqm_paper", "paper"))):
        points = [row["factor"] for row in rows], [row[key]["value"] for row in rows]
        axes.plot(*points, MARKS[at] + "-", color=colour_of(at), label=label)
    axes.set_xlabel("size of the memory, times that of the index")
