"""The rows of a segment, made from sorted facts: learn what its rows share, cut the tree into pieces, load them."""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.ingest.segment.builder import Learned, SegmentBuilder
    from refactx.ingest.segment.cutting import Packing, Shape

__all__ = ["Learned", "Packing", "SegmentBuilder", "Shape"]
__getattr__ = lazy_exports(__name__, {"builder": "Learned SegmentBuilder", "cutting": "Packing Shape"})
