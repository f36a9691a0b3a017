"""The terminals of SPARQL 1.1 with their text, so that some are replaced and all others stay as they are.

Only what may contain or look like a name is told apart: white space, comments, strings, IRIs, prefixed names, marks
(variables, blank nodes, language tags, `^^`) and words. Any other character is a token of its own. So what looks like
a name within a string or a comment is none.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

PREFIX = r"(?:[^\W\d_](?:[\w.-]{0,99}[\w-])?)?:"
"""The pattern of a prefix with its colon."""
_ESCAPE = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%]"
_LOCAL = rf"(?:(?:[\w:]|{_ESCAPE})(?:(?:[\w:.-]|{_ESCAPE})*(?:[\w:-]|{_ESCAPE}))?)?"
_KINDS = rf"""(?P<iri><[^<>"{{}}|^`\\\x00-\x20]*>)
    |(?P<mark>[?$]\w+|_:\w(?:[\w.-]*[\w-])?|@[A-Za-z]+(?:-[A-Za-z0-9]+)*|\^\^)
    |(?P<name>{PREFIX}{_LOCAL})
    |(?P<word>\w+)
    |(?P<other>.)"""
_STRING = r"""(?P<string>\"{3}(?:\"{0,2}(?:[^\"\\]|\\.))*\"{3}|'{3}(?:'{0,2}(?:[^'\\]|\\.))*'{3}
        |"(?:[^"\\\n\r]|\\.)*"|'(?:[^'\\\n\r]|\\.)*')"""
_SPACES = rf"(?P<space>\s+)|(?P<comment>\#[^\n\r]*)|{_STRING}"
_ESCAPED = re.compile(rf"{_STRING}|\\(?:u([0-9A-Fa-f]{{4}})|U([0-9A-Fa-f]{{8}}))", re.VERBOSE | re.DOTALL)
_MARK = re.compile("^\ufeff", re.MULTILINE)
_LINE_ENDS = str.maketrans({"\n": r"\n", "\r": r"\r"})


@dataclass(frozen=True, slots=True)
class Token:
    """A token: its kind (`space`, `comment`, `string`, `iri`, `mark`, `name`, `word`, `other`), and where it starts."""

    kind: str
    text: str
    start: int

    @property
    def is_space(self) -> bool:
        """Whether it is white space or a comment."""
        return self.kind in ("space", "comment")


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


class Lexer:
    """A lexer of SPARQL. `extra`: the pattern of a further kind of token (`extra`), in the syntax of `re.VERBOSE`.

    >>> [token.text for token in Lexer().tokens("?x wdt:P31 'wd:Q5' # wd:Q5") if not token.is_space]
    ['?x', 'wdt:P31', "'wd:Q5'"]
    """

    def __init__(self, extra: str = "(?!)") -> None:
        self._pattern = re.compile(rf"{_SPACES}|(?P<extra>{extra})|{_KINDS}", re.VERBOSE | re.DOTALL)

    def tokens(self, text: str) -> list[Token]:
        """Return the tokens of a query, or of any text that begins like one. Joined, they are the text."""
        return [Token(match.lastgroup or "", match[0], match.start()) for match in self._pattern.finditer(text)]


def joined(
    tokens: Iterable[Token],
    texts: Mapping[int, str] = MappingProxyType({}),
    *,
    lower: bool = False,
    one_line: bool = False,
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
        elif lower and token.kind == "word":
            text = text.lower()
        parts.append(text)
    return "".join(parts).strip()
