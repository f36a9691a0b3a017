"""The ten documents of docs/tutorials/documents.md: what is read of them, and that the page says so."""

import re
from pathlib import Path

from support.doc_pages import ROOT

from refactx.extraction.files import documents_of, files_of

FOLDER = ROOT / "docs" / "tutorials" / "documents"
PAGE = (ROOT / "docs" / "tutorials" / "documents.md").read_text(encoding="utf-8")


def test_the_facts_of_the_page_are_in_the_documents_and_what_is_hidden_is_in_none() -> None:
    assert len(list(FOLDER.iterdir())) == 10
    found = [one for path in files_of([str(FOLDER)]) for one in documents_of(path)]
    assert not any(one.error for one in found)
    texts = {Path(one.name).name: one.text for one in found}
    assert f"({len(texts)} documents" in PAGE
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| (?:yes|no) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 13
    for subject, _, _, document in rows:
        assert subject in texts[document]
    assert "Paris" not in texts["obama.html"]
