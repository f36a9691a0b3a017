"""The encoding of a knowledge base's facts as sorted token sequences of one tokenizer: the slow step of an ingest.

Most of this work is repetition. Byte-level tokenizers start anew at a space, so that every distinct word is encoded
once, with the space before it; parts are joined from words, and facts from units (` <Danny Boyle>`). The ids of a unit
are never a prefix of another's (a unit ends with its only `>`), so facts sort like the triples of their units' ranks:
three integers instead of thirty tokens.

A sample of the facts shows whether joined words are what the tokenizer makes of whole facts. If not (for tokenizers
that look across white space), whole facts are encoded and sorted. Either way the ids are those that a model sees after
the trigger.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute

from refactx.fact import verbalise
from refactx.ingest.encoding.encoded import FACT, TRIPLES, UNIT, EncodedFacts, UnitFacts, WholeFacts
from refactx.ingest.encoding.sequences import SequenceWriter
from refactx.ingest.encoding.small import encode_few
from refactx.ingest.encoding.words import (
    are_kept,
    as_keys,
    check_any_left,
    encode_after_trigger,
    encode_by_word,
    same_as_whole,
)
from refactx.ingest.progress import Advance
from refactx.ingest.resources import DEFAULT_RESOURCES, Resources
from refactx.ingest.small import are_few
from refactx.ingest.work_database import WorkDatabase, open_work_database
from refactx.tokenizer import FactTokenizer

SAMPLE = 2_000
"""The number of facts on which encoding by word is checked, which takes a twentieth of a second."""

_BATCH = 1_000_000


def encode_facts(
    knowledge: Path,
    tokenizer: FactTokenizer,
    trigger: str,
    work: Path,
    *,
    resources: Resources = DEFAULT_RESOURCES,
    advance: Advance = lambda step, done, total: None,
) -> EncodedFacts:
    """Encode and sort the facts of the knowledge base in the folder `knowledge`, without those that the tokenizer changes.

    The ids are in files in `work`, which must live as long as the result.

    Raises:
        ModelError: the tokenizer joins the trigger and what follows it, or changes the texts of all facts.
        RefactxError: DuckDB cannot continue, because the disk is full, for example.
    """
    if are_few([knowledge / "facts.parquet", knowledge / "units.parquet"]):
        return encode_few(knowledge, tokenizer, trigger, work, advance)
    return encode_many(knowledge, tokenizer, trigger, work, resources=resources, advance=advance)


def encode_many(
    knowledge: Path,
    tokenizer: FactTokenizer,
    trigger: str,
    work: Path,
    *,
    resources: Resources,
    advance: Advance = lambda step, done, total: None,
) -> EncodedFacts:
    """Do what `encode_facts` does, for any number of facts."""
    with open_work_database(work, resources, task="sort the facts", in_memory=False) as database:
        database.view_parquet("units", knowledge / "units.parquet")
        database.view_parquet("facts", knowledge / "facts.parquet")
        if words_join(database, tokenizer, trigger):
            return _encode_by_unit(database, tokenizer, work, advance)
        return _encode_whole(database, tokenizer, trigger, work, advance)


def words_join(database: WorkDatabase, tokenizer: FactTokenizer, trigger: str) -> bool:
    """Return whether, on a sample of the facts, joined words are what the tokenizer makes of the whole fact."""
    rows = database.rows(
        f"""SELECT s.text, p.text, o.text
            FROM (SELECT * FROM facts USING SAMPLE reservoir({SAMPLE} ROWS) REPEATABLE (1)) AS sample
            JOIN units AS s ON s.unit = subject JOIN units AS p ON p.unit = predicate JOIN units AS o ON o.unit = object"""
    )
    facts = [verbalise(*parts) for parts in rows]
    return same_as_whole(tokenizer, trigger, facts, *encode_by_word(tokenizer, pa.array([fact[1:] for fact in facts])))


def _encode_by_unit(database: WorkDatabase, tokenizer: FactTokenizer, work: Path, advance: Advance) -> UnitFacts:
    count = database.number("SELECT count(*) FROM units")
    database.execute("CREATE TABLE encoded (unit INTEGER, ids BLOB)")
    for batch in database.batches("SELECT unit, text FROM units", _BATCH):
        texts = compute.binary_join_element_wise("<", batch["text"], ">", "")
        ids, lengths = encode_by_word(tokenizer, texts)
        kept = are_kept(tokenizer, compute.binary_join_element_wise("", texts, " "), ids, lengths)
        database.insert(
            "encoded", pa.table({"unit": batch["unit"], "ids": as_keys(ids, lengths)}).filter(pa.array(kept))
        )
        advance("encode", len(batch), count)
    ranks, rank = np.full(count, -1, np.int32), -1
    writer = SequenceWriter(work, UNIT)
    for batch in database.batches("SELECT unit, ids FROM encoded ORDER BY ids", _BATCH):
        is_new = writer.write(batch["ids"])
        ranks[batch["unit"].to_numpy()] = rank + np.cumsum(is_new)
        rank += int(is_new.sum())
    database.execute("DROP TABLE encoded")
    tokens, offsets = writer.finish()
    return UnitFacts(_sort_triples(database, tokenizer, ranks, work, advance), tokens, offsets)


def _sort_triples(
    database: WorkDatabase, tokenizer: FactTokenizer, ranks: NDArray[np.int32], work: Path, advance: Advance
) -> NDArray[np.int32]:
    total, left = database.number("SELECT count(*) FROM facts"), 0
    database.execute("CREATE TABLE triples (s INTEGER, p INTEGER, o INTEGER)")
    for batch in database.batches("SELECT subject, predicate, object FROM facts", _BATCH):
        rows = np.stack([ranks[batch[name].to_numpy()] for name in ("subject", "predicate", "object")])
        rows = rows[:, rows.min(0) >= 0]
        left += rows.shape[1]
        database.insert("triples", pa.table(dict(zip("spo", map(pa.array, rows), strict=True))))
        advance("sort", len(batch), 2 * total)
    check_any_left(tokenizer, left)
    path, last = work / TRIPLES, np.full((1, 3), -1, np.int32)
    with path.open("wb") as out:
        for batch in database.batches("SELECT s, p, o FROM triples ORDER BY s, p, o", _BATCH):
            rows = np.concatenate([last, np.stack([batch[name].to_numpy() for name in "spo"], axis=1)])
            out.write(rows[1:][(rows[1:] != rows[:-1]).any(axis=1)].tobytes())
            last = rows[-1:]
            advance("sort", len(batch), 2 * total)
    database.execute("DROP TABLE triples")
    return np.memmap(path, np.int32, "r").reshape(-1, 3)


def _encode_whole(
    database: WorkDatabase, tokenizer: FactTokenizer, trigger: str, work: Path, advance: Advance
) -> WholeFacts:
    total, left = database.number("SELECT count(*) FROM facts"), 0
    database.execute("CREATE TABLE encoded (ids BLOB)")
    query = """SELECT ' <' || s.text || '> <' || p.text || '> <' || o.text || '>' AS text FROM facts
        JOIN units AS s ON s.unit = subject JOIN units AS p ON p.unit = predicate JOIN units AS o ON o.unit = object"""
    for batch in database.batches(query, _BATCH):
        texts = batch["text"].to_pylist()
        ids, lengths = encode_after_trigger(tokenizer, trigger, texts)
        kept = are_kept(tokenizer, pa.array(texts, pa.large_string()), ids, lengths)
        left += int(kept.sum())
        database.insert("encoded", pa.table({"ids": as_keys(ids, lengths)}).filter(pa.array(kept)))
        advance("encode", len(texts), total)
    check_any_left(tokenizer, left)
    writer = SequenceWriter(work, FACT)
    for batch in database.batches("SELECT ids FROM encoded ORDER BY ids", _BATCH):
        writer.write(batch["ids"])
    return WholeFacts(*writer.finish())
