"""The encoding of facts on a cluster: texts → sequences of token ids, distinct and ascending.

Units are encoded by word and joined to facts, or whole facts if the tokenizer needs that, as on one machine
(`refactx.ingest.encoding.encode`). A sequence is a binary value that sorts like its ids (`as_keys`).
"""

from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import pyarrow as pa
from pyarrow import compute

from refactx.fact import verbalise
from refactx.ingest.cluster.sorting import SortedParts, spark_function, write_sorted
from refactx.ingest.cluster.versions import Versions, check_versions, versions_here
from refactx.ingest.encoding.encode import SAMPLE
from refactx.ingest.encoding.words import are_kept, as_keys, encode_after_trigger, encode_by_word, same_as_whole
from refactx.tokenizer import FactTokenizer

_PARTS = "JOIN units s ON s.unit = subject JOIN units p ON p.unit = predicate JOIN units o ON o.unit = object"
_SAMPLE = f"""
SELECT s.text, p.text, o.text
FROM (SELECT * FROM facts ORDER BY xxhash64(subject, predicate, object) LIMIT {SAMPLE}) {_PARTS}
"""
_JOINED = f"SELECT DISTINCT concat(s.ids, p.ids, o.ids) AS ids FROM facts {_PARTS.replace('units', 'encoded')}"
_TEXTS = f"SELECT ' <' || s.text || '> <' || p.text || '> <' || o.text || '>' AS text FROM facts {_PARTS}"


def encode_facts(spark: Any, tokenizer: FactTokenizer, trigger: str, folder: str) -> SortedParts:
    """Write the facts of the views `facts` and `units` as sorted sequences (column `ids`) to a folder.

    Facts that the tokenizer changes are left out. Raises ModelError if it joins the trigger and what follows it.
    """
    shared = versions_here(), tokenizer.serialized
    if _words_join(spark, tokenizer, trigger):
        encoded = spark.table("units").mapInArrow(partial(_encode_units, *shared), "unit INT, ids BINARY")
        encoded.write.mode("overwrite").parquet(f"{folder}-units")
        spark.read.parquet(f"{folder}-units").createOrReplaceTempView("encoded")
        facts = spark.sql(_JOINED)
    else:
        facts = spark.sql(_TEXTS).mapInArrow(partial(_encode_whole, *shared, trigger), "ids BINARY").distinct()
    return write_sorted(spark, facts, "ids", folder)


def count_tokens(spark: Any, facts: SortedParts) -> int:
    """Return how many tokens all facts have."""
    rows = spark.read.parquet(facts.folder).agg(spark_function("sum(length(ids) DIV 4)")).collect()
    return int(rows[0][0] or 0)


def _words_join(spark: Any, tokenizer: FactTokenizer, trigger: str) -> bool:
    """Return whether, on a sample of the facts, joined words are what the tokenizer makes of the whole fact."""
    facts = [verbalise(*row) for row in spark.sql(_SAMPLE).collect()]
    joined = encode_by_word(tokenizer, pa.array([fact[1:] for fact in facts]))
    return same_as_whole(tokenizer, trigger, facts, *joined)


@cache
def _tokenizer(serialized: str) -> FactTokenizer:
    """Return a tokenizer, made once in a process of an executor."""
    return FactTokenizer(serialized)


def _encode_units(driver: Versions, serialized: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    check_versions(driver)
    for batch in batches:
        if len(batch):
            texts = compute.binary_join_element_wise("<", batch["text"], ">", "")
            ids, lengths = encode_by_word(tokenizer := _tokenizer(serialized), texts)
            kept = are_kept(tokenizer, compute.binary_join_element_wise("", texts, " "), ids, lengths)
            keys = as_keys(ids, lengths).cast(pa.binary())
            yield pa.RecordBatch.from_arrays([batch["unit"], keys], ["unit", "ids"]).filter(pa.array(kept))


def _encode_whole(
    driver: Versions, serialized: str, trigger: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    check_versions(driver)
    for batch in batches:
        if len(batch):
            texts = batch["text"].to_pylist()
            ids, lengths = encode_after_trigger(tokenizer := _tokenizer(serialized), trigger, texts)
            kept = are_kept(tokenizer, batch["text"], ids, lengths)
            keys = as_keys(ids, lengths).cast(pa.binary())
            yield pa.RecordBatch.from_arrays([keys], ["ids"]).filter(pa.array(kept))
