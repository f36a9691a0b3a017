"""ReFactX: language models that write facts from a knowledge base, and only facts that exist.

>>> import refactx
>>> sorted(refactx.__all__)[:3]
['Children', 'Fact', 'FactBeams']

What needs torch and Transformers is imported when it is first used, so that walking an index starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refactx.choosing.beam_search import FactBeams
    from refactx.connect import open_index
    from refactx.engines.hf.processor import FactLogitsProcessor
    from refactx.errors import RefactxError
    from refactx.fact import Fact
    from refactx.grounded.model import GroundedModel, ground
    from refactx.index.index import Index
    from refactx.tree.children import Children, FactTree

_HOMES = {
    "Children": "refactx.tree.children",
    "Fact": "refactx.fact",
    "FactBeams": "refactx.choosing.beam_search",
    "FactLogitsProcessor": "refactx.engines.hf.processor",
    "FactTree": "refactx.tree.children",
    "GroundedModel": "refactx.grounded.model",
    "Index": "refactx.index.index",
    "RefactxError": "refactx.errors",
    "ground": "refactx.grounded.model",
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
