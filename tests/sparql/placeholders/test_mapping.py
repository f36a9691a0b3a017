"""Mapping blocks of any names are read as they were written; a name that could not be read is refused."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refactx.sparql.placeholders.text import Placeholder, clean_mention, read_mapping, read_pgmr, write_mapping
from refactx.walks.language import QueryError

WORDS = st.lists(
    st.one_of(
        st.text(min_size=1, max_size=4),
        st.sampled_from(["entity1", "relation2", "=", "[", "]", "[ENT]", "[/rel]", "=[", "starturi", "\n", "Ann"]),
    ),
    max_size=5,
).map(" ".join)
BLOCK = "ASK {{ wd:entity1 wdt:relation1 ?x }} {}"
ENT, REL = "entity1 = [ENT] Ann [/ENT] a girl", "relation1 = [REL] child [/REL]"


@given(st.lists(st.tuples(st.sampled_from(["entity", "relation"]), WORDS, WORDS), max_size=4), st.booleans())
def test_clean_names_are_read_as_they_were_written(parts: list[tuple[str, str, str]], one_line: bool) -> None:
    mentions = dict[str, Placeholder]()
    for number, (kind, label, description) in enumerate(parts):
        with suppress(QueryError):
            mentions[f"{kind}{number}"] = clean_mention(Placeholder(kind, label, description), "Q1")
    assert read_mapping(write_mapping(mentions, one_line=one_line)) == mentions


@pytest.mark.parametrize(
    ("label", "complaint"),
    [
        (" \n", "Q1 has an empty label"),
        ("a [ENT] b", r"contains \[ENT\], which is a mark of PGMR"),
        ("a enduri", "contains enduri"),
        ("x entity5 = [b", "contains entity5 ="),
    ],
)
def test_a_name_that_could_not_be_read_is_refused(label: str, complaint: str) -> None:
    with pytest.raises(QueryError, match=complaint):
        clean_mention(Placeholder("entity", label), "Q1")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (ENT, "there is no SPARQL before the mapping block"),
        (
            BLOCK.format(""),
            "there is no mapping block after the query, which has entity1, relation1: expected entityX =",
        ),
        (BLOCK.format(ENT), "relation1 of the query is not in the mapping block"),
        (BLOCK.format(f"{ENT} {REL} entity2 = [ENT] Bob [/ENT]"), "entity2 of the mapping block is not in the query"),
        (BLOCK.format(f"{ENT}\n{REL}\nthat is all"), "'that is all' is no mapping"),
        (BLOCK.format(f"{ENT} {ENT} {REL}"), "entity1 has two mappings"),
        (BLOCK.format(f"{REL} entity1 = [ENT] Ann"), "the marks of entity1 are not closed at '[ENT] Ann'"),
        (BLOCK.format(f"{REL} entity1 = [ENT] Ann [/REL]"), "begins with [ENT] and ends with [/REL]"),
        (BLOCK.format(f"{REL} entity1 = [REL] Ann [/REL]"), "entity1 is mapped by [REL], as relation"),
        (BLOCK.format(f"{REL} entity1 = [ENT] [/ENT] a girl"), "the mapping of entity1 has no label"),
        (BLOCK.format(f"{REL} entity1 = [ENT] A [/ENT] b [ENT] c"), "has a second [ENT]"),
        (f"ASK {{ ?x wdt:entity1 ?y }} {ENT}", "wdt:entity1 is an entity with the prefix of a property"),
        (f"ASK {{ wd:entity1 wdt:P31 ?x }} {ENT}", "wdt:P31 is an id, for which PGMR has a placeholder"),
        (f"ASK {{ wd:entity1 wdt:p31 ?x }} {ENT}", "wdt:p31 is an id"),
        (f"ASK {{ wd:entity1 foo:bar ?x }} {ENT}", "the prefix foo: is not known: declare it with PREFIX"),
        (f"ASK {{\n wd:entity1 wdt:relation1 }} {ENT} {REL}", "line 2, column 27, at '}'"),
        ("ASK { wd:starturi Ann enduri wdt:starturi child ?x }", "starturi has no partner"),
        ("ASK { wd:starturi Ann enduri wdt:relation1 ?x }", "the text has both starturi and relation1"),
        ("ASK { wd:starturi Ann enduri ?p ?x } entity1 = [ENT] A [/ENT]", "both starturi and a mapping block"),
        ("ASK { rdfs:starturi Ann enduri ?p ?x }", "rdfs: before 'Ann' is no namespace of ids"),
    ],
)
def test_broken_text_is_told_by_what_is_wrong(text: str, complaint: str) -> None:
    with pytest.raises(QueryError) as error:
        read_pgmr(text)
    assert complaint in str(error.value)


@pytest.mark.parametrize(
    ("text", "sparql"),
    [
        (f"ASK {{ ?x relation1 Entity1 }}\n{ENT}\n{REL}", "ASK { ?x wdt:relation1 wd:entity1 }"),
        (f"ask {{ ?x p:relation1/ps:RELATION1 ?y }} {REL}", "ask { ?x p:relation1/ps:relation1 ?y }"),
        ("ASK { starturi Ann enduri starturi child enduri ?x }", "ASK { wd:entity1 wdt:relation1 ?x }"),
        (
            "ASK { ?x ^starturi child enduri/wdt:starturi child enduri starturi child enduri . }",
            "ASK { ?x ^wdt:relation1/wdt:relation1 wd:entity1 . }",
        ),
        (
            "PREFIX wdt: <urn:x> ASK { starturi A enduri starturi c enduri ?x }",
            "PREFIX wdt: <urn:x> ASK { wd:entity1 <http://www.wikidata.org/prop/direct/relation1> ?x }",
        ),
    ],
)
def test_what_models_leave_out_is_put_in(text: str, sparql: str) -> None:
    assert read_pgmr(text).sparql == sparql
