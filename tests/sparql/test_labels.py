"""Labels in angle brackets: what they become, and what is said of those that mean nothing."""

from collections.abc import Iterator

import pytest
from support.ingest.living_index import LivingIndex

from refactx.sparql.labels import LabelError, Labelled, completions, with_iris
from refactx.walks import TreeFacts


@pytest.fixture(scope="module")
def names(people: LivingIndex) -> Iterator[TreeFacts]:
    with people.open() as index:
        yield TreeFacts(index)


@pytest.mark.parametrize(
    ("text", "sparql"),
    [
        ("ASK { <Bob> <spouse> ?x }", "ASK { wd:Q3 wdt:P4 ?x }"),
        ("ASK { <Ann (a poet)> <child> ?x }", "ASK { wd:Q1 wdt:P3 ?x }"),
        ("ASK { <Ann> <child> ?x }", "ASK { wd:Q1 wdt:P3 ?x }"),  # the Ann with children
        ("ASK { <Ann> <before> ?x }", "ASK { wd:Q2 wdt:P1 ?x }"),
        ("ASK { ?x <before> <Bob> . <Ann> <child>/<spouse> ?y }", "ASK { ?x wdt:P1 wd:Q3 . wd:Q1 wdt:P3/wdt:P4 ?y }"),
        ("ASK { <Bobby> <spouse> ?x ; <size> ?n }", "ASK { wd:Q3 wdt:P4 ?x ; wdt:P5 ?n }"),  # of two with this alias
        ("ASK { <Evi> ?p ?o }", "ASK { wd:Q4 ?p ?o }"),
        ("ASK { <Evi (alias)> ?p ?o }", "ASK { wd:Q4 ?p ?o }"),
        ("ASK { <Bobby (alias)> <size> ?n }", "ASK { wd:Q3 wdt:P5 ?n }"),
        ("ASK { <bob> <Child> ?x }", "ASK { wd:Q3 wdt:P3 ?x }"),
        ("ASK { <Q3> <P4> ?x }", "ASK { wd:Q3 wdt:P4 ?x }"),
        ("ASK { <wd:q3> <wdt:p4> ?x }", "ASK { wd:Q3 wdt:P4 ?x }"),
        ("ASK { <Dan> <spouse of> ?x }", "ASK { wd:Q5 ^wdt:P4 ?x }"),
        ("ASK { <Dan> <spouse of>+/<child of>* ?x }", "ASK { wd:Q5 (^wdt:P4)+/(^wdt:P3)* ?x }"),
        ("ASK { <Ann (a poet)> <description> ?x }", "ASK { wd:Q1 schema:description ?x }"),
        ("ASK { ?x <alias of> <Eve> }", "ASK { ?x ^skos:altLabel wd:Q4 }"),
        ("ASK { VALUES ?x { <Bob> <Eve> } ?x <spouse> <Dan> }", "ASK { VALUES ?x { wd:Q3 wd:Q4 } ?x wdt:P4 wd:Q5 }"),
        ("ASK { ?x <size> ?n FILTER(?x != <Eve> && ?n < 9) }", "ASK { ?x wdt:P5 ?n FILTER(?x != wd:Q4 && ?n < 9) }"),
        ("PREFIX wd: <http://w> ASK { <Bob> wd:p 1 }",
         "PREFIX wd: <http://w> ASK { <http://www.wikidata.org/entity/Q3> wd:p 1 }"),
        ("ASK { <http://a> <urn:b> '<Bob>' }", "ASK { <http://a> <urn:b> '<Bob>' }"),
    ],
)  # fmt: skip
def test_what_labels_become(names: TreeFacts, text: str, sparql: str) -> None:
    assert with_iris(text, names).sparql == sparql


def test_the_likeliest_of_several_entities_is_one_of_those_that_a_strict_reading_names(names: TreeFacts) -> None:
    text = "ASK { VALUES ?p { <child> <spouse> } <Ann> ?p ?x }"
    several = r"<Ann> is the label or alias of several entities: write one of <Ann \(a poet"
    with pytest.raises(LabelError, match=several):
        with_iris(text, names, clearly=True)
    sparql = with_iris(text, names).sparql
    assert sparql in (f"ASK {{ VALUES ?p {{ wdt:P3 wdt:P4 }} {entity} ?p ?x }}" for entity in ("wd:Q1", "wd:Q2"))


def test_what_is_taken_as_something_else_is_said(names: TreeFacts) -> None:
    found = with_iris("ASK { <Ann> <child> <Bob> . <Evi> <Spouse> <Dan> }", names)
    taken = {one.label: (one.name, one.among) for one in found.resolved}
    assert taken == {"Ann": ("Ann (a poet)", 2), "Evi": ("Eve", 1), "Spouse": ("spouse", 1)}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("ASK {\n <Bobb> <spouse> ?x }", "line 2, column 2: <Bobb> is the name of nothing in the index: did you mean <Bob>"),
        ("ASK { <Bob> <spuose> ?x }", "line 1, column 13: <spuose> is no property of the index: did you mean <spouse>"),
        ("ASK { <Bob> <qqqqqq> ?x }", "line 1, column 13: <qqqqqq> is no property of the index"),
        ("ASK { VALUES ?p { <child of> } <Ann (a poet)> ?p ?x }", "column 19: <child of> reads a property backwards, and"),
        ("ASK { <Q77> <spouse> ?x }", "line 1, column 7: <Q77> is the name of nothing in the index"),
        ("ASK { <Bob> <P77> ?x }", "line 1, column 13: <P77> is no property of the index"),
        ("ASK { ?x <spouse> <Zzz> }", "line 1, column 19: <Zzz> is the name of nothing in the index"),
    ],
)  # fmt: skip
def test_what_means_nothing(names: TreeFacts, text: str, error: str) -> None:
    with pytest.raises(LabelError) as caught:
        with_iris(text, names)
    assert error in str(caught.value)


def test_texts_outside_of_labels_stay(names: TreeFacts) -> None:
    text = "# <Bob>\nASK {\t<Bob>   <spouse> ?x }  # end"
    assert with_iris(text, names).sparql == text[:14] + text[14:].replace("<Bob>", "wd:Q3").replace(
        "<spouse>", "wdt:P4"
    )
    assert isinstance(with_iris("ASK { }", names), Labelled)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("SELECT ?x { <An", {"Ann (a poet)>", "Ann (a town)>"}),
        ("SELECT ?x { <Ann (a poet)> <ch", {"child>"}),
        ("SELECT ?x { <Ann (a poet)> <s", set()),
        ("SELECT ?x { <Bob> <s", {"spouse>", "size>"}),
        ("SELECT ?x { <Ann (a poet)> <child> ?x . ?x <d", {"day>"}),
        ("SELECT ?x { <Ann (a poet)> <child> ?x ; <d", {"description>"}),
        ("SELECT ?x { ?x <spo", {"spouse>", "spouse of>"}),
        ("SELECT ?x { <Ann> <child>/<spo", {"spouse>", "spouse of>"}),
        ("SELECT ?x { <Ann (a poet)> <child> <", {"Bob>", "Eve>"}),
        ("SELECT ?x { <Bob> <spouse> <D", {"Dan>"}),
        ("SELECT ?x { VALUES ?x { <E", {"Eve>", "Evi>"}),
        ("SELECT ?x {\n?x <spouse> <Dan> .\n?x <spouse> <Da", {"Dan>"}),
        ("SELECT ?x { <Ann> <child> ?x }", set()),
        ("SEL", set()),
    ],
)
def test_what_may_follow(names: TreeFacts, typed: str, expected: set[str]) -> None:
    assert expected <= set(completions(typed, names))
    if typed.endswith(("<ch", "<s", "<", "<D", "<Da", "<d", "}", "SEL")):
        assert set(completions(typed, names)) == expected
