"""Turtle and RDF/XML, as Wikidata exports entities: a triple has the same outcome as a line of a dump."""

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from refactx.entity_ids import entity_number
from refactx.errors import InputError
from refactx.ingest.parsers.parsed import DESCRIPTION, LABEL, TITLE, Parsed
from refactx.ingest.parsers.rdf import parse_rdf
from refactx.ingest.sources import BlockStream, Source

PREFIXES = """\
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix ontolex: <http://www.w3.org/ns/lemon/ontolex#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix wikibase: <http://wikiba.se/ontology#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix schema: <http://schema.org/> .
@prefix geo: <http://www.opengis.net/ont/geosparql#> .
@prefix wd: <http://www.wikidata.org/entity/> .
@prefix data: <https://www.wikidata.org/wiki/Special:EntityData/> .
@prefix s: <http://www.wikidata.org/entity/statement/> .
@prefix wdt: <http://www.wikidata.org/prop/direct/> .
@prefix wdtn: <http://www.wikidata.org/prop/direct-normalized/> .
@prefix p: <http://www.wikidata.org/prop/> .
@prefix ps: <http://www.wikidata.org/prop/statement/> .
@prefix pq: <http://www.wikidata.org/prop/qualifier/> .
@prefix wdno: <http://www.wikidata.org/prop/novalue/> .
"""


def parse(folder: Path, content: str | bytes, name: str = "graph.ttl") -> Parsed:
    """Return the outcome of a file's triples; check the account."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    whole = Parsed(lines=0)
    for parsed in parse_rdf(Source(path), "RDF/XML" if path.suffix == ".rdf" else "Turtle"):
        whole.lines += parsed.lines
        whole.dropped += parsed.dropped
        whole.faults += parsed.faults
        for table, rows in parsed.tables.items():
            whole.tables[table] = pa.concat_tables([whole.tables[table], rows] if table in whole.tables else [rows])
    used = len(whole.tables["claims"]) + len(whole.tables["terms"])
    assert whole.lines == used + sum(whole.dropped.values()) + len(whole.faults)
    return whole


def id_of(number: int) -> str:
    return f"{'QP'[number % 2]}{number // 2}"


def terms_of(parsed: Parsed) -> set[tuple[str, int, str]]:
    return {(id_of(row["entity"]), row["kind"], row["text"]) for row in parsed.tables["terms"].to_pylist()}


def claims_of(parsed: Parsed) -> set[tuple[str, str, str]]:
    rows = parsed.tables["claims"].to_pylist()
    return {(id_of(row["subject"]), id_of(row["property"]), row["text"] or id_of(row["object"])) for row in rows}


def test_an_item_with_its_statements_gives_what_a_truthy_dump_gives(tmp_path: Path) -> None:
    parsed = parse(
        tmp_path,
        PREFIXES
        + """
wd:Q42 a wikibase:Item ;
	rdfs:label "Douglas Adams"@en , "Douglas Adams"@fr ;
	skos:prefLabel "Douglas Adams"@en ;
	schema:description "English writer"@en ;
	skos:altLabel "DNA"@en ;
	wdt:P31 wd:Q5 ;
	wdt:P569 "1952-03-11T00:00:00Z"^^xsd:dateTime ;
	wdt:P2048 "+1.96"^^xsd:decimal ;
	wdt:P625 "Point(13.38 52.51)"^^geo:wktLiteral ;
	wdt:P1477 "Douglas \\"Noël\\" Adams"@en ;
	wdt:P18 <http://commons.wikimedia.org/wiki/Special:FilePath/A.jpg> ;
	wdt:P856 <http://douglasadams.com> ;
	wdtn:P214 <http://viaf.org/viaf/113230702> ;
	p:P31 s:Q42-F078E5B3 .
s:Q42-F078E5B3 a wikibase:Statement , wikibase:BestRank ;
	wikibase:rank wikibase:NormalRank ;
	ps:P31 wd:Q5 ;
	pq:P580 "1952-03-11T00:00:00Z"^^xsd:dateTime .
""",
    )
    assert claims_of(parsed) == {
        ("Q42", "P31", "Q5"),
        ("Q42", "P569", "1952-03-11"),
        ("Q42", "P2048", "1.96"),
        ("Q42", "P625", "52.51°N, 13.38°E"),
        ("Q42", "P1477", 'Douglas "Noël" Adams'),
    }
    assert terms_of(parsed) == {("Q42", LABEL, "Douglas Adams"), ("Q42", DESCRIPTION, "English writer")}
    assert parsed.dropped["not a fact"] == 7  # the item's type, p:P31, and the statement


@pytest.mark.parametrize(
    ("excerpt", "dropped"),
    [
        ("wd:Q6825 owl:sameAs wd:Q26709563 .", {"redirect": 1}),
        ("wd:Q54872 wdt:P576 _:genid1 .", {"unknown value": 1}),
        ("wd:Q54872 wdt:P576 [] .", {"unknown value": 1}),
        ("wd:Q54872 wdt:P576 <http://www.wikidata.org/.well-known/genid/5f0a> .", {"unknown value": 1}),
        ("wd:Q54872 a wdno:P576 .", {"no value": 1}),
        ('wd:L42 a ontolex:LexicalEntry ; wikibase:lemma "answer"@en ; wdt:P5275 "189259" .', {"lexeme": 3}),
        ('wd:L42-F1 ontolex:representation "answers"@en .', {"lexeme": 1}),
        ('wd:L42-S1 skos:definition "reply"@en ; rdfs:label "reply"@en ; wdt:P5137 wd:Q2684591 .', {"lexeme": 3}),
        ("wd:Q2684591 wdt:P5137 wd:L42-S1 .", {"lexeme": 1}),
        ('data:Q31 a schema:Dataset ; schema:version "1055847656"^^xsd:integer .', {"not a fact": 2}),
        ('wikibase:Dump a schema:Dataset ; schema:softwareVersion "1.0.0" .', {"not a fact": 2}),
        (
            "<https://it.wikivoyage.org/wiki/Belgio> a schema:Article ; schema:about wd:Q31 .",
            {"not a fact": 1, "other wiki": 1},
        ),
        ('<https://it.wikivoyage.org/wiki/Belgio> schema:name "Belgio"@it .', {"duplicate name": 1}),
        ('<https://en.wikipedia.org/> wikibase:wikiGroup "wikipedia" .', {"not a fact": 1}),
    ],
)
def test_odd_triples_are_dropped_for_a_named_reason(tmp_path: Path, excerpt: str, dropped: dict[str, int]) -> None:
    parsed = parse(tmp_path, PREFIXES + excerpt)
    assert parsed.dropped == dropped
    assert not parsed.faults


def test_a_sitelink_is_a_title(tmp_path: Path) -> None:
    link = "<https://en.wikipedia.org/wiki/Resource_Description_Framework> schema:about wd:Q54872 ."
    assert terms_of(parse(tmp_path, PREFIXES + link)) == {("Q54872", TITLE, "Resource Description Framework")}


def test_properties_that_are_left_out_are_known(tmp_path: Path) -> None:
    parsed = parse(tmp_path, PREFIXES + "wd:P214 wikibase:propertyType wikibase:ExternalId .")
    assert parsed.tables["left_out"].to_pylist() == [
        {"property": entity_number("P214"), "reason": "external identifier"}
    ]


def test_language_tags_as_wikidata_has_them_are_no_error(tmp_path: Path) -> None:
    assert parse(tmp_path, PREFIXES + 'wd:Q1 rdfs:label "x"@de-formalities .').dropped == {"other language": 1}


def test_many_triples_come_in_blocks_and_out_of_an_archive(tmp_path: Path) -> None:
    lines = "".join(f"wd:Q{number} wdt:P31 wd:Q5 .\n" for number in range(1, 120_001))
    path = tmp_path / "graph.ttl.gz"
    path.write_bytes(gzip.compress((PREFIXES + lines).encode(), 1))
    blocks = list(parse_rdf(Source(path), "Turtle"))
    assert [block.lines for block in blocks] == [50_000, 50_000, 20_000]
    assert blocks[2].tables["claims"]["subject"][-1].as_py() == entity_number("Q120000")


def test_rdf_xml_is_read(tmp_path: Path) -> None:
    content = """<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:wdt="http://www.wikidata.org/prop/direct/">
  <rdf:Description rdf:about="http://www.wikidata.org/entity/Q42">
    <wdt:P31 rdf:resource="http://www.wikidata.org/entity/Q5"/><wdt:P1>a &lt; b</wdt:P1>
  </rdf:Description>
</rdf:RDF>"""
    assert claims_of(parse(tmp_path, content, "graph.rdf")) == {("Q42", "P31", "Q5"), ("Q42", "P1", "a ‹ b")}


def test_a_triple_that_is_none_in_n_triples_is_counted_as_malformed(tmp_path: Path) -> None:
    parsed = parse(tmp_path, "\ufeff" + PREFIXES + "wd:Q1 wdt:P31 wd:Q5 .\nwd:Q1 wdt:P31 <relative> .\n")
    assert len(parsed.tables["claims"]) == 1
    assert parsed.faults[0][0] == 2
    assert parsed.faults[0][1].startswith("triple 2: not a triple: <http://www.wikidata.org/entity/Q1>")


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (
            "@prefix x: <http://x/> .\nx:a x:b x:c .\nx:a x:b y:c .\n",
            "a.ttl",
            "a.ttl:3:9: this is not Turtle: The prefix y:",
        ),
        ("<http://x/a> <http://x/b> 'open .\n", "a.ttl", "a.ttl:1:27: this is not Turtle: Unexpected end of file"),
        ("<http://x/a> <http://x/b> <http://x/c>", "a.ttl", "a.ttl:1:39: this is not Turtle: Unexpected end"),
        (
            b"<http://x/a> <http://x/b>\n 'caf\xe9' .",
            "a.ttl",
            "a.ttl:2: not UTF-8, perhaps Latin-1: give --encoding latin-1",
        ),
        (
            b'<?xml version="1.0" encoding="ISO-8859-1"?>\n<a>caf\xe9</a>',
            "a.rdf",
            "a.rdf:2: not UTF-8, perhaps Latin-1",
        ),
        ('<?xml version="1.0" encoding="ISO-8859-1"?>\n<a/>', "a.rdf", "a.rdf declares another encoding than UTF-8"),
        (
            "<Danny Boyle> <date of birth> <1956-10-20> .",
            "a.ttl",
            "is not Turtle: triple 1: not a triple: <Danny Boyle>",
        ),
        (
            "# nothing\n",
            "a.ttl",
            "a.ttl is not Turtle: it has no triples; expected triples such as ex:Graz",
        ),
        (
            "<http://x/a b> <http://x/b> <http://x/c> .",
            "a.ttl",
            "triple 1: an IRI has a space in it (write %20): <http://x/a b>; expected triples such as ex:Graz",
        ),
        (
            '<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="http://x/">'
            '<r:Description r:about="http://x/a|b"><x:p>c</x:p></r:Description></r:RDF>',
            "a.rdf",
            "an IRI has '|' in it (write %7C): <http://x/a|b>; expected triples such as <rdf:",
        ),
        ("", "a.ttl", "a.ttl is empty"),
        ("nonsense", "a.rdf", "a.rdf: this is not RDF/XML: "),
        (
            gzip.compress(b"<http://x/a> <http://x/b> <http://x/c> .\n" * 999, mtime=0)[:-9],
            "a.ttl",
            "a.ttl is a truncated gzip file",
        ),
    ],
)
def test_a_file_of_another_kind_is_an_error_that_says_where(
    tmp_path: Path, content: str | bytes, name: str, message: str
) -> None:
    with pytest.raises(InputError) as error:
        parse(tmp_path, content, name)
    assert message in str(error.value)


def test_a_source_reads_as_a_file_without_its_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.ttl"
    path.write_bytes(b"\xef\xbb\xbfabcdef\n")
    with BlockStream(Source(path).blocks()) as stream:
        assert (stream.read(3), stream.read(), stream.read(5)) == (b"abc", b"def\n", b"")
    with BlockStream(Source(path).blocks()) as stream:
        buffer = bytearray(5)
        assert (stream.readinto(buffer), buffer) == (5, b"abcde")
