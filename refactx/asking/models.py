"""Models as askers need them: language models, and writers of beams over the whole text."""

from typing import Any, cast

from refactx.decoding.states import FactSource
from refactx.engines.language_model import LanguageModel
from refactx.errors import ModelError
from refactx.writing.texts import Writer


def language_model(model: Any, tokenizer: Any) -> LanguageModel:
    """Return a model of Transformers with its tokenizer as a language model; another language model as it is."""
    if hasattr(model, "engine") and hasattr(model, "ends"):
        found: LanguageModel = model
        return found
    from refactx.engines.hf.language_model import TransformersModel  # imports torch and transformers: seconds

    return TransformersModel(model, tokenizer)


def generate_writer(model: LanguageModel, index: FactSource | None) -> Writer:
    """Return the writer that calls Transformers' `generate`. Raise ModelError for a model of another library."""
    if not model.has_generate:
        raise ModelError(
            "beams over the whole text need the engine Transformers: leave out num_beams, use fact_beams, or give a GGUF file "
            "with --engine transformers"
        )
    from refactx.grounded.writer import GenerateWriter

    return GenerateWriter(cast(Any, model), index)
