"""The report of an evaluation: metrics, a page without scripts, plots, Markdown."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from support.eval_runs import fact, judged, write_answers
from support.eval_task import Letters, score_of

from refactx.eval.report import lines
from refactx.eval.run import Scored, ScoredQuestion, report_of

HOSTILE = "x</pre><script>alert(1)</script>\"'|`*\x1b[31m"


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str, str]:
    facts = [fact("Q39", "P36", "Bern"), fact("Q40", "P36", "Wien")]
    facts[1]["object"] = {"label": "Wien", "id": "Q1741", "url": "javascript:alert(1)"}
    facts[1]["subject"] |= {"url": "https://www.wikidata.org/wiki/Q40"}
    text = f"{HOSTILE}\nFact: {facts[0]['text']}\nFact: {facts[1]['text']}\nAnswer: {HOSTILE}"
    grounded = [
        judged("Bern, Zug", []),
        judged("Bern", []),
        judged(HOSTILE, facts, text=text),
        judged("", [], tokens=100),
    ]
    free = [judged("Bern", [], grounded=False), *(judged("Basel", [], grounded=False) for _ in range(3))]
    folder = tmp_path_factory.mktemp("report")
    document = write_answers(folder, {"grounded": grounded, "free": free})
    assert json.loads((folder / "report.json").read_text()) == json.loads(json.dumps(document))
    return document, (folder / "report.md").read_text(), (folder / "report.html").read_text()


def test_the_figures_of_a_report(reported: tuple[dict[str, Any], str, str]) -> None:
    document, _, _ = reported
    overall = document["runs"]["grounded"]["overall"]
    assert (overall["accuracy"]["value"], overall["accuracy"]["of"]) == (0.5, 4)
    assert (overall["precision"]["value"], overall["precision"]["of"]) == (0.6667, 3)
    assert overall["exact_accuracy"]["value"] == 0.25
    assert overall["f1"]["value"] == round((1 + 2 / 3) / 4, 4)
    assert overall["facts"]["value"] == 0.5
    assert overall["judge_accuracy"] is None
    assert document["runs"]["free"]["overall"]["accuracy"]["value"] == 0.25
    assert document["comparison"]["gain"]["accuracy"]["value"] == 0.25
    assert (document["comparison"]["only_grounded"], document["comparison"]["only_free"]) == (1, 0)
    failures = {f["reason"]: f["count"] for f in document["runs"]["grounded"]["failures"]}
    assert failures == {"cut off": 1, "list incomplete": 1, "fact not used": 1}
    assert set(document["runs"]["grounded"]["by_kind"]) == {"single"}
    assert len(document["results"]) == 8


def test_a_terminal_has_intervals_as_long_as_lines_are_short() -> None:
    task = Letters(folder_=Path("none"))
    runs = {f"way {n}": [score_of(letters) for letters in (1, 2, 3)] for n in range(5)}
    few, many = (lines(task.layout(report_of(task, {}, Scored(dict(list(runs.items())[:count]))))) for count in (2, 5))
    assert few[0] == "3 questions. In brackets: 95% intervals."
    assert few[2].count("2.00 (1.00 to 3.00)") == 2
    assert many[2].split() == ["Letters", *["2.00"] * 5]
    assert few[3] == "By parity:"
    assert many[-1].split() == ["even", "1", "way", "4", "2.00"]


def test_a_figure_without_a_value_is_null_and_not_shown() -> None:
    task = Letters(folder_=Path("none"))
    report = report_of(task, {}, Scored({"once": [ScoredQuestion(values={"letters": None}, groups={}, line={})]}))
    assert report["runs"]["once"]["overall"] == {"questions": 1, "letters": None}
    assert not any("Letters" in line for line in lines(replace(task.layout(report), groups={})))


class Page(HTMLParser):
    """The tags, URLs and marked texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.marked: list[str] = []
        self.shown = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]
        if tag == "mark":
            self.marked.append("")

    def handle_data(self, data: str) -> None:
        self.shown += data
        if self.tags[-1:] == ["mark"] and not self.marked[-1]:
            self.marked[-1] = data


def test_the_page_is_self_contained_and_has_no_script(reported: tuple[dict[str, Any], str, str]) -> None:
    page = Page(reported[2])
    assert "script" not in page.tags
    assert "b" in page.tags
    assert page.tags.count("svg") == 5, "as no answer has a confidence"
    outside = [address for address in page.addresses if not address.startswith("#")]
    assert outside == ["https://www.wikidata.org/wiki/Q40"]
    assert "\x1b" not in reported[2]
    assert "m<b> on q.jsonl" in page.shown
    assert "</pre><script>alert(1)</script>" in page.shown, "shown as text"
    assert page.marked == ["<S> <p> <Bern> .", "<S> <p> <Wien> ."]


def test_the_plots_take_their_colours_from_the_page(reported: tuple[dict[str, Any], str, str]) -> None:
    plots = re.findall(r"<svg.*?</svg>", reported[2], flags=re.DOTALL)
    for plot in plots:
        ElementTree.fromstring(plot)
        assert not re.findall(r"#[0-9a-f]{6}\b", plot), "no colour of its own"
    assert any("var(--first)" in plot and "var(--second)" in plot for plot in plots)


def test_markdown_has_no_markup_from_the_model(reported: tuple[dict[str, Any], str, str]) -> None:
    markdown = reported[1]
    assert "| Accuracy | 0.50 (0.15 to 0.85) | 0.25 (0.05 to 0.70) |" in markdown
    for line in markdown.splitlines():
        assert "<script>" not in line or line.startswith("    ")
    assert r"\|\`\*" in markdown
