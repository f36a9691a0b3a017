"""Policies on a small index, with models that reply as a test wants."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.ingest.living_index import LivingIndex
from support.sparql.small_graph import ENTITIES, LINKS
from support.sparql.text_models import Scripted

from refactx.fact import Link, LinkedFact
from refactx.index import Index
from refactx.query.pgmr import Mention
from refactx.sparql.ids import ids_of
from refactx.sparql.memory import FactFeasibility, MemoryResolver, NameMemory, Thresholds
from refactx.sparql.memory.entry import Entry, Memory, Near
from refactx.sparql.policies import PolicyParts, Written, load_sparql_prompt, make_policy
from refactx.sparql.policies.writers import ids_within, resolved, retriever_of

BLOCK = "SELECT ?x {{ wd:entity1 wdt:relation1 ?x }}\nentity1 = [ENT] {} [/ENT] {}\nrelation1 = [REL] {} [/REL]"
CHILD = LinkedFact(Link("Ann (a poet)", "Q1"), Link("child", "P3"), Link("Bob", "Q3"))
CHILD_OF = LinkedFact(Link("Bob", "Q3"), Link("child of", "P3"), Link("Ann (a poet)", "Q1"), inverse=True)
SIZE = LinkedFact(Link("Bob", "Q3"), Link("size", "P5"), "7")


@pytest.fixture(scope="module")
def index(people: LivingIndex) -> Iterator[Index]:
    with people.open() as opened:
        yield opened


def opened(index: Index, reply: str) -> Written:
    return make_policy("open", index, PolicyParts(model=Scripted(reply))).write("Who?")


def harvested(index: Index, reply: str, *facts: LinkedFact) -> Written:
    return make_policy("harvest", index, PolicyParts(model=Scripted(reply), ask=lambda _: facts)).write("Who?")


class TestOpen:
    def test_names_are_resolved_to_ids(self, index: Index) -> None:
        written = opened(index, BLOCK.format("Ann", "a town", "before"))
        assert (written.sparql, written.reason) == ("SELECT ?x { wd:Q2 wdt:P1 ?x }", "")
        found = written.choices["entity1"]
        assert (found.entry.text, found.similarity, found.feasible) == ("Ann (a town)", 1.0, True)

    def test_of_namesakes_the_one_is_taken_whose_pattern_matches(self, index: Index) -> None:
        assert opened(index, BLOCK.format("Ann", "", "child")).choices["entity1"].entry.id == "Q1"
        assert opened(index, BLOCK.format("Ann", "", "before")).choices["entity1"].entry.id == "Q2"

    @pytest.mark.parametrize(
        ("reply", "reason"),
        [
            (BLOCK.format("Zebulon", "", "child"), "no entity of the memory is like <Zebulon>"),
            (BLOCK.format("Ann", "a town", "child"), "<Ann (a town)> has no fact with <child>"),
            ("I don't know.", "the model wrote no SELECT or ASK query"),
            ("SELECT ?x { wd:Q1 wdt:P3 ?x }", "wd:Q1 is an id, for which PGMR has a placeholder"),
            ("SELECT ?x { wd:entity1 wdt:P3", "not in the mapping block|is an id"),
            (
                "PREFIX q: <http://www.wikidata.org/entity/Q> SELECT ?x { q:1 ?p ?x }",
                "the query has Q1, which stands for",
            ),
            ("SELECT ?x { ?x ?p ?y FILTER(STR(?y) = 'entity/Q1') }", "the query has Q1, which stands for no name"),
        ],
    )
    def test_other_text_is_refused_with_the_reason(self, index: Index, reply: str, reason: str) -> None:
        written = opened(index, reply)
        assert written.sparql is None
        assert any(part in written.reason for part in reason.split("|")), written.reason
        assert (written.text, written.choices) == (reply, {})

    def test_tau_decides_how_similar_names_have_to_be(self, index: Index) -> None:
        text = Written(policy="open", question="Who?", text=BLOCK.format("Bobb", "", "child"))
        memory = NameMemory(index)
        assert resolved(text, MemoryResolver(memory, tau=0.5)).sparql == "SELECT ?x { wd:Q3 wdt:P3 ?x }"
        assert "0.95 is needed" in resolved(text, MemoryResolver(memory, tau=0.95)).reason


class TestHarvest:
    def test_the_names_of_facts_are_given_and_resolved(self, index: Index) -> None:
        model = Scripted(BLOCK.format("Ann", "a poet", "child"))
        policy = make_policy("harvest", index, PolicyParts(model=model, ask=lambda _: (CHILD_OF, SIZE)))
        written = policy.write("Whom?")
        assert written.sparql == "SELECT ?x { wd:Q1 wdt:P3 ?x }"
        said = model.asked[0][-1]["content"]
        for line in ("[REL] child [/REL]", "[REL] size [/REL]", "[ENT] Bob [/ENT]", "[ENT] Ann [/ENT] a poet"):
            assert line in said.splitlines(), "an inverse fact names its property as it is called forwards"
        assert said.endswith("Question: Whom?")

    def test_a_name_of_no_fact_refuses_the_query_though_the_index_has_it(self, index: Index) -> None:
        written = harvested(index, BLOCK.format("Eve", "", "child"), CHILD)
        assert (written.sparql, written.reason) == (None, "no entity of the memory is like <Eve>")

    def test_without_facts_the_model_is_not_asked(self, index: Index) -> None:
        model = Scripted("ASK { }")
        written = make_policy("harvest", index, PolicyParts(model=model, ask=lambda _: ())).write("Who?")
        assert (written.sparql, model.asked) == (None, [])
        assert "no fact was written" in written.reason

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_no_query_has_an_id_that_no_fact_has(self, index: Index, data: st.DataObject) -> None:
        """Whatever the text: names of facts and others, ids in all spellings, prefixes that make ids."""
        facts = data.draw(st.lists(st.sampled_from([CHILD, CHILD_OF, SIZE]), min_size=1, max_size=3))
        label, relation = st.sampled_from([*ENTITIES.values(), "Nobody"]), st.sampled_from([*LINKS.values(), "size"])
        triples = [
            data.draw(st.sampled_from(["wd:entity1 wdt:relation1 ?x", "?x wdt:relation1 wd:entity1", "q:5 ?p ?x"]))
            for _ in range(data.draw(st.integers(1, 2)))
        ]
        more = data.draw(
            st.sampled_from(["", "wd:Q4 ?p ?y", r"<http://www.wikidata.org/entity/\u00514> ?p ?y", "<entity/Q4> ?p ?y"])
        )
        head = "BASE <http://www.wikidata.org/> PREFIX q: <http://www.wikidata.org/entity/Q>"
        text = f"{head} SELECT ?x {{ {' . '.join([*triples, *([more] if more else [])])} }}"
        text += f"\nentity1 = [ENT] {data.draw(label)} [/ENT]\nrelation1 = [REL] {data.draw(relation)} [/REL]"
        written = harvested(index, text, *facts)
        of_facts = {
            part.id for fact in facts for part in (fact.subject, fact.predicate, fact.object) if isinstance(part, Link)
        }
        assert (written.sparql is None) == bool(written.reason)
        if written.sparql is not None:
            assert ids_of(written.sparql).all | ids_within(written.sparql) <= of_facts
            assert not more
            assert "q:5 ?p ?x" not in triples


class TestBaselines:
    def test_direct_reports_ids_that_the_index_does_not_have(self, index: Index) -> None:
        reply = "```sparql\nSELECT ?x { wd:Q1 wdt:P3/wdt:P999 ?x . ?x ?p wd:Q77 }\n```"
        written = make_policy("direct", index, PolicyParts(model=Scripted(reply))).write("Who?")
        assert written.sparql == "SELECT ?x { wd:Q1 wdt:P3/wdt:P999 ?x . ?x ?p wd:Q77 }"
        assert written.made_up == ("P999", "Q77")

    @pytest.mark.parametrize(
        ("reply", "reason"),
        [
            ("No.", "the model wrote no SELECT"),
            ("SELECT ?x { wd:Q1 wdt:P3 ?x", "the bracket { is not closed"),
            ("ASK { <Ann> <child> ?x }", "labels in place of ids"),
        ],
    )
    def test_what_is_no_query_with_ids_is_refused(self, index: Index, reply: str, reason: str) -> None:
        written = make_policy("direct", index, PolicyParts(model=Scripted(reply))).write("Who?")
        assert written.sparql is None
        assert reason in written.reason

    def test_rag_gives_the_names_that_stand_in_the_question(self, index: Index) -> None:
        model = Scripted("ASK { wd:Q3 wdt:P4 wd:Q5 }")
        written = make_policy("rag", index, PolicyParts(model=model)).write("Is Dan the spouse of Bobby?")
        assert {one.id for one in written.given} >= {"Q5", "P4", "Q3"}
        assert {"Q5 = Dan", "P4 = spouse"} <= set(model.asked[0][-1]["content"].splitlines())
        assert written.made_up == ()


class Numbered:
    """A memory of so many entities and properties, the nearest with the lowest number."""

    thresholds = Thresholds(entity=1, relation=1, namesake=1)

    def __init__(self, entities: int, relations: int) -> None:
        self._ids = {
            "entity": [f"Q{n + 1}" for n in range(entities)],
            "relation": [f"P{n + 1}" for n in range(relations)],
        }

    def exact(self, mentions: object) -> list[list[Entry]]:
        raise AssertionError("whole questions are no labels")

    def nearest(self, mentions: list[Mention], count: int) -> list[list[Near]]:
        return [[Near(Entry(id_, id_), 0.5) for id_ in self._ids[one.kind][:count]] for one in mentions]

    def similarities(self, mention: Mention, entries: object) -> list[float]:
        return []


@given(entities=st.integers(0, 20), relations=st.integers(0, 20), count=st.integers(1, 12))
def test_half_of_what_is_retrieved_are_properties(entities: int, relations: int, count: int) -> None:
    class NoFacts:
        def readings(self, ids: object) -> dict[str, dict[tuple[str, bool], int]]:
            return {}

        def is_known(self, reading: object) -> bool:
            return True

    memory: Memory = Numbered(entities, relations)  # type: ignore[assignment]
    ids = [one.id for one in retriever_of(memory, NoFacts())("Who?", count)]
    assert len(ids) == min(count, entities + relations)
    found = {kind: [id_ for id_ in ids if id_.startswith(kind)] for kind in "PQ"}
    assert found["P"] == [f"P{n + 1}" for n in range(len(found["P"]))]
    assert found["Q"] == [f"Q{n + 1}" for n in range(len(found["Q"]))]
    assert len(found["P"]) >= min(relations, count // 2)
    assert len(found["Q"]) >= min(entities, count - count // 2)


def test_names_of_retrieval_are_of_the_entities_with_most_facts(index: Index) -> None:
    ids = [one.id for one in retriever_of(NameMemory(index), FactFeasibility(index), ())("Where is Ann?", 10)]
    assert ids.index("Q1") < ids.index("Q2"), "Ann the poet has two facts, the town one"


def test_examples_of_the_prompt_are_the_same_query_in_each_form() -> None:
    from refactx.query.pgmr import read_pgmr

    for example in load_sparql_prompt().examples:
        plain, query = example.text("direct"), read_pgmr(example.text("open"))
        ids = {mention: id_ for id_ in ids_of(example.sparql).all for mention in example.mentions([id_]).values()}
        assert query.with_ids({name: ids[one] for name, one in query.mentions.items()}) == plain
