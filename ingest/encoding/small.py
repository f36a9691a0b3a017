"""The encoding of few facts, in memory: a database takes longer to start than numpy to sort them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import compute

from refactx.fact import verbalise
from refactx.ingest.encoding.encoded import FACT, TRIPLES, UNIT, EncodedFacts, open_encoded, write_sequences
from refactx.ingest.encoding.words import (
    are_kept,
    as_keys,
    check_any_left,
    encode_after_trigger,
    encode_by_word,
    same_as_whole,
)
from refactx.ingest.progress import Advance
from refactx.ingest.small import distinct_rows, ranks_of, read_parquet
from refactx.tokenizer import FactTokenizer
from refactx.tree.arrays import offsets_of, ragged

SAMPLE = 100
"""The number of facts on which encoding by word is checked. A tokenizer that looks across white space fails with nearly
each of them."""


def encode_few(knowledge: Path, tokenizer: FactTokenizer, trigger: str, work: Path, advance: Advance) -> EncodedFacts:
    """Do what `encode_many` does, to the same result in the same files."""
    table = read_parquet(knowledge / "facts.parquet", ["subject", "predicate", "object"])
    units = np.stack([table[name].to_numpy() for name in table.column_names], axis=1)
    texts = read_parquet(knowledge / "units.parquet").sort_by("unit")["text"].combine_chunks()
    ids, lengths = encode_by_word(tokenizer, compute.binary_join_element_wise("<", texts, ">", ""))
    starts = offsets_of(lengths)
    advance("encode", len(texts), len(texts))

    sample = units[:: max(1, -(-len(units) // SAMPLE))]
    parts = texts.take(pa.array(sample.ravel())).to_pylist()
    facts = [verbalise(*parts[low : low + 3]) for low in range(0, len(parts), 3)]
    joined = ids[ragged(starts[sample.ravel()], lengths[sample.ravel()])]
    if same_as_whole(tokenizer, trigger, facts, joined, lengths[sample].sum(1)):
        kept = are_kept(tokenizer, compute.binary_join_element_wise(" <", texts, ">", ""), ids, lengths)
        units = units[kept[units].all(1)]
        check_any_left(tokenizer, len(units))
        ranks, first = ranks_of(as_keys(ids, lengths))
        write_sequences(work, UNIT, ids[ragged(starts[first], lengths[first])], offsets_of(lengths[first]))
        distinct_rows(ranks[units]).tofile(work / TRIPLES)
        advance("sort", len(units), len(units))
        return open_encoded(work)
    parts = texts.take(pa.array(units.ravel())).to_pylist()
    facts = [verbalise(*parts[low : low + 3]) for low in range(0, len(parts), 3)]
    ids, lengths = encode_after_trigger(tokenizer, trigger, facts)
    kept = are_kept(tokenizer, pa.array(facts, pa.large_string()), ids, lengths)
    check_any_left(tokenizer, int(kept.sum()))
    ids, lengths = ids[np.repeat(kept, lengths)], lengths[kept]
    _, first = ranks_of(as_keys(ids, lengths))
    tokens = ids[ragged(offsets_of(lengths)[first], lengths[first])]
    write_sequences(work, FACT, tokens, offsets_of(lengths[first]))
    return open_encoded(work)
