"""The decompression of gzip, bzip2 and zstandard, which are recognised by their first bytes.

Libraries do the work, outside Python's lock: rapidgzip for files of gzip and bzip2, in several threads even if a file
is one stream; Arrow for zstandard, of which one thread gives over half a gigabyte a second, and for streams, which
rapidgzip does not read.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import rapidgzip

SUFFIXES = (".gz", ".bz2", ".zst")
CHUNK_BYTES = 1 << 20
_READ = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstandard"}
_NOT_READ = {b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip", b"7z\xbc\xaf": "7-zip", b"\x04\x22\x4d\x18": "lz4"}
_ARROW_NAMES = {"gzip": "gzip", "bzip2": "bz2", "zstandard": "zstd"}
_DIAGNOSED_BYTES = 1 << 30
"""A broken file up to this size is read once more, which takes seconds, to find out in which way it is broken."""


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
        DecompressionError: the file is truncated, corrupt, or compressed in an unsupported way; also from the iterator.
        OSError: it cannot be opened or read; also from the iterator.
    """
    with ExitStack() as stack:
        raw: Any = stack.enter_context(source.open("rb")) if isinstance(source, Path) else source
        start = raw.peek(16)[:16]
        kind = next((name for magic, name in _READ.items() if start.startswith(magic)), None)
        other = next((name for magic, name in _NOT_READ.items() if start.startswith(magic)), None)
        if other:
            raise DecompressionError(
                f"is compressed with {other}, which is not supported: use gzip, bzip2 or zstandard"
            )
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
    if kind == "gzip" and isinstance(source, Path) and size % (1 << 32) != _recorded_size(source):
        fault = _diagnose(source, kind, None)
        if fault:
            raise DecompressionError(fault)


def _recorded_size(path: Path) -> int:
    """Return the size at the end of a gzip file: that of the last member's text, modulo 2^32."""
    with path.open("rb") as file:
        file.seek(-4, SEEK_END)
        return int.from_bytes(file.read(4), "little")


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
