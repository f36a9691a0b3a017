"""The memory of an index: its names, by which words are resolved to the ids of entities and properties.

* `open_memory` opens the `Memory` of an index: stored with embeddings (`VectorMemory`), or its names alone (`NameMemory`).
* `build_memory` makes a stored one, or lets it follow its index, with an `Encoder` (`load_encoder`).
* `MemoryResolver` finds the ids of a query's mentions, or refuses it, with what is known of facts (`FactFeasibility`).
* `best_threshold` finds how similar names have to be (`Thresholds`); `MemoryWithout` is without some of them.

Names are imported when they are first used: some need psycopg.
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.names.entry import (
        Choice,
        Encoder,
        Entry,
        Memory,
        Near,
        Pair,
        Refused,
        Resolved,
        Threshold,
        Thresholds,
        best_threshold,
    )
    from refactx.names.name_memory import MemoryWithout, NameMemory
    from refactx.names.opening import load_encoder, open_memory
    from refactx.names.resolver import FactFeasibility, Feasible, MemoryResolver, Pattern, patterns_of
    from refactx.names.vector_memory import BuildResult, VectorMemory, build_memory

__all__ = ["BuildResult", "Choice", "Encoder", "Entry", "FactFeasibility", "Feasible", "Memory", "MemoryResolver"]
__all__ += ["MemoryWithout", "NameMemory", "Near", "Pair", "Pattern", "Refused", "Resolved", "Threshold", "Thresholds"]
__all__ += ["VectorMemory", "best_threshold", "build_memory", "load_encoder", "open_memory", "patterns_of"]
__getattr__ = lazy_exports(
    __name__,
    {
        "entry": "Choice Encoder Entry Memory Near Pair Refused Resolved Threshold Thresholds best_threshold",
        "name_memory": "MemoryWithout NameMemory",
        "opening": "load_encoder open_memory",
        "resolver": "FactFeasibility Feasible MemoryResolver Pattern patterns_of",
        "vector_memory": "BuildResult VectorMemory build_memory",
    },
)
