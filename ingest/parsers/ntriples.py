"""The grammar of N-Triples (https://www.w3.org/TR/rdf12-n-triples/), line by line, without anything about Wikidata.

A line is a triple, white space, a comment, a version, or malformed. Escapes are decoded; a wrong escape makes a line
malformed. The base direction of a literal (`@en--ltr`) is not part of its language.
"""

import re
from typing import NamedTuple

_ESCAPE = r"\\(?:[tbnrf\"'\\]|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8})"
_IRI = r'<([A-Za-z][A-Za-z0-9+.\-]*:[^\x00-\x20<>"{}|^`\\]*(?:\\u[0-9A-Fa-f]{4}[^\x00-\x20<>"{}|^`\\]*)*)>'
_BLANK = r"(_:\w(?:[\w.\-:\u00b7]*[\w\-:\u00b7])?)"
_LITERAL = (
    rf'"([^"\\\n\r]*(?:{_ESCAPE}[^"\\\n\r]*)*)"'
    rf"(?:@([a-zA-Z]+(?:-[a-zA-Z0-9]+)*)(?:--[a-zA-Z]+)?|[ \t]*\^\^[ \t]*{_IRI})?"
)
_START = rf"[ \t]*(?:{_IRI}|{_BLANK})[ \t]*{_IRI}[ \t]*(?:{_IRI}|{_BLANK}|{_LITERAL})[ \t]*"
_TERM = re.compile(rf"<<\(?{_START}\)?>>")  # RDF 1.2 has <<( ... )>> as object, RDF-star also << ... >> as subject
_NESTED_TERMS = 8
TRIPLE_TERM = "refactx:triple-term"
"""What stands for a triple term in a triple, as an IRI."""
_TRIPLE = re.compile(rf"{_START}\.[ \t]*(?:#.*)?\r?")
_EMPTY = re.compile(r"[ \t\r\ufeff]*")
_VERSION = re.compile(r"""[ \t\ufeff]*VERSION[ \t]*(?:"[^"]*"|'[^']*')[ \t]*(?:#.*)?\r?""")
_TURTLE_LINE = re.compile(
    rf"{_START}[;,].*|[ \t\ufeff]*(?:@(?:prefix|base|version)|(?i:PREFIX[ \t]+[^ \t<]*:|BASE)[ \t]*<).*"
)
_NODE = rb'[ \t]*(?:<[^<>"\s]*>|_:[^\s<>"]+)'
_VALUE = rb'[ \t]*(?:<<.*>>|"(?:[^"\\\n]|\\.)*"(?:@[\w-]+|[ \t]*\^\^%b)?)' % _NODE
_QUAD = re.compile(
    rb"^(%b%b(?:%b|%b))%b[ \t]*(?=\.[ \t]*(?:#.*)?$)" % (_NODE, _NODE, _NODE, _VALUE, _NODE), re.MULTILINE
)
_ONE_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_SHORT = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


class Triple(NamedTuple):
    """One triple.

    `subject` is an IRI or a blank node (`_:b1`); `predicate` an IRI. The object is either `node` (an IRI or a blank
    node) or `text`, a literal, with its `language` tag or its `datatype` IRI, or neither. `TRIPLE_TERM` stands for a
    triple term in `subject` or `node`.
    """

    subject: str
    predicate: str
    node: str | None = None
    text: str | None = None
    language: str | None = None
    datatype: str | None = None


def parse_line(line: str) -> Triple | None:
    r"""Return the triple on a line without its line feed; None if the line is malformed, blank or a comment.

    >>> parse_line(r'<x:s> <x:p> "a \"b\" \u00e9"@en . # comment')
    Triple(subject='x:s', predicate='x:p', node=None, text='a "b" é', language='en', datatype=None)
    >>> parse_line("<relative> <x:p> <x:o> .") is None
    True
    """
    match = _TRIPLE.fullmatch(line)
    if match is None and "<<" in line:
        match = _TRIPLE.fullmatch(_without_terms(line))
    if match is None:
        return None
    subject, blank_subject, predicate, node, blank_node, text, language, datatype = match.groups()
    if "\\" in line:
        try:
            subject, predicate, node, text, datatype = (
                unescape(part) if part and "\\" in part else part for part in (subject, predicate, node, text, datatype)
            )
        except (ValueError, OverflowError):
            return None
    return Triple(subject or blank_subject, predicate, node or blank_node, text, language, datatype)


def empty_line(line: str) -> str | None:
    """Return `blank` or `comment` for a line that needs no triple; None for any other line.

    >>> empty_line(" "), empty_line("# made by hand"), empty_line('VERSION "1.2"'), empty_line("<x:s>")
    ('blank', 'comment', 'comment', None)
    """
    if _EMPTY.fullmatch(line):
        return "blank"
    return "comment" if line.lstrip(" \t\ufeff").startswith("#") or _VERSION.fullmatch(line) else None


def other_syntax(line: str) -> str | None:
    """Return the syntax that a line is in which is certainly no N-Triples: `Turtle` or `N-Quads`; None for other lines.

    >>> other_syntax("<x:s> <x:p> <x:o> ;"), other_syntax("<x:s> <x:p> <x:o> <x:g> ."), other_syntax("junk ;")
    ('Turtle', 'N-Quads', None)
    """
    if _TURTLE_LINE.fullmatch(_without_terms(line)):
        return "Turtle"
    return "N-Quads" if _QUAD.match(line.encode()) else None


def _without_terms(line: str) -> str:
    """Return a line with `TRIPLE_TERM` for each triple term, from the innermost on."""
    for _ in range(_NESTED_TERMS):
        shorter = _TERM.sub(f"<{TRIPLE_TERM}>", line) if "<<" in line else line
        if shorter == line:
            break
        line = shorter
    return line


def without_graphs(block: bytes) -> bytes:
    """Return a block of N-Quads lines as N-Triples: without the names of graphs.

    >>> without_graphs(b'<x:s> <x:p> "o"@en <x:g> .')
    b'<x:s> <x:p> "o"@en .'
    """
    return _QUAD.sub(rb"\1 ", block)


def unescape(text: str) -> str:
    r"""Return the text that escapes stand for. A surrogate pair, which some exporters write, becomes one character.

    Raises:
        ValueError, OverflowError: an escape stands for no character (half a surrogate pair, or beyond U+10FFFF).

    >>> unescape(r"\U0001F600 \uD83D\uDE00") == "\U0001F600 \U0001F600"
    True
    """
    if "\\" not in text:
        return text
    decoded = _ONE_ESCAPE.sub(lambda m: _SHORT[m[3]] if m[3] else chr(int(m[1] or m[2], 16)), text)
    if decoded.isascii():
        return decoded
    return decoded.encode("utf-16", "surrogatepass").decode("utf-16")
