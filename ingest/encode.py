"""The second stage's slow step: the facts of a knowledge base as sorted token sequences of one tokenizer.

Most of tokenising facts is repetition. Byte-level tokenizers begin anew at a space, so every distinct word is encoded once,
with the space in front of it, and parts are joined from words, facts from units (` <Danny Boyle>`). No unit's ids are the
beginning of another's (a unit ends with the only `>` in it), so facts sort like the triples of their units' ranks: three
integers instead of thirty tokens.

Whether words join to what the tokenizer makes of whole facts is checked on a sample; where they do not (tokenizers that look
across white space), whole facts are encoded and sorted. Either way the ids are those that a model sees behind the trigger.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Protocol

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute

from refactx.errors import RefactxError
from refactx.fact import verbalise
from refactx.tokenizer import FactTokenizer
from refactx.tree import Tokens

from .entries import SortedFacts
from .sequences import Offsets, offsets_of, ragged

SAMPLE = 2_000
"""Facts on which encoding by word is checked: a twentieth of a second at the rate of encoding whole ones. Of fewer than ten
times as many a tenth is enough, but at least `SMALL_SAMPLE`: a change of some thousand facts takes a second in all."""

SMALL_SAMPLE = 500

_BATCH = 1_000_000
_WORDS_A_TEXT = 256
_TRIPLES = "triples"
Progress = Callable[[str, int, int], object]
"""Called with the step, how much of it was done since its last call, and how much there is in all."""


class EncodedFacts(SortedFacts, Protocol):
    """Sorted facts that know how many tokens they have in all (without terminators)."""

    def token_count(self) -> int:
        """Tokens of all facts."""
        ...


class UnitFacts:
    """Sorted facts as triples of units. `triples`: int32[n, 3], ascending; `unit_tokens`, `unit_offsets`: the units' ids."""

    def __init__(self, triples: NDArray[np.int32], unit_tokens: Tokens, unit_offsets: Offsets) -> None:
        self._triples, self._tokens, self._offsets = triples, unit_tokens, unit_offsets

    def __len__(self) -> int:
        return len(self._triples)

    def token_count(self) -> int:
        lengths = np.diff(self._offsets)
        step = 1_000_000
        return sum(int(lengths[self._triples[low : low + step]].sum()) for low in range(0, len(self), step))

    def read_tokens(self, low: int, high: int) -> tuple[Tokens, Offsets]:
        units = np.array(self._triples[low:high]).ravel()
        starts = self._offsets[units]
        lengths = self._offsets[units + 1] - starts
        tokens = self._tokens[ragged(starts, lengths)]
        return tokens, offsets_of(lengths.reshape(-1, 3).sum(1))


class WholeFacts:
    """Sorted facts, each with all its tokens. `tokens`: int32; `offsets`: int64[n + 1]."""

    def __init__(self, tokens: Tokens, offsets: Offsets) -> None:
        self._tokens, self._offsets = tokens, offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def token_count(self) -> int:
        return int(self._offsets[-1])

    def read_tokens(self, low: int, high: int) -> tuple[Tokens, Offsets]:
        offsets = self._offsets[low : high + 1]
        return np.array(self._tokens[offsets[0] : offsets[-1]]), offsets - offsets[0]


def encode_facts(
    knowledge: Path,
    tokenizer: FactTokenizer,
    trigger: str,
    work: Path,
    *,
    memory: str = "1GB",
    workers: int = 2,
    progress: Progress = lambda step, done, total: None,
) -> EncodedFacts:
    """The facts of the knowledge base in the folder `knowledge`, encoded and sorted, distinct by their ids.

    Their ids lie in files in `work`, which must live as long as the result. Raises RefactxError when DuckDB cannot go on
    (a full disk, say).
    """
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


def open_encoded(work: Path) -> EncodedFacts:
    """What `encode_facts` left in a folder, once more."""
    if (work / _TRIPLES).exists():
        return UnitFacts(np.memmap(work / _TRIPLES, np.int32, "r").reshape(-1, 3), *_open_sequences(work, "unit"))
    return WholeFacts(*_open_sequences(work, "fact"))


def words_join(database: duckdb.DuckDBPyConnection, tokenizer: FactTokenizer, trigger: str) -> bool:
    """Whether, on a sample of the facts, joined words equal what the tokenizer makes of the whole fact."""
    size = min(SAMPLE, max(SMALL_SAMPLE, _number(database, "SELECT count(*) FROM facts") // 10))
    rows = database.execute(
        f"""SELECT s.text, p.text, o.text
            FROM (SELECT * FROM facts USING SAMPLE reservoir({size} ROWS) REPEATABLE (1)) AS sample
            JOIN units AS s ON s.unit = subject JOIN units AS p ON p.unit = predicate JOIN units AS o ON o.unit = object"""
    ).fetchall()
    facts = [verbalise(*parts) for parts in rows]
    head = len(tokenizer.encode(trigger))
    whole = [ids[head:] for ids in tokenizer.encode_batch([trigger + fact for fact in facts])]
    joined, lengths = encode_by_word(tokenizer, pa.array([fact[1:] for fact in facts]))
    same_lengths: bool = lengths.tolist() == list(map(len, whole))
    return same_lengths and joined.tolist() == list(chain.from_iterable(whole))


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
    ids, _ = _encode(tokenizer, texts)
    begins = np.flatnonzero(tokenizer.begins_with_space[ids])
    if len(begins) == len(words):
        return ids, np.diff(begins, append=len(ids))
    return _encode(tokenizer, [f" {word}" for word in words])


@contextmanager
def _database(work: Path, memory: str, workers: int) -> Iterator[duckdb.DuckDBPyConnection]:
    with (
        tempfile.TemporaryDirectory(dir=work, prefix="sort-") as folder,
        duckdb.connect(str(Path(folder, "sort.duckdb"))) as database,
    ):
        database.execute("SET memory_limit = ?", [memory])
        database.execute("SET temp_directory = ?", [folder])
        database.execute("SET threads = ?", [workers])
        yield database


def _by_unit(
    database: duckdb.DuckDBPyConnection, tokenizer: FactTokenizer, work: Path, progress: Progress
) -> UnitFacts:
    count = _number(database, "SELECT count(*) FROM units")
    database.execute("CREATE TABLE encoded (unit INTEGER, ids BLOB)")
    for units, texts in _batches(database, "SELECT unit, text FROM units"):
        ids, lengths = encode_by_word(tokenizer, compute.binary_join_element_wise("<", texts, ">", ""))
        _insert(database, "encoded", {"unit": units, "ids": _big_endian(ids, lengths)})
        progress("encode", len(units), count)
    # Units with the same ids (a tokenizer that drops what it does not know) are one.
    database.execute(
        "CREATE TABLE ranked AS SELECT unit, ids, (dense_rank() OVER (ORDER BY ids) - 1)::INTEGER AS rank FROM encoded"
    )
    tokens, offsets = _write_sorted(
        database, "SELECT any_value(ids) FROM ranked GROUP BY rank ORDER BY rank", work, "unit"
    )
    ranks = np.empty(count, np.int32)
    for batch in _record_batches(database, "SELECT unit, rank FROM ranked"):
        ranks[batch["unit"].to_numpy()] = batch["rank"].to_numpy()
    database.execute("DROP TABLE encoded; DROP TABLE ranked")
    return UnitFacts(_sorted_triples(database, ranks, work, progress), tokens, offsets)


def _sorted_triples(
    database: duckdb.DuckDBPyConnection, ranks: NDArray[np.int32], work: Path, progress: Progress
) -> NDArray[np.int32]:
    total = _number(database, "SELECT count(*) FROM facts")
    database.execute("CREATE TABLE triples (s INTEGER, p INTEGER, o INTEGER)")
    for batch in _record_batches(database.cursor(), "SELECT subject, predicate, object FROM facts"):
        columns = (ranks[batch[name].to_numpy()] for name in ("subject", "predicate", "object"))
        _insert(database, "triples", dict(zip("spo", map(pa.array, columns), strict=True)))
        progress("sort", len(batch), 2 * total)
    path = work / _TRIPLES
    with path.open("wb") as out:
        for batch in _record_batches(database, "SELECT DISTINCT s, p, o FROM triples ORDER BY s, p, o"):
            out.write(np.stack([batch[name].to_numpy() for name in "spo"], axis=1).astype(np.int32).tobytes())
            progress("sort", len(batch), 2 * total)
    database.execute("DROP TABLE triples")
    return np.memmap(path, np.int32, "r").reshape(-1, 3)


def _whole(
    database: duckdb.DuckDBPyConnection, tokenizer: FactTokenizer, trigger: str, work: Path, progress: Progress
) -> WholeFacts:
    total = _number(database, "SELECT count(*) FROM facts")
    head = tokenizer.encode(trigger)
    database.execute("CREATE TABLE encoded (ids BLOB)")
    query = """SELECT ' <' || s.text || '> <' || p.text || '> <' || o.text || '>' AS text FROM facts
        JOIN units AS s ON s.unit = subject JOIN units AS p ON p.unit = predicate JOIN units AS o ON o.unit = object"""
    for batch in _record_batches(database.cursor(), query):
        texts = batch["text"].to_pylist()
        tokenizer.encode_after(trigger, texts[0])  # raises where the trigger has no boundary
        ids, lengths = _encode(tokenizer, [trigger + text for text in texts])
        starts = offsets_of(lengths)[:-1] + len(head)
        rest = lengths - len(head)
        _insert(database, "encoded", {"ids": _big_endian(ids[ragged(starts, rest)], rest)})
        progress("encode", len(texts), total)
    tokens, offsets = _write_sorted(database, "SELECT DISTINCT ids FROM encoded ORDER BY ids", work, "fact")
    return WholeFacts(tokens, offsets)


def _encode(tokenizer: FactTokenizer, texts: list[str]) -> tuple[Tokens, Offsets]:
    encoded = tokenizer.encode_batch(texts)
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    return np.fromiter(chain.from_iterable(encoded), np.int32, int(lengths.sum())), lengths


def _big_endian(ids: Tokens, lengths: Offsets) -> pa.Array:
    """Sequences of ids as binary values whose byte order is their order."""
    ends = offsets_of(4 * lengths)
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(ids.astype(">u4").tobytes())]
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)


def _write_sorted(database: duckdb.DuckDBPyConnection, query: str, work: Path, name: str) -> tuple[Tokens, Offsets]:
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
    return _open_sequences(work, name)


def _open_sequences(work: Path, name: str) -> tuple[Tokens, Offsets]:
    return np.memmap(work / f"{name}-tokens", np.int32, "r"), np.load(work / f"{name}-offsets.npy")


def _batches(database: duckdb.DuckDBPyConnection, query: str) -> Iterator[tuple[pa.Array, pa.Array]]:
    for batch in _record_batches(database.cursor(), query):
        yield batch.column(0), batch.column(1)


def _record_batches(database: duckdb.DuckDBPyConnection, query: str) -> Iterator[pa.RecordBatch]:
    yield from database.sql(query).to_arrow_reader(_BATCH)


def _insert(database: duckdb.DuckDBPyConnection, table: str, columns: dict[str, pa.Array]) -> None:
    database.register("incoming", pa.table(columns))
    database.execute(f"INSERT INTO {table} FROM incoming")
    database.unregister("incoming")


def _number(database: duckdb.DuckDBPyConnection, query: str) -> int:
    row = database.execute(query).fetchone()
    return int(row[0]) if row else 0
