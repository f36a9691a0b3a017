"""The engines over Hugging Face Transformers, a logits processor for its decoding loops, and prefilled prefixes."""

from refactx.engines.hf.packed import PackedEngine
from refactx.engines.hf.prefix import Prefix, prefill
from refactx.engines.hf.processor import FactLogitsProcessor, check_tokenizer
from refactx.engines.hf.rows import RowsEngine, engine_of

__all__ = [
    "FactLogitsProcessor",
    "PackedEngine",
    "Prefix",
    "RowsEngine",
    "check_tokenizer",
    "engine_of",
    "prefill",
]
