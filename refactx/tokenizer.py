"""A tokenizer as an index needs it: text to ids without control tokens, the bytes of every id, and a fingerprint.

Labels are data, never control: the label `<|im_end|>` or `<think>` must not become the control token of that name. So
a copy of the tokenizer encodes, without its added tokens and without its post-processor (which adds begin-of-sequence
tokens). Built on Hugging Face `tokenizers` alone; neither torch nor Transformers is imported here.
"""

import codecs
import hashlib
import json
import string
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray
from tokenizers import AddedToken, Tokenizer

from refactx.errors import ModelError
from refactx.fact import unwritten_bytes
from refactx.tree.codes import MAX_TOKEN
from refactx.tree.tree import Tokens

_CACHED_WORDS = 10_000
"""Words in a tokenizer's cache: the default of the tokenizers library."""

_PRINTABLE = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
_OTHERS = [byte for byte in range(256) if byte not in set(_PRINTABLE)]

_BYTE_OF = {byte: byte for byte in _PRINTABLE} | {256 + n: byte for n, byte in enumerate(_OTHERS)}
"""The byte of each printable stand-in of GPT-2: the inverse of `bytes_to_unicode` in openai/gpt-2."""

MAX_TOKENIZER_BYTES = 256 << 20


class FactTokenizer:
    """A tokenizer as an index needs it, made from the text of a `tokenizer.json`.

    `name`: for messages. Raises ModelError if the tokenizers library cannot read that text, or if the tokenizer has no
    vocabulary.
    """

    name = "this tokenizer"

    def __init__(self, serialized: str) -> None:
        whole = _read(serialized)
        self._plain = Tokenizer(whole.model)
        for part in ("normalizer", "pre_tokenizer", "decoder"):
            if getattr(whole, part) is not None:
                setattr(self._plain, part, getattr(whole, part))
        self._added: dict[int, AddedToken] = whole.get_added_tokens_decoder()
        if not self._plain.encode("<a>", add_special_tokens=False).ids:
            raise ModelError("this tokenizer has no vocabulary: is its tokenizer.json there, and not gzipped?")
        self.serialized = serialized

    @classmethod
    def from_file(cls, path: Path) -> "FactTokenizer":
        """Read a `tokenizer.json`. Raise ModelError if it cannot be read."""
        try:
            return cls(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError(f"cannot read {path}: {error}") from error

    @classmethod
    def from_transformers(cls, tokenizer: Any) -> "FactTokenizer":
        """Return the tokenizer inside a fast tokenizer of Transformers. Raise ModelError if it is a slow one."""
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise ModelError(
                f"{type(tokenizer).__name__} is not a fast tokenizer: load it with AutoTokenizer and use_fast=True"
            )
        return cls(backend.to_str())

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 (hex) of everything that decides how plain text becomes ids: normaliser, pre-tokeniser and model.

        Added tokens are left out on purpose: Qwen2.5 and Qwen3 differ in nothing else, and share an index.
        """
        return self._digest()

    @cached_property
    def fingerprint_of_facts(self) -> str:
        """The same without a normaliser's NFC, in which facts are: tokenizers with the same one write the same facts.

        Of one Qwen2, the GGUF file has no normaliser, and the tokenizer of Transformers has NFC.
        """
        return self._digest(without_nfc=True)

    def _digest(self, *, without_nfc: bool = False) -> str:
        form = json.loads(self._plain.to_str())  # canonical: the library writes every field with its default
        decisive = {part: form[part] for part in ("normalizer", "pre_tokenizer", "model")}
        if without_nfc:
            decisive["normalizer"] = _without_nfc(form["normalizer"])
        return hashlib.sha256(json.dumps(decisive, sort_keys=True, ensure_ascii=False).encode()).hexdigest()

    @cached_property
    def loss(self) -> str:
        """How text changes that is decoded from its ids, in words; empty if each text stays as it is.

        A probe with all kinds of characters finds what a vocabulary lacks; a normaliser may change others than those.
        """
        return ", ".join(filter(None, (self._normaliser, self._change(_probe()))))

    @property
    def keeps_all_text(self) -> bool:
        """Whether no text can change; others write a space as `▁`, so that a `▁` becomes a space."""
        return not self.loss and self._is_byte_level

    @cached_property
    def _normaliser(self) -> str:
        """The parts of the normaliser that may change a fact, in words; empty if none does."""
        normaliser = self._plain.normalizer  # which pickles as its part of a tokenizer.json
        kinds = _changing(None if normaliser is None else json.loads(normaliser.__getstate__()))
        return f"normaliser {' and '.join(kinds)}" if kinds else ""

    def _change(self, parts: Sequence[str]) -> str:
        """Return in words how the first part that changes does; empty if none of the parts of a fact does."""
        whole = f"Fact: <{'> <'.join(parts)}> ."
        ids = self.encode(whole)
        tokens = {number: self._plain.id_to_token(number) or "" for number in set(ids) - self._added.keys()}
        to_bytes = self._to_bytes  # of these ids alone: `token_bytes` takes a tenth of a second for a whole vocabulary
        back = b"".join(to_bytes(tokens.get(number, "")) for number in ids).decode("utf-8", "replace").lstrip()
        if whole == back:
            return ""
        others = back.removeprefix("Fact: <").removesuffix("> .").split("> <")
        changed = [(one, other) for one, other in zip(parts, others, strict=False) if one != other]
        before, after = changed[0] if changed and len(others) == len(parts) else (whole, back)
        return f"{before[:60]!r} becomes {after[:60]!r}"

    def check_text(self) -> None:
        """Raise ModelError if it cannot even keep a fact of ASCII letters, digits and brackets."""
        parts = string.ascii_lowercase, string.ascii_uppercase, f"{string.digits} (a-b), c. d"
        if self.loss and (change := self._change(parts)):
            raise ModelError(
                f"{self.name} cannot hold facts, since text changes that is decoded from its ids "
                f"({', '.join(filter(None, (self._normaliser, change)))}): choose a model whose tokenizer keeps text, as "
                "byte-level ones do"
            )

    @property
    def added_tokens(self) -> Mapping[int, AddedToken]:
        """The added tokens by id, control tokens among them. `encode` does not know them."""
        return self._added

    def plain_copy(self) -> Tokenizer:
        """Return a new tokenizer of the tokenizers library that encodes as this one, to which tokens can be added."""
        copy = Tokenizer(self._plain.model)
        for part in ("normalizer", "pre_tokenizer", "decoder"):
            if getattr(self._plain, part) is not None:
                setattr(copy, part, getattr(self._plain, part))
        return copy

    def encode(self, text: str) -> list[int]:
        """Return the ids of plain text."""
        ids: list[int] = self._plain.encode(text, add_special_tokens=False).ids
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, computed on all cores."""
        return [e.ids for e in self._plain.encode_batch_fast(texts, add_special_tokens=False)]

    def encode_distinct(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, a quarter faster than `encode_batch` for texts that share few words.

        It turns off the model's cache of words: threads wait for each other to write to it, and seldom find a word.
        """
        resize = getattr(self._plain.model, "_resize_cache", None)  # of BPE and Unigram (huggingface/tokenizers#1675)
        if resize is None:
            return self.encode_batch(texts)
        resize(0)
        try:
            return self.encode_batch(texts)
        finally:
            resize(_CACHED_WORDS)

    def encode_after(self, before: str, text: str) -> list[int]:
        """Return the ids of `text` when it follows `before` (the trigger).

        Raises ModelError if a token spans the boundary.
        """
        head, whole = self.encode(before), self.encode(before + text)
        if whole[: len(head)] != head:
            raise ModelError(f"this tokenizer joins {before!r} to what follows it; choose another trigger")
        return whole[len(head) :]

    @cached_property
    def plain_size(self) -> int:
        """One more than the highest id that plain text can have."""
        return max(self._plain.get_vocab(with_added_tokens=False).values(), default=-1) + 1

    @cached_property
    def token_bytes(self) -> list[bytes]:
        """The bytes of each id, by id; empty for special tokens and for ids without a token."""
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
    def unwritten(self) -> NDArray[np.bool_]:
        """Whether the bytes of each id have, or begin, a character that no ingest writes (`unwritten_bytes`); the last
        value, false, is for ids beyond the vocabulary."""
        search = unwritten_bytes().search
        return np.array([*(search(token) is not None for token in self.token_bytes), False])

    @cached_property
    def _to_bytes(self) -> Callable[[str], bytes]:
        return _byte_level if self._is_byte_level else _sentence_piece

    @cached_property
    def _is_byte_level(self) -> bool:
        decoder = self._plain.decoder  # which pickles as its part of a tokenizer.json
        return decoder is not None and b"ByteLevel" in decoder.__getstate__()

    def begin_with_space(self, ids: Tokens) -> NDArray[np.bool_]:
        """Return whether the text of each id begins with a space, as bool[len(ids)], given ids from `encode`.

        It looks up the ids that occur and no others: `token_bytes` takes a tenth of a second for a whole vocabulary.
        Raises ModelError if an id is too high.
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
        """Return the bytes of a sequence of ids; ids beyond the vocabulary (a model may have more rows) are ignored."""
        table, ids = self.token_bytes, tuple(ids)
        try:
            return b"".join([table[i] for i in ids])
        except IndexError:
            return b"".join(table[i] for i in ids if i < len(table))

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of a sequence of ids; bytes that are not UTF-8 become U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", "replace")


def _read(serialized: str) -> Tokenizer:
    """Read a `tokenizer.json`; if that fails, read it without the parts that an index does not need.

    Such a part may be in the format of a newer library.
    """
    try:
        return Tokenizer.from_str(serialized)
    except Exception as error:  # tokenizers raises bare Exception
        try:
            form = json.loads(serialized)
            unused = dict.fromkeys(("post_processor", "padding", "truncation"))
            return Tokenizer.from_str(json.dumps({**form, **unused, "added_tokens": form.get("added_tokens") or []}))
        except Exception:
            raise ModelError(f"this is not a tokenizer.json that the tokenizers library can read: {error}") from error


def _changing(normaliser: dict[str, Any] | None) -> list[str]:
    """Return the names of the parts of a normaliser that may change a fact: its text is in NFC, and has no white space
    but single spaces."""
    if normaliser is None:
        return []
    kind = normaliser["type"]
    if kind == "Sequence":
        return [name for part in normaliser["normalizers"] for name in _changing(part)]
    is_space = kind == "Replace" and normaliser["pattern"] == {"String": " "}
    return [] if is_space or kind in ("NFC", "Prepend", "Strip") else [kind]


def _without_nfc(normaliser: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a normaliser without its parts that are NFC; None if it has no others."""
    if normaliser is None or normaliser["type"] == "NFC":
        return None
    if normaliser["type"] != "Sequence":
        return normaliser
    parts = [part for part in map(_without_nfc, normaliser["normalizers"]) if part is not None]
    return {**normaliser, "normalizers": parts} if parts else None


@cache
def _probe() -> tuple[str, ...]:
    """Return characters of all scripts and both cases that may occur in a fact (printable, in NFC, not combining)."""
    characters = [chr(code) for code in (*range(0x21, 0x250), *range(0x250, 0x30000, 61))]
    possible = [c for c in characters if c.isprintable() and unicodedata.normalize("NFC", c) == c and not c.isspace()]
    return tuple(c for c in possible if c not in "<>" and not unicodedata.combining(c))


def _check_size(size: int) -> None:
    if size > MAX_TOKEN:
        raise ModelError(f"this tokenizer has an id of {size - 1:,}, which is not below {MAX_TOKEN:,}")


def _byte_level(token: str) -> bytes:
    try:
        data, _ = codecs.charmap_encode(token, "strict", _BYTE_OF)  # five times faster than a loop in Python
        return data
    except UnicodeEncodeError:  # a token outside the byte alphabet is written as it is
        return token.encode()


def _sentence_piece(token: str) -> bytes:
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:5], 16)])
    return token.replace("▁", " ").encode()


def unpack_tokenizer(packed: bytes) -> str:
    """Return the tokenizer.json that the catalogue stores compressed.

    Raises ZstdError or ValueError if it is damaged.
    """
    if zstandard.get_frame_parameters(packed).content_size > MAX_TOKENIZER_BYTES:
        raise ValueError(f"it claims more than {MAX_TOKENIZER_BYTES:,} bytes")
    return zstandard.ZstdDecompressor().decompress(packed, max_output_size=MAX_TOKENIZER_BYTES).decode()
