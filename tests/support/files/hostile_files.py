"""Changes of an index file by accident and by hand, and what a reader makes of it."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from refactx.errors import CorruptIndexError, InputError
from refactx.index.file import PAGE_BYTES, KeyedRow
from refactx.index.index import Index
from refactx.index.open import open_index
from refactx.tree.piece import pack_arrays, read_in_place
from support.share.forged_files import Contents, forge, row_codec_of

Answers = tuple[Any, ...]


def read_everything(path: Path) -> Answers:
    """All facts of a file by scan, the same by walks, all names, ids and hubs."""
    with open_index(path) as index:
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


def outcome(path: Path) -> Answers | None:
    """What a reader finds in a file; None if it refuses it with an error that names the file."""
    try:
        return read_everything(path)
    except (InputError, CorruptIndexError) as error:
        assert path.name in str(error), error
        assert "\n" not in str(error)
        return None


def by_accident(file: bytes, chance: random.Random) -> bytes:
    """The file with flipped bits, cut, with other bytes put in, taken out, or moved."""
    at, size = chance.randrange(len(file)), chance.randrange(1, chance.choice([2, 200]))
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
        lambda: _page(file, chance),
    ]
    return chance.choice(changes)()


def by_hand(path: Path, made: Contents, chance: random.Random) -> None:
    """Write the contents with one change, and right checksums of values, tables and (for arrays) rows."""
    member = chance.choice(list(made))
    value = made[member]
    if isinstance(value, bytes):
        forge(path, {**made, member: by_accident(value, chance) if value else b"x"})
        return
    rows = list(value)
    at = chance.randrange(len(rows))
    key, packed = rows[at]
    if member[0] == "tree" and key[0] and chance.random() < 0.7:
        rows[at] = key, _other_arrays(made, member[1], rows[at], chance)
    elif chance.random() < 0.5:
        other = by_accident(key, chance) if key else b"k"
        rows[at] = other if other not in dict(rows) else key + b"k", packed
    else:
        rows[at] = key, by_accident(packed, chance) if packed else b"v"
    forge(path, {**made, member: rows})


def _other_arrays(made: Contents, table: int, row: KeyedRow, chance: random.Random) -> bytes:
    """The row of a piece with one other number, and its right checksum."""
    key, value = row
    codec = row_codec_of(made, table)
    piece = read_in_place(codec, key, value, "test")
    name = chance.choice(["lcp", "ends", "heads", "leaves", "items", "kinds"])
    array = getattr(piece, name).copy()
    array[chance.randrange(len(array))] = chance.randrange(200)
    return pack_arrays(key, replace(piece, **{name: array}), codec.seed)


def _swapped(file: bytes, one: int, other: int, size: int) -> bytes:
    low, high = sorted((one, other))
    size = min(size, high - low, len(file) - high)
    return (
        file[:low] + file[high : high + size] + file[low + size : high] + file[low : low + size] + file[high + size :]
    )


def _page(file: bytes, chance: random.Random) -> bytes:
    """The file with another page in place of one, or another number in the head of one."""
    pages = len(file) // PAGE_BYTES
    if not pages:  # a value
        return file[::-1]
    one, other = chance.randrange(pages) * PAGE_BYTES, chance.randrange(pages) * PAGE_BYTES
    if chance.random() < 0.5:
        return file[:one] + file[other : other + PAGE_BYTES] + file[one + PAGE_BYTES :]
    at = one + chance.randrange(40)
    return file[:at] + chance.randbytes(2) + file[at + 2 :]
