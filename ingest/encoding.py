"""The encoding of a knowledge base's facts as sorted token sequences of one tokenizer: the slow step of an ingest.

Most of this work is repetition. Byte-level tokenizers start anew at a space, so that every distinct word is encoded
once, with the space before it; parts are joined from words, and facts from units (` <Danny Boyle>`). The ids of a unit
are never a prefix of another's (a unit ends with its only `>`), so facts sort like the triples of their units' ranks:
three integers instead of thirty tokens. What follows the object of a statement, its tail, is one unit more, and the last
one: that the ids of one tail begin those of another changes nothing.

A sample of the facts shows whether joined words are what the tokenizer makes of whole facts. If not (for tokenizers
that look across white space), whole facts are encoded and sorted. Either way the ids are those that a model sees after
the trigger.

A fact is either three units (in `triples`, with `unit-tokens` and `unit-offsets`), or four if there are statements (in
`quads`; where there is no tail, the fourth has no ids), or has all its tokens (`fact-tokens`, `fact-offsets`).
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute

from refactx.errors import CorruptIndexError, ModelError
from refactx.fact import verbalise
from refactx.index.index import Index
from refactx.ingest.report import Advance, ProgressBars
from refactx.ingest.work import DEFAULT_RESOURCES, Resources, WorkDatabase, open_work_database
from refactx.tokenizer import FactTokenizer
from refactx.tree.bulk import contained
from refactx.tree.codes import Offsets, offsets_of, ragged, select
from refactx.tree.tree import Tokens

TRIPLES, QUADS, UNIT, FACT, CHOSEN = "triples", "quads", "unit", "fact", "chosen"
"""The names of the files."""
_WORDS_A_TEXT = 256
SAMPLE = 2_000
"""The number of facts on which encoding by word is checked, which takes a twentieth of a second."""
_BATCH = 1_000_000
_PARTS = "JOIN units AS s ON s.unit = subject JOIN units AS p ON p.unit = predicate JOIN units AS o ON o.unit = object"
_OBJECT, _WITH_TAIL = "o.text", "o.text || coalesce('> <' || t.text, '')"
_TAIL = "LEFT JOIN units AS t ON t.unit = tail"
_SAMPLED = f"""SELECT s.text, p.text, {{last}}
FROM (SELECT * FROM facts USING SAMPLE reservoir({SAMPLE} ROWS) REPEATABLE (1)) AS sample {_PARTS} {{tail}}"""
_TEXTS = f"SELECT ' <' || s.text || '> <' || p.text || '> <' || {{last}} || '>' AS text FROM facts {_PARTS} {{tail}}"
BATCH = 65_536
"""The facts that are looked up at a time."""


class SortedFacts(Protocol):
    """Distinct token sequences in ascending order. Those in files are pickled as the paths of these."""

    def __len__(self) -> int: ...

    def read_tokens(self, low: int, high: int) -> tuple[Tokens, Offsets]:
        """Return sequences low to high - 1: tokens (int32) and offsets (int64[high - low + 1])."""


class EncodedFacts(SortedFacts, Protocol):
    """Sorted facts with a count of all their tokens."""

    def token_count(self) -> int:
        """Return the number of tokens of all facts, without terminators."""


class UnitFacts:
    """Sorted facts as triples of units, or quads.

    `triples`: int32[n, 3] or int32[n, 4], ascending. `unit_tokens` (int32), `unit_offsets` (int64[units + 1]): the ids
    of the units.
    """

    def __init__(self, triples: NDArray[np.int32], unit_tokens: Tokens, unit_offsets: Offsets) -> None:
        self._triples, self._tokens, self._offsets = triples, unit_tokens, unit_offsets

    def __len__(self) -> int:
        return len(self._triples)

    def token_count(self) -> int:
        lengths = np.diff(self._offsets)
        step = 1_000_000
        return sum(int(lengths[self._triples[low : low + step]].sum()) for low in range(0, len(self), step))

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (UnitFacts, _place(self._triples), _place(self._tokens), _place(self._offsets))

    def read_tokens(self, low: int, high: int) -> tuple[Tokens, Offsets]:
        units = np.array(self._triples[low:high]).ravel()
        starts = self._offsets[units]
        lengths = self._offsets[units + 1] - starts
        tokens = self._tokens[ragged(starts, lengths)]
        return tokens, offsets_of(lengths.reshape(-1, self._triples.shape[1]).sum(1))


class WholeFacts:
    """Sorted facts, each with all its tokens. `tokens`: int32; `offsets`: int64[n + 1]."""

    def __init__(self, tokens: Tokens, offsets: Offsets) -> None:
        self._tokens, self._offsets = tokens, offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def token_count(self) -> int:
        return int(self._offsets[-1])

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (WholeFacts, _place(self._tokens), _place(self._offsets))

    def read_tokens(self, low: int, high: int) -> tuple[Tokens, Offsets]:
        offsets = self._offsets[low : high + 1]
        return np.array(self._tokens[offsets[0] : offsets[-1]]), offsets - offsets[0]


def open_encoded(work: Path) -> EncodedFacts:
    """Open the facts in a folder."""
    for name, width in ((TRIPLES, 3), (QUADS, 4)):
        if (work / name).exists():
            return UnitFacts(np.memmap(work / name, np.int32, "r").reshape(-1, width), *open_sequences(work, UNIT))
    return WholeFacts(*open_sequences(work, FACT))


def open_sequences(work: Path, name: str) -> tuple[Tokens, Offsets]:
    """Open the sequences in two files: their tokens, one after another, and the offset at which each begins."""
    path = work / f"{name}-tokens"
    tokens: Tokens = np.memmap(path, np.int32, "r") if path.stat().st_size else np.empty(0, np.int32)
    return tokens, np.memmap(work / f"{name}-offsets", np.int64, "r")


class _Place(NamedTuple):
    """Where an array stands in a file."""

    path: str
    dtype: str
    start: int
    shape: tuple[int, ...]


def _place(array: NDArray[Any]) -> _Place | NDArray[Any]:
    """Return where a mapped array stands; an array in memory as it is."""
    if not isinstance(array, np.memmap) or array.filename is None:
        return array
    return _Place(str(array.filename), array.dtype.str, array.offset, array.shape)


def _opened(kind: type[Any], *places: _Place | NDArray[Any]) -> Any:
    """Return facts of a kind over mapped arrays."""
    arrays = (
        np.memmap(one.path, one.dtype, "r", one.start, one.shape) if isinstance(one, _Place) else one for one in places
    )
    return kind(*arrays)


def decode_texts(tokenizer: FactTokenizer, tokens: Tokens, offsets: Offsets) -> pa.LargeBinaryArray:
    """Return the texts of n facts, such as ` <s> <p> <o>`, as large_binary[n].

    `tokens`: int32; `offsets`: int64[n + 1]. A tokenizer that loses characters may give any bytes.
    """
    table = tokenizer.token_bytes
    sizes = np.fromiter(map(len, table), np.int64, len(table))
    joined: NDArray[np.uint8] = np.frombuffer(b"".join(table), np.uint8)
    data = joined[ragged(offsets_of(sizes)[tokens], sizes[tokens])]
    ends = offsets_of(sizes[tokens])[offsets]
    buffers = [None, pa.py_buffer(ends.astype(np.int64).tobytes()), pa.py_buffer(data.tobytes())]
    return pa.Array.from_buffers(pa.large_binary(), len(ends) - 1, buffers)


def encode_by_word(tokenizer: FactTokenizer, texts: pa.Array) -> tuple[Tokens, Offsets]:
    """Return the ids of texts, each after a space: all ids in a row, and how many each has. No text may be empty."""
    split = compute.split_pattern(texts, " ")
    words = split.flatten().dictionary_encode()
    ids, lengths = _encode_words(tokenizer, words.dictionary.to_pylist())
    which = words.indices.to_numpy()
    word_lengths = lengths[which]
    counts = np.add.reduceat(word_lengths, split.offsets.to_numpy()[:-1] - split.offsets[0].as_py())
    return ids[ragged(offsets_of(lengths)[which], word_lengths)], counts


def _encode_words(tokenizer: FactTokenizer, words: list[str]) -> tuple[Tokens, Offsets]:
    """Return the ids of words, each after a space: all ids in a row, and how many each has."""
    # Many words in one text, since a call for each costs more than its encoding. A space marks a word's first id.
    texts = [" " + " ".join(words[low : low + _WORDS_A_TEXT]) for low in range(0, len(words), _WORDS_A_TEXT)]
    ids, _ = _flatten(tokenizer.encode_distinct(texts))
    begins = np.flatnonzero(tokenizer.begin_with_space(ids))
    if len(begins) == len(words):
        return ids, np.diff(begins, append=len(ids))
    return _flatten(tokenizer.encode_distinct([f" {word}" for word in words]))


def words_join(tokenizer: FactTokenizer, trigger: str, rows: Iterable[tuple[str, str, str]]) -> bool:
    """Return whether the ids of some facts, joined from words, are those of whole facts after the trigger."""
    facts, head = [verbalise(*parts) for parts in rows], len(tokenizer.encode(trigger))
    joined, lengths = encode_by_word(tokenizer, pa.array([fact[1:] for fact in facts]))
    whole = [ids[head:] for ids in tokenizer.encode_batch([trigger + fact for fact in facts])]
    same_lengths: bool = lengths.tolist() == list(map(len, whole))
    return same_lengths and joined.tolist() == list(chain.from_iterable(whole))


def encode_after_trigger(tokenizer: FactTokenizer, trigger: str, facts: list[str]) -> tuple[Tokens, Offsets]:
    """Return the ids of whole facts after the trigger, without its own: all ids in a row, and how many each has.

    Raises ModelError if the tokenizer joins the trigger and what follows it.
    """
    head = len(tokenizer.encode(trigger))
    tokenizer.encode_after(trigger, facts[0])  # raises ModelError
    ids, lengths = _flatten(tokenizer.encode_batch([trigger + fact for fact in facts]))
    rest = lengths - head
    return ids[ragged(offsets_of(lengths)[:-1] + head, rest)], rest


def are_kept(tokenizer: FactTokenizer, texts: pa.Array, ids: Tokens, lengths: Offsets) -> NDArray[np.bool_]:
    """Return which texts can be decoded from their ids, `lengths` of them each: bool[n].

    Others would be facts of another entity, or of none.
    """
    if tokenizer.keeps_all_text:
        return np.ones(len(texts), np.bool_)
    decoded = decode_texts(tokenizer, ids, offsets_of(lengths))
    kept: NDArray[np.bool_] = compute.equal(decoded, texts.cast(pa.large_binary())).to_numpy(zero_copy_only=False)
    return kept


def encode_units(tokenizer: FactTokenizer, units: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the sequences of units by word, as keys, and which can be decoded from them (boolean)."""
    texts = compute.binary_join_element_wise("<", units, ">", "")
    ids, lengths = encode_by_word(tokenizer, texts)
    kept = are_kept(tokenizer, compute.binary_join_element_wise("", texts, " "), ids, lengths)
    return as_keys(ids, lengths), pa.array(kept)


def encode_whole(tokenizer: FactTokenizer, trigger: str, texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the sequences of whole facts after the trigger, as keys, and which can be decoded from them (boolean)."""
    ids, lengths = encode_after_trigger(tokenizer, trigger, texts.to_pylist())
    return as_keys(ids, lengths), pa.array(are_kept(tokenizer, texts, ids, lengths))


def check_any_left(tokenizer: FactTokenizer, facts: int) -> None:
    """Raise ModelError if the tokenizer keeps the texts of no fact."""
    if not facts:
        how = tokenizer.loss or "'▁' becomes a space"
        raise ModelError(
            f"{tokenizer.name} changes the texts of all facts ({how}), so none could be decoded from its ids: choose a model "
            "whose tokenizer keeps text, as byte-level ones do"
        )


def as_keys(ids: Tokens, lengths: Offsets) -> pa.Array:
    """Return sequences of ids as binary values (large_binary) that sort like them, byte by byte."""
    ends = offsets_of(4 * lengths)
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(ids.astype(">u4").tobytes())]
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)


def from_keys(keys: pa.Array) -> tuple[Tokens, Offsets]:
    """Return binary values that `as_keys` made as ids and offsets (int64[n + 1]).

    >>> tokens, offsets = from_keys(as_keys(np.array([7, 8, 9]), np.array([2, 1])))
    >>> tokens.tolist(), offsets.tolist()
    ([7, 8, 9], [0, 2, 3])
    """
    values = keys.cast(pa.large_binary())
    _, ends, data = values.buffers()
    bounds = np.frombuffer(ends, np.int64)[values.offset : values.offset + len(values) + 1]
    offsets = (bounds - bounds[0]) // 4
    if not offsets[-1]:
        return np.empty(0, np.int32), offsets
    return np.frombuffer(data, ">u4", offsets[-1], bounds[0]).astype(np.int32), offsets


def _flatten(encoded: list[list[int]]) -> tuple[Tokens, Offsets]:
    """Return lists of ids as all ids in a row, and how many each has."""
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    return np.fromiter(chain.from_iterable(encoded), np.int32, int(lengths.sum())), lengths


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
    with open_work_database(work, resources, task="sort the facts", in_memory=False) as database:
        database.view_parquet("units", knowledge / "units.parquet")
        database.view_parquet("facts", knowledge / "facts.parquet")
        sample = database.rows(_SAMPLED.format(**tails(has_tails=_has_tails(database))))
        if words_join(tokenizer, trigger, [(s, p, o) for s, p, o in sample]):
            return _encode_by_unit(database, tokenizer, work, advance)
        return _encode_whole(database, tokenizer, trigger, work, advance)


def _has_tails(database: WorkDatabase) -> bool:
    return any(column == "tail" for column, *_ in database.rows("DESCRIBE facts"))


def tails(*, has_tails: bool) -> dict[str, str]:
    """Return what queries of whole texts have in their places."""
    return {"last": _WITH_TAIL, "tail": _TAIL} if has_tails else {"last": _OBJECT, "tail": ""}


def _encode_by_unit(database: WorkDatabase, tokenizer: FactTokenizer, work: Path, advance: Advance) -> UnitFacts:
    count = database.number("SELECT count(*) FROM units")
    database.execute("CREATE TABLE encoded (unit INTEGER, ids BLOB)")
    for batch in database.batches("SELECT unit, text FROM units", _BATCH):
        keys, kept = encode_units(tokenizer, batch["text"])
        database.insert("encoded", pa.table({"unit": batch["unit"], "ids": keys}).filter(kept))
        advance("encode", len(batch), count)
    has_tails = _has_tails(database)
    if has_tails:
        database.execute(f"INSERT INTO encoded VALUES ({count}, '')")  # comes first: a fact before those that it begins
    ranks, rank = np.full(count + has_tails, -1, np.int32), -1
    writer = SequenceWriter(work, UNIT)
    for batch in database.batches("SELECT unit, ids FROM encoded ORDER BY ids", _BATCH):
        is_new = writer.write(batch["ids"])
        ranks[batch["unit"].to_numpy()] = rank + np.cumsum(is_new)
        rank += int(is_new.sum())
    database.execute("DROP TABLE encoded")
    tokens, offsets = writer.finish()
    units = ("subject", "predicate", "object", "tail") if has_tails else ("subject", "predicate", "object")
    sorted_units = _sort_units(database, ranks, units, work, advance)
    check_any_left(tokenizer, len(sorted_units))
    return UnitFacts(sorted_units, tokens, offsets)


def _sort_units(
    database: WorkDatabase, ranks: NDArray[np.int32], units: Sequence[str], work: Path, advance: Advance
) -> NDArray[np.int32]:
    total = database.number("SELECT count(*) FROM facts")
    columns, width = ", ".join(units), len(units)
    database.execute(f"CREATE TABLE triples ({', '.join(f'{name} INTEGER' for name in units)})")
    for batch in database.batches(f"SELECT {columns} FROM facts", _BATCH):
        rows = np.stack([ranks[batch[name].to_numpy()] for name in units])
        rows = rows[:, rows.min(0) >= 0]
        database.insert("triples", pa.table(dict(zip(units, map(pa.array, rows), strict=True))))
        advance("sort", len(batch), 2 * total)
    path, last = work / (TRIPLES if width == 3 else QUADS), np.full((1, width), -1, np.int32)
    with path.open("wb") as out:
        for batch in database.batches(f"SELECT {columns} FROM triples ORDER BY {columns}", _BATCH):
            rows = np.concatenate([last, np.stack([batch[name].to_numpy() for name in units], axis=1)])
            out.write(rows[1:][(rows[1:] != rows[:-1]).any(axis=1)].tobytes())
            last = rows[-1:]
            advance("sort", len(batch), 2 * total)
    database.execute("DROP TABLE triples")
    if not path.stat().st_size:
        return np.empty((0, width), np.int32)
    return np.memmap(path, np.int32, "r").reshape(-1, width)


def _encode_whole(
    database: WorkDatabase, tokenizer: FactTokenizer, trigger: str, work: Path, advance: Advance
) -> WholeFacts:
    total, left = database.number("SELECT count(*) FROM facts"), 0
    database.execute("CREATE TABLE encoded (ids BLOB)")
    for batch in database.batches(_TEXTS.format(**tails(has_tails=_has_tails(database))), _BATCH):
        keys, kept = encode_whole(tokenizer, trigger, batch["text"])
        left += kept.true_count
        database.insert("encoded", pa.table({"ids": keys}).filter(kept))
        advance("encode", len(batch), total)
    check_any_left(tokenizer, left)
    writer = SequenceWriter(work, FACT)
    for batch in database.batches("SELECT ids FROM encoded ORDER BY ids", _BATCH):
        writer.write(batch["ids"])
    return WholeFacts(*writer.finish())


class SequenceWriter:
    """Writes ascending sequences to two files in `work`, called after `name`, which must live as long as `finish`'s result."""

    def __init__(self, work: Path, name: str) -> None:
        self._work, self._name, self._last, self._end = work, name, None, 0
        self._tokens, self._offsets = ((work / f"{name}-{what}").open("wb") for what in ("tokens", "offsets"))
        self._offsets.write(bytes(8))

    def append(self, tokens: Tokens, offsets: Offsets) -> None:
        """Add distinct sequences, given as tokens and offsets, after those that are there."""
        ends = offsets[1:] - offsets[0] + self._end
        self._tokens.write(tokens[offsets[0] : offsets[-1]].astype(np.int32).tobytes())
        self._offsets.write(ends.astype(np.int64).tobytes())
        if len(ends):
            self._end = int(ends[-1])

    def write(self, keys: pa.Array) -> NDArray[np.bool_]:
        """Add the sequences of keys (`as_keys`), equal ones once, and return which differ from the one before: bool[n].

        So their query sorts, and does nothing else: DISTINCT or a rank beside it would hold all of them in memory once
        more.
        """
        is_new = np.ones(len(keys), np.bool_)
        if len(keys):
            is_new[0] = keys[0].as_py() != self._last
            is_new[1:] = compute.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
            self._last = keys[-1].as_py()
        self.append(*from_keys(keys.filter(pa.array(is_new))))
        return is_new

    def finish(self) -> tuple[Tokens, Offsets]:
        """Return the ids of all sequences, and their offsets, as memory maps."""
        self._tokens.close()
        self._offsets.close()
        return open_sequences(self._work, self._name)


def multiplicities(index: Index, tokens: Tokens, offsets: Offsets) -> NDArray[np.int64]:
    """Return the signed sum of each of n distinct, ascending sequences over an index's segments: int64[n], 0 or 1.

    Raises CorruptIndexError if a sum is neither 0 nor 1.
    """
    sums = np.zeros(len(offsets) - 1, np.int64)
    for sign, tree in index.segments:
        sums += sign * contained(tree, tokens, offsets)
    if ((sums < 0) | (sums > 1)).any():
        raise CorruptIndexError(
            f"index {index.name!r} has a fact whose signed sum over its segments is not 0 or 1. Ingest the index again"
        )
    return sums


def select_by_sum(index: Index, facts: EncodedFacts, wanted: int, work: Path, bars: ProgressBars) -> WholeFacts:
    """Write to files those of the facts whose signed sum over the segments is `wanted`."""
    chosen = SequenceWriter(work, CHOSEN)
    for low in range(0, len(facts), BATCH):
        tokens, offsets = facts.read_tokens(low, min(low + BATCH, len(facts)))
        picked = np.flatnonzero(multiplicities(index, tokens, offsets) == wanted)
        chosen.append(*select(tokens, offsets, picked))
        bars.advance("look up", len(offsets) - 1, len(facts))
    return WholeFacts(*chosen.finish())
