"""Rows of an index to change by hand, and the right answers."""

import struct
import zlib
from dataclasses import dataclass, replace

import numpy as np
import zstandard
from numpy.typing import NDArray

from refactx.errors import CorruptIndexError
from refactx.ingest.segment.cutting import Shape
from refactx.tree.codes import FORMAT_VERSION, RowCodec, TokenCodes
from refactx.tree.piece import Piece, from_members, to_members
from refactx.tree.stored import StoredTree
from refactx.tree.tree import Children, FactTree
from support.stored_trees import DictRows, Sequences, build, random_sequences

HEADER = struct.Struct(
    ">2sBxII"
)  # docs/reference/file-formats.md: magic, version, pad, CRC-32 over key and payload, size
MEGABYTE = 1 << 20
Prefix = tuple[int, ...]
Answer = tuple[list[int], list[int], int]
Answers = dict[Prefix, Answer]


def answer(children: Children) -> Answer:
    return children.tokens.tolist(), children.leaves.tolist(), children.terminal


def prefixes_of(sequences: Sequences) -> list[Prefix]:
    return sorted({sequence[:depth] for sequence in sequences for depth in range(len(sequence) + 1)})


def errors_of(tree: FactTree, truth: Answers, named: str) -> int:
    """Look up all prefixes: each answer must be right, or an error that names index and row. Return the number of
    errors."""
    errors = 0
    for prefix, true in truth.items():
        try:
            assert answer(tree.children(prefix)) == true, prefix
        except CorruptIndexError as error:
            assert str(error).startswith("index '"), error
            assert named in str(error), error
            errors += 1
    return errors


@dataclass
class Stored:
    """A tree in rows that can be changed, and its right answers."""

    rows: DictRows
    codec: RowCodec
    codes: TokenCodes
    levels: int
    facts: int
    truth: Answers

    def tree(self, changed: dict[bytes, bytes]) -> StoredTree:
        """The tree with some rows changed and an empty cache."""
        return StoredTree(
            DictRows(self.rows | changed), self.codec, self.codes, levels=self.levels, facts=self.facts, name="test"
        )

    def keys(self, level: int) -> list[bytes]:
        return [key for key in self.rows if key[0] == level]

    def piece(self, key: bytes) -> Piece:
        return from_members(self.codec.unpack(key, self.rows[key], "test"), key[0])

    def errors(self, key: bytes, piece: Piece, named: str | None = None) -> int:
        """The number of prefixes that raise an error if the row under `key` has another piece, with a right checksum."""
        tree = self.tree({key: self.codec.pack(key, to_members(piece))})
        return errors_of(tree, self.truth, named or key.hex())


def stored_of(sequences: Sequences) -> Stored:
    tree, rows = build(sequences, Shape(facts=4, inner=6, root=8))
    truth = {prefix: answer(tree.children(prefix)) for prefix in prefixes_of(sequences)}
    return Stored(rows, tree.codec, tree.codes, tree.root_key[0] + 1, len(set(sequences)), truth)


def sample() -> Stored:
    """Three levels or more, with facts that are token-prefixes of others, some of which end above level 0."""
    facts = random_sequences(120, 11)
    made = stored_of(facts + [fact[:3] for fact in facts[:20]] + [facts[0][:1], facts[1][:2]])
    assert made.levels >= 3
    return made


def row_with(key: bytes, pickled: bytes, size: int | None = None, payload: bytes | None = None) -> bytes:
    if payload is None:
        payload = zstandard.ZstdCompressor(write_content_size=False).compress(pickled)
    announced = len(pickled) if size is None else size
    return HEADER.pack(b"RX", FORMAT_VERSION, zlib.crc32(payload, zlib.crc32(key)), announced) + payload


def frame_that_states(size: int, single: bool) -> bytes:
    """A zstd frame (RFC 8878, section 3.1.1) with its size in the header and one empty block."""
    descriptor = b"\xe0" if single else b"\xc0\x00"
    return b"\x28\xb5\x2f\xfd" + descriptor + size.to_bytes(8, "little") + b"\x01\x00\x00"


def changed(values: NDArray[np.unsignedinteger], at: int, value: int) -> NDArray[np.uint64]:
    copy = values.astype(np.uint64)
    copy[at] = value
    return copy


def with_counts(piece: Piece, field: str, values: NDArray[np.uint64]) -> Piece:
    return replace(piece, leaves=values) if field == "leaves" else replace(piece, items=values)
