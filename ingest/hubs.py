"""The counts of hubs (`refactx.postgres.hubs`) that follow from the facts of a change."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyarrow import compute

from refactx.ingest.encoding.decode import decode_texts
from refactx.ingest.encoding.encoded import SortedFacts
from refactx.ingest.encoding.sums import BATCH
from refactx.postgres.hubs import Hub
from refactx.tokenizer import FactTokenizer


def count_facts_of(
    hubs: Sequence[Hub], facts: SortedFacts, tokenizer: FactTokenizer, sign: int
) -> dict[tuple[str, str], int]:
    """Return how many facts are about each hub, times `sign`, by object and predicate, without those that have none."""
    pairs = sorted({(hub.object, hub.predicate) for hub in hubs})
    if not pairs:
        return {}
    ends = pa.array([f"{predicate}> <{object_}>".encode() for object_, predicate in pairs], pa.large_binary())
    counts = np.zeros(len(pairs) + 1, np.int64)
    for low in range(0, len(facts), BATCH):
        texts = decode_texts(tokenizer, *facts.read_tokens(low, min(low + BATCH, len(facts))))
        after_subject = compute.split_pattern(texts, "> <", max_splits=1)  # no part has `<` or `>`
        after_subject = after_subject.filter(compute.equal(compute.list_value_length(after_subject), 2))
        places = compute.index_in(compute.list_element(after_subject, 1), value_set=ends)
        counts += np.bincount(places.fill_null(len(pairs)).to_numpy(), minlength=len(counts))
    return {pair: sign * int(count) for pair, count in zip(pairs, counts[:-1], strict=True) if count}
