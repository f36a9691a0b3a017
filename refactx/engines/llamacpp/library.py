"""The llama.cpp library, by the ctypes declarations of the package llama-cpp-python, and what it reports as errors.

Only the C API is used: the package's own classes decode one sequence. llama.cpp writes what it does to standard error
unless a callback takes it; here, one drops all but the last errors.

A cell holds the keys and values of one id at one position; several sequences of the context may have it. To tell them
from the sequences of an engine, the context's sequences are called slots here: they are numbers below `slots`.
"""

import ctypes
import weakref
from collections import deque
from collections.abc import Collection, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refactx.engines.engine import Logits
from refactx.errors import InputError, ModelError
from refactx.lazy import require

LEAST, BELOW = (0, 3, 36), (0, 4)
"""The versions of llama-cpp-python whose functions and structures are used here: at least, and below."""
NO_ROOM = 1
"""What `llama_decode` returns if the ids do not fit into the context."""

_ERROR = 4  # GGML_LOG_LEVEL_ERROR
_errors: deque[str] = deque(maxlen=8)
_callbacks: list[Any] = []  # llama.cpp calls the last one, so it must not be collected

MOST_SLOTS = 256
"""LLAMA_MAX_SEQ of llama.cpp."""

IDS_A_PASS = 512
"""The most ids of one call of `llama_decode`, and of one pass through the model.

A prompt of 1,000 ids takes as long with 256; with more, the memory of a pass grows (docs/decisions/0030).
"""

FAST_IDS, FAR, FEW_IDS = 64, 450, 24
"""On a CPU, flash attention reads `FAST_IDS` ids and more with a kernel of its own (GGML_FA_TILE_Q in ggml-cpu). With
fewer, an id that `FAR` others of its text precede takes twice as long; less than `FEW_IDS` are faster alone in any case."""


@cache
def library() -> Any:
    """Return the module `llama_cpp.llama_cpp`, initialised and silent.

    Raises InputError if llama-cpp-python is not installed, has another version, or cannot be loaded.
    """
    require("llama_cpp", "llamacpp")
    _check_version()
    try:
        from llama_cpp import llama_cpp as lib
    except (ImportError, OSError, RuntimeError) as error:
        raise InputError(
            f"llama-cpp-python cannot be loaded: {error}. Install it again: pip install --force-reinstall --no-cache-dir "
            "'refactx[llamacpp]'"
        ) from error
    _callbacks.append(lib.llama_log_callback(_note))
    lib.llama_log_set(_callbacks[-1], ctypes.c_void_p(0))
    lib.llama_backend_init()
    return lib


def last_error() -> str:
    """Return what llama.cpp reported last as an error, as one line, and forget it; "" if it reported none."""
    said = " ".join("".join(_errors).split())
    _errors.clear()
    return said.rpartition(": ")[2] if len(said) > 200 else said


def package_version() -> str:
    """Return the version of llama-cpp-python, "unknown" if it was not installed as a package."""
    try:
        return version("llama-cpp-python")
    except PackageNotFoundError:
        return "unknown"


def _check_version() -> None:
    found = package_version()
    numbers = tuple(int(part) for part in found.split("+")[0].split(".") if part.isdigit())
    if not LEAST <= numbers < BELOW:
        least, below = (".".join(map(str, numbers)) for numbers in (LEAST, BELOW))
        raise InputError(
            f"llama-cpp-python {found} is installed, at least {least} and below {below} is needed: pip install "
            "'refactx[llamacpp]'"
        )


def _note(level: int, text: bytes, _: object) -> None:
    """Keep an error's text. Called by llama.cpp, from any thread."""
    if level == _ERROR:
        _errors.append(text.decode("utf-8", "replace"))


class Entry(NamedTuple):
    """An id to read at a position, by the slots that get its cell; `wanted`: whether there are logits after it."""

    id: int
    position: int
    slots: Collection[int]
    wanted: bool


class Context:
    """`model`: a pointer to a llama.cpp model, whose `owner` is kept alive; `cells`: how many ids it holds.

    `vocabulary`: the width of logits. `ids`, `rows`: the most ids and rows of logits of one call of `decode`.
    `exact`: keys and values are float32, without flash attention. Else both round to float16, so that logits after the
    same ids differ by some 0.001 if these were read in other batches. `fills`: whether few ids of long texts are read with
    others in a slot of their own, as many as are fast on a CPU. `adapter`: a pointer to an adapter of LoRA, which
    is freed with the model, or None. Raises ModelError if llama.cpp cannot make the context, or use the adapter.
    """

    def __init__(
        self,
        model: Any,
        owner: object,
        *,
        cells: int,
        threads: int,
        slots: int = MOST_SLOTS,
        ids: int = IDS_A_PASS,
        exact: bool = False,
        fills: bool = False,
        adapter: Any = None,
    ) -> None:
        lib = self._lib = library()
        parameters = lib.llama_context_default_params()
        parameters.n_ctx, parameters.n_seq_max = cells, slots
        parameters.n_batch = parameters.n_ubatch = ids
        parameters.n_outputs_max = parameters.n_outputs_max_per_seq = slots  # it always reserves a row a slot
        parameters.n_threads = parameters.n_threads_batch = threads
        parameters.kv_unified = parameters.swa_full = True
        if exact:
            parameters.type_k = parameters.type_v = lib.GGML_TYPE_F32
            parameters.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
        last_error()
        pointer = lib.llama_init_from_model(model, parameters)
        if not pointer:
            raise ModelError(
                f"llama.cpp cannot make a context of {cells:,} ids: {last_error() or 'no memory'}. Ask for a smaller "
                "context, or choose a smaller model"
            )
        self._owner, self.pointer = owner, pointer
        self._finalizer = weakref.finalize(self, lib.llama_free, pointer)
        if adapter is not None:
            adapters, scales = (lib.llama_adapter_lora_p_ctypes * 1)(adapter), (ctypes.c_float * 1)(1.0)
            if lib.llama_set_adapters_lora(pointer, adapters, 1, scales):
                raise ModelError(f"llama.cpp cannot use the adapter: {last_error() or 'no reason given'}")
        self._memory = lib.llama_get_memory(pointer)
        self._fills = fills and not exact and slots > 1
        self.cells, self.slots = int(lib.llama_n_ctx(pointer)), slots - self._fills
        self.ids, self.rows, self.exact = int(lib.llama_n_batch(pointer)), self.slots, exact
        self.vocabulary = int(lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model)))
        self._batch = _LlamaBatch(lib, self.ids)

    @property
    def has_memory(self) -> bool:
        """Whether the model keeps what it read: one that only embeds texts does not."""
        return bool(self._memory)

    def decode(self, entries: Sequence[Entry]) -> int:
        """Read entries, at most `ids` with at most `rows` wanted. Return 0, or NO_ROOM if they do not fit.

        A slot's entries are in the order of positions, from the one after its last. Raises ModelError if llama.cpp
        fails otherwise; then some of the entries may have been read.
        """
        last_error()
        code, filling = NO_ROOM, self._filling(entries)
        if filling:
            try:
                code = int(self._lib.llama_decode(self.pointer, self._batch([*entries, *filling])))
            finally:
                self.remove(self.slots)
        if code == NO_ROOM:
            code = int(self._lib.llama_decode(self.pointer, self._batch(entries)))
        if code < 0 or code > 1:
            raise ModelError(f"llama.cpp cannot read {len(entries)} ids: {last_error() or f'error {code}'}")
        return code

    def _filling(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the ids with which entries are read faster than alone."""
        if not self._fills or len(entries) < FEW_IDS or sum(1 + one.position / FAR for one in entries) < FAST_IDS:
            return []
        missing = min(FAST_IDS, self.ids) - len(entries)
        return [Entry(entries[0].id, position, (self.slots,), wanted=False) for position in range(missing)]

    def logits(self, rows: int) -> Logits:
        """Return the logits after the wanted entries of the last call of `decode`, as a view of llama.cpp's memory."""
        pointer = self._lib.llama_get_logits(self.pointer)
        view: Logits = np.ctypeslib.as_array(pointer, shape=(rows, self.vocabulary))
        return view

    def copy(self, source: int, target: int, start: int, stop: int) -> None:
        """Let a slot have the cells of another at the positions from `start` to before `stop`."""
        if stop > start:
            self._lib.llama_memory_seq_cp(self._memory, source, target, start, stop)

    def remove(self, slot: int, start: int = 0) -> None:
        """Take the cells from position `start` on from a slot; a cell without slots is free."""
        self._lib.llama_memory_seq_rm(self._memory, slot, start, -1)

    def state(self, slot: int) -> memoryview:
        """Return the cells of a slot as bytes, which `restore` takes in a context of the same kind; none on failure."""
        state = np.empty(self._lib.llama_state_seq_get_size(self.pointer, slot), np.uint8)
        size = int(self._lib.llama_state_seq_get_data(self.pointer, _address(state), state.size, slot))
        return state[:size].data

    def restore(self, slot: int, state: memoryview, length: int) -> bool:
        """Let an empty slot have the cells of a state of `length` ids. Return False if there is no room for them, or if
        llama.cpp refuses the state; then the slot is empty still.

        llama.cpp does not check all of the bytes: only those that `state` has returned may be given.
        """
        view = np.frombuffer(state, np.uint8)
        size = int(self._lib.llama_state_seq_set_data(self.pointer, _address(view), view.size, slot))
        if 0 < size == view.size and self._lib.llama_memory_seq_pos_max(self._memory, slot) == length - 1:
            return True
        self.remove(slot)
        return False

    def close(self) -> None:
        """Release the memory. Nothing else may be called then."""
        self._finalizer()


def _address(array: NDArray[np.uint8]) -> Any:
    return ctypes.cast(array.ctypes.data, ctypes.POINTER(ctypes.c_uint8))


class _LlamaBatch:
    """A `llama_batch` over arrays of numpy, which are allocated once."""

    def __init__(self, lib: Any, size: int) -> None:
        self._ids, self._positions, self._counts = (np.empty(size, np.int32) for _ in range(3))
        self._pointers, self._wanted = np.empty(size, np.uintp), np.empty(size, np.int8)
        self._slots: NDArray[np.int32] = np.empty(0, np.int32)
        batch = self._batch = lib.llama_batch()
        kinds = dict(lib.llama_batch._fields_)
        arrays: dict[str, NDArray[Any]] = {"token": self._ids, "pos": self._positions, "n_seq_id": self._counts}
        for name, array in (arrays | {"seq_id": self._pointers, "logits": self._wanted}).items():
            setattr(batch, name, ctypes.cast(array.ctypes.data, kinds[name]))

    def __call__(self, entries: Sequence[Entry]) -> Any:
        n = len(entries)
        ids, positions, slots, wanted = zip(*entries, strict=True)
        self._ids[:n], self._positions[:n], self._wanted[:n] = ids, positions, wanted
        self._counts[:n] = [len(some) for some in slots]
        self._slots = np.fromiter(chain.from_iterable(slots), np.int32)
        starts = np.cumsum(self._counts[:n]) - self._counts[:n]
        self._pointers[:n] = self._slots.ctypes.data + self._slots.itemsize * starts
        self._batch.n_tokens = n
        return self._batch
