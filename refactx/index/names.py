"""Names and their ids, in compressed blocks of neighbouring names: one row for some 256 names.

A name table has three kinds of rows, packed as pieces of the tree are (`refactx.tree.codes`):

* Ids by name. The key of a block is the beginning of its first name in UTF-8, so a name is in the last block whose key
  is not greater. A block is `(count, names joined by newlines, numbers, kinds)`, and, if one of the entities is none of
  Wikidata, their ids joined by newlines: nothing for one of Wikidata.
* Names by id, before those. A key is a zero byte, with which no name begins, and the number of the block's first entity
  (`refactx.entity_ids`, negative for the inverse of a property). A block is `(count, names joined by newlines, steps)`.
  The steps are the differences of neighbouring numbers, unsigned and little-endian, in as few bytes each as the largest
  needs: 1, 2, 4 or 8.
* Labels by language and id, between these: labels in the further languages of an index, where the name is another one.
  A key is the byte 1, the code of the language, a zero byte and the number; a block is as one of names by id. So are the
  references of facts (`REFERENCES`).
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import TypeVar
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from refactx.entity_ids import entity_id, entity_number, is_property, is_wikidata
from refactx.errors import CorruptIndexError, InputError
from refactx.fact import UNWRITTEN, is_written_part
from refactx.tree.codes import RowCodec

IDS_PER_BLOCK = 1024
"""On the development data a block takes 17 kB. Names in the order of ids have little in common: blocks of 256 take 13%
more in total, blocks of 4,096 take 11% less and are slower to read for one id."""

_UNWRITTEN_IN_ID = re.compile(f"{UNWRITTEN.pattern}|[\ud800-\udfff]")
_MARK, _LABEL_MARK = b"\0", b"\1"
_BIAS = 1 << 63
_NUMBER_BYTES = 8
_STEPS = {width: f"<u{width}" for width in (1, 2, 4, 8)}
NAMES_PER_BLOCK = 256
_KEY_BYTES = 2000  # PostgreSQL's B-tree takes keys of up to 2,704

FIRST_KEY = b"\x02"
"""The least key of a block of names: names have no control characters."""

LITERAL_KINDS = ("literal", "time", "quantity", "coordinates", "text")
"""The kinds of a property whose objects are literals. `literal`: of several kinds, or of one that is not known."""

REFERENCES = "references"
"""In place of the language of labels, of which none is called so: the addresses of a fact's references, with a space between
them, by the number of the fact (`refactx.entity_ids.fact_number`)."""

_KINDS = (None, "entity", "literal", "mixed", "inverse", *LITERAL_KINDS[1:])


def id_key(number: int, language: str = "") -> bytes:
    """Return the key of a block that begins with the entity of a number; of labels, if `language` is given.

    >>> id_key(-1139) < id_key(84) < id_key(84, "de") < FIRST_KEY < b"A"
    True
    """
    return _prefix_of(language) + (number + _BIAS).to_bytes(_NUMBER_BYTES, "big")


def _prefix_of(language: str) -> bytes:
    return _LABEL_MARK + language.encode() + _MARK if language else _MARK


def language_of(key: bytes) -> str:
    """Return the language of the labels under a key of `is_id_key`; "" for names.

    >>> language_of(id_key(84, "de")), language_of(id_key(84))
    ('de', '')
    """
    return key[1 : -_NUMBER_BYTES - 1].decode("ascii", "replace") if key.startswith(_LABEL_MARK) else ""


def is_id_key(key: bytes) -> bool:
    """Return whether the row under a key has names, or labels, by ids.

    >>> is_id_key(id_key(84)), is_id_key("Danny Boyle".encode())
    (True, False)
    """
    return key < FIRST_KEY


def pack_id_blocks(
    rows: Iterable[tuple[int, str]], codec: RowCodec, language: str = ""
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and blocks of entities, given as number and name in the order of their numbers. With `language`,
    a label in it is in place of the name."""
    block: list[tuple[int, str]] = []
    for row in rows:
        if len(block) == IDS_PER_BLOCK:
            yield _packed_ids(block, codec, language)
            block = []
        block.append(row)
    if block:
        yield _packed_ids(block, codec, language)


def names_by_number(
    numbers: NDArray[np.int64], key: bytes, block: bytes, codec: RowCodec, where: str
) -> dict[int, str]:
    """Return the names of entities, given their numbers (int64[n]) and the block in which they would be.

    Raises CorruptIndexError, whose message begins with `where`, if the block is damaged.
    """
    present, names = unpack_ids(key, block, codec, where)
    places = np.searchsorted(present, numbers)
    places[places == len(present)] = 0
    is_present = present[places] == numbers
    return {int(number): names[at] for number, at in zip(numbers[is_present], places[is_present], strict=True)}


def unpack_ids(key: bytes, block: bytes, codec: RowCodec, where: str) -> tuple[NDArray[np.int64], list[str]]:
    """Return the numbers of a block's n entities, int64[n], ascending, and their names.

    Raises CorruptIndexError, whose message begins with `where`, if the block is damaged.
    """
    try:
        count, joined, steps = codec.unpack(key, block, where)
        names = joined.decode().split("\n")
        if not len(names) == count or key[:-_NUMBER_BYTES] != _prefix_of(language_of(key)) or not all(names):
            raise ValueError("its ids and names differ in number, or its key is too short")
        numbers = [int.from_bytes(key[-_NUMBER_BYTES:], "big") - _BIAS, *_steps(steps, count - 1)]
        if sum(numbers) >= _BIAS or 0 in numbers[1:]:
            raise ValueError("its ids do not ascend")
        return np.array(list(accumulate(numbers)), np.int64), names  # steps may be beyond int64
    except (ValueError, TypeError, AttributeError) as error:  # members of other types than `_packed` writes
        raise CorruptIndexError(f"{where} is damaged: {error}. Ingest the index again") from error


def _steps(packed: bytes, count: int) -> list[int]:
    if not count:
        if packed:
            raise ValueError("it has steps for one id")
        return []
    width, rest = divmod(len(packed), count)
    if rest or width not in _STEPS:
        raise ValueError("the size of its steps is impossible")
    steps: list[int] = np.frombuffer(packed, _STEPS[width]).tolist()
    return steps


def _packed_ids(block: list[tuple[int, str]], codec: RowCodec, language: str) -> tuple[bytes, bytes]:
    key = id_key(block[0][0], language)
    steps = np.diff(np.array([number for number, _ in block], np.int64)).astype(np.uint64)  # modulo 2^64
    width = next(width for width in _STEPS if int(steps.max(initial=0)) >> 8 * width == 0)
    joined = "\n".join(name for _, name in block).encode()
    return key, codec.pack(key, (len(block), joined, steps.astype(_STEPS[width]).tobytes()))


def written_id(id_: str) -> str:
    """Return an id as an ingest writes it: what no name has (`refactx.fact.UNWRITTEN`) is percent-encoded, as in an address.

    >>> written_id("http://e.org/a\\u202eb\\n"), written_id("http://e.org/Café")
    ('http://e.org/a%E2%80%AEb%0A', 'http://e.org/Café')
    """
    return _UNWRITTEN_IN_ID.sub(lambda found: quote(found[0].encode("utf-8", "surrogatepass"), safe=""), id_)


def is_written_id(id_: str) -> bool:
    """Return whether a text can be an id: it is not empty, and `written_id` leaves it as it is."""
    return id_ != "" and _UNWRITTEN_IN_ID.search(id_) is None


@dataclass(frozen=True, slots=True)
class Named:
    """The entity of a name: its id (`Q42`, an IRI, the key of a row), and the kind of a property's objects (None for items).

    Kinds: `entity`; `time`, `quantity`, `coordinates` or `text`, if all objects are such literals, `literal` for others
    (`LITERAL_KINDS`); `mixed` (both); and `inverse`: the name is that of the property read backwards, whose objects are
    entities. `number`: of the entity (`refactx.entity_ids`); by default that of an id of Wikidata.
    """

    id: str
    object_kind: str | None
    number: int = 0

    def __post_init__(self) -> None:
        if not self.number:
            object.__setattr__(self, "number", entity_number(self.id))

    @property
    def is_property(self) -> bool:
        """Whether the entity is a property."""
        return is_property(self.number)

    @property
    def is_wikidata(self) -> bool:
        """Whether the id is one of Wikidata."""
        return is_wikidata(self.number)


def block_key(name: str) -> bytes:
    """Return the key of a block that begins with `name`.

    >>> block_key("Danny Boyle")
    b'Danny Boyle'
    """
    return name.encode()[:_KEY_BYTES]


def pack_blocks(rows: Iterable[tuple[str, Named]], codec: RowCodec) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and blocks of names, which are given in the order of their UTF-8 bytes."""
    block: list[tuple[str, Named]] = []
    for name, named in rows:
        # Names with the same key stay in one block.
        if len(block) >= NAMES_PER_BLOCK and block_key(name) != block_key(block[-1][0]):
            yield _packed(block, codec)
            block = []
        block.append((name, named))
    if block:
        yield _packed(block, codec)


def find_all(names: Iterable[str], key: bytes, block: bytes, codec: RowCodec, where: str) -> dict[str, Named]:
    """Return the entities of names, given the block in which they would be, without the names that it does not have.

    Raises CorruptIndexError, whose message begins with `where`, if the block is damaged.
    """
    columns = unpack_columns(key, block, codec, where)
    place = {name: at for at, name in enumerate(columns.names)}
    return {name: columns.named(at) for name in names if (at := place.get(name)) is not None}


def unpack_block(key: bytes, block: bytes, codec: RowCodec, where: str) -> dict[str, Named]:
    """Return all names of a block. Raise CorruptIndexError, whose message begins with `where`, if it is damaged."""
    columns = unpack_columns(key, block, codec, where)
    return {name: columns.named(at) for at, name in enumerate(columns.names)}


@dataclass(frozen=True, slots=True, eq=False)
class NameColumns:
    """The n entries of a block of names.

    `joined`: the names, joined by newlines, maybe not UTF-8. `numbers`: int64[n], of the entities
    (`refactx.entity_ids`). `kinds`: n bytes, the numbers of the kinds (`kind_of`). `ids`: those that are not Wikidata's,
    "" for others; None if there are none.
    """

    joined: bytes
    numbers: NDArray[np.int64]
    kinds: bytes
    ids: list[str] | None
    where: str

    @property
    def names(self) -> list[str]:
        """The names. Raises CorruptIndexError if they are not UTF-8."""
        try:
            return self.joined.decode().split("\n")
        except UnicodeDecodeError as error:
            raise _damaged(self.where, error) from error

    def named(self, at: int) -> Named:
        """Return the entity of the name at a place."""
        number = int(self.numbers[at])
        return Named(self.ids[at] if self.ids and self.ids[at] else entity_id(number), kind_of(self.kinds[at]), number)


def unpack_columns(key: bytes, block: bytes, codec: RowCodec, where: str) -> NameColumns:
    """Return the entries of a block of names.

    Raises CorruptIndexError, whose message begins with `where`, if the block is damaged; names that are not UTF-8 are
    found when they are decoded.
    """
    try:
        count, joined, numbers, kinds, *others = codec.unpack(key, block, where)
        columns = NameColumns(joined, np.frombuffer(numbers, "<i8").astype(np.int64), kinds, None, where)
        if others:
            columns = replace(columns, ids=others[0].decode().split("\n"))
        if not joined.count(b"\n") + 1 == len(columns.numbers) == len(kinds) == len(columns.ids or kinds) == count:
            raise ValueError("its names and ids differ in number")
        if (columns.numbers < 0).any():
            raise ValueError("one of its ids is negative")
        return columns
    except (ValueError, TypeError, AttributeError) as error:  # members of other types than `pack_blocks` writes
        raise _damaged(where, error) from error


def check_block(key: bytes, block: bytes, codec: RowCodec, where: str) -> None:
    """Raise CorruptIndexError, whose message begins with `where`, unless a block of names or of ids can be read, its
    entries ascend, the first has its key, and all are names as an ingest writes them."""
    ids: list[str] | None = None
    if is_id_key(key):
        _, names = unpack_ids(key, block, codec, where)
    else:
        columns = unpack_columns(key, block, codec, where)
        names, ids = columns.names, columns.ids
    if not (all(map(is_written_part, names)) and all(map(is_written_id, filter(None, ids or ())))):
        raise CorruptIndexError(
            f"{where} is damaged: it has a name or an id that no ingest writes. Ingest the index again"
        )
    if is_id_key(key):
        return
    if block_key(names[0]) != key or any(one >= other for one, other in pairwise(names)):
        raise CorruptIndexError(f"{where} is damaged: its names are not in order. Ingest the index again")


def kind_of(number: int) -> str | None:
    """Return the kind of objects with a number; None for an item, and for a property that is no predicate."""
    return _KINDS[number] if number < len(_KINDS) else None


def _damaged(where: str, error: Exception) -> CorruptIndexError:
    return CorruptIndexError(f"{where} is damaged: {error}. Ingest the index again")


def _packed(block: list[tuple[str, Named]], codec: RowCodec) -> tuple[bytes, bytes]:
    """Return the key and the block. Raise InputError for a name or an id that none can be, which no reader would take."""
    for name, named in block:
        if not (is_written_part(name) and is_written_id(named.id)):
            raise InputError(
                f"the sources call {named.id!a} {name!a}: a name or an id is empty, or has a control character or a bracket: "
                "rename it"
            )
    key = block_key(block[0][0])
    numbers = np.array([named.number for _, named in block], "<i8").tobytes()
    kinds = bytes(_KINDS.index(named.object_kind) for _, named in block)
    joined = "\n".join(name for name, _ in block).encode()
    members: tuple[int | bytes, ...] = (len(block), joined, numbers, kinds)
    if not all(named.is_wikidata for _, named in block):
        members += ("\n".join("" if named.is_wikidata else named.id for _, named in block).encode(),)
    return key, codec.pack(key, members)


Entry = TypeVar("Entry")

ReadBlocks = Callable[[int, list[bytes], bytes], Mapping[bytes, bytes]]
"""Read the blocks in which the entries of some keys would be, by key: the number of a name table, the keys, ascending,
and the least key of a block."""


def find_names(
    read: ReadBlocks, tables: Sequence[int], names: set[str], codec: RowCodec, where: str
) -> dict[str, Named]:
    """Return the entities of names, without the names that no table has. Each table is read at most once.

    `tables`: the numbers of the name tables, the latest first: it decides if several have a name. Raises
    CorruptIndexError, whose message begins with `where`, if a block is damaged.
    """
    found: dict[str, Named] = {}
    for table in tables:
        missing = names - found.keys()
        if not missing:
            break
        keys = sorted({block_key(name) for name in missing})
        blocks = read(table, keys, FIRST_KEY)
        for key, some in _by_block(((block_key(name), name) for name in missing), blocks).items():
            found |= find_all(some, key, blocks[key], codec, f"{where}: block of names {key!r}")
    return found


def find_numbers(
    read: ReadBlocks, tables: Sequence[int], numbers: set[int], codec: RowCodec, where: str, *, language: str = ""
) -> dict[int, str]:
    """Return the names of entities by their numbers (`refactx.entity_ids`; negative for the inverse of a property),
    without the entities that no table has; with `language` their labels in it. Each table is read at most once.

    The arguments and errors are those of `find_names`.
    """
    found: dict[int, str] = {}
    for table in tables:
        missing = numbers - found.keys()
        if not missing:
            break
        keys = {id_key(number, language): number for number in missing}
        blocks = read(table, sorted(keys), _prefix_of(language))
        for key, some in _by_block(keys.items(), blocks).items():
            wanted = np.array(some, np.int64)
            found |= names_by_number(wanted, key, blocks[key], codec, f"{where}: block of ids {key.hex()}")
    return found


def _by_block(wanted: Iterable[tuple[bytes, Entry]], blocks: Mapping[bytes, bytes]) -> dict[bytes, list[Entry]]:
    """Return the entries that each block could have, by its key, given the key of each entry."""
    keys = sorted(blocks)
    entries: defaultdict[bytes, list[Entry]] = defaultdict(list)
    for own, entry in wanted:
        at = bisect_right(keys, own)
        if at:
            entries[keys[at - 1]].append(entry)
    return entries
