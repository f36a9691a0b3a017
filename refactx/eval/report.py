"""Reports as Markdown, as one self-contained HTML page without scripts, and as lines for a terminal.

A task says what its report has (`Layout`): figures of each run, figures of groups, further tables, cases and plots. Text
from a model, a knowledge base or a data set is escaped by the template (HTML), or put into an indented block or a cell
without markup (Markdown). Control characters are removed from it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from refactx.eval.statistics import share
from refactx.fact import counted, visible

LIGHT = "--ink:#1d2127;--muted:#5f6771;--rule:#dfe3e8;--first:#1f5fbf;--second:#c2571a;"
DARK = "--ink:#e6e8eb;--muted:#9aa3ad;--rule:#343a43;--first:#6ea8fe;--second:#f0955a;"
_MOST_CASES = 5
"""The cases of a group in Markdown; the page has all that the report has."""
_MOST_WIDE = 4
"""Figures of more runs are without their intervals in a terminal."""
_MARKUP = re.compile(r"([\\`*_{}\[\]#|~])")

Cell = Mapping[str, Any] | float | str | None
"""An estimate as JSON, a number, or a text."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a report: its key there, its name, what it means, and the digits that are shown.

    `of`: makes it of the values that scores have for it; it is null if none has one. Figures without a name are in the
    JSON alone.
    """

    key: str
    label: str
    meaning: str = ""
    digits: int = 2
    of: Callable[[list[Any]], Any] = share


@dataclass(frozen=True, slots=True)
class ReportRow:
    """A row of a table."""

    label: str
    cells: Sequence[Cell]
    meaning: str = ""
    digits: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTable:
    """A table of a report. `columns`: the first is that of the labels; `brief`: it is shown in a terminal too."""

    title: str
    columns: Sequence[str]
    rows: Sequence[ReportRow]
    note: str = ""
    brief: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportCase:
    """A question with what was written for it. `fields`: empty ones are not shown; `facts`: those in the text, as
    `refactx ask --json` prints them."""

    title: str
    fields: Mapping[str, str | None]
    text: str
    facts: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a report is shown.

    `lead`: paragraphs at its beginning; `labels`: the names of its runs; `figures`: those of each run; `tiles`: the keys of
    the most important ones; `groups`: by key of the report the title and the keys of the figures of groups; `brief`: the
    groups that a terminal shows too; `cases`: by title of their group; `plots`: draws the plots, by title.
    """

    report: Mapping[str, Any]
    title: str
    lead: Sequence[str]
    labels: Mapping[str, str]
    figures: Sequence[Figure]
    tiles: Sequence[str]
    groups: Mapping[str, tuple[str, Sequence[str]]]
    brief: Sequence[str] = ()
    tables: Sequence[ReportTable] = ()
    cases_title: str = "Queries"
    cases: Mapping[str, Sequence[ReportCase]] = field(default_factory=dict)
    plots: Callable[["Layout"], Mapping[str, str]] = lambda _: {}

    @property
    def runs(self) -> Mapping[str, Any]:
        runs: Mapping[str, Any] = self.report["runs"]
        return runs

    def all_tables(self) -> list[ReportTable]:
        """Return the tables, first those of figures: of each run, and of groups in each run."""
        overall = ReportTable(
            title="Scores",
            columns=["", *self.labels.values()],
            rows=[
                ReportRow(one.label, cells, one.meaning, one.digits)
                for one in self.figures
                if one.label
                for cells in [[self.runs[way]["overall"][one.key] for way in self.labels]]
                if any(map(_is_defined, cells))
            ],
            brief=True,
        )
        return [overall, *(self._of_groups(by) for by in self.groups), *self.tables]

    def _of_groups(self, by: str) -> ReportTable:
        title, keys = self.groups[by]
        shown = [one for one in self.figures if one.key in keys]
        names = list(next(iter(self.runs.values()))[by])
        return ReportTable(
            title=title,
            columns=["", "questions", "run", *(one.label for one in shown)],
            rows=[
                ReportRow(name, [str(found["questions"]), label, *(found[one.key] for one in shown)])
                for name in names
                for way, label in self.labels.items()
                for found in [self.runs[way][by][name]]
            ],
            brief=by in self.brief,
        )


def is_chosen(report: Mapping[str, Any]) -> bool:
    """Return whether the facts of a run were chosen by the question, or were not to be: a chosen one has a confidence."""
    run = report["runs"].get("grounded")
    return run is None or not report["settings"].get("channel") or bool(run.get("confidence", True))


def lead_of(report: Mapping[str, Any], *more: str) -> str:
    """Return the first paragraph of a report: how many questions there are, and which. `more`: further sentences."""
    settings = report["settings"]
    half = {"all": "", "tune": ", half tune", "report": ", half report"}[settings.get("split", "all")]
    kinds = f", kinds {', '.join(settings['kinds'])}" if settings.get("kinds") else ""
    adapter = f" With the adapter {settings['adapter']}." if settings.get("adapter") else ""
    first = f"{counted(report['questions'], 'question')}{half}{kinds}.{adapter}"
    if sample := settings.get("sample"):
        first += f" A sample with the shares of each {sample['by'].replace('_', ' ')}, seed {sample['seed']}."
    if settings.get("left_out"):
        language = settings.get("language") or "en"
        first += f" {counted(settings['left_out'], 'question')} of the file without a text in {language} left out."
    return " ".join(filter(None, (first, *more, "In brackets: 95% intervals.")))


def write_report(folder: Path, layout: Layout) -> None:
    """Write a report as report.md and report.html; the page has plots if matplotlib is installed."""
    (folder / "report.md").write_text(markdown(layout), encoding="utf-8")
    (folder / "report.html").write_text(html(layout), encoding="utf-8")


def markdown(layout: Layout) -> str:
    return _environment().get_template("report.md.j2").render(layout=layout, most=_MOST_CASES).strip() + "\n"


def html(layout: Layout) -> str:
    drawn = layout.plots(layout) if find_spec("matplotlib") is not None else {}
    plots = {title: Markup(plot) for title, plot in drawn.items()}  # noqa: S704 - matplotlib escapes texts
    return _environment().get_template("report.html.j2").render(layout=layout, plots=plots, light=LIGHT, dark=DARK)


def lines(layout: Layout) -> list[str]:
    found = list(layout.lead)
    overall, *others = layout.all_tables()
    found += _columns(overall, with_intervals=len(layout.labels) <= _MOST_WIDE)
    for table in others:
        if table.brief and table.rows:
            found += [f"{table.title}:", *_columns(table, with_intervals=False)]
    return found


def _columns(table: ReportTable, *, with_intervals: bool) -> list[str]:
    grid = [list(table.columns)]
    for row in table.rows:
        cells = [shown(cell, row.digits) for cell in row.cells]
        grid.append([row.label, *(f"{a} ({b})" if b and with_intervals else a for a, b in cells)])
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    return ["  ".join([texts[0].ljust(widths[0]), *map(str.rjust, texts[1:], widths[1:])]).rstrip() for texts in grid]


def _is_defined(cell: Cell) -> bool:
    return cell is not None and not (isinstance(cell, Mapping) and cell["value"] is None)


def shown(cell: Cell, digits: int = 2) -> tuple[str, str]:
    """Return a cell and its interval, which is empty if it has none.

    >>> shown({"value": 0.5, "low": 0.25, "high": 0.75}), shown(1.5, 1), shown(None), shown(3)
    (('0.50', '0.25 to 0.75'), ('1.5', ''), ('–', ''), ('3', ''))
    """
    if not _is_defined(cell):
        return "–", ""
    if isinstance(cell, Mapping):
        return f"{cell['value']:.{digits}f}", f"{cell['low']:.{digits}f} to {cell['high']:.{digits}f}"
    return f"{cell:.{digits}f}" if isinstance(cell, float) else str(cell), ""


def signed(estimate: Mapping[str, Any]) -> str:
    """Return a difference with its sign and its interval.

    >>> signed({"value": 0.5, "low": -0.25, "high": 0.75})
    '+0.50 (-0.25 to 0.75)'
    """
    return "–" if estimate["value"] is None else f"{estimate['value']:+.2f} ({shown(estimate)[1]})"


def ranged(estimate: Mapping[str, Any]) -> str:
    """Return an estimate with its interval, in a sentence.

    >>> ranged({"value": 1.5, "low": 1.25, "high": 1.75})
    '1.50 (1.25 to 1.75)'
    """
    return "–" if estimate["value"] is None else "{} ({})".format(*shown(estimate))


def _environment() -> Environment:
    """Return the templates, with filters that escape what comes from models and data sets."""
    made = Environment(
        loader=PackageLoader("refactx.eval"),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"shown": shown, "pieces": _pieces, "cell": plain, "block": _block, "visible": visible}
    # A URL that may be in a link; None for any other.
    made.filters["https"] = lambda url: url if isinstance(url, str) and url.startswith("https://") else None
    return made


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


def plain(text: str) -> str:
    """Return a text for a line or a cell of Markdown, without markup.

    >>> plain("a|b\\n<i>*c*")
    'a\\\\|b &lt;i>\\\\*c\\\\*'
    """
    line = " ".join(visible(text).split())
    return _MARKUP.sub(r"\\\1", line.replace("&", "&amp;").replace("<", "&lt;"))


def _block(text: str) -> str:
    """Return a text as an indented block of Markdown, in which nothing is markup."""
    return "\n".join(f"    {line}" for line in visible(text).replace("\t", " ").splitlines()) or "    (nothing)"
