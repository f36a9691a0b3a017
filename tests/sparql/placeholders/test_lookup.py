"""Both memories, that of embeddings and that of names alone, find labels and neighbours as brute force does."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memory.graph import CLAIMS, NAMED, build, ingest_named, lines_of
from support.memory.letters import LetterEncoder

from bench.memory.experiments import MemoryWithout
from refactx.errors import InputError
from refactx.index.index import Index
from refactx.index.names import Named
from refactx.sparql.placeholders.entry import Memory, mention_text
from refactx.sparql.placeholders.index_names import IndexNames
from refactx.sparql.placeholders.name_memory import NameMemory
from refactx.sparql.placeholders.opening import open_memory
from refactx.sparql.placeholders.text import Placeholder, kind_of
from refactx.sparql.placeholders.vector_memory import VectorMemory

VILLAGES = {f"Q{100 + n}": (f"{a}{b}{c}", "village") for n, (a, b, c) in enumerate(
    (a, b, c) for a in ("Bre", "Gal", "Tor", "Wes") for b in ("ning", "sal", "mor") for c in ("ton", "by", "ville", "")
)}  # fmt: skip


@pytest.fixture(scope="module")
def index(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    villages = [("label", id_, label, "en") for id_, (label, _) in VILLAGES.items()]
    villages += [("description", id_, text, "en") for id_, (_, text) in VILLAGES.items()]
    claims = [("claim", id_, "P4", "Q6") for id_ in VILLAGES]
    folder = tmp_path_factory.mktemp("memory")
    living = ingest_named(module_url, folder, lines=[*lines_of(NAMED), *CLAIMS, *villages, *claims])
    build(living, LetterEncoder())
    with living.open() as opened:
        yield opened


@pytest.fixture(scope="module")
def vectors(index: Index) -> Memory:
    return open_memory(index, LetterEncoder())


@pytest.fixture(scope="module", params=["vectors", "names"])
def memory(index: Index, vectors: Memory, request: pytest.FixtureRequest) -> Memory:
    return vectors if request.param == "vectors" else NameMemory(index)


LABELLED = {id_: (label, text) for id_, (label, text, _) in NAMED.items()} | VILLAGES


@pytest.mark.parametrize("change", [str, str.upper, str.lower], ids=["as written", "upper", "lower"])
def test_every_label_is_found_in_any_case(memory: Memory, change: type[str]) -> None:
    mentions = [Placeholder(kind_of(Named(id_, None)), change(label)) for id_, (label, _) in LABELLED.items()]
    for (label, _), mention, found in zip(LABELLED.values(), mentions, memory.exact(mentions), strict=True):
        expected = {
            id_ for id_, (other, _) in LABELLED.items() if other == label and kind_of(Named(id_, None)) == mention.kind
        }
        assert {one.id for one in found} == expected
        assert {(one.label, one.description) for one in found} == {LABELLED[id_] for id_ in expected}


def test_aliases_and_whole_names_are_found(memory: Memory) -> None:
    found = memory.exact(
        [
            Placeholder("entity", "City of Light"),
            Placeholder("entity", "Paris (prince of Troy)"),
            Placeholder("entity", "no such"),
        ]
    )
    assert [[(one.id, one.is_alias) for one in some] for some in found] == [[("Q4", True)], [("Q5", False)], []]


def test_a_relation_is_no_entity(memory: Memory) -> None:
    assert memory.exact([Placeholder("entity", "capital"), Placeholder("relation", "Texas")]) == [[], []]
    entities, relations = memory.nearest([Placeholder("entity", "capital city"), Placeholder("relation", "Texas")], 3)
    assert {one.entry.kind for one in entities} <= {"entity"}
    assert {one.entry.kind for one in relations} <= {"relation"}


@given(st.sampled_from(sorted(LABELLED)), st.integers(0, 8), st.sampled_from("xyz"), st.integers(1, 7))
def test_the_nearest_are_those_of_brute_force(vectors: Memory, id_: str, at: int, letter: str, count: int) -> None:
    label, text = LABELLED[id_]
    mention = Placeholder(kind_of(Named(id_, None)), label[:at] + letter + label[at + 1 :], text)
    same = {one: named for one, named in LABELLED.items() if kind_of(Named(one, None)) == mention.kind}
    encoder = LetterEncoder()
    (wanted,) = encoder.encode([mention_text(mention)])
    known = encoder.encode([f"{name} ({text})" if text else name for name, text in same.values()])
    cosines = dict(zip(same, known @ wanted, strict=True))
    (near,) = vectors.nearest([mention], count)
    assert [one.similarity for one in near] == sorted((one.similarity for one in near), reverse=True)
    best = sorted(cosines.values(), reverse=True)[:count]
    assert [one.similarity for one in near] == pytest.approx(best, abs=3e-3)  # embeddings are in half precision
    for one in near:
        assert one.similarity == pytest.approx(cosines[one.entry.id], abs=3e-3)
    entries = [one.entry for one in near]
    assert vectors.similarities(mention, entries) == pytest.approx([one.similarity for one in near], abs=1e-3)


def test_one_letter_wrong_is_nearest_by_letters_too(index: Index) -> None:
    mentions = [Placeholder("entity", label[:-1] + "x") for label, _ in VILLAGES.values() if len(label) > 8]
    assert mentions
    for mention, (near, *_) in zip(mentions, NameMemory(index).nearest(mentions, 3), strict=True):
        assert near.entry.label[:-1] == mention.label[:-1]


@given(hidden=st.sets(st.sampled_from(sorted(LABELLED)), max_size=40), count=st.integers(1, 5))
def test_a_memory_without_names_is_the_rest(memory: Memory, hidden: set[str], count: int) -> None:
    mention = Placeholder("entity", "Brenington", "village")
    without = MemoryWithout(memory, hidden)
    (every,) = memory.nearest([mention], len(LABELLED))
    (left,) = without.nearest([mention], count)
    expected = [one for one in every if one.entry.id not in hidden][:count]
    assert [one.similarity for one in left] == pytest.approx([one.similarity for one in expected])
    assert not {one.entry.id for one in left} & hidden
    assert {one.id for one in without.exact([Placeholder("entity", "Paris")])[0]} == {"Q4", "Q5"} - hidden


def test_every_mention_of_the_index_is_found_again(index: Index, memory: Memory) -> None:
    mentions = IndexNames(index).mentions(list(LABELLED))
    found = memory.exact(list(mentions.values()))
    for id_, some in zip(mentions, found, strict=True):
        assert id_ in {one.id for one in some}


def test_a_memory_of_another_encoder_is_refused(index: Index) -> None:
    with pytest.raises(InputError, match=r"encoder letters \(32 numbers.*and wide is another \(48 numbers"):
        open_memory(index, LetterEncoder(width=48, name="wide"))
    with pytest.raises(InputError, match="was built with encoder letters"):
        open_memory(index, LetterEncoder(seed=1))


def test_embeddings_of_aliases_are_near_too(db_url: str, tmp_path: Path) -> None:
    living = ingest_named(db_url, tmp_path)
    for aliases, expected in ((False, "Texas"), (True, "Lone Star State")):
        build(living, LetterEncoder(), aliases=aliases)
        with living.open() as opened:
            memory = open_memory(opened, LetterEncoder())
            assert isinstance(memory, VectorMemory)
            ((near, *rest),) = memory.nearest(
                [Placeholder("entity", "Lone Star Stat", "state of the United States")], 4
            )
            assert (near.entry.id, near.entry.label) == ("Q3", expected)
            assert "Q3" not in {one.entry.id for one in rest}


def test_embeddings_that_are_not_numbers_are_an_error(index: Index) -> None:
    class Broken(LetterEncoder):
        def encode(self, texts):  # type: ignore[no-untyped-def]
            return np.full((len(texts), self.width), np.nan, np.float32)

    from refactx.errors import ModelError

    with pytest.raises(ModelError, match="not finite"):
        open_memory(index, Broken()).nearest([Placeholder("entity", "Bre")], 1)


def test_a_property_without_a_description_is_compared_by_its_label_too(vectors: Memory) -> None:
    encoder, mention = LetterEncoder(), Placeholder("relation", "nicknames")
    ((wanted,), labels) = encoder.encode(["nicknames"]), ("nickname", "capital", "spouse", "country")
    alone = dict(zip(labels, encoder.encode(labels) @ wanted, strict=True))
    (near,) = vectors.nearest([mention], 4)
    (described,) = vectors.nearest([Placeholder("relation", "nicknames", "informal name")], 4)
    assert near[0].entry.label == "nickname" == described[0].entry.label
    assert near[0].similarity == pytest.approx(alone["nickname"], abs=3e-3)
    assert all(one.similarity > alone[one.entry.label] - 3e-3 for one in near)
    assert [one.similarity for one in near] == sorted((one.similarity for one in near), reverse=True)
