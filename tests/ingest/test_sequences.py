"""Sorted sequences are written once each, in whatever batches they come."""

import itertools
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from refactx.ingest.encoding import SequenceWriter, as_keys

sequences = st.lists(
    st.lists(st.sampled_from([0, 1, 255, 256, 70_000]), max_size=3).map(tuple), min_size=1, max_size=12
)


@given(sequences, st.lists(st.integers(0, 12), max_size=3))
def test_equal_sequences_are_one_in_any_batches(given_ones: list[tuple[int, ...]], cuts: list[int]) -> None:
    ordered = sorted(given_ones)
    borders = sorted({0, len(ordered), *(cut for cut in cuts if cut < len(ordered))})
    with TemporaryDirectory() as folder:
        writer, new = SequenceWriter(Path(folder), "unit"), list[bool]()
        for low, high in itertools.pairwise(borders):
            batch = ordered[low:high]
            ids = np.array([one for each in batch for one in each], np.int32)
            new += writer.write(as_keys(ids, np.array(list(map(len, batch)), np.int64))).tolist()
        if not any(ordered):
            return  # no file of ids can be mapped that has none; a unit has at least its brackets
        tokens, offsets = writer.finish()
        written = [tuple(tokens[low:high].tolist()) for low, high in itertools.pairwise(offsets)]
    assert written == sorted(set(ordered))
    assert new == [at == 0 or one != ordered[at - 1] for at, one in enumerate(ordered)]
