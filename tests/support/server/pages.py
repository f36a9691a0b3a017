"""Pages in a real browser, Debian's chromium, and what axe-core finds wrong with them."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

pytest.importorskip("playwright", reason="`make test-page` installs Playwright")
pytest.importorskip("axe_playwright_python")

import axe_playwright_python
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

import refactx
from support.server.running import Gate, Running, eventually, running

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
EXPECTED = ("Failed to load resource",)
"""Beginnings of what a browser itself says in its console about replies with an error."""
HEBREW = "ירושלים (עיר)"
FACTS = ["<Ann> <p> <b>", "<Ann> <p> <c>", "<Ann> <q> <Bo>", "<Bo> <q of> <Ann>", f"<{HEBREW}> <שם> <אורשלים>"]
FACTS += [f"<Bo> <p> <{n}>" for n in range(150)]


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium on PATH: apt install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Pages:
    """Opens pages, each in a context of its own, and collects what their scripts complain about."""

    def __init__(self, browser: Browser) -> None:
        self._browser, self._contexts = browser, list[BrowserContext]()
        self.complaints: list[str] = []

    def open(self, url: str, *, width: int = 1280, height: int = 800, **options: Any) -> Page:
        """Open an address. `options`: those of Playwright's `new_context`."""
        context = self._browser.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(60_000)
        self._contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda line: self._console(line.type, line.text))
        page.goto(url)
        return page

    def close(self) -> None:
        """Close all pages, and fail if a script has complained."""
        for context in self._contexts:
            context.close()
        assert self.complaints == []

    def _console(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not text.startswith(EXPECTED):
            self.complaints.append(text)


def violations(page: Page) -> list[str]:
    """What axe-core finds wrong with a page as it is: its rules and the elements."""
    page.evaluate(AXE)
    found = page.evaluate("() => axe.run({resultTypes: ['violations']})")
    assert len(found["passes"]) > 10  # it has looked
    return [f"{one['id']}: {node['html']}" for one in found["violations"] for node in one["nodes"]]


def assert_accessible(page: Page) -> None:
    """Fail if axe-core finds something in light or in dark colours."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found = violations(page)
        if found:
            pytest.fail(f"in {scheme} colours: {found}")


def colour(page: Page, selector: str, name: str = "color") -> tuple[int, ...]:
    """The colour of the first element that matches, as red, green and blue."""
    text = page.locator(selector).first.evaluate(
        """(element, name) => {
            const context = document.createElement("canvas").getContext("2d");
            context.fillStyle = getComputedStyle(element).getPropertyValue(name);
            context.fillRect(0, 0, 1, 1);
            return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
        }""",
        name,
    )
    return tuple(text)


def ask(page: Page, question: str) -> None:
    """Type a question and send it."""
    page.get_by_label("Your question").fill(question)
    page.keyboard.press("Enter")


def answer_by_query(page: Page, url: str, line: str) -> dict[str, Any]:
    """Ask a question whose answer has the query of a line, as the server runs it. Return the query."""
    query: dict[str, Any] = httpx2.post(f"{url}/v1/query", json={"question": line}).json()
    facts = [fact | {"proves": True, "span": None} for fact in query["facts"]]
    replay(page, replayed(f"Query: {line} .\nAnswer: them", [query], facts))
    ask(page, "Which parts has Alaska?")
    return query


def replay(page: Page, reply: dict[str, Any]) -> None:
    """Let the page have a reply to its questions."""
    page.route("**/v1/chat/completions", lambda route: route.fulfill(**reply))


def replayed(
    text: str, queries: list[object] | None = None, facts: list[Any] | None = None, *, unknown: bool = False
) -> dict[str, Any]:
    """The stream of an answer, with facts in no text, as the server sends it."""
    answer = text.rpartition("Answer:")[2].strip()
    final = {"answer": answer, "unknown": unknown, "confidence": None, "facts": facts or [], "queries": queries or []}
    final |= {"forward_passes": 1, "turns_left_out": 0}
    chunks: list[object] = [
        {"choices": [{"delta": {"content": text}, "finish_reason": None}]},
        {"choices": [{"delta": {"refactx": final}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"completion_tokens": 1}},
    ]
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return {"body": "".join(lines) + "data: [DONE]\n\n", "content_type": "text/event-stream"}


@contextmanager
def gated(index: refactx.Index, **options: object) -> Iterator[tuple[Running, Gate]]:
    """A server of the tiny model, which waits at the gate if that is closed."""
    gate = Gate()
    with running(gate.model, index=index, **{"max_tokens": 60, **options}) as server:
        assert eventually(lambda: server.service.is_warm)
        try:
            yield server, gate
        finally:
            gate.open()
