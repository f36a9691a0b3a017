"""Source files → knowledge base: facts, names, and an account of every line."""

import gzip
import os
import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support import brute_force
from support.ingest.knowledge_runs import (
    CLAIM,
    DIRECT,
    ENTITY,
    LABEL,
    NAMED,
    SAMPLE,
    build,
    build_knowledge_base,
    facts_of,
    nt,
)
from support.ingest.quiet import QUIET

from refactx.fact import MAX_PART_CHARACTERS

DESCRIPTION = "http://schema.org/description"
SAME_AS = "http://www.w3.org/2002/07/owl#sameAs"
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
XSD = "http://www.w3.org/2001/XMLSchema#"


def literal(written: str) -> str:
    return f"<{ENTITY}Q1> <{DIRECT}P1> {written} ."


def test_the_sample_gives_the_facts_that_a_brute_force_twin_computes(tmp_path: Path) -> None:
    built = build_knowledge_base([SAMPLE], tmp_path / "kb", resources=QUIET)
    assert facts_of(built) == brute_force.facts_of(SAMPLE)
    assert built.report.claims > 5000
    assert built.report.malformed == ()


@pytest.mark.slow
def test_larger_data_give_the_facts_that_a_brute_force_twin_computes(tmp_path: Path) -> None:
    for source in large_sources():
        assert facts_of(build_knowledge_base([source], tmp_path / "kb", resources=QUIET)) == brute_force.facts_of(
            source
        )


def large_sources() -> list[Path]:
    """Return the gzipped N-Triples in the folder `REFACTX_BENCH_DATA`; the sample if it is not set."""
    folder = os.environ.get("REFACTX_BENCH_DATA")
    return sorted(Path(folder).glob("*.nt.gz")) if folder else [SAMPLE]


def test_every_name_in_a_fact_about_entities_has_its_id(tmp_path: Path) -> None:
    value = literal('"7"')
    both = f"<{ENTITY}Q1> <{DIRECT}P2> <{ENTITY}Q2> ."
    lines = nt(CLAIM, value, both, f'<{ENTITY}P2> <{LABEL}> "knows"@en .', f'<{ENTITY}Q3> <{LABEL}> "unused"@en .')
    built = build(tmp_path, lines + f'<{ENTITY}P3> <{LABEL}> "age"@en .\n<{ENTITY}Q1> <{DIRECT}P3> "7" .\n')
    rows = pq.read_table(built.folder / "names.parquet").to_pylist()
    assert {(row["name"], row["id"], row["object_kind"]) for row in rows} == {
        ("Ann", "Q1", None),
        ("Bob", "Q2", None),
        ("likes", "P1", "mixed"),
        ("knows", "P2", "entity"),
        ("age", "P3", "text"),
    }


def test_the_result_does_not_depend_on_the_order_of_the_lines(tmp_path: Path) -> None:
    lines = gzip.decompress(SAMPLE.read_bytes()).decode().splitlines()
    random.Random(7).shuffle(lines)
    first = build_knowledge_base([SAMPLE], tmp_path / "first", resources=QUIET)
    shuffled = build(tmp_path, "\n".join(lines))
    assert first.report == shuffled.report
    for file in ("units.parquet", "facts.parquet", "names.parquet"):
        assert pq.read_table(first.folder / file) == pq.read_table(shuffled.folder / file)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "blank"),
        ("# made by hand", "comment"),
        ("nonsense", "malformed"),
        (CLAIM, "duplicate"),
        (NAMED[1], "duplicate"),
        (f'<{ENTITY}Q1> <{LABEL}> "Anne"@en-gb .', "duplicate"),
        (f'<{ENTITY}Q1> <{LABEL}> "Anna"@de .', "other language"),
        (f'<{ENTITY}Q1> <{DESCRIPTION}> "Frau"@de .', "other language"),
        (f'<{ENTITY}Q9> <{LABEL}> "nobody"@en .', "unused name"),
        (f"<https://en.wikipedia.org/wiki/No> <http://schema.org/about> <{ENTITY}Q9> .", "unused name"),
        (f"<https://de.wikipedia.org/wiki/Ann> <http://schema.org/about> <{ENTITY}Q1> .", "other wiki"),
        ('<https://en.wikipedia.org/wiki/Ann> <http://schema.org/name> "Ann"@en .', "duplicate name"),
        ('<https://en.wikipedia.org/wiki/Ann> <http://schema.org/inLanguage> "en" .', "not a fact"),
        (f'<{ENTITY}Q9> <{DESCRIPTION}> "no label"@en .', "subject has no label"),
        (f"<{ENTITY}Q1> <{DIRECT}P1> <{ENTITY}Q9> .", "object has no label"),
        (f"<{ENTITY}Q9> <{DIRECT}P1> <{ENTITY}Q1> .", "subject has no label"),
        (f"<{ENTITY}Q1> <{DIRECT}P9> <{ENTITY}Q2> .", "property has no label"),
        (f'<{ENTITY}Q1> <http://www.w3.org/2004/02/skos/core#altLabel> "Annie"@en .', "alias"),
        (f'<{ENTITY}Q1> <http://www.w3.org/2004/02/skos/core#prefLabel> "Ann"@en .', "duplicate name"),
        (f'<{ENTITY}Q1> <http://schema.org/name> "Ann"@en .', "duplicate name"),
        (f"<{ENTITY}Q1> <http://www.wikidata.org/prop/direct-normalized/P1> <x:o> .", "normalized value"),
        (f"<{ENTITY}Q1> <http://schema.org/version> <x:o> .", "not a fact"),
        (f'<{ENTITY}L1> <{LABEL}> "word"@en .', "lexeme"),
        (f"<{ENTITY}Q1> <{DIRECT}P1> <{ENTITY}L1-S1> .", "lexeme"),
        (f"<{ENTITY}statement/Q1-1> <{DIRECT}P1> <{ENTITY}Q1> .", "other subject"),
        (literal("_:b0"), "unknown value"),
        (literal("<http://www.wikidata.org/.well-known/genid/0a>"), "unknown value"),
        (literal("<http://commons.wikimedia.org/wiki/Special:FilePath/A.jpg>"), "media file"),
        (literal("<http://ann.example/>"), "url"),
        (literal(f"<{ENTITY}E10>"), "entity schema"),
        (f"<{ENTITY}Q8> <{SAME_AS}> <{ENTITY}Q1> .", "redirect"),
        (f"<{ENTITY}L8> <{SAME_AS}> <{ENTITY}L1> .", "lexeme"),
        (f"<{ENTITY}Q8> <{SAME_AS}> <x:o> .", "not a fact"),
        (f"<{ENTITY}Q1> <{TYPE}> <http://www.wikidata.org/prop/novalue/P1> .", "no value"),
        (f"<{ENTITY}Q1> <{TYPE}> <http://wikiba.se/ontology#Item> .", "not a fact"),
        (literal('"bonjour"@fr'), "other language"),
        (literal('"<math/>"^^<http://www.w3.org/1998/Math/MathML>'), "unknown datatype value"),
        (literal(r'" \u200b\n"'), "empty part"),
        (f'<{ENTITY}Q1> <{LABEL}> " "@en .', "empty part"),
        (
            f"<{ENTITY}P1> <http://wikiba.se/ontology#propertyType> <http://wikiba.se/ontology#WikibaseItem> .",
            "property datatype",
        ),
    ],
)
def test_a_line_is_dropped_for_one_named_reason(tmp_path: Path, line: str, reason: str) -> None:
    built = build(tmp_path, nt(CLAIM, line))
    assert facts_of(built) == {("Ann", "likes", "Bob")}
    assert built.report.dropped == {reason: 1}


@pytest.mark.parametrize(
    ("written", "part"),
    [
        (r'"she said \"no\""@en', 'she said "no"'),
        (r'"two\nlines"', "two lines"),
        (r'"caf\u00e9 \U0001F600"', "café 😀"),
        ('"a < b > c"', "a ‹ b › c"),
        ('"colour"@EN-gb', "colour"),
        ('"π"@mul', "π"),
        (f'"+12"^^<{XSD}decimal>', "12"),
        (f'"-0199-01-01T00:00:00Z"^^<{XSD}dateTime>', "200 BCE"),
        ('"Point(13.38 52.51)"^^<http://www.opengis.net/ont/geosparql#wktLiteral>', "52.51°N, 13.38°E"),
        ('"<|im_end|>"', "‹|im_end|›"),
        ('"שלום"@en', "שלום"),
    ],
)
def test_a_literal_becomes_the_object_of_a_fact(tmp_path: Path, written: str, part: str) -> None:
    assert facts_of(build(tmp_path, nt(literal(written)) + "\r\n")) == {("Ann", "likes", part)}


@pytest.mark.parametrize(
    ("datatype", "reason"),
    [("ExternalId", "external identifier"), ("CommonsMedia", "media file"), ("TabularData", "media file")],
)
def test_properties_of_some_datatypes_are_left_out(tmp_path: Path, datatype: str, reason: str) -> None:
    is_a = f"<{ENTITY}P2> <http://wikiba.se/ontology#propertyType> <http://wikiba.se/ontology#{datatype}> ."
    id_label = f'<{ENTITY}P2> <{LABEL}> "number"@en .'
    built = build(tmp_path, nt(CLAIM, f'<{ENTITY}Q1> <{DIRECT}P2> "0042" .', is_a, id_label))
    assert facts_of(built) == {("Ann", "likes", "Bob")}
    assert built.report.dropped == {reason: 1, "property datatype": 1, "unused name": 1}


def test_a_description_is_a_fact_and_part_of_the_name(tmp_path: Path) -> None:
    built = build(tmp_path, nt(f'<{ENTITY}Q1> <{DESCRIPTION}> "a person"@en .', CLAIM))
    ann = "Ann (a person)"
    assert facts_of(built) == {(ann, "description", "a person"), (ann, "likes", "Bob")}
    assert (built.report.claims, built.report.descriptions, built.report.kept) == (1, 1, 5)


def test_a_fact_from_a_ready_made_one_and_a_description_counts_once_as_a_claim(tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text(nt(f'<{ENTITY}P1> <{DESCRIPTION}> "a relation"@en .'))
    (tmp_path / "b.txt").write_text("<likes> <description> <a relation> .\n")
    built = build_knowledge_base([tmp_path / "a.nt", tmp_path / "b.txt"], tmp_path / "kb", resources=QUIET)
    assert facts_of(built) == {("likes", "description", "a relation")}
    assert (built.report.claims, built.report.descriptions) == (1, 0)
    assert built.report.dropped == {"duplicate": 1, "unused name": 2}


@pytest.mark.parametrize("name", ["description", "short description"])
def test_a_property_with_the_name_of_a_description_predicate_gets_its_id(tmp_path: Path, name: str) -> None:
    lines = [
        f'<{ENTITY}P2> <{LABEL}> "{name}"@en .',
        f'<{ENTITY}Q1> <{DESCRIPTION}> "a person"@en .',
        f'<{ENTITY}Q1> <{DIRECT}P2> "a person"@en .',
    ]
    ann = "Ann (a person)"
    assert facts_of(build(tmp_path, nt(*lines))) == {
        (ann, "description", "a person"),
        (ann, f"{name} (P2)", "a person"),
    }


def test_a_literal_like_a_name_makes_no_second_fact(tmp_path: Path) -> None:
    built = build(tmp_path, nt(CLAIM, literal('"Bob"')))
    assert facts_of(built) == {("Ann", "likes", "Bob")}
    assert built.report.dropped == {"duplicate": 1}


def test_long_parts_are_cut_and_counted(tmp_path: Path) -> None:
    long = "word " * 20_000
    built = build(tmp_path, nt(CLAIM, literal(f'"{long}"')))
    assert built.report.cut == 1
    (part,) = {o for _, _, o in facts_of(built)} - {"Bob"}
    assert part == long[: MAX_PART_CHARACTERS - 1].rstrip() + "…"
    ready = build(tmp_path, f"<{long}> <is> <long> .\n<a> <is> <short> .\n", "facts.txt")
    assert facts_of(ready) == {(part, "is", "long"), ("a", "is", "short")}
    assert ready.report.cut == 1
