"""Dumps of made-up worlds, of any seed: an ingest finds what is true there, and accounts for every line."""

import gzip
import tempfile
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from dump_generator import write_dumps
from dump_world import Truth, World, truth
from hypothesis import given, settings
from hypothesis import strategies as st
from truthy_dump import truthy_lines

from refactx.fact import clean_part
from refactx.ingest.enwiki import parse_enwiki
from refactx.ingest.knowledge_base import KnowledgeBase, build_knowledge_base
from refactx.ingest.ntriples import parse_line

WORLDS = st.builds(World, st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 40))


def facts_by_id(built: KnowledgeBase) -> set[tuple[str, str, str]]:
    """The facts, with ids for the names of entities; `description` is a predicate without an id."""
    texts = pq.read_table(built.folder / "units.parquet")["text"].to_pylist()
    named = {row["name"]: row for row in pq.read_table(built.folder / "names.parquet").to_pylist()}
    facts = set()
    for row in pq.read_table(built.folder / "facts.parquet").to_pylist():
        subject, predicate, object_ = (texts[row[column]] for column in ("subject", "predicate", "object"))
        kind = named[predicate]["object_kind"] if predicate in named else None
        assert kind in (None, "entity", "literal")
        facts.add(
            (
                named[subject]["id"],
                named[predicate]["id"] if predicate in named else predicate,
                named[object_]["id"] if kind == "entity" else object_,
            )
        )
    return facts


def expected_facts(true: Truth) -> set[tuple[str, str, str]]:
    named = {entity for entity in true.descriptions if entity in true.labels or entity in true.titles}
    described = {(entity, "description", clean_part(true.descriptions[entity])) for entity in named}
    return {(s, p, clean_part(o)) for s, p, o in true.facts} | described


@settings(max_examples=8, deadline=None)
@given(WORLDS)
def test_an_ingest_finds_the_facts_of_a_truthy_dump_and_accounts_for_every_line(world: World) -> None:
    with tempfile.TemporaryDirectory() as folder:
        dump, _, _ = write_dumps(world, Path(folder))
        lines = gzip.decompress(dump.read_bytes()).count(b"\n")
        expected = expected_facts(truth(world))
        if not expected:
            return
        built = build_knowledge_base([dump], Path(folder) / "kb", progress=False)
        assert facts_by_id(built) == expected
    assert built.report.lines_read == lines == built.report.kept + sum(built.report.dropped.values())
    assert built.report.malformed == ()


@settings(max_examples=15, deadline=None)
@given(WORLDS)
def test_every_row_of_the_english_wikipedia_is_accounted_for(world: World) -> None:
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        _, page, page_props = write_dumps(world, Path(folder))
        rows = sum(gzip.decompress(path.read_bytes()).count(b"),(") for path in (page, page_props))
        if not truth(world).titles:
            return
        blocks = list(parse_enwiki(page, page_props, connection))
    terms = sum(len(block.tables["terms"]) for block in blocks if "terms" in block.tables)
    lines = sum(block.lines for block in blocks)
    assert lines == terms + sum(block.dropped.total() for block in blocks)
    assert terms == len(truth(world).titles) + len(truth(world).short_descriptions)
    assert 0 < lines <= rows + 2  # two statements; more only where a text has `),(` in it


@pytest.mark.parametrize("seed", [1, 2])
def test_every_line_of_a_made_up_dump_is_a_triple(seed: int) -> None:
    lines = list(truthy_lines(World(seed, 100)))
    assert all(parse_line(line.removesuffix("\n")) is not None for line in lines)
    assert len(lines) > 3000
