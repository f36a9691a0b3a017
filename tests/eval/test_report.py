"""The report of an evaluation: metrics, a page without scripts, plots, Markdown."""

import json
import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest
from support.eval_runs import fact, judged

from refactx.eval.evaluation import write_reports

SETTINGS = {
    "questions": "q.jsonl", "model": "m<b>", "index": "i", "split": "all", "kinds": [], "limit": None, "num_beams": 1,
    "temperature": 0.0, "max_new_tokens": 100,
}  # fmt: skip


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
    document = write_reports(folder, SETTINGS, {"grounded": grounded, "free": free}, None)
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
    assert page.tags.count("svg") == 5
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
    assert any("var(--grounded)" in plot and "var(--free)" in plot for plot in plots)


def test_markdown_has_no_markup_from_the_model(reported: tuple[dict[str, Any], str, str]) -> None:
    markdown = reported[1]
    assert "| Accuracy | 0.50 (0.15 to 0.85) | 0.25 (0.05 to 0.70) |" in markdown
    for line in markdown.splitlines():
        assert "<script>" not in line or line.startswith("    ")
    assert r"\|\`\*" in markdown
