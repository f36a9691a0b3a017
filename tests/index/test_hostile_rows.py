"""Rows changed by hand are errors that name index and row, and never a wrong mask; so are the results of wrong values."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from support.hostile_rows import (
    Stored,
    changed,
    errors_of,
    sample,
    with_counts,
)
from support.stored_trees import Sequences

from refactx.errors import CorruptIndexError
from refactx.tree.codes import FORMAT_VERSION, TokenCodes
from refactx.tree.piece import SAME_PIECE, TERMINAL, Piece, to_members


@pytest.fixture(scope="module")
def stored() -> Stored:
    return sample()


def test_a_flipped_bit_anywhere_in_a_row_changes_no_answer(stored: Stored) -> None:
    for level in range(stored.levels):
        key = stored.keys(level)[0]
        row, before = stored.rows[key], to_members(stored.piece(key))
        for bit in range(8 * len(row)):
            flipped = bytearray(row)
            flipped[bit // 8] ^= 1 << bit % 8
            try:
                got = to_members(stored.tree({key: bytes(flipped)}).piece(key))
            except CorruptIndexError as error:
                assert str(error).startswith(f"index 'test': row {key.hex()}")
            else:
                assert got == before
                assert bit // 8 in (2, 3), "only the padding, and a version older than ours"


def test_a_row_cut_at_any_length_or_grown_is_an_error(stored: Stored) -> None:
    for level in range(stored.levels):
        key = stored.keys(level)[-1]
        row = stored.rows[key]
        for cut in [row[:length] for length in range(len(row))] + [row + b"\0", row + row]:
            with pytest.raises(CorruptIndexError, match=f"^index 'test': row {key.hex()} .*damaged"):
                stored.tree({key: cut}).piece(key)


def test_exchanged_rows_are_errors(stored: Stored) -> None:
    root, (first, second, *_) = stored.keys(stored.levels - 1)[0], stored.keys(0)
    for one, other in [(first, second), (first, root)]:
        tree = stored.tree({one: stored.rows[other], other: stored.rows[one]})
        assert errors_of(tree, stored.truth, "checksum") > 0
    # Also with a new checksum for the wrong key.
    assert stored.errors(first, stored.piece(second)) > 0


def test_the_error_for_a_newer_format_advises_to_upgrade(stored: Stored) -> None:
    key = stored.keys(0)[0]
    row = bytearray(stored.rows[key])
    row[2] = FORMAT_VERSION + 1
    with pytest.raises(CorruptIndexError, match=f"row {key.hex()} .*version {FORMAT_VERSION + 1}, .*upgrade refactx"):
        stored.tree({key: bytes(row)}).piece(key)


def upper_entries(stored: Stored, level: int) -> Iterator[tuple[bytes, Piece, int]]:
    for key in stored.keys(level)[:3]:
        piece = stored.piece(key)
        for entry in {0, len(piece) // 2, len(piece) - 1}:
            yield key, piece, entry


def other_counts(count: int) -> list[int]:
    return sorted({0, max(count - 1, 0), count + 1, count + 1000, 1 << 33} - {count})


@pytest.mark.parametrize("field", ["leaves", "items"])
def test_a_wrong_count_below_the_root_is_never_a_wrong_answer(stored: Stored, field: str) -> None:
    for level in range(1, stored.levels - 1):
        for key, piece, entry in upper_entries(stored, level):
            values = getattr(piece, field)
            for count in other_counts(int(values[entry])):
                wrong = with_counts(piece, field, changed(values, entry, count))
                # A fact that ends here has no items: their number is not read.
                assert stored.errors(key, wrong) > 0 or piece.kinds[entry] == TERMINAL, (level, entry, count)


def test_a_wrong_number_of_items_in_the_root_is_never_a_wrong_answer(stored: Stored) -> None:
    for key, piece, entry in upper_entries(stored, stored.levels - 1):
        for count in other_counts(int(piece.items[entry])):
            wrong = replace(piece, items=changed(piece.items, entry, count))
            assert stored.errors(key, wrong) > 0 or piece.kinds[entry] == TERMINAL


def test_a_wrong_kind_is_never_a_wrong_answer(stored: Stored) -> None:
    for level in range(1, stored.levels):
        for key, piece, entry in upper_entries(stored, level):
            for kind in {TERMINAL, SAME_PIECE, 2, 3, 255} - {int(piece.kinds[entry])}:
                kinds = piece.kinds.copy()
                kinds[entry] = kind
                assert stored.errors(key, replace(piece, kinds=kinds), "row ") > 0, (level, entry, kind)


def test_a_wrong_carried_key_is_never_a_wrong_answer(stored: Stored) -> None:
    seen = 0
    for level in range(1, stored.levels):
        for key in stored.keys(level):
            piece = stored.piece(key)
            if piece.carried_key:
                seen += 1
                others = [b"", key, piece.carried_key[:-1], *stored.keys(level - 1)[:1]]
                for other in others:
                    if other != piece.carried_key:
                        assert stored.errors(key, replace(piece, carried_key=other), "row ") > 0
                assert stored.errors(key, replace(piece, carried_items=piece.carried_items + 1), "row ") > 0
    assert seen


def sequences_in(piece: Piece, codes: TokenCodes) -> Sequences:
    found: Sequences = []
    for entry in range(len(piece)):
        before = found[-1] if found else ()
        found.append(before[: int(piece.lcp[entry])] + tuple(piece.suffix(entry, codes)))
    return found


def with_sequences(piece: Piece, sequences: Sequences, codes: TokenCodes) -> Piece:
    """The piece with other entries, front-coded again."""
    lcp, rest = [0], [sequences[0]]
    for before, sequence in pairwise(sequences):
        shared = next(
            (n for n, (a, b) in enumerate(zip(before, sequence, strict=False)) if a != b),
            min(len(before), len(sequence)),
        )
        lcp.append(shared)
        rest.append(sequence[shared:])
    heads = np.array([(suffix or (0,))[0] for suffix in rest], np.uint32) if piece.level else piece.heads
    in_codes = [suffix[1:] if piece.level else suffix for suffix in rest]
    suffixes = [codes.encode(np.array(suffix, np.int32))[0].tobytes() for suffix in in_codes]
    ends = np.cumsum([0, *map(len, suffixes)]).astype(np.int32)
    return replace(piece, lcp=np.array(lcp, np.uint32), ends=ends, codes=b"".join(suffixes), heads=heads)


def test_entries_out_of_order_are_never_a_wrong_answer(stored: Stored) -> None:
    for level in range(stored.levels):
        for key in stored.keys(level)[:4]:
            piece = stored.piece(key)
            found = sequences_in(piece, stored.codes)
            assert with_sequences(piece, found, stored.codes).codes == piece.codes
            for first, second in [(0, 1), (0, len(found) - 1), (len(found) // 2, len(found) - 1)]:
                if first < second < len(found):
                    swapped = found.copy()
                    swapped[first], swapped[second] = found[second], found[first]
                    spelled = with_sequences(piece, swapped, stored.codes)
                    # The key of a wrong entry is missing: the error names that key.
                    assert stored.errors(key, spelled, "row ") > 0, (level, first, second)


def test_a_fact_twice_is_never_a_wrong_answer(stored: Stored) -> None:
    for key in stored.keys(0)[:4]:
        piece = stored.piece(key)
        found = sequences_in(piece, stored.codes)
        for at in range(len(found) - 1):
            twice = found.copy()
            twice[at + 1] = found[at]
            # Nothing shows that a fact is missing; but none may count twice.
            tree = stored.tree({key: stored.codec.pack(key, to_members(with_sequences(piece, twice, stored.codes)))})
            try:
                for depth in range(len(found[at]) + 1):
                    assert tree.children(found[at][:depth]).total in (0, *range(len(stored.truth)))
                assert tree.children(found[at]).terminal == 1
                pytest.fail("a fact that is there twice was not noticed")
            except CorruptIndexError as error:
                assert key.hex() in str(error)


def test_token_codes_without_a_token_are_an_error(stored: Stored) -> None:
    beyond = b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
    for level in range(stored.levels):
        for number in (beyond, b"\xff\xff\xff\xff\x7f", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\x7f"):
            key = stored.keys(level)[0]
            piece = stored.piece(key)
            for entry in (0, len(piece) - 1):
                start, end = int(piece.ends[entry]), int(piece.ends[entry + 1])
                codes = piece.codes[:start] + number + piece.codes[end:]
                ends = piece.ends.copy()
                ends[entry + 1 :] += len(number) - (end - start)
                assert stored.errors(key, replace(piece, codes=codes, ends=ends)) > 0, (level, number, entry)
