"""Colours, narrow screens, both directions of writing, and what axe-core says of each state of the pages."""

from urllib.parse import quote

import httpx2
import pytest
from playwright.sync_api import Page, expect
from support.server.pages import HEBREW, Pages, answer_by_query, ask, assert_accessible, colour
from support.server.running import Running

pytestmark = pytest.mark.slow
ALASKA = "Alaska (state of the United States of America)"
PHONE = {"width": 360, "height": 740, "has_touch": True, "is_mobile": True}


def is_dark(page: Page) -> bool:
    return sum(colour(page, "body", "background-color")) < 3 * 64


def test_colours_follow_the_system_and_the_control(pages: Pages, tiny_server: Running) -> None:
    page = pages.open(tiny_server.url, color_scheme="dark")
    assert is_dark(page)
    page.emulate_media(color_scheme="light")
    assert not is_dark(page)
    page.get_by_label("Colours").select_option("Dark")
    assert is_dark(page)
    page.goto(f"{tiny_server.url}/explore")
    assert is_dark(page)
    page.get_by_label("Colours").select_option("System")
    assert not is_dark(page)


def test_on_a_phone_nothing_is_wider_than_the_screen(pages: Pages, sample_server: str) -> None:
    page = pages.open(f"{sample_server}/", **PHONE)
    page.locator("#examples-list a").first.wait_for()
    assert fits(page)
    page.goto(f"{sample_server}/?compare=1&q={quote('What is the capital of Alaska?')}")
    page.locator(".figures").nth(1).wait_for()
    page.get_by_role("button", name="Tree at").tap()
    page.locator(".below .branch").first.wait_for()
    assert fits(page)
    assert_accessible(page)
    page.goto(str(httpx2.URL(f"{sample_server}/explore", params={"subject": ALASKA, "predicate": "capital"})))
    page.locator("#values .items").wait_for()
    expect(page.locator("#values-title")).to_be_in_viewport()
    assert fits(page)
    assert_accessible(page)


def fits(page: Page) -> bool:
    return bool(page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"))


def test_texts_have_the_direction_of_their_letters(pages: Pages, tiny_server: Running) -> None:
    page = pages.open(tiny_server.url)
    page.locator("#model", has_text="tiny").wait_for()
    field = page.get_by_label("Your question")
    field.fill("מה שמה של ירושלים?")
    expect(field).to_have_css("direction", "rtl")
    page.keyboard.press("Enter")
    expect(page.locator(".question")).to_have_css("direction", "rtl")
    page.get_by_role("button", name="New conversation").click()
    expect(page.get_by_label("Your question")).to_have_css("direction", "ltr")


def test_names_in_a_fact_have_the_direction_of_their_letters(pages: Pages, tiny_server: Running) -> None:
    page = pages.open(tiny_server.url)
    page.locator("#model", has_text="tiny").wait_for()
    ask(page, f"Fact: <{HEBREW[:7]} Fact:")
    page.locator(".figures").wait_for()
    directions = {
        part.evaluate("element => getComputedStyle(element).direction") + str(part.inner_text().isascii())
        for part in page.locator(".written .fact-link bdi").all()
    }
    assert directions <= {"ltrTrue", "rtlFalse"}


def test_each_state_of_the_page_of_questions_is_accessible(pages: Pages, sample_server: str) -> None:
    page = pages.open(sample_server)
    page.locator("#examples-list a").first.wait_for()
    assert_accessible(page)
    page.get_by_role("switch").check()
    ask(page, "What is the capital of Alaska?")
    page.locator(".figures").nth(1).wait_for()
    assert_accessible(page)
    page.get_by_role("button", name="Tree at").click()
    page.locator(".below .branch").first.wait_for()
    page.locator(".grounded .how > summary").click()
    page.locator(".grounded .written .fact-link").hover()
    page.locator(".tree-panel .branch").first.wait_for()
    assert_accessible(page)


def test_each_state_of_the_walk_is_accessible(pages: Pages, sample_server: str) -> None:
    page = pages.open(f"{sample_server}/explore")
    page.locator("#subjects .items").wait_for()
    assert_accessible(page)
    page.goto(str(httpx2.URL(f"{sample_server}/explore", params={"subject": ALASKA, "predicate": "capital"})))
    page.locator("#values .items").wait_for()
    page.locator("#subjects .items").wait_for()
    assert_accessible(page)
    page.goto(f"{sample_server}/explore?prefix=Alaskaa")
    page.get_by_text("No subject begins with").wait_for()
    assert_accessible(page)


def test_a_query_is_accessible(pages: Pages, sample_server: str) -> None:
    page = pages.open(sample_server)
    answer_by_query(page, sample_server, f"list <{ALASKA}> <contains administrative territorial entity>")
    page.locator(".how > summary").click()
    while page.locator(".query details:not([open])").count():
        page.locator(".query details:not([open]) > summary").first.click()
    assert_accessible(page)
