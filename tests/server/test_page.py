"""The files of the page: they are served as what they are, load nothing from elsewhere, and write texts as texts."""

import re
from html.parser import HTMLParser
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient
from support.server.running import Running, running

from refactx.server.routes import PAGE, page_router

FILES = sorted(path for path in PAGE.rglob("*") if path.is_file())
HTML = [path for path in FILES if path.suffix == ".html"]
SCRIPTS = [path for path in FILES if path.suffix == ".js"]
STYLES = [path for path in FILES if path.suffix == ".css"]
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
MARKUP_FROM_TEXT = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc|\beval\b|Function\("
)
KEPT_ELSEWHERE = ("https://", "http://www.w3.org/2000/svg")
"""Beginnings of addresses, which scripts compare, and the name of SVG; neither is loaded."""


def name_of(path: Path) -> str:
    return path.relative_to(PAGE).as_posix()


def address_of(path: Path) -> str:
    return {"index.html": "/", "explore.html": "/explore", "sparql.html": "/sparql", "check.html": "/check"}.get(
        name_of(path), f"/{name_of(path)}"
    )


class Elements(HTMLParser):
    """The elements of a page, as pairs of tag and attributes, and whether a script or style has text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.has_inline, self._within = False, ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._within = tag

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        self.has_inline |= self._within in ("script", "style") and bool(data.strip())


def elements(path: Path) -> Elements:
    return Elements(path.read_text(encoding="utf-8"))


def test_the_files_of_a_folder_and_nothing_else_can_be_asked_for(tmp_path: Path) -> None:
    page = tmp_path / "page"
    (page / "icons").mkdir(parents=True)
    texts = {"index.html": "first", "explore.html": "walk", "page.js": "run()", "icons/a.svg": "<svg/>"}
    for name, text in texts.items():
        (page / name).write_text(text)
    (tmp_path / "secret").write_text("secret")
    app = FastAPI()
    app.include_router(page_router(page))
    client = TestClient(app)
    found = {path: client.get(path) for path in ("/", "/explore", "/page.js", "/icons/a.svg")}
    assert [reply.text for reply in found.values()] == list(texts.values())
    kinds = [reply.headers["content-type"].split(";")[0] for reply in found.values()]
    assert kinds == ["text/html", "text/html", "text/javascript", "image/svg+xml"]
    for path in ("/../secret", "/%2e%2e/secret", "/icons/../../secret", "/icons"):
        assert client.get(path).status_code == 404
    assert client.post("/").status_code == 405


def test_every_reply_lets_browsers_load_nothing_from_elsewhere(tiny: Running) -> None:
    for path in ("/v1/models", "/health", "/nothing", "/"):
        headers = httpx2.get(f"{tiny.url}{path}").headers
        assert headers["content-security-policy"].startswith("default-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"


def test_each_file_is_served_as_what_it_is(tiny: Running) -> None:
    assert {"index.html", "explore.html"} <= {name_of(path) for path in FILES}
    for path in FILES:
        reply = tiny.get(address_of(path))
        assert (reply.status_code, reply.content) == (200, path.read_bytes())
        assert reply.headers["content-type"].split(";")[0] == TYPES[path.suffix]
        assert "'self'" in reply.headers["content-security-policy"]
        assert "unsafe" not in reply.headers["content-security-policy"]


def test_the_page_needs_no_key_and_its_requests_do() -> None:
    with running(keys=("secret",)) as server:
        assert {server.get(address_of(path)).status_code for path in FILES} == {200}
        assert {server.get(path).status_code for path in ("/v1/models", "/v1/examples", "/v1/facts")} == {401}


@pytest.mark.parametrize("path", HTML, ids=name_of)
def test_pages_have_no_script_or_style_of_their_own_and_load_files_that_are_there(path: Path) -> None:
    page = elements(path)
    assert not page.has_inline
    names = {name_of(file) for file in FILES}
    for tag, given in page.found:
        assert not [name for name in given if name.startswith("on") or name == "style"], tag
        loaded = given.get("src") or (given.get("href") if tag == "link" else None)
        assert loaded is None or loaded.removeprefix("/") in names


@pytest.mark.parametrize("path", [*HTML, *SCRIPTS, *STYLES], ids=name_of)
def test_no_file_names_another_site(path: Path) -> None:
    for address in re.findall(r"(?:https?:)?//[\w.-]+\.\w+[\w/.-]*", path.read_text(encoding="utf-8")):
        assert address in KEPT_ELSEWHERE
    assert "@import" not in path.read_text(encoding="utf-8")
    assert "url(" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", SCRIPTS, ids=name_of)
def test_scripts_make_no_markup_from_texts(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert MARKUP_FROM_TEXT.findall(text) == []
    assert "localStorage" not in text or path.name in ("theme.js", "history.js")  # the key is kept until it is closed


@pytest.mark.parametrize("path", SCRIPTS, ids=name_of)
def test_scripts_import_names_that_are_there(path: Path) -> None:
    imports = re.findall(r"import \{([^}]+)\} from \"([^\"]+)\"", path.read_text(encoding="utf-8"))
    for names, file in imports:
        assert file.startswith("./")
        text = (path.parent / file).read_text(encoding="utf-8")
        exported = set(re.findall(r"export (?:async )?(?:function\*?|class|const) (\w+)", text))
        assert {name.strip() for name in names.split(",") if name.strip()} <= exported


def test_scripts_look_for_elements_that_are_there() -> None:
    ids = {path.stem: {given["id"] for _, given in elements(path).found if given.get("id")} for path in HTML}
    shared = ids["index"] & ids["explore"]
    for path in SCRIPTS:
        wanted = set(re.findall(r"getElementById\(\"([\w-]+)\"\)", path.read_text(encoding="utf-8")))
        page = next((name for name in ("explore", "sparql") if path.name.startswith(name)), "index")
        assert wanted <= ids[page]
    assert {"theme", "said", "banner", "about-index"} <= shared


@pytest.mark.parametrize("path", SCRIPTS, ids=name_of)
def test_scripts_are_short(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 300
    assert max(map(len, lines)) <= 120
