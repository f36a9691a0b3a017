"""The terms of parsed queries: texts as SPARQL writes them, `?x`, `<http://e.org/a>`, `"cane"@it`, `_:b1`."""

import re

_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"(?:@([\w-]+)|\^\^<([^>]*)>)?', re.DOTALL)
_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_PLAIN = {escape: character for character, escape in _ESCAPED.items()}


def is_variable(term: str) -> bool:
    """Return whether a term is a variable."""
    return term.startswith("?")


def is_blank(term: str) -> bool:
    """Return whether a term is a blank node, which is a variable that has no name."""
    return term.startswith("_:")


def is_literal(term: str) -> bool:
    """Return whether a term is a literal."""
    return term.startswith('"')


def iri_of(term: str) -> str | None:
    """Return the IRI of a term, None if it is none.

    >>> iri_of("<http://e.org/a>"), iri_of("?x")
    ('http://e.org/a', None)
    """
    return term[1:-1] if term.startswith("<") else None


def literal(text: str, language: str = "", datatype: str = "") -> str:
    r"""Return a literal as a term.

    >>> literal('say "ciao"', "it"), literal("3", datatype="http://www.w3.org/2001/XMLSchema#integer")
    ('"say \\"ciao\\""@it', '"3"^^<http://www.w3.org/2001/XMLSchema#integer>')
    """
    written = "".join(_ESCAPED.get(character, character) for character in text)
    return f'"{written}"' + (f"@{language}" if language else f"^^<{datatype}>" if datatype else "")


def parts_of_literal(term: str) -> tuple[str, str, str] | None:
    """Return the text, the language and the data type of a literal; None for another term.

    >>> parts_of_literal('"cane"@it'), parts_of_literal("?x")
    (('cane', 'it', ''), None)
    """
    match = _LITERAL.fullmatch(term)
    if match is None:
        return None
    text = re.sub(r"\\.", lambda escape: _PLAIN.get(escape[0], escape[0][1]), match[1], flags=re.DOTALL)
    return text, match[2] or "", match[3] or ""


def text_of_literal(term: str) -> str | None:
    """Return the text of a literal without its quotes; None for another term."""
    parts = parts_of_literal(term)
    return None if parts is None else parts[0]
