"""The checks of an import on the contents of a file: its tokenizer, every row, and the number of facts.

Each row is unpacked as a reader would (`refactx.tree.codec`, `refactx.tree.piece`, `refactx.index.names`). Whether
pieces agree with each other is checked by `refactx index verify`, which walks the whole tree, and by readers for the
pieces that they read.
"""

import json
from typing import Any

import numpy as np
import zstandard

from refactx.errors import CorruptIndexError, ModelError
from refactx.index.names import check_block
from refactx.share.blocks import KeyedRow, damage_error
from refactx.share.header import ShareHeader
from refactx.share.hub_rows import unpack_hub
from refactx.share.reader import MemberBlock
from refactx.tokenizer import FactTokenizer, unpack_tokenizer
from refactx.tree.codec import RowCodec, shared_seed
from refactx.tree.piece import MAX_KEY, TERMINAL, row_key
from refactx.tree.piece_members import from_members
from refactx.tree.token_codes import frequent_tokens

MAX_DICTIONARY_BYTES = 1 << 22
"""40 times the size of the dictionaries that an ingest trains."""


def read_tokenizer(packed: bytes, header: ShareHeader, source: str) -> FactTokenizer:
    """Return the tokenizer of a file. Raises InputError unless it is the one that the header describes."""
    try:
        text = unpack_tokenizer(packed)
        _check_ids(json.loads(text))
        tokenizer = FactTokenizer(text)
        fingerprint, vocabulary_size = tokenizer.fingerprint, len(tokenizer.token_bytes)
    except (
        zstandard.ZstdError,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        RecursionError,
        ModelError,
    ) as error:
        raise damage_error(source, f"its tokenizer cannot be read ({error})") from error
    if (fingerprint, vocabulary_size) != (header.fingerprint, header.vocabulary_size):
        raise damage_error(source, "its tokenizer is not the one that its header describes")
    return tokenizer


def _check_ids(form: Any) -> None:
    """Raise ValueError if most ids have no token: the tokenizers library lists all of those, however many there are."""
    vocabulary = form["model"]["vocab"]
    ids = list(vocabulary.values()) if isinstance(vocabulary, dict) else list(range(len(vocabulary)))
    ids += [entry["id"] for entry in form.get("added_tokens") or []]
    if ids and max(ids) > 2 * len(ids):
        raise ValueError(f"it has {len(ids):,} tokens and an id of {max(ids):,}")


class Checks:
    """The checks of one import, for parts in their order.

    `counted`: the facts and roots so far, a pair for each segment. An import that is resumed continues from them.
    """

    def __init__(self, header: ShareHeader, source: str) -> None:
        self._header, self._source = header, source
        self._codes = b""
        self._codec = self._names_codec = RowCodec()
        self.counted = [[0, 0] for _ in header.segments]

    def resume(self, counted: list[list[int]]) -> None:
        """Continue from the counts of an earlier run."""
        self.counted = counted

    def add(self, part: MemberBlock, is_known: bool) -> None:
        """Check one part. Of a part that is known, only read what later parts depend on. Raises InputError."""
        kind, number = part.member
        try:
            if kind == "codes":
                frequent_tokens(part.block.payload, self._header.vocabulary_size)
                self._codes = part.block.payload
            elif kind == "dict":
                self._codec = self._segment_codec(part.block.payload)
            elif kind == "tree" and not is_known:
                for row in part.rows:
                    self._count_piece(number, row)
            elif kind == "names" and not is_known:
                self._check_names(part)
            elif kind == "hubs":
                for row in part.rows:
                    unpack_hub(row)
        except CorruptIndexError as error:
            raise damage_error(self._source, f"{kind} {number}: {error.__cause__ or error}") from error
        except (ValueError, OverflowError, zstandard.ZstdError) as error:
            raise damage_error(self._source, f"{kind} {number}: {error}") from error

    def finish(self) -> None:
        """Raise InputError unless the parts had as many facts as the header says."""
        for number, ((facts, roots), segment) in enumerate(zip(self.counted, self._header.segments, strict=True)):
            if (facts, roots) != (segment.facts, 1):
                raise damage_error(
                    self._source,
                    f"tree {number} has {facts:,} facts and {roots} roots, but its header says {segment.facts:,} and 1",
                )

    def _segment_codec(self, dictionary: bytes) -> RowCodec:
        if len(dictionary) > MAX_DICTIONARY_BYTES:
            raise ValueError(f"it has {len(dictionary):,} bytes, more than {MAX_DICTIONARY_BYTES:,}")
        codec = RowCodec(dictionary, seed=shared_seed(self._codes, dictionary))
        codec.prepare()
        return codec

    def _count_piece(self, number: int, row: KeyedRow) -> None:
        key, packed = row
        segment, counted = self._header.segments[number], self.counted[number]
        where = f"row {key[:40].hex()}"
        if not key or key[0] >= segment.levels or len(key) > MAX_KEY:
            raise ValueError(f"{where} has an impossible key")
        piece = from_members(self._codec.unpack(key, packed, where), key[0])
        if key[0] == 0:
            counted[0] += len(piece)
        else:
            counted[0] += int(np.count_nonzero(piece.kinds == TERMINAL))
        if key[0] == segment.levels - 1:
            if key != row_key(segment.levels - 1, []) or piece.total() != segment.facts:
                raise ValueError(f"{where} is not a root of {segment.facts:,} facts")
            counted[1] += 1

    def _check_names(self, part: MemberBlock) -> None:
        for key, packed in part.rows:
            check_block(key, packed, self._names_codec, f"block of names {key[:40]!r}")
