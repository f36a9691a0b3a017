"""The grammar of N-Triples (https://www.w3.org/TR/n-triples/), line by line, without anything about Wikidata.

A line is a triple, white space, a comment, or malformed. Escapes are decoded; a wrong escape makes a line malformed.
"""

import re
from typing import NamedTuple

_ESCAPE = r"\\(?:[tbnrf\"'\\]|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8})"
_IRI = r'<([A-Za-z][A-Za-z0-9+.\-]*:[^\x00-\x20<>"{}|^`\\]*(?:\\u[0-9A-Fa-f]{4}[^\x00-\x20<>"{}|^`\\]*)*)>'
_BLANK = r"(_:\w(?:[\w.\-:\u00b7]*[\w\-:\u00b7])?)"
_LITERAL = rf'"([^"\\\n\r]*(?:{_ESCAPE}[^"\\\n\r]*)*)"(?:@([a-zA-Z]+(?:-[a-zA-Z0-9]+)*)|[ \t]*\^\^[ \t]*{_IRI})?'
_TRIPLE = re.compile(
    rf"[ \t]*(?:{_IRI}|{_BLANK})[ \t]*{_IRI}[ \t]*(?:{_IRI}|{_BLANK}|{_LITERAL})[ \t]*\.[ \t]*(?:#.*)?\r?"
)
_EMPTY = re.compile(r"[ \t\r\ufeff]*")
_ONE_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_SHORT = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


class Triple(NamedTuple):
    """One triple.

    `subject` is an IRI or a blank node (`_:b1`); `predicate` an IRI. The object is either `node` (an IRI or a blank
    node) or `text`, a literal, with its `language` tag or its `datatype` IRI, or neither.
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
    if match is None:
        return None
    subject, blank_subject, predicate, node, blank_node, text, language, datatype = match.groups()
    if "\\" in line:
        try:
            subject, predicate, node, text, datatype = (
                unescape(part) if part and "\\" in part else part for part in (subject, predicate, node, text, datatype)
            )
        except ValueError:
            return None
    return Triple(subject or blank_subject, predicate, node or blank_node, text, language, datatype)


def empty_line(line: str) -> str | None:
    """Return `blank` or `comment` for a line that needs no triple; None for any other line.

    >>> empty_line(" "), empty_line("# made by hand"), empty_line("<x:s>")
    ('blank', 'comment', None)
    """
    if _EMPTY.fullmatch(line):
        return "blank"
    return "comment" if line.lstrip(" \t\ufeff").startswith("#") else None


def unescape(text: str) -> str:
    r"""Return the text that escapes stand for. A surrogate pair, which some exporters write, becomes one character.

    Raises:
        ValueError: an escape stands for no character (half a surrogate pair, or beyond U+10FFFF).

    >>> unescape(r"\U0001F600 \uD83D\uDE00") == "\U0001F600 \U0001F600"
    True
    """
    if "\\" not in text:
        return text
    decoded = _ONE_ESCAPE.sub(lambda m: _SHORT[m[3]] if m[3] else chr(int(m[1] or m[2], 16)), text)
    if decoded.isascii():
        return decoded
    return decoded.encode("utf-16", "surrogatepass").decode("utf-16")
