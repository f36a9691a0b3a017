"""What the rows of a segment have in common: how large their pieces may be, and how they are packed."""

from dataclasses import dataclass

from refactx.tree.codec import RowCodec
from refactx.tree.piece import Piece
from refactx.tree.piece_members import to_members
from refactx.tree.token_codes import TokenCodes

KeyedRow = tuple[bytes, bytes]
"""The key of a row, and what is stored under it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The largest sizes of the pieces of a tree.

    `facts`, `inner`: entries of a piece of level 0, and of one of a level above. `root`: entries of the top piece.
    `code_bytes`: bytes of token codes in any piece. `worthwhile`: a root is left as it is if lifting would leave more
    than this share of its entries. A node with very many children (all first tokens) cannot be cut, since `children`
    must list them.

    A walk decodes one piece a level, a row costs some 100 bytes in addition to its content, and PostgreSQL moves rows
    over 2 kB out of the table: docs/results/benchmarks.md has the sweep that chose these values.
    """

    facts: int = 512
    inner: int = 4096
    root: int = 24_576
    code_bytes: int = 32_768
    worthwhile: float = 0.7


DEFAULT_SHAPE = Shape()


@dataclass(frozen=True, slots=True)
class Packing:
    """What all rows of a segment share."""

    codes: TokenCodes
    codec: RowCodec


def packed(packing: Packing, keyed: tuple[bytes, Piece]) -> KeyedRow:
    """Return the row of a piece with its key."""
    key, piece = keyed
    return key, packing.codec.pack(key, to_members(piece))
