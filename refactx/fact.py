"""The text form of a fact: ` <subject> <predicate> <object>`, and back.

A statement has qualifiers after its object, pairs of a name and a value: ` <start time> <1990>`. What stands before them is
the plain fact.

A part (subject, predicate, object, and so on) is one line of clean text without `<` or `>`, so that a fact always splits back
into its parts. The terminator (` .`) is not part of a fact's text inside the tree.
"""

import re
import unicodedata
from dataclasses import dataclass
from urllib.parse import quote

# Invisible characters that would make two equal-looking labels differ: zero-width space, word joiner, byte order mark,
# soft hyphen, the marks that steer writing direction, annotations, and tags, which a model reads and nobody sees.
# Zero-width (non-)joiners stay: emoji and several scripts are spelled with them.
_INVISIBLE = (
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
_REMOVED = re.compile(f"[{_INVISIBLE}\ud800-\udfff]")
_CONTROL_OR_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_PLAIN = re.compile(r"[!-;=?-~]+(?: [!-;=?-~]+)*")
_BRACKETS = str.maketrans({"<": "‹", ">": "›"})
_STEERS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
"""Characters that a terminal obeys, or that end a line, except line feed and tab."""
_STEERING = re.compile(f"[{_STEERS}]")
UNWRITTEN = re.compile(f"[\t\n{_STEERS}]")  # what neither a name nor an id has; its pattern is also one of RE2
_FACT = re.compile(r"\s*<([^<>]+)>\s+<([^<>]+)>\s+<([^<>]+)>((?:\s+<[^<>]+>\s+<[^<>]+>)*)\s*\.?\s*")
_QUALIFIER = re.compile(r"<([^<>]+)>\s+<([^<>]+)>")

Qualifiers = tuple[tuple[str, str], ...]
"""Pairs of a qualifier and its value, in their order."""

DESCRIPTIONS = ("description", "short description")
"""The predicates of descriptions: they have no id, and no entity has such a name."""
ALIAS, ALIAS_OF = " (alias)", "alias of"
"""The suffix of an alias, and the predicate from it to the entity: `<JFK (alias)> <alias of> <...>`."""
QUALIFIER_NAMES = {
    "starts": ("start", "start time", "start date", "from", "since", "begin", "begins", "valid from", "hired"),
    "ends": ("end", "end time", "end date", "to", "until", "till", "valid to", "valid until", "left"),
    "points": ("date", "year", "time", "when", "point in time", "on"),
    "ordinals": ("number", "ordinal", "series ordinal", "rank"),
}
"""What qualifiers with times, and those that number statements, are called in graphs and tables."""
UNKNOWN_END = "unknown"
"""The end of a statement that is known to have ended, at an unknown time."""
MAX_PART_CHARACTERS = 1000
"""A longer part is cut to this length: it would cost a model over 250 tokens between which it cannot choose, and
PostgreSQL a whole page."""

_WIKIDATA_ID = re.compile(r"[PQ][1-9]\d*", re.ASCII)
ADDRESS = re.compile(r"https?://[^\s<>]+")
"""The address of a page, all of a text."""

PAGE_FIELDS = re.compile(r"\{(id|local|label)\}")
"""What a pattern of pages has in it (`page_of`)."""


def clean_part(text: str) -> str:
    """Return a label or literal as it is written in a fact; empty if nothing visible is left.

    Each run of control characters and white space becomes one space, invisible characters are removed, `<` and `>`
    become the single guillemets `‹` and `›`, and the text is normalised to Unicode NFC, as tokenizers with a
    normaliser do. The length stays: see `cut_part`.

    >>> clean_part('a  <b>\\n c\\u200b')
    'a ‹b› c'
    """
    if _PLAIN.fullmatch(text):  # plain ASCII, the common case: nothing to do
        return text
    text = _CONTROL_OR_SPACE.sub(" ", _REMOVED.sub("", text)).translate(_BRACKETS)
    text = unicodedata.normalize("NFC", text).strip()
    # A combining mark or joiner at the beginning would join the `<` before it: Unicode has a ≮.
    while text and unicodedata.category(text[0]) in ("Mn", "Mc", "Me", "Cf"):
        text = text[1:].lstrip()
    return text


def written_part(text: str) -> str:
    """Return a label or literal as an ingest writes it: clean, and cut to `MAX_PART_CHARACTERS`.

    >>> len(written_part("a" * 2000)), written_part("a" * 2000)[-2:]
    (1000, 'a…')
    """
    return cut_part(clean_part(text))


def cut_part(part: str) -> str:
    """Return a clean part, cut to `MAX_PART_CHARACTERS` if it is longer; `…` is then the last of them."""
    return part if len(part) <= MAX_PART_CHARACTERS else part[: MAX_PART_CHARACTERS - 1].rstrip() + "…"


def unit(part: str) -> str:
    """Return a part with its brackets and the space before it, the text that is encoded on its own.

    >>> unit("Danny Boyle")
    ' <Danny Boyle>'
    """
    return f" <{part}>"


def verbalise(subject: str, predicate: str, object_: str, qualifiers: Qualifiers = ()) -> str:
    """Return the text of a fact as the tree holds it: three units and those of qualifiers, without the terminator.

    >>> verbalise("Danny Boyle", "date of birth", "1956-10-20")
    ' <Danny Boyle> <date of birth> <1956-10-20>'
    >>> verbalise("Springfield", "mayor", "Ann Lee", (("start time", "1990"),))
    ' <Springfield> <mayor> <Ann Lee> <start time> <1990>'
    """
    more = "".join(f" <{name}> <{value}>" for name, value in qualifiers)
    return f" <{subject}> <{predicate}> <{object_}>{more}"


def split_fact(text: str) -> tuple[str, str, str] | None:
    """Return the three parts of a fact's text, with or without its terminator; None if it is not a fact.

    Of a statement, these are the parts of the plain fact: `qualifiers_of` has the others.

    >>> split_fact("<Danny Boyle> <date of birth> <1956-10-20> .")
    ('Danny Boyle', 'date of birth', '1956-10-20')
    >>> split_fact("<Danny Boyle> <date of birth>") is None
    True
    """
    match = _FACT.fullmatch(text)
    return (match[1].strip(), match[2].strip(), match[3].strip()) if match else None


def qualifiers_of(text: str) -> Qualifiers:
    """Return the qualifiers in a fact's text; none of a plain fact, and of what is no fact.

    >>> qualifiers_of("<Springfield> <mayor> <Ann Lee> <start time> <1990> <end time> <1994> .")
    (('start time', '1990'), ('end time', '1994'))
    """
    match = _FACT.fullmatch(text)
    found = _QUALIFIER.findall(match[4]) if match and match[4] else ()
    return tuple((name.strip(), value.strip()) for name, value in found)


def written_fact(text: str) -> str | None:
    """Return a fact, with or without its terminator, as an ingest writes it: clean, without the terminator; None for others.

    >>> written_fact("<Danny  Boyle>  <date of birth> <1956-10-20> .")
    ' <Danny Boyle> <date of birth> <1956-10-20>'
    """
    parts = split_fact(text)
    if parts is None:
        return None
    subject, predicate, object_ = map(written_part, parts)
    pairs = tuple((written_part(name), written_part(value)) for name, value in qualifiers_of(text))
    return verbalise(subject, predicate, object_, pairs)


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that a model wrote.

    `text`: `<subject> <predicate> <object> .`; `token_span`: the half-open range `(start, stop)` of its positions in
    the sequence of ids, from the first token after the trigger to the last of the terminator; `qualifiers`: of a statement.
    """

    subject: str
    predicate: str
    object: str
    text: str
    token_span: tuple[int, int]
    qualifiers: Qualifiers = ()


def visible(text: str) -> str:
    """Return `text` without control characters that a terminal obeys; line feeds and tabs stay.

    >>> visible("a\\x1b[31mb\\r\\n")
    'a[31mb\\n'
    """
    return _STEERING.sub("", text)


def line(text: str) -> str:
    """Return `text` on one line, without control characters. A fact or a part that an ingest has written stays as it is.

    >>> line("a\\x1b[31mb\\r\\n Answer: c")
    'a[31mb Answer: c'
    """
    return " ".join(visible(text).split())


def is_written(text: str) -> bool:
    """Return whether a fact or a part has no character that no ingest writes: a line's end, a tab, a control character
    or a mark of writing direction. An index that was made by hand may have some, to forge lines.

    >>> is_written("Danny Boyle"), is_written("Danny\\nAnswer: Boyle")
    (True, False)
    """
    return UNWRITTEN.search(text) is None


def is_written_part(part: str) -> bool:
    """Return whether a text can be a name: it is not empty, `is_written`, and neither `<` nor `>` is in it."""
    return part != "" and is_written(part) and "<" not in part and ">" not in part


def unwritten_bytes() -> re.Pattern[bytes]:
    """Return a pattern for bytes of UTF-8 that have, or end within, a character that steers or ends a line.

    >>> [bool(unwritten_bytes().search(text)) for text in (b"a\\n", "\\u2028".encode(), b"a\\xe2\\x80", "é…".encode())]
    [True, True, True, False]
    """
    steering = [c.encode() for c in map(chr, range(0x2070)) if not is_written(c)]
    begun = {one[:size] for one in steering for size in range(1, len(one))}
    whole, ends = (b"|".join(map(re.escape, sorted(some))) for some in (steering, begun))
    return re.compile(b"%b|(?:%b)\\Z" % (whole, ends))


def counted(number: int, what: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "fact"), counted(1200, "fact")
    ('1 fact', '1,200 facts')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def page_of(id_: str, label: str, pattern: str) -> str:
    """Return the address of the page about an item or property.

    In `pattern`, `{id}` stands for the id, `{local}` for the last part of an IRI, after `#`, `/` or `:`, and `{label}`
    for the label, percent-encoded.

    >>> page_of("http://e.org/acme#Ann", "Ann", "https://kb.example.org/{local}")
    'https://kb.example.org/Ann'
    """
    local = re.split(r"[#/:]", id_.rstrip("#/>"))[-1]
    values = {"id": id_, "local": local, "label": label}
    return PAGE_FIELDS.sub(lambda field: quote(values[field[1]], safe="%" if field[1] == "local" else ""), pattern)


@dataclass(frozen=True, slots=True)
class Link:
    """A part that names an item or a property: its label, and its id if the index has it.

    `page`: the address of its page; None: that on Wikidata, or the id if that is an address itself.

    >>> Link("Danny Boyle", "Q103916").url
    'https://www.wikidata.org/wiki/Q103916'
    >>> Link("date of birth", "P569").url
    'https://www.wikidata.org/wiki/Property:P569'
    >>> Link("Ann", "http://example.org/acme#Ann").url
    'http://example.org/acme#Ann'
    """

    label: str
    id: str | None = None
    page: str | None = None

    @property
    def url(self) -> str | None:
        """The address of the page; None if there is none."""
        if self.page is not None or self.id is None:
            return self.page or None
        if _WIKIDATA_ID.fullmatch(self.id):
            return f"https://www.wikidata.org/wiki/{'Property:' if self.id.startswith('P') else ''}{self.id}"
        return self.id if ADDRESS.fullmatch(self.id) else None


@dataclass(frozen=True, slots=True)
class LinkedFact:
    """The parts of a fact with their ids; `object` is a plain string if it is a literal.

    `inverse`: the fact was made from the triple (object, predicate, subject); `predicate` has that property's id.
    `qualifiers`: of a statement, with their values as `object` is. `indexes`: of several that are read as one, those that
    have it. `references`: the addresses of what Wikidata says the fact is from, if the ingest kept them.
    """

    subject: Link
    predicate: Link
    object: Link | str
    inverse: bool = False
    qualifiers: tuple[tuple[Link, Link | str], ...] = ()
    indexes: tuple[str, ...] = ()
    references: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The fact as it is written, without its terminator.

        >>> LinkedFact(Link("Ann"), Link("mayor of"), Link("Graz"), qualifiers=((Link("start time"), "1990"),)).text
        '<Ann> <mayor of> <Graz> <start time> <1990>'
        """
        pairs = tuple((name.label, label_of(value)) for name, value in self.qualifiers)
        return verbalise(self.subject.label, self.predicate.label, label_of(self.object), pairs).lstrip()


def label_of(part: Link | str) -> str:
    """Return what a part of a fact is called."""
    return part if isinstance(part, str) else part.label
