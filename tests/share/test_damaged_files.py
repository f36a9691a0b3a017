"""A file that was damaged by accident is one clear error, and leaves nothing in the database."""

from io import BytesIO
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.share.forged_files import START, import_error, states
from support.shared_index import blocks

from refactx.index.file.format import TruncatedFileError
from refactx.postgres.catalogue import list_indexes
from refactx.postgres.database import Database
from refactx.postgres.writing import drop
from refactx.share.importing import import_stream


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_byte_anywhere_is_found(target: Database, export_bytes: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(export_bytes) - 1))
    mask = data.draw(st.integers(1, 255))
    import_error(
        target, export_bytes[:position] + bytes([export_bytes[position] ^ mask]) + export_bytes[position + 1 :]
    )


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_missing_end_is_an_error_and_shows_no_index(
    target: Database, export_bytes: bytes, data: st.DataObject
) -> None:
    size = data.draw(st.integers(0, len(export_bytes) - 1))
    with pytest.raises(TruncatedFileError, match=r"FILE is truncated"):
        import_stream(target, BytesIO(export_bytes[:size]), "FILE", step_bytes=1000)
    assert states(target) in ([], ["building"])
    with target.connection() as connection:
        assert list_indexes(connection) == []
        if states(target):
            drop(connection, "small")


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_missing_repeated_or_moved_block_is_found(target: Database, export_bytes: bytes, data: st.DataObject) -> None:
    ends = [START, *(block.end for block in blocks(export_bytes))]
    pieces = [export_bytes[start:end] for start, end in pairwise(ends)]
    one, other = sorted(data.draw(st.sets(st.integers(0, len(pieces) - 2), min_size=2, max_size=2)))
    what = data.draw(st.sampled_from(["missing", "repeated", "moved"]))
    if what == "missing":
        del pieces[one]
    elif what == "repeated":
        pieces.insert(other, pieces[one])
    else:
        pieces[one], pieces[other] = pieces[other], pieces[one]
    import_error(target, export_bytes[:START] + b"".join(pieces))


@pytest.mark.parametrize("junk", [bytes(10_000), b"\x89PNG\r\n\x1a\n" + bytes(100), b"<a> <b> <c> .\n", b"x"])
def test_a_file_that_is_not_an_export_is_an_error(target: Database, junk: bytes) -> None:
    assert "is not a file of `refactx index export`" in import_error(target, junk)


def test_zeros_in_the_middle_are_found(target: Database, export_bytes: bytes) -> None:
    middle = blocks(export_bytes)[5].end
    assert "there is no block" in import_error(target, export_bytes[:middle] + bytes(len(export_bytes) - middle))


def test_bytes_after_the_end_are_found(target: Database, export_bytes: bytes) -> None:
    for rest in (b"\0", bytes(1000), export_bytes):
        assert "it continues after its end" in import_error(target, export_bytes + rest)
