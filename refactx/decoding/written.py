"""The facts that a sequence has written: their texts, and the children of a prefix without them."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from refactx.decoding.states import FactSource, Written
from refactx.errors import CorruptIndexError
from refactx.fact import Fact, split_fact
from refactx.tree.children import Children, add


def read_fact(source: FactSource, written: Written) -> Fact:
    """Return a written fact with its text. Raise CorruptIndexError if that does not have three parts."""
    text = source.tokenizer.decode(written.tokens)
    parts = split_fact(text)
    if parts is None:
        raise CorruptIndexError(f"the index has {text!r}, which is not a fact of three parts. Ingest the index again")
    subject, predicate, object_ = parts
    line = f"<{subject}> <{predicate}> <{object_}>{source.terminator}"
    return Fact(subject, predicate, object_, line, (written.start, written.stop))


def subtract(tree: Children, written: Sequence[tuple[int, ...]], depth: int) -> Children:
    """Return the tree's children of a prefix of length `depth` without the facts `written`, which begin with it."""
    if not written:
        return tree
    counts = sorted(Counter(fact[depth] for fact in written if len(fact) > depth).items())
    own = Children(
        np.array([token for token, _ in counts], np.int32),
        np.array([leaves for _, leaves in counts], np.int64),
        sum(len(fact) == depth for fact in written),
    )
    return add([(+1, tree), (-1, own)])
