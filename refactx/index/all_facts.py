"""The facts of an index as a stream, in token order: its segments merged, each fact with its signed sum.

Or those alone that some of its segments add to the others, or take away.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from refactx.errors import CorruptIndexError
from refactx.fact import Fact, split_fact
from refactx.tokenizer import FactTokenizer
from refactx.tree.matrix import EntryMatrix, from_matrix
from refactx.tree.scan import changed, surviving
from refactx.tree.stored import StoredTree

TokenIds = tuple[int, ...]


def token_sequences(segments: Sequence[tuple[int, StoredTree]], after: TokenIds | None = None) -> Iterator[TokenIds]:
    """Yield the token ids of each fact whose signed sum over the segments is 1, in ascending order.

    `after`: yield only facts that come after these ids. Memory holds at most 8,192 facts of each segment at a time,
    besides the caches of the trees. Raises CorruptIndexError if the levels of a tree contradict each other, or if a
    sum is neither 0 nor 1.
    """
    for matrix in surviving(segments):
        for fact in _sequences(matrix):
            if after is None or fact > after:
                yield fact


def changed_sequences(segments: Sequence[tuple[int, StoredTree]]) -> Iterator[tuple[int, TokenIds]]:
    """Yield the facts whose signed sum over some segments of an index is 1 (these add them to the others) or -1 (they
    take them away): that sum, and the fact's token ids. Memory and errors are those of `token_sequences`.
    """
    for sign, matrix in changed(segments):
        for fact in _sequences(matrix):
            yield sign, fact


def _sequences(matrix: EntryMatrix) -> Iterator[TokenIds]:
    tokens, offsets = from_matrix(matrix)
    ids, ends = tokens.tolist(), offsets.tolist()
    return (tuple(ids[start:end]) for start, end in pairwise(ends))


def fact_of(tokens: TokenIds, tokenizer: FactTokenizer, terminator: str, index: str) -> Fact:
    """Return the fact with these token ids (without its terminator); its `token_span` is `(0, len(tokens))`.

    Raises CorruptIndexError, which names the index, if their text is not a fact.
    """
    text = tokenizer.decode(tokens)
    parts = split_fact(text)
    if parts is None:
        raise CorruptIndexError(
            f"index {index!r} has the token ids {list(tokens)}, whose text {text!r} is not <subject> <predicate> <object>. "
            "Ingest the index again"
        )
    return Fact(*parts, text.lstrip(" ") + terminator, (0, len(tokens)))
