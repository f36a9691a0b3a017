"""Turtle and RDF/XML, as Wikidata exports entities: a triple has the same outcome as a line of a dump."""

import gzip
import io
import re
from pathlib import Path

import pyarrow as pa
import pytest

from refactx.entity_ids import entity_number
from refactx.errors import InputError
from refactx.ingest.parsers.formats import format_of, published_quads
from refactx.ingest.parsers.parsed import DESCRIPTION, LABEL, TITLE, Parsed
from refactx.ingest.parsers.rdf import NO_IRI, parse_rdf
from refactx.ingest.profile import Profile
from refactx.ingest.source_options import Selection
from refactx.ingest.sources import STANDARD_INPUT, BlockStream, Source

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
    tables = (
        "claims",
        "terms",
        "snaks",
        "ranks",
        "value_nodes",
    )  # (what joins a statement to its subject is structure)
    used = sum(len(whole.tables[table]) for table in tables if table in whole.tables)
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
    assert [len(parsed.tables[table]) for table in ("statements", "ranks", "snaks")] == [1, 1, 2]


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
    parsed = parse(tmp_path, "\ufeff" + PREFIXES + "wd:Q1 wdt:P31 wd:Q5 .\nwd:Q1 wdt:P31 <http://x/a b> .\n")
    assert len(parsed.tables["claims"]) == 1
    assert parsed.faults[0][0] == 2
    assert parsed.faults[0][1].startswith("triple 2: an IRI has a space in it")


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
            "is not Turtle: triple 1: an IRI has a space in it",
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
        ("nonsense", "a.rdf", "a.rdf:1:0: this is not XML: syntax error"),
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


EX = "http://example.org/"
RELATIVE = {
    "a.ttl": "@prefix : <#> . :ann :knows <other/bo> .",
    "b.trig": "@prefix : <#> . <g> { :ann :knows <other/bo> }",
    "c.n3": "@prefix : <#> . :ann :knows <other/bo> .",
    "d.rdf": '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="BASE#">'
    '<rdf:Description rdf:ID="ann"><e:knows rdf:resource="other/bo"/></rdf:Description></rdf:RDF>',
    "e.jsonld": '{"@context": {"@vocab": "#"}, "@id": "#ann", "knows": {"@id": "other/bo"}}',
}


def ids_in(source: Source) -> set[str]:
    found: set[str] = set()
    for parsed in parse_rdf(source, format_of(source), Selection(profile=Profile())):
        assert not parsed.faults
        found |= set(parsed.tables["ids"]["id"].to_pylist())
    return found


@pytest.mark.parametrize("name", RELATIVE)
def test_relative_iris_begin_with_the_address_of_the_file_or_the_base(tmp_path: Path, name: str) -> None:
    path, archive = tmp_path / name, tmp_path / f"{name}.gz"
    address = path.as_uri()
    path.write_text(RELATIVE[name].replace("BASE", address))
    archive.write_bytes(gzip.compress(path.read_bytes()))
    wanted = {f"{address}#ann", f"{address}#knows", f"{tmp_path.as_uri()}/other/bo"}
    assert ids_in(Source(path)) == ids_in(Source(archive)) == wanted
    path.write_text(RELATIVE[name].replace("BASE", f"{EX}d"))
    assert ids_in(Source(path, base=f"{EX}d")) == {f"{EX}d#ann", f"{EX}d#knows", f"{EX}other/bo"}


@pytest.mark.parametrize("name", RELATIVE)
def test_the_store_takes_the_same_iris_as_the_ingest(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(RELATIVE[name].replace("BASE", EX))
    (quad,) = published_quads([path])
    terms = {getattr(term, "value", "") for term in quad.triple}
    assert terms == ids_in(Source(path))


def test_a_stream_has_its_name_as_its_address() -> None:
    stream = io.BufferedReader(io.BytesIO(b"@prefix : <#> . :ann :knows :bo ."))
    base = "file:///a%20b%2Fc"
    found = ids_in(Source(STANDARD_INPUT, stream=("a b/c", stream)))
    assert found == {f"{base}#ann", f"{base}#knows", f"{base}#bo"}


def test_texts_like_labels_of_blank_nodes_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.ttl").write_text('<x:a> <x:p> "_:cafe", "> _:b1 ." . [] <x:p> "_:b1" . _:b0 <x:p> _:ab-c, _:ab .')
    source = Source(tmp_path / "a.ttl")
    (parsed,) = parse_rdf(source, "Turtle", Selection(profile=Profile()))
    assert set(parsed.tables["claims"]["text"].to_pylist()) == {"_:cafe", "› _:b1 .", "_:b1", None}
    assert sum(id_.startswith("_:") for id_ in parsed.tables["ids"]["id"].to_pylist()) == 4


def test_a_triple_that_is_said_twice_is_counted_as_a_duplicate(tmp_path: Path) -> None:
    (tmp_path / "a.jsonld").write_text('{"@id": "x:a", "x:p": ["b", "b", "c"]}')
    (parsed,) = parse_rdf(Source(tmp_path / "a.jsonld"), "JSON-LD", Selection(profile=Profile()))
    assert (parsed.lines, parsed.statements, parsed.dropped) == (3, 2, {"duplicate": 1})


def test_keys_that_no_context_maps_have_no_triples(tmp_path: Path) -> None:
    text = '{"@id": "x:a", "x:p": 1, "nick": "A", "spot": {"x:q": 2, "x:r": {"x:s": 3}}, "x:t": {"@id": "http://a b"}}'
    (tmp_path / "a.jsonld").write_text(text)
    source = Source(tmp_path / "a.jsonld")
    (parsed,) = parse_rdf(source, "JSON-LD", Selection(profile=Profile()))
    assert (parsed.statements, parsed.dropped, parsed.faults) == (1, {NO_IRI: 6}, [])
    assert len(list(published_quads([source.path]))) == 1


def test_contexts_beside_a_file_are_read(tmp_path: Path) -> None:
    (tmp_path / "terms").mkdir()
    (tmp_path / "terms/one.jsonld").write_text(
        '{"@context": {"@base": "x:not/", "p": "x:p", "q": {"@id": "x:q", "@context": "two.jsonld"}}}'
    )
    (tmp_path / "terms/two.jsonld").write_text('{"@context": {"r": "x:r"}}')
    (tmp_path / "a.jsonld").write_text(
        '{"@context": [{"@base": "x:yes/"}, "terms/one.jsonld", {"@import": "terms/two.jsonld", "s": "x:s"}], "@id": "a", '
        '"p": 1, "q": {"r": 2}, "s": 3}'
    )
    found = {(str(quad.subject), quad.predicate.value) for quad in published_quads([tmp_path / "a.jsonld"])}
    assert {("<x:yes/a>", "x:p"), ("<x:yes/a>", "x:q"), ("<x:yes/a>", "x:s")} < found
    assert "x:r" in {predicate for _, predicate in found}


@pytest.mark.parametrize(
    ("name", "says"),
    [("../secret.jsonld", "not beside it"), ("/etc/passwd", "not beside it"), ("self.jsonld", "includes itself")],
)
def test_contexts_elsewhere_and_circles_are_refused(tmp_path: Path, name: str, says: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "secret.jsonld").write_text('{"@context": {}}')
    (folder / "self.jsonld").write_text('{"@context": {"p": {"@id": "x:p", "@context": "self.jsonld"}}}')
    (folder / "a.jsonld").write_text(f'{{"@context": "{name}", "p": 1}}')
    with pytest.raises(InputError, match=says):
        list(published_quads([folder / "a.jsonld"]))


DESCRIPTION_OF = '<rdf:Description rdf:about="http://e/{0}"><e:p>{0}</e:p></rdf:Description>'


@pytest.mark.parametrize("at", [0, 1, 17])
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("a.rdf", '<rdf:Description rdf:ID="4-x"><e:p>1</e:p></rdf:Description>'),
        ("a.rdf", '<rdf:Description rdf:about="x:a"><e:p rdf:resource="x:b" rdf:nodeID="c"/></rdf:Description>'),
        ("a.rdf", "<e:p>"),
        ("a.jsonld", '{"@id": "x:a", "x:p": {"@value": "a", "@language": 5}}'),
        ("a.jsonld", '{"@id": 5}'),
        ("a.jsonld", '{"@id": "x:a" "x:p": 1}'),
    ],
)
def test_an_error_says_its_line(tmp_path: Path, name: str, wrong: str, at: int) -> None:
    if name == "a.rdf":
        parts = [DESCRIPTION_OF.format(number) for number in range(20)]
        begin = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/#">'
        parts[at] = wrong
        lines = [begin, *parts, "</rdf:RDF>"]
    else:
        parts = [f'{{"@id": "http://e/{number}", "http://e/p": {number}}}' for number in range(20)]
        parts[at] = wrong
        lines = ["[", *(f"{part}," for part in parts[:-1]), f"{parts[-1]}]"]
    (tmp_path / name).write_text("\n".join(lines))
    with pytest.raises(InputError) as error:
        list(published_quads([tmp_path / name]))
    (line,) = map(int, re.findall(rf"{name}:(\d+):", str(error.value)))
    assert line == len(lines) if wrong == "<e:p>" else at + 2 <= line <= at + 3


def test_a_source_reads_as_a_file_without_its_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.ttl"
    path.write_bytes(b"\xef\xbb\xbfabcdef\n")
    with BlockStream(Source(path).blocks()) as stream:
        assert (stream.read(3), stream.read(), stream.read(5)) == (b"abc", b"def\n", b"")
    with BlockStream(Source(path).blocks()) as stream:
        buffer = bytearray(5)
        assert (stream.readinto(buffer), buffer) == (5, b"abcde")


def rdf_xml(*parts: str) -> str:
    head = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/#">'
    return "\n".join([head, *parts, "</rdf:RDF>"])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('<rdf:Description rdf:ID="a"><e:p>1</e:p></rdf:Description>',) * 2,
        ('<e:T rdf:ID="a"/>', '<rdf:Description rdf:about="x:b"><e:p rdf:ID="a">2</e:p></rdf:Description>'),
        ('<e:T rdf:ID="a"/>', '<r:Description xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" r:ID="a"/>'),
        ('<e:T xml:base="http://b/c" rdf:ID="a"/>', '<e:T xml:base="http://b/c#d"><e:p><e:T rdf:ID="a"/></e:p></e:T>'),
    ],
)
def test_an_rdf_id_that_is_there_twice_is_an_error(tmp_path: Path, first: str, second: str) -> None:
    (tmp_path / "a.rdf").write_text(rdf_xml(first, '<e:T rdf:ID="b"/>', second))
    with pytest.raises(InputError, match=r"a\.rdf:4: this is not RDF/XML: rdf:ID 'a' is that of line 2 too: "):
        list(published_quads([tmp_path / "a.rdf"]))


@pytest.mark.parametrize(
    "second",
    [
        '<e:T rdf:about="#a"><e:p>2</e:p></e:T>',
        '<e:T xml:base="http://other/" rdf:ID="a"/>',
        '<e:T e:ID="a"/>',
        '<e:T><e:p rdf:parseType="Literal"><e:T rdf:ID="a"/></e:p></e:T>',
    ],
)
def test_an_rdf_id_names_one_thing_of_each_base(tmp_path: Path, second: str) -> None:
    (tmp_path / "a.rdf").write_text(rdf_xml('<e:T rdf:ID="a"/>', second))
    assert len(list(published_quads([tmp_path / "a.rdf"]))) >= 2
