"""The rows of a segment, loaded into its table from sorted facts."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refactx.ingest.encoding.encoded import EncodedFacts
from refactx.ingest.segment.builder import SegmentBuilder
from refactx.ingest.segment.learn import learn
from refactx.ingest.segment.packing import Packing, Shape
from refactx.ingest.segment.ranges import CutRange
from refactx.postgres.locks import Connection
from refactx.postgres.tables import copy_rows
from refactx.tree.codec import RowCodec, shared_seed

ZSTD_LEVEL = 9
"""Rows are 2% larger than at level 19, and built in half the time (docs/results/benchmarks.md)."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What all rows of a segment share, learnt from its facts.

    `packing`: for building rows. `codes`, `dictionary`: the token numbering and the zstd dictionary as the catalogue
    stores them.
    """

    packing: Packing
    codes: bytes
    dictionary: bytes

    @classmethod
    def of(cls, facts: EncodedFacts) -> "Learned":
        """Learn from a sample of the facts."""
        codes, dictionary = learn(facts, ZSTD_LEVEL)
        code_bytes = codes.frequent.astype("<i4").tobytes()
        codec = RowCodec(dictionary, ZSTD_LEVEL, shared_seed(code_bytes, dictionary))
        return cls(Packing(codes, codec), code_bytes, dictionary)


def load_segment(
    connection: Connection,
    segment: int,
    facts: EncodedFacts,
    learned: Learned,
    *,
    work: Path,
    shape: Shape,
    workers: int,
    cut: Iterable[CutRange] | None = None,
    advance: Callable[[int], object] = lambda done: None,
) -> dict[str, Any]:
    """Fill the table of a segment, in the caller's transaction. `cut`: as in `SegmentBuilder`.

    Returns:
        The columns of its row in the table `refactx.segments` (`refactx.postgres.building.show_segment`).
    """
    builder = SegmentBuilder(facts, learned.packing, work=work, shape=shape, cut=cut, workers=workers, advance=advance)
    copy_rows(connection, "pieces", segment, builder.rows())
    return {
        "levels": builder.levels,
        "cut": shape.facts,
        "facts": len(facts),
        "tokens": facts.token_count(),
        "codes": learned.codes,
        "dictionary": learned.dictionary,
    }
