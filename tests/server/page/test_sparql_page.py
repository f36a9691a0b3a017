"""SPARQL in a browser: names are proposed, rows are a table, a file and a plot."""

import json
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


def test_what_is_neither_is_not_drawn(pages: Pages, sample_server: str) -> None:
    page = pages.open(f"{sample_server}/sparql")
    answered(page, sample_server, ["city", "people"], [["A", "10"], ["B", "many"]])
    expect(page.locator("svg")).to_have_count(0)
