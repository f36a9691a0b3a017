"""Every message of docs/how-to/symptoms.md is one of the code: its parts between `…` stand in one text, in order."""

import ast
import re
from collections.abc import Iterator

import pytest
from support.doc_pages import DOCS, ROOT

PAGE = (DOCS / "how-to" / "symptoms.md").read_text(encoding="utf-8")
BOLD = [re.sub(r"\s+", " ", text) for text in re.findall(r"\*\*(.+?)\*\*", PAGE, re.DOTALL)]
MESSAGES = [text.strip("`") for text in BOLD if text.startswith("`") and text.endswith("`")]


def texts() -> Iterator[str]:
    """The texts of the code, where `…` stands for what is put into one."""
    for path in [*(ROOT / "refactx").rglob("*.py"), *(ROOT / "ingest").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


@pytest.fixture(scope="module")
def code() -> list[str]:
    return list(texts())


def test_the_page_has_messages() -> None:
    assert len(MESSAGES) >= 20


@pytest.mark.parametrize("message", MESSAGES)
def test_the_code_has_the_message(message: str, code: list[str]) -> None:
    pattern = re.compile(".*".join(re.escape(part) for part in message.split("…")), re.DOTALL)
    assert any(pattern.search(text) for text in code)
