"""How deep the parts of a text are nested, found before a parser that would run out of its stack, or of memory, reads it.

JSON-LD of 5,000 nested objects ends a process with a signal, as triple terms in triple terms do; 30,000 nested elements
of XML take time that grows with the square; and 724 bytes of entities that name each other stand for gigabytes.
"""

import re
from collections.abc import Callable, Generator, Iterator
from urllib.parse import urldefrag, urljoin
from xml.parsers import expat

import numpy as np

from refactx.errors import InputError
from refactx.fact import visible
from refactx.ingest.sources import Format

MOST_NESTED = 500
"""Contexts nested so deep take JSON-LD's parser some 90 MB, and the next 500 three times that. Files of people have 10."""
MOST_ENTITY_CHARACTERS = 4096
"""Of what an entity of XML stands for: in ontologies, the begin of an IRI."""
_JSON_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_LONG = {
    quote: b"(?:[^%b\\\\]|\\\\.|%b(?!%b))*+%b" % (quote[:1], quote[:1], quote[:2], quote) for quote in (b'"""', b"'''")
}
_ENDS = {quote: re.compile(rest, re.DOTALL) for quote, rest in _LONG.items()}
"""What is left of a long string of Turtle, by the quotes that began it."""
_TURTLE_TEXT = re.compile(
    b"|".join(quote + rest for quote, rest in _LONG.items())
    + rb"""|(\"{3}|'{3}).*|"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+'|<[^<>"{}|^`\s]*+>|\\.|\#[^\n]*+|=>|<=|<-|->""",
    re.DOTALL,
)
"""Strings, IRIs, comments, escapes and the arrows of N3; or the quotes of a long string that does not end here."""
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{(<")], _STEPS[list(b"]})>")] = 1, -1
_ENTITY = re.compile(rb"""<!ENTITY\s+(?:%\s*)?([^\s"'>]+)\s+(?:"([^"]*)"|'([^']*)')""")
_REFERENCE = re.compile(rb"&([^#;&\s][^;&\s]*);")
_RDF, _XML = ("http://www.w3.org/1999/02/22-rdf-syntax-ns# ", "http://www.w3.org/XML/1998/namespace ")


def within_bounds(blocks: Iterator[bytes], form: Format, source: str) -> Generator[bytes, None, None]:
    """Yield blocks of whole lines after it is known that nothing in them is nested too deep for the parser of a format.

    Raises InputError, with the line, for a text that is, for XML that is none, and for an rdf:ID that is there twice.
    """
    of_xml = {"RDF/XML": _RdfXmlBounds, "GraphML": _XmlBounds}
    bounds = of_xml[form](source) if form in of_xml else _BracketBounds(form, source)
    for block in blocks:
        bounds.add(block)
        yield block
    bounds.end()


class _BracketBounds:
    """The depth of brackets in JSON, and in Turtle and the syntaxes like it."""

    def __init__(self, form: Format, source: str) -> None:
        self._source, self._is_json = source, form in ("JSON-LD", "JSON lines")
        self._depth, self._line, self._open = 0, 1, b""

    def add(self, block: bytes) -> None:
        begun, text = self._open, self._without_texts(block, rb"\1")
        depths = np.cumsum(_STEPS[np.frombuffer(text, np.uint8)], dtype=np.int64) + self._depth
        if len(depths) and depths.max() > MOST_NESTED:
            self._open = begun
            text = self._without_texts(block, lambda found: b"\n" * found[0].count(b"\n"))  # which has all line ends
            depths = np.cumsum(_STEPS[np.frombuffer(text, np.uint8)], dtype=np.int64) + self._depth
            line = self._line + text.count(b"\n", 0, int(np.argmax(depths > MOST_NESTED)))
            raise too_deep(self._source, line)
        self._depth = int(depths[-1]) if len(depths) else self._depth
        self._line += block.count(b"\n")

    def _without_texts(self, block: bytes, replacement: bytes | Callable[[re.Match[bytes]], bytes]) -> bytes:
        if self._is_json:
            return _JSON_STRING.sub(b"", block)
        left = b""
        if self._open:
            end = _ENDS[self._open].match(block)
            if end is None:
                return b""
            left, block = b"\n" * end[0].count(b"\n"), block[end.end() :]
        text = _TURTLE_TEXT.sub(replacement, block)
        self._open = text[-3:] if text.endswith((b'"""', b"'''")) else b""
        return left + text

    def end(self) -> None:
        """Nothing is left to check."""


class _XmlBounds:
    """The depth of elements of XML, and the size of its entities."""

    _between: str | None = None
    """What is between a namespace and a name; None: names are as they are written."""

    def __init__(self, source: str) -> None:
        self._source, self._depth = source, 0
        self._sizes: dict[bytes, int] = {}
        self._line = 1
        # Whatever it declares: its text is in UTF-8 here.
        self._parser = expat.ParserCreate("utf-8", self._between)
        self._parser.ordered_attributes = True  # a list, which is made in less time
        self._parser.StartElementHandler, self._parser.EndElementHandler = self._start, self._end

    def add(self, block: bytes) -> None:
        # pyoxigraph replaces entities in the declaration, and finds that in comments too.
        for found in _ENTITY.finditer(block):
            name, value = found[1], found[2] or found[3] or b""
            size = len(value) + sum(self._sizes.get(used, 0) for used in _REFERENCE.findall(value))
            if size > MOST_ENTITY_CHARACTERS:
                line = self._line + block.count(b"\n", 0, found.start())
                raise InputError(
                    f"{self._source}:{line}: the entity {name.decode(errors='replace')[:40]!r} stands for {size:,} characters: "
                    f"at most {MOST_ENTITY_CHARACTERS:,} are read; write its text where it is used"
                )
            self._sizes[name] = max(size, self._sizes.get(name, 0))
        self._parse(block, False)
        self._line += block.count(b"\n")

    def end(self) -> None:
        """Check that all elements have ended."""
        self._parse(b"", True)

    def _parse(self, block: bytes, is_last: bool) -> None:
        try:
            self._parser.Parse(block, is_last)
        except expat.ExpatError as error:
            raise not_xml(self._source, error) from None

    def _start(self, name: str, attributes: list[str]) -> None:
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise too_deep(self._source, self._parser.CurrentLineNumber)

    def _end(self, name: str) -> None:
        self._depth -= 1


class _RdfXmlBounds(_XmlBounds):
    """The same of RDF/XML, in which an `rdf:ID` names one thing: pyoxigraph takes two of one base for one thing."""

    _between = " "

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self._bases: list[tuple[int, str]] = [(-1, "")]  # each with the depth of its element
        self._lines: dict[tuple[str, str], int] = {}
        self._literal = 0  # the depth of the element whose content is text, 0 outside

    def _start(self, name: str, attributes: list[str]) -> None:
        super()._start(name, attributes)
        if self._literal or not attributes:
            return
        values = dict(zip(attributes[::2], attributes[1::2], strict=True))
        if (base := values.get(f"{_XML}base")) is not None:
            self._bases.append((self._depth, urljoin(self._bases[-1][1], urldefrag(base).url)))
        if (id_ := values.get(f"{_RDF}ID")) is not None:
            line = self._parser.CurrentLineNumber
            key = self._bases[-1][1], id_
            if key in self._lines:
                raise InputError(
                    f"{self._source}:{line}: this is not RDF/XML: rdf:ID {visible(id_[:100])!r} is that of line "
                    f"{self._lines[key]} too: say more of the same thing with rdf:about, or give this one another ID"
                )
            self._lines[key] = line
        if values.get(f"{_RDF}parseType", "Resource") not in ("Resource", "Collection", "Triple"):
            self._literal = self._depth

    def _end(self, name: str) -> None:
        if self._bases[-1][0] == self._depth:
            self._bases.pop()
        if self._literal == self._depth:
            self._literal = 0
        super()._end(name)


def too_deep(source: str, line: int) -> InputError:
    """Return the error for what is nested too deep."""
    return InputError(
        f"{source}:{line}: more than {MOST_NESTED} elements, objects, lists or brackets are nested in each other here: "
        "files of data have fewer; check where this one comes from"
    )


def not_xml(source: str, error: expat.ExpatError) -> InputError:
    """Return the error for XML that is none."""
    return InputError(
        f"{source}:{error.lineno}:{error.offset}: this is not XML: {expat.ErrorString(error.code)}: correct the file, or "
        "export it again"
    )
