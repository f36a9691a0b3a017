"""Documents of strangers as texts: each format, and files that are broken, too large, or that take their reader along."""

import json
import zlib
from pathlib import Path

import pytest

from refactx.errors import InputError
from refactx.extraction import files
from refactx.extraction.files import Document, documents_of, files_of, html_text


def read(path: Path, content: bytes | str) -> list[Document]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(documents_of(path, 30))


def test_texts_are_read_as_they_are(tmp_path: Path) -> None:
    text = "# Oslo\n\nOslo is in Norway.\n"
    assert [one.text for one in read(tmp_path / "a.md", "\ufeff" + text)] == [text]
    assert [one.error for one in read(tmp_path / "b.txt", text.encode("utf-16"))] == [
        "byte 1 is no UTF-8: convert it, with `iconv -t UTF-8`"
    ]
    assert [one.error for one in read(tmp_path / "c.txt", " \n")] == ["it has no text"]


def test_html_is_what_a_reader_sees(tmp_path: Path) -> None:
    html = (
        "<html><head><title>no</title><style>p {}</style></head><body onload='x()'><h1>Oslo</h1>"
        "<script>document.write('<p>Fact: no</p>')</script><p>It is in\n<b>Norway</b> &amp; cold.<br>Yes"
        "<!-- no --><noscript>no</noscript><ul><li>one<li>two</ul>"
    )
    assert [one.text for one in read(tmp_path / "a.html", html)] == [
        "Oslo\n\nIt is in Norway & cold.\nYes\n\none\n\ntwo"
    ]
    assert html_text("<head><p>never closed<body><p>Oslo") == "Oslo"
    assert html_text("<b>" * 50_000 + "Oslo" + "<svg>" * 1000).strip() == "Oslo"


def test_lines_of_json_are_documents_and_bad_ones_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 2000)
    lines = [
        json.dumps("Oslo is in Norway."),
        json.dumps({"id": 7, "text": "Bergen too."}),
        "{",
        "[" * 1500,
        json.dumps({"title": "none"}),
        json.dumps("x" * 5000),
        "",
        json.dumps({"content": "The last."}),
    ]
    path = tmp_path / "a.jsonl"
    found = read(path, "\n".join(lines))
    assert [(one.name.removeprefix(str(path)), one.text) for one in found if not one.error] == [
        (":1", "Oslo is in Norway."),
        (":2 (7)", "Bergen too."),
        (":8", "The last."),
    ]
    assert [(one.name.removeprefix(str(path)), one.error.partition(":")[0]) for one in found if one.error] == [
        (":3", "it is no JSON"),
        (":4", "it is no JSON"),
        (":5", "it is no text, and no object with one as text, content, body"),
        (":6", "the line has more than 0 MiB"),
    ]


def test_a_folder_has_its_documents_in_order(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    for name in ("b.txt", "inner/a.md", "a.HTML", "picture.png"):
        (tmp_path / name).write_text("x")
    assert [path.name for path in files_of([str(tmp_path), str(tmp_path / "b.txt")])] == ["a.HTML", "b.txt", "a.md"]


@pytest.mark.parametrize(
    ("name", "reason"), [("none.txt", "there is no file"), ("a.png", "is no document"), ("", "has no documents")]
)
def test_what_is_no_document_is_said(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "a.png").write_bytes(b"x")
    with pytest.raises(InputError, match=reason):
        files_of([str(tmp_path / name)])


def test_a_file_that_is_too_large_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST", 1 << 20)
    assert "give files of at most 1" in read(tmp_path / "a.txt", "x" * (3 << 20))[0].error


def pdf(*pages: bytes, packed: bool = False) -> bytes:
    """A PDF of pages, given the operators of each."""
    kids = " ".join(f"{3 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} /MediaBox [0 0 600 800] /Resources << /Font << /F1 << "
        "/Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>".encode(),
    ]
    for n, page in enumerate(pages):
        content, how = (zlib.compress(page, 9), "/Filter /FlateDecode ") if packed else (page, "")
        objects.append(f"<< /Type /Page /Parent 2 0 R /Contents {4 + 2 * n} 0 R >>".encode())
        objects.append(f"<< {how}/Length {len(content)} >>\nstream\n".encode() + content + b"\nendstream")
    out, places = b"%PDF-1.4\n", []
    for n, one in enumerate(objects, 1):
        places.append(len(out))
        out += f"{n} 0 obj\n".encode() + one + b"\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    trailer = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode()


class TestPdf:
    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        pytest.importorskip("pypdf")

    def test_its_pages_are_read(self, tmp_path: Path) -> None:
        pages = (
            b"BT /F1 12 Tf 72 700 Td (Oslo is in Nor-) Tj 0 -14 Td (way.) Tj ET",
            b"BT /F1 12 Tf (Page two.) Tj ET",
        )
        assert [one.text for one in read(tmp_path / "a.pdf", pdf(*pages))] == ["Oslo is in Norway.\n\nPage two."]

    def test_one_that_is_broken_or_has_no_text_is_said(self, tmp_path: Path) -> None:
        assert "needs OCR" in read(tmp_path / "a.pdf", pdf(b""))[0].error
        assert "no PDF that can be read" in read(tmp_path / "b.pdf", b"%PDF-1.4\nno")[0].error

    def test_a_bomb_ends_its_own_process_alone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files, "MEMORY", 200 << 20)
        bomb = pdf(b"BT /F1 12 Tf " + b"(a) Tj " * (30 << 20) + b"ET", packed=True)
        assert len(bomb) < 1 << 20
        (found,) = read(tmp_path / "bomb.pdf", bomb)
        assert not found.text
        assert found.error
