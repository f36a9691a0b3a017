r"""The tokens of a SPARQL query that may have labels in angle brackets, such as `<Louisiana (state)>`.

Any text has tokens, also one that is no query or not a whole one. A label is written like an IRI, but may have spaces and
most signs. `<` is also a sign of comparisons. What it is follows from where it stands:

* within a string or a comment it is a part of that;
* within the brackets of an expression and after an operand (`?a <`, `5 <`, `) <`) it compares;
* everywhere else it opens an IRI or a label, up to the next `>` on the line.

What is in angle brackets is an IRI if it has a scheme (`http:`, `urn:`) and no character that an IRI cannot have, or if
the query declares a BASE. All else is a label.

In the inline dialect of PGMR a name is `wd:starturi New York enduri`: one token, of the kind `inline`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

TokenKind = Literal[
    "space", "comment", "string", "iri", "label", "name", "variable", "blank", "language", "number", "word", "other",
    "inline",
]  # fmt: skip

PREFIX = r"(?:[^\W\d_](?:[\w.-]{0,99}[\w-])?)?:"
"""The pattern of a prefix with its colon."""
_ESCAPE = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%]"
_LOCAL = rf"(?:(?:[\w:]|{_ESCAPE})(?:(?:[\w:.-]|{_ESCAPE})*(?:[\w:-]|{_ESCAPE}))?)?"
_STRING = r"""(?P<string>\"{3}(?:\"{0,2}(?:[^\"\\]|\\.))*\"{3}|'{3}(?:'{0,2}(?:[^'\\]|\\.))*'{3}
        |"(?:[^"\\\n\r]|\\.)*"|'(?:[^'\\\n\r]|\\.)*')"""
_INLINE = rf"""(?:(?P<open><[^<>"{{}}|^`\\\s]*)|{PREFIX}[ \t]*)?
    starturi[ \t]+(?P<text>\S[^\n\r]*?)(?<=\S)[ \t]+enduri(?(open)>|(?!\w))"""
_KINDS = rf"""(?P<space>\s+)
    |(?P<comment>\#[^\n\r]*)
    |{_STRING}
    |(?P<variable>[?$]\w+)
    |(?P<blank>_:\w(?:[\w.-]*[\w-])?)
    |(?P<language>@[A-Za-z]+(?:-[A-Za-z0-9]+)*)
    |(?P<name>{PREFIX}{_LOCAL})
    |(?P<number>(?:\d++\.?\d*+|\.\d++)[eE][+-]?\d++|\d*+\.\d++|\d++(?!\w))
    |(?P<word>\w+)
    |(?P<other>\^\^|&&|\|\||!=|<=|>=|.)"""
_TOKEN = re.compile(_KINDS, re.VERBOSE | re.DOTALL)
_TOKEN_OR_INLINE = re.compile(rf"(?P<inline>{_INLINE})|{_KINDS}", re.VERBOSE | re.DOTALL)
_INLINE_PARTS = re.compile(_INLINE, re.VERBOSE)
_ANGLE = re.compile(r"<([^<>\n\r]*)>")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_NOT_OF_IRIS = re.compile(r'[<>"{}|^`\\\x00-\x20]')
_OPERANDS = frozenset({"string", "iri", "label", "name", "variable", "blank", "language", "number", "inline"})
_NO_FUNCTIONS = frozenset({"VALUES", "A", "TRUE", "FALSE"})
"""Words after which a round bracket of patterns opens no expression."""
_ESCAPED = re.compile(rf"{_STRING}|\\(?:u([0-9A-Fa-f]{{4}})|U([0-9A-Fa-f]{{8}}))", re.VERBOSE | re.DOTALL)
_MARK = re.compile("^\ufeff", re.MULTILINE)
_LINE_ENDS = str.maketrans({"\n": r"\n", "\r": r"\r"})
_NONE: Mapping[int, str] = MappingProxyType({})

Span: TypeAlias = tuple[int, int]
"""The first of some tokens, and the one after the last, by their number."""


class Token(NamedTuple):
    """A token of a query. `start`: its position in the text."""

    kind: TokenKind
    text: str
    start: int

    @property
    def is_space(self) -> bool:
        """Whether it is white space or a comment."""
        return self.kind in ("space", "comment")

    @property
    def upper(self) -> str:
        """A keyword in upper case; empty if it is no word."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def label(self) -> str:
        """The text within the brackets of a label or an IRI."""
        return self.text[1:-1]

    @property
    def is_iri(self) -> bool:
        """Whether it is an IRI in angle brackets for SPARQL, which takes a label without spaces for a relative one."""
        return self.kind == "iri" or (self.kind == "label" and not _NOT_OF_IRIS.search(self.label))


def tokens_of(text: str, *, inline: bool = False) -> list[Token]:
    """Return the tokens of a query. Joined, they are the text. `inline`: names may be those of PGMR's inline dialect.

    >>> [token.text for token in tokens_of("?x <cast member> ?y FILTER(?x < 3 && ?y > 5)") if token.kind == "label"]
    ['<cast member>']
    >>> [token.kind for token in tokens_of("<http://a> <Ocean's 11 (film)> '<b>'") if not token.is_space]
    ['iri', 'label', 'string']
    >>> [(token.kind, token.text) for token in tokens_of("wd:starturi New York enduri.", inline=True)]
    [('inline', 'wd:starturi New York enduri'), ('other', '.')]
    """
    found, at, has_base = list[Token](), 0, False
    around = ["clause"]  # open brackets: `group` of patterns, `clause` outside of groups, `expression`, `list` of terms
    last = before_last = Token("space", "", 0)
    match_at = (_TOKEN_OR_INLINE if inline else _TOKEN).match
    while match := match_at(text, at):
        kind: TokenKind = match.lastgroup  # type: ignore[assignment]
        token = Token(kind, match[0], at)
        if kind == "other":
            sign = token.text
            if sign in ("<", "<=") and not (  # which compares after an operand
                around[-1] == "expression"
                and (last.kind in _OPERANDS or last.text in (")", "}") or last.upper in ("TRUE", "FALSE"))
            ):
                token = _angle(text, at, around[-1], has_base) or token
            elif sign == "(":
                around.append("expression" if _opens_expression(around[-1], last, before_last) else "list")
            elif sign == "{":
                around.append("group")
            elif sign == "[":
                around.append("list")
            elif sign in ")}]" and len(around) > 1:
                around.pop()
        found.append(token)
        at = match.end() if token.kind == kind else at + len(token.text)
        if kind in ("space", "comment"):
            continue
        if kind == "word" and around[-1] == "group" and token.upper == "SELECT":
            around[-1] = "clause"
        elif token.kind == "iri" and last.upper == "BASE":
            has_base = True
        before_last, last = last, token
    return found


def _angle(text: str, at: int, around: str, has_base: bool) -> Token | None:
    """Return the IRI or label that begins at a position; None if there is no closing bracket on the line."""
    match = _ANGLE.match(text, at)
    if match is None or (around == "expression" and match[1] != match[1].strip()):
        return None
    is_iri = not _NOT_OF_IRIS.search(match[1]) and (has_base or _SCHEME.match(match[1]) or not match[1])
    return Token("iri" if is_iri else "label", match[0], at)


def _opens_expression(around: str, last: Token, before_last: Token) -> bool:
    if around == "expression" or not last.text:
        return True
    if around == "list" or last.upper == "VALUES":
        return False
    if around == "clause":
        return True
    if last.kind in ("iri", "name", "label"):  # a function, or a predicate before a collection
        return before_last.upper == "FILTER"
    return bool(last.upper) and last.upper not in _NO_FUNCTIONS


def inline_parts(token: Token) -> tuple[str, str, str]:
    """Return what a token of the inline dialect has before its label, the label with single spaces, and what follows.

    >>> inline_parts(tokens_of("<http://www.wikidata.org/prop/starturi spouse  of enduri>", inline=True)[0])
    ('<http://www.wikidata.org/prop/', 'spouse of', '>')
    """
    match = _INLINE_PARTS.fullmatch(token.text)
    before = token.text[: token.text.index("starturi")].rstrip()
    return before, " ".join(match["text"].split()) if match else "", ">" if before.startswith("<") else ""


def plain_query(text: str) -> str:
    r"""Return a query without byte order marks, which begin files, and with characters in place of their escapes.

    Escapes (SPARQL 1.1, 19.2) within strings stay: parsers read them with the string.

    >>> plain_query(r"ASK \u007B wd:Q1 rdfs:label '\u0041' }")
    "ASK { wd:Q1 rdfs:label '\\u0041' }"
    """
    if "\ufeff" in text:
        text = _MARK.sub("", text)
    return _ESCAPED.sub(_character, text) if "\\u" in text or "\\U" in text else text


def _character(match: re.Match[str]) -> str:
    digits = match[2] or match[3]
    code = 0xD800 if digits is None else int(digits, 16)
    return match[0] if 0xD800 <= code < 0xE000 or code > 0x10FFFF else chr(code)  # no half of a character


def text_of(tokens: Sequence[Token], span: Span, texts: Mapping[int, str] = _NONE) -> str:
    """Return the text of some tokens, with others in place of those in `texts`, by number."""
    return "".join(texts.get(at, tokens[at].text) for at in range(*span))


def joined(
    tokens: Iterable[Token], texts: Mapping[int, str] = _NONE, *, lower: bool = False, one_line: bool = False
) -> str:
    r"""Return tokens as text, without white space at its ends.

    `texts`: what stands in place of tokens, by their starts; `lower`: keywords and functions in lower case; `one_line`:
    without comments, with one space for each white space, and with `\n` for a line end within a string.
    """
    parts = list[str]()
    for token in tokens:
        text = texts.get(token.start, token.text)
        if one_line and token.is_space:
            if not parts or parts[-1] == " ":
                continue
            text = " "
        elif one_line and token.kind == "string":
            text = text.translate(_LINE_ENDS)
        elif lower and token.kind in ("word", "number"):
            text = text.lower()
        parts.append(text)
    return "".join(parts).strip()


def line_and_column(text: str, position: int) -> tuple[int, int]:
    r"""Return the line and the column of a position, counted from 1.

    >>> line_and_column("a\nbc", 3)
    (2, 2)
    """
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1
