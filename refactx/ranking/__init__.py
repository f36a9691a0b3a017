"""The likeness of meaning of questions and names, by embeddings.

| names | what they are |
|---|---|
| `Encoder`, `load_encoder` | the protocol: names in, vectors out; and the encoder of a name |
| `Ranker`, `open_ranker` | how near the names of an index are to a question, in nats for the choice of facts |
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.ranking.encoders import Encoder, load_encoder
    from refactx.ranking.ranker import Ranker, open_ranker

__all__ = ["Encoder", "Ranker", "load_encoder", "open_ranker"]
__getattr__ = lazy_exports(__name__, {"encoders": "Encoder load_encoder", "ranker": "Ranker open_ranker"})
