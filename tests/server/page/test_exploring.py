"""Walking the index in a browser."""

from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from playwright.sync_api import Page, expect
from support.server.pages import HEBREW, Pages
from support.server.running import Running

pytestmark = pytest.mark.slow
ALASKA = "Alaska (state of the United States of America)"


def address(page: Page) -> dict[str, str]:
    """What the address of a page says."""
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def test_a_walk_from_a_name_to_values_and_back(pages: Pages, sample_server: str) -> None:
    page = pages.open(f"{sample_server}/explore")
    page.get_by_label("Name begins with").fill("alask")  # names begin with a capital
    page.locator("#subjects").get_by_role("link", name="Alaska state of").click()
    expect(page.locator("#properties .head-name")).to_have_text("Alaska")
    found = httpx2.get(f"{sample_server}/v1/facts", params={"subject": ALASKA, "limit": 1000}).json()
    shown = {
        item.locator(".label").inner_text(): int(item.locator(".count").inner_text().split()[1])
        for item in page.locator("#properties li").all()
    }
    assert shown == {one["label"]: one["facts"] for one in found["properties"]}
    page.locator("#properties").get_by_role("link", name="capital", exact=False).first.click()
    expect(page.locator("#values .items")).to_contain_text("Juneau")
    assert address(page) == {"prefix": "alask", "subject": ALASKA, "predicate": "capital"}
    expect(page).to_have_title("capital of Alaska · ReFactX")
    page.get_by_label("Name begins with").fill("Alas")
    expect(page.locator("#subjects a.go").first).to_contain_text("Alaska")
    for shown in ("#subjects", "#properties"):
        expect(page.locator(f"{shown} [aria-current]")).to_have_count(1)
    page.locator("#values a.go").click()
    expect(page.locator("#properties .head-name")).to_have_text("Juneau")
    page.locator("#properties").get_by_role("link", name="capital of").click()
    expect(page.locator("#values .items")).to_contain_text("Alaska")
    page.go_back()
    page.go_back()
    expect(page.locator("#properties .head-name")).to_have_text("Alaska")
    expect(page.locator("#values .items")).to_contain_text("Juneau")


def test_an_address_shows_the_same_to_others(pages: Pages, sample_server: str) -> None:
    url = str(
        httpx2.URL(f"{sample_server}/explore", params={"subject": ALASKA, "predicate": "capital", "prefix": "Ala"})
    )
    page = pages.open(url)
    expect(page.locator("#values .items")).to_contain_text("Juneau")
    expect(page.locator("#properties [aria-current]")).to_contain_text("capital")
    expect(page.locator("#subjects [aria-current]")).to_contain_text("Alaska")
    expect(page.get_by_label("Name begins with")).to_have_value("Ala")
    source = page.locator("#values .source")
    expect(source).to_have_attribute("href", "https://www.wikidata.org/wiki/Q797#P36")


def test_the_keyboard_alone_walks(pages: Pages, tiny_server: Running) -> None:
    page = pages.open(f"{tiny_server.url}/explore")
    page.locator("#subjects .items").wait_for()
    page.keyboard.type("An")
    expect(page.locator("#subjects a.go")).to_have_count(1)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#properties-title")).to_be_focused()
    for _ in range(3):
        page.keyboard.press("Tab")
        if page.locator("#properties a.go").last.evaluate("element => element === document.activeElement"):
            break
    page.keyboard.press("Enter")
    expect(page.locator("#values-title")).to_be_focused()
    expect(page.locator("#values .items")).to_have_text("Bo")


def test_more_values_are_shown_when_asked_for(pages: Pages, tiny_server: Running) -> None:
    page = pages.open(f"{tiny_server.url}/explore?subject=Bo&predicate=p")
    expect(page.locator("#values li")).to_have_count(100)
    page.get_by_role("button", name="Show more").click()
    expect(page.locator("#values li")).to_have_count(150)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_document_ends_with_what_is_in_it(pages: Pages, sample_server: str, width: int) -> None:
    page = pages.open(f"{sample_server}/explore", width=width)
    expect(page.locator("#subjects li").nth(40)).to_be_attached()
    end = page.evaluate("() => Math.round(document.querySelector('main').getBoundingClientRect().bottom + scrollY)")
    assert page.evaluate("() => document.documentElement.scrollHeight") == max(end, 800)


def test_names_that_are_not_there_have_near_ones(pages: Pages, tiny_server: Running) -> None:
    page = pages.open(f"{tiny_server.url}/explore?prefix=Anne")
    page.get_by_text("No subject begins with").wait_for()
    page.locator("#subjects").get_by_role("link", name="Ann").click()
    expect(page.locator("#properties .head-name")).to_have_text("Ann")
    page.goto(f"{tiny_server.url}/explore?subject=Nobody&predicate=p")
    page.get_by_text("The index has no facts about").wait_for()
    page.get_by_text("The index has no such facts.").wait_for()


def test_names_from_right_to_left_are_written_so(pages: Pages, tiny_server: Running) -> None:
    page = pages.open(str(httpx2.URL(f"{tiny_server.url}/explore", params={"subject": HEBREW, "predicate": "שם"})))
    expect(page.locator("#properties .head-name")).to_have_css("direction", "rtl")
    expect(page.locator("#values .literal, #values .name").first).to_be_visible()
    expect(page.locator("#properties .count").first).to_have_css("direction", "ltr")
    expect(page.locator("#subjects .label", has_text="ירושלים")).to_have_css("direction", "rtl")
