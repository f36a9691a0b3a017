"""SPARQL with placeholders for URIs, and the memory of names by which these get ids.

* `to_pgmr` makes training data, `read_pgmr` reads what a model writes (PGMR, arXiv:2502.13369); a `Resolver` finds ids.
* `open_memory` opens the `Memory` of an index: stored with embeddings (`VectorMemory`), or its names alone (`NameMemory`).
* `build_memory` makes a stored one, or lets it follow its index, with a `refactx.ranking.Encoder`.
* `MemoryResolver` finds the ids of a query's mentions, or refuses it, with what is known of facts (`FactFeasibility`).
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.sparql.placeholders.entry import Memory, MemoryEntry, MentionChoice, Refused, ResolvedMentions
    from refactx.sparql.placeholders.index_names import IndexNames, IndexResolver
    from refactx.sparql.placeholders.name_memory import NameMemory
    from refactx.sparql.placeholders.opening import open_memory
    from refactx.sparql.placeholders.resolver import FactFeasibility, MemoryResolver
    from refactx.sparql.placeholders.text import (
        MentionNames,
        MentionsRefusedError,
        PgmrQuery,
        Placeholder,
        Refusal,
        Resolver,
        Style,
        from_pgmr,
        read_pgmr,
        to_pgmr,
    )
    from refactx.sparql.placeholders.vector_memory import VectorMemory, build_memory

__all__ = ["FactFeasibility", "IndexNames", "IndexResolver", "Memory", "MemoryEntry", "MemoryResolver"]
__all__ += ["MentionChoice", "MentionNames", "MentionsRefusedError", "NameMemory", "PgmrQuery", "Placeholder"]
__all__ += ["Refusal", "Refused", "ResolvedMentions", "Resolver", "Style", "VectorMemory", "build_memory"]
__all__ += ["from_pgmr", "open_memory", "read_pgmr", "to_pgmr"]
__getattr__ = lazy_exports(
    __name__,
    {
        "entry": "MentionChoice MemoryEntry Memory Refused ResolvedMentions",
        "index_names": "IndexNames IndexResolver",
        "name_memory": "NameMemory",
        "opening": "open_memory",
        "resolver": "FactFeasibility MemoryResolver",
        "text": "MentionNames PgmrQuery Placeholder Refusal MentionsRefusedError Resolver Style from_pgmr read_pgmr to_pgmr",
        "vector_memory": "VectorMemory build_memory",
    },
)
