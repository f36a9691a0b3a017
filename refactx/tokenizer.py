"""What ReFactX needs of a tokenizer: text to ids without control tokens, the bytes of every id, and a fingerprint.

Labels are data, never control: a label that reads `<|im_end|>` or `<think>` must not become that token. So encoding is
done by a copy of the tokenizer without its added tokens and without its post-processor (which adds begin-of-sequence
tokens). Built on Hugging Face `tokenizers` alone; neither torch nor Transformers is imported here.
"""

import codecs
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from refactx.errors import ModelError
from refactx.tree.children import Tokens
from refactx.tree.token_codes import MAX_TOKEN

_CACHED_WORDS = 10_000
"""The default of the tokenizers library."""


class FactTokenizer:
    """A tokenizer as the index sees it, made from the text of a `tokenizer.json`."""

    def __init__(self, serialized: str) -> None:
        whole = _read(serialized)
        self._plain = Tokenizer(whole.model)
        for part in ("normalizer", "pre_tokenizer", "decoder"):
            if getattr(whole, part) is not None:
                setattr(self._plain, part, getattr(whole, part))
        self._added: dict[int, Any] = whole.get_added_tokens_decoder()
        if not self._plain.encode("<a>", add_special_tokens=False).ids:
            raise ModelError("this tokenizer has no vocabulary: is its tokenizer.json there, and not gzipped?")
        self.serialized = serialized

    @classmethod
    def from_file(cls, path: Path) -> "FactTokenizer":
        """Read a `tokenizer.json`."""
        try:
            return cls(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError(f"cannot read {path}: {error}") from error

    @classmethod
    def from_transformers(cls, tokenizer: Any) -> "FactTokenizer":
        """From a Transformers tokenizer, which must be one of the fast kind."""
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise ModelError(
                f"{type(tokenizer).__name__} has no fast tokenizer inside; load it with AutoTokenizer and use_fast=True"
            )
        return cls(backend.to_str())

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of all that decides how plain text becomes ids: normaliser, pre-tokeniser and model.

        Added tokens are left out on purpose: Qwen2.5 and Qwen3 differ in them only, and share an index.
        """
        form = json.loads(self._plain.to_str())  # canonical: the library writes every field with its default
        decisive = {part: form[part] for part in ("normalizer", "pre_tokenizer", "model")}
        return hashlib.sha256(json.dumps(decisive, sort_keys=True, ensure_ascii=False).encode()).hexdigest()

    def encode(self, text: str) -> list[int]:
        """The ids of plain text."""
        ids: list[int] = self._plain.encode(text, add_special_tokens=False).ids
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, on all cores."""
        return [e.ids for e in self._plain.encode_batch_fast(texts, add_special_tokens=False)]

    def encode_distinct(self, texts: Sequence[str]) -> list[list[int]]:
        """As `encode_batch`, for texts in which hardly a word comes twice: a quarter faster without the model's cache of words,
        which threads write in turn and read to no avail."""
        resize = getattr(self._plain.model, "_resize_cache", None)  # of BPE and Unigram (huggingface/tokenizers#1675)
        if resize is None:
            return self.encode_batch(texts)
        resize(0)
        try:
            return self.encode_batch(texts)
        finally:
            resize(_CACHED_WORDS)

    def encode_after(self, before: str, text: str) -> list[int]:
        """The ids of `text` as a model sees them behind `before` (the trigger).

        Raises ModelError where the tokenizer has no boundary there.
        """
        head, whole = self.encode(before), self.encode(before + text)
        if whole[: len(head)] != head:
            raise ModelError(f"this tokenizer joins {before!r} to what follows it; choose another trigger")
        return whole[len(head) :]

    @cached_property
    def token_bytes(self) -> list[bytes]:
        """The bytes that each id stands for, by id; empty for special tokens and for ids without a token."""
        vocabulary: dict[str, int] = self._plain.get_vocab(with_added_tokens=False)
        size = max([*vocabulary.values(), *self._added], default=-1) + 1
        _check_size(size)
        table = [b""] * size
        to_bytes = self._to_bytes
        for token, number in vocabulary.items():
            table[number] = to_bytes(token)
        for number, added in self._added.items():
            table[number] = b"" if added.special else added.content.encode()
        return table

    @cached_property
    def _to_bytes(self) -> Callable[[str], bytes]:
        return _byte_level if self._is_byte_level else _sentence_piece

    @cached_property
    def _is_byte_level(self) -> bool:
        decoder = self._plain.decoder  # which pickles as its part of a tokenizer.json
        return decoder is not None and b"ByteLevel" in decoder.__getstate__()

    def begin_with_space(self, ids: Tokens) -> NDArray[np.bool_]:
        """Whether the text of each of some ids that `encode` gave begins with a space: bool[len(ids)].

        Only the tokens that occur are looked at: all bytes of a vocabulary (`token_bytes`) take a tenth of a second. Raises
        ModelError where an id is too high.
        """
        size = int(ids.max(initial=-1)) + 1
        _check_size(size)
        table = np.zeros(size, np.bool_)
        table[ids] = True
        present = np.flatnonzero(table)
        space, text = "Ġ" if self._is_byte_level else "▁", self._plain.id_to_token
        table[present] = [(text(number) or "").startswith((space, " ")) for number in present.tolist()]
        begins: NDArray[np.bool_] = table[ids]
        return begins

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes of a sequence of ids; ids beyond the vocabulary (padding of the model's) add nothing."""
        table = self.token_bytes
        return b"".join(table[i] for i in ids if i < len(table))

    def decode(self, ids: Iterable[int]) -> str:
        """The text of a sequence of ids."""
        return self.decode_bytes(ids).decode("utf-8", "replace")


def _read(serialized: str) -> Tokenizer:
    """A `tokenizer.json`; without the parts that only other ends need if one of those can't be read (a newer library's)."""
    try:
        return Tokenizer.from_str(serialized)
    except Exception as error:  # tokenizers raises bare Exception
        try:
            form = json.loads(serialized)
            unused = dict.fromkeys(("post_processor", "padding", "truncation"))
            return Tokenizer.from_str(json.dumps({**form, **unused, "added_tokens": form.get("added_tokens") or []}))
        except Exception:
            raise ModelError(f"this is not a tokenizer.json that the tokenizers library can read: {error}") from error


def _check_size(size: int) -> None:
    if size > MAX_TOKEN:
        raise ModelError(f"this tokenizer has an id of {size - 1:,}, which is not below {MAX_TOKEN:,}")


def _gpt2_bytes() -> dict[str, int]:
    """GPT-2's printable stand-in for each byte (openai/gpt-2, `bytes_to_unicode`), inverted."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


_BYTE_OF = {ord(character): byte for character, byte in _gpt2_bytes().items()}


def _byte_level(token: str) -> bytes:
    try:
        data, _ = codecs.charmap_encode(token, "strict", _BYTE_OF)  # in a fifth of the time that Python takes
        return data
    except UnicodeEncodeError:  # a token outside the byte alphabet is written as it is
        return token.encode()


def _sentence_piece(token: str) -> bytes:
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:5], 16)])
    return token.replace("▁", " ").encode()
