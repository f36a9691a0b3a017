"""The texts of documents: plain text, Markdown, HTML, PDF, and lines of JSON; single files or a folder.

A document may come from anyone. So each file is read in a process of its own with limits of memory and seconds: what a file
does to its reader ends there, with one line that says so, and the next file is read.
"""

import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from refactx.errors import InputError, RefactxError, brief
from refactx.fact import line, written_part
from refactx.ingest.parallel import Process, ProcessEndedError, pickled
from refactx.lazy import require

FORMATS = {
    **dict.fromkeys((".txt", ".text", ".md", ".markdown"), "text"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    ".pdf": "pdf",
    **dict.fromkeys((".jsonl", ".ndjson"), "lines"),
}
"""How files are read, by the ends of their names."""
MEMORY, SECONDS = 1 << 30, 120.0
"""The bytes and seconds that reading a file may take."""
LARGEST, LONGEST, MOST_PAGES, LONGEST_LINE = 100 << 20, 10_000_000, 5000, 4 << 20
"""The most bytes of a file, other than lines of JSON; the most characters of its text; pages of a PDF; and bytes of a line of
JSON."""
_HIDDEN = frozenset(("script", "style", "template", "noscript", "head", "svg", "math", "iframe", "object", "textarea"))
_LINES = frozenset(("br", "tr", "dt", "dd", "option"))
_BLOCKS = frozenset(
    (
        *(
            "address",
            "article",
            "aside",
            "blockquote",
            "body",
            "caption",
            "div",
            "dl",
            "fieldset",
            "figcaption",
            "figure",
        ),
        *("footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "html", "li", "main", "nav", "ol", "p"),
        *("pre", "section", "table", "td", "th", "ul"),
    )
)
_HYPHEN = re.compile(r"(?<=[^\W\d_])-\n(?=[a-zß-ÿ])")
_FIELDS, _NAMES = ("text", "content", "body"), ("id", "url", "title", "name")


@dataclass(frozen=True, slots=True)
class Document:
    """A document: its `name`, that of its file or of its line in a file, and its text; `error`: why it could not be read."""

    name: str
    text: str = ""
    error: str = ""


def files_of(sources: Sequence[str]) -> list[Path]:
    """Return the files that sources are: these themselves, and of folders all files in them that can be read, by their names.

    Raises InputError for a source that is neither a file nor a folder, and for a file of another kind.
    """
    found = dict[Path, None]()
    for source in sources:
        path = Path(source)
        if path.is_dir():
            inner = sorted(one for one in path.rglob("*") if one.suffix.lower() in FORMATS and one.is_file())
            if not inner:
                raise InputError(f"the folder {source} has no documents: expected {', '.join(FORMATS)}")
            found |= dict.fromkeys(inner)
        elif not path.is_file():
            raise InputError(f"there is no file {source}: give documents, or a folder with some")
        elif path.suffix.lower() not in FORMATS:
            raise InputError(f"{source} is no document that can be read: expected {', '.join(FORMATS)}")
        else:
            found[path] = None
    if any(path.suffix.lower() == ".pdf" for path in found):
        require("pypdf", "pdf")
    return list(found)


def documents_of(path: Path, seconds: float = SECONDS) -> Iterator[Document]:
    """Yield the documents of a file: one, or one for each line of JSON. `seconds`: that reading may take.

    What cannot be read is a document with an error.
    """
    kind = FORMATS[path.suffix.lower()]
    if kind == "lines":
        yield from _lines(path)
        return
    try:
        if (size := path.stat().st_size) > LARGEST:
            raise InputError(f"it has {size >> 20:,} MiB: give files of at most {LARGEST >> 20}")
        with Process(pickled(read_text, kind), MEMORY) as process:
            yield Document(str(path), process.run(str(path), seconds))
    except TimeoutError:
        yield Document(str(path), error=f"it takes more than {seconds:g} seconds to read: give its text")
    except (ProcessEndedError, MemoryError):
        yield Document(str(path), error=f"it takes more than {MEMORY >> 30} GiB of memory to read: give its text")
    except (InputError, OSError) as error:
        yield Document(str(path), error=line(brief(str(error))))


def read_text(kind: str, path: str) -> str:
    """Return the text of a file, in this process. Raises InputError for one that has none."""
    content = Path(path).read_bytes()
    text = _pdf_text(content) if kind == "pdf" else _decoded(content)
    text = html_text(text) if kind == "html" else text
    if len(text) > LONGEST:
        raise InputError(f"its text has {len(text):,} characters: give documents of at most {LONGEST:,}")
    if not text.strip():
        raise InputError("it has no text: a PDF of pictures needs OCR before" if kind == "pdf" else "it has no text")
    return text


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"byte {error.start + 1:,} is no UTF-8: convert it, with `iconv -t UTF-8`") from None


def _lines(path: Path) -> Iterator[Document]:
    """Yield the documents of lines of JSON: texts, or objects with one."""
    with path.open("rb") as file:
        number = 0
        while content := file.readline(LONGEST_LINE + 1):
            number += 1
            name = f"{path}:{number}"
            if len(content) > LONGEST_LINE:
                while content and not content.endswith(b"\n"):
                    content = file.readline(LONGEST_LINE)
                yield Document(name, error=f"the line has more than {LONGEST_LINE >> 20} MiB: give shorter ones")
            elif content.strip():
                yield _of_line(name, content)


def _of_line(name: str, content: bytes) -> Document:
    try:
        found = json.loads(_decoded(content))
    except (ValueError, RecursionError, InputError) as error:
        return Document(name, error=f"it is no JSON: {line(brief(str(error)))}")
    text = next((found[key] for key in _FIELDS if key in found), None) if isinstance(found, dict) else found
    if not isinstance(text, str) or not text.strip():
        return Document(name, error=f"it is no text, and no object with one as {', '.join(_FIELDS)}")
    called = next((found[key] for key in _NAMES if isinstance(found.get(key), str | int)), "") if text != found else ""
    return Document(f"{name} ({written_part(str(called))})" if called else name, text)


class _HtmlText(HTMLParser):
    """The text of HTML, without what a reader does not see."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces, self._hidden = list[str](), list[str]()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in _HIDDEN:
            self._hidden.append(tag)
        self._break(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self._break(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._hidden:
            del self._hidden[self._hidden.index(tag) :]
        self._break(tag)

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.pieces.append(re.sub(r"\s+", " ", data))

    def _break(self, tag: str) -> None:
        if tag == "body":
            self._hidden.clear()  # a head that was not closed
        if tag in _BLOCKS or tag in _LINES:
            self.pieces.append("\n\n" if tag in _BLOCKS else "\n")


def html_text(html: str) -> str:
    """Return the text of HTML, its blocks as paragraphs.

    >>> html_text("<h1>Oslo</h1><script>var a = '<p>no</p>'</script><p>Oslo &amp; <b>Bergen</b></p>")
    'Oslo\\n\\nOslo & Bergen'
    """
    parser = _HtmlText()
    parser.feed(html)
    parser.close()
    return re.sub(r" *\n\s*\n\s*", "\n\n", "".join(parser.pieces)).strip()


def _pdf_text(content: bytes) -> str:
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    texts, size = list[str](), 0
    try:
        reader = PdfReader(io.BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            raise InputError("it is encrypted: give it without a password")
        if (pages := len(reader.pages)) > MOST_PAGES:
            raise InputError(f"it has {pages:,} pages: give files of at most {MOST_PAGES:,}")
        for page in reader.pages:
            texts.append(page.extract_text())
            if (size := size + len(texts[-1])) > LONGEST:
                raise InputError(f"its text has more than {LONGEST:,} characters: give a part of it")
    except (RefactxError, MemoryError):
        raise
    except (PyPdfError, Exception) as error:
        raise InputError(f"it is no PDF that can be read: {line(brief(str(error)))}") from None
    return _HYPHEN.sub("", "\n\n".join(texts))
