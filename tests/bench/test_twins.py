"""Twins of yes/no questions: false on the claims by their own SPARQL, with the new name in place of the old one."""

import random
from functools import cache
from typing import Any

import pytest
from pyoxigraph import RdfFormat, Store

from bench.gold_walks.store_facts import StoreFacts
from bench.twins.near import near_objects
from bench.twins.twin import NoTwin, twin_of
from refactx.iris import OWN_PREFIXES as PREFIXES

LABELS = {
    "P31": "instance of", "P131": "located in", "P19": "place of birth", "P463": "member of", "P1082": "population",
    "P57": "director", "Q1": "Stan Lee", "Q2": "Manhattan", "Q3": "New York City", "Q4": "Brooklyn", "Q5": "Boston",
    "Q6": "borough", "Q7": "city", "Q8": "Ann Miller", "Q9": "Bo Diddley", "Q10": "Academy", "Q11": "Royal Society",
    "Q12": "London", "Q13": "learned society", "Q14": "Linnean Society",
}  # fmt: skip
CLAIMS = """
wd:Q1 wdt:P19 wd:Q2 ; wdt:P463 wd:Q10 , wd:Q11 . wd:Q8 wdt:P19 wd:Q4 . wd:Q9 wdt:P19 wd:Q3 , wd:Q5 ; wdt:P463 wd:Q14 .
wd:Q2 wdt:P31 wd:Q6 ; wdt:P131 wd:Q3 . wd:Q4 wdt:P31 wd:Q6 ; wdt:P131 wd:Q3 .
wd:Q3 wdt:P31 wd:Q7 ; wdt:P1082 8000000 . wd:Q5 wdt:P31 wd:Q7 ; wdt:P1082 600000 , 620000 .
wd:Q10 wdt:P31 wd:Q13 . wd:Q11 wdt:P31 wd:Q13 . wd:Q14 wdt:P31 wd:Q13 .
wd:Q2 skos:altLabel "the Big City"@en .
"""
QUESTIONS = [
    ("Was Stan Lee born in Manhattan?", "wd:Q1 wdt:P19 wd:Q2"),
    ("Was Stan Lee born in the Big City?", "wd:Q1 wdt:P19 wd:Q2"),
    ("Was stan_lee a member of the Academy and the Royal Society?", "wd:Q1 wdt:P463 wd:Q10 . wd:Q1 wdt:P463 wd:Q11"),
    ("Does Boston have 600,000 people?", "wd:Q5 wdt:P1082 ?n FILTER ( ?n = 600000 )"),
    ("Has Boston more than 610000.0 people?", "wd:Q5 wdt:P1082 ?n FILTER ( ?n > 610000.0 )"),
    ("Has Boston fewer than 610000 people?", "wd:Q5 wdt:P1082 ?n FILTER ( ?n < 610000 )"),
]


@cache
def store() -> Store:
    held = Store()
    text = "".join(f"PREFIX {name}: <{iri}>\n" for name, iri in PREFIXES.items()) + CLAIMS
    text += "".join(f'wd:{id_} rdfs:label "{label}"@en .\n' for id_, label in LABELS.items())
    held.load(text.encode(), RdfFormat.TURTLE)
    return held


def record(text: str, patterns: str) -> dict[str, Any]:
    return {"id": "q", "kind": "ask", "question": text, "answers": ["yes"], "sparql": f"ASK WHERE {{ {patterns} }}"}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("text", "patterns"), QUESTIONS, ids=[text for text, _ in QUESTIONS])
def test_a_twin_is_false_where_its_question_is_true(text: str, patterns: str, seed: int) -> None:
    given = record(text, patterns)
    assert store().query(given["sparql"], prefixes=PREFIXES)
    twin = twin_of(given, StoreFacts(store()), random.Random(seed))
    assert not store().query(twin["sparql"], prefixes=PREFIXES)
    assert (twin["id"], twin["kind"], twin["answers"]) == ("q-no", "ask", ["no"])
    old, new = twin["replaced"]
    assert old in text
    assert twin["question"] == text.replace(old, new) != text
    assert twin == twin_of(given, StoreFacts(store()), random.Random(seed)), "the seed decides"


def test_a_near_object_is_of_the_same_class_and_place_and_no_whole_of_a_true_one() -> None:
    found = near_objects(StoreFacts(store()), "Stan Lee", "place of birth", "Manhattan")
    assert (found[0].name, found[0].shares) == ("Brooklyn", ("class", "place"))
    names = {one.name for one in found}
    assert "Manhattan" not in names
    assert "New York City" not in names, "who was born in Manhattan was born there"
    assert "London" not in names, "nobody was born there"


@pytest.mark.parametrize(
    ("text", "patterns", "reason"),
    [
        ("Was Stan Lee born in the Bronx?", "wd:Q1 wdt:P19 wd:Q2", "does not name 'Manhattan'"),
        ("Is Manhattan in Manhattan where Stan Lee was born?", "wd:Q1 wdt:P19 wd:Q2", "names 'Manhattan' 2 times"),
        ("Was Stan Lee born in Boston?", "wd:Q1 wdt:P19 wd:Q5", "not true in the index"),
        ("Was Stan Lee born in Manhattan?", "wd:Q1 wdt:P19 wd:Q999", "lacks one of its names"),
        ("Was Stan Lee born in Manhattan?", "wd:Q1 wdt:P19", "cannot be read"),
        ("Is it?", "{ wd:Q1 wdt:P19 wd:Q2 } UNION { wd:Q1 wdt:P19 wd:Q3 }", "one of several values"),
        ("Is it?", "wd:Q5 wdt:P1082 ?n FILTER ( ?n > 5 || ?n < 3 )", "no walk"),
        ("Does Boston have many people?", "wd:Q5 wdt:P1082 ?n FILTER ( ?n = 600000 )", "does not name '600000'"),
    ],
)
def test_a_question_without_twin_has_a_reason(text: str, patterns: str, reason: str) -> None:
    with pytest.raises(NoTwin, match=reason):
        twin_of(record(text, patterns), StoreFacts(store()), random.Random(0))
