"""ReFactX: language models that write facts from a knowledge base, and only facts that exist.

>>> import refactx
>>> sorted(refactx.__all__)[:3]
['Answer', 'Asker', 'Children']

A name is imported when it is first used: walking an index loads neither torch nor Transformers.
"""

from typing import TYPE_CHECKING

from refactx.errors import *

if TYPE_CHECKING:
    from refactx.ask.answer import Answer
    from refactx.ask.asker import Asker, check, extract
    from refactx.ask.claims import TextClaim, TextClaims
    from refactx.ask.extraction import ExtractedFact, ExtractedFacts, ExtractionOptions
    from refactx.ask.grounded import GroundedModel, ground
    from refactx.ask.prompt import Generation, Prompt, load_prompt
    from refactx.ask.schema import FactSchema
    from refactx.build import append, build_index, fact_writer, forget, update
    from refactx.decoding.machine import Machine
    from refactx.decoding.stream import Partial
    from refactx.engines.language_models import load_language_model
    from refactx.engines.transformers.processor import FactLogitsProcessor
    from refactx.fact import Fact, Link, LinkedFact
    from refactx.index.index import Index
    from refactx.index.open import open_index
    from refactx.models.loading import load_model
    from refactx.models.options import EngineOptions
    from refactx.postgres.entry import Limits
    from refactx.selection.beams import FactBeams
    from refactx.tree.tree import Children, FactTree
else:
    from refactx.lazy import refactx_attribute as __getattr__

__version__: str
__all__ = ["Children", "Fact", "FactTree", "Index", "Limits", "Link", "LinkedFact", "open_index"]
__all__ += ["TextClaim", "TextClaims", "append", "build_index", "check", "fact_writer", "forget", "update"]
__all__ += ["ExtractedFact", "ExtractedFacts", "ExtractionOptions", "FactSchema", "extract"]
__all__ += ["FactBeams", "FactLogitsProcessor", "GroundedModel", "Machine", "Partial", "ground", "load_model"]
__all__ += ["Answer", "Asker", "EngineOptions", "Generation", "Prompt", "load_language_model", "load_prompt"]
__all__ += ["CorruptIndexError", "DatabaseError", "IndexChangedError", "IndexExistsError", "IndexNotFoundError"]
__all__ += ["InputError", "ModelError", "ModelServerError", "RefactxError", "TokenizerMismatchError"]
__dir__ = __all__.copy
