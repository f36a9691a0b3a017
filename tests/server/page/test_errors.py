"""What a person sees when something is missing: a key, a place, the database, the network."""

from threading import Event

import httpx2
import pytest
from playwright.sync_api import expect
from support.server.pages import Pages, ask, assert_accessible, gated
from support.server.running import Running, eventually, running, said

import refactx
from refactx.errors import DatabaseError
from refactx.server import Availability

pytestmark = pytest.mark.slow


def test_the_key_is_asked_for_and_kept_until_the_window_is_closed(pages: Pages, tiny_index: refactx.Index) -> None:
    with running(index=tiny_index, keys=("secret",), max_tokens=40) as server:
        page = pages.open(server.url)
        dialog = page.get_by_role("dialog", name="API key")
        dialog.get_by_label("Key").fill("wrong")
        page.keyboard.press("Enter")
        dialog.get_by_text("does not know this key").wait_for()
        assert_accessible(page)
        dialog.get_by_label("Key").fill("secret")
        dialog.get_by_role("button", name="Continue").click()
        page.locator("#examples-list a").first.wait_for()
        ask(page, "hello Fact:")
        page.locator(".figures").wait_for()
        assert page.evaluate("() => JSON.stringify(localStorage)").count("secret") == 0
        page.goto(f"{server.url}/explore")
        page.locator("#subjects .items").wait_for()
        expect(page.get_by_role("dialog")).to_have_count(0)
        other = pages.open(server.url)
        other.get_by_role("dialog", name="API key").wait_for()


def test_without_a_key_the_page_says_what_it_needs(pages: Pages, tiny_index: refactx.Index) -> None:
    with running(index=tiny_index, keys=("secret",)) as server:
        for path in ("/", "/explore"):
            page = pages.open(server.url + path)
            page.get_by_role("dialog", name="API key").get_by_role("button", name="Cancel").click()
            page.get_by_text("The server needs an API key").first.wait_for()
            page.get_by_role("button", name="Try again").first.click()
            page.get_by_role("dialog", name="API key").wait_for()


def test_a_busy_server_is_asked_again(pages: Pages, tiny_index: refactx.Index) -> None:
    with gated(tiny_index, max_running=1, max_waiting=0) as (server, gate):
        page = pages.open(server.url)
        page.locator("#examples-list a").first.wait_for()
        gate.close()
        body = {"model": "tiny", "messages": said("hello Fact:"), "max_tokens": 5, "stream": True}
        with httpx2.Client(timeout=60) as client, client.stream("POST", f"{server.url}/v1/chat/completions", json=body):
            gate.wait_until_reached()
            ask(page, "hello Fact:")
            page.get_by_text("The server is busy.").wait_for()
            page.get_by_text("Asking again in").wait_for()
            assert_accessible(page)
            assert [line["status"] for line in server.requests].count(429) >= 1
        gate.open()
        page.locator(".figures").wait_for()
        expect(page.get_by_text("The server is busy.")).to_have_count(0)


def test_while_a_busy_server_is_waited_for_the_question_can_be_given_up(
    pages: Pages, tiny_index: refactx.Index
) -> None:
    with gated(tiny_index, max_running=1, max_waiting=0) as (server, gate):
        page = pages.open(server.url)
        page.locator("#model", has_text="tiny").wait_for()
        gate.close()
        body = {"model": "tiny", "messages": said("hello Fact:"), "max_tokens": 5, "stream": True}
        with httpx2.Client(timeout=60) as client, client.stream("POST", f"{server.url}/v1/chat/completions", json=body):
            gate.wait_until_reached()
            ask(page, "hello Fact:")
            page.get_by_text("Asking again in").wait_for()
            page.get_by_role("button", name="Stop").click()
            page.get_by_text("Stopped.").wait_for()
            expect(page.get_by_text("Asking again in")).to_have_count(0)


def test_the_page_says_that_the_database_is_away_and_continues_when_it_is_back(
    pages: Pages, tiny_index: refactx.Index
) -> None:
    away = Event()

    def ask_database() -> None:
        if away.is_set():
            raise DatabaseError("cannot reach the database: refused")

    with running(index=tiny_index, availability=Availability(ask_database), max_tokens=40) as server:
        page = pages.open(server.url)
        page.locator("#model", has_text="tiny").wait_for()
        away.set()
        assert eventually(lambda: server.get("/health").status_code == 503)
        ask(page, "hello Fact:")
        page.get_by_text("The server cannot answer now. The database does not answer").wait_for()
        walk = pages.open(f"{server.url}/explore")
        walk.get_by_text("The database does not answer").first.wait_for()
        assert_accessible(walk)
        away.clear()
        page.locator(".figures").wait_for()
        walk.get_by_role("button", name="Try again").first.click()
        walk.locator("#subjects .items").wait_for()


def test_the_page_says_that_the_network_is_away(pages: Pages, tiny_server: Running) -> None:
    page = pages.open(tiny_server.url)
    page.locator("#model", has_text="tiny").wait_for()
    page.context.set_offline(True)
    ask(page, "hello Fact:")
    page.get_by_text("The server cannot be reached").wait_for()
    assert_accessible(page)
    page.context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    page.locator(".figures").wait_for()
    expect(page.get_by_text("The server cannot be reached")).to_have_count(0)


def test_an_answer_that_is_cut_off_is_said_to_be(pages: Pages, tiny_server: Running) -> None:
    page = pages.open(tiny_server.url)
    page.locator("#model", has_text="tiny").wait_for()
    begun = 'data: {"choices": [{"delta": {"content": "It is"}, "finish_reason": null}]}\n\n'
    failed = 'data: {"error": {"message": "the model has failed"}}\n\n'
    replies = [begun + failed, begun]
    page.route(
        "**/v1/chat/completions",
        lambda route: route.fulfill(body=replies.pop(), content_type="text/event-stream"),
    )
    for message in ("The connection was lost", "The model has failed."):
        ask(page, "hello")
        page.locator(".turn").last.get_by_text(message).wait_for()
        expect(page.locator(".turn").last.locator(".written:not(.thought .written)")).to_have_text("It is")
