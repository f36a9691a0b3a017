"""Models and tokenizers by name: a Hugging Face id, a folder, a GGUF file, or `demo`.

`load_model` returns a model and its Transformers tokenizer. `load_tokenizer` returns a `FactTokenizer`, which an index
needs, without importing Transformers if possible. Importing this package loads neither torch nor Transformers.
"""

from refactx.models.loading import check_chat_template, demo_model_folder, load_model, load_tokenizer

__all__ = ["check_chat_template", "demo_model_folder", "load_model", "load_tokenizer"]
