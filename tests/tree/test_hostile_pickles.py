"""Hostile pickles in rows with a right checksum: never executed, and never much memory."""

import pickle
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import zstandard
from support.hostile_rows import (
    MEGABYTE,
    Stored,
    frame_that_states,
    row_with,
    sample,
)

from refactx.errors import CorruptIndexError
from refactx.tree.codes import MAX_PICKLE_BYTES, dump


@pytest.fixture(scope="module")
def stored() -> Stored:
    return sample()


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit, f"{peak:,} bytes"


def refused(stored: Stored, row: Callable[[bytes], bytes], limit: int) -> str:
    """The error for a row in place of a piece, which must be refused within `limit` bytes of memory."""
    key = stored.keys(0)[0]
    hostile = row(key)
    tree = stored.tree({key: hostile})
    with memory_below(limit), pytest.raises(CorruptIndexError) as caught:
        tree.piece(key)
    said = str(caught.value)
    assert said.startswith(f"index 'test': row {key.hex()} ")
    return said


def short(text: str) -> bytes:
    return b"\x8c" + bytes([len(text)]) + text.encode()


def code_pickles(canary: Path) -> dict[str, bytes]:
    path = str(canary)
    line = path.encode() + b"\n"
    mkdir = b"\x80\x05" + short("os") + short("mkdir") + b"\x93"
    return {
        "GLOBAL": b"cos\nmkdir\n(V" + line + b"tR.",
        "STACK_GLOBAL": mkdir + short(path) + b"\x85R.",
        "INST": b"(V" + line + b"ios\nmkdir\n.",
        "OBJ": b"(cos\nmkdir\nV" + line + b"o.",
        "MEMO": mkdir + b"\x94" + short(path) + b"\x85R0h\x00.",
        "BUILD": b"(" + b"cos\nmkdir\n(V" + line + b"tR}bt.",
        "eval": b"cbuiltins\neval\n(V__import__('os').mkdir('" + path.encode() + b"')\ntR.",
    }


@pytest.mark.parametrize("kind", ["GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "MEMO", "BUILD", "eval"])
def test_code_in_a_pickle_never_runs(stored: Stored, tmp_path: Path, kind: str) -> None:
    canary = tmp_path / "canary"
    pickled = code_pickles(canary)[kind]
    with suppress(pickle.UnpicklingError, AttributeError):  # BUILD on None, once the folder is made
        pickle.loads(pickled)
    assert canary.exists(), "it is hostile"
    canary.rmdir()
    assert "is not allowed" in refused(stored, lambda key: row_with(key, pickled), MEGABYTE)
    assert not canary.exists()


HUGE = (1 << 62).to_bytes(8, "little")
HOSTILE = {
    "persistent id": b"Pwho\n.",
    "binary persistent id": b"K\x01Q.",
    "extension registry": b"\x82\x01.",
    "list that holds itself": b"]\x94h\x00a.",
    "tuple that holds itself": b"(]\x94h\x00at\x94.",
    "memo at a huge place": b"K\x01r\xff\xff\xff\x7f.",
    "memo in text": b"K\x01p2000000000\n.",
    "nothing in the memo": b"h\x00.",
    "get in text": b"g0\n.",
    "DUP": b"K\x01" + b"2" * 50 + b"t.",
    "bytearray of exabytes": b"\x96" + HUGE,
    "nine bytes that ask for gigabytes": b"\x8e" + (1 << 33).to_bytes(8, "little"),
    "bytes of 4 GB": b"B\xff\xff\xff\xff.",
    "bytes of 2 GB in a tuple": b"\x80\x05B\xff\xff\xff\x7f\x85.",
    "text of exabytes": b"\x8d" + HUGE,
    "LONG4 of 2 GB": b"\x8b\xff\xff\xff\x7f.",
    "LONG4 of a negative length": b"\x8b\xff\xff\xff\xff.",
    "number in text": b"L" + b"9" * 5000 + b"L\n.",
    "buffer from outside": b"\x97.",
    "frame of exabytes": b"\x80\x05\x95" + HUGE + b"K\x01\x85.",
    "frame beyond any size": b"\x80\x05\x95" + b"\xff" * 8 + b"K\x01\x85.",
    "protocol of the future": b"\x80\xffK\x01\x85.",
    "nothing": b"",
    "only its end": b".",
    "only a tuple's end": b"\x80\x05t.",
    "tuple of what is not there": b"\x80\x05\x87.",
    "marks without end": b"\x80\x05" + b"(" * 100 + b".",
    "two ends": b"\x80\x05K\x01\x85..",
    "a bare number": b"\x80\x05K\x01.",
    "nested tuples": b"\x80\x05K\x01\x85\x85.",
    "list": pickle.dumps([1], 5),
    "text": pickle.dumps(("a",), 5),
    "None": b"N\x85.",
    "true": b"\x88\x85.",
    "float": pickle.dumps((1.0,), 5),
    "empty tuple": dump(()),
    "too few members": dump((0, 1)),
    "negative count": dump((0, -1, b"\x01", b"\x01", b"\x01")),
    "huge count": dump((0, 1 << 60, b"\x01", b"\x01", b"\x01")),
    "count beyond any": dump((0, 1 << 1000, b"\x01", b"\x01", b"\x01")),
    "bytes for a count": dump((0, b"1", b"\x01", b"\x01", b"\x01")),
    "numbers for bytes": dump((0, 1, 1, 1, 1)),
    "no entries": dump((0, 0, b"\x01", b"\x01", b"\x01")),
    "level of another": dump((1, 1, b"\x01\x00", b"\x01\x01", b"\x01")),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_pickle_is_an_error_and_takes_little_memory(stored: Stored, kind: str) -> None:
    assert "damaged" in refused(stored, lambda key: row_with(key, HOSTILE[kind]), MEGABYTE)


@pytest.mark.parametrize(
    "repeated",
    [b"\x85", b"(", b"K\x00", b"C\x00", b"(t", b"\x8a\x00"],
    ids=["nest", "marks", "ints", "bytes", "tuples", "longs"],
)
def test_many_small_values_take_no_more_memory_than_announced(stored: Stored, repeated: bytes) -> None:
    # A few hundred bytes once compressed; of the 64 MiB that a row may announce, these would take gigabytes.
    pickled = b"\x80\x05K\x00(K\x00" + repeated * (MEGABYTE // 8 // len(repeated)) + b"t\x86."
    refused(stored, lambda key: row_with(key, pickled), MEGABYTE // 2)


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("size", [1 << 30, 1 << 40, (1 << 64) - 3])
def test_a_frame_that_states_a_huge_size_is_refused(stored: Stored, size: int, single: bool) -> None:
    payload = frame_that_states(size, single)
    refused(stored, lambda key: row_with(key, b"", 100, payload), MEGABYTE)


@pytest.mark.parametrize("announced", [0, 1, 1000, MAX_PICKLE_BYTES])
def test_a_zstd_bomb_is_stopped_at_the_size_it_announces(stored: Stored, announced: int) -> None:
    compressor = zstandard.ZstdCompressor(level=1, write_content_size=False).compressobj()
    zeros = bytes(16 * MEGABYTE)
    payload = b"".join(compressor.compress(zeros) for _ in range(16)) + compressor.flush()
    refused(stored, lambda key: row_with(key, b"", announced, payload), MAX_PICKLE_BYTES + 2 * MEGABYTE)


@pytest.mark.parametrize("announced", [MAX_PICKLE_BYTES + 1, (1 << 32) - 1])
def test_a_pickle_that_is_too_large_for_a_row_is_refused_before_it_is_allocated(stored: Stored, announced: int) -> None:
    refused(stored, lambda key: row_with(key, b"\x80\x05K\x01\x85.", announced), MEGABYTE)
