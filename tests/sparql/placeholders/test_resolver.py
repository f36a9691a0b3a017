"""What mentions are resolved to: by label, description, facts and likeness; and when the whole query is refused."""

from collections.abc import Iterator

import pytest
from support.memory.graph import CLAIMS, NAMED, build, ingest_named, lines_of
from support.memory.letters import LetterEncoder

from bench.memory.experiments import MemoryWithout
from refactx.index.index import Index
from refactx.sparql.packs.writers import GivenNames
from refactx.sparql.placeholders.entry import Memory, MemoryEntry, Refused, ResolvedMentions
from refactx.sparql.placeholders.index_names import IndexNames
from refactx.sparql.placeholders.name_memory import NameMemory
from refactx.sparql.placeholders.opening import open_memory
from refactx.sparql.placeholders.resolver import FactFeasibility, MemoryResolver, MentionPattern, patterns_of
from refactx.sparql.placeholders.text import Placeholder, Refusal, read_pgmr


@pytest.fixture(scope="module")
def index(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    living = ingest_named(module_url, tmp_path_factory.mktemp("memory"), lines=[*lines_of(NAMED), *CLAIMS])
    build(living, LetterEncoder())
    with living.open() as opened:
        yield opened


@pytest.fixture(scope="module", params=["vectors", "names"])
def memory(index: Index, request: pytest.FixtureRequest) -> Memory:
    return open_memory(index, LetterEncoder()) if request.param == "vectors" else NameMemory(index)


def ids(found: ResolvedMentions | Refused) -> dict[str, str]:
    assert isinstance(found, ResolvedMentions), found
    return found.ids


def test_every_mention_of_the_index_means_its_id(index: Index, memory: Memory) -> None:
    mentions = IndexNames(index).mentions(list(NAMED))
    assert len(mentions) == len(NAMED)
    assert ids(MemoryResolver(memory, tau=1.0).resolve_mentions(mentions)) == {id_: id_ for id_ in NAMED}
    assert MemoryResolver(memory, tau=1.0).resolve(list(mentions.values())) == list(mentions)


def test_the_description_decides_between_namesakes(memory: Memory) -> None:
    resolver = MemoryResolver(memory, tau=0.3)
    for description, expected in (
        ("capital of France", "Q4"),
        ("the capital city of France", "Q4"),
        ("prince of Troy", "Q5"),
        ("a Trojan prince, of Troy", "Q5"),
    ):
        assert resolver.resolve([Placeholder("entity", "Paris", description)]) == [expected], description


@pytest.mark.parametrize(
    ("relation", "inverse", "expected"), [("spouse", False, "Q5"), ("capital", True, "Q4"), ("country", False, "Q4")]
)
def test_facts_decide_where_nothing_describes(
    index: Index, memory: Memory, relation: str, inverse: bool, expected: str
) -> None:
    resolver = MemoryResolver(memory, feasible=FactFeasibility(index))
    mentions = {"e": Placeholder("entity", "Paris"), "r": Placeholder("relation", relation)}
    found = resolver.resolve_mentions(mentions, [MentionPattern("e", "r", inverse)])
    assert ids(found)["e"] == expected
    assert isinstance(found, ResolvedMentions)
    assert found.choices["e"].feasible


def test_facts_decide_between_near_names(index: Index, memory: Memory) -> None:
    mentions = {"e": Placeholder("entity", "Tebas"), "r": Placeholder("relation", "nicknam")}
    resolver = MemoryResolver(memory, tau=0.0, feasible=FactFeasibility(index))
    assert ids(resolver.resolve_mentions(mentions, [MentionPattern("e", "r")])) == {"e": "Q3", "r": "P1"}


def test_one_missing_name_refuses_the_whole_query(index: Index, memory: Memory) -> None:
    text = (
        "SELECT ?x { wd:entity1 wdt:relation1 ?x . ?x wdt:relation2 wd:entity2 }\n"
        "entity1 = [ENT] Paris [/ENT] capital of France\nentity2 = [ENT] Zzyzx [/ENT] road in California\n"
        "relation1 = [REL] country [/REL] sovereign state\nrelation2 = [REL] capital [/REL] seat of government"
    )
    refused = MemoryResolver(memory, tau=0.9, feasible=FactFeasibility(index)).resolve_query(read_pgmr(text))
    assert isinstance(refused, Refused)
    assert refused.which == "entity2"
    assert "no entity of the memory is like <Zzyzx (road in California)>" in refused.reason
    assert refused.similarity < 0.9
    without = text.replace("Zzyzx [/ENT] road in California", "Paris [/ENT] capital of France")
    query = read_pgmr(without)
    found = MemoryResolver(memory, tau=0.9).resolve_query(query)
    assert query.with_ids(ids(found)).count("wd:Q4") == 2


def test_a_namesake_of_what_is_missing_is_refused(memory: Memory) -> None:
    mention = Placeholder("entity", "Paris", "capital of France")
    without = MemoryWithout(memory, {"Q4"})
    strict, lenient = ({"entity": 0.5, "relation": 0.5, "namesake": tau} for tau in (0.95, 0.0))
    (answer,) = MemoryResolver(without, tau=strict).resolve([mention])
    assert isinstance(answer, Refusal)
    assert "the nearest is <Paris (prince of Troy)>" in answer.reason
    assert MemoryResolver(without, tau=lenient).resolve([mention]) == ["Q5"]
    # Without a description there is nothing to be like.
    assert MemoryResolver(without, tau=strict).resolve([Placeholder("entity", "Paris")]) == ["Q5"]


def test_one_of_several_namesakes_is_not_meant_just_since_it_has_no_description() -> None:
    state, town, mention = (
        MemoryEntry("Q1", "Egypt", "state in Africa"),
        MemoryEntry("Q2", "Egypt"),
        Placeholder("entity", "Egypt", "land"),
    )
    (refused,) = MemoryResolver(GivenNames([state, town]), tau=0.5).resolve([mention])
    assert isinstance(refused, Refusal)
    assert MemoryResolver(GivenNames([town]), tau=0.5).resolve([mention]) == ["Q2"], (
        "nothing says that it is another one"
    )


def test_thresholds_are_by_kind(memory: Memory) -> None:
    mentions = [Placeholder("entity", "Texass", "state of the United States"), Placeholder("relation", "nicknames")]
    for entity, relation in ((0.2, 0.99), (0.99, 0.2)):
        thresholds = {"entity": entity, "relation": relation, "namesake": 0}
        found = MemoryResolver(memory, tau=thresholds).resolve(mentions)
        assert [isinstance(one, Refusal) for one in found] == [entity > 0.5, relation > 0.5]


def test_a_pattern_that_matches_nothing_is_refused_if_it_must_match(index: Index, memory: Memory) -> None:
    mentions = {"e": Placeholder("entity", "Texas"), "r": Placeholder("relation", "spouse")}
    for must, expected in ((False, ResolvedMentions), (True, Refused)):
        resolver = MemoryResolver(memory, feasible=FactFeasibility(index), must_match=must)
        found = resolver.resolve_mentions(mentions, [MentionPattern("e", "r")])
        assert isinstance(found, expected)
        if isinstance(found, Refused):
            assert found.reason == "<Texas (state of the United States)> has no fact with <spouse>"
        else:
            assert found.choices["e"].feasible is False


def test_case_counts_unless_it_is_ignored(memory: Memory) -> None:
    assert MemoryResolver(memory).resolve([Placeholder("entity", "texas")]) == ["Q3"]  # there is no other
    lower = [Placeholder("entity", "paris", "prince of troy"), Placeholder("relation", "spouse")]
    assert MemoryResolver(memory, ignore_case=True).resolve(lower) == ["Q5", "P3"]


def test_mentions_of_another_kind_are_not_found(memory: Memory) -> None:
    (found,) = MemoryResolver(memory, tau=1.0).resolve([Placeholder("entity", "spouse")])
    assert isinstance(found, Refusal)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("wd:entity1 wdt:relation1 ?x", {("entity1", "relation1", False)}),
        ("?x wdt:relation1 wd:entity1", {("entity1", "relation1", True)}),
        ("?x ^wdt:relation1 wd:entity1", {("entity1", "relation1", False)}),
        ("wd:entity1 wdt:relation1+ ?x", {("entity1", "relation1", False)}),
        ("wd:entity1 wdt:relation1* ?x", set()),
        ("wd:entity1 (wdt:relation1?)+ ?x", set()),
        ("wd:entity1 (wdt:relation1|wdt:relation2) ?x", set()),
        ("wd:entity1 wdt:relation1/wdt:relation2 ?x", {("entity1", "relation1", False)}),
        ("?x wdt:relation2/wdt:relation1 wd:entity1", {("entity1", "relation1", True)}),
        ("?x wdt:relation2 ?y . OPTIONAL { wd:entity1 wdt:relation1 ?x }", set()),
        ("?x wdt:relation2 ?y . FILTER NOT EXISTS { wd:entity1 wdt:relation1 ?x }", set()),
        ("{ wd:entity1 wdt:relation1 ?x } UNION { wd:entity1 wdt:relation2 ?x }", set()),
        ("wd:entity1 p:relation1 [ ps:relation1 ?x ]", {("entity1", "relation1", False)}),
        ("?x p:relation1 [ ps:relation1 wd:entity1 ]", {("entity1", "relation1", True)}),
    ],
)
def test_patterns_of_queries(pattern: str, expected: set[tuple[str, str, bool]]) -> None:
    query = read_pgmr(
        f"SELECT ?x {{ {pattern} }}\nentity1 = [ENT] a [/ENT] b\nrelation1 = [REL] c [/REL] d\n"
        "relation2 = [REL] e [/REL] f"
        if "relation2" in pattern
        else f"SELECT ?x {{ {pattern} }}\nentity1 = [ENT] a [/ENT] b\nrelation1 = [REL] c [/REL] d"
    )
    assert {(one.entity, one.relation, one.inverse) for one in patterns_of(query)} == expected
