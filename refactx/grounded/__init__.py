"""Models whose `generate` writes only facts of an index."""

from refactx.grounded.model import GroundedModel, ground

__all__ = ["GroundedModel", "ground"]
