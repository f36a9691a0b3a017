"""The entities and properties of an index are called as its facts are, and found by these names."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ingest.graph_twin import Line, written
from support.ingest.tiny import opened_tiny

from refactx.index.index import Index
from refactx.ingest.source_options import Selection
from refactx.sparql.placeholders.index_names import IndexNames, IndexResolver, full_name, split_name
from refactx.sparql.placeholders.text import MentionsRefusedError, Placeholder, Refusal, from_pgmr, to_pgmr

NAMED = {
    "Q1": ("Ann", "a girl"),
    "Q2": ("Ann", "a town (in Ohio)"),
    "Q3": ("Air (film)", "film of 2023"),
    "Q4": ("Bob", None),
    "Q5": ("BOB", None),
    "Q6": ("(500) Days", None),
    "Q7": ("child", "young human"),
    "P1": ("child", "offspring of a person"),
    "P2": ("weight (kg)", None),
    "P3": ("Parent", None),
}
LINES: list[Line] = [("label", id_, label, "en") for id_, (label, _) in NAMED.items()]
LINES += [("description", id_, text, "en") for id_, (_, text) in NAMED.items() if text]
LINES += [("claim", "Q1", "P1", f"Q{number}") for number in range(2, 8)]
LINES += [("claim", "Q2", "P3", "Q1"), ("literal", "Q3", "P2", "7", "^^decimal")]


@pytest.fixture(scope="module")
def index(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    source = tmp_path_factory.mktemp("names") / "graph.nt"
    with opened_tiny(module_url, source, map(written, LINES), selection=Selection(inverse=True)) as opened:
        yield opened


def entity(label: str, description: str | None = None) -> Placeholder:
    return Placeholder("entity", label, description)


@given(st.text(max_size=12), st.text(max_size=12), st.sampled_from(["Q1", "L2", "P1", "P22"]))
def test_a_split_name_is_put_together_again(label: str, description: str, id_: str) -> None:
    name = full_name(label, description)
    assert full_name(*split_name(name, id_)) == name


def test_every_entity_and_property_has_its_label_and_description(index: Index) -> None:
    found = IndexNames(index).mentions([*NAMED, "Q404"])
    assert {id_: mention.label for id_, mention in found.items()} == {id_: label for id_, (label, _) in NAMED.items()}
    assert {id_: mention.description for id_, mention in found.items()} == {
        id_: text or "" for id_, (_, text) in NAMED.items()
    }


@pytest.mark.parametrize("ignore_case", [False, True])
def test_every_name_of_the_index_is_resolved_to_its_id(index: Index, ignore_case: bool) -> None:
    mentions = IndexNames(index).mentions(list(NAMED))
    resolver = IndexResolver(index, ignore_case=ignore_case)
    assert resolver.resolve([mentions[id_] for id_ in NAMED]) == list(NAMED)


@pytest.mark.parametrize(
    ("mention", "answer"),
    [
        (entity("Air (film)"), "Q3"),
        (entity("Air (film)", "another description"), "Q3"),
        (entity("Ann", "a girl"), "Q1"),
        (entity("child"), "Q7"),
        (Placeholder("relation", "child"), "P1"),
        (Placeholder("relation", "weight (kg)", "mass"), "P2"),
    ],
)
def test_the_label_decides_if_it_is_the_only_one(index: Index, mention: Placeholder, answer: str) -> None:
    assert IndexResolver(index).resolve([mention]) == [answer]


@pytest.mark.parametrize(
    ("mention", "reason"),
    [
        (entity("Ann"), "2 entities of the index are called <Ann>: <Ann (a girl)>, <Ann (a town (in Ohio))>"),
        (entity("Ann", "a boy"), "2 entities of the index are called <Ann>, none of them with this description: "),
        (entity("air (film)"), "no entity of the index is called <air (film)>"),
        (entity("weight (kg)"), "no entity of the index is called <weight (kg)>"),
        (Placeholder("relation", "Ann"), "no property of the index is called <Ann>"),
        (Placeholder("relation", "child of"), "no property of the index is called <child of>"),
    ],
)
def test_a_mention_that_means_none_or_several_is_refused(index: Index, mention: Placeholder, reason: str) -> None:
    (answer,) = IndexResolver(index).resolve([mention])
    assert isinstance(answer, Refusal)
    assert answer.reason.startswith(reason)


def test_case_is_ignored_if_asked_and_a_name_in_its_case_is_preferred(index: Index) -> None:
    wanted = [
        entity("air (FILM)"),
        entity("ANN", "A Girl"),
        Placeholder("relation", "parent"),
        entity("BOB"),
        entity("bob"),
    ]
    *found, refused = IndexResolver(index, ignore_case=True).resolve(wanted)
    assert found == ["Q3", "Q1", "P3", "Q5"]
    assert refused == Refusal("2 entities of the index are called <bob>: <BOB>, <Bob>")


def test_a_query_is_refused_with_the_reason_of_each_placeholder(index: Index) -> None:
    text = to_pgmr("ASK { wd:Q2 wdt:P1 wd:Q4 }", IndexNames(index))
    assert from_pgmr(text, IndexResolver(index)) == "ASK { wd:Q2 wdt:P1 wd:Q4 }"
    with pytest.raises(MentionsRefusedError) as error:
        from_pgmr(text.replace("a town (in Ohio)", "city").replace("child", "kid"), IndexResolver(index))
    assert list(error.value.refusals) == ["entity1", "relation1"]
    assert str(error.value).startswith("entity1 = [ENT] Ann [/ENT] city: 2 entities of the index are called <Ann>")
    assert "; relation1 = [REL] kid [/REL] offspring of a person: no property of the index is called <kid>" in str(
        error.value
    )
