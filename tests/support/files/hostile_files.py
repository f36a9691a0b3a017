"""Changes of an index file by accident and by hand, and what a reader makes of it."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from refactx.errors import CorruptIndexError, InputError
from refactx.index.file.format import CHECKSUM_BYTES, FILE_VERSION, ROWS
from refactx.index.file.rows import pack_rows, unpack_rows
from refactx.index.file.source import FileSource
from refactx.index.index import Index
from refactx.tree.codes import RowCodec, shared_seed
from refactx.tree.piece import pack_arrays, read_in_place
from support.shared_index import blocks, forged

Answers = tuple[Any, ...]


def read_everything(path: Path, checked_bytes: int) -> Answers:
    """All facts of a file by scan, the same by walks, all names, ids and hubs."""
    with Index(FileSource(path, checked_bytes)) as index:
        facts = [fact.text for fact in index.all_facts()]
        walked = [
            (below.tokens.tolist(), below.leaves.tolist(), below.terminal)
            for text in facts[::7]
            for below in map(index.children, _prefixes(index, text))
        ]
        ids = {name: one for key, block in index.name_rows() for name, one in index.unpack_names(key, block).items()}
        found = index.ids_of(ids), index.names_of([one.id for one in ids.values()])
        return index.facts, facts, walked, ids, found, index.hubs([*ids, "human"])


def _prefixes(index: Index, text: str) -> list[tuple[int, ...]]:
    tokens = index.tokenizer.encode_after(index.trigger, " " + text.removesuffix(" ."))
    return [tuple(tokens[:depth]) for depth in range(len(tokens) + 1)]


def outcome(path: Path, checked_bytes: int) -> Answers | None:
    """What a reader finds in a file; None if it refuses it with an error that names the file."""
    try:
        return read_everything(path, checked_bytes)
    except (InputError, CorruptIndexError) as error:
        assert path.name in str(error), error
        assert "\n" not in str(error)
        return None


def by_accident(file: bytes, chance: random.Random) -> bytes:
    """The file with flipped bits, cut, with other bytes put in, taken out, or moved."""
    at, size = _place(file, chance), chance.randrange(1, chance.choice([2, 200]))
    changes: list[Callable[[], bytes]] = [
        lambda: file[:at] + bytes([file[at] ^ 1 << chance.randrange(8)]) + file[at + 1 :],
        lambda: file[:at] + chance.randbytes(size) + file[at + size :],
        lambda: file[:at] + bytes(size) + file[at + size :],
        lambda: file[:at],
        lambda: file[:at] + file[at + size :],
        lambda: file[:at] + chance.randbytes(size) + file[at:],
        lambda: file + chance.randbytes(size),
        lambda: file[:at] + bytes(len(file) - at),
        lambda: _swapped(file, at, chance.randrange(len(file)), size),
        lambda: _length(file, chance),
    ]
    return chance.choice(changes)()


def by_hand(file: bytes, chance: random.Random) -> bytes:
    """The file with one changed payload, and right checksums of blocks, keys and (for arrays) rows."""
    parts = [(block.kind, block.number, block.payload) for block in blocks(file)]
    number = chance.randrange(len(parts) - 2)  # contents and end follow from the others
    kind, table, payload = parts[number]
    if kind not in ROWS:
        parts[number] = kind, table, by_accident(payload, chance) if payload else b"x"
        return forged(parts)
    rows = list(unpack_rows(payload, FILE_VERSION))
    at = chance.randrange(len(rows))
    key, value = rows[at]
    if kind == "tree" and key[0] and chance.random() < 0.7:
        rows[at] = key, _other_arrays(parts, table, key, value, chance)
    elif chance.random() < 0.5:
        rows[at] = by_accident(key, chance) if key else b"k", value
    else:
        rows[at] = key, by_accident(value, chance) if value else b"v"
    parts[number] = kind, table, pack_rows(rows)
    return forged(parts)


def _other_arrays(
    parts: list[tuple[str, int, bytes]], table: int, key: bytes, value: bytes, chance: random.Random
) -> bytes:
    """The row of a piece with one other number, and its right checksum."""
    shared = {kind: payload for kind, number, payload in parts if number == table and kind in ("codes", "dict")}
    codec = RowCodec(shared["dict"], seed=shared_seed(shared["codes"], shared["dict"]))
    piece = read_in_place(codec, key, value, "test")
    name = chance.choice(["lcp", "ends", "heads", "leaves", "items", "kinds"])
    array = getattr(piece, name).copy()
    array[chance.randrange(len(array))] = chance.randrange(200)
    return pack_arrays(key, replace(piece, **{name: array}), codec.seed)


def _place(file: bytes, chance: random.Random) -> int:
    """A position in any block: most of a small file are its tokenizer."""
    try:
        ends = [block.end for block in blocks(file)]
    except InputError:  # the payload of a block
        return chance.randrange(len(file))
    number = chance.randrange(len(ends))
    return chance.randrange(ends[number - 1] if number else 0, ends[number])


def _swapped(file: bytes, one: int, other: int, size: int) -> bytes:
    low, high = sorted((one, other))
    size = min(size, high - low, len(file) - high)
    return (
        file[:low] + file[high : high + size] + file[low + size : high] + file[low : low + size] + file[high + size :]
    )


def _length(file: bytes, chance: random.Random) -> bytes:
    """The file with another size in the head of a block, or another place of the contents."""
    try:
        found = blocks(file)
    except InputError:  # the payload of a block
        return file[::-1]
    ends = [block.end for block in found]
    at = chance.choice([*(end + 12 for end in ends[:-1]), ends[-1] - CHECKSUM_BYTES - 8])
    return file[:at] + chance.randrange(1 << 32).to_bytes(4, "big") + file[at + 4 :]
