"""The file of an index: blocks with checksums, a header, and a list of contents.

```
file     = magic (12 bytes), version (4), block, block, ...
block    = head (20 bytes), payload, padding, checksum (32)
head     = kind (8 bytes, padded with NUL), number (4), size of the payload (4), CRC-32 of these sixteen bytes (4)
contents = entry...
entry    = kind (8 bytes, padded with NUL), number (4), size of the payload (4), size of the first key (2), first key
```

Numbers are big-endian. The padding is of zeros, up to the next multiple of four bytes: every payload begins at one, and so
do the arrays in it, which are read where they are. (Versions 1 and 2 have none.) Blocks without rows have an empty first
key. The position of a block is where the one before it ends. The payload of the last block, `end`, is the position of the
block `contents` (8 bytes). `refactx.index.file.rows` and docs/reference/file-formats.md describe the other payloads.

A checksum is the SHA-256 of the checksum before it (of magic and version for the first block), head, payload and
padding. So a block that is lost, moved, repeated or changed is found before anything in it is used, and the last checksum
is that of the whole file. Checksums do not prove who made a file: the header is checked value by value before it is
used, and a wrong type, a value larger than any that an export writes, or a text that cannot be stored or printed is a
ValueError.
"""

import hashlib
import json
import math
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, BinaryIO, NoReturn

import zstandard

from refactx.errors import InputError, ModelError
from refactx.tokenizer import FactTokenizer, unpack_tokenizer
from refactx.tree.codes import FORMAT_VERSION, MAX_TOKEN
from refactx.tree.piece import Buffer

MAGIC = b"\x89RefactX\r\n\x1a\n"
"""As in PNG (RFC 2083, section 12.12): a copy in text mode or with seven bits per byte breaks it."""

FILE_VERSION = 3
"""The version of this layout. A file of a newer version is refused with the advice to upgrade."""

IN_PLACE = 3
"""The first version with padding, a list of its blocks, and rows that can be read in place."""

MAX_PAYLOAD = 96 << 20
"""More than the largest row takes: its limit is 64 MiB before compression."""

_START = struct.Struct(">12sI")
_HEAD = struct.Struct(">8sII")
_CRC = struct.Struct(">I")
CHECKSUM_BYTES = 32
START_BYTES = _START.size
"""The position of the first block."""
HEAD_BYTES = _HEAD.size + _CRC.size


class TruncatedFileError(InputError):
    """The file ends before its last block."""


def damage_error(name: str, what: str) -> InputError:
    """Return the error for a file with wrong contents."""
    return InputError(f"{name} is damaged or was made by hand: {what}. Copy or export it again")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBlock:
    """One block. `end`: the position of its end in the file. `checksum`: over it and all before it. `version`: of the
    file."""

    kind: str
    number: int
    payload: bytes
    end: int
    checksum: bytes
    version: int = FILE_VERSION


class BlockWriter:
    """Appends blocks to a file: from its beginning, or after the block `after`, at whose end `file` must be.

    `version`: that of a new file.
    """

    def __init__(self, file: BinaryIO, after: FileBlock | None = None, version: int = FILE_VERSION) -> None:
        self._file, self._version = file, version if after is None else after.version
        if after is None:
            start = _START.pack(MAGIC, version)
            file.write(start)
            self.written, self.checksum = len(start), hashlib.sha256(start).digest()
        else:
            self.written, self.checksum = after.end, after.checksum

    def write(self, kind: str, number: int, payload: bytes) -> None:
        """Append one block. `kind`: at most eight ASCII letters. Raises InputError if the payload is too large."""
        if len(payload) > MAX_PAYLOAD:
            raise InputError(f"a block of {len(payload):,} bytes cannot be exported: the maximum is {MAX_PAYLOAD:,}")
        head = _HEAD.pack(kind.encode(), number, len(payload))
        head += _CRC.pack(zlib.crc32(head))
        padding = bytes(padding_of(len(payload), self._version))
        self.checksum = chain(self.checksum, head, payload, padding)
        for part in (head, payload, padding, self.checksum):
            self._file.write(part)
        self.written += size_of_block(len(payload), self._version)


def read_start(start: bytes, name: str) -> int:
    """Return the version of a file, given its first `START_BYTES` bytes. Raises InputError as `read_blocks` does."""
    if start[: len(MAGIC)] != MAGIC[: len(start)]:
        raise InputError(f"{name} is not a file of `refactx index export`: it begins with {start[:8]!r}")
    if len(start) < START_BYTES:
        raise truncated_error(name, len(start))
    version: int = _START.unpack(start)[1]
    if version > FILE_VERSION:
        raise InputError(f"{name} has version {version} of the file format (this is {FILE_VERSION}): upgrade refactx")
    if version < 1:
        raise damage_error(name, f"it claims version {version} of the file format")
    return version


def read_head(head: Buffer, name: str, at: int) -> tuple[str, int, int]:
    """Return kind, number and payload size of the block with a head (`HEAD_BYTES`), which is at byte `at`.

    Raises InputError if it is not a head.
    """
    kind, number, size = _HEAD.unpack_from(head)
    if zlib.crc32(head[: _HEAD.size]) != _CRC.unpack_from(head, _HEAD.size)[0] or size > MAX_PAYLOAD:
        raise damage_error(name, f"at byte {at:,} there is no block")
    return kind.rstrip(b"\0").decode("latin-1"), number, size


def read_blocks(file: BinaryIO, name: str) -> Iterator[FileBlock]:
    """Check and yield the blocks of a file from its beginning, until the file ends between two blocks.

    Memory is bounded by `MAX_PAYLOAD`. Raises InputError if the file is damaged, too new, or not an export, and
    TruncatedFileError if it ends within a block. Both messages begin with `name`.
    """
    start = file.read(START_BYTES)
    version = read_start(start, name)
    end, checksum = len(start), hashlib.sha256(start).digest()
    while head := file.read(HEAD_BYTES):
        if len(head) < HEAD_BYTES:
            raise truncated_error(name, end + len(head))
        kind, number, size = read_head(head, name, end)
        payload = file.read(size)
        wanted = padding_of(size, version) + CHECKSUM_BYTES
        rest = file.read(wanted)
        if len(payload) < size or len(rest) < wanted:
            raise truncated_error(name, end + len(head) + len(payload) + len(rest))
        padding, stored = rest[:-CHECKSUM_BYTES], rest[-CHECKSUM_BYTES:]
        checksum = chain(checksum, head, payload, padding)
        if stored != checksum:
            raise damage_error(name, f"the checksum of the block at byte {end:,} is wrong")
        end += size_of_block(size, version)
        yield FileBlock(kind=kind, number=number, payload=payload, end=end, checksum=checksum, version=version)


def padding_of(size: int, version: int) -> int:
    """Return the bytes of padding after a payload of some size.

    >>> padding_of(5, 3), padding_of(5, 2)
    (3, 0)
    """
    return -size % 4 if version >= IN_PLACE else 0


def size_of_block(size: int, version: int = FILE_VERSION) -> int:
    """Return the bytes of a block with a payload of some size."""
    return HEAD_BYTES + size + padding_of(size, version) + CHECKSUM_BYTES


def chain(before: Buffer, *parts: Buffer) -> bytes:
    """Return the checksum of a block, given the checksum before it and the parts of the block."""
    digest = hashlib.sha256(before)
    for part in parts:
        digest.update(part)
    return digest.digest()


def truncated_error(name: str, size: int) -> TruncatedFileError:
    """Return the error for a file that ends within a block."""
    return TruncatedFileError(f"{name} is truncated: it ends at byte {size:,}, in the middle of a block")


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


_ENTRY = struct.Struct(">8sIIH")
_POSITION = struct.Struct(">Q")
END_PAYLOAD = _POSITION.size


@dataclass(frozen=True, slots=True)
class BlockEntry:
    """One block: its kind and number, the size of its payload, and its first key if it has rows."""

    kind: str
    number: int
    size: int
    first_key: bytes = b""


def pack_contents(entries: Sequence[BlockEntry]) -> bytes:
    """Return the payload of the block `contents`.

    >>> entries = [BlockEntry("header", 0, 900), BlockEntry("tree", 1, 100, b"key")]
    >>> unpack_contents(pack_contents(entries)) == entries
    True
    """
    return b"".join(
        _ENTRY.pack(one.kind.encode(), one.number, one.size, len(one.first_key)) + one.first_key for one in entries
    )


def unpack_contents(payload: bytes) -> list[BlockEntry]:
    """Return the entries in a payload. Raises ValueError if their sizes do not fit it."""
    entries, at = [], 0
    while at < len(payload):
        if len(payload) - at < _ENTRY.size:
            raise ValueError("the sizes of its entries do not add up")
        kind, number, size, key_size = _ENTRY.unpack_from(payload, at)
        at += _ENTRY.size
        key = payload[at : at + key_size]
        if len(key) < key_size:
            raise ValueError("the sizes of its entries do not add up")
        entries.append(BlockEntry(kind.rstrip(b"\0").decode("latin-1"), number, size, key))
        at += key_size
    return entries


def pack_position(position: int) -> bytes:
    """Return the payload of the block `end`, given the position of the block `contents`."""
    return _POSITION.pack(position)


def unpack_position(payload: bytes) -> int:
    """Return the position in the payload of the block `end`, which has 8 bytes."""
    position: int = _POSITION.unpack(payload)[0]
    return position


def read_tokenizer(packed: Buffer, header: ShareHeader, source: str) -> FactTokenizer:
    """Return the tokenizer of a file. Raises InputError unless it is the one that the header describes."""
    try:
        text = unpack_tokenizer(bytes(packed))
        _check_ids(json.loads(text))
        tokenizer = FactTokenizer(text)
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


def _check_ids(form: Any) -> None:
    """Raise ValueError if most ids have no token: the tokenizers library lists all of those, however many there are."""
    vocabulary = form["model"]["vocab"]
    ids = list(vocabulary.values()) if isinstance(vocabulary, dict) else list(range(len(vocabulary)))
    ids += [entry["id"] for entry in form.get("added_tokens") or []]
    if ids and max(ids) > 2 * len(ids):
        raise ValueError(f"it has {len(ids):,} tokens and an id of {max(ids):,}")
