"""The encoding of texts word by word: each distinct word goes to the tokenizer once.

Most of tokenising facts is repetition, and byte-level tokenizers start anew at a space. The caller has to check whether
joined words are what the tokenizer makes of whole facts (`same_as_whole`).
"""

from itertools import chain

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute

from refactx.errors import ModelError
from refactx.ingest.encoding.decode import decode_texts
from refactx.tokenizer import FactTokenizer
from refactx.tree.arrays import Offsets, offsets_of, ragged
from refactx.tree.children import Tokens

_WORDS_A_TEXT = 256


def encode_by_word(tokenizer: FactTokenizer, texts: pa.Array) -> tuple[Tokens, Offsets]:
    """Return the ids of texts, each after a space: all ids in a row, and how many each has. No text may be empty."""
    split = compute.split_pattern(texts, " ")
    words = split.flatten().dictionary_encode()
    ids, lengths = _encode_words(tokenizer, words.dictionary.to_pylist())
    which = words.indices.to_numpy()
    word_lengths = lengths[which]
    counts = np.add.reduceat(word_lengths, split.offsets.to_numpy()[:-1] - split.offsets[0].as_py())
    return ids[ragged(offsets_of(lengths)[which], word_lengths)], counts


def _encode_words(tokenizer: FactTokenizer, words: list[str]) -> tuple[Tokens, Offsets]:
    """Return the ids of words, each after a space: all ids in a row, and how many each has."""
    # Many words in one text, since a call for each costs more than its encoding. A space marks a word's first id.
    texts = [" " + " ".join(words[low : low + _WORDS_A_TEXT]) for low in range(0, len(words), _WORDS_A_TEXT)]
    ids, _ = _flatten(tokenizer.encode_distinct(texts))
    begins = np.flatnonzero(tokenizer.begin_with_space(ids))
    if len(begins) == len(words):
        return ids, np.diff(begins, append=len(ids))
    return _flatten(tokenizer.encode_distinct([f" {word}" for word in words]))


def same_as_whole(tokenizer: FactTokenizer, trigger: str, facts: list[str], joined: Tokens, lengths: Offsets) -> bool:
    """Return whether ids joined from words, `lengths` of them a fact, are those of whole facts after the trigger."""
    head = len(tokenizer.encode(trigger))
    whole = [ids[head:] for ids in tokenizer.encode_batch([trigger + fact for fact in facts])]
    same_lengths: bool = lengths.tolist() == list(map(len, whole))
    return same_lengths and joined.tolist() == list(chain.from_iterable(whole))


def encode_after_trigger(tokenizer: FactTokenizer, trigger: str, facts: list[str]) -> tuple[Tokens, Offsets]:
    """Return the ids of whole facts after the trigger, without its own: all ids in a row, and how many each has.

    Raises ModelError if the tokenizer joins the trigger and what follows it.
    """
    head = len(tokenizer.encode(trigger))
    tokenizer.encode_after(trigger, facts[0])  # raises ModelError
    ids, lengths = _flatten(tokenizer.encode_batch([trigger + fact for fact in facts]))
    rest = lengths - head
    return ids[ragged(offsets_of(lengths)[:-1] + head, rest)], rest


def are_kept(tokenizer: FactTokenizer, texts: pa.Array, ids: Tokens, lengths: Offsets) -> NDArray[np.bool_]:
    """Return which texts can be decoded from their ids, `lengths` of them each: bool[n].

    Others would be facts of another entity, or of none.
    """
    if tokenizer.keeps_all_text:
        return np.ones(len(texts), np.bool_)
    decoded = decode_texts(tokenizer, ids, offsets_of(lengths))
    kept: NDArray[np.bool_] = compute.equal(decoded, texts.cast(pa.large_binary())).to_numpy(zero_copy_only=False)
    return kept


def check_any_left(tokenizer: FactTokenizer, facts: int) -> None:
    """Raise ModelError if the tokenizer keeps the texts of no fact."""
    if not facts:
        how = tokenizer.loss or "'▁' becomes a space"
        raise ModelError(
            f"{tokenizer.name} changes the texts of all facts ({how}), so none could be decoded from its ids: choose a model "
            "whose tokenizer keeps text, as byte-level ones do"
        )


def as_keys(ids: Tokens, lengths: Offsets) -> pa.Array:
    """Return sequences of ids as binary values (large_binary) that sort like them, byte by byte."""
    ends = offsets_of(4 * lengths)
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(ids.astype(">u4").tobytes())]
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)


def from_keys(keys: pa.Array) -> tuple[Tokens, Offsets]:
    """Return binary values that `as_keys` made as ids and offsets (int64[n + 1]).

    >>> tokens, offsets = from_keys(as_keys(np.array([7, 8, 9]), np.array([2, 1])))
    >>> tokens.tolist(), offsets.tolist()
    ([7, 8, 9], [0, 2, 3])
    """
    values = keys.cast(pa.large_binary())
    _, ends, data = values.buffers()
    bounds = np.frombuffer(ends, np.int64)[values.offset : values.offset + len(values) + 1]
    offsets = (bounds - bounds[0]) // 4
    if not offsets[-1]:
        return np.empty(0, np.int32), offsets
    return np.frombuffer(data, ">u4", offsets[-1], bounds[0]).astype(np.int32), offsets


def _flatten(encoded: list[list[int]]) -> tuple[Tokens, Offsets]:
    """Return lists of ids as all ids in a row, and how many each has."""
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    return np.fromiter(chain.from_iterable(encoded), np.int32, int(lengths.sum())), lengths
