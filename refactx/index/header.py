"""The header of an index file: a JSON object with what the catalogue of a database has of an index.

Checksums do not prove who made a file, so the header is checked value by value before it is used. A wrong type, a value
larger than any that an export writes, or a text that cannot be stored or printed is a ValueError. The tokenizer, which the
header describes, is checked against it.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any, NoReturn

import zstandard

from refactx.errors import InputError, ModelError
from refactx.tokenizer import FactTokenizer, unpack_tokenizer
from refactx.tree.codes import FORMAT_VERSION, MAX_TOKEN

OF_INDEX = ("format", "tokenizer", "fingerprint", "vocabulary_size", "trigger", "terminator", "source", "report")
"""What the catalogue of a database says of an index too."""
MAX_HEADER_BYTES = 16 << 20
MAX_TABLES = 10_000
"""The most segments, or name tables, of one index: far more than a reader could use."""

_MOST = 1 << 50  # more facts, tokens or rows than any index has
_DEEPEST = 20  # levels of JSON in an account
_LEVELS = 64
_SHORT, _NAME, _LONG = 64, 500, 4096  # characters; a name is a key in a B-tree, which takes at most 2,704 bytes

Member = tuple[str, int]
"""A part of the file: its kind, and the number of the segment or name table that it belongs to."""


def damage_error(name: str, what: object) -> InputError:
    """Return the error for a file with wrong contents."""
    return InputError(f"{name} is damaged or was made by hand: {what}. Copy or export it again")


Read = Callable[[str, Any], Any]
"""Returns a value of a JSON object, given its name. Raises ValueError if it has a wrong type, or is out of bounds."""


def _integer(low: int, high: int) -> Read:
    def read(name: str, value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"{name!r} in its header is not a number from {low:,} to {high:,}")
        return value

    return read


def _text(most: int) -> Read:
    def read(name: str, value: Any) -> str:
        if not isinstance(value, str) or not 0 < len(value) <= most or "\0" in value or not _is_unicode(value):
            raise ValueError(f"{name!r} in its header is not a text of 1 to {most:,} characters")
        return value

    return read


def _printable(most: int) -> Read:
    # A path may contain anything. `refactx index list` prints it, and must not send control characters to the terminal.
    read = _text(most)
    return lambda name, value: "".join(one if one.isprintable() else "\ufffd" for one in read(name, value))


def _several(of: Read) -> Read:
    def read(name: str, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) > MAX_TABLES:
            raise ValueError(f"{name!r} in its header is not a list of at most {MAX_TABLES:,}")
        return tuple(of(name, one) for one in value)

    return read


def _account(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name!r} in its header is not an object")
    check_plain(value)
    return value


def _form(kind: type[Any], value: Any) -> Any:
    """Return a JSON object as a dataclass, each of whose fields says how it is read."""
    if not isinstance(value, dict):
        raise ValueError("a value in its header is not an object")
    return kind(**{one.name: one.metadata["read"](one.name, value.get(one.name)) for one in fields(kind)})


def _read_by(read: Read, **default: Any) -> Any:
    return field(metadata={"read": read}, **default)


_COUNT = _integer(0, _MOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSegment:
    """A segment: its catalogue entry, and the number of its rows."""

    sign: int = _read_by(_integer(-1, 1))
    levels: int = _read_by(_integer(1, _LEVELS))
    cut: int = _read_by(_integer(0, 2**31 - 1))
    facts: int = _read_by(_integer(1, _MOST))
    tokens: int = _read_by(_integer(1, _MOST))
    rows: int = _read_by(_integer(1, _MOST))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileHeader:
    """What a file says of its index.

    `names` and `hubs`: the numbers of rows of each name table, and of hubs, None if the index was ingested before hubs
    were stored. `names_bytes`: of the rows of all name tables. `created` and `origin` (ids in the catalogue it comes
    from) distinguish two states of an index.
    """

    format: int = _read_by(_integer(1, FORMAT_VERSION))
    name: str = _read_by(_text(_NAME))
    tokenizer: str = _read_by(_printable(_LONG))
    fingerprint: str = _read_by(_text(_SHORT))
    vocabulary_size: int = _read_by(_integer(1, MAX_TOKEN))
    trigger: str = _read_by(_text(_SHORT))
    terminator: str = _read_by(_text(_SHORT))
    source: tuple[str, ...] = _read_by(_several(_printable(_LONG)))
    report: dict[str, Any] = field(metadata={"read": _account})
    created: str = _read_by(_text(_SHORT))
    origin: tuple[int, ...] = _read_by(_several(_COUNT))
    segments: tuple[FileSegment, ...] = _read_by(_several(lambda _, value: _form(FileSegment, value)))
    names: tuple[int, ...] = _read_by(_several(_COUNT))
    names_bytes: int = _read_by(_COUNT)
    hubs: int | None = _read_by(lambda name, value: None if value is None else _COUNT(name, value), default=None)

    def parts(self) -> Iterator[Member]:
        """Yield the parts of the file that are single values, in their order."""
        yield "header", 0
        yield "tokens", 0
        for number in range(len(self.segments)):
            yield "codes", number
            yield "dict", number

    def tables(self) -> dict[Member, int]:
        """Return the numbers of rows of the tables of rows, in their order."""
        found = {("tree", number): segment.rows for number, segment in enumerate(self.segments)}
        found |= {("names", number): rows for number, rows in enumerate(self.names)}
        return found if self.hubs is None else found | {("hubs", 0): self.hubs}

    @property
    def facts(self) -> int:
        """The number of facts in the index."""
        return sum(segment.sign * segment.facts for segment in self.segments)

    @property
    def rows(self) -> int:
        """The number of rows of all tables."""
        return sum(self.tables().values())

    def to_bytes(self) -> bytes:
        """Return the header as it is stored. It is the same for the same index."""
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> "FileHeader":
        """Read a stored header. Raises ValueError if something in it is wrong, InputError if its format is too new."""
        if len(payload) > MAX_HEADER_BYTES:
            raise ValueError(f"its header has {len(payload):,} bytes, more than {MAX_HEADER_BYTES:,}")
        try:
            values = json.loads(payload.decode(), parse_constant=_refuse_constant)
        except RecursionError:
            raise ValueError("its header is nested too deeply") from None
        newer = values.get("format") if isinstance(values, dict) else None
        if type(newer) is int and FORMAT_VERSION < newer <= _MOST:
            raise InputError(f"its rows have format version {newer} (this is {FORMAT_VERSION}): upgrade refactx")
        header: FileHeader = _form(cls, values)
        header._check()
        return header

    def _check(self) -> None:
        """Raise ValueError if values contradict each other or have no meaning."""
        if not re.fullmatch("[0-9a-f]{64}", self.fingerprint):
            raise ValueError("the fingerprint in its header is not a SHA-256")
        if any(character < " " and character not in "\n\t" for character in self.trigger + self.terminator):
            raise ValueError("the trigger or terminator in its header has control characters")
        datetime.fromisoformat(self.created)
        if any(one.sign == 0 or one.rows < one.levels for one in self.segments):
            raise ValueError("a segment in its header has no sign, or fewer rows than levels")
        if (self.hubs is None) != (self.report.get("hubs") is None):
            raise ValueError("its header has hubs, and its account none, or the reverse")
        if self.facts < 0:
            raise ValueError(f"its header counts {self.facts:,} facts in {len(self.segments)} segments")


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


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"its header contains {constant}")


def read_tokenizer(packed: bytes, header: FileHeader, source: str) -> FactTokenizer:
    """Return the tokenizer of a file. Raises InputError unless it is the one that the header describes."""
    try:
        serialized = unpack_tokenizer(packed)
        parsed = json.loads(serialized)
        vocabulary = parsed["model"]["vocab"]
        ids = list(vocabulary.values()) if isinstance(vocabulary, dict) else list(range(len(vocabulary)))
        ids += [entry["id"] for entry in parsed.get("added_tokens") or []]
        if ids and max(ids) > 2 * len(ids):  # the tokenizers library lists all ids without a token, however many
            raise ValueError(f"it has {len(ids):,} tokens and an id of {max(ids):,}")
        tokenizer = FactTokenizer(serialized)
        fingerprint, vocabulary_size = tokenizer.fingerprint, len(tokenizer.token_bytes)
    except (
        zstandard.ZstdError,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        RecursionError,
        ModelError,
    ) as error:
        raise damage_error(source, f"its tokenizer cannot be read ({error})") from error
    if (fingerprint, vocabulary_size) != (header.fingerprint, header.vocabulary_size):
        raise damage_error(source, "its tokenizer is not the one that its header describes")
    return tokenizer
