"""Sources of several formats in one ingest, and standard input; a source that is not what it seems is an error."""

import gzip
import io
import json
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from support.ingest.dump_runs import DUMPS, LABEL, check_account, facts_of, write_table
from support.ingest.dump_world import WD
from support.ingest.knowledge_runs import build_knowledge_base
from support.ingest.quiet import QUIET

from refactx.errors import InputError
from refactx.ingest.profile import Profile
from refactx.ingest.source_options import Selection
from refactx.ingest.sources import STANDARD_INPUT


def test_formats_mix_and_the_error_about_a_wrong_file_says_what_was_expected(dumps: Path, tmp_path: Path) -> None:
    write_table(tmp_path / "table.csv")
    sources = [dumps / DUMPS[0], tmp_path / "table.csv"]
    built = check_account(build_knowledge_base(sources, tmp_path / "kb", resources=QUIET))
    assert ("Ann", "likes", "Bob") in facts_of(built)
    page, page_props = dumps / DUMPS[1], dumps / DUMPS[2]
    for name, content, message in (
        ("empty.nt", b"", "empty.nt is empty: expected N-Triples"),
        ("empty.csv.gz", b"", "empty.csv.gz is empty: expected a table with columns subject, predicate and object"),
        ("empty.ttl", b"", "empty.ttl is empty: expected Turtle"),
        ("a.parquet.gz", gzip.compress(b"PAR1" + bytes(9), mtime=0), "is a compressed Parquet file"),
        ("facts.csv", b"<a> <b> <c> .\n", "has no column subject, predicate, object"),
        (
            "l.csv",
            "subject,predicate,object,Größe\n".encode("latin-1"),
            r"l\.csv:1: not UTF-8, perhaps Latin-1: .*Größe",
        ),
        ("l.txt", "<Müller> <b> <c> .\n".encode("latin-1"), r"line 1: not UTF-8, perhaps Latin-1: .*<Müller>"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=message):
            build_knowledge_base([tmp_path / name], tmp_path / "kb", resources=QUIET)
    for wikipedia, message in (
        ((tmp_path / "empty.nt", page_props), "is empty: expected the dump of table page"),
        ((page_props, page), "is not a MySQL dump of table page: found a dump of table page_props"),
        ((page, dumps / DUMPS[0]), "is not a MySQL dump of table page_props"),
        ((page, tmp_path / "none"), "none does not exist"),
    ):
        with pytest.raises(InputError, match=message):
            build_knowledge_base(sources, tmp_path / "kb", wikipedia=wikipedia, resources=QUIET)


LIKES = (
    f'<{WD}Q1> <{LABEL}> "Ann"@en .\n<{WD}Q2> <{LABEL}> "Bob"@en .\n<{WD}P1> <{LABEL}> "likes"@en ',
    f"<{WD}Q1> <http://www.wikidata.org/prop/direct/P1> <{WD}Q2> ",
)
TURTLE = f"{LIKES[0]};\n\t<http://schema.org/name> 'likes' .\n{LIKES[1]}.\n"
QUADS = f"{LIKES[0]}.\n{LIKES[1]}<http://g.org/g> .\n"
TRIG = f"{LIKES[0]}.\n<http://g.org/g> {{\n{LIKES[1]}.\n}}\n"
JSON_LD = json.dumps(
    [
        {"@id": f"{WD}{id_}", LABEL: [{"@language": "en", "@direction": "ltr", "@value": name}]}
        for id_, name in {"Q1": "Ann", "Q2": "Bob", "P1": "likes"}.items()
    ]
    + [{"@graph": [{"@id": f"{WD}Q1", "http://www.wikidata.org/prop/direct/P1": [{"@id": f"{WD}Q2"}]}]}],
    indent=1,
)
TRIPLE_TERM = LIKES[1].replace(f"<{WD}Q2>", f"<<( {LIKES[1]})>>")
VERSION = f'VERSION "1.2"\n{LIKES[0].replace("@en", "@en--ltr")}.\n{LIKES[1]}.\n{TRIPLE_TERM}.\n'


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (TURTLE, ("a.ttl", "a.n3", "a.txt", "a.nt", "a", "a.rdf")),
        (QUADS, ("a.nq", "a.txt", "a.nt", "a", "a.ttl")),
        (TRIG, ("a.trig", "a.txt", "a.nt", "a", "a.ttl", "a.n3")),
        (JSON_LD, ("a.jsonld", "a.json", "a.ttl", "a.nt", "a")),
        (VERSION, ("a.nt", "a.nq", "a.ttl", "a.trig", "a.n3", "a.txt", "a")),
        (
            f"@prefix : <x:> .\n{{ <x:a> <x:b> <x:c> }} => {{ <{WD}Q1> <{LABEL}> 'no'@en }} .\n{TURTLE}",
            ("a.n3", "a.nt", "a"),
        ),
        ("sep=;\nsubject;predicate;object\nAnn;likes;Bob\n", ("a.csv", "a.tsv", "a", "a.txt")),
        ("# Facts, a, b\nFacts, a, b\n<Ann> <likes> <Bob> .\n", ("a.txt",)),
    ],
    ids=["Turtle", "N-Quads", "TriG", "JSON-LD", "RDF 1.2", "N3", "Excel", "facts"],
)
def test_a_file_is_read_as_what_it_is_whatever_its_name(tmp_path: Path, content: str, names: tuple[str, ...]) -> None:
    for name in names:
        (tmp_path / name).write_text(content)
        built = check_account(build_knowledge_base([tmp_path / name], tmp_path / "kb", resources=QUIET))
        assert facts_of(built) == Counter([("Ann", "likes", "Bob")]), name


@pytest.mark.parametrize("line", ["nonsense ;", f"<{WD}Q1> <{LABEL}>", f"<{WD}Q1> <{LABEL}> <{WD}Q 2> .", LIKES[1]])
def test_a_malformed_line_does_not_make_n_triples_another_syntax(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.nt").write_text(f"{LIKES[0]}.\n{line}\n{LIKES[1]}.\n{line}")
    report = build_knowledge_base([tmp_path / "a.nt"], tmp_path / "kb", resources=QUIET).report
    assert (report.facts, report.dropped) == (1, {"malformed": 2})


def test_turtle_after_the_first_lines_of_n_triples_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refactx.ingest.sources.BLOCK_BYTES", 100)
    monkeypatch.setattr("refactx.ingest.sources.CHUNK_BYTES", 100)
    (tmp_path / "a.nt").write_text(TURTLE)
    with pytest.raises(
        InputError, match=r"a\.nt:3: Turtle, not N-Triples: .*: give the file a name that ends in \.ttl"
    ):
        build_knowledge_base([tmp_path / "a.nt"], tmp_path / "kb", resources=QUIET)


@pytest.mark.parametrize("name", ["a.ttl", "a.nt"])
def test_a_graph_of_other_ids_than_its_profile_says_is_named(tmp_path: Path, name: str) -> None:
    selection = Selection(profile=Profile(name="wikidata"))
    (tmp_path / name).write_text(f'<http://x.org/a> <{LABEL}> "a"@en .\n<http://x.org/a> <http://x.org/b> "c" .\n')
    with pytest.raises(
        InputError, match=r"no fact in 2 lines, .*a\.\w+: it has no triple about an id of www\.wikidata\.org"
    ):
        build_knowledge_base([tmp_path / name], tmp_path / "kb", selection=selection, resources=QUIET)
    (tmp_path / "facts.txt").write_text("<a> <b> <c> .\n")
    sources = [tmp_path / name, tmp_path / "facts.txt"]
    built = build_knowledge_base(sources, tmp_path / "kb", selection=selection, resources=QUIET)
    assert [note.partition(": ")[0] for note in built.report.notes] == [str(tmp_path / name)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "The Matrix|type|Movie\nThe Matrix|released|1999\n",
            "give --no-header if this line is a fact, else --columns 1,2,3",
        ),
        ("head\trelation\ttail\na\tb\tc\n", r"head relation tail\): give --no-header if this line is a fact"),
        (
            '{"subject": "a"}\n{"subject": "b"}\n',
            "an object has the fields subject: expected subject, predicate and object",
        ),
        ("[" * 100_000, "is neither N-Triples nor ready-made facts"),
        ('{"@id": ' + "[" * 100_000, "a:1: more than 500 .* are nested"),
        ('{"@context": "https://schema.org/", "name": "x"}', "has a @context that is the address of a document"),
    ],
)
def test_what_is_no_source_is_an_error_that_says_what_to_do(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a").write_text(content)
    with pytest.raises(InputError, match=message):
        build_knowledge_base([tmp_path / "a"], tmp_path / "kb", resources=QUIET)


@pytest.mark.parametrize("name", ["a.nt", "a.nq", "a.txt", "a.csv", "a.tsv", "a.nt.gz", "a.txt.gz", "a.csv.gz"])
def test_lines_in_latin_1_are_named_and_not_changed(tmp_path: Path, name: str) -> None:
    good, bad = {
        "nt": (f"{LIKES[0]}.\n{LIKES[1]}.\n", f'<{WD}Q3> <{LABEL}> "Müller" .\n'),
        "txt": ("<Ann> <likes> <Bob> .\n", "<Müller> <likes> <Ann> .\n"),
        "csv": ("subject,predicate,object\nAnn,likes,Bob\n", "Müller,likes,Ann\n"),
    }[{"nq": "nt", "tsv": "csv"}.get(name.split(".")[1], name.split(".")[1])]
    content = (good + bad).encode("latin-1")
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    where = f"{tmp_path / name}:{good.count(chr(10)) + 1}: not UTF-8, perhaps Latin-1: give --encoding latin-1"
    if name.split(".")[1] in ("csv", "tsv"):
        with pytest.raises(InputError, match=re.escape(where)):
            build_knowledge_base([tmp_path / name], tmp_path / "kb", resources=QUIET)
        return
    built = build_knowledge_base([tmp_path / name], tmp_path / "kb", resources=QUIET)
    assert facts_of(built) == Counter([("Ann", "likes", "Bob")])
    (malformed,) = built.report.malformed
    assert malformed.startswith(where)


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
        TURTLE,
        QUADS,
        TRIG,
        JSON_LD,
        VERSION,
        "\ufeffsep=,\nsubject,predicate,object\nAnn,likes,Bob\n",
    ],
    ids=[
        "CSV",
        "ready-made facts",
        "N-Triples",
        "Turtle",
        "RDF/XML",
        "whole IRIs",
        "N-Quads",
        "TriG",
        "JSON-LD",
        "1.2",
        "Excel",
    ],
)
def test_the_format_of_standard_input_is_that_of_its_first_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode()))))  # type: ignore[arg-type]
    built = check_account(build_knowledge_base([STANDARD_INPUT], tmp_path / "kb", resources=QUIET))
    assert facts_of(built) == Counter([("Ann", "likes", "Bob")])
