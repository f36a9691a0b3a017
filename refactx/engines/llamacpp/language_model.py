"""A model in a GGUF file, run by llama.cpp, as `refactx.engines.language_model.LanguageModel`."""

from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from refactx.engines.engine import Engine
from refactx.engines.llamacpp.model import ALL_LAYERS, LlamaCppModel, load
from refactx.engines.llamacpp.text import LlamaCppTokenizer, check
from refactx.models.loading import check_chat_template

RESERVED = 2600
"""The cells of a context that no text may take: for a channel's examples, and for trees."""


class LlamaCppLanguageModel:
    """A model that was loaded, and its tokenizer. `index`: the one whose tokenizer encodes; None: llama.cpp's own."""

    has_generate = False

    def __init__(self, model: LlamaCppModel, index: Any = None) -> None:
        self._model = model
        self.engine: Engine | None = model.engine
        self.tokenizer = LlamaCppTokenizer(
            model.vocabulary, model.chat_template, None if index is None else index.tokenizer
        )
        self.ends: Collection[int] = self.tokenizer.ends
        cells = model.context.cells
        self.room: int | None = min(model.longest, cells - min(RESERVED, cells // 2))

    def check_tokenizer(self, index: Any) -> None:
        check(index, self._model.vocabulary)

    @cached_property
    def token_bytes(self) -> Sequence[bytes]:
        vocabulary = self._model.vocabulary
        return [b"" if n in vocabulary.control else piece for n, piece in enumerate(vocabulary.token_bytes)]


def load_gguf(
    path: Path,
    index: Any = None,
    *,
    gpu_layers: int | None = None,
    threads: int | None = None,
    context: int | None = None,
    texts: int = 1,
) -> LlamaCppLanguageModel:
    """Load a model. The arguments are those of `refactx.engines.loading.EngineOptions`, and the errors of `load`."""
    model = load(
        path,
        texts=texts,
        context=context,
        gpu_layers=ALL_LAYERS if gpu_layers is None else gpu_layers,
        threads=threads,
    )
    if index is not None:
        check(index, model.vocabulary)
    loaded = LlamaCppLanguageModel(model, index)
    check_chat_template(loaded.tokenizer)
    return loaded
