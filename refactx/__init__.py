"""ReFactX: language models that write facts from a knowledge base, and only facts that exist.

>>> import refactx
>>> sorted(refactx.__all__)[:3]
['Answer', 'Asker', 'Children']

A name is imported when it is first used: walking an index loads neither torch nor Transformers.
"""

from typing import TYPE_CHECKING

from refactx.errors import *

if TYPE_CHECKING:
    from refactx.asking.answer import Answer
    from refactx.asking.asker import Asker
    from refactx.asking.options import Generation
    from refactx.asking.prompt import Prompt, load_prompt
    from refactx.choosing.beam_search import FactBeams
    from refactx.connect import open_index
    from refactx.decoding.machine import Machine
    from refactx.decoding.partial import Partial
    from refactx.engines.hf.processor import FactLogitsProcessor
    from refactx.engines.loading import EngineOptions, load_language_model
    from refactx.fact import Fact, Link, LinkedFact
    from refactx.grounded import GroundedModel, ground
    from refactx.index.index import Index
    from refactx.models.loading import load_model
    from refactx.postgres.limits import Limits
    from refactx.tree.children import Children, FactTree
else:
    from refactx.exports import refactx_attribute as __getattr__

__version__: str
__all__ = ["Children", "Fact", "FactTree", "Index", "Limits", "Link", "LinkedFact", "open_index"]
__all__ += ["FactBeams", "FactLogitsProcessor", "GroundedModel", "Machine", "Partial", "ground", "load_model"]
__all__ += ["Answer", "Asker", "EngineOptions", "Generation", "Prompt", "load_language_model", "load_prompt"]
__all__ += ["CorruptIndexError", "DatabaseError", "IndexChangedError", "IndexExistsError", "IndexNotFoundError"]
__all__ += ["InputError", "ModelError", "RefactxError", "TokenizerMismatchError"]
__dir__ = __all__.copy
