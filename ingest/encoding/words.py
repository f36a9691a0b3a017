"""Texts as token ids, word by word: each distinct word goes to the tokenizer once.

Most of tokenising facts is repetition, and byte-level tokenizers begin anew at a space. Whether words join to what the
tokenizer makes of whole facts is for the caller to check (`same_as_whole`).
"""

from itertools import chain

import numpy as np
import pyarrow as pa
from pyarrow import compute

from refactx.tokenizer import FactTokenizer
from refactx.tree.arrays import Offsets, offsets_of, ragged
from refactx.tree.children import Tokens

_WORDS_A_TEXT = 256


def encode_by_word(tokenizer: FactTokenizer, texts: pa.Array) -> tuple[Tokens, Offsets]:
    """The ids of many texts, each behind a space: one after another, and how many each has. No text may be empty."""
    split = compute.split_pattern(texts, " ")
    words = split.flatten().dictionary_encode()
    ids, lengths = _encode_words(tokenizer, words.dictionary.to_pylist())
    which = words.indices.to_numpy()
    word_lengths = lengths[which]
    counts = np.add.reduceat(word_lengths, split.offsets.to_numpy()[:-1] - split.offsets[0].as_py())
    return ids[ragged(offsets_of(lengths)[which], word_lengths)], counts


def _encode_words(tokenizer: FactTokenizer, words: list[str]) -> tuple[Tokens, Offsets]:
    """The ids of words, each behind a space: one after another, and how many each has."""
    # Many in one text, since a call of its own costs a word more than its encoding. A word's first id is told by its space.
    texts = [" " + " ".join(words[low : low + _WORDS_A_TEXT]) for low in range(0, len(words), _WORDS_A_TEXT)]
    ids, _ = _flat(tokenizer.encode_distinct(texts))
    begins = np.flatnonzero(tokenizer.begin_with_space(ids))
    if len(begins) == len(words):
        return ids, np.diff(begins, append=len(ids))
    return _flat(tokenizer.encode_distinct([f" {word}" for word in words]))


def same_as_whole(tokenizer: FactTokenizer, trigger: str, facts: list[str], joined: Tokens, lengths: Offsets) -> bool:
    """Whether ids joined from words, so many a fact, are what the tokenizer makes of whole facts behind the trigger."""
    head = len(tokenizer.encode(trigger))
    whole = [ids[head:] for ids in tokenizer.encode_batch([trigger + fact for fact in facts])]
    same_lengths: bool = lengths.tolist() == list(map(len, whole))
    return same_lengths and joined.tolist() == list(chain.from_iterable(whole))


def encode_behind(tokenizer: FactTokenizer, trigger: str, facts: list[str]) -> tuple[Tokens, Offsets]:
    """The ids of whole facts behind the trigger, without those of the trigger: one after another, and how many each has.

    Raises ModelError where the trigger has no boundary.
    """
    head = len(tokenizer.encode(trigger))
    tokenizer.encode_after(trigger, facts[0])  # raises
    ids, lengths = _flat(tokenizer.encode_batch([trigger + fact for fact in facts]))
    rest = lengths - head
    return ids[ragged(offsets_of(lengths)[:-1] + head, rest)], rest


def as_keys(ids: Tokens, lengths: Offsets) -> pa.Array:
    """Sequences of ids as binary values whose byte order is their order."""
    ends = offsets_of(4 * lengths)
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(ids.astype(">u4").tobytes())]
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)


def _flat(encoded: list[list[int]]) -> tuple[Tokens, Offsets]:
    """Texts' ids, one after another, and how many each has."""
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    return np.fromiter(chain.from_iterable(encoded), np.int32, int(lengths.sum())), lengths
