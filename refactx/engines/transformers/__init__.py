"""The engines over Hugging Face Transformers, a logits processor for its decoding loops, and prefilled prefixes."""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.engines.transformers.engine import PackedEngine
    from refactx.engines.transformers.processor import FactLogitsProcessor, check_tokenizer
    from refactx.engines.transformers.rows import Prefix, RowsEngine, engine_of, prefill

__all__ = ["FactLogitsProcessor", "PackedEngine", "Prefix", "RowsEngine", "check_tokenizer", "engine_of", "prefill"]
__getattr__ = lazy_exports(
    __name__,
    {
        "engine": "PackedEngine",
        "processor": "FactLogitsProcessor check_tokenizer",
        "rows": "Prefix RowsEngine engine_of prefill",
    },
)
