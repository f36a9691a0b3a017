"""Answers of two stores compared: rows, values and limits; and the figures of the store of an index."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from pyoxigraph import RdfFormat, Store
from support.ingest.tiny import ingest_tiny

from bench.stores.__main__ import main
from bench.stores.comparison import compare

CLAIMS = """
<http://www.wikidata.org/entity/Q1> <http://www.wikidata.org/prop/direct/P1> "1.50"^^<{xsd}double> .
<http://www.wikidata.org/entity/Q1> <http://www.wikidata.org/prop/direct/P2> <http://www.wikidata.org/entity/Q2> .
<http://www.wikidata.org/entity/Q1> <http://www.w3.org/2000/01/rdf-schema#label> "Ann"@en .
<http://www.wikidata.org/entity/Q2> <http://www.w3.org/2000/01/rdf-schema#label> "Bé"@en .
<http://www.wikidata.org/entity/P1> <http://www.w3.org/2000/01/rdf-schema#label> "size"@en .
<http://www.wikidata.org/entity/P2> <http://www.w3.org/2000/01/rdf-schema#label> "child"@en .
""".replace("{xsd}", "http://www.w3.org/2001/XMLSchema#")


def store(text: str) -> Store:
    made = Store()
    made.load(text.encode(), RdfFormat.N_TRIPLES)
    return made


@pytest.mark.parametrize(
    ("query", "outcome"),
    [
        ("SELECT ?x { ?x rdfs:label ?name FILTER(STRSTARTS(?name, 'B')) }", "same"),
        ("SELECT ?x { wd:Q1 wdt:P1 ?x }", "values"),
        ("SELECT ?x { ?x wdt:P2 wd:Q2 }", "more"),
        ("SELECT ?x { ?x wdt:P2 wd:Q2 } LIMIT 1", "more"),
        ("SELECT ?x { wd:Q3 rdfs:label ?x }", "other"),
        ("ASK { wd:Q1 wdt:P2 wd:Q2 }", "same"),
        ("ASK { wd:Q2 wdt:P2 wd:Q2 }", "other"),
        ("SELECT ?x { ?x rdfs:label ?name } ORDER BY ?name LIMIT 1", "other"),
        ("SELECT ?x { ?x wdt:P1 ?size } ORDER BY ?size LIMIT 1", "same"),
        ("SELECT (COUNT(?x) AS ?n) { ?x wdt:P2 wd:Q2 }", "other"),
    ],
)
def test_outcomes(query: str, outcome: str) -> None:
    changed = CLAIMS.replace("1.50", "1.5").replace("double", "decimal")
    label, child = "http://www.w3.org/2000/01/rdf-schema#label", "http://www.wikidata.org/prop/direct/P2"
    changed += f"<http://www.wikidata.org/entity/Q2> <{child}> <http://www.wikidata.org/entity/Q2> .\n"
    removed = f'<http://www.wikidata.org/entity/Q3> <{label}> "A0"@en .\n'
    assert compare(query, store(CLAIMS + removed), store(changed)) == outcome


def test_the_command(db_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFACTX_DB", db_url)
    claims, questions = tmp_path / "claims.nt", tmp_path / "questions.jsonl"
    claims.write_text(CLAIMS)
    questions.write_text('{"id": "1", "kind": "string", "sparql": "SELECT ?x { ?x rdfs:label \\"Ann\\"@en }"}\n')
    ingest_tiny(db_url, claims, "small")
    done = CliRunner().invoke(main, [str(questions), str(claims), "small"], catch_exceptions=False)
    assert "store of small: 2 facts, 10 triples (5.00 a fact)" in done.output
    assert "string           1       1       0       0       0" in done.output
