"""The options of how a language model is run, and of a server that has it."""

from dataclasses import dataclass
from typing import Literal, get_args

from refactx.options import option

AUTO = "auto"
EngineName = Literal["auto", "transformers", "llamacpp"]
ENGINES: tuple[str, ...] = get_args(EngineName)
DTYPES = (AUTO, "float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """A server that has the model. `model_url`: None if it is loaded here; `tokenizer`: a folder or Hugging Face id with
    the chat template, for a server that does not apply its own."""

    model_url: str | None = option(None, "A server has it: vLLM, llama.cpp.", metavar="URL")
    tokenizer: str | None = option(None, "Its chat template, for SGLang.", metavar="MODEL")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """How a model is run.

    `engine`: `auto` is llama.cpp for a GGUF file if `refactx[llamacpp]` is installed, else Transformers. `adapter`: of
    LoRA, for Transformers as `refactx.load_model` takes it, for llama.cpp a GGUF file. For Transformers: `device` and
    `dtype`, as `refactx.load_model` takes them. For llama.cpp: how many layers are on the GPU
    (`gpu_layers`; None: all), how many `threads` it takes (None: one a physical core), for how many ids its `context`
    has room (None: for `texts` texts at once). `server`: one that has the model, which is then not loaded here.
    """

    engine: EngineName = option("auto", "transformers or llamacpp.", choices=ENGINES, metavar="ENGINE")
    adapter: str | None = option(None, "Of LoRA: a folder, an id, a GGUF file.", metavar="PATH")
    dtype: str = option(AUTO, "float32, bfloat16, float16.", choices=DTYPES, metavar="TYPE")
    device: str = option(AUTO, "Such as cpu, cuda:1, balanced.", metavar="DEVICE")
    gpu_layers: int | None = option(None, "llamacpp: N layers on the GPU; default: all.", least=0)
    threads: int | None = option(None, "llamacpp: default: physical cores.", least=1)
    context: int | None = option(None, "llamacpp: room for N tokens.", least=1024)
    texts: int = 1
    server: ServerOptions | None = None
