"""Token codes: every way to decode them returns the same ids, and refuses the same damage."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refactx.tree.codes import TokenCodes

IDS = st.integers(0, 200_000) | st.integers(0, 300)


@given(tokens=st.lists(IDS, min_size=1, max_size=40), frequent=st.lists(IDS, max_size=200, unique=True))
def test_every_way_to_decode_returns_the_encoded_ids(tokens: list[int], frequent: list[int]) -> None:
    codes = TokenCodes(np.array(frequent, np.int32))
    data, sizes = codes.encode(np.array(tokens, np.int32))
    assert codes.sizes(np.array(tokens, np.int32)).tolist() == sizes.tolist()
    starts = np.cumsum(sizes, dtype=np.int64) - sizes
    assert codes.decode(data.tobytes()) == tokens
    assert codes.decode_all(data.tobytes())[0].tolist() == tokens
    for few in (tokens[:5], tokens):
        assert codes.decode_at(data.tobytes(), starts[: len(few)]).tolist() == few
        assert codes.tokens_at(data, starts[: len(few)]).tolist() == few


@pytest.mark.parametrize("damaged", [b"\x81", b"\x80\x80\x80\x80\x80\x01", b"\xff\xff\xff\xff\x7f"])
def test_a_code_without_an_end_or_with_too_high_an_id_is_refused(damaged: bytes) -> None:
    codes = TokenCodes(np.array([7, 8], np.int32))
    for read in (codes.decode, codes.decode_all, lambda data: codes.decode_at(data, np.array([0]))):
        with pytest.raises((ValueError, IndexError)):
            read(damaged)
