"""SPARQL in a browser: names are proposed, rows are a table, a file and a plot."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect
from support.server.pages import Pages, assert_accessible

pytestmark = pytest.mark.slow
ALASKA = "Alaska (state of the United States of America)"


def answered(page: Page, url: str, columns: list[str], rows: list[list[str]]) -> None:
    """Open the page with a query whose rows are given."""
    bindings = [
        {name: {"type": "literal", "value": text} for name, text in zip(columns, row, strict=True)} for row in rows
    ]
    found: dict[str, Any] = {"head": {"vars": columns}, "results": {"bindings": bindings}}
    found |= {"labels": {}, "truncated": False, "note": ""}
    page.route("**/v1/sparql", lambda route: route.fulfill(body=json.dumps(found), content_type="application/json"))
    page.goto(f"{url}/sparql?query=SELECT")
    page.locator("#result table").wait_for()


def test_a_query_is_written_by_the_keyboard_with_proposed_names(pages: Pages, sample_server: str) -> None:
    page = pages.open(f"{sample_server}/sparql", width=360)
    query, names = page.get_by_label("Query", exact=True), page.get_by_role("listbox")
    query.fill("")
    page.keyboard.type("SELECT ?x { <alas")
    expect(names.locator("[aria-selected=true]")).to_contain_text("Alaska")
    assert_accessible(page)
    page.keyboard.press("Enter")
    page.keyboard.type(" <capi")
    expect(names.locator("li")).to_have_text(["capital"])
    page.keyboard.press("Tab")
    page.keyboard.type(" ?x }")
    expect(query).to_have_value(f"SELECT ?x {{ <{ALASKA}> <capital> ?x }}")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#result tbody")).to_contain_text("Juneau")
    assert str(page.locator("#result tbody a").get_attribute("href")).startswith("/explore?subject=Juneau")
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert_accessible(page)


def test_a_wrong_query_says_what_is_wrong(pages: Pages, sample_server: str) -> None:
    page = pages.open(f"{sample_server}/sparql?query={quote('SELECT {')}")
    expect(page.get_by_role("alert")).to_contain_text("SPARQL")
    page.goto(f"{sample_server}/sparql?query={quote('ASK { <Alaska> <capital> ?x }')}")
    expect(page.locator("#result")).to_have_text("Yes")


@pytest.mark.parametrize(
    ("columns", "rows", "title", "marks"),
    [
        (["city", "people"], [["A", "10"], ["B", "-5"], ["C", "2.5"]], "people by city", "rect"),
        (["when", "people"], [["1900-01-01T00:00:00Z", "1"], ["1950-06-01", "4"]], "people by when", "circle"),
        (["city", "born"], [["A", "1900-01-01"], ["B", "-0044-03-15"]], "born by city", "rect"),
        (["city", "at"], [["A", "Point(8.5 47.4)"], ["B", "Point(-149.9 61.2)"]], "Places of city", "circle"),
        (["city", "at"], [["A", "47.4°N, 8.5°E"], ["B", "61.2°N, 149.9°W"]], "Places of city", "circle"),
        (["city", "latitude", "long"], [["A", "47.4", "8.5"], ["B", "61.2", "-149.9"]], "Places of city", "circle"),
        (["city", "lat", "lon"], [["A", "147.4", "8.5"], ["B", "61.2", "-149.9"]], "lon by lat", "circle"),
    ],
)
def test_numbers_dates_and_places_are_drawn(
    pages: Pages, sample_server: str, columns: list[str], rows: list[list[str]], title: str, marks: str
) -> None:
    page = pages.open(f"{sample_server}/sparql")
    answered(page, sample_server, columns, rows)
    plot = page.get_by_role("img", name=title)
    expect(plot.locator(marks)).to_have_count(len(rows))
    box = plot.bounding_box()
    for mark in plot.locator(marks).all():
        inner = mark.bounding_box()
        assert box and inner and box["x"] <= inner["x"] and inner["x"] + inner["width"] <= box["x"] + box["width"]
    assert_accessible(page)


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        (["city", "lat", "lng"], [["Oslo", "59.9", "10.7"], ["Rome", "41.9", "12.5"], ["Madrid", "40.4", "-3.7"]]),
        (
            ["city", "placeLon", "placeLat"],
            [["Oslo", "10.7", "59.9"], ["Rome", "12.5", "41.9"], ["Madrid", "-3.7", "40.4"]],
        ),
        (
            ["city", "at"],
            [["Suva", "Point(178.4 -18.1)"], ["Apia", "Point(-171.8 -13.8)"], ["Auckland", "Point(174.8 -36.8)"]],
        ),
    ],
)
def test_a_map_has_north_above_and_east_to_the_right(
    pages: Pages, sample_server: str, columns: list[str], rows: list[list[str]]
) -> None:
    page = pages.open(f"{sample_server}/sparql")
    answered(page, sample_server, columns, rows)
    marks = page.get_by_role("img", name="Places of city").locator("circle")
    places = {mark.text_content(): mark.bounding_box() for mark in marks.all()}
    (north, middle, south), (east, west) = (
        (("Oslo", "Rome", "Madrid"), ("Rome", "Madrid"))
        if "Oslo" in places
        else (("Apia", "Suva", "Auckland"), ("Apia", "Auckland"))  # over the date line
    )
    assert places[north]["y"] < places[middle]["y"] < places[south]["y"]  # type: ignore[index]
    assert places[west]["x"] < places[east]["x"]  # type: ignore[index]


def test_a_query_is_coloured_while_it_is_written(pages: Pages, sample_server: str) -> None:
    page = pages.open(f"{sample_server}/sparql")
    text = '# so\nSELECT ?x { wd:Q1 <is in> ?x . FILTER(?x > 3.5 && "a\\"b"@en < "<c>") }'
    page.get_by_label("Query", exact=True).fill(text)
    parts = page.locator("#colours span").evaluate_all("all => all.map((one) => [one.className, one.textContent])")
    assert [tuple(part) for part in parts] == [
        ("of-comment", "# so"),
        ("of-word", "SELECT"),
        ("of-variable", "?x"),
        ("of-name", "wd:Q1"),
        ("of-name", "<is in>"),
        ("of-variable", "?x"),
        ("of-word", "FILTER"),
        ("of-variable", "?x"),
        ("of-number", "3.5"),
        ("of-string", '"a\\"b"'),
        ("of-string", "@en"),
        ("of-string", '"<c>"'),
    ]
    assert page.locator("#colours").text_content() == f"{text}\n"
    assert_accessible(page)


def test_examples_are_of_this_index_and_have_rows(pages: Pages, sample_server: str) -> None:
    page = pages.open(f"{sample_server}/sparql")
    examples = page.locator("#examples a")
    examples.nth(2).wait_for()
    for number in range(3):
        examples.nth(number).click()
        expect(page.get_by_label("Query", exact=True)).to_have_value(re.compile("^SELECT"))
        page.locator("#result table").wait_for()


def test_saved_rows_are_no_formulas_and_numbers_stay(pages: Pages, sample_server: str) -> None:
    page = pages.open(f"{sample_server}/sparql")
    texts = ["=1+1", "+cmd|'/C calc'!A0", "-5", "-5e3", "@SUM(A1)", "\tx", "\r=1", "-x", "\uff1d1", "a=1", "+49 30 1"]
    answered(page, sample_server, ["x"], [[text] for text in texts])
    with page.expect_download() as download:
        page.get_by_role("button", name="Save CSV").click()
    saved = list(csv.reader(io.StringIO(Path(download.value.path()).read_bytes().decode("utf-8-sig"), newline="")))
    as_they_are = ("-5", "-5e3", "a=1")
    assert [row[0] for row in saved] == ["x", *(text if text in as_they_are else f"'{text}" for text in texts)]


def test_what_is_neither_is_not_drawn(pages: Pages, sample_server: str) -> None:
    page = pages.open(f"{sample_server}/sparql")
    answered(page, sample_server, ["city", "people"], [["A", "10"], ["B", "many"]])
    expect(page.locator("svg")).to_have_count(0)
