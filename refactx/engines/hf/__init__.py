"""The engine over Hugging Face Transformers, a logits processor for its decoding loops, and prefilled prefixes."""

from refactx.engines.hf.engine import TransformersEngine
from refactx.engines.hf.prefix import Prefix, prefill
from refactx.engines.hf.processor import FactLogitsProcessor, check_tokenizer

__all__ = ["FactLogitsProcessor", "Prefix", "TransformersEngine", "check_tokenizer", "prefill"]
