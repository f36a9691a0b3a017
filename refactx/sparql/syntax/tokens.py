"""The tokens of a SPARQL query that may have labels in angle brackets, such as `<Louisiana (state)>`.

A label is written like an IRI, but may have spaces and most signs, so no parser of SPARQL takes it. `<` is also a sign
of comparisons. What it is follows from where it stands:

* within a string or a comment it is a part of that;
* within the brackets of an expression and after an operand (`?a <`, `5 <`, `) <`) it compares;
* everywhere else it opens an IRI or a label, up to the next `>` on the line.

What is in angle brackets is an IRI if it has a scheme (`http:`, `urn:`) and no character that an IRI cannot have, or if
the query declares a BASE. All else is a label.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

TokenKind = Literal[
    "space", "comment", "string", "iri", "label", "name", "variable", "blank", "language", "number", "word", "other"
]

_PREFIX = r"(?:[^\W\d_](?:[\w.-]{0,99}[\w-])?)?:"
_ESCAPE = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%]"
_LOCAL = rf"(?:(?:[\w:]|{_ESCAPE})(?:(?:[\w:.-]|{_ESCAPE})*(?:[\w:-]|{_ESCAPE}))?)?"
_TOKEN = re.compile(
    rf"""(?P<space>\s+)
    |(?P<comment>\#[^\n\r]*)
    |(?P<string>\"{{3}}(?:\"{{0,2}}(?:[^\"\\]|\\.))*\"{{3}}|'{{3}}(?:'{{0,2}}(?:[^'\\]|\\.))*'{{3}}
        |"(?:[^"\\\n\r]|\\.)*"|'(?:[^'\\\n\r]|\\.)*')
    |(?P<variable>[?$]\w+)
    |(?P<blank>_:\w(?:[\w.-]*[\w-])?)
    |(?P<language>@[A-Za-z]+(?:-[A-Za-z0-9]+)*)
    |(?P<name>{_PREFIX}{_LOCAL})
    |(?P<number>(?:\d++\.?\d*+|\.\d++)[eE][+-]?\d++|\d*+\.\d++|\d++(?!\w))
    |(?P<word>\w+)
    |(?P<other>\^\^|&&|\|\||!=|<=|>=|.)""",
    re.VERBOSE | re.DOTALL,
)
_ANGLE = re.compile(r"<([^<>\n\r]*)>")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_NOT_OF_IRIS = re.compile(r'[<>"{}|^`\\\x00-\x20]')
_OPERANDS = frozenset({"string", "iri", "label", "name", "variable", "blank", "language", "number"})
_NO_FUNCTIONS = frozenset({"VALUES", "A", "TRUE", "FALSE"})
"""Words after which a round bracket of patterns opens no expression."""

Span: TypeAlias = tuple[int, int]
"""The first of some tokens, and the one after the last, by their number."""


@dataclass(frozen=True, slots=True)
class Token:
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
        """The text within the brackets of a label."""
        return self.text[1:-1]


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a query. Joined, they are the text.

    >>> [token.text for token in tokens_of("?x <cast member> ?y FILTER(?x < 3 && ?y > 5)") if token.kind == "label"]
    ['<cast member>']
    >>> [token.kind for token in tokens_of("<http://a> <Ocean's 11 (film)> '<b>'") if not token.is_space]
    ['iri', 'label', 'string']
    """
    return list(_Tokens(text))


def text_of(tokens: Sequence[Token], span: Span, texts: Mapping[int, str] = MappingProxyType({})) -> str:
    """Return the text of some tokens, with others in place of those in `texts`, by number."""
    return "".join(texts.get(at, tokens[at].text) for at in range(*span))


def line_and_column(text: str, position: int) -> tuple[int, int]:
    r"""Return the line and the column of a position, counted from 1.

    >>> line_and_column("a\nbc", 3)
    (2, 2)
    """
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1


class _Tokens:
    """The tokens of a text, with what is known of brackets around the next one.

    `_around`: the open brackets: a `group` of patterns, a `clause` (outside of groups: SELECT, GROUP BY), an
    `expression`, or a `list` (of terms, or of a path).
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._around = ["clause"]
        self._last: Token | None = None
        self._before_last: Token | None = None
        self._has_base = False

    def __iter__(self) -> Iterator[Token]:
        at = 0
        while at < len(self._text):
            token = self._angle(at) if self._text[at] == "<" and not self._compares() else None
            if token is None:
                match = _TOKEN.match(self._text, at)
                if match is None:  # cannot be: the last alternative is any character
                    return
                kind: TokenKind = match.lastgroup  # type: ignore[assignment]
                token = Token(kind, match[0], at)
            yield token
            at += len(token.text)
            if not token.is_space:
                self._follow(token)

    def _angle(self, at: int) -> Token | None:
        """Return the IRI or label that begins at a position; None if there is no closing bracket on the line."""
        match = _ANGLE.match(self._text, at)
        if match is None or (self._around[-1] == "expression" and match[1] != match[1].strip()):
            return None
        is_iri = not _NOT_OF_IRIS.search(match[1]) and (self._has_base or _SCHEME.match(match[1]) or not match[1])
        return Token("iri" if is_iri else "label", match[0], at)

    def _compares(self) -> bool:
        """Return whether `<` would compare: in an expression, after an operand."""
        last = self._last
        if self._around[-1] != "expression" or last is None:
            return False
        return last.kind in _OPERANDS or last.text in (")", "}") or last.upper in ("TRUE", "FALSE")

    def _follow(self, token: Token) -> None:
        if token.text == "(" and token.kind == "other":
            self._around.append("expression" if self._opens_expression() else "list")
        elif token.text in ("{", "[") and token.kind == "other":
            self._around.append("group" if token.text == "{" else "list")
        elif token.text in (")", "}", "]") and token.kind == "other" and len(self._around) > 1:
            self._around.pop()
        elif token.upper == "SELECT" and self._around[-1] == "group":
            self._around[-1] = "clause"
        elif token.kind == "iri" and self._last is not None and self._last.upper == "BASE":
            self._has_base = True
        self._before_last, self._last = self._last, token

    def _opens_expression(self) -> bool:
        around, last = self._around[-1], self._last
        if around == "expression" or last is None:
            return True
        if around == "list" or last.upper == "VALUES":
            return False
        if around == "clause":
            return True
        if last.kind in ("iri", "name", "label"):  # a function, or a predicate before a collection
            return self._before_last is not None and self._before_last.upper == "FILTER"
        return bool(last.upper) and last.upper not in _NO_FUNCTIONS
