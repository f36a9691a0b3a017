"""The checks of an import on the contents of a file: its tokenizer, every row, and the number of facts.

Each row is unpacked as a reader would (`refactx.tree.codec`, `refactx.tree.piece`, `refactx.index.names`). Whether
pieces agree with each other is checked by `refactx index verify`, which walks the whole tree, and by readers for the
pieces that they read.
"""

from dataclasses import replace

import numpy as np
import zstandard

from refactx.errors import CorruptIndexError
from refactx.index.file.blocks import IN_PLACE, damage_error
from refactx.index.file.header import ShareHeader
from refactx.index.file.row_blocks import KeyedRow
from refactx.index.file.segments import segment_codec
from refactx.index.names import check_block
from refactx.index.verify import unwritten_facts
from refactx.share.hub_rows import unpack_hub
from refactx.share.reader import MemberBlock
from refactx.share.tree_rows import to_database
from refactx.tokenizer import FactTokenizer
from refactx.tree.codec import RowCodec
from refactx.tree.piece import MAX_KEY, TERMINAL, row_key
from refactx.tree.piece_members import from_members
from refactx.tree.token_codes import TokenCodes, frequent_tokens


class Checks:
    """The checks of one import, for parts in their order.

    `counted`: the facts and roots so far, a pair for each segment. An import that is resumed continues from them.
    """

    def __init__(self, header: ShareHeader, source: str, tokenizer: FactTokenizer) -> None:
        self._header, self._source, self._tokenizer = header, source, tokenizer
        self._codes, self._token_codes = b"", TokenCodes(np.empty(0, np.int32))
        self._codec = self._names_codec = RowCodec()
        self.counted = [[0, 0] for _ in header.segments]

    def resume(self, counted: list[list[int]]) -> None:
        """Continue from the counts of an earlier run."""
        self.counted = counted

    def add(self, part: MemberBlock, is_known: bool) -> MemberBlock:
        """Check one part, and return it with its rows as a database has them.

        Of a part that is known, only read what later parts depend on. Raises InputError.
        """
        kind, number = part.member
        try:
            if kind == "codes":
                self._codes = part.block.payload
                self._token_codes = TokenCodes(frequent_tokens(self._codes, self._header.vocabulary_size))
            elif kind == "dict":
                self._codec = segment_codec(self._codes, part.block.payload)
            elif kind == "tree" and not is_known:
                if part.block.version >= IN_PLACE:
                    part = replace(part, rows=tuple(map(self._stored, part.rows)))
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
        return part

    def finish(self) -> None:
        """Raise InputError unless the parts had as many facts as the header says."""
        for number, ((facts, roots), segment) in enumerate(zip(self.counted, self._header.segments, strict=True)):
            if (facts, roots) != (segment.facts, 1):
                raise damage_error(
                    self._source,
                    f"tree {number} has {facts:,} facts and {roots} roots, but its header says {segment.facts:,} and 1",
                )

    def _stored(self, row: KeyedRow) -> KeyedRow:
        return row if row[0][:1] <= b"\0" else to_database(row, self._codec, f"row {row[0][:40].hex()}")

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
        for text in unwritten_facts(piece, self._token_codes, self._tokenizer):
            raise ValueError(f"{where} has the fact {text!a}, with a character that no ingest writes")
        if key[0] == segment.levels - 1:
            if key != row_key(segment.levels - 1, []) or piece.total() != segment.facts:
                raise ValueError(f"{where} is not a root of {segment.facts:,} facts")
            counted[1] += 1

    def _check_names(self, part: MemberBlock) -> None:
        for key, packed in part.rows:
            check_block(key, packed, self._names_codec, f"block of names {key[:40]!r}")
