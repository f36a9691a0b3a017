"""Sources of several formats in one ingest, and standard input; a source that is not what it seems is an error."""

import gzip
import io
import sys
from collections import Counter
from pathlib import Path

import pytest
from support.ingest.dump_runs import DUMPS, LABEL, check_account, facts_of, write_table
from support.ingest.dump_world import WD
from support.ingest.quiet import QUIET

from refactx.errors import InputError
from refactx.ingest.knowledge.knowledge_base import build_knowledge_base
from refactx.ingest.sources.source import STANDARD_INPUT


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
def test_the_format_of_standard_input_is_that_of_its_first_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode()))))  # type: ignore[arg-type]
    built = check_account(build_knowledge_base([STANDARD_INPUT], tmp_path / "kb", resources=QUIET))
    assert facts_of(built) == Counter([("Ann", "likes", "Bob")])
