"""The names of ids: blocks as brute force has them, damaged blocks, and an index made before there were any."""

from pathlib import Path

import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ingest.graph_twin import Line
from support.ingest.living_graph import CLAIMS, LABELS, graph
from support.ingest.living_index import LivingIndex

from refactx.errors import CorruptIndexError
from refactx.index.names import IDS_PER_BLOCK, is_id_key, names_by_number, pack_id_blocks, unpack_ids
from refactx.index.verify import verify
from refactx.ingest.source_options import Selection
from refactx.tree.codes import RowCodec

NUMBERS = st.integers(-(2**61), 2**61) | st.integers(-300, 300)
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1)
CODEC = RowCodec()


@given(st.dictionaries(NUMBERS, NAMES, min_size=1), st.sets(NUMBERS))
def test_a_block_has_the_names_of_a_dictionary(names: dict[int, str], others: set[int]) -> None:
    ((key, block),) = pack_id_blocks(sorted(names.items()), CODEC)
    numbers, texts = unpack_ids(key, block, CODEC, "here")
    assert dict(zip(numbers.tolist(), texts, strict=True)) == names
    wanted = np.array(sorted(names.keys() | others), np.int64)
    assert names_by_number(wanted, key, block, CODEC, "here") == names


def test_blocks_are_in_the_order_of_their_keys_and_before_all_names() -> None:
    rows = [(number, f"name {number}") for number in range(-3000, 6 * IDS_PER_BLOCK, 3)]
    blocks = list(pack_id_blocks(rows, CODEC))
    assert [row for key, block in blocks for row in zip(*unpack_ids(key, block, CODEC, "here"), strict=True)] == rows
    keys = [key for key, _ in blocks]
    assert len(keys) > 2
    assert keys == sorted(keys)
    assert all(map(is_id_key, keys))


@pytest.mark.parametrize(
    "members",
    [
        (),
        (2, b"a\nb"),
        (2, b"a\nb", b""),
        (2, b"a\nb", b"\0"),
        (2, b"a\nb", bytes(2) + b"\x01"),
        (2, b"a\nb", b"\xff" * 8),
        (2, b"a\n", b"\1"),
        (1, b"a\nb", b"\1"),
        (1, b"a", b"\1"),
        (2, b"a\n\xff", b"\1"),
        (2, 7, b"\1"),
        (b"2", b"a\nb", b"\1"),
    ],
)
def test_a_block_with_impossible_members_is_an_error(members: tuple[int | bytes, ...]) -> None:
    ((key, _),) = pack_id_blocks([(84, "a")], CODEC)
    with pytest.raises(CorruptIndexError, match=r"^here .*ngest the index again"):
        unpack_ids(key, CODEC.pack(key, members), CODEC, "here")
    with pytest.raises(CorruptIndexError, match=r"^here .*ngest the index again"):
        unpack_ids(key[:5], CODEC.pack(key[:5], (1, b"a", b"")), CODEC, "here")


@pytest.fixture
def living(db_url: str, tmp_path: Path) -> LivingIndex:
    return LivingIndex(db_url, tmp_path)


def test_ids_and_inverses_have_the_names_that_facts_use(living: LivingIndex) -> None:
    living.ingest_from(graph(living, "all.nt", LABELS + CLAIMS), selection=Selection(inverse=True))
    other: list[Line] = [("label", "Q4", "Ann", "en"), ("claim", "Q4", "P40", "Q2")]
    living.append_from(graph(living, "more.nt", other), selection=Selection(inverse=True))
    names = {"Q1": "Ann", "Q2": "Bob", "Q4": "Ann (Q4)", "P40": "child", "P50": "born"}
    for _ in range(2):
        with living.open() as index:
            assert index.names_of(iter([*names, "Q3", "Q04", "", "L7", "P1"])) == names
            assert index.names_of(names, inverse=True) == {"P40": "child of"}
            assert index.names_of([]) == {}
            assert verify(index).faults == []
        living.compact()


def test_an_index_of_before_has_no_names_by_id_but_of_what_is_appended_until_a_compaction(living: LivingIndex) -> None:
    living.ingest_from(graph(living, "all.nt", LABELS + CLAIMS))
    with psycopg.connect(living.url, autocommit=True) as connection:
        connection.execute("DELETE FROM refactx.names_1 WHERE key < '\\x01'")
    with living.open() as index:
        assert index.names_of(["Q1", "P40"]) == {}
        assert verify(index).faults == []
    living.append_from(graph(living, "more.nt", [("claim", "Q3", "P40", "Q1"), ("label", "Q3", "Cid", "en")]))
    for names in ({"Q3": "Cid"}, {}):
        with living.open() as index:
            assert index.names_of(["Q1", "Q3"]) == names
            assert verify(index).faults == []
        living.compact()


def test_ready_made_facts_without_names_do_not_cost_the_others_theirs(living: LivingIndex) -> None:
    living.ingest("a b c")
    living.append_from(graph(living, "all.nt", LABELS + CLAIMS))
    living.compact()
    with living.open() as index:
        assert index.names_of(["Q1"]) == {"Q1": "Ann"}


def test_verify_finds_a_name_that_its_id_does_not_have(living: LivingIndex) -> None:
    living.ingest_from(graph(living, "all.nt", LABELS + CLAIMS))
    with psycopg.connect(living.url, autocommit=True) as connection:
        ((key, block),) = connection.execute("SELECT key, block FROM refactx.names_1 WHERE key < '\\x01'").fetchall()
        count, joined, steps = CODEC.unpack(key, block, "here")
        forged = CODEC.pack(key, (count, joined.replace(b"Bob", b"Rob"), steps))
        connection.execute("UPDATE refactx.names_1 SET block = %b WHERE key = %b", [forged, key])
    with living.open() as index:
        (fault,) = verify(index).faults
        assert "its names by id are not those of its ids by name" in fault
