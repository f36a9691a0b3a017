"""Source files as blocks of whole lines, compressed or not.

A block is some 16 MB of bytes that end with a line feed (except, perhaps, at the end of a file), so that a step can
work on many lines at once and memory stays bounded, however large the file is. The line ends of all systems (LF, CRLF,
CR) become line feeds.

Libraries decompress, outside Python's lock: rapidgzip for files of gzip and bzip2, in several threads even if a file
is one stream; Arrow for zstandard, of which one thread gives over half a gigabyte a second, and for streams, which
rapidgzip does not read.
"""

import codecs
import io
import re
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast
from urllib.parse import quote

import pyarrow as pa
import rapidgzip

from refactx.errors import InputError
from refactx.fact import counted

Format = Literal[
    "N-Triples", "N-Quads", "ready-made facts", "Turtle", "TriG", "N3", "RDF/XML", "JSON-LD", "table", "JSON lines", "GraphML",
    "Wikidata's JSON",
]  # fmt: skip
SUFFIXES = (".gz", ".bz2", ".zst")
CHUNK_BYTES = 1 << 20
_READ = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstandard"}
_ARROW_NAMES = {"gzip": "gzip", "bzip2": "bz2", "zstandard": "zstd"}
_DIAGNOSED_BYTES = 1 << 30
"""A broken file up to this size is read once more, which takes seconds, to find out in which way it is broken."""
BLOCK_BYTES = 16 << 20
"""Some 150,000 lines: smaller blocks are parsed more slowly (4 MB: by a fifth), larger ones only take more memory."""
MAX_LINE_BYTES = 256 << 20
STANDARD_INPUT = Path("-")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ENTRY = rb"(?=PK\x03\x04).{,65000}?PK\x03\x04.{24,26}"  # of a zip archive, up to its name; line ends may be shorter
_DOCUMENT = _ENTRY + rb"(?:word/|ppt/|mimetype[\w/.]+\.(?:text|presentation))"
WORKBOOK = re.compile(_ENTRY + rb"(?:xl/|mimetype[\w/.]+\.spreadsheet)", re.DOTALL)
"""The beginning of a workbook of Excel or OpenDocument."""
_ARCHIVES = {rb"\xfd7zXZ": "xz", rb"PK\x03\x04": "zip", rb"7z\xbc\xaf": "7-zip", rb"\x04\x22\x4d\x18": "lz4"}
_GIVE_UTF16, _SAVE_AS_UTF8 = "give --encoding utf-16", "save the file in UTF-8"
_BINARY = {
    rb"\xff\xd8\xff": "a JPEG image",
    rb"\x89PNG": "a PNG image",
    rb"GIF8[79]a": "a GIF image",
    rb"%PDF-": "a PDF file",
    rb"(?!PAR1)(?:[^\0]{,100}\0){4}": f"a binary file (or UTF-16: {_GIVE_UTF16})",
}
_NOT_TEXT = {
    rb"\xff\xfe|\xfe\xff": f"is UTF-16: {_GIVE_UTF16}",
    _DOCUMENT: "is a document of Word, PowerPoint or OpenDocument, which is no table and no RDF: export its data as CSV or "
    "RDF, and give that",
    WORKBOOK.pattern: "is a workbook of Excel or OpenDocument, which is no text: save its sheet as CSV in UTF-8, or give "
    "the name of its file",
    rb"\xd0\xcf\x11\xe0": "is a file of Word or Excel from before 2007, or with a password: save its sheet as CSV in UTF-8, "
    "and give that",
    rb".{257}ustar": "is an archive of tar: unpack it, and give the files in it",
    rb"SQLite format 3\0": "is a database of SQLite, which is no text: give the name of the file, which is read as tables",
    **{
        magic: f"is compressed with {name}, which is not supported: unpack it, or use gzip, bzip2 or zstandard"
        for magic, name in _ARCHIVES.items()
    },
    **{
        magic: f"seems to be {kind}: give a file of RDF (.nt, .nq, .ttl, .trig, .n3, .rdf, .jsonld), a table (.csv, .tsv, "
        ".parquet), JSON lines (.jsonl), GraphML (.graphml) or facts (.txt)"
        for magic, kind in _BINARY.items()
    },
}
"""What a file is that begins so (a regular expression), and what to do."""
_TABLE = "a table with columns subject, predicate and object"
_FORMATS: dict[str, Format] = {
    **dict.fromkeys((".nt", ".ntriples"), "N-Triples"),
    **dict.fromkeys((".nq", ".nquads"), "N-Quads"),
    ".txt": "ready-made facts",
    **dict.fromkeys((".ttl", ".turtle"), "Turtle"),
    ".trig": "TriG",
    ".n3": "N3",
    **dict.fromkeys((".rdf", ".owl"), "RDF/XML"),
    ".jsonld": "JSON-LD",
    **dict.fromkeys((".jsonl", ".ndjson"), "JSON lines"),
    ".graphml": "GraphML",
    **dict.fromkeys((".csv", ".tsv", ".tab", ".parquet", ".pq"), "table"),
}


class DecompressionError(Exception):
    """What is wrong with a file, as the rest of a sentence that begins with its name."""


@contextmanager
def open_decompressed(
    source: Path | BinaryIO, workers: int, advance: Callable[[int], object] = lambda _: None
) -> Iterator[Iterator[bytes]]:
    """Open a file, or a buffered stream, as an iterator over its decompressed bytes in chunks of `CHUNK_BYTES`.

    Consecutive members and frames are one text. `advance` is called with how many bytes of the file were read since the
    last call (for a stream: how many decompressed bytes). `workers` threads decompress a file of bzip2, a quarter of
    them one of gzip.

    Raises:
        DecompressionError: the file is truncated or corrupt; from the iterator.
        OSError: it cannot be opened or read; also from the iterator.
    """
    with ExitStack() as stack:
        raw: Any = stack.enter_context(source.open("rb")) if isinstance(source, Path) else source
        start = raw.peek(16)[:16]
        kind = next((name for magic, name in _READ.items() if start.startswith(magic)), None)
        file, position = _open_decompressor(source, raw, kind, workers)
        if kind is not None:
            stack.push(file)
        chunks = _chunks(file, position if isinstance(source, Path) else None, advance)
        yield chunks if kind is None else _translate_errors(chunks, source, kind)


def _open_decompressor(
    source: Path | BinaryIO, raw: Any, kind: str | None, workers: int
) -> tuple[Any, Callable[[], int]]:
    """Return the file object of decompressed bytes, and the function that returns its position in the file."""
    if kind is None:
        return raw, raw.tell
    if kind == "zstandard" or not isinstance(source, Path):  # rapidgzip reads files only
        below = pa.OSFile(str(source)) if isinstance(source, Path) else pa.PythonFile(raw, mode="r")
        return pa.CompressedInputStream(below, _ARROW_NAMES[kind]), below.tell
    if kind == "gzip":  # one thread gives 560 MB/s, as much as four parse; two take twice the core time
        file = rapidgzip.RapidgzipFile(str(source), parallelization=max(1, workers // 4))
    else:
        file = rapidgzip.IndexedBzip2File(str(source), parallelization=workers)
    return file, lambda: int(file.tell_compressed()) // 8  # it counts bits


def _chunks(file: Any, position: Callable[[], int] | None, advance: Callable[[int], object]) -> Iterator[bytes]:
    before = 0
    while chunk := file.read(CHUNK_BYTES):
        yield chunk
        after = before + len(chunk) if position is None else position()
        advance(after - before)
        before = after


def _translate_errors(chunks: Iterator[bytes], source: Path | BinaryIO, kind: str) -> Iterator[bytes]:
    """Yield the chunks, with the libraries' errors as `DecompressionError`."""
    size = 0
    try:
        for chunk in chunks:
            size += len(chunk)
            yield chunk
    except (RuntimeError, ValueError) as error:  # rapidgzip's
        fault = _diagnose(source, kind, _DIAGNOSED_BYTES)
        raise DecompressionError(fault or f"is a corrupt or truncated {kind} file ({error})") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise DecompressionError(_describe(error, kind)) from None
    # rapidgzip 0.16 takes the end of a truncated file for the end of its text, without an error. A file of one member
    # ends with the size of its text; a file of several has to be read again.
    if kind == "gzip" and isinstance(source, Path):
        with source.open("rb") as file:
            file.seek(-4, SEEK_END)
            recorded = int.from_bytes(file.read(4), "little")  # modulo 2^32
        if size % (1 << 32) != recorded and (fault := _diagnose(source, kind, None)):
            raise DecompressionError(fault)


def _diagnose(source: Path | BinaryIO, kind: str, limit: int | None) -> str | None:
    """Return how a file is broken, by reading it again with Arrow; None if it is not, or is larger than the limit."""
    if not isinstance(source, Path) or (limit is not None and source.stat().st_size > limit):
        return None
    try:
        with pa.CompressedInputStream(pa.OSFile(str(source)), _ARROW_NAMES[kind]) as file:
            while file.read(CHUNK_BYTES):
                pass
    except OSError as error:
        return _describe(error, kind)
    return None


def _describe(error: Exception, kind: str) -> str:
    reason = str(error)
    return f"is a truncated {kind} file" if "Truncated" in reason else f"is a corrupt {kind} file ({reason})"


@dataclass(frozen=True, slots=True)
class TableKeys:
    """The keys that one table of several says that it has: the columns of its primary key, and of each foreign key its
    columns, the table that they lead to, and the columns there."""

    primary: tuple[str, ...] = ()
    foreign: tuple[tuple[tuple[str, ...], str, tuple[str, ...]], ...] = ()


class Source:
    """One source: a file, or standard input (`-`), which can be read only once. `workers` threads decompress it.

    `expected`: what it should hold, for the error if it is empty; by default the format that its name says. `encoding`:
    of its text; None: UTF-8. `stream`: a file object to read in place of standard input, with its `name`. `is_labels`:
    it has the labels of the entities of an edge list. `base`: the IRI that relative ones in RDF begin with; None: the
    address of the file. `keys`: those of a table of a database, a workbook or a folder, whose columns are chosen if no
    option names them; None: it is none. `notes`: remarks on it for the user.
    """

    def __init__(
        self,
        path: Path,
        workers: int = 2,
        expected: str | None = None,
        *,
        encoding: str | None = None,
        stream: tuple[str, BinaryIO] | None = None,
        is_labels: bool = False,
        base: str | None = None,
        keys: TableKeys | None = None,
    ) -> None:
        self.path, self._workers, self._base = path, workers, base
        self.keys, self.notes = keys, cast("tuple[str, ...]", ())
        self._expected, self._encoding, self.is_labels = expected, encoding, is_labels
        self.is_standard_input = path == STANDARD_INPUT
        self.reads_once = self.is_standard_input
        self.name = "standard input" if self.is_standard_input else str(path)
        self.address = str(path)
        """What the catalogue has of it."""
        self._stream: BinaryIO | None = None
        if stream is not None:
            self.name, self._stream = stream
            self.address = self.name
        self._begun: tuple[bytes, Generator[bytes, None, None]] | None = None
        self._start = 0, 0  # bytes of text in the first block, and bytes of the file read for it

    @property
    def format_by_name(self) -> Format | None:
        """The format that the name says, without regard to compression; None if it says none."""
        return format_by_name(self.path.name)

    @property
    def table(self) -> str:
        """The name of a table: that of the file without its endings."""
        return self.path.name.partition(".")[0]

    @property
    def base(self) -> str:
        """The IRI that relative ones in its RDF begin with: the one given, or the address of the file as it is without
        compression, so that an archive says what its file says. A stream has no address but its name.

        >>> Source(Path("/data/people.ttl.gz")).base, Source(STANDARD_INPUT).base
        ('file:///data/people.ttl', 'file:///dev/stdin')
        """
        if self._base is not None:
            return self._base
        if self.is_standard_input:
            return "file:///dev/stdin" if self._stream is None else f"file:///{quote(self.name, safe='')}"
        path = self.path.resolve()
        return (path.with_suffix("") if path.suffix.lower() in SUFFIXES else path).as_uri()

    @property
    def size(self) -> int | None:
        """Bytes on disk; None for standard input."""
        if self.is_standard_input:
            return None
        with _explain_errors(self.name):
            return self.path.stat().st_size

    def identity(self) -> dict[str, str | int] | None:
        """Return what distinguishes this source from others, and from itself after a change (standard input: None)."""
        if self.is_standard_input:
            return None
        with _explain_errors(self.name):
            status = self.path.stat()
            return {"path": str(self.path.resolve()), "bytes": status.st_size, "changed_ns": status.st_mtime_ns}

    def first_lines(self) -> bytes:
        """Return the first block of the source. Raise InputError, as `blocks` does."""
        if self._begun is None:
            read: list[int] = []
            blocks = self._blocks(read.append)
            first = next(blocks)
            self._start = len(first), sum(read)
            if not self.is_standard_input:  # a file is opened again to be read whole
                blocks.close()
                return first
            self._begun = first, blocks
        return self._begun[0]

    def text_per_byte(self) -> float:
        """Return how many bytes of text a byte of the file holds, estimated from its start; at least 1."""
        self.first_lines()
        text, read = self._start
        return max(1.0, text / read) if read else 1.0

    def blocks(self, advance: Callable[[int], object] = lambda _: None) -> Generator[bytes, None, None]:
        """Yield the decompressed lines in blocks of about `BLOCK_BYTES`.

        `advance` is called with how many bytes were read from disk since the last call. Compression is recognised by
        the first bytes, whatever the name of the file; consecutive members and frames are one text.

        Raises:
            InputError: the file is missing, a folder, unreadable, empty, truncated, corrupt, or no text (`_NOT_TEXT`).
        """
        if self._begun is None:
            yield from self._blocks(advance)
        else:
            first, rest = self._begun
            yield first
            yield from rest

    def _blocks(self, advance: Callable[[int], object]) -> Generator[bytes, None, None]:
        done = 0
        file = self._stream or (sys.stdin.buffer if self.is_standard_input else self.path)
        try:
            with _explain_errors(self.name), open_decompressed(file, self._workers, advance) as chunks:
                texts = chunks if self._encoding is None else _decoded(chunks, self._encoding, self.name)
                for block in self._whole_lines(_line_feeds(texts)):
                    if not done:
                        for start, what in _NOT_TEXT.items():
                            if re.match(start, block, re.DOTALL):
                                found, give, rest = f"{self.name} {what}".partition(_GIVE_UTF16)
                                raise InputError(found, command=give + rest, clients=f"{give and _SAVE_AS_UTF8}{rest}")
                        block = block.removeprefix(BYTE_ORDER_MARK)  # noqa: PLW2901  # only the first one has it
                    yield block
                    done += block.count(b"\n")
        except DecompressionError as error:
            raise InputError(
                f"{self.name} {error}; {counted(done, 'line')} {'was' if done == 1 else 'were'} read from it: download or "
                "compress it again"
            ) from None

    def _whole_lines(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Yield blocks of about `BLOCK_BYTES` from chunks of any size; each block ends after a line feed."""
        held: list[bytes] = []
        size = 0
        empty = True
        for chunk in chunks:
            rest = chunk
            end = chunk.rfind(b"\n") + 1
            if end and size + end >= BLOCK_BYTES:
                yield b"".join([*held, chunk[:end]])
                held, size, empty = [], 0, False
                rest = chunk[end:]
            if rest:
                held.append(rest)
                size += len(rest)
            if size > MAX_LINE_BYTES:
                raise InputError(
                    f"{self.name} has a line of more than {MAX_LINE_BYTES >> 20} MB: expected text with one fact a line"
                )
        if held:
            yield b"".join(held)
        elif empty:
            kind = self.format_by_name or "N-Triples or ready-made facts"
            raise InputError(
                f"{self.name} is empty: expected {self._expected or (_TABLE if kind == 'table' else kind)}"
            )


def numbered_blocks(source: Source, advance: Callable[[int], object]) -> Iterator[tuple[bytes, int]]:
    """Yield the blocks of a source, as `Source.blocks` does, each with the number of its first line."""
    line = 1
    for block in source.blocks(advance):
        yield block, line
        line += block.count(b"\n")


def format_by_name(name: str) -> Format | None:
    """Return the format that a file's name says, without regard to compression; None if it says none.

    >>> format_by_name("truthy.NT.bz2")
    'N-Triples'
    """
    name = name.lower()
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return _FORMATS.get(Path(name).suffix)


def _line_feeds(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the chunks with line feeds for CRLF and CR."""
    held = b""
    for chunk in chunks:
        if held or b"\r" in chunk:
            chunk = held + chunk  # noqa: PLW2901
            held = b"\r" if chunk.endswith(b"\r") else b""  # a line feed may follow in the next one
            chunk = chunk.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n")  # noqa: PLW2901
        yield chunk
    if held:
        yield b"\n"


def _decoded(chunks: Iterator[bytes], encoding: str, name: str) -> Iterator[bytes]:
    """Yield chunks of text of any encoding in UTF-8. Raise InputError for bytes that it does not have."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for chunk in chunks:
            yield decoder.decode(chunk).encode()
        yield decoder.decode(b"", True).encode()
    except UnicodeError as error:
        raise InputError(f"{name} is not {encoding} ({error}): give its own --encoding") from None


@contextmanager
def _explain_errors(name: str) -> Iterator[None]:
    """Turn the operating system's errors about a file into InputError."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{name} does not exist: check the name of the source file") from None
    except IsADirectoryError:
        raise InputError(f"{name} is a folder: give the files in it") from None
    except OSError as error:
        raise InputError(
            f"{name} cannot be read: {error.strerror or error}: check the permissions of the source file"
        ) from None


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files that an ingest reads.

    `sources`: of any format. `wikipedia`: the dumps of the tables `page` and `page_props`, if they are given.
    """

    sources: tuple[Source, ...]
    wikipedia: tuple[Source, Source] | None = None

    @property
    def all(self) -> tuple[Source, ...]:
        """All files, in the order in which they are read."""
        return (*self.sources, *(self.wikipedia or ()))


class BatchSource(Source):
    """Rows that are in no file: of a query, or of a program. `read` returns them, each time it is called; `reads_once`: it
    can be called once.

    `table`: the name of their table; `schema`: their columns, if they are known before the rows are read. A step that read
    them is never taken for finished.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[], pa.RecordBatchReader],
        *,
        table: str = "query",
        reads_once: bool = False,
        schema: pa.Schema | None = None,
        keys: TableKeys | None = None,
    ) -> None:
        super().__init__(Path(name), keys=keys)
        self.reads_once = reads_once
        self.name = self.address = name
        self._table, self._schema = table, schema
        self._read, self._opened = read, cast("pa.RecordBatchReader | None", None)

    @property
    def table(self) -> str:
        return self._table

    @property
    def format_by_name(self) -> Format | None:
        return "table"

    @property
    def size(self) -> int | None:
        return None

    def identity(self) -> None:
        return None

    def first_lines(self) -> bytes:
        return b""

    def text_per_byte(self) -> float:
        return 1.0

    @property
    def schema(self) -> pa.Schema:
        if self._schema is not None:
            return self._schema
        if self._opened is None:
            self._opened = self._read()
        return self._opened.schema

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    def batches(self) -> Iterator[pa.RecordBatch]:
        opened, self._opened = self._opened, None
        with opened or self._read() as reader:
            yield from reader


def inputs_of(
    sources: Sequence[Path | Source],
    wikipedia: tuple[Path, Path] | None,
    workers: int,
    *,
    encoding: str | None = None,
    labels: Sequence[str] = (),
    base: str | None = None,
) -> Inputs:
    """Return files as sources, which `workers` threads decompress; sources that are open already stay.

    `encoding`: of their text. `labels`: files of labels. `base`: of their relative IRIs.

    Raises InputError if there is no source, or if standard input (`-`) is given more than once.
    """
    if not sources:
        raise InputError("no source was given: expected at least one file, such as facts.nt.gz, facts.txt or facts.csv")
    dumps = None
    if wikipedia is not None:
        page, page_props = wikipedia
        dumps = (
            Source(page, workers, "the dump of table page"),
            Source(page_props, workers, "the dump of table page_props"),
        )
    files = [one if isinstance(one, Source) else Source(one, workers, encoding=encoding, base=base) for one in sources]
    texts = [Source(Path(path), workers, "labels of entities", encoding=encoding, is_labels=True) for path in labels]
    inputs = Inputs((*files, *texts), dumps)
    if sum(source.address == str(STANDARD_INPUT) for source in inputs.all) > 1:
        raise InputError("standard input (-) is given more than once, and can be read only once: give it once")
    return inputs


class BlockStream(io.RawIOBase):
    """A file object that reads the blocks of a source (`Source.blocks`) once, without a leading byte-order mark.

    `by_line`: a read returns no more than a line, so that `line`, the number of the line of which bytes were read last,
    says how far a library has come. `error`: the exception that the blocks raised (for a truncated archive, say). `read`
    raises it too, but the library that calls `read` may raise its own instead.
    """

    def __init__(self, blocks: Generator[bytes, None, None], *, by_line: bool = False) -> None:
        super().__init__()
        self._blocks, self.by_line = blocks, by_line
        self._block, self._at = b"", 0
        self._begun = False
        self.line = 1
        self._ends_line = False
        self.error: Exception | None = None

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        """Return up to `size` bytes, fewer only at the end of a block or, by line, of a line; without a size all that is
        left."""
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read(1 << 20), b""))
        if self._at == len(self._block):
            try:
                self._block, self._at = next(self._blocks, b""), 0
            except Exception as error:
                self.error = error
                raise
            if not self._begun:
                self._block, self._begun = self._block.removeprefix(BYTE_ORDER_MARK), True
        end = min(self._at + size, len(self._block))
        if self.by_line:
            end = self._block.find(b"\n", self._at, end) + 1 or end
            self.line += self._ends_line
            self._ends_line = self._block.endswith(b"\n", self._at, end)
        piece, self._at = self._block[self._at : end], end
        return piece

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        piece = self.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self._blocks.close()
        super().close()
