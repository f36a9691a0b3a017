"""The text form of a fact: ` <subject> <predicate> <object>`, and back.

A part (subject, predicate or object) is one line of clean text without `<` or `>`, so that a fact always splits back
into its three parts. The terminator (` .`) is not part of a fact's text inside the tree.
"""

import re
import unicodedata
from dataclasses import dataclass

# Invisible characters that would make two equal-looking labels differ: zero-width space, word joiner, byte order mark,
# soft hyphen and the marks that steer writing direction. Zero-width (non-)joiners stay: emoji and several scripts
# are spelled with them.
_INVISIBLE = "\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff"
_REMOVED = re.compile(f"[{_INVISIBLE}\ud800-\udfff]")
_CONTROL_OR_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_PLAIN = re.compile(r"[!-;=?-~]+(?: [!-;=?-~]+)*")
_BRACKETS = str.maketrans({"<": "‹", ">": "›"})
_FACT = re.compile(r"\s*<([^<>]+)>\s+<([^<>]+)>\s+<([^<>]+)>\s*\.?\s*")

DESCRIPTIONS = ("description", "short description")
"""The predicates of facts that describe: they have no id, and no entity is called so."""
ALIAS, ALIAS_OF = " (alias)", "alias of"
"""What stands behind another name of an entity, and the predicate from it to the entity: `<JFK (alias)> <alias of> <...>`."""
MAX_PART_CHARACTERS = 1000
"""A longer part is cut here: it would cost a model over 250 tokens that it cannot choose, and PostgreSQL a whole page."""


def clean_part(text: str) -> str:
    """A label or literal as it stands inside a fact; empty if nothing visible is left.

    Control characters and any run of white space become one space, invisible characters go, `<` and `>` become the
    single guillemets `‹` and `›`, and the text is in Unicode NFC, the form that tokenizers with a normaliser write.
    It is not cut: see `MAX_PART_CHARACTERS`.

    >>> clean_part('a  <b>\\n c\\u200b')
    'a ‹b› c'
    """
    if _PLAIN.fullmatch(text):  # plain ASCII, the common case: nothing to do
        return text
    text = _CONTROL_OR_SPACE.sub(" ", _REMOVED.sub("", text)).translate(_BRACKETS)
    text = unicodedata.normalize("NFC", text).strip()
    # A mark or joiner with nothing before it would join the `<`: Unicode has a ≮.
    while text and unicodedata.category(text[0]) in ("Mn", "Mc", "Me", "Cf"):
        text = text[1:].lstrip()
    return text


def written_part(text: str) -> str:
    """A part as an ingest writes it: clean, and cut to `MAX_PART_CHARACTERS` with `…` as the last of them.

    >>> len(written_part("a" * 2000)), written_part("a" * 2000)[-2:]
    (1000, 'a…')
    """
    part = clean_part(text)
    return part if len(part) <= MAX_PART_CHARACTERS else part[: MAX_PART_CHARACTERS - 1].rstrip() + "…"


def unit(part: str) -> str:
    """A part with what surrounds it, the piece that is encoded on its own.

    >>> unit("Danny Boyle")
    ' <Danny Boyle>'
    """
    return f" <{part}>"


def verbalise(subject: str, predicate: str, object_: str) -> str:
    """The text of a fact as the tree holds it: three units, without the terminator.

    >>> verbalise("Danny Boyle", "date of birth", "1956-10-20")
    ' <Danny Boyle> <date of birth> <1956-10-20>'
    """
    return f" <{subject}> <{predicate}> <{object_}>"


def split_fact(text: str) -> tuple[str, str, str] | None:
    """Subject, predicate and object of a fact's text, with or without its terminator; None if it is not a fact.

    >>> split_fact("<Danny Boyle> <date of birth> <1956-10-20> .")
    ('Danny Boyle', 'date of birth', '1956-10-20')
    >>> split_fact("<Danny Boyle> <date of birth>") is None
    True
    """
    match = _FACT.fullmatch(text)
    return (match[1].strip(), match[2].strip(), match[3].strip()) if match else None


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that a model wrote.

    `text` is `<subject> <predicate> <object> .`; `token_span` is its half-open range `(start, stop)` of positions in
    the sequence it was read from, from the first token after the trigger to the end of the terminator.
    """

    subject: str
    predicate: str
    object: str
    text: str
    token_span: tuple[int, int]
