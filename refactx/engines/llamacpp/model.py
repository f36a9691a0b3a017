"""A language model in a GGUF file: its weights, context and engine, its vocabulary and its chat template."""

import ctypes
import weakref
from pathlib import Path
from typing import Any

from refactx.engines.llamacpp.context import MOST_SLOTS, Context
from refactx.engines.llamacpp.engine import LlamaCppEngine
from refactx.engines.llamacpp.library import last_error, library
from refactx.engines.llamacpp.memory import cells, cores
from refactx.engines.llamacpp.prefixes import Prefixes, file_identity, kind_of_states, user_folder
from refactx.engines.llamacpp.state_files import StateFiles
from refactx.engines.llamacpp.vocabulary import Vocabulary
from refactx.engines.memory import free_memory
from refactx.errors import ModelError

ALL_LAYERS = -1
_FLOAT16 = 2  # bytes of a key or value
_OTHER_ENGINE = "run it with --engine transformers"


class LlamaCppModel:
    """A model that `load` opened.

    `engine`: the engine over its context; `vocabulary`; `chat_template`: Jinja, or None; `longest`: the most ids of a
    text, as the model was trained; `name`: what the file calls it. `close` releases the memory.
    """

    def __init__(self, path: Path, weights: "_Weights", context: Context, prefixes: Prefixes | None) -> None:
        lib, pointer = library(), weights.pointer
        self.path, self._weights, self.context = path, weights, context
        window = int(lib.llama_model_n_swa(pointer))
        self.engine = LlamaCppEngine(context, can_forget=not 0 < window < context.cells, prefixes=prefixes)
        self.vocabulary = Vocabulary(pointer, weights)
        template = lib.llama_model_chat_template(pointer, None)
        self.chat_template: str | None = template.decode("utf-8", "replace") if template else None
        self.longest = int(lib.llama_model_n_ctx_train(pointer))
        self.name = weights.value("general.name") or path.stem

    @property
    def weights(self) -> tuple[Any, object]:
        """llama.cpp's pointer to the model, and its owner: what another context over it takes."""
        return self._weights.pointer, self._weights

    def close(self) -> None:
        """Release the memory: neither the engine nor the vocabulary may be used then."""
        self.context.close()
        self._weights.close()


def load(
    path: str | Path,
    *,
    texts: int = 1,
    context: int | None = None,
    gpu_layers: int = ALL_LAYERS,
    threads: int | None = None,
    slots: int = MOST_SLOTS,
    keep_prefixes: bool = True,
) -> LlamaCppModel:
    """Load a causal language model from a GGUF file.

    `texts`: how many texts are written at once; `context`: how many ids all of them and their trees can have, by
    default 5,376 a text, or as many as fit into the half of the free memory (`engine.capacity` says how many).
    `gpu_layers`: how many layers are on the GPU, if llama.cpp was built for one: by default all. `threads`: by default
    one a physical core. `slots`: the most sequences and leaves of trees, at most 256. `keep_prefixes`: whether what
    `engine.prefill` reads is kept in the user's cache folder, where the next process finds it.

        model = load("qwen2.5-1.5b-instruct-q4_k_m.gguf")
        sequence = model.engine.prefill([1, 2, 3])

    Raises ModelError if the file cannot be loaded, or is not a causal language model whose context can take back ids;
    InputError if llama-cpp-python is not installed.
    """
    path = Path(path).expanduser()
    weights = _Weights(path, gpu_layers)
    weights.check()
    on_gpu = gpu_layers != 0 and library().llama_supports_gpu_offload()
    size = cells(context, texts, weights.bytes_a_cell, None if on_gpu else free_memory())
    made = Context(weights.pointer, weights, cells=max(size, slots), threads=threads or cores(), slots=slots)
    weights.check_context(made)
    prefixes = None
    if keep_prefixes:
        kind = kind_of_states(weights.identity, made, gpu_layers if on_gpu else 0, made.cells > weights.first_length)
        prefixes = Prefixes(made, StateFiles(user_folder()), kind)
    return LlamaCppModel(path, weights, made, prefixes)


class _Weights:
    """A pointer to a model of llama.cpp, released with this object."""

    def __init__(self, path: Path, gpu_layers: int) -> None:
        lib = self._lib = library()
        self._path = path
        if not path.is_file():
            raise ModelError(f"there is no file {path}: give a GGUF file")
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise ModelError(f"{path} is not a GGUF file: give one, or {_OTHER_ENGINE}")
        self.identity = file_identity(path)  # before it is read: it may be replaced
        parameters = lib.llama_model_default_params()
        parameters.n_gpu_layers = gpu_layers
        last_error()
        self.pointer: Any = lib.llama_model_load_from_file(str(path).encode(), parameters)
        if not self.pointer:
            raise ModelError(
                f"llama.cpp cannot load {path}: {last_error() or 'no reason given'}. Download it again if it is not "
                f"complete; if llama.cpp does not know the model, {_OTHER_ENGINE}"
            )
        self.close = weakref.finalize(self, lib.llama_model_free, self.pointer)

    def value(self, key: str) -> str | None:
        """Return the text or number of a field of the file's metadata; None if there is none."""
        buffer = ctypes.create_string_buffer(1024)
        size = self._lib.llama_model_meta_val_str(self.pointer, key.encode(), buffer, len(buffer))
        return None if size < 0 else buffer.value.decode("utf-8", "replace")

    @property
    def first_length(self) -> int:
        """The most ids of a text in the model's first training, before it was extended to longer ones."""
        name = f"{self.value('general.architecture')}.rope.scaling.original_context_length"
        return int(self.value(name) or self._lib.llama_model_n_ctx_train(self.pointer))

    @property
    def bytes_a_cell(self) -> int:
        """The bytes of an id's keys and values in all layers, float16."""
        lib, model = self._lib, self.pointer
        heads, layers = int(lib.llama_model_n_head(model)), int(lib.llama_model_n_layer(model))
        kind = self.value("general.architecture")
        default = int(lib.llama_model_n_embd(model)) // max(1, heads)
        width = sum(int(self.value(f"{kind}.attention.{part}_length") or default) for part in ("key", "value"))
        return max(1, layers * int(lib.llama_model_n_head_kv(model)) * width * _FLOAT16)

    def check(self) -> None:
        """Raise ModelError unless this is a causal language model whose context can take back ids."""
        lib, model = self._lib, self.pointer
        if lib.llama_model_has_encoder(model) or not lib.llama_model_has_decoder(model):
            raise ModelError(f"{self._path} has an encoder: choose a decoder-only instruct model")
        if lib.llama_model_is_recurrent(model) or lib.llama_model_is_hybrid(model):
            raise ModelError(
                f"{self._path} is a recurrent model, and llama.cpp cannot take back ids that such a model has read: "
                f"{_OTHER_ENGINE}, or choose another model"
            )
        if lib.llama_model_is_diffusion(model):
            raise ModelError(f"{self._path} is a diffusion model: choose a decoder-only instruct model")
        if not lib.llama_vocab_type(lib.llama_model_get_vocab(model)):
            raise ModelError(f"{self._path} has no vocabulary: choose another GGUF file of the model")

    def check_context(self, context: Context) -> None:
        """Raise ModelError if the context is of a model that embeds texts."""
        pooled = self._lib.llama_pooling_type(context.pointer) > 0
        if not context.has_memory or pooled or not self._lib.llama_get_causal_attn(context.pointer):
            raise ModelError(f"{self._path} is an embedding model: choose a decoder-only instruct model")
