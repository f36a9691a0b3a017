"""Language models by name, with the engine that runs them: Transformers, or llama.cpp for GGUF files."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refactx.engines.engine import LanguageModel
from refactx.errors import InputError, ModelError
from refactx.models import demo
from refactx.models.loading import DEMO, gguf_of, load_model, progress_log
from refactx.models.options import AUTO, EngineOptions

if TYPE_CHECKING:
    from refactx.engines.served.model import ServedModel


class ChatOnlyError(ModelError):
    """A server whose model can only chat."""


def load_language_model(name: str, index: Any = None, options: EngineOptions | None = None) -> LanguageModel:
    """Return the model of `name`, a Hugging Face id, a folder, a GGUF file, or `demo`, to be given to `refactx.Asker`.

    `index`: its facts are written, or None; a tokenizer that does not fit is reported before the weights are loaded.

        with refactx.open_index("demo") as index:
            model = load_language_model("smollm2.gguf", index)
            answer = refactx.Asker(model, model.tokenizer, index).ask("What is the capital of Alaska?")

    With a `server` in `options`, `name` is the model's name there (empty: the only one); a server that can only chat is
    refused: `refactx.ask.checked.CheckedAsker` asks it.

    Raises ModelError if the model cannot be found, loaded, or used for chat; InputError if a package is needed and not
    installed, or for options of the other engine; TokenizerMismatchError if the index was built for another tokenizer.
    """
    options = options or EngineOptions()
    if (served := served_model(name, index, options)) is not None:
        return served
    progress_log.info("loading the model %s", name)
    gguf = _gguf_for_llamacpp(name, options)
    if gguf is not None:
        from refactx.engines.llamacpp.model import load_gguf

        return load_gguf(gguf, index, options)
    _refuse(options, "transformers", "llamacpp", {"gpu_layers", "threads", "context"})
    from refactx.engines.transformers.processor import check_tokenizer
    from refactx.engines.transformers.rows import TransformersModel  # seconds

    def check(tokenizer: Any) -> None:
        if index is not None:
            check_tokenizer(index, tokenizer)

    loaded = load_model(name, device=options.device, dtype=options.dtype, adapter=options.adapter, check=check)
    return TransformersModel(*loaded)


def served_model(name: str, index: Any, options: EngineOptions) -> "ServedModel | None":
    """Return the model of a server that scores ids; None if options name no server.

    Raises ModelError for a server that can only chat, and as `refactx.engines.served.load_served` does.
    """
    server = options.server
    if server is None or server.model_url is None:
        return None
    from refactx.engines.served.model import load_served

    url = server.model_url
    found = load_served(url, name or None, index, tokenizer=server.tokenizer)
    if found is None:
        raise ChatOnlyError(
            f"the model server {url.rpartition('@')[2]} has no API that scores ids (vLLM, SGLang and llama-server have): only "
            "`refactx ask`, `eval` and `serve` work with it, whose facts are checked after they are written"
        )
    return found


def engine_for(name: str, options: EngineOptions) -> str:
    """Return the engine that runs a model, `transformers` or `llamacpp`, without loading or downloading it; the URL of the
    server that has it."""
    if options.server is not None and options.server.model_url is not None:
        return options.server.model_url.rpartition("@")[2]
    if options.engine != "auto":
        return options.engine
    if find_spec("llama_cpp") is None or options.device != AUTO or options.dtype != AUTO:
        return "transformers"
    if name == DEMO:  # it has both forms: an adapter of peft is for the other
        is_gguf = demo.prefers_gguf() and not (options.adapter and Path(options.adapter).expanduser().is_dir())
    else:
        is_gguf = gguf_of(name) is not None
    return "llamacpp" if is_gguf else "transformers"


def _gguf_for_llamacpp(name: str, options: EngineOptions) -> Path | None:
    """Return the GGUF file that llama.cpp runs; None if Transformers runs the model."""
    if engine_for(name, options) == "transformers":
        return None
    gguf = demo.gguf_file() if name == DEMO else gguf_of(name)
    if options.engine == "llamacpp":
        if gguf is None:
            raise InputError(
                f"llama.cpp runs GGUF files, and {name} is none: give a .gguf file, or --engine transformers"
            )
        _refuse(options, "llamacpp", "transformers", {"device", "dtype"})
    return gguf


def _refuse(options: EngineOptions, engine: str, other: str, names: set[str]) -> None:
    """Raise InputError for options that the engine does not have."""
    usual = EngineOptions()
    given = sorted(name for name in names if getattr(options, name) != getattr(usual, name))
    if given:
        shown = " and ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InputError(
            f"{shown} of the engine {other} given, but {engine} runs this model: leave them out, or add --engine {other}"
        )
