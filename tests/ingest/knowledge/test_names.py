"""The naming of entities: each entity has one name, and each name one entity."""

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.ingest.knowledge_runs import build_knowledge_base
from support.ingest.quiet import QUIET

from refactx.fact import MAX_PART_CHARACTERS

ENTITY = "http://www.wikidata.org/entity/"
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
DESCRIPTION = "<http://schema.org/description>"


def term(entity: str, predicate: str, text: str, language: str = "en") -> str:
    return f'<{ENTITY}{entity}> {predicate} "{text}"@{language} .'


def page(entity: str, title: str, wiki: str = "en") -> str:
    return f"<https://{wiki}.wikipedia.org/wiki/{title}> <http://schema.org/about> <{ENTITY}{entity}> ."


def names_of(folder: Path, lines: list[str]) -> dict[str, str]:
    """Return the name of each entity; a claim with the property P9 uses each of them."""
    ids = sorted({line.split(ENTITY)[1].split(">")[0] for line in lines})
    claims = [f"<{ENTITY}{entity}> <http://www.wikidata.org/prop/direct/P9> <{ENTITY}{entity}> ." for entity in ids]
    source = folder / "names.nt"
    source.write_text("\n".join([*lines, *claims, term("P9", LABEL, "the property of the test")]) + "\n")
    built = build_knowledge_base([source], folder / "kb", resources=QUIET)
    rows = pq.read_table(built.folder / "names.parquet").to_pylist()
    names = {row["id"]: row["name"] for row in rows}
    assert len(set(names.values())) == len(rows) == len(names)
    del names["P9"]
    return names


def test_the_english_wikipedia_title_wins_over_label_and_description(tmp_path: Path) -> None:
    lines = [
        term("Q1", LABEL, "coffee"),
        term("Q1", DESCRIPTION, "a drink"),
        page("Q1", "Caf%C3%A9_au_lait"),
        page("Q1", "Kaffee", "de"),
        term("Q2", LABEL, "tea"),
        term("Q2", DESCRIPTION, "another drink"),
        term("Q3", LABEL, "milk"),
    ]
    assert names_of(tmp_path, lines) == {"Q1": "Café au lait", "Q2": "tea (another drink)", "Q3": "milk"}


def test_a_property_is_called_by_its_label_without_its_description(tmp_path: Path) -> None:
    assert names_of(tmp_path, [term("P1", LABEL, "colour"), term("P1", DESCRIPTION, "of it")]) == {"P1": "colour"}


def test_the_best_english_label_is_taken_whatever_the_order(tmp_path: Path) -> None:
    lines = [
        term("Q1", LABEL, "mul", "mul"),
        term("Q1", LABEL, "British", "en-GB"),
        term("Q1", LABEL, "deutsch", "de"),
        term("Q2", LABEL, "first", "mul"),
        term("Q4", LABEL, "British", "en-GB"),
        term("Q3", LABEL, "b"),
        term("Q3", LABEL, "a"),
    ]
    expected = {"Q1": "mul", "Q2": "first", "Q3": "a", "Q4": "British"}
    assert names_of(tmp_path, lines) == expected
    assert names_of(tmp_path, lines[::-1]) == expected


def test_names_that_collide_all_get_their_ids(tmp_path: Path) -> None:
    lines = [term("Q1", LABEL, "Paris"), term("Q2", LABEL, "Paris"), term("Q3", LABEL, "Rome"), page("Q4", "Rome")]
    assert names_of(tmp_path, lines) == {"Q1": "Paris (Q1)", "Q2": "Paris (Q2)", "Q3": "Rome (Q3)", "Q4": "Rome (Q4)"}


def test_a_property_keeps_its_label_against_items_but_not_against_properties(tmp_path: Path) -> None:
    lines = [
        term("P1", LABEL, "colour"),
        term("Q1", LABEL, "colour"),
        term("P2", LABEL, "size"),
        term("P3", LABEL, "size"),
        term("Q2", LABEL, "size"),
    ]
    expected = {"P1": "colour", "Q1": "colour (Q1)", "P2": "size (P2)", "P3": "size (P3)", "Q2": "size (Q2)"}
    assert names_of(tmp_path, lines) == expected


def test_a_name_that_looks_like_another_with_its_id_gets_its_own_id_too(tmp_path: Path) -> None:
    lines = [
        term("Q1", LABEL, "x"),
        term("Q2", LABEL, "x"),
        term("Q3", LABEL, "x (Q1)"),
        term("P4", LABEL, "x (Q1) (Q3)"),
    ]
    expected = {"Q1": "x (Q1)", "Q2": "x (Q2)", "Q3": "x (Q1) (Q3)", "P4": "x (Q1) (Q3) (P4)"}
    assert names_of(tmp_path, lines) == expected


def test_names_are_cut_before_they_are_compared_and_ids_stay_within_the_limit(tmp_path: Path) -> None:
    stem = "é" * MAX_PART_CHARACTERS
    names = names_of(tmp_path, [term("Q1", LABEL, stem + "a"), term("Q22", LABEL, stem + "b"), term("Q3", LABEL, stem)])
    assert names["Q1"] == "é" * (MAX_PART_CHARACTERS - 6) + "… (Q1)"
    assert names["Q22"] == "é" * (MAX_PART_CHARACTERS - 7) + "… (Q22)"
    assert names["Q3"] == stem


def test_labels_are_cleaned(tmp_path: Path) -> None:
    lines = [term("Q1", LABEL, r"a\n<b>\u200b c"), term("Q2", LABEL, r"e\u0301")]
    assert names_of(tmp_path, lines) == {"Q1": "a ‹b› c", "Q2": "é"}


LABELS = st.sampled_from(["a", "a (Q1)", "a (Q1) (Q3)", "a (P5)", "b", "a (Q1) (P5)"])


@pytest.mark.long
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(["Q1", "Q2", "Q3", "Q4", "P5", "P6"]), LABELS, min_size=1))
def test_naming_is_the_least_change_that_makes_names_unique(tmp_path: Path, labels: dict[str, str]) -> None:
    expected = dict(labels)
    while True:
        groups = Counter(expected.values())
        properties = Counter(expected[p] for p in labels if p[0] == "P" and expected[p] == labels[p])
        suffixed = {expected[e] for e in labels if expected[e] != labels[e]}
        collide = [
            entity
            for entity, name in expected.items()
            if name == labels[entity]
            and groups[name] > 1
            and (entity[0] == "Q" or properties[name] > 1 or name in suffixed)
        ]
        if not collide:
            break
        expected |= {entity: f"{labels[entity]} ({entity})" for entity in collide}
    assert names_of(tmp_path, [term(entity, LABEL, label) for entity, label in labels.items()]) == expected
