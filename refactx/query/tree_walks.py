"""Walks of the fact tree below prefixes: the parts that continue them, in the order of token ids.

They need a tokenizer none of whose tokens has text of two parts (`Units.are_whole`). Then the ids of a fact are those
of its parts one after another, and the first token with a closing bracket ends a part.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from heapq import merge
from itertools import groupby

import numpy as np

from refactx.errors import ModelError
from refactx.fact import unit
from refactx.tokenizer import FactTokenizer
from refactx.tree.bulk import contained, read_ahead
from refactx.tree.codes import offsets_of
from refactx.tree.stored import StoredTree
from refactx.tree.tree import Path

Segments = Sequence[tuple[int, StoredTree]]
MOST_UNITS = 100_000
"""The most encoded parts that are kept: some 20 MB."""
FEW = 1024
"""Up to this many facts are walked to, through the cache: 8 µs for each if they are in it, 430 µs if not. More are
searched in their rows, which are read each time: 60 µs for each of 5,000."""


class Units:
    """Parts of facts as token ids: each with its brackets and the space before it, as they follow the trigger."""

    def __init__(self, tokenizer: FactTokenizer, trigger: str) -> None:
        self.tokenizer, self._trigger = tokenizer, trigger
        self._encoded: dict[str, Path] = {}

    @cached_property
    def are_whole(self) -> bool:
        """Whether no token has text of two parts."""
        return not any(b"> " in text for text in self.tokenizer.token_bytes)

    @cached_property
    def closing(self) -> frozenset[int]:
        """The tokens with a closing bracket."""
        return frozenset(number for number, text in enumerate(self.tokenizer.token_bytes) if b">" in text)

    def encode(self, parts: Sequence[str]) -> list[Path]:
        """Return the ids of each part. Raises ModelError as `encode_texts` does."""
        new = list({part for part in parts if part not in self._encoded})
        if len(self._encoded) + len(new) > MOST_UNITS:
            self._encoded, new = {}, list(set(parts))
        encoded = self._encoded
        encoded.update(zip(new, self.encode_texts([unit(part) for part in new]), strict=True))
        return [encoded[part] for part in parts]

    def encode_texts(self, texts: Sequence[str]) -> list[Path]:
        """Return the ids of each text after the trigger. Raises ModelError if the tokenizer joins the two."""
        head, *encoded = self.tokenizer.encode_batch([self._trigger, *(self._trigger + text for text in texts)])
        if any(ids[: len(head)] != head for ids in encoded):
            raise ModelError(f"this tokenizer joins {self._trigger!r} to what follows it; choose another trigger")
        return [tuple(ids[len(head) :]) for ids in encoded]

    def text(self, ids: Path) -> str:
        """Return the part that ids are.

        >>> from support.tiny_model import tiny_fact_tokenizer
        >>> units = Units(tiny_fact_tokenizer(), "Fact:")
        >>> units.text(units.encode(["Ann"])[0])
        'Ann'
        """
        return self.tokenizer.decode(ids)[2:-1]


def parts_below(segments: Segments, prefix: Path, closing: frozenset[int]) -> Iterator[tuple[Path, int]]:
    """Yield the ids of each part that continues a prefix, and the number of facts with it, in ascending order.

    Raises as `StoredTree.children` does.
    """
    streams = [_signed_parts(sign, tree, prefix, closing) for sign, tree in segments]
    for part, same in groupby(merge(*streams), key=lambda found: found[0]):
        leaves = sum(signed for _, signed in same)
        if leaves > 0:
            yield part, leaves


def _signed_parts(sign: int, tree: StoredTree, prefix: Path, closing: frozenset[int]) -> Iterator[tuple[Path, int]]:
    waiting, skipped = [(prefix, 0)], len(prefix)
    while waiting:
        path, leaves = waiting.pop()
        if len(path) > skipped and path[-1] in closing:
            yield path[skipped:], sign * leaves
            continue
        below = tree.children(path)
        if len(below.tokens) == 1:
            # Without an alternative up to the end of the part, no node in between is needed.
            only = tree.only_path(path).tolist() or below.tokens.tolist()
            end = next((n for n, token in enumerate(only, 1) if token in closing), len(only))
            waiting.append(((*path, *only[:end]), int(below.leaves[0])))
            continue
        tokens, counts = below.tokens.tolist(), below.leaves.tolist()
        waiting += [((*path, token), count) for token, count in zip(tokens[::-1], counts[::-1], strict=True)]


def facts_exist(segments: Segments, facts: Sequence[Path]) -> list[bool]:
    """Return which sequences of token ids are facts, with few round trips. Raises as `StoredTree.children` does."""
    wanted = sorted(set(facts))
    sums = np.zeros(len(wanted), np.int64)
    offsets = offsets_of(np.array([len(fact) for fact in wanted], np.int64))
    tokens = np.fromiter((token for fact in wanted for token in fact), np.int32, int(offsets[-1]))
    for sign, tree in segments:
        if len(wanted) > FEW:
            sums += sign * contained(tree, tokens, offsets)
        elif wanted:
            read_ahead(tree, wanted)
            sums += [sign * tree.children(fact).terminal for fact in wanted]
    existing = {fact for fact, total in zip(wanted, sums.tolist(), strict=True) if total > 0}
    return [fact in existing for fact in facts]


def count_facts(segments: Segments, prefixes: Sequence[Path]) -> list[int]:
    """Return how many facts begin with each prefix, with few round trips. Raises as `StoredTree.children` does."""
    totals = Counter[Path]()
    distinct = dict.fromkeys(prefixes)
    for sign, tree in segments:
        read_ahead(tree, distinct)
        for prefix in distinct:
            totals[prefix] += sign * tree.children(prefix).total
    return [totals[prefix] for prefix in prefixes]
