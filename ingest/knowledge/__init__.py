"""Knowledge bases: parsed rows joined into named facts, which depend on no tokenizer.

`join` writes a knowledge base to a folder, from staged rows. `KnownNames` are the names that entities have already, if
facts are added to an index. `read_inverse_names` reads a file of names for the inverses of properties.
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.ingest.knowledge.inverse import read_inverse_names
    from refactx.ingest.knowledge.knowledge_base import KnowledgeBase, join
    from refactx.ingest.knowledge.names import KnownNames

__all__ = ["KnowledgeBase", "KnownNames", "join", "read_inverse_names"]
__getattr__ = lazy_exports(
    __name__, {"inverse": "read_inverse_names", "knowledge_base": "KnowledgeBase join", "names": "KnownNames"}
)
