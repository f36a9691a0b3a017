"""An index in a file answers exactly as the same facts and names in memory, for any size of pieces."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from support.files.made_files import write_file
from support.signed_sum import SignedSum
from support.stored_trees import Sequences, random_sequences

from refactx.fact import written_part
from refactx.index.names import Named
from refactx.index.open import open_index
from refactx.ingest.segment.cutting import Shape
from refactx.tree.tree import MemoryTree

token = st.sampled_from([0, 1, 2, 3, 127, 128, 255, 300, 20_000, 151_668])
sequence = st.lists(token, min_size=1, max_size=7).map(tuple)
shapes = st.builds(
    Shape, facts=st.integers(1, 9), inner=st.integers(1, 9), root=st.integers(1, 12), code_bytes=st.integers(1, 60)
)
name = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=4)
name = name.filter(lambda text: written_part(text) == text)
named = st.builds(
    lambda letter, number, kind: Named(f"{letter}{number}", kind if letter == "P" else None),
    st.sampled_from("QP"),
    st.integers(1, 40),
    st.sampled_from([None, "entity", "time", "mixed", "inverse"]),
)


def check_tree(segments: list[tuple[int, Sequences]], shape: Shape, every: int = 1) -> None:
    twin = SignedSum([(sign, MemoryTree(some)) for sign, some in segments])
    with (
        TemporaryDirectory() as folder,
        open_index(write_file(Path(folder) / "made.refactx", segments, shape=shape)) as index,
    ):
        prefixes = {one[:depth] for _, some in segments for one in some[::every] for depth in range(len(one) + 1)}
        for prefix in sorted(prefixes, reverse=True) + sorted(prefixes):
            got, expected = index.children(prefix), twin.children(prefix)
            assert got.tokens.tolist() == expected.tokens.tolist(), prefix
            assert got.leaves.tolist() == expected.leaves.tolist(), prefix
            assert got.terminal == expected.terminal, prefix
            for absent in (5, 100_000):
                assert index.children((*prefix, absent)).total == twin.children((*prefix, absent)).total


@settings(max_examples=40, deadline=None)
@given(st.lists(sequence, min_size=1, max_size=80, unique=True), shapes, st.data())
def test_the_tree_of_a_file_equals_the_tree_in_memory(facts: Sequences, shape: Shape, data: st.DataObject) -> None:
    segments = [(1, facts)]
    gone = data.draw(st.lists(st.sampled_from(facts), max_size=len(facts) - 1, unique=True))
    more = [one for one in data.draw(st.lists(sequence, max_size=8, unique=True)) if one not in facts]
    segments += [(-1, gone)] if gone else []
    segments += [(1, more)] if more else []
    check_tree(segments, shape)


def test_a_file_of_several_levels_equals_the_tree_in_memory() -> None:
    facts = random_sequences(20_000, 1)
    check_tree([(1, facts)], Shape(facts=64, inner=128, root=200), every=20)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.dictionaries(name, named, min_size=1, max_size=30), max_size=3),
    st.dictionaries(st.tuples(name, name, name), st.integers(1, 9), max_size=8),
)
def test_names_ids_and_hubs_of_a_file_are_those_that_were_written(
    tables: list[dict[str, Named]], hubs: dict[tuple[str, str, str], int]
) -> None:
    for table in tables:  # an id has one name in a table, an item no kind
        seen: set[tuple[str, bool]] = set()
        for text, one in list(table.items()):
            key = one.id, one.object_kind == "inverse"
            if key in seen:
                del table[text]
            seen.add(key)
    names = {text: one for table in tables for text, one in table.items()}  # the latest table decides
    by_id = {one.id: text for table in tables for text, one in table.items() if one.object_kind != "inverse"}
    with TemporaryDirectory() as folder:
        path = write_file(Path(folder) / "made.refactx", [(1, [(1,)])], names=tables, hubs=hubs)
        with open_index(path) as index:
            assert index.ids_of([*names, "nobody", ""]) == names
            assert index.names_of([*by_id, "Q99999"]) == by_id
            listed = [n for key, block in index.name_rows() for n in index.unpack_names(key, block)]
            assert sorted(listed) == sorted(text for table in tables for text in table)
            objects = {one for one, _, _ in hubs}
            counts: dict[str, dict[str, int]] = {}
            for (object_, _, inverse), subjects in hubs.items():
                counts.setdefault(object_, {}).setdefault(inverse, 0)
                counts[object_][inverse] += subjects
            assert index.hubs([*objects, "nobody"]) == counts
