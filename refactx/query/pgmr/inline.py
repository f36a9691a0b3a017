"""Labels within a query, in the inline dialect: `wd:starturi New York enduri`."""

import re

from refactx.query.sparql.tokens import PREFIX, Lexer, Token

_LABEL = rf"""(?:(?P<open><[^<>"{{}}|^`\\\s]*)|{PREFIX}[ \t]*)?
    starturi[ \t]+(?P<label>\S[^\n\r]*?)(?<=\S)[ \t]+enduri(?(open)>|(?!\w))"""
_MATCH = re.compile(_LABEL, re.VERBOSE)
_LEXER = Lexer(_LABEL)


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a query with placeholders or labels; labels are of the kind `extra`.

    >>> [(token.kind, token.text) for token in tokens_of("wd:starturi New York enduri.")]
    [('extra', 'wd:starturi New York enduri'), ('other', '.')]
    """
    return _LEXER.tokens(text)


def label_of(token: Token) -> str:
    """Return the label of a token of the kind `extra`, with one space for each white space."""
    match = _MATCH.fullmatch(token.text)
    return " ".join(match["label"].split()) if match else ""


def parts_around(token: Token) -> tuple[str, str]:
    """Return what a token of the kind `extra` has before and after its label and marks: a prefix, or parts of an IRI.

    >>> parts_around(tokens_of("<http://www.wikidata.org/prop/starturi spouse enduri>")[0])
    ('<http://www.wikidata.org/prop/', '>')
    """
    before = token.text[: token.text.index("starturi")].rstrip()
    return before, ">" if before.startswith("<") else ""
