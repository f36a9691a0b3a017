"""The rows of a segment, made from sorted facts: learn what its rows share, cut the tree into pieces, load them."""

from typing import TYPE_CHECKING

from refactx.exports import lazy_exports

if TYPE_CHECKING:
    from refactx.ingest.segment.builder import Packing, SegmentBuilder, Shape
    from refactx.ingest.segment.load import Learned, load_segment

__all__ = ["Learned", "Packing", "SegmentBuilder", "Shape", "load_segment"]
__getattr__ = lazy_exports(__name__, {"builder": "Packing SegmentBuilder Shape", "load": "Learned load_segment"})
