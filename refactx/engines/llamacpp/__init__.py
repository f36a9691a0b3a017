"""The engine over llama.cpp, for models in GGUF files; it needs `refactx[llamacpp]`, and neither torch nor Transformers.

`load` returns a `LlamaCppModel`, which has the `LlamaCppEngine`. `LlamaCppTokenizer` writes its prompts, and
`check_tokenizer` compares its vocabulary with that of an index. Importing this package does not load llama.cpp.
"""

from refactx.engines.llamacpp.engine import LlamaCppEngine
from refactx.engines.llamacpp.library import Context
from refactx.engines.llamacpp.model import LlamaCppModel, LlamaCppTokenizer, load
from refactx.engines.llamacpp.model import check as check_tokenizer

__all__ = ["Context", "LlamaCppEngine", "LlamaCppModel", "LlamaCppTokenizer", "check_tokenizer", "load"]
