"""Statements of Wikidata, as its JSON and as its full RDF has them, give the facts that brute force gives."""

import gzip
import json
import random
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.ingest.knowledge_runs import build_knowledge_base
from support.ingest.quiet import QUIET
from support.ingest.statement_world import (
    NAMES,
    RDFS_LABEL,
    STATEMENTS,
    Amount,
    Moment,
    Statement,
    expected_facts,
    expected_references,
    json_lines,
    rdf_lines,
)

from refactx.entity_ids import fact_number
from refactx.ingest import sources
from refactx.ingest.knowledge.knowledge_base import KnowledgeBase
from refactx.ingest.parsers import entities
from refactx.ingest.source_options import DEFAULT_SELECTION, Selection

GENERATE = (Phase.explicit, Phase.generate)  # to shrink an example takes minutes
WANTED = st.sampled_from((None, ("all",), ("time",), ("of", "P99"), ("other", "P459")))
MAYOR = Statement("Q1", "P10", "Q2", "normal", (("P582", Moment(1994, 1, 1, 9, False)),), 1)


def built(
    lines: Sequence[str], name: str, selection: Selection = DEFAULT_SELECTION
) -> tuple[set[tuple[str, ...]], KnowledgeBase]:
    """Return the facts of a source as tuples of their parts, and its knowledge base; check that the account adds up."""
    return built_with_references(lines, name, selection)[:2]


def built_with_references(
    lines: Sequence[str], name: str, selection: Selection
) -> tuple[set[tuple[str, ...]], KnowledgeBase, dict[int, str]]:
    """Return what `built` does, and the references of facts by their numbers."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, name)
        text = "\n".join(lines) + "\n"
        if name.endswith(".gz"):
            source.write_bytes(gzip.compress(text.encode()))
        else:
            source.write_text(text)
        base = build_knowledge_base([source], Path(folder, "kb"), selection=selection, resources=QUIET)
        texts = pq.read_table(base.folder / "units.parquet")["text"].to_pylist()
        rows = pq.read_table(base.folder / "facts.parquet").to_pylist()
        labels = pq.read_table(base.folder / "labels.parquet").to_pylist()
    facts = [tuple(part for unit in row.values() if unit >= 0 for part in texts[unit].split("> <")) for row in rows]
    report = base.report
    assert len(set(facts)) == len(facts) == report.facts
    assert report.facts == report.claims + report.descriptions + report.derived + report.statements
    assert sum(len(fact) > 3 for fact in facts) == report.statements
    assert report.lines_read == report.kept + sum(report.dropped.values())
    assert all(count > 0 for count in report.dropped.values())
    references = {row["entity"]: row["label"] for row in labels if row["language"] == "references"}
    assert len(references) == len(labels)
    return set(facts), base, references


def only(*statements: Statement) -> list[Statement]:
    """Return statements with one more, so that there is a fact in any case."""
    return [*statements, Statement("Q4", "P10", "Q1", "normal", (), 99)]


@settings(max_examples=25, phases=GENERATE)
@given(STATEMENTS, WANTED, st.randoms(use_true_random=False))
def test_json_and_rdf_give_the_facts_and_references_of_brute_force(
    statements: list[Statement], wanted: tuple[str, ...] | None, chance: random.Random
) -> None:
    statements = only(*statements)
    selection = replace(DEFAULT_SELECTION, qualifiers=wanted)
    expected = expected_facts(statements, wanted)
    triples = rdf_lines(statements)
    chance.shuffle(triples)  # the triples of a statement may be anywhere
    with_references = replace(selection, references=True)
    told = expected_references(statements, wanted).items()
    numbers = {fact_number("<" + "> <".join(fact) + ">"): urls for fact, urls in told}
    for lines, name in ((json_lines(statements), "entities.json"), (triples, "all.nt")):
        facts, base, references = built_with_references(lines, name, with_references)
        assert (facts, references) == (expected, numbers)
        facts, other, references = built_with_references(lines, name, selection)
        assert (facts, references) == (expected, {})
        more = base.report.dropped.get("structure", 0) - other.report.dropped.get("structure", 0)
        assert other.report.dropped.get("reference", 0) - base.report.dropped.get("reference", 0) == more >= 0


@settings(max_examples=10, phases=GENERATE)
@given(STATEMENTS)
def test_without_qualifiers_facts_are_those_of_a_truthy_dump(statements: list[Statement]) -> None:
    statements, none = only(*statements), replace(DEFAULT_SELECTION, qualifiers=())
    full = rdf_lines(statements)
    truthy = [line for line in full if "/prop/direct/" in line or RDFS_LABEL in line]
    expected, base = built(truthy, "truthy.nt")
    found, other = built(full, "all.nt", none)
    assert found == expected
    assert built(json_lines(statements), "entities.json", none)[0] == expected
    assert base.report.statements == other.report.statements == 0


def test_qualifiers_stand_in_the_order_of_questions() -> None:
    pairs = [("P98", "Q3"), ("P99", "Q3"), ("P642", "Q3"), ("P1545", "Q4"), *MAYOR.qualifiers]
    pairs.append(("P580", Moment(1990, 5, 3, 10, False)))
    facts, _ = built(json_lines([replace(MAYOR, qualifiers=tuple(pairs))]), "entities.json")
    (long,) = (fact for fact in facts if len(fact) > 3)
    assert long[3::2] == ("start time", "end time", "series ordinal", "of", "alpha", "zeta")
    assert long[4:8:2] == ("1990-05", "1994")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (json.dumps({"type": "item", "id": "Q1", "claims": {"P10": [{"rank": "normal"}]}}), "malformed"),
        ('{"type":"item","id":"Q1","labels":{"en":{"language":"en","val', "malformed"),
        ('{"type":"lexeme","id":"L1"}', "lexeme"),
    ],
)
def test_lines_that_say_nothing_are_counted(line: str, reason: str) -> None:
    """A cut line, a claim without a value and a lexeme are counted, and what else the file has is kept."""
    facts, base = built([*json_lines(only(MAYOR))[:-1], line, "]"], "entities.json")
    assert facts == expected_facts(only(MAYOR), None)
    assert base.report.dropped[reason] == 1


def test_a_month_13_and_another_calendar_are_no_times() -> None:
    """They are left out and counted; nothing is guessed. So are incomplete statements of RDF."""
    lines = json_lines(only(replace(MAYOR, qualifiers=(("P580", Moment(1990, 5, 3, 11, False)),))))
    for old, new in (("1990-05", "1990-13"), ("Q1985727", "Q5")):
        facts, base = built([line.replace(old, new) for line in lines], "entities.json")
        assert facts == {fact[:3] for fact in expected_facts(only(MAYOR), None)}
        assert base.report.dropped["unknown datatype value"] == 1
    without_subject = [line for line in rdf_lines([MAYOR]) if "/prop/P10>" not in line]
    _, base = built([*without_subject, *rdf_lines(only())], "all.nt")
    assert base.report.dropped["incomplete statement"] == base.report.dropped["qualifier of no fact"] == 1


def test_a_unit_without_a_label_makes_no_amount() -> None:
    tall = Statement("Q1", "P11", Amount("+12", "Q8"), "normal", MAYOR.qualifiers, 2)
    for write, name in ((json_lines, "entities.json"), (rdf_lines, "all.nt")):
        facts, base = built(write(only(tall)), name)
        assert facts == expected_facts(only(), None)
        assert base.report.dropped["unit has no label"] == 1


@pytest.mark.parametrize("name", ["latest-all.json.gz", "entities.jsonl", "Q1.json"])
def test_a_dump_is_recognised_by_what_it_has(name: str) -> None:
    """An array of a dump, lines, and a document as `Special:EntityData` gives it, on one line or several."""
    lines, expected = json_lines(only(MAYOR)), expected_facts(only(MAYOR), None)
    if name == "Q1.json":
        entities = {(one := json.loads(line.removesuffix(",")))["id"]: one for line in lines[1:-1]}
        for indent in (None, 1):
            assert built([json.dumps({"entities": entities}, indent=indent)], name)[0] == expected
        return
    assert (
        built(lines if name.endswith(".gz") else [line.removesuffix(",") for line in lines[1:-1]], name)[0] == expected
    )


def test_a_subject_keeps_its_statements_within_a_limit() -> None:
    other = replace(MAYOR, subject="Q2", value="Q1", number=3)
    facts, _ = built(json_lines([MAYOR, other]), "entities.json", replace(DEFAULT_SELECTION, limit=1))
    assert facts == expected_facts([MAYOR], None)


def test_ready_made_facts_may_have_qualifiers() -> None:
    """Lines as `refactx facts --all` prints them give the facts that they are."""
    facts = expected_facts(only(MAYOR), None)
    lines = [" ".join(f"<{part}>" for part in fact) + " ." for fact in facts]
    found, base = built([*lines, lines[0], "<Springfield> <mayor> <Ann Lee> <start time> ."], "facts.txt")
    assert found == facts
    assert base.report.dropped == {"duplicate": 1, "malformed": 1}


def test_the_names_of_parts_have_ids() -> None:
    """Qualifiers and their values are named things, with the kind of their values."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "entities.json")
        source.write_text("\n".join(json_lines([replace(MAYOR, qualifiers=(*MAYOR.qualifiers, ("P642", "Q3")))])))
        base = build_knowledge_base([source], Path(folder, "kb"), resources=QUIET)
        names = {row["name"]: row for row in pq.read_table(base.folder / "names.parquet").to_pylist()}
    assert names["Bob"]["id"] == "Q3"
    assert (names["end time"]["id"], names["end time"]["object_kind"]) == ("P582", "time")
    assert (names["of"]["id"], names["of"]["object_kind"]) == ("P642", "entity")
    assert set(names) <= set(NAMES.values())


def test_a_large_dump_is_parsed_in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gives the same facts, and the number of a malformed line is that in the file."""
    lines = [*json_lines(only(MAYOR))[:-1], '{"id": "Q9"', "]"]
    expected = built(lines, "entities.json")
    monkeypatch.setattr(entities, "_LARGE", 0)
    monkeypatch.setattr(sources, "BLOCK_BYTES", 300)
    monkeypatch.setattr(sources, "CHUNK_BYTES", 200)
    found = built(lines, "entities.json")
    assert found[0] == expected[0]
    one, other = expected[1].report, found[1].report
    assert replace(one, malformed=()) == replace(other, malformed=())
    assert [what.partition("entities.json:")[2] for what in other.malformed] == [
        what.partition("entities.json:")[2] for what in one.malformed
    ]


def test_beyond_fifty_qualifiers_are_left_out() -> None:
    many = tuple(("P99", Moment(year, 1, 1, 9, False)) for year in range(1900, 2000))
    facts, base = built(json_lines(only(replace(MAYOR, qualifiers=many))), "entities.json")
    assert max(map(len, facts)) == 3 + 2 * 50
    assert base.report.dropped["too many qualifiers"] == 50
