"""Writers of queries on a small index, with models that reply as a test wants; their prompts, and the query in a reply."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.ingest.living_index import LivingIndex
from support.sparql.small_graph import ENTITIES, LINKS
from support.sparql.text_models import Scripted

from refactx.errors import InputError
from refactx.fact import Link, LinkedFact
from refactx.index import Index
from refactx.sparql.labels import ids_of
from refactx.sparql.packs.prompt import WritingTask, load_sparql_prompt, pgmr_in, query_in
from refactx.sparql.packs.translation import Attempt
from refactx.sparql.packs.writers import ids_within, make_writer, resolved, retriever_of
from refactx.sparql.placeholders.entry import PAPER, Memory, MemoryEntry, Near
from refactx.sparql.placeholders.name_memory import NameMemory
from refactx.sparql.placeholders.resolver import FactFeasibility, MemoryResolver
from refactx.sparql.placeholders.text import Placeholder, read_pgmr

BLOCK = "SELECT ?x {{ wd:entity1 wdt:relation1 ?x }}\nentity1 = [ENT] {} [/ENT] {}\nrelation1 = [REL] {} [/REL]"
CHILD = LinkedFact(Link("Ann (a poet)", "Q1"), Link("child", "P3"), Link("Bob", "Q3"))
CHILD_OF = LinkedFact(Link("Bob", "Q3"), Link("child of", "P3"), Link("Ann (a poet)", "Q1"), inverse=True)
SIZE = LinkedFact(Link("Bob", "Q3"), Link("size", "P5"), "7")


@pytest.fixture(scope="module")
def index(people: LivingIndex) -> Iterator[Index]:
    with people.open() as opened:
        yield opened


WHO = WritingTask(question="Who?")


def written_with_placeholders(index: Index, reply: str) -> Attempt:
    return make_writer("placeholders", index, model=Scripted(reply)).write(WHO)


def harvested(index: Index, reply: str, *facts: LinkedFact) -> Attempt:
    return make_writer("harvest", index, model=Scripted(reply), ask=lambda _: facts).write(WHO)


class TestPlaceholders:
    def test_names_are_resolved_to_ids(self, index: Index) -> None:
        written = written_with_placeholders(index, BLOCK.format("Ann", "a town", "before"))
        assert (written.sparql, written.reason) == ("SELECT ?x { wd:Q2 wdt:P1 ?x }", "")
        found = written.choices["entity1"]
        assert (found.entry.text, found.similarity, found.feasible) == ("Ann (a town)", 1.0, True)

    def test_of_namesakes_the_one_is_taken_whose_pattern_matches(self, index: Index) -> None:
        assert written_with_placeholders(index, BLOCK.format("Ann", "", "child")).choices["entity1"].entry.id == "Q1"
        assert written_with_placeholders(index, BLOCK.format("Ann", "", "before")).choices["entity1"].entry.id == "Q2"

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
                "entity/Q1> is an id, for which PGMR has a placeholder",
            ),
            (
                "SELECT ?x { wd:entity1 ?p <http://e.org/a> }\nentity1 = [ENT] Ann [/ENT] a poet",
                "the query has http://e.org/a",
            ),
            ("SELECT ?x { ?x ?p ?y FILTER(STR(?y) = 'entity/Q1') }", "the query has Q1, which stands for no name"),
        ],
    )
    def test_other_text_is_refused_with_the_reason(self, index: Index, reply: str, reason: str) -> None:
        written = written_with_placeholders(index, reply)
        assert written.sparql is None
        assert any(part in written.reason for part in reason.split("|")), written.reason
        assert (written.text, written.choices) == (reply, {})

    def test_tau_decides_how_similar_names_have_to_be(self, index: Index) -> None:
        text = Attempt(text=BLOCK.format("Bobb", "", "child"))
        memory = NameMemory(index)
        assert resolved(text, MemoryResolver(memory, tau=0.5)).sparql == "SELECT ?x { wd:Q3 wdt:P3 ?x }"
        assert "0.95 is needed" in resolved(text, MemoryResolver(memory, tau=0.95)).reason


class TestHarvest:
    def test_the_names_of_facts_are_given_and_resolved(self, index: Index) -> None:
        model = Scripted(BLOCK.format("Ann", "a poet", "child"))
        writer = make_writer("harvest", index, model=model, ask=lambda _: (CHILD_OF, SIZE))
        written = writer.write(WritingTask(question="Whom?"))
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
        written = make_writer("harvest", index, model=model, ask=lambda _: ()).write(WHO)
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
    def test_ids_that_the_index_does_not_have_are_reported(self, index: Index) -> None:
        reply = "```sparql\nSELECT ?x { wd:Q1 wdt:P3/wdt:P999 ?x . ?x ?p wd:Q77 }\n```"
        written = make_writer("ids", index, model=Scripted(reply)).write(WHO)
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
        written = make_writer("ids", index, model=Scripted(reply)).write(WHO)
        assert written.sparql is None
        assert reason in written.reason

    def test_rag_gives_the_names_that_stand_in_the_question(self, index: Index) -> None:
        model = Scripted("ASK { wd:Q3 wdt:P4 wd:Q5 }")
        written = make_writer("rag", index, model=model).write(WritingTask(question="Is Dan the spouse of Bobby?"))
        assert {one.id for one in written.given} >= {"Q5", "P4", "Q3"}
        assert {"Q5 = Dan", "P4 = spouse"} <= set(model.asked[0][-1]["content"].splitlines())
        assert written.made_up == ()


class TestRagWithPlaceholders:
    QUESTION = WritingTask(question="Is Dan the spouse of Bobby?")

    def test_names_are_given_and_what_is_written_is_resolved(self, index: Index) -> None:
        model = Scripted(
            "ASK { ?x wdt:relation1 wd:entity1 }\nentity1 = [ENT] Dan [/ENT]\nrelation1 = [REL] spouse [/REL]"
        )
        written = make_writer("rag-placeholders", index, model=model).write(self.QUESTION)
        assert {"[ENT] Dan [/ENT]", "[REL] spouse [/REL]"} <= set(model.asked[0][-1]["content"].splitlines())
        assert {one.id for one in written.given} >= {"Q5", "P4"}
        assert (written.writer, written.sparql) == ("rag-placeholders", "ASK { ?x wdt:P4 wd:Q5 }")

    def test_a_name_that_was_not_given_is_resolved_too_and_one_that_does_not_exist_is_refused(
        self, index: Index
    ) -> None:
        known, unknown = (
            make_writer("rag-placeholders", index, model=Scripted(BLOCK.format(name, "a poet", "child"))).write(
                self.QUESTION
            )
            for name in ("Ann", "Zebulon")
        )
        assert known.sparql == "SELECT ?x { wd:Q1 wdt:P3 ?x }"
        assert (unknown.sparql, unknown.reason) == (None, "no entity of the memory is like <Zebulon (a poet)>")


class Numbered:
    """A memory of so many entities and properties, the nearest with the lowest number."""

    thresholds = PAPER

    def __init__(self, entities: int, relations: int) -> None:
        self._ids = {
            "entity": [f"Q{n + 1}" for n in range(entities)],
            "relation": [f"P{n + 1}" for n in range(relations)],
        }

    def exact(self, mentions: object) -> list[list[MemoryEntry]]:
        raise AssertionError("whole questions are no labels")

    def nearest(self, mentions: list[Placeholder], count: int) -> list[list[Near]]:
        return [[Near(MemoryEntry(id_, id_), 0.5) for id_ in self._ids[one.kind][:count]] for one in mentions]

    def similarities(self, mention: Placeholder, entries: object) -> list[float]:
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
    from refactx.sparql.placeholders.text import read_pgmr

    for example in load_sparql_prompt().examples:
        plain, query = example.text("ids"), read_pgmr(example.text("placeholders"))
        ids = {mention: id_ for id_ in ids_of(example.sparql).all for mention in example.mentions([id_]).values()}
        assert query.with_ids({name: ids[one] for name, one in query.mentions.items()}) == plain


BUILT_IN = (files("refactx.prompts") / "sparql.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("[ids]", "[indirect]", "has no ids"),
        ('user = "$question"', 'user = "$q"', "user of ids has not just $question"),
        ("$names\n", "", r"user of rag has not just $question and $names"),
        ("wd:Q142 wdt:P36 ?x . }", "wd:Q142 wdt:P36 ?x .", "is not closed"),
        ('P36 = "capital"', 'P37 = "capital"', "example 1 has P36, P37 not both in its query and in its names"),
        ('P36 = "capital"', 'P36 = ""', "example 1 names P36, which is no id with a name"),
        ('question = "what is the capital of france?"', 'question = " "', "example 1 has no question"),
        ("examples = 10", "examples = -1", "examples of rag is no number of examples"),
        ("[ids]", "[more]\na = 1\n[ids]", "it has more"),
        ("[ids]", "[ids", "is not TOML"),
    ],
)
def test_a_prompt_that_is_not_valid_is_reported(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert old in BUILT_IN
    path = tmp_path / "own.toml"
    path.write_text(BUILT_IN.replace(old, new, 1))
    with pytest.raises(InputError) as raised:
        load_sparql_prompt(str(path))
    assert expected in str(raised.value)
    assert "own.toml" in str(raised.value)


def test_a_prompt_that_is_not_there_is_reported() -> None:
    with pytest.raises(InputError, match=r"there is no prompt none\.toml for SPARQL"):
        load_sparql_prompt("none.toml")


def test_a_question_is_data_and_has_to_have_text() -> None:
    prompt = load_sparql_prompt()
    assert prompt.messages("rag", "What is $names?\nAnd\tyou?")[-1]["content"].endswith("What is $names? And you?")
    with pytest.raises(InputError, match="the question is empty"):
        prompt.messages("ids", " \n")


def test_a_prompt_may_show_the_first_of_the_examples_alone(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(BUILT_IN.replace("[ids]", "[ids]\nexamples = 2", 1))
    every, some = (load_sparql_prompt(name).messages("ids", "Who?") for name in ("sparql", str(path)))
    assert len(every) > len(some) == 1 + 2 * 2 + 1
    assert some == [*every[:5], every[-1]]


def test_constrained_queries_of_one_line_end_with_it_in_examples() -> None:
    prompt = load_sparql_prompt()
    constrained, free = (prompt.messages(form, "Who?")[2::2] for form in ("constrained", "ids"))
    assert all(text["content"].startswith("SPARQL: ") and text["content"].endswith("}\n") for text in constrained[:3])
    assert not any(text["content"].endswith("\n") for text in free)


def test_tables_may_have_their_names_of_earlier_releases(tmp_path: Path) -> None:
    old = BUILT_IN
    for name, before in (("ids", "direct"), ("placeholders", "open"), ("constrained", "names")):
        old = old.replace(f"[{name}]", f"[{before}]", 1)
    path = tmp_path / "own.toml"
    path.write_text(old)
    assert load_sparql_prompt(str(path)) == load_sparql_prompt()


QUERIES = (
    "SELECT DISTINCT ?x WHERE { wd:Q142 wdt:P36 ?x . }",
    "PREFIX wd: <http://www.wikidata.org/entity/>\nSELECT ?x { wd:Q1 wdt:P2 ?x { ?x ?y '}' } }\nORDER BY DESC(?x)\nLIMIT 5",
    "select (count(?x) as ?n) { ?x wdt:P31 wd:Q5 } group by ?x having (?n > 1)",
    "ASK { wd:Q1 wdt:P2 ?v FILTER(?v > 3) }",
    "ASK WHERE { <Ann (a girl)> <child> ?x }",
)
PGMR = (
    "SELECT ?x { wd:entity1 wdt:relation1 ?x } LIMIT 3\nentity1 = [ENT] Ann [/ENT] a girl\nrelation1 = [REL] child [/REL]",
    "ASK { ?x wdt:relation1 1 }\nrelation1 = [REL] size [/REL]",
)
WORDS = st.sampled_from(
    ["", "Sure! Here is the query that you ask for:", "<think>SELECT ?y { }</think>", "To select it:"]
)
AFTER = st.sampled_from(["", "It selects all of ?x.", "where ?x is the answer", "Note: {curly} words"])
FENCES = st.sampled_from([("", ""), ("```\n", "\n```"), ("```sparql\n", "\n```"), ("```sparql\n", "")])


@given(query=st.sampled_from(QUERIES), before=WORDS, after=AFTER, fence=FENCES)
def test_a_query_is_found_within_words_and_fences(query: str, before: str, after: str, fence: tuple[str, str]) -> None:
    assert query_in(f"{before}\n{fence[0]}{query}{fence[1]}\n{after}") == query


@given(
    text=st.sampled_from(PGMR), before=WORDS, after=AFTER, fence=FENCES, gap=st.sampled_from(["", "with\n", "```\n"])
)
def test_a_mapping_block_is_found_beside_its_query(
    text: str, before: str, after: str, fence: tuple[str, str], gap: str
) -> None:
    query, _, mapping = text.partition("\n")
    found = pgmr_in(f"{before}\n{fence[0]}{query}\n{gap}{mapping}{fence[1]}\n{after}")
    assert found == text
    assert read_pgmr(found) == read_pgmr(text)


def test_mappings_without_use_are_left_out_and_missing_ones_stay_missing() -> None:
    entry = "entity1 = [ENT] Ann [/ENT]"
    assert pgmr_in(f"ASK {{ ?x wdt:relation1 1 }} {entry} relation1 = [REL] size [/REL]") == PGMR[1]
    assert pgmr_in(f"ASK {{ wd:entity1 wdt:relation1 1 }}\n{entry}") == f"ASK {{ wd:entity1 wdt:relation1 1 }}\n{entry}"


@pytest.mark.parametrize("text", ["", "I cannot ask that.", "DESCRIBE wd:Q1", "DROP ALL", "You may select one {1}."])
def test_a_text_without_a_query_has_none(text: str) -> None:
    assert query_in(text) is None
    assert pgmr_in(text) is None


def test_a_query_that_ends_too_early_is_kept_so_that_the_error_names_it() -> None:
    assert query_in("SELECT ?x { wd:Q1 wdt:P2") == "SELECT ?x { wd:Q1 wdt:P2"


DRAFT, FINAL = "SELECT ?x { wd:Q797 wdt:P30 ?x }", "SELECT ?x { wd:Q797 wdt:P36 ?x }"
REPLIES = {
    "two fences": f"A draft:\n```sparql\n{DRAFT}\n```\nNo. Final:\n```sparql\n{FINAL}\n```\n",
    "bare": f"Draft: {DRAFT}\nFinal: {FINAL}",
    "a draft that is not whole": f"Draft: SELECT ?x {{ wd:Q797\nFinal: {FINAL}",
    "tags": f"<reasoning>{DRAFT}</reasoning>\n{FINAL}",
    "upper case": f"<THINK>{DRAFT}</THINK>\n{FINAL}",
    "brackets": f"[THINK]{DRAFT}[/THINK]{FINAL}",
    "a tag in the prompt": f"{DRAFT}\n</think>\n{FINAL}",
    "channels": f"<|channel|>analysis<|message|>{DRAFT}<|end|><|start|>assistant<|channel|>final<|message|>{FINAL}",
    "tildes": f"~~~sparql\n{FINAL}\n~~~",
    "four backticks": f"````sparql\n{FINAL}\n````",
    "one line": f"```sparql {FINAL} ```",
    "another fence": f"Data:\n```turtle\nwd:Q797 wdt:P36 wd:Q1 .\n```\nQuery:\n```sparql\n{FINAL}\n```",
    "a comment": f"{FINAL} # not {DRAFT}",
    "prose after a fence": f"```sparql\n{FINAL}\n```\nIt is not {DRAFT}, which asks for the continent.",
    "prose after two fences": f"```\n{DRAFT}\n```\nBetter:\n~~~\n{FINAL}\n~~~\nA test: ASK {{ wd:Q797 wdt:P36 ?x }}",
    "a fence that is not whole": f"{FINAL}\n```\nSELECT ?x {{ wd:Q797\n```\n",
    "words of a query": f"To select ?x we use SELECT (see below).\n```sparql\n{FINAL}\n```\nIt will SELECT ?x for you.",
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_the_last_whole_query_is_meant(reply: str) -> None:
    assert query_in(reply) == FINAL
    mapping = "entity1 = [ENT] Ann [/ENT]"
    named = reply.replace("wd:Q797", "wd:entity1") + f"\n{mapping}"
    assert pgmr_in(named) == FINAL.replace("wd:Q797", "wd:entity1") + f"\n{mapping}"


@pytest.mark.parametrize(
    "begin", ["<think>", "<Thinking>\n", "[THINK]", "<|channel|>analysis<|message|>", "<think>\n```sparql\n"]
)
def test_there_is_no_query_in_a_thought_that_does_not_end(begin: str) -> None:
    assert query_in(f"{begin}Maybe {DRAFT} but that is wrong, let me") is None
    assert pgmr_in(f"{begin}Maybe {DRAFT}\nentity1 = [ENT] Ann [/ENT]") is None


def test_a_name_in_a_query_is_no_thought() -> None:
    assert query_in("SELECT ?x { ?y <reasoning> ?x }") == "SELECT ?x { ?y <reasoning> ?x }"


def test_a_form_with_dots_is_no_query_and_the_texts_of_an_object_are_read() -> None:
    query = "SELECT ?x { wd:Q797 wdt:P36 ?x }"
    assert query_in(f"{query}\nIt has the form SELECT ?x {{ ... }}.") == query
    assert query_in('```json\n{"sparql": "SELECT ?x {\\u0020wd:Q797 wdt:P36 ?x }"}\n```') == query
    assert query_in('SELECT ?x { ?x rdfs:label "Goodbye..." }') == 'SELECT ?x { ?x rdfs:label "Goodbye..." }'
