"""Facts as sorted token sequences of one tokenizer: the slow step of an ingest.

`encode_facts` reads a knowledge base (`refactx.ingest.knowledge`) and returns `EncodedFacts`, from which
`refactx.ingest.segment` builds a tree.
"""

from typing import TYPE_CHECKING

from refactx.exports import lazy_exports

if TYPE_CHECKING:
    from refactx.ingest.encoding.encode import encode_facts
    from refactx.ingest.encoding.encoded import EncodedFacts, SortedFacts, open_encoded

__all__ = ["EncodedFacts", "SortedFacts", "encode_facts", "open_encoded"]
__getattr__ = lazy_exports(__name__, {"encode": "encode_facts", "encoded": "EncodedFacts SortedFacts open_encoded"})
