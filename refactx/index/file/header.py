"""The header of a shared index: the catalogue entry and the sizes of the tables, as JSON in the first block.

A header from a file is checked value by value before it is used. A wrong type, a value larger than any that an export
writes, or a text that cannot be stored or printed is a ValueError.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NoReturn

from refactx.errors import InputError
from refactx.index.file.blocks import FILE_VERSION, IN_PLACE
from refactx.tree.codec import FORMAT_VERSION
from refactx.tree.token_codes import MAX_TOKEN

MAX_HEADER_BYTES = 16 << 20
MAX_TABLES = 10_000
"""The most segments, or name tables, of one index: far more than a reader could use."""

ROWS = ("tree", "names", "hubs")
"""Members with rows, in as many blocks as they need. Every other member is one block."""

_MOST = 1 << 50  # more facts, tokens, rows or bytes than any index has
_DEEPEST = 20  # levels of JSON in an account
_LEVELS = 64
_SHORT, _NAME, _LONG = 64, 500, 4096  # characters; a name is a key in a B-tree, which takes at most 2,704 bytes

Member = tuple[str, int]
"""A part of the file: the kind of its blocks, and the number of the segment or name table that it belongs to."""


@dataclass(frozen=True, slots=True)
class SharedRows:
    """The size of a table: the number of its rows, and the bytes of their keys and values.

    Since version 3 `size` is without the rows of a tree above the facts, whose form in the file is another than in the
    database.
    """

    rows: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSegment:
    """A segment: its catalogue entry and its rows."""

    sign: int
    levels: int
    cut: int
    facts: int
    tokens: int
    rows: SharedRows


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHeader:
    """A header. `created` and `origin` (ids in the catalogue it comes from) distinguish two states of an index. `hubs`
    is None if the index was ingested before hubs were stored."""

    format: int
    name: str
    tokenizer: str
    fingerprint: str
    vocabulary_size: int
    trigger: str
    terminator: str
    source: tuple[str, ...]
    report: dict[str, Any]
    created: str
    origin: tuple[int, ...]
    segments: tuple[SharedSegment, ...]
    names: tuple[SharedRows, ...]
    hubs: SharedRows | None = None

    def members(self, version: int = FILE_VERSION) -> Iterator[Member]:
        """Yield the members after the header in their order: tokenizer, segments, names, hubs, contents, end.

        `version`: of the file; contents are there since version 3.
        """
        yield "tokens", 0
        for number in range(len(self.segments)):
            for kind in ("codes", "dict", "tree"):
                yield kind, number
        for number in range(len(self.names)):
            yield "names", number
        if self.hubs is not None:
            yield "hubs", 0
        if version >= IN_PLACE:
            yield "contents", 0
        yield "end", 0

    def rows_of(self, member: Member) -> SharedRows:
        """Return the size that a member with rows must have."""
        kind, number = member
        if kind == "hubs" and self.hubs is not None:
            return self.hubs
        return self.segments[number].rows if kind == "tree" else self.names[number]

    @property
    def facts(self) -> int:
        """The number of facts in the index."""
        return sum(segment.sign * segment.facts for segment in self.segments)

    @property
    def size(self) -> int:
        """The bytes of all rows."""
        hubs = () if self.hubs is None else (self.hubs,)
        return sum(table.size for table in (*(segment.rows for segment in self.segments), *self.names, *hubs))

    def to_bytes(self) -> bytes:
        """Return the payload of the header's block. It is the same for the same index."""
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> "ShareHeader":
        """Read a payload. Raises ValueError if something in it is wrong, InputError if its format is too new."""
        if len(payload) > MAX_HEADER_BYTES:
            raise ValueError(f"its header has {len(payload):,} bytes, more than {MAX_HEADER_BYTES:,}")
        try:
            form = _Form(json.loads(payload.decode(), parse_constant=_refuse_constant))
        except RecursionError:
            raise ValueError("its header is nested too deeply") from None
        if form.integer("format", 1, _MOST) > FORMAT_VERSION:
            newer = form.values["format"]
            raise InputError(f"its rows have format version {newer} (this is {FORMAT_VERSION}): upgrade refactx")
        header = cls(
            format=form.integer("format", 1, FORMAT_VERSION),
            name=form.text("name", _NAME),
            tokenizer=_printable(form.text("tokenizer", _LONG)),
            fingerprint=form.text("fingerprint", _SHORT),
            vocabulary_size=form.integer("vocabulary_size", 1, MAX_TOKEN),
            trigger=form.text("trigger", _SHORT),
            terminator=form.text("terminator", _SHORT),
            source=tuple(_printable(_text("source", one, _LONG)) for one in form.array("source")),
            report=form.object("report"),
            created=form.text("created", _SHORT),
            origin=tuple(_integer("origin", one, 0, _MOST) for one in form.array("origin")),
            segments=tuple(map(_segment, form.array("segments"))),
            names=tuple(map(_rows, form.array("names"))),
            hubs=None if form.values.get("hubs") is None else _rows(form.values["hubs"]),
        )
        header._check()
        return header

    def _check(self) -> None:
        """Raise ValueError if values contradict each other or have no meaning."""
        if not re.fullmatch("[0-9a-f]{64}", self.fingerprint):
            raise ValueError("the fingerprint in its header is not a SHA-256")
        if any(character < " " and character not in "\n\t" for character in self.trigger + self.terminator):
            raise ValueError("the trigger or terminator in its header has control characters")
        datetime.fromisoformat(self.created)
        if (self.hubs is None) != (self.report.get("hubs") is None):
            raise ValueError("its header has hubs, and its account none, or the reverse")
        if self.facts < 0:
            raise ValueError(f"its header counts {self.facts:,} facts in {len(self.segments)} segments")


class _Form:
    """A JSON object whose values are checked for type and bounds when they are read."""

    def __init__(self, value: Any) -> None:
        if not isinstance(value, dict):
            raise ValueError("a value in its header is not an object")
        self.values: dict[str, Any] = value

    def integer(self, name: str, low: int, high: int) -> int:
        return _integer(name, self.values.get(name), low, high)

    def text(self, name: str, most: int) -> str:
        return _text(name, self.values.get(name), most)

    def array(self, name: str) -> list[Any]:
        value = self.values.get(name)
        if not isinstance(value, list) or len(value) > MAX_TABLES:
            raise ValueError(f"{name!r} in its header is not a list of at most {MAX_TABLES:,}")
        return value

    def object(self, name: str) -> dict[str, Any]:
        value = self.values.get(name)
        if not isinstance(value, dict):
            raise ValueError(f"{name!r} in its header is not an object")
        check_plain(value)
        return value


def check_plain(value: Any) -> None:
    """Raise ValueError unless PostgreSQL can store the value as JSON.

    A text may not contain NUL or half of a surrogate pair, a number must be finite, and there are at most 20 levels,
    more than any account of an ingest has.

    >>> check_plain({"facts": 3, "notes": ["a", None]})
    >>> check_plain(["\\0"])
    Traceback (most recent call last):
    ValueError: a text in its account cannot be stored
    """
    _check_plain(value, _DEEPEST)


def _check_plain(value: Any, deep: int) -> None:
    if deep == 0:
        raise ValueError("its account is nested too deeply")
    if isinstance(value, str):
        if "\0" in value or not _is_unicode(value):
            raise ValueError("a text in its account cannot be stored")
    elif isinstance(value, dict | list):
        for inner in value if isinstance(value, list) else (*value, *value.values()):
            _check_plain(inner, deep - 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number in its account is not finite")


def _segment(value: Any) -> SharedSegment:
    form = _Form(value)
    segment = SharedSegment(
        sign=form.integer("sign", -1, 1),
        levels=form.integer("levels", 1, _LEVELS),
        cut=form.integer("cut", 0, 2**31 - 1),
        facts=form.integer("facts", 1, _MOST),
        tokens=form.integer("tokens", 1, _MOST),
        rows=_rows(form.values.get("rows")),
    )
    if segment.sign == 0 or segment.rows.rows < segment.levels:
        raise ValueError("a segment in its header has no sign, or fewer rows than levels")
    return segment


def _rows(value: Any) -> SharedRows:
    form = _Form(value)
    return SharedRows(form.integer("rows", 0, _MOST), form.integer("size", 0, _MOST))


def _integer(name: str, value: Any, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{name!r} in its header is not a number from {low:,} to {high:,}")
    return value


def _text(name: str, value: Any, most: int) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= most or "\0" in value or not _is_unicode(value):
        raise ValueError(f"{name!r} in its header is not a text of 1 to {most:,} characters")
    return value


def _printable(text: str) -> str:
    # A path may contain anything. `refactx index list` prints it, and must not send control characters to the terminal.
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"its header contains {constant}")
