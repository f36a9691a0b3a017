"""The page that checks a text, in a browser: sentences are marked by verdict, with links to their facts."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect
from support.server.pages import Pages, assert_accessible
from support.server.running import Running

pytestmark = pytest.mark.slow
TEXT = "Hello 😀! Ann's p is b.\n\n* <b>Ann</b>'s q is x. Zed is c."


def part(label: str) -> dict[str, Any]:
    return {"label": label, "id": None, "url": None}


def fact(subject: str, predicate: str, value: str) -> dict[str, Any]:
    parts = {"subject": part(subject), "predicate": part(predicate), "object": part(value)}
    return {"text": f"<{subject}> <{predicate}> <{value}> .", **parts, "inverse": False, "qualifiers": []}


def claim(text: str, verdict: str, **facts: Any) -> dict[str, Any]:
    start = TEXT.index(text)
    place = {"text": text, "start": start, "end": start + len(text)}
    return {**place, "verdict": verdict, "fact": None, "instead": None, "confidence": 9.0, **facts}


CLAIMS = [
    claim("Ann's p is b.", "holds", fact=fact("Ann", "p", "b")),
    claim("* <b>Ann</b>'s q is x.", "holds", fact=fact("Ann", "p", "c")),
    claim("* <b>Ann</b>'s q is x.", "differs", instead=fact("Ann", "q", "Bo")),
    claim("Zed is c.", "not in the index"),
]


def checked(page: Page) -> None:
    """Have the text checked, by a reply that is given."""

    def fulfil(route: Route) -> None:
        assert json.loads(route.request.post_data or "") == {"text": TEXT}
        body = json.dumps({"claims": CLAIMS, "sentences": 4, "without_claim": 1})
        route.fulfill(body=body, content_type="application/json")

    page.route("**/v1/check", fulfil)
    page.get_by_label("Text", exact=True).fill(TEXT)
    page.keyboard.press("Control+Enter")
    page.locator(".marked").wait_for()


@pytest.mark.parametrize("width", [360, 1280])
def test_sentences_are_marked_and_facts_are_links(pages: Pages, tiny_server: Running, width: int) -> None:
    page = pages.open(f"{tiny_server.url}/check", width=width)
    assert_accessible(page)
    checked(page)
    summary = "4 claims: 2 holds, 1 differs, 1 not in the index; 1 of 4 sentences without a claim."
    expect(page.locator("#result > .soft")).to_have_text(summary)
    expect(page.locator("#said")).to_have_text(summary)
    claims = page.locator(".claim")
    expect(claims).to_have_text(["Ann's p is b.", "* <b>Ann</b>'s q is x.", "Zed is c."])
    for number, kind in enumerate(("good", "bad", "open")):
        expect(claims.nth(number)).to_have_class(re.compile(rf"\b{kind}\b"))
    expect(page.locator(".verdict")).to_have_text(["holds", "holds", "differs", "not in the index"])
    links = page.locator(".marked a")
    expect(links).to_have_count(3)
    assert "/explore?subject=Ann&predicate=q" in str(links.nth(2).get_attribute("href"))
    assert page.locator(".marked").inner_text().startswith("Hello 😀! Ann's p is b.")
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert_accessible(page)


def test_an_error_is_said(pages: Pages, tiny_server: Running) -> None:
    page = pages.open(f"{tiny_server.url}/check")
    page.get_by_label("Text", exact=True).fill("Ann is b.")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("alert")).to_contain_text("Claims are checked with an index in PostgreSQL, and a prompt")
