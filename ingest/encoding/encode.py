"""The second stage's slow step: the facts of a knowledge base as sorted token sequences of one tokenizer.

Most of tokenising facts is repetition. Byte-level tokenizers begin anew at a space, so every distinct word is encoded once,
with the space in front of it, and parts are joined from words, facts from units (` <Danny Boyle>`). No unit's ids are the
beginning of another's (a unit ends with the only `>` in it), so facts sort like the triples of their units' ranks: three
integers instead of thirty tokens.

Whether words join to what the tokenizer makes of whole facts is checked on a sample; where they do not (tokenizers that look
across white space), whole facts are encoded and sorted. Either way the ids are those that a model sees behind the trigger.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute

from refactx.errors import RefactxError
from refactx.fact import verbalise
from refactx.tokenizer import FactTokenizer
from refactx.tree.arrays import Offsets, offsets_of
from refactx.tree.children import Tokens

from ..encoding.encoded import FACT, TRIPLES, UNIT, EncodedFacts, UnitFacts, WholeFacts, open_sequences
from ..encoding.small import encode_few
from ..encoding.words import as_keys, encode_behind, encode_by_word, same_as_whole
from ..progress import Advance
from ..small import are_few
from ..work_database import Work

SAMPLE = 2_000
"""Facts on which encoding by word is checked: a twentieth of a second at the rate of encoding whole ones."""

_BATCH = 1_000_000


def encode_facts(
    knowledge: Path,
    tokenizer: FactTokenizer,
    trigger: str,
    work: Path,
    *,
    memory: str = "1GB",
    workers: int = 2,
    progress: Advance = lambda step, done, total: None,
) -> EncodedFacts:
    """The facts of the knowledge base in the folder `knowledge`, encoded and sorted, distinct by their ids.

    Their ids lie in files in `work`, which must live as long as the result. Raises RefactxError when DuckDB cannot go on
    (a full disk, say).
    """
    if are_few([knowledge / "facts.parquet", knowledge / "units.parquet"]):
        return encode_few(knowledge, tokenizer, trigger, work, progress)
    return encode_many(knowledge, tokenizer, trigger, work, memory=memory, workers=workers, progress=progress)


def encode_many(
    knowledge: Path,
    tokenizer: FactTokenizer,
    trigger: str,
    work: Path,
    *,
    memory: str,
    workers: int,
    progress: Advance,
) -> EncodedFacts:
    """`encode_facts` for any number of facts."""
    import duckdb

    try:
        with _database(work, memory, workers) as database:
            database.execute(f"CREATE VIEW units AS FROM '{knowledge / 'units.parquet'}'")
            database.execute(f"CREATE VIEW facts AS FROM '{knowledge / 'facts.parquet'}'")
            if words_join(database, tokenizer, trigger):
                return _by_unit(database, tokenizer, work, progress)
            return _whole(database, tokenizer, trigger, work, progress)
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        raise RefactxError(
            f"cannot sort the facts in {work}: {reason}: free disk space or allow more memory"
        ) from error


def words_join(database: Work, tokenizer: FactTokenizer, trigger: str) -> bool:
    """Whether, on a sample of the facts, joined words equal what the tokenizer makes of the whole fact."""
    rows = database.execute(
        f"""SELECT s.text, p.text, o.text
            FROM (SELECT * FROM facts USING SAMPLE reservoir({SAMPLE} ROWS) REPEATABLE (1)) AS sample
            JOIN units AS s ON s.unit = subject JOIN units AS p ON p.unit = predicate JOIN units AS o ON o.unit = object"""
    ).fetchall()
    facts = [verbalise(*parts) for parts in rows]
    return same_as_whole(tokenizer, trigger, facts, *encode_by_word(tokenizer, pa.array([fact[1:] for fact in facts])))


@contextmanager
def _database(work: Path, memory: str, workers: int) -> Iterator[Work]:
    import duckdb

    with (
        tempfile.TemporaryDirectory(dir=work, prefix="sort-") as folder,
        duckdb.connect(str(Path(folder, "sort.duckdb"))) as database,
    ):
        database.execute("SET memory_limit = ?", [memory])
        database.execute("SET temp_directory = ?", [folder])
        database.execute("SET threads = ?", [workers])
        yield database


def _by_unit(database: Work, tokenizer: FactTokenizer, work: Path, progress: Advance) -> UnitFacts:
    count = _number(database, "SELECT count(*) FROM units")
    database.execute("CREATE TABLE encoded (unit INTEGER, ids BLOB)")
    for units, texts in _batches(database, "SELECT unit, text FROM units"):
        ids, lengths = encode_by_word(tokenizer, compute.binary_join_element_wise("<", texts, ">", ""))
        _insert(database, "encoded", {"unit": units, "ids": as_keys(ids, lengths)})
        progress("encode", len(units), count)
    # Units with the same ids (a tokenizer that drops what it does not know) are one.
    database.execute(
        "CREATE TABLE ranked AS SELECT unit, ids, (dense_rank() OVER (ORDER BY ids) - 1)::INTEGER AS rank FROM encoded"
    )
    tokens, offsets = _write_sorted(
        database, "SELECT any_value(ids) FROM ranked GROUP BY rank ORDER BY rank", work, UNIT
    )
    ranks = np.empty(count, np.int32)
    for batch in _record_batches(database, "SELECT unit, rank FROM ranked"):
        ranks[batch["unit"].to_numpy()] = batch["rank"].to_numpy()
    database.execute("DROP TABLE encoded; DROP TABLE ranked")
    return UnitFacts(_sorted_triples(database, ranks, work, progress), tokens, offsets)


def _sorted_triples(database: Work, ranks: NDArray[np.int32], work: Path, progress: Advance) -> NDArray[np.int32]:
    total = _number(database, "SELECT count(*) FROM facts")
    database.execute("CREATE TABLE triples (s INTEGER, p INTEGER, o INTEGER)")
    for batch in _record_batches(database.cursor(), "SELECT subject, predicate, object FROM facts"):
        columns = (ranks[batch[name].to_numpy()] for name in ("subject", "predicate", "object"))
        _insert(database, "triples", dict(zip("spo", map(pa.array, columns), strict=True)))
        progress("sort", len(batch), 2 * total)
    path = work / TRIPLES
    with path.open("wb") as out:
        for batch in _record_batches(database, "SELECT DISTINCT s, p, o FROM triples ORDER BY s, p, o"):
            out.write(np.stack([batch[name].to_numpy() for name in "spo"], axis=1).astype(np.int32).tobytes())
            progress("sort", len(batch), 2 * total)
    database.execute("DROP TABLE triples")
    return np.memmap(path, np.int32, "r").reshape(-1, 3)


def _whole(database: Work, tokenizer: FactTokenizer, trigger: str, work: Path, progress: Advance) -> WholeFacts:
    total = _number(database, "SELECT count(*) FROM facts")
    database.execute("CREATE TABLE encoded (ids BLOB)")
    query = """SELECT ' <' || s.text || '> <' || p.text || '> <' || o.text || '>' AS text FROM facts
        JOIN units AS s ON s.unit = subject JOIN units AS p ON p.unit = predicate JOIN units AS o ON o.unit = object"""
    for batch in _record_batches(database.cursor(), query):
        texts = batch["text"].to_pylist()
        _insert(database, "encoded", {"ids": as_keys(*encode_behind(tokenizer, trigger, texts))})
        progress("encode", len(texts), total)
    tokens, offsets = _write_sorted(database, "SELECT DISTINCT ids FROM encoded ORDER BY ids", work, FACT)
    return WholeFacts(tokens, offsets)


def _write_sorted(database: Work, query: str, work: Path, name: str) -> tuple[Tokens, Offsets]:
    """The sequences that a query gives as binary values, written to files: their ids and offsets."""
    lengths = []
    path = work / f"{name}-tokens"
    with path.open("wb") as out:
        for batch in _record_batches(database, query):
            values = batch.column(0).cast(pa.large_binary())
            ends = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
            data = np.frombuffer(values.buffers()[2], np.uint8)[ends[0] : ends[-1]] if len(values) else b""
            out.write(np.frombuffer(data, ">u4").astype(np.int32).tobytes())
            lengths.append((np.diff(ends) // 4).astype(np.int32))
    np.save(work / f"{name}-offsets.npy", offsets_of(np.concatenate(lengths).astype(np.int64)))
    return open_sequences(work, name)


def _batches(database: Work, query: str) -> Iterator[tuple[pa.Array, pa.Array]]:
    for batch in _record_batches(database.cursor(), query):
        yield batch.column(0), batch.column(1)


def _record_batches(database: Work, query: str) -> Iterator[pa.RecordBatch]:
    yield from database.sql(query).to_arrow_reader(_BATCH)


def _insert(database: Work, table: str, columns: dict[str, pa.Array]) -> None:
    database.register("incoming", pa.table(columns))
    database.execute(f"INSERT INTO {table} FROM incoming")
    database.unregister("incoming")


def _number(database: Work, query: str) -> int:
    row = database.execute(query).fetchone()
    return int(row[0]) if row else 0
