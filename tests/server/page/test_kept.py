"""What people keep of answers: conversations in the browser, rows as CSV, and reports of wrong answers."""

import json
import os
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect
from support.server.pages import Pages, answer_by_query, ask, assert_accessible, replay, replayed
from support.server.running import Running, running
from support.server.taking_files import opener_of, taking_files
from support.servers import DatabaseServer, database

import refactx

pytestmark = pytest.mark.slow
CAPITAL = "What is the capital of Alaska?"
ALASKA = "Alaska (state of the United States of America)"


def saved(page: Page, name: str) -> str:
    """The text of the file that a button saves."""
    with page.expect_download() as download:
        page.get_by_role("button", name=name).first.click()
    return Path(download.value.path()).read_bytes().decode("utf-8-sig")


def test_a_conversation_is_opened_again_as_it_was_and_deleted(pages: Pages, sample_server: str) -> None:
    page = pages.open(f"{sample_server}/?q={quote(CAPITAL)}")
    page.locator(".figures").wait_for()
    shown = page.locator(".grounded").inner_text()
    page.goto(sample_server)
    page.locator("#model", has_text="demo").wait_for()
    page.get_by_role("button", name="History").click()
    assert_accessible(page)
    (kept,) = json.loads(saved(page, "Save as JSON"))
    assert (kept["model"], kept["turns"][0]["question"]) == ("demo", CAPITAL)
    page.locator(".history").get_by_role("button", name=CAPITAL).first.click()
    page.locator(".figures").wait_for()
    assert page.locator(".grounded").inner_text() == shown
    expect(page.locator(".written .fact-link")).to_have_count(1)
    page.get_by_role("button", name="History").click()
    page.get_by_role("button", name=f"Delete {CAPITAL}").click()
    page.get_by_text("There are none yet").wait_for()


def test_conversations_are_searched_and_named(pages: Pages, tiny_server: Running) -> None:
    page = pages.open(tiny_server.url)
    page.locator("#model", has_text="tiny").wait_for()
    for question, answer in (("Who?", "Ann"), ("Where?", "Bern")):
        replay(page, replayed(f"Answer: {answer}"))
        ask(page, question)
        page.locator(".figures").wait_for()
        page.get_by_role("button", name="New conversation").click()
    page.get_by_role("button", name="History").click()
    listed = page.locator(".history .open span")
    expect(listed).to_have_text(["Where?", "Who?"])
    search = page.get_by_label("Search the conversations")
    search.fill("ann")  # of an answer
    expect(listed).to_have_text(["Who?"])
    page.get_by_role("button", name="Rename Who?").click()
    page.get_by_label("Name", exact=True).fill("My aunt")
    assert_accessible(page)
    page.keyboard.press("Enter")
    expect(listed).to_have_text(["My aunt"])
    search.fill("aunt no")
    page.get_by_text("No conversation has these words.").wait_for()
    search.fill("AUNT who")
    page.locator(".history .open").click()
    ask(page, "And?")  # it keeps its name
    page.locator(".figures").nth(1).wait_for()
    page.get_by_role("button", name="History").click()
    expect(listed).to_have_text(["My aunt", "Where?"])


def test_confidence_is_a_word_with_its_number(pages: Pages, sample_server: str) -> None:
    page = pages.open(f"{sample_server}/?q={quote(CAPITAL)}")
    page.locator(".figures").wait_for()
    word = page.locator(".figures [title]").last
    expect(word).to_contain_text("confidence")
    assert page.locator(".figures .unseen").inner_text().strip(" ()") == word.get_attribute("title")
    assert str(word.get_attribute("title")).endswith("low below 4, high from 10")
    assert not {"nats", "forward"} & set(page.locator(".figures").inner_text().split())


def test_facts_and_rows_are_saved_as_csv(pages: Pages, sample_server: str) -> None:
    page = pages.open(sample_server)
    page.locator("#model", has_text="demo").wait_for()
    query = answer_by_query(page, sample_server, f"list <{ALASKA}> <lowest point>")
    page.locator(".figures").wait_for()
    rows = saved(page, "Save CSV").split("\r\n")
    assert rows[0] == "Subject,Property,Value"
    assert [row.rpartition('"')[0].rpartition(',"')[2] or row.rpartition(",")[2] for row in rows[1:-1]] == [
        fact["object"]["label"] for fact in query["facts"]
    ]


def test_a_wrong_answer_is_reported_where_the_server_keeps_that(
    pages: Pages, tiny_server: Running, tiny_index: refactx.Index, tmp_path: Path
) -> None:
    file = tmp_path / "feedback.jsonl"
    with running(index=tiny_index, max_tokens=60, feedback=file) as server:
        page = pages.open(server.url)
        page.locator("#model", has_text="tiny").wait_for()
        ask(page, "hello Fact:")
        page.get_by_role("button", name="Wrong?").click()
        page.get_by_label("What is wrong?").fill("all of it\n")
        assert_accessible(page)
        page.get_by_role("button", name="Report", exact=True).click()
        expect(page.get_by_role("button", name="Reported")).to_be_disabled()
        expect(page.get_by_role("button", name="Right", exact=True)).to_be_disabled()
        page = pages.open(f"{server.url}/?q=hello+Fact%3A")
        page.get_by_role("button", name="Right", exact=True).click()
        expect(page.get_by_role("button", name="Marked")).to_be_disabled()
    line, marked = map(json.loads, file.read_text().splitlines())
    assert (line["right"], marked["right"], marked["answer"]) == (False, True, line["answer"])
    assert (line["question"], line["words"], line["model"]) == ("hello Fact:", "all of it", "tiny")
    assert line["facts"]
    assert all(f"{fact} ." in tiny_index for fact in line["facts"])
    page = pages.open(f"{tiny_server.url}/?q=hello+Fact%3A")
    page.get_by_role("button", name="Copy link").wait_for()
    page.wait_for_load_state("networkidle")
    expect(page.get_by_role("button", name="Wrong?")).to_have_count(0)


def test_a_table_becomes_an_index_that_is_asked(pages: Pages, database_server: DatabaseServer, tmp_path: Path) -> None:
    goes = tmp_path / "goes"
    os.mkfifo(goes)
    with (
        database(database_server, "files_page") as url,
        opener_of(url, tmp_path) as opener,
        taking_files(opener, waits_for=goes) as server,
    ):
        page = pages.open(server.url)
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="New index").click()
        table = {"name": "our pets.csv", "mimeType": "text/csv", "buffer": b"age;name\n3;Ann\n4;Bo\n"}
        chooser.value.set_files([table])
        assert_accessible(page)
        expect(page.get_by_label("Name of the index")).to_have_value("our pets")
        page.get_by_label("Name of the index").fill("@")
        page.get_by_role("button", name="Make the index").click()
        expect(page.get_by_role("alert")).to_contain_text("at most 100 letters")
        page.get_by_label("Name of the index").fill("pets")
        page.get_by_label("Column with the names of the rows").select_option("name")
        page.get_by_role("button", name="Make the index").click()
        page.get_by_text("Reading the file").wait_for()  # where it is
        expect(page.get_by_role("progressbar")).to_be_visible()
        assert_accessible(page)
        goes.write_text("go")
        page.locator("#about-index", has_text="pets (6 facts)").wait_for()  # of 2 cells and 2 rows
        assert page.get_by_label("Model").input_value() == "tiny@pets"
