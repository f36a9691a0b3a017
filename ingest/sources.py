"""Source files as blocks of whole lines, compressed or not, and what each of them holds.

A block is a few megabytes of bytes that end with a line feed (but for the last line of a file, perhaps), so that a step
can work on many lines at once and memory stays bounded however large the file is.
"""

import re
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from refactx.errors import InputError

Format = Literal["N-Triples", "ready-made facts"]

BLOCK_BYTES = 16 << 20
"""Some 150,000 lines. DuckDB writes inserts of more than one row group (122,880 rows) for a third of what 4 MB cost."""
MAX_LINE_BYTES = 256 << 20
_READ_BYTES = 256 << 10
_GZIP = b"\x1f\x8b"
_OTHER_COMPRESSION = {b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstandard", b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip"}
_FORMATS: dict[str, Format] = {".nt": "N-Triples", ".ntriples": "N-Triples", ".txt": "ready-made facts"}
_TRIPLE = re.compile(rb'\s*(?:<\w[\w+.-]*://[^<>\s]*>|_:\S+)\s*<\w[\w+.-]*://[^<>\s]*>\s*[<"_].*\.')
_FACT = re.compile(rb"\s*<.+>\s+<.+>\s+<.+>\s*\.?\s*")


def blocks(path: Path, advance: Callable[[int], object] = lambda _: None) -> Generator[bytes, None, None]:
    """The lines of a file, decompressed, in blocks of about `BLOCK_BYTES`; `advance` is told the bytes read from disk.

    Gzip is known by its first bytes, whatever the file is called; a file of several gzip members reads as one.

    Raises:
        InputError: the file is missing, a folder, unreadable, empty, truncated, corrupt, or compressed in another way.
    """
    try:
        with path.open("rb") as file:
            yield from _whole_lines(path, _chunks(path, file, advance))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: check the name of the source file") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder: give the files in it") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


def format_of(path: Path) -> Format:
    """What a file holds: by its first line where that settles it, else by its name.

    A line of absolute IRIs (`<http://...> <http://...> ...`) is N-Triples even in a `.txt` file.

    Raises:
        InputError: as `blocks` does; or neither the name nor the first line says what the file is.
    """
    first = _first_line(path)
    name = path.name.lower().removesuffix(".gz")
    expected = _FORMATS.get(Path(name).suffix)
    if expected != "N-Triples" and _TRIPLE.match(first):
        return "N-Triples"
    if expected is not None:
        return expected
    if _FACT.fullmatch(first):
        return "ready-made facts"
    raise InputError(
        f"{path} is neither N-Triples nor ready-made facts: expected a file name such as facts.nt, facts.nt.gz, "
        f"facts.txt or facts.txt.gz, or lines such as <subject> <predicate> <object> ."
    )


def _first_line(path: Path) -> bytes:
    """The first line that is neither blank nor a comment, of the first block; empty if there is none."""
    lines = blocks(path)
    try:
        block = next(lines).removeprefix(b"\xef\xbb\xbf")
    finally:
        lines.close()
    return next((line for line in block.split(b"\n", 1000) if line.strip() and not line.startswith(b"#")), b"")


def _chunks(path: Path, file: BinaryIO, advance: Callable[[int], object]) -> Iterator[bytes]:
    """The decompressed bytes of a file, in pieces of bounded size."""
    start = file.read(max(map(len, _OTHER_COMPRESSION)))
    if not start:
        raise InputError(f"{path} is empty: expected N-Triples or ready-made facts")
    for magic, kind in _OTHER_COMPRESSION.items():
        if start.startswith(magic):
            raise InputError(f"{path} is compressed with {kind}, which is not read: decompress it, or use gzip")
    file.seek(0)
    pieces = _pieces(file, advance)
    yield from _gunzip(path, pieces) if start.startswith(_GZIP) else pieces


def _pieces(file: BinaryIO, advance: Callable[[int], object]) -> Iterator[bytes]:
    while piece := file.read(_READ_BYTES):
        yield piece
        advance(len(piece))


def _gunzip(path: Path, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Each call to zlib has a bound on its output: a megabyte of gzip can hold a gigabyte of zeros."""
    decompressor = zlib.decompressobj(wbits=31)
    try:
        for piece in pieces:
            rest = piece
            while rest:
                if decompressor.eof:  # another member, or the zeros that pad a tape
                    rest = rest.lstrip(b"\0")
                    if not rest:
                        break
                    decompressor = zlib.decompressobj(wbits=31)
                yield decompressor.decompress(rest, BLOCK_BYTES)
                rest = decompressor.unused_data if decompressor.eof else decompressor.unconsumed_tail
        while not decompressor.eof and (held := decompressor.decompress(b"", BLOCK_BYTES)):
            yield held
    except zlib.error as error:
        raise InputError(f"{path} is a corrupt gzip file ({error}): download or compress it again") from None
    if not decompressor.eof:
        raise InputError(f"{path} is a truncated gzip file: download or compress it again")


def _whole_lines(path: Path, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Pieces of any size joined and cut again after the last line feed within about `BLOCK_BYTES`."""
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
            raise InputError(f"{path} has a line of over {MAX_LINE_BYTES >> 20} MB: expected text, one fact a line")
    if held:
        yield b"".join(held)
    elif empty:
        raise InputError(f"{path} is empty: expected N-Triples or ready-made facts")
