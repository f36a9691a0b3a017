"""Trees in rows in memory, built by the ingest."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from refactx.ingest.segment.builder import SegmentBuilder
from refactx.ingest.segment.cutting import Packing, Shape, learn
from refactx.tree.codes import Offsets, RowCodec, offsets_of
from refactx.tree.stored import StoredTree
from refactx.tree.tree import MemoryTree, Tokens

Sequences = list[tuple[int, ...]]


class DictRows(dict[bytes, bytes]):
    """Rows in a dictionary, with the number of fetched rows."""

    fetched = 0

    def fetch(self, key: bytes) -> bytes | None:
        self.fetched += 1
        return self.get(key)

    def fetch_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        self.fetched += 1
        return {key: self[key] for key in keys if key in self}


def build(sequences: Sequences, shape: Shape, cache_bytes: int = 1 << 20) -> tuple[StoredTree, DictRows]:
    facts = ListedFacts(sequences)
    codes, dictionary = learn(facts, 9)
    codec = RowCodec(dictionary)
    with TemporaryDirectory() as work:
        builder = SegmentBuilder(facts, Packing(codes, codec), work=Path(work), shape=shape)
        rows = list(builder.rows())
    assert [key for key, _ in rows] == sorted({key for key, _ in rows}), "keys are unique and ascend"
    source = DictRows(rows)
    tree = StoredTree(
        source, codec, codes, levels=builder.levels, facts=len(facts), name="test", cache_bytes=cache_bytes
    )
    return tree, source


def agree(stored: StoredTree, sequences: Sequences, every: int = 1) -> None:
    """Check that both trees give the same answers along some of the sequences."""
    memory = MemoryTree(sequences)
    prefixes = {sequence[:depth] for sequence in sequences[::every] for depth in range(len(sequence) + 1)}
    for prefix in sorted(prefixes, reverse=True) + sorted(prefixes):
        got, expected = stored.children(prefix), memory.children(prefix)
        assert got.tokens.tolist() == expected.tokens.tolist(), prefix
        assert got.leaves.tolist() == expected.leaves.tolist(), prefix
        assert got.terminal == expected.terminal, prefix
        assert got.tokens.dtype == np.int32
        assert got.leaves.dtype == np.int64
        for absent in (5, 100_000):
            if absent not in expected.tokens:
                assert stored.children((*prefix, absent)).total == 0


def random_sequences(count: int, seed: int) -> Sequences:
    """Many sequences that branch like facts: few choices at some depths, many at others, some prefixes of others."""
    random = np.random.default_rng(seed)
    choices = [1, 30, 3, 20, 6, 1, 500, 2]
    return [
        tuple(int(random.integers(0, choices[depth])) * 7 + depth for depth in range(random.integers(5, 9)))
        for _ in range(count)
    ]


class ListedFacts:
    """Sorted distinct sequences, from a list."""

    def __init__(self, sequences: Sequences) -> None:
        self.sequences = sorted(set(sequences))

    def __len__(self) -> int:
        return len(self.sequences)

    def read_tokens(self, low: int, high: int) -> tuple[Tokens, Offsets]:
        chosen = self.sequences[low:high]
        tokens = np.array([token for sequence in chosen for token in sequence], np.int32)
        return tokens, offsets_of(np.array([len(sequence) for sequence in chosen], np.int64))
