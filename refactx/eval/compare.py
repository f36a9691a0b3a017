"""Figures of several runs side by side: models and ways of asking as rows, question sets and figures as columns.

It is the table of the papers: with facts and without, each by precision and accuracy of each metric; for runs of packs the
modes, and for written queries the policies, stand in place of with facts and without.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from refactx.errors import InputError
from refactx.eval.answer_task import FIGURES, LABELS
from refactx.eval.pack_task import FIGURES as PACK_FIGURES
from refactx.eval.policy_task import FIGURES as POLICY_FIGURES
from refactx.eval.report import Figure, is_chosen, plain, shown
from refactx.eval.run import read_document, short_name
from refactx.fact import line

_FIGURES = {"answers": FIGURES, "translations": PACK_FIGURES, "queries": POLICY_FIGURES}
"""The figures of a report, by the name of its task."""
_DEFAULT = {
    "answers": tuple(f"{by}{of}" for by in ("em_", "exact_", "", "judge_") for of in ("precision", "accuracy")),
    "translations": ("syntax", "executed", "f1", "exact", "components", "patterns", "detected"),
    "queries": ("f1", "sqm_paper", "bleu", "qid_em", "pid_em", "hallucinated", "refusal_accuracy"),
}
"""The figures that are shown without others, those of the papers first."""
_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\^{}",
}
_Report = Mapping[str, Any]
Row = tuple[str, str]
Column = tuple[str, Figure]
"""The way and the model; the question set and the figure."""


@dataclass(frozen=True, slots=True)
class RunTable:
    """Figures of runs. `values`: of those that a run has, by row and column; `notes`: what is not the same in all runs."""

    rows: Sequence[Row]
    columns: Sequence[Column]
    values: Mapping[tuple[Row, Column], Any]
    notes: Sequence[str]

    def grid(self, between: str = " to ") -> list[list[str]]:
        """Return the rows as texts with intervals; first the row of question sets, and the row of figures."""
        grid = [["", "", *(asked for asked, _ in self.columns)], ["", "", *(one.label for _, one in self.columns)]]
        for row in self.rows:
            texts = [shown(self.values.get((row, column)), column[1].digits) for column in self.columns]
            grid.append([*row, *(f"{a} ({b.replace(' to ', between)})" if b else a for a, b in texts)])
        return grid


def compare_runs(paths: Sequence[Path], figures: Sequence[str] = ()) -> RunTable:
    """Return the figures of runs, given their folders or files `report.json`. `figures`: keys of those, none: the usual ones.

    Sets of the same name with other questions are columns of their own; runs that would stand in one place have the names of
    their folders. Raises InputError for what is no report, for reports of different tasks, and for a figure that none has.
    """
    reports = {path: _read(path) for path in dict.fromkeys(paths)}
    tasks = sorted({str(report["task"]) for report in reports.values()})
    if len(tasks) != 1 or tasks[0] not in _FIGURES:
        raise InputError(
            f"the runs are of {' and '.join(tasks) or 'nothing'}: give runs of one of {', '.join(_FIGURES)}"
        )
    known = {one.key: one for one in _FIGURES[tasks[0]] if one.label}
    chosen = figures or _DEFAULT[tasks[0]]
    if unknown := [key for key in chosen if key not in known]:
        raise InputError(f"there is no figure {unknown[0]}: give some of {', '.join(known)}")
    asked = _sets(reports)
    models, values = _models(reports, asked), {}
    for path, report in reports.items():
        for way, run in report["runs"].items():
            for key in chosen:
                if (value := run["overall"].get(key)) is not None:
                    values[(LABELS.get(way, way), models[path]), (asked[path], known[key])] = value
    if not values:
        raise InputError(f"no run has {', '.join(chosen)}: give other --figures, of {', '.join(known)}")
    sets, metrics = list(dict.fromkeys(asked.values())), list(dict.fromkeys(map(_metric, chosen)))
    ways = list(dict.fromkeys(way for (way, _), _ in values))

    def place(column: Column) -> tuple[int, ...]:  # precision and accuracy of a metric side by side, for all sets
        return metrics.index(_metric(column[1].key)), sets.index(column[0]), list(chosen).index(column[1].key)

    rows = sorted(dict.fromkeys(row for row, _ in values), key=lambda row: ways.index(row[0]))
    columns = sorted(dict.fromkeys(column for _, column in values), key=place)
    return RunTable(rows, columns, values, list(_notes(reports, models, asked)))


def _metric(key: str) -> str:
    return key.removesuffix("accuracy").removesuffix("precision")


def _read(path: Path) -> _Report:
    file = path / "report.json" if path.is_dir() else path
    report = read_document(file, "give the folder or report.json of a run that refactx eval has finished")
    if not isinstance(report.get("runs"), dict) or not isinstance(report.get("settings"), dict) or "task" not in report:
        raise InputError(f"{file} is no report of refactx eval of this release: give the same command of eval again")
    return report


def _sets(reports: Mapping[Path, _Report]) -> dict[Path, str]:
    """Return the names of what was asked, each with how many questions; sets that differ have different names."""
    numbers, found = dict[str, list[Any]](), dict[Path, str]()
    for path, report in reports.items():
        one = report["settings"]
        names = [Path(str(one.get("questions") or one.get("pack"))).stem, one.get("source") if "pack" in one else None]
        parts = [*names, *(one.get(name) for name in ("category", "pattern", "language"))]
        text = f"{line(' '.join(str(part) for part in parts if part))} ({report['questions']})"
        which, others = one.get("questions_fingerprint") or one.get("cases"), numbers.setdefault(text, [])
        others += [] if which in others else [which]
        at = others.index(which)
        found[path] = f"{text} {at + 1}" if at else text
    return found


def _models(reports: Mapping[Path, _Report], asked: Mapping[Path, str]) -> dict[Path, str]:
    """Return the names of the models, with their adapters; runs of one on one set have those of their folders too."""
    kept = {path: filter(None, map(one["settings"].get, ("model", "adapter"))) for path, one in reports.items()}
    names = {path: line(" with ".join(short_name(str(name)) for name in told)) for path, told in kept.items()}
    places = {path: {(names[path], asked[path], way) for way in one["runs"]} for path, one in reports.items()}
    times = Counter(place for some in places.values() for place in some)
    folders = {path: line((path if path.is_dir() else path.parent).name) for path in reports}
    return {
        path: f"{names[path]} [{folders[path]}]" if any(times[place] > 1 for place in some) else names[path]
        for path, some in places.items()
    }


def _notes(reports: Mapping[Path, _Report], models: Mapping[Path, str], asked: Mapping[Path, str]) -> Iterator[str]:
    """Yield what is not the same in all runs, and has to be known beside the figures; the judge always is."""
    for name in ("judge", "index", "prompt", "run_on"):
        values = {path: report.get(name) or report["settings"].get(name) for path, report in reports.items()}
        if len(set(values.values())) > 1 or (name == "judge" and any(values.values())):
            told = "; ".join(f"{models[path]} on {asked[path]}: {value or 'none'}" for path, value in values.items())
            yield line(f"{name.replace('_', ' ')}: {told}")
    for path, report in reports.items():
        if "channel" in report["settings"] and not is_chosen(report):
            yield line(f"{models[path]} on {asked[path]}: the facts were not chosen by the question")


def markdown(table: RunTable) -> str:
    """Return a comparison as a table of Markdown."""
    sets, figures, *rows = [[plain(text) for text in row] for row in table.grid()]
    head = [f"{one}: {name}" if one else name for one, name in zip(sets, figures, strict=True)]
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join([*lines, *(f"\n{plain(note)}." for note in table.notes)]) + "\n"


def latex(table: RunTable) -> str:
    """Return a comparison as a `tabular` of LaTeX, which needs no package."""
    sets, figures, *rows = [
        ["".join(_LATEX.get(sign, sign) for sign in text) for text in row] for row in table.grid("--")
    ]
    spans = [rf"\multicolumn{{{len(list(some))}}}{{c}}{{{name}}}" for name, some in groupby(sets[2:])]
    lines = [rf"\begin{{tabular}}{{ll{'r' * len(sets[2:])}}}", r"\hline", rf"& & {' & '.join(spans)} \\"]
    lines.append(rf"{' & '.join(figures)} \\")
    for _, some in groupby(rows, key=lambda row: row[0]):
        lines += [r"\hline", *(rf"{' & '.join(row)} \\" for row in some)]
    return "\n".join([*lines, r"\hline", r"\end{tabular}", *(f"% {note}" for note in table.notes)]) + "\n"


def comma_separated(table: RunTable) -> str:
    """Return a comparison as CSV: a line for each figure of a run, with its interval."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["run", "model", "questions", "figure", "value", "low", "high", "of"])
    for (row, (asked, figure)), value in table.values.items():
        one = value if isinstance(value, Mapping) else {"value": value}
        writer.writerow([*row, asked, figure.key, *(one.get(part) for part in ("value", "low", "high", "of"))])
    return file.getvalue()


def plot(table: RunTable) -> str:
    """Return a plot of all shares of questions as SVG. Raise InputError if there is none. It needs matplotlib."""
    from refactx.eval.plots import dots, standalone

    shares = [
        column for column in table.columns if all(map(_is_share, (table.values.get((r, column)) for r in table.rows)))
    ]
    if not shares:
        raise InputError("no figure is a share of questions: give others with --figures for a plot")
    values = {f"{model}, {way}": [table.values.get(((way, model), one)) for one in shares] for way, model in table.rows}
    return standalone(dots([f"{figure.label}, {asked}" for asked, figure in shares], values, "compared"))


def _is_share(value: Any) -> bool:
    return value is None or (isinstance(value, Mapping) and (value["value"] is None or 0 <= value["value"] <= 1))
