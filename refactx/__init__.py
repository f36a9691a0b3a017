"""ReFactX: language models that write facts from a knowledge base, and only facts that exist.

>>> import refactx
>>> sorted(refactx.__all__)[:3]
['Children', 'Fact', 'FactBeams']

What needs torch and Transformers is imported when it is first used, so that walking an index starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refactx.connect import open_index
    from refactx.errors import RefactxError
    from refactx.fact import Fact
    from refactx.fact_beams import FactBeams
    from refactx.grounded import GroundedModel, ground
    from refactx.index import Index
    from refactx.processor import FactLogitsProcessor
    from refactx.tree import Children, FactTree

_HOMES = {
    "Children": "refactx.tree",
    "Fact": "refactx.fact",
    "FactBeams": "refactx.fact_beams",
    "FactLogitsProcessor": "refactx.processor",
    "FactTree": "refactx.tree",
    "GroundedModel": "refactx.grounded",
    "Index": "refactx.index",
    "RefactxError": "refactx.errors",
    "ground": "refactx.grounded",
    "open_index": "refactx.connect",
}

__all__ = [
    "Children",
    "Fact",
    "FactBeams",
    "FactLogitsProcessor",
    "FactTree",
    "GroundedModel",
    "Index",
    "RefactxError",
    "ground",
    "open_index",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("refactx")
    if name not in _HOMES:
        raise AttributeError(f"module 'refactx' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
