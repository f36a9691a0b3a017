"""The tokenizer in a file, which is checked before the tokenizers library reads it."""

import json
from typing import Any

import zstandard

from refactx.errors import ModelError
from refactx.index.file.blocks import damage_error
from refactx.index.file.header import ShareHeader
from refactx.tokenizer import FactTokenizer, unpack_tokenizer
from refactx.tree.piece import Buffer


def read_tokenizer(packed: Buffer, header: ShareHeader, source: str) -> FactTokenizer:
    """Return the tokenizer of a file. Raises InputError unless it is the one that the header describes."""
    try:
        text = unpack_tokenizer(bytes(packed))
        _check_ids(json.loads(text))
        tokenizer = FactTokenizer(text)
        fingerprint, vocabulary_size = tokenizer.fingerprint, len(tokenizer.token_bytes)
    except (
        zstandard.ZstdError,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        RecursionError,
        ModelError,
    ) as error:
        raise damage_error(source, f"its tokenizer cannot be read ({error})") from error
    if (fingerprint, vocabulary_size) != (header.fingerprint, header.vocabulary_size):
        raise damage_error(source, "its tokenizer is not the one that its header describes")
    return tokenizer


def _check_ids(form: Any) -> None:
    """Raise ValueError if most ids have no token: the tokenizers library lists all of those, however many there are."""
    vocabulary = form["model"]["vocab"]
    ids = list(vocabulary.values()) if isinstance(vocabulary, dict) else list(range(len(vocabulary)))
    ids += [entry["id"] for entry in form.get("added_tokens") or []]
    if ids and max(ids) > 2 * len(ids):
        raise ValueError(f"it has {len(ids):,} tokens and an id of {max(ids):,}")
