"""Dumps of made-up worlds: an ingest finds what is true there and accounts for every line, whatever the format."""

import bz2
import csv
import gzip
import io
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyoxigraph
import pytest
import zstandard
from conftest import run_refactx
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ingest.dump_generator import write_dumps
from support.ingest.dump_world import WD, Truth, World, truth
from support.ingest.truthy_dump import truthy_lines

from refactx.connect import open_index
from refactx.errors import InputError
from refactx.fact import Fact, clean_part, split_fact, verbalise
from refactx.index.links import Link, LinkedFact
from refactx.ingest.knowledge.knowledge_base import KnowledgeBase, build_knowledge_base
from refactx.ingest.parsers.ntriples import parse_line
from refactx.ingest.selection import Selection
from refactx.ingest.sources.source import STANDARD_INPUT

WORLDS = st.builds(World, st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 40))
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
DUMPS = ["latest-truthy.nt.gz", "enwiki-page.sql.gz", "enwiki-page_props.sql.gz"]


def facts_of(built: KnowledgeBase) -> Counter[tuple[str, str, str]]:
    texts = pq.read_table(built.folder / "units.parquet")["text"].to_pylist()
    triples = zip(*pq.read_table(built.folder / "facts.parquet").to_pydict().values(), strict=True)
    return Counter((texts[s], texts[p], texts[o]) for s, p, o in triples)


def facts_by_id(built: KnowledgeBase) -> set[tuple[str, str, str]]:
    """The facts, with ids for the names of entities; the predicates of descriptions have none."""
    named = {row["name"]: row for row in pq.read_table(built.folder / "names.parquet").to_pylist()}
    facts = set()
    for subject, predicate, object_ in facts_of(built):
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
    short = {(entity, "short description", clean_part(text)) for entity, text in true.short_descriptions.items()}
    return {(s, p, clean_part(o)) for s, p, o in true.facts} | described | short


def rows_in(dump: Path) -> int:
    """Lines of a truthy dump, rows of another."""
    text = gzip.decompress(dump.read_bytes())
    if ".nt" in dump.name:
        return text.count(b"\n")
    # A string may hold `),(`, but none in a made-up world begins with a number behind it.
    return text.count(b"INSERT INTO") + sum(piece[:1].isdigit() for piece in text.split(b"),(")[1:])


@settings(max_examples=8, deadline=None)
@given(WORLDS)
def test_an_ingest_finds_the_facts_of_the_dumps_and_accounts_for_every_line(world: World) -> None:
    true = truth(world)
    expected = expected_facts(true)
    if not expected or not true.titles:  # a dump without rows is an error
        return
    with tempfile.TemporaryDirectory() as folder:
        dump, page, page_props = write_dumps(world, Path(folder))
        built = build_knowledge_base([dump], Path(folder) / "kb", wikipedia=(page, page_props), progress=False)
        assert facts_by_id(built) == expected
        lines = sum(map(rows_in, (dump, page, page_props)))
    assert built.report.lines_read == lines == built.report.kept + sum(built.report.dropped.values())
    assert built.report.malformed == ()


@pytest.mark.parametrize("seed", [1, 2])
def test_every_line_of_a_made_up_dump_is_a_triple(seed: int) -> None:
    lines = list(truthy_lines(World(seed, 40)))
    assert all(parse_line(line.removesuffix("\n")) is not None for line in lines)
    assert len(lines) > 1000


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the dumps of a world of 80 items, the truthy one in bzip2 too, as it is published."""
    folder = tmp_path_factory.mktemp("dumps")
    write_dumps(World(7, 80), folder)
    text = gzip.decompress((folder / DUMPS[0]).read_bytes())
    (folder / "latest-truthy.nt.bz2").write_bytes(bz2.compress(text))
    return folder


def accounted(built: KnowledgeBase) -> KnowledgeBase:
    report = built.report
    assert report.lines_read == report.kept + sum(report.dropped.values())
    assert report.facts == report.claims + report.descriptions + report.derived == facts_of(built).total()
    return built


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
    built = accounted(
        build_knowledge_base([dump], tmp_path / "kb", wikipedia=(page, page_props), selection=selection, progress=False)
    )
    assert built.report.lines_read == sum(map(rows_in, (dump, page, page_props)))
    predicates = {predicate for _, predicate, _ in facts_of(built)}
    assert ("short description" in predicates) == short_descriptions
    if not selection.descriptions:
        assert built.report.dropped["description"] > len(truth(World(7, 80)).short_descriptions)
    if selection.wikipedia == "de":
        assert built.report.dropped["other wiki"] > len(truth(World(7, 80)).titles)


def compressed(suffix: str, compress: Callable[[bytes], bytes]) -> Callable[[Path, bytes], Path]:
    def write(folder: Path, text: bytes) -> Path:
        path = folder / f"graph.nt{suffix}"
        path.write_bytes(compress(text))
        return path

    return write


def serialised(name: str, form: pyoxigraph.RdfFormat) -> Callable[[Path, bytes], Path]:
    def write(folder: Path, text: bytes) -> Path:
        quads = pyoxigraph.parse(text, format=pyoxigraph.RdfFormat.N_TRIPLES)
        path = folder / name
        path.write_bytes(pyoxigraph.serialize((quad.triple for quad in quads), format=form))
        return path

    return write


@pytest.mark.parametrize(
    "write",
    [
        compressed("", bytes),
        compressed(".gz", gzip.compress),
        compressed(".bz2", bz2.compress),
        compressed(".zst", zstandard.compress),
        serialised("graph.ttl", pyoxigraph.RdfFormat.TURTLE),
        serialised("graph.rdf", pyoxigraph.RdfFormat.RDF_XML),
    ],
    ids=["nt", "gz", "bz2", "zst", "ttl", "rdf"],
)
def test_a_graph_gives_the_same_facts_and_account_in_every_format(
    dumps: Path, tmp_path: Path, write: Callable[[Path, bytes], Path]
) -> None:
    text = gzip.decompress((dumps / DUMPS[0]).read_bytes())
    built = accounted(build_knowledge_base([write(tmp_path, text)], tmp_path / "kb", progress=False))
    expected = expected_facts(truth(World(7, 80)))
    assert facts_by_id(built) == {fact for fact in expected if fact[1] != "short description"}
    assert built.report.lines_read == text.count(b"\n")
    assert built.report.dropped["not a fact"] > 1000


ROWS = [("Ann", "likes", "Bob"), ("Bob", "age", "7"), ("Ann", "likes", "Bob"), ("", "likes", "Bob")]


def write_table(path: Path) -> None:
    columns = {name: [row[at] for row in ROWS] for at, name in enumerate(("subject", "predicate", "object"))}
    columns["year"] = ["1990"] * len(ROWS)
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
        return
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writerows([columns, *zip(*columns.values(), strict=True)])


@pytest.mark.parametrize("name", ["table.csv", "table.tsv", "table.parquet", "facts.txt"])
def test_a_table_gives_the_facts_and_account_of_ready_made_ones(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "facts.txt":
        path.write_text("".join("<{}> <{}> <{}> .\n".format(*row) for row in ROWS))
    else:
        write_table(path)
    built = accounted(build_knowledge_base([path], tmp_path / "kb", progress=False))
    assert facts_of(built) == Counter(ROWS[:2])
    assert built.report.dropped == {"duplicate": 1, "empty part": 1}
    ignored = f"{path}: column year is ignored: facts come from subject, predicate and object"
    assert built.report.notes == (() if name == "facts.txt" else (ignored,))


def test_formats_mix_and_a_wrong_file_is_told_with_what_was_expected(dumps: Path, tmp_path: Path) -> None:
    write_table(tmp_path / "table.csv")
    sources = [dumps / DUMPS[0], tmp_path / "table.csv"]
    built = accounted(build_knowledge_base(sources, tmp_path / "kb", progress=False))
    assert ("Ann", "likes", "Bob") in facts_of(built)
    page, page_props = dumps / DUMPS[1], dumps / DUMPS[2]
    for name, content, message in (
        ("empty.nt", b"", "empty.nt is empty: expected N-Triples"),
        ("empty.csv.gz", b"", "empty.csv.gz is empty: expected a table with columns subject, predicate and object"),
        ("empty.ttl", b"", "empty.ttl is empty: expected Turtle"),
        ("a.parquet.gz", gzip.compress(b"PAR1" + bytes(9), mtime=0), "is Parquet that was compressed once more"),
        ("facts.csv", b"<a> <b> <c> .\n", "has no column subject, predicate, object"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=message):
            build_knowledge_base([tmp_path / name], tmp_path / "kb", progress=False)
    for wikipedia, message in (
        ((tmp_path / "empty.nt", page_props), "is empty: expected the dump of table page"),
        ((page_props, page), "is not a MySQL dump of table page: found a dump of table page_props"),
        ((page, dumps / DUMPS[0]), "is not a MySQL dump of table page_props"),
        ((page, tmp_path / "none"), "none does not exist"),
    ):
        with pytest.raises(InputError, match=message):
            build_knowledge_base(sources, tmp_path / "kb", wikipedia=wikipedia, progress=False)


@pytest.mark.parametrize(
    "text",
    [
        "subject,predicate,object\nAnn,likes,Bob\n",
        "<Ann> <likes> <Bob> .\n",
        f'<{WD}Q1> <{LABEL}> "Ann"@en .\n<{WD}Q2> <{LABEL}> "Bob"@en .\n<{WD}P1> <{LABEL}> "likes"@en .\n'
        f"<{WD}Q1> <http://www.wikidata.org/prop/direct/P1> <{WD}Q2> .\n",
        f"""@prefix wd: <{WD}> .
@prefix wdt: <http://www.wikidata.org/prop/direct/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
wd:Q1 rdfs:label "Ann"@en ; wdt:P1 wd:Q2 . wd:P1 rdfs:label "likes"@en . wd:Q2 rdfs:label "Bob"@en .
""",
        f"""<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#"
    xmlns:wdt="http://www.wikidata.org/prop/direct/" xmlns:xml="http://www.w3.org/XML/1998/namespace">
  <rdf:Description rdf:about="{WD}Q1"><rdfs:label xml:lang="en">Ann</rdfs:label></rdf:Description>
  <rdf:Description rdf:about="{WD}Q1"><wdt:P1 rdf:resource="{WD}Q2"/></rdf:Description>
  <rdf:Description rdf:about="{WD}Q2"><rdfs:label xml:lang="en">Bob</rdfs:label></rdf:Description>
  <rdf:Description rdf:about="{WD}P1"><rdfs:label xml:lang="en">likes</rdfs:label></rdf:Description>
</rdf:RDF>""",
    ],
    ids=["CSV", "ready-made facts", "N-Triples", "Turtle", "RDF/XML"],
)
def test_standard_input_is_known_by_its_first_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode()))))  # type: ignore[arg-type]
    built = accounted(build_knowledge_base([STANDARD_INPUT], tmp_path / "kb", progress=False))
    assert facts_of(built) == Counter([("Ann", "likes", "Bob")])


def test_dumps_are_ingested_as_a_user_types_it_and_every_part_leads_back(
    dumps: Path, db_url: str, smollm2_folder: Path, tmp_path: Path
) -> None:
    command = ["ingest", dumps / "latest-truthy.nt.bz2", "--tokenizer", smollm2_folder, "--db", db_url, "--page"]
    command += [dumps / DUMPS[1]]
    alone = run_refactx(*command)
    assert alone.returncode == 2
    assert alone.stderr.strip() == (
        "refactx: --page was given without --page-props: titles need both dumps, so give both, or neither"
    )
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
