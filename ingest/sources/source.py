"""Source files as blocks of whole lines, compressed or not.

A block is some 16 MB of bytes that end with a line feed (except, perhaps, at the end of a file), so that a step can
work on many lines at once and memory stays bounded, however large the file is. The line ends of all systems (LF, CRLF,
CR) become line feeds. `refactx.ingest.sources.decompression` decompresses gzip, bzip2 and zstandard.
"""

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from refactx.errors import InputError
from refactx.fact import counted
from refactx.ingest.sources.decompression import SUFFIXES, DecompressionError, open_decompressed

Format = Literal["N-Triples", "N-Quads", "ready-made facts", "Turtle", "TriG", "N3", "RDF/XML", "JSON-LD", "table"]

BLOCK_BYTES = 16 << 20
"""Some 150,000 lines: smaller blocks are parsed more slowly (4 MB: by a fifth), larger ones only take more memory."""
MAX_LINE_BYTES = 256 << 20
STANDARD_INPUT = Path("-")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_FORMATS: dict[str, Format] = {
    **dict.fromkeys((".nt", ".ntriples"), "N-Triples"),
    **dict.fromkeys((".nq", ".nquads"), "N-Quads"),
    ".txt": "ready-made facts",
    **dict.fromkeys((".ttl", ".turtle"), "Turtle"),
    ".trig": "TriG",
    ".n3": "N3",
    **dict.fromkeys((".rdf", ".owl"), "RDF/XML"),
    ".jsonld": "JSON-LD",
    **dict.fromkeys((".csv", ".tsv", ".tab", ".parquet", ".pq"), "table"),
}
_TABLE = "a table with columns subject, predicate and object"


class Source:
    """One source: a file, or standard input (`-`), which can be read only once. `workers` threads decompress it.

    `expected`: what it should hold, for the error if it is empty; by default the format that its name says.
    """

    def __init__(self, path: Path, workers: int = 2, expected: str | None = None) -> None:
        self.path, self._workers = path, workers
        self._expected = expected
        self.is_standard_input = path == STANDARD_INPUT
        self.name = "standard input" if self.is_standard_input else str(path)
        self._begun: tuple[bytes, Generator[bytes, None, None]] | None = None
        self._start = 0, 0  # bytes of text in the first block, and bytes of the file read for it

    @property
    def format_by_name(self) -> Format | None:
        """The format that the name says, without regard to compression; None if it says none."""
        return format_by_name(self.path.name)

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
            InputError: the file is missing, a folder, unreadable, empty, UTF-16, truncated, corrupt, or compressed in
                an unsupported way.
        """
        if self._begun is None:
            yield from self._blocks(advance)
        else:
            first, rest = self._begun
            yield first
            yield from rest

    def _blocks(self, advance: Callable[[int], object]) -> Generator[bytes, None, None]:
        done = 0
        file = sys.stdin.buffer if self.is_standard_input else self.path
        try:
            with _explain_errors(self.name), open_decompressed(file, self._workers, advance) as chunks:
                for block in self._whole_lines(_line_feeds(chunks)):
                    if not done:
                        if block.startswith(_UTF_16):
                            raise InputError(f"{self.name} is UTF-16: expected UTF-8, so convert it (iconv -f UTF-16)")
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
