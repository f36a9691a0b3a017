"""A language model in a GGUF file: its weights, context and engine, its vocabulary and its chat template.

llama.cpp allocates a context as a whole. Time does not depend on its size, but on the cells that are in use.

A chat template is code from a file that was downloaded: it runs in Jinja's sandbox, and sees nothing but texts and
numbers.

With an index, its tokenizer encodes: the ids of a prompt are then those of the facts in the index, and those that
Transformers gives. llama.cpp's own tokenizer knows pre-tokenisers by name and has no normaliser, so that it differs for
some texts (docs/decisions/0030); without an index, it encodes.
"""

import ctypes
import json
import os
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, overload

from jinja2 import Template, nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from tokenizers import AddedToken, Tokenizer

from refactx.engines.engine import Engine, free_memory, mismatch_error
from refactx.engines.llamacpp.engine import LlamaCppEngine, StatesEngine
from refactx.engines.llamacpp.library import MOST_SLOTS, Context, last_error, library
from refactx.engines.llamacpp.prefixes import Prefixes, StateFiles, file_identity, kind_of_states, user_folder
from refactx.errors import ModelError
from refactx.models.loading import check_chat_template
from refactx.models.options import EngineOptions
from refactx.tokenizer import FactTokenizer

_UNUSED, _NORMAL, _CONTROL, _USER_DEFINED = 1 << 1, 1 << 2, 1 << 3, 1 << 4  # LLAMA_TOKEN_ATTR_...
_LONGEST = 4096  # bytes of a token

CELLS_A_TEXT = 1000 + 1100 + 1000 + 2500
"""Ids of a prompt, of both examples of the noisy channel, of an answer, and of a tree of continuations."""

LEAST_STATES, MOST_STATES = 8, 64
"""Slots of recurrent states: two texts with two paths each, and a tree of some sixty candidates."""

_MULTIPLE = 256
"""llama.cpp makes contexts in multiples of it."""

_HALF, _QUARTER = 2, 4
"""A context may by default take the half of the free memory, recurrent states a quarter."""

ALL_LAYERS = -1
DEFAULT_OPTIONS = EngineOptions()
_FLOAT16 = 2  # bytes of a key or value
_OTHER_ENGINE = "run it with --engine transformers"

RESERVED = 2600
"""The cells of a context that no text may take: for a channel's examples, and for trees."""


class LlamaVocabulary:
    """The vocabulary of a model, given its pointer and the `owner` to keep alive. The tables are made when needed."""

    def __init__(self, model: Any, owner: object) -> None:
        self._lib, self._owner = library(), owner
        self._pointer = self._lib.llama_model_get_vocab(model)
        self._size = int(self._lib.llama_vocab_n_tokens(self._pointer))

    def __len__(self) -> int:
        return self._size

    @cached_property
    def token_bytes(self) -> list[bytes]:
        """The bytes of each id, by id; of a control token, those of its name. 0.15 s for 150,000 ids."""
        piece, buffer = self._lib.llama_token_to_piece, ctypes.create_string_buffer(_LONGEST)
        return [
            ctypes.string_at(buffer, max(0, piece(self._pointer, number, buffer, _LONGEST, 0, True)))
            for number in range(len(self))
        ]

    @cached_property
    def added(self) -> dict[int, str]:
        """The control and user-defined tokens by id: texts that a tokenizer finds before it splits the others."""
        found = [number for number, kind in enumerate(self._kinds) if kind & (_CONTROL | _USER_DEFINED)]
        return {number: self.token_bytes[number].decode("utf-8", "replace") for number in found}

    @cached_property
    def control(self) -> frozenset[int]:
        """The ids of control tokens, which are no text."""
        return frozenset(number for number, kind in enumerate(self._kinds) if kind & _CONTROL and not kind & _NORMAL)

    @cached_property
    def unused(self) -> frozenset[int]:
        """The ids that no text has; they have no bytes."""
        return frozenset(number for number, kind in enumerate(self._kinds) if kind & _UNUSED)

    @cached_property
    def ends(self) -> frozenset[int]:
        """The ids that end a text, as llama.cpp sees it: the file's end of sequence, of turn, and those of known names.

        Without those that the file calls ordinary text (`</s>` in Qwen2.5), since facts may have them.
        """
        is_end = self._lib.llama_vocab_is_eog
        known = {number for number in self.control if is_end(self._pointer, number)}
        return frozenset(known | {number for number in (self.end, self._known("eot")) if number is not None})

    @property
    def begin(self) -> int | None:
        """The id of the begin of a sequence."""
        return self._known("bos")

    @property
    def end(self) -> int | None:
        """The id of the end of a sequence."""
        return self._known("eos")

    @property
    def padding(self) -> int | None:
        """The id that pads rows."""
        return self._known("pad")

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text by llama.cpp's own tokenizer; the names of added tokens become these tokens."""
        data = text.encode("utf-8", "replace")
        room = len(data) + 16
        ids = (self._lib.llama_token * room)()
        count = self._lib.llama_tokenize(self._pointer, data, len(data), ids, room, False, True)
        return list(ids[: max(0, count)])

    @cached_property
    def _kinds(self) -> list[int]:
        kind = self._lib.llama_vocab_get_attr
        return [int(kind(self._pointer, number)) for number in range(len(self))]

    def _known(self, name: str) -> int | None:
        number = int(getattr(self._lib, f"llama_vocab_{name}")(self._pointer))
        return None if number < 0 else number


def cells(asked: int | None, texts: int, bytes_a_cell: int, free: int | None) -> int:
    """Return the number of cells of a context: `asked`, or else what `texts` texts at once need, if memory is enough.

    `free`: bytes of free memory; None: not known. Raises ModelError if there is too little of it.

    >>> cells(None, 1, 23_040, 8 << 30), cells(None, 100, 23_040, 8 << 30)
    (5632, 186368)
    """
    wanted = _rounded(CELLS_A_TEXT * texts if asked is None else asked)
    least = wanted if asked is not None else _rounded(CELLS_A_TEXT)
    if free is None:
        return wanted
    if least * bytes_a_cell > free:
        raise ModelError(
            f"a context of {least:,} ids takes {_gigabytes(least * bytes_a_cell)} of this model, and "
            f"{_gigabytes(free)} of memory are free: ask for a smaller context, or choose a smaller model"
        )
    return max(least, min(wanted, free // _HALF // bytes_a_cell // _MULTIPLE * _MULTIPLE))


def states(most: int, bytes_a_state: int, free: int | None) -> int:
    """Return the number of slots with recurrent states of their own: as many as a quarter of the memory holds, within
    `LEAST_STATES` and `MOST_STATES`, and at most `most`. `free`: as in `cells`.

    >>> states(256, 1 << 20, None), states(256, 100 << 20, 8 << 30), states(256, 1 << 30, 8 << 30)
    (64, 20, 8)
    """
    fitting = MOST_STATES if free is None else free // _QUARTER // max(1, bytes_a_state)
    return min(most, max(LEAST_STATES, min(MOST_STATES, fitting)))


def cores() -> int:
    """Return the number of physical cores that this process may use: more threads make a pass slower."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    own = os.sched_getaffinity(0)
    files = (Path(f"/sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list") for n in own)
    try:
        return len({file.read_text(encoding="ascii") for file in files})
    except OSError:
        return len(own)


def _rounded(number: int) -> int:
    return max(1, -(-number // _MULTIPLE)) * _MULTIPLE


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"


class LlamaCppModel:
    """A model that `load` opened.

    `engine`: the engine over its context; `vocabulary`; `chat_template`: Jinja, or None; `longest`: the most ids of a
    text, as the model was trained; `name`: what the file calls it. `close` releases the memory.
    """

    def __init__(self, path: Path, weights: "_Weights", context: Context, prefixes: Prefixes | None) -> None:
        lib, pointer = library(), weights.pointer
        self.path, self._weights, self.context = path, weights, context
        window = int(lib.llama_model_n_swa(pointer))
        self.engine: LlamaCppEngine | StatesEngine = (
            StatesEngine(context, prefixes=prefixes)
            if weights.has_states
            else LlamaCppEngine(context, can_forget=not 0 < window < context.cells, prefixes=prefixes)
        )
        self.vocabulary = LlamaVocabulary(pointer, weights)
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
    adapter: str | Path | None = None,
) -> LlamaCppModel:
    """Load a causal language model from a GGUF file.

    `texts`: how many texts are written at once; `context`: how many ids all of them and their trees can have, by
    default 5,376 a text, or as many as fit into the half of the free memory (`engine.capacity` says how many).
    `gpu_layers`: how many layers are on the GPU, if llama.cpp was built for one: by default all. `threads`: by default
    one a physical core. `slots`: the most sequences and leaves of trees, at most 256, of which a CPU uses one itself.
    `keep_prefixes`: whether what `engine.prefill` reads is kept in the user's cache folder, where the next process
    finds it. `adapter`: a GGUF file of LoRA for this model.

        model = load("qwen2.5-1.5b-instruct-q4_k_m.gguf")
        sequence = model.engine.prefill([1, 2, 3])

    Raises ModelError if a file cannot be loaded, or is not a causal language model; InputError if llama-cpp-python is not
    installed.
    """
    path = Path(path).expanduser()
    weights = _Weights(path, gpu_layers)
    weights.check()
    if adapter is not None:
        weights.adapt(Path(adapter).expanduser())
    on_gpu = gpu_layers != 0 and library().llama_supports_gpu_offload()
    if weights.has_states:
        slots = states(slots, weights.bytes_a_state, None if on_gpu else free_memory())
    size = cells(context, texts, weights.bytes_a_cell, None if on_gpu else free_memory())
    made = Context(
        weights.pointer,
        weights,
        cells=max(size, slots),
        threads=threads or cores(),
        slots=slots,
        fills=not (on_gpu or weights.has_states),
        adapter=weights.adapter,
    )
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
        self.adapter: Any = None
        """A pointer to an adapter, which is freed with the model."""
        self.close = weakref.finalize(self, lib.llama_model_free, self.pointer)

    def adapt(self, path: Path) -> None:
        """Load an adapter of LoRA. Raise ModelError if it is none, or of a model of another kind or size."""
        if not path.is_file():
            raise ModelError(
                f"there is no adapter {path}: llama.cpp takes a GGUF file; for a folder of peft, {_OTHER_ENGINE}"
            )
        self.identity = repr((self.identity, file_identity(path)))
        last_error()
        self.adapter = self._lib.llama_adapter_lora_init(self.pointer, str(path).encode()) or None
        if self.adapter is None:
            raise ModelError(
                f"llama.cpp cannot load the adapter {path} for {self._path}: {last_error() or 'no reason given'}. Give the "
                "GGUF file of an adapter of LoRA that was made for this model"
            )
        if self._lib.llama_adapter_get_alora_n_invocation_tokens(self.adapter):
            raise ModelError(f"the adapter {path} begins to count at a text of its own (aLoRA): give one of LoRA")

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

    @property
    def has_states(self) -> bool:
        """Whether layers of the model are recurrent."""
        lib, model = self._lib, self.pointer
        return bool(lib.llama_model_is_recurrent(model) or lib.llama_model_is_hybrid(model))

    @property
    def bytes_a_state(self) -> int:
        """The bytes of the states of a slot, float32, as far as the file's fields tell: those of state-space layers
        and delta nets, of RWKV, and of short convolutions. No less than if all layers were recurrent."""
        kind, width = self.value("general.architecture"), int(self._lib.llama_model_n_embd(self.pointer))
        inner = int(self.value(f"{kind}.ssm.inner_size") or 0)
        kept = int(self.value(f"{kind}.ssm.state_size") or 0) + int(self.value(f"{kind}.ssm.conv_kernel") or 0)
        head = int(self.value(f"{kind}.wkv.head_size") or 0) + 2
        convolved = int(self.value(f"{kind}.shortconv.l_cache") or 0)
        return int(self._lib.llama_model_n_layer(self.pointer)) * (inner * kept + width * max(head, convolved)) * 4

    def check(self) -> None:
        """Raise ModelError unless this is a causal language model."""
        lib, model = self._lib, self.pointer
        if lib.llama_model_has_encoder(model) or not lib.llama_model_has_decoder(model):
            raise ModelError(f"{self._path} has an encoder: choose a decoder-only instruct model")
        if lib.llama_model_is_diffusion(model):
            raise ModelError(f"{self._path} is a diffusion model: choose a decoder-only instruct model")
        if not lib.llama_vocab_type(lib.llama_model_get_vocab(model)):
            raise ModelError(f"{self._path} has no vocabulary: choose another GGUF file of the model")

    def check_context(self, context: Context) -> None:
        """Raise ModelError if the context is of a model that embeds texts."""
        pooled = self._lib.llama_pooling_type(context.pointer) > 0
        if not context.has_memory or pooled or not self._lib.llama_get_causal_attn(context.pointer):
            raise ModelError(f"{self._path} is an embedding model: choose a decoder-only instruct model")


def render(template: str, messages: Sequence[Mapping[str, str]], variables: Mapping[str, Any]) -> str:
    """Return a conversation as a chat template writes it. Raises whatever the template raises.

    >>> render("{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}",
    ...        [{"role": "user", "content": "Who?"}], {"eos_token": "</s>"})
    'user: Who?</s>'
    """
    given = {"tools": None, "documents": None, "add_generation_prompt": False, **variables}
    return _compiled(template).render(messages=[dict(message) for message in messages], **given)


@cache
def _compiled(template: str) -> Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    # JSON without escapes for HTML, unlike Jinja's filter
    environment.filters["tojson"] = lambda value, ensure_ascii=False, indent=None, separators=None, sort_keys=False: (
        json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    )
    now: Callable[[str], str] = lambda form: datetime.now().strftime(form)  # noqa: E731 - its type
    functions: dict[str, Callable[..., object]] = {"raise_exception": _raise, "strftime_now": now}
    environment.globals |= functions | {"namespace": _TemplateNamespace}
    return environment.from_string(template)


class _GenerationTag(Extension):
    """`{% generation %}`, which marks what the assistant wrote: its body is written as it is."""

    tags = {"generation"}  # noqa: RUF012 (as Jinja declares it)

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _TemplateNamespace(Namespace):
    """A namespace without names that begin with `_`, which might lead out of the sandbox."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, *rest = args
        values = dict(*rest, **kwargs)
        _check_names(values)
        Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_names({name: value})
        super().__setitem__(name, value)


def _check_names(values: Mapping[Any, Any]) -> None:
    if any(str(name).startswith("_") for name in values):
        raise SecurityError("a chat template sets a name that begins with an underscore")


def _raise(message: str) -> None:
    raise TemplateError(message)


Message = Mapping[str, str]


class LlamaCppTokenizer:
    """A tokenizer over a `vocabulary` and its `chat_template`; `tokenizer`: that of the index, which `check` passed."""

    def __init__(self, vocabulary: LlamaVocabulary, chat_template: str | None, tokenizer: FactTokenizer | None) -> None:
        self.vocabulary, self.chat_template, self._tokenizer = vocabulary, chat_template, tokenizer
        self.bos_token_id, self.eos_token_id = vocabulary.begin, vocabulary.end
        self.pad_token_id = vocabulary.end if vocabulary.padding is None else vocabulary.padding
        self.ends = vocabulary.ends

    @cached_property
    def added_tokens_decoder(self) -> dict[int, str]:
        """The texts of added tokens by id: a text that has one is split there."""
        return self.vocabulary.added if self._tokenizer is None else {n: one.content for n, one in self._added.items()}

    def encode(self, text: str, add_special_tokens: Literal[False] = False) -> list[int]:
        """Return the ids of a text. The texts of added tokens become these tokens; none is added."""
        if self._encoder is None:
            return self.vocabulary.encode(text)
        encoder, numbers = self._encoder
        ids: list[int] = encoder.encode(text, add_special_tokens=False).ids
        return [numbers.get(n, n) for n in ids] if numbers else ids

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = False, **_: object) -> str:
        """Return the text of ids; bytes that are not UTF-8 become U+FFFD. Ids beyond the vocabulary are ignored."""
        table, skipped = self.vocabulary.token_bytes, self.vocabulary.control if skip_special_tokens else ()
        data = b"".join(table[n] for n in map(int, ids) if 0 <= n < len(table) and n not in skipped)
        return data.decode("utf-8", "replace")

    @overload
    def apply_chat_template(
        self, messages: Sequence[Message], *, tokenize: Literal[False], **variables: object
    ) -> str: ...
    @overload
    def apply_chat_template(
        self, messages: Sequence[Message], *, tokenize: Literal[True] = True, **variables: object
    ) -> list[int]: ...
    def apply_chat_template(
        self, messages: Sequence[Message], *, tokenize: bool = True, **variables: object
    ) -> str | list[int]:
        """Return a conversation as the chat template writes it: its ids, or its text unless `tokenize`.

        `variables` are the template's, such as `add_generation_prompt` and `enable_thinking`. Raises ModelError if
        there is no template, and whatever the template raises.
        """
        if not self.chat_template:
            raise ModelError("the model has no chat template: choose an instruct model")
        text = render(self.chat_template, messages, {**self._names, **variables})
        return self.encode(text) if tokenize else text

    @cached_property
    def _names(self) -> dict[str, str]:
        """The variables of templates for special tokens."""
        numbers = {"bos_token": self.bos_token_id, "eos_token": self.eos_token_id, "pad_token": self.pad_token_id}
        table = self.vocabulary.token_bytes
        return {name: table[n].decode("utf-8", "replace") for name, n in numbers.items() if n is not None}

    @cached_property
    def _added(self) -> dict[int, AddedToken]:
        """The added tokens of this model: models that share an index may differ in them (Qwen2.5 and Qwen3 do).

        Those that the index's tokenizer has as well, with its settings, and those that it does not know. Tokens that it
        has as ordinary text are not among them: llama.cpp takes some for control tokens.
        """
        if self._tokenizer is None:
            return {}
        own, plain, control = self.vocabulary.added, self._tokenizer.plain_copy(), self.vocabulary.control
        known = {n: one for n, one in self._tokenizer.added_tokens.items() if own.get(n) == one.content}
        left = {n: text for n, text in own.items() if n not in known and text and plain.token_to_id(text) is None}
        return known | {n: AddedToken(text, normalized=False, special=n in control) for n, text in left.items()}

    @cached_property
    def _encoder(self) -> tuple[Tokenizer, dict[int, int]] | None:
        """The index's tokenizer with the added tokens, and the ids of those to which it gives others."""
        if self._tokenizer is None:
            return None
        encoder = self._tokenizer.plain_copy()
        encoder.add_tokens([self._added[n] for n in sorted(self._added)])
        given = [(encoder.token_to_id(one.content), n) for n, one in self._added.items()]
        return encoder, {other: n for other, n in given if other is not None and other != n}


def check(index: Any, vocabulary: LlamaVocabulary) -> None:
    """Raise TokenizerMismatchError unless a model has the tokens of an index's tokenizer, by the same ids.

    A GGUF file has no fingerprint of its tokenizer. Ids that it calls unused are not compared. `index`: a
    `refactx.decoding.states.FactSource`.
    """
    own, expected = vocabulary.token_bytes, index.tokenizer.token_bytes
    for number, piece in enumerate(expected):
        found = own[number] if number < len(own) else b""
        if piece and piece != found and number not in vocabulary.unused:
            raise mismatch_error(index, f"id {number} is {_shown(piece)} in the index and {_shown(found)} in the model")


def _shown(piece: bytes) -> str:
    return repr(piece.decode("utf-8", "replace")) if piece else "nothing"


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


def load_gguf(path: Path, index: Any = None, options: EngineOptions = DEFAULT_OPTIONS) -> LlamaCppLanguageModel:
    """Load a model. Raises as `load` does, and TokenizerMismatchError for an index of another tokenizer."""
    layers = ALL_LAYERS if options.gpu_layers is None else options.gpu_layers
    texts, context, threads = options.texts, options.context, options.threads
    model = load(path, texts=texts, context=context, gpu_layers=layers, threads=threads, adapter=options.adapter)
    if index is not None:
        check(index, model.vocabulary)
    loaded = LlamaCppLanguageModel(model, index)
    check_chat_template(loaded.tokenizer)
    return loaded
