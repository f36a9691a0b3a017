"""The query in what a model wrote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refactx.query.pgmr import read_pgmr
from refactx.sparql.policies.policy import pgmr_in, query_in

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
