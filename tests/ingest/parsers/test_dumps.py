"""Dumps of made-up worlds: an ingest finds their facts and accounts for every line, in every format."""

import bz2
import gzip
import json
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pyoxigraph
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from support.command import run_refactx
from support.ingest.dump_generator import write_dumps
from support.ingest.dump_runs import DUMPS, ROWS, check_account, facts_of, write_table
from support.ingest.dump_world import Truth, World, truth
from support.ingest.knowledge_runs import build_knowledge_base
from support.ingest.quiet import QUIET
from support.ingest.truthy_dump import truthy_lines

from refactx.fact import Fact, Link, LinkedFact, clean_part, split_fact, verbalise
from refactx.index.names import LITERAL_KINDS
from refactx.index.open import open_index
from refactx.ingest.knowledge.knowledge_base import KnowledgeBase
from refactx.ingest.parsers.ntriples import parse_line
from refactx.ingest.source_options import Selection

WORLDS = st.builds(World, st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 40))


def facts_by_id(built: KnowledgeBase) -> set[tuple[str, str, str]]:
    """Return the facts, with ids for the names of entities; the predicates of descriptions have none."""
    named = {row["name"]: row for row in pq.read_table(built.folder / "names.parquet").to_pylist()}
    facts = set()
    for subject, predicate, object_ in facts_of(built):
        kind = named[predicate]["object_kind"] if predicate in named else None
        assert kind in (None, "entity", *LITERAL_KINDS)
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
    short = {(entity, "short description", clean_part(text)) for entity, text in true.short_descriptions.items()}
    return {(s, p, clean_part(o)) for s, p, o in true.facts} | described | short


def rows_in(dump: Path) -> int:
    """Return the number of lines of a truthy dump, or of rows of another dump."""
    text = gzip.decompress(dump.read_bytes())
    if ".nt" in dump.name:
        return text.count(b"\n")
    # A string may contain `),(`, but in a made-up world never with a digit after it.
    return text.count(b"INSERT INTO") + sum(piece[:1].isdigit() for piece in text.split(b"),(")[1:])


@pytest.mark.long
@settings(max_examples=8, deadline=None)
@given(WORLDS)
def test_an_ingest_finds_the_facts_of_the_dumps_and_accounts_for_every_line(world: World) -> None:
    true = truth(world)
    expected = expected_facts(true)
    if not expected or not true.titles:  # a dump without rows is an error
        return
    with tempfile.TemporaryDirectory() as folder:
        dump, page, page_props = write_dumps(world, Path(folder))
        built = build_knowledge_base([dump], Path(folder) / "kb", wikipedia=(page, page_props), resources=QUIET)
        assert facts_by_id(built) == expected
        lines = sum(map(rows_in, (dump, page, page_props)))
    assert built.report.lines_read == lines == built.report.kept + sum(built.report.dropped.values())
    assert built.report.malformed == ()


@pytest.mark.parametrize("seed", [1, 2])
def test_every_line_of_a_made_up_dump_is_a_triple(seed: int) -> None:
    lines = list(truthy_lines(World(seed, 40)))
    assert all(parse_line(line.removesuffix("\n")) is not None for line in lines)
    assert len(lines) > 1000


@pytest.mark.parametrize(
    ("selection", "short_descriptions"),
    [
        (Selection(), True),
        (Selection(inverse=True), True),
        (Selection(descriptions=False), False),
        (Selection(limit=30), True),
        (Selection(languages=("de", "mul")), False),
        (Selection(properties=frozenset({"P1"}), keep_external_ids=True), True),
    ],
)
def test_short_descriptions_follow_the_selection_and_every_row_is_accounted_for(
    dumps: Path, tmp_path: Path, selection: Selection, short_descriptions: bool
) -> None:
    dump, page, page_props = (dumps / name for name in DUMPS)
    built = check_account(
        build_knowledge_base(
            [dump], tmp_path / "kb", wikipedia=(page, page_props), selection=selection, resources=QUIET
        )
    )
    assert built.report.lines_read == sum(map(rows_in, (dump, page, page_props)))
    predicates = {predicate for _, predicate, _ in facts_of(built)}
    assert ("short description" in predicates) == short_descriptions
    if not selection.descriptions:
        assert built.report.dropped["description"] > len(truth(World(7, 80)).short_descriptions)
    if selection.wikipedia == "de":
        assert built.report.dropped["other wiki"] > len(truth(World(7, 80)).titles)


def compress_with(suffix: str, compress: Callable[[bytes], bytes]) -> Callable[[Path, bytes], Path]:
    def write(folder: Path, text: bytes) -> Path:
        path = folder / f"graph.nt{suffix}"
        path.write_bytes(compress(text))
        return path

    return write


def serialise_as(name: str, form: pyoxigraph.RdfFormat) -> Callable[[Path, bytes], Path]:
    def write(folder: Path, text: bytes) -> Path:
        quads = pyoxigraph.parse(text, format=pyoxigraph.RdfFormat.N_TRIPLES)
        path = folder / name
        path.write_bytes(pyoxigraph.serialize((quad.triple for quad in quads), format=form))
        return path

    return write


@pytest.mark.parametrize(
    "write",
    [
        compress_with("", bytes),
        compress_with(".gz", gzip.compress),
        compress_with(".bz2", bz2.compress),
        compress_with(".zst", zstandard.compress),
        serialise_as("graph.ttl", pyoxigraph.RdfFormat.TURTLE),
        serialise_as("graph.rdf", pyoxigraph.RdfFormat.RDF_XML),
    ],
    ids=["nt", "gz", "bz2", "zst", "ttl", "rdf"],
)
def test_a_graph_gives_the_same_facts_and_account_in_every_format(
    dumps: Path, tmp_path: Path, write: Callable[[Path, bytes], Path]
) -> None:
    text = gzip.decompress((dumps / DUMPS[0]).read_bytes())
    built = check_account(build_knowledge_base([write(tmp_path, text)], tmp_path / "kb", resources=QUIET))
    expected = expected_facts(truth(World(7, 80)))
    assert facts_by_id(built) == {fact for fact in expected if fact[1] != "short description"}
    assert built.report.lines_read == text.count(b"\n")
    assert built.report.dropped["not a fact"] > 1000


@pytest.mark.parametrize("name", ["table.csv", "table.tsv", "table.parquet", "facts.txt"])
def test_a_table_gives_the_facts_and_account_of_ready_made_ones(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "facts.txt":
        path.write_text("".join("<{}> <{}> <{}> .\n".format(*row) for row in ROWS))
    else:
        write_table(path)
    built = check_account(build_knowledge_base([path], tmp_path / "kb", resources=QUIET))
    assert facts_of(built) == Counter(ROWS[:2])
    assert built.report.dropped == {"duplicate": 1, "empty part": 1}
    ignored = f"{path}: column year is ignored: facts come from subject, predicate and object"
    assert built.report.notes == (() if name == "facts.txt" else (ignored,))


@pytest.mark.long
def test_dumps_are_ingested_by_the_command_and_every_part_has_its_id(
    dumps: Path, db_url: str, smollm2_folder: Path, tmp_path: Path
) -> None:
    command = ["ingest", dumps / "latest-truthy.nt.bz2", "--tokenizer", smollm2_folder, "--db", db_url, "--page"]
    command += [dumps / DUMPS[1]]
    alone = run_refactx(*command)
    assert alone.returncode == 2
    assert alone.stderr.strip() == ("refactx: --page was given without --page-props: give both dumps, or neither")
    done = run_refactx(*command, "--page-props", dumps / DUMPS[2], "--inverse", "--json", "--work-dir", tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["lines_read"] == report["kept"] + sum(report["dropped"].values())
    assert report["lines_read"] == sum(rows_in(dumps / name) for name in DUMPS)
    assert report["facts"] == report["claims"] + report["descriptions"] + report["derived"]
    assert report["derived"] > 0 and report["aliases"] > 0
    assert report["selection"]["aliases"] is True
    true = truth(World(7, 80))
    entity, text = next(iter(true.short_descriptions.items()))
    title = clean_part(true.titles[entity])
    with open_index("default", db_url) as index:
        line = verbalise(title, "short description", clean_part(text))
        assert line in index
        parts = split_fact(line)
        assert parts is not None
        linked = index.links(Fact(*parts, line, (0, 0)))
        number = int(entity[1:])
        line = verbalise(f"alias {number} (alias)", "alias of", title)
        assert line in index
        alias = index.links(Fact(*(split_fact(line) or ()), line, (0, 0)))
    assert alias == LinkedFact(Link(f"alias {number} (alias)", entity), Link("alias of"), Link(title, entity))
    assert (linked.subject, linked.predicate, linked.object) == (
        Link(title, entity),
        Link("short description", None),
        clean_part(text),
    )
