"""The files of the page, and the headers that keep it to its own."""

from pathlib import Path

import httpx2
from fastapi import FastAPI
from starlette.testclient import TestClient
from support.server.running import Running

from refactx.server.page_route import page_router


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
