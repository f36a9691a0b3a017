"""Asking in a browser: an answer is seen while it is written, with the facts that prove it."""

from urllib.parse import quote, urlsplit

import httpx2
import pytest
from playwright.sync_api import Page, expect
from support.server.pages import Pages, answer_by_query, ask, assert_accessible, colour, gated, replay, replayed
from support.server.running import PROMPT, Running, eventually, running
from support.thinking_model import scripted_model, thinking_tokenizer

import refactx

pytestmark = pytest.mark.slow
CAPITAL = "What is the capital of Alaska?"
ALASKA = "Alaska (state of the United States of America)"
JUNEAU = "Juneau (city in and state capital of Alaska, United States)"
ANSWER = ".written:not(.thought .written)"
FINAL = ".body > .answer strong"


@pytest.fixture
def answered(pages: Pages, sample_server: str) -> Page:
    """A page with an answer of the demo model, and how it was found."""
    page = pages.open(f"{sample_server}/?q={quote(CAPITAL)}")
    unfold(page)
    return page


def unfold(page: Page) -> None:
    """Wait for the answer, and show how it was found."""
    page.locator(".figures").last.wait_for()
    page.locator(".how > summary").last.click()


def test_the_answer_comes_first_then_its_proof_once_and_the_text_is_folded(pages: Pages, sample_server: str) -> None:
    page = pages.open(f"{sample_server}/?q={quote(CAPITAL)}")
    page.locator(".figures").wait_for()
    expect(page.locator(FINAL)).to_have_text("Juneau")
    shown = page.locator(".body > *").evaluate_all("all => all.map((one) => one.className)")
    assert [name.split()[0] for name in shown] == ["answer", "proof", "how", "figures"]
    assert page.locator(".body").inner_text().count("capital of Alaska") == 1
    expect(page.locator(ANSWER)).to_be_hidden()
    expect(page.locator(".how > summary")).to_have_text("How it was found")
    assert_accessible(page)


def test_facts_that_were_only_tried_are_folded_and_unknown_has_no_proof(pages: Pages, tiny_server: Running) -> None:
    page = pages.open(tiny_server.url)
    fact = {"text": "<Ann> <p> <b> .", "subject": {"label": "Ann", "id": None, "url": None}, "inverse": False}
    fact |= {"predicate": {"label": "p", "id": None, "url": None}, "object": {"literal": "b"}, "span": None}
    tried = fact | {"text": "<Ann> <p> <c> .", "object": {"literal": "c"}, "proves": False}
    for unknown, text, facts in ((False, "b", [fact | {"proves": True}, tried]), (True, "I don't know.", [tried])):
        replay(page, replayed(f"Answer: {text}", facts=facts, unknown=unknown))
        ask(page, "Which?")
        turn = page.locator(".turn").last
        expect(turn.locator(".how > summary")).to_have_text("How it was found · 1 other fact tried")
        expect(turn.locator("table.facts tbody tr:not(.below)")).to_have_count(0 if unknown else 1)
        expect(turn.locator(".notice")).to_have_count(0)


def test_an_answer_has_its_facts_as_links_and_in_a_table(answered: Page) -> None:
    fact = answered.locator(".written .fact-link")
    expect(fact).to_have_text(f"<{ALASKA}> <capital> <{JUNEAU}>")
    expect(fact).to_have_attribute("href", "https://www.wikidata.org/wiki/Q797#P36")
    expect(fact).to_have_css("text-decoration-line", "underline")
    red, green, blue = colour(answered, ".written .fact-link")
    assert blue > max(red, green) + 50
    expect(answered.locator(FINAL)).to_have_text("Juneau")
    expect(answered.locator(FINAL)).to_have_css("font-weight", "700")
    cells = answered.locator("table.facts tbody tr").first.locator("td")
    assert [cell.inner_text().splitlines()[0] for cell in cells.all()[:3]] == ["Alaska", "capital", "Juneau"]
    expect(cells.last.get_by_role("link")).to_have_attribute("href", "https://www.wikidata.org/wiki/Q797#P36")
    expect(answered.locator("#said")).to_have_text("Answer: Juneau. 1 fact.")


def test_a_fact_that_is_clicked_opens_its_statement(answered: Page) -> None:
    answered.context.route("https://www.wikidata.org/**", lambda route: route.fulfill(body="the statement"))
    with answered.context.expect_page() as opened:
        answered.locator(".written .fact-link").click()
    assert opened.value.url == "https://www.wikidata.org/wiki/Q797#P36"


def test_a_fact_shows_what_else_the_index_has_there(answered: Page, sample_server: str) -> None:
    found = httpx2.get(f"{sample_server}/v1/facts", params={"subject": ALASKA, "limit": 200}).json()
    counts = {one["label"]: one["facts"] for one in found["properties"]}
    answered.locator(".written .fact-link").hover()
    panel = answered.locator(".tree-panel")
    properties = panel.locator(".branch").first
    expect(properties.locator(".branch-title")).to_contain_text(f"{len(counts)} properties")
    expect(properties.locator(".taken")).to_contain_text("capital")
    shown = properties.locator("li:not(.more)")
    assert shown.count() > 5
    for item in shown.all():
        assert counts[item.locator(".label").inner_text()] == int(item.locator(".count").inner_text())
    expect(properties.locator(".more")).to_have_text(f"{len(counts) - shown.count()} more")
    expect(panel.locator(".branch").last.locator(".taken")).to_contain_text("Juneau")
    panel.hover()  # the pointer may move to it
    answered.wait_for_timeout(600)
    expect(panel).to_be_visible()
    answered.mouse.move(2, 2)
    expect(panel).to_have_count(0)


def test_the_keyboard_alone_reaches_everything(pages: Pages, sample_server: str) -> None:
    page = pages.open(sample_server)
    expect(page.get_by_label("Your question")).to_be_focused()
    page.locator("#model", has_text="demo").wait_for()
    page.keyboard.type(CAPITAL)
    page.keyboard.press("Enter")
    page.locator(".figures").wait_for()
    expect(page.get_by_label("Your question")).to_be_focused()
    summary, fact = page.locator(".how > summary"), page.locator(".written .fact-link")
    for _ in range(30):
        page.keyboard.press("Shift+Tab")
        if summary.evaluate("element => element === document.activeElement"):
            break
    page.keyboard.press("Enter")
    page.get_by_label("Your question").focus()
    for _ in range(30):
        page.keyboard.press("Shift+Tab")
        if fact.evaluate("element => element === document.activeElement"):
            break
    expect(fact).to_be_focused()
    page.locator(".tree-panel .branch").first.wait_for()
    expect(fact).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Tab")
    expect(page.locator(".tree-panel .taken a").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".tree-panel")).to_have_count(0)
    expect(fact).to_be_focused()


def test_a_fact_is_grey_until_it_is_whole(pages: Pages, tiny_index: refactx.Index) -> None:
    with gated(tiny_index) as (server, gate):
        page = pages.open(server.url)
        page.locator("#model", has_text="tiny").wait_for()
        gate.close_at(gate.passes + 2)
        ask(page, "hello Fact:")
        writing = page.locator(".fact.writing")
        writing.wait_for()
        gate.wait_until_reached()
        grey = colour(page, ".fact.writing")
        assert max(grey) - min(grey) < 25
        assert page.locator(".fact-link").count() == 0
        gate.open()
        page.locator(".figures").wait_for()
        facts = {link.inner_text() for link in page.locator(".fact.whole .fact-link").all()}
        assert facts
        assert all(f"{fact} ." in server.service.index for fact in facts)  # type: ignore[operator]
        expect(writing).to_have_count(0)
        red, green, blue = colour(page, ".fact.whole .fact-link")
        assert blue > max(red, green) + 50


@pytest.mark.parametrize("by", ["button", "key"])
def test_an_answer_can_be_stopped(pages: Pages, tiny_index: refactx.Index, by: str) -> None:
    with gated(tiny_index) as (server, gate):
        page = pages.open(server.url)
        page.locator("#model", has_text="tiny").wait_for()
        gate.close_at(gate.passes + 3)
        ask(page, "hello Fact:")
        page.locator(".fact").first.wait_for()
        gate.wait_until_reached()  # else the next question would
        if by == "button":
            page.get_by_role("button", name="Stop").click()
        else:
            page.keyboard.press("Escape")
        page.get_by_text("Stopped.").wait_for()
        expect(page.get_by_role("button", name="Ask", exact=True)).to_be_visible()
        assert eventually(lambda: any(line["status"] == 499 for line in server.requests))
        gate.open()
        assert eventually(lambda: server.service.slots.running == 0)
        ask(page, "hello Fact:")
        page.locator(".figures").wait_for()


def test_waiting_is_shown(pages: Pages, tiny_index: refactx.Index) -> None:
    with gated(tiny_index) as (server, gate):
        page = pages.open(server.url)
        page.locator("#model", has_text="tiny").wait_for()
        gate.close()
        ask(page, "hello Fact:")
        page.get_by_text("Waiting for the model").wait_for()
        gate.open()
        page.locator(".figures").wait_for()
        expect(page.get_by_text("Waiting for the model")).to_have_count(0)


def test_facts_without_ids_lead_to_their_place_in_the_index(pages: Pages, tiny_server: Running) -> None:
    page = pages.open(f"{tiny_server.url}/?q=hello+Fact%3A")
    page.locator(".figures").wait_for()
    page.locator(".written .fact-link").first.click()
    page.locator("#values .items").wait_for()
    assert urlsplit(page.url).path == "/explore"


def test_a_fact_of_another_graph_leads_to_its_subject_and_to_no_place_that_is_made_up(
    pages: Pages, tiny_server: Running
) -> None:
    page = pages.open(tiny_server.url)
    parts = {
        name: {"label": name, "id": f"http://e.org/{name}", "url": f"http://e.org/{name}"} for name in ("Ann", "p")
    }
    fact = {"text": "<Ann> <p> <b> .", "subject": parts["Ann"], "predicate": parts["p"], "object": {"literal": "b"}}
    fact |= {"inverse": False, "span": None, "proves": True}
    replay(page, replayed("Answer: b", facts=[fact]))
    ask(page, "Which?")
    links = page.locator("table.facts tbody a").evaluate_all("all => all.map((one) => one.getAttribute('href'))")
    assert links == ["/explore?subject=Ann", "/explore?subject=Ann&predicate=p", "http://e.org/Ann"]
    expect(page.locator("table.facts .source")).to_have_text("e.org ↗")


def test_qualifiers_stand_under_their_value_and_times_make_a_timeline(pages: Pages, tiny_server: Running) -> None:
    page = pages.open(tiny_server.url)

    def named(label: str) -> dict[str, str | None]:
        return {"label": label, "id": None, "url": None}

    facts = []
    for name, start, end in (("Ann Lee (politician)", "1986", "1990-04-30"), ("Bob Ray", "1990-04-30", None)):
        times = [("start time", start), *([("end time", end)] if end else [])]
        qualifiers = [{"predicate": named(of), "value": {"literal": value}} for of, value in times]
        text = f"<Springfield> <mayor> <{name}>{''.join(f' <{of}> <{value}>' for of, value in times)} ."
        facts.append(
            {"text": text, "subject": named("Springfield"), "predicate": named("mayor"), "object": named(name)}
        )
        facts[-1] |= {"inverse": False, "span": None, "proves": True, "qualifiers": qualifiers}
    replay(page, replayed("Answer: Ann Lee; Bob Ray", facts=facts))
    ask(page, "Which?")
    table = page.locator("table.facts")
    expect(table.locator("tbody tr:not(.below)")).to_have_count(2)
    expect(table.locator(".qualifiers").first).to_have_text("start time 1986end time 1990-04-30")
    plot = page.locator(".plot")
    expect(plot.locator("summary")).to_have_text("Timeline")
    expect(plot.locator("rect")).to_have_count(2)
    expect(plot.locator("svg text").first).to_have_text("Ann Lee")
    bars = plot.locator("rect").evaluate_all("all => all.map((one) => one.getBoundingClientRect().x)")
    assert bars[0] < bars[1]
    assert_accessible(page)


def test_references_of_a_fact_are_links_under_its_value(pages: Pages, tiny_server: Running) -> None:
    """Only those that are addresses of pages."""
    page = pages.open(tiny_server.url)
    parts = {name: {"label": name, "id": None, "url": None} for name in ("Ann", "p")}
    fact = {"text": "<Ann> <p> <b> .", "subject": parts["Ann"], "predicate": parts["p"], "object": {"literal": "b"}}
    urls = ["https://a.example/x", "javascript:alert(1)", "https://[", "https://www.wikidata.org/wiki/Q3"]
    replay(page, replayed("Answer: b", facts=[fact | {"inverse": False, "proves": True, "references": urls}]))
    ask(page, "Which?")
    shown = page.locator("table.facts .references")
    expect(shown).to_have_text("from a.example Wikidata")
    links = shown.locator("a").evaluate_all("all => all.map((one) => one.getAttribute('href'))")
    assert links == [urls[0], urls[3]]
    assert_accessible(page)


def test_the_answer_without_facts_stands_beside_and_its_facts_are_checked(pages: Pages, sample_server: str) -> None:
    page = pages.open(sample_server)
    page.get_by_role("switch").check()
    with page.expect_request(lambda one: '"demo:free"' in (one.post_data or "")):
        ask(page, CAPITAL)
    page.locator(".figures").nth(1).wait_for()
    free, grounded = page.locator(".column.free"), page.locator(".column.grounded")
    left, right = grounded.bounding_box(), free.bounding_box()
    assert left and right and left["x"] + left["width"] <= right["x"]
    made_up = free.locator(ANSWER).inner_text().count("<")
    if made_up:
        free.locator(".verdict").first.wait_for()
    page.get_by_role("switch").uncheck()
    expect(free).to_be_hidden()
    expect(page).to_have_url(f"{sample_server}/?q=What+is+the+capital+of+Alaska%3F&compare=1")


def test_a_made_up_fact_is_marked(pages: Pages, sample_server: str) -> None:
    text = f"Fact: <{ALASKA}> <capital> <Anchorage> .\nFact: <{ALASKA}> <capital> <{JUNEAU}> .\nAnswer: Anchorage"
    page = pages.open(sample_server)
    page.route("**/v1/chat/completions", lambda route: route.fulfill(**replayed(text)))
    page.get_by_role("switch").check()
    ask(page, CAPITAL)
    free = page.locator(".column.free")
    expect(free.locator(".verdict")).to_have_text(["not in the index", "in the index"])
    expect(free.locator(".nearest")).to_contain_text(JUNEAU)
    assert free.locator(ANSWER).inner_text().count("Answer:") == 1
    assert_accessible(page)


def test_a_query_is_shown_with_its_rows_and_its_sparql(pages: Pages, sample_server: str) -> None:
    page = pages.open(sample_server)
    query = answer_by_query(page, sample_server, f"list <{ALASKA}> <language used>")
    unfold(page)
    shown = page.locator(".query")
    shown.get_by_text("Rows (", exact=False).click()
    assert shown.locator(".rows li").count() == len(query["rows"]) > 3
    expect(shown.locator(".rows li a").first).to_have_attribute("href", "/explore?subject=" + encoded(query["rows"][0]))
    shown.get_by_text("SPARQL", exact=True).click()
    expect(shown.get_by_role("region", name="SPARQL")).to_have_text(query["sparql"].strip())
    expect(shown.locator("pre .of-word").first).to_have_text("PREFIX")
    expect(page.locator(FINAL)).to_have_text("them")
    rows = page.locator("table.facts tbody tr:not(.below)")
    expect(rows).to_have_count(10)
    page.get_by_role("button", name=f"Show all {len(query['facts'])}").click()
    expect(rows).to_have_count(len(query["facts"]))
    expect(page.get_by_text("No fact of the index proves this answer.")).to_have_count(0)


def test_a_conversation_has_its_turns_until_a_new_one_begins(pages: Pages, tiny_server: Running) -> None:
    page = pages.open(f"{tiny_server.url}/?q=hello+Fact%3A")
    page.locator(".figures").wait_for()
    with page.expect_request("**/v1/chat/completions") as sent:
        ask(page, "so Fact:")
    messages = sent.value.post_data_json["messages"]
    assert [(one["role"], one["content"]) for one in messages[::2]] == [("user", "hello Fact:"), ("user", "so Fact:")]
    written = page.locator(".turn").first.locator(".written .fact-link").first.inner_text()
    assert messages[1]["role"] == "assistant"
    assert messages[1]["content"].startswith(written)
    page.locator(".figures").nth(1).wait_for()
    page.get_by_role("button", name="New conversation").click()
    expect(page.locator(".turn")).to_have_count(0)
    expect(page).to_have_url(f"{tiny_server.url}/")
    expect(page.get_by_label("Your question")).to_be_focused()
    with page.expect_request("**/v1/chat/completions") as sent:
        ask(page, "hello")
    assert len(sent.value.post_data_json["messages"]) == 1


def test_examples_are_asked_with_a_click(pages: Pages, sample_server: str) -> None:
    page = pages.open(sample_server)
    page.locator("#examples-list a").first.wait_for()
    before = [one.inner_text() for one in page.locator("#examples-list a").all()]
    assert len(before) == 4
    page.locator("#examples-list a").first.click()
    expect(page.locator(".question")).to_have_text(before[0])
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#about-index")).to_contain_text("default")


def test_an_answer_is_copied_as_markdown(pages: Pages, sample_server: str) -> None:
    page = pages.open(f"{sample_server}/?q={quote(CAPITAL)}", permissions=["clipboard-read", "clipboard-write"])
    page.locator(".figures").wait_for()
    page.get_by_role("button", name="Copy as Markdown").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("() => navigator.clipboard.readText()") == (
        f"**{CAPITAL}**\n\nJuneau\n\n1. [{ALASKA} — capital — {JUNEAU}](https://www.wikidata.org/wiki/Q797#P36)\n"
    )


def test_texts_are_no_markup(pages: Pages, sample_server: str) -> None:
    text = "<img src=x onerror=alert(1)> **b** <script>alert(1)</script>\nAnswer: <b>c</b>"
    page = pages.open(sample_server)
    page.on("dialog", lambda _: pytest.fail("a script of a text ran"))
    page.route("**/v1/chat/completions", lambda route: route.fulfill(**replayed(text)))
    ask(page, text)
    page.locator(".figures").wait_for()
    assert page.locator(".question").inner_text() == text
    expect(page.locator(FINAL)).to_have_text("<b>c</b>")
    assert page.locator("main img, main script").count() == 0
    expect(page.get_by_text("No fact of the index proves this answer.")).to_be_visible()
    assert_accessible(page)


def encoded(row: dict[str, str]) -> str:
    """The label of a row as a browser writes it in a query."""
    return quote(row["label"], safe="*-._ ").replace(" ", "+")


def test_a_thought_is_folded_in_how_the_answer_was_found(pages: Pages, tiny_index: refactx.Index) -> None:
    tokenizer = thinking_tokenizer("option")
    with (
        scripted_model(tokenizer) as (model, script),
        running(model, tiny_index, tokenizer=tokenizer, max_tokens=60, think=80) as server,
    ):
        assert eventually(lambda: server.service.is_warm)
        text = "I look.\nFact: <Ann> <p> <b> .\nAnswer: no\n</think>\n\nAnswer: b"
        script.say(len(PROMPT.ids(tokenizer, "Who?", think=True)), text)
        page = pages.open(server.url)
        page.locator("#model", has_text="tiny").wait_for()
        ask(page, "Who?")
        page.locator(".figures").wait_for()
        expect(page.locator(FINAL)).to_have_text("b")
        page.locator(".how > summary").click()
        expect(page.locator(".thought summary")).to_have_text("Thought")
        expect(page.locator(".thought .written")).to_be_hidden()
        expect(page.locator("#said")).to_have_text("Answer: b. 1 fact.")
        assert_accessible(page)
        page.locator(".thought summary").click()
        expect(page.locator(".thought .fact-link")).to_have_text("<Ann> <p> <b>")
        expect(page.locator(".thought")).to_contain_text("Answer: no")
        assert_accessible(page)
        ask(page, "Who?")  # it has the answer before it, and not the thought
        page.locator(".figures").nth(1).wait_for()


def test_people_choose_among_the_models_of_a_server(
    pages: Pages, tiny_index: refactx.Index, second_index: refactx.Index
) -> None:
    with running(index=tiny_index, others=[second_index], max_tokens=60) as server:
        page = pages.open(server.url)
        page.locator("#model", has_text=f"tiny@{tiny_index.name}").wait_for()
        page.get_by_label("Model").select_option("tiny@second")
        page.locator("#about-index", has_text="second (1 fact)").wait_for()
        assert_accessible(page)
        ask(page, "Fact:")
        page.locator(".figures").wait_for()
        assert "model=tiny%40second" in page.url
        assert {part.inner_text() for part in page.locator("table.facts .label").all()} <= {"Zoe", "p", "b"}
        page.goto(f"{server.url}/explore")
        page.locator("#subjects", has_text="Zoe").wait_for()
        shared = pages.open(f"{server.url}/explore?model=tiny@second", width=360)
        shared.locator("#subjects", has_text="Zoe").wait_for()
        assert shared.evaluate("document.documentElement.scrollWidth") <= 360
        shared.goto(f"{server.url}/?model=another")
        expect(shared.get_by_label("Model")).to_have_value(f"tiny@{tiny_index.name}")


@pytest.mark.parametrize(
    ("name", "index"), [("tiny", "default"), ("second", "second"), ("tiny@second:free", "second"), ("no", "default")]
)
def test_an_address_may_name_a_model_in_short_or_an_index_and_keeps_its_question(
    pages: Pages, tiny_index: refactx.Index, second_index: refactx.Index, name: str, index: str
) -> None:
    with running(index=tiny_index, others=[second_index], max_tokens=20) as server:
        page = pages.open(f"{server.url}/?model={name}&q=Fact:")
        page.locator(".figures").wait_for()
        expect(page.get_by_label("Model")).to_have_value(f"tiny@{index}")
        expect(page.locator(".turn h2")).to_have_text("Fact:")
