"""Sorted facts → the rows of a segment in its table."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refactx.postgres.locks import Connection
from refactx.postgres.tables import copy_rows
from refactx.tree.codec import RowCodec, shared_seed

from ..encoding.encoded import EncodedFacts
from ..segment.learn import learn
from ..segment.level_cutter import Packing, SegmentBuilder, Shape

ZSTD_LEVEL = 9
"""2% larger rows than at level 19, built in half the time (docs/benchmarks.md)."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What all rows of a segment share, learnt from its facts: `codes` as the catalogue has them, and the dictionary."""

    packing: Packing
    codes: bytes
    dictionary: bytes

    @classmethod
    def of(cls, facts: EncodedFacts) -> "Learned":
        codes, dictionary = learn(facts, ZSTD_LEVEL)
        code_bytes = codes.frequent.astype("<i4").tobytes()
        codec = RowCodec(dictionary, ZSTD_LEVEL, shared_seed(code_bytes, dictionary))
        return cls(Packing(codes, codec), code_bytes, dictionary)


def load_segment(
    connection: Connection,
    segment: int,
    facts: EncodedFacts,
    learned: Learned,
    work: Path,
    *,
    shape: Shape,
    workers: int,
    progress: Callable[[int], object] = lambda done: None,
) -> dict[str, Any]:
    """Fill the table of a segment, in the caller's transaction; gives what `refactx.segments` says of it (`show_segment`)."""
    builder = SegmentBuilder(facts, learned.packing, work, shape, workers, progress)
    copy_rows(connection, "pieces", segment, builder.rows())
    return {
        "levels": builder.levels,
        "cut": shape.facts,
        "facts": len(facts),
        "tokens": facts.token_count(),
        "codes": learned.codes,
        "dictionary": learned.dictionary,
    }
