"""Source files → knowledge base: facts, names, and an account of every line."""

import bz2
import gzip
import itertools
import lzma
import os
import random
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support import brute_force

import refactx
from refactx.errors import InputError
from refactx.fact import MAX_PART_CHARACTERS, clean_part
from refactx.ingest.knowledge.knowledge_base import KnowledgeBase, build_knowledge_base
from refactx.ingest.parsers import ready_made
from refactx.ingest.sources import source as sources

SAMPLE = Path(refactx.__path__[0]) / "data" / "wikidata-sample.nt.gz"
ENTITY = "http://www.wikidata.org/entity/"
DIRECT = "http://www.wikidata.org/prop/direct/"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
DESCRIPTION = "http://schema.org/description"
SAME_AS = "http://www.w3.org/2002/07/owl#sameAs"
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
XSD = "http://www.w3.org/2001/XMLSchema#"
Fact = tuple[str, str, str]

NAMED = [
    f'<{ENTITY}P1> <{LABEL}> "likes"@en .',
    f'<{ENTITY}Q1> <{LABEL}> "Ann"@en .',
    f'<{ENTITY}Q2> <{LABEL}> "Bob"@en .',
]
CLAIM = f"<{ENTITY}Q1> <{DIRECT}P1> <{ENTITY}Q2> ."


def build(folder: Path, content: str | bytes, name: str = "source.nt", *, strict: bool = False) -> KnowledgeBase:
    source = folder / name
    source.write_bytes(content.encode() if isinstance(content, str) else content)
    return build_knowledge_base([source], folder / "kb", strict=strict, progress=False)


def facts_of(built: KnowledgeBase) -> set[Fact]:
    """The facts as text; on the way, every promise about the files and the account is checked."""
    units = pq.read_table(built.folder / "units.parquet")
    texts = units["text"].to_pylist()
    assert units["unit"].to_pylist() == list(range(len(texts)))
    assert len(set(texts)) == len(texts)
    assert all(text and clean_part(text) == text and len(text) <= MAX_PART_CHARACTERS for text in texts)
    columns = pq.read_table(built.folder / "facts.parquet").to_pydict()
    assert list(columns) == ["subject", "predicate", "object"]
    triples = list(zip(*columns.values(), strict=True))
    assert set(itertools.chain(*triples)) == set(range(len(texts)))
    facts = {(texts[s], texts[p], texts[o]) for s, p, o in triples}
    report = built.report
    assert len(facts) == len(triples) == report.facts == report.claims + report.descriptions + report.derived
    assert report.lines_read == report.kept + sum(report.dropped.values())
    assert list(report.dropped) == sorted(report.dropped)
    assert all(report.dropped.values())
    assert sorted(p.name for p in built.folder.iterdir()) == ["facts.parquet", "names.parquet", "units.parquet"]
    assert set(pq.read_table(built.folder / "names.parquet")["name"].to_pylist()) <= set(texts)
    return facts


def nt(*lines: str) -> str:
    return "\n".join([*NAMED, *lines]) + "\n"


def literal(written: str) -> str:
    return f"<{ENTITY}Q1> <{DIRECT}P1> {written} ."


def test_the_sample_gives_the_facts_that_a_brute_force_twin_computes(tmp_path: Path) -> None:
    built = build_knowledge_base([SAMPLE], tmp_path / "kb", progress=False)
    assert facts_of(built) == brute_force.facts_of(SAMPLE)
    assert built.report.claims > 5000
    assert built.report.malformed == ()


@pytest.mark.slow
def test_larger_data_give_the_facts_that_a_brute_force_twin_computes(tmp_path: Path) -> None:
    for source in large_sources():
        assert facts_of(build_knowledge_base([source], tmp_path / "kb", progress=False)) == brute_force.facts_of(source)


def large_sources() -> list[Path]:
    """Gzipped N-Triples in the folder that `REFACTX_BENCH_DATA` names; the sample where it names none."""
    folder = os.environ.get("REFACTX_BENCH_DATA")
    return sorted(Path(folder).glob("*.nt.gz")) if folder else [SAMPLE]


def test_every_part_of_a_fact_about_entities_leads_back_to_its_id(tmp_path: Path) -> None:
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
        ("age", "P3", "literal"),
    }


def test_the_result_does_not_depend_on_the_order_of_the_lines(tmp_path: Path) -> None:
    lines = gzip.decompress(SAMPLE.read_bytes()).decode().splitlines()
    random.Random(7).shuffle(lines)
    first = build_knowledge_base([SAMPLE], tmp_path / "first", progress=False)
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
    built = build_knowledge_base([tmp_path / "a.nt", tmp_path / "b.txt"], tmp_path / "kb", progress=False)
    assert facts_of(built) == {("likes", "description", "a relation")}
    assert (built.report.claims, built.report.descriptions) == (1, 0)
    assert built.report.dropped == {"duplicate": 1, "unused name": 2}


@pytest.mark.parametrize("name", ["description", "short description"])
def test_what_is_called_as_the_predicate_of_descriptions_gets_its_id(tmp_path: Path, name: str) -> None:
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


def test_malformed_lines_are_counted_and_the_first_ones_reported(tmp_path: Path) -> None:
    bad = [f"bad line {number}" for number in range(12)]
    built = build(tmp_path, nt(*bad).encode() + b'<x:s> <x:p> "\xff" .\n' + CLAIM.encode())
    assert facts_of(built) == {("Ann", "likes", "Bob")}
    assert built.report.dropped == {"malformed": 13}
    assert built.report.malformed[0] == f"{tmp_path}/source.nt:4: not a triple: bad line 0"
    assert len(built.report.malformed) == 10


@pytest.mark.parametrize("name", ["source.nt", "facts.txt"])
def test_strict_makes_the_first_malformed_line_an_error(tmp_path: Path, name: str) -> None:
    content = nt(CLAIM, "nonsense") if name == "source.nt" else "<a> <b> <c> .\n" * 4 + "nonsense"
    with pytest.raises(InputError, match=rf"{name}:5: not .*nonsense"):
        build(tmp_path, content, name, strict=True)
    assert list((tmp_path / "kb").iterdir()) == []


def test_ready_made_facts_are_the_same_fact_in_any_white_space(tmp_path: Path) -> None:
    forms = [
        "<a b> <is> <c> .",
        " <a  b>\t<is>   <c>",
        "< a b > <is> <c>.",
        "<a\u00a0b> <is> <c> .\r",
        "<a b> <i\u200bs> <c> .",
    ]
    built = build(tmp_path, "\ufeff" + "\n".join(forms), "facts.txt")
    assert facts_of(built) == {("a b", "is", "c")}
    assert built.report.dropped == {"duplicate": 4}
    assert pq.read_table(built.folder / "names.parquet").num_rows == 0


def test_what_becomes_of_odd_ready_made_lines(tmp_path: Path) -> None:
    lines = [
        "<1 < 2> <is> <a>b> .",
        '<"q"> <is> <\u200fשלום 😀> .',
        "<e\u0301> <is> <é> .",
        "<> <is> <x> .",
        "< \u200b > <is> <x> .",
        "<a> <b> <c> <d> .",
        "<a> <b> .",
        "a b c",
        "",
        "# comment",
    ]
    built = build(tmp_path, "\n".join(lines) + "\n", "facts.txt.gz")
    expected = {("1 ‹ 2", "is", "a›b"), ('"q"', "is", "שלום 😀"), ("é", "is", "é")}
    assert facts_of(built) == expected
    assert built.report.dropped == {"blank": 1, "comment": 1, "empty part": 2, "malformed": 3}


def test_plain_characters_are_those_that_cleaning_leaves_alone_in_any_company() -> None:
    letters = [chr(code) for code in range(0x11000) if not 0xD800 <= code < 0xE000 and chr(code) not in "\n<>"]
    parsed = ready_made.parse_block("".join(f"<{c}> <{c}x> <x {c}> .\n" for c in letters).encode(), 1)
    expected = Counter((clean_part(c), clean_part(c + "x"), clean_part("x " + c)) for c in letters if clean_part(c))
    assert Counter(zip(*parsed.tables["ready"].to_pydict().values(), strict=True)) == expected


def test_sources_of_several_kinds_add_up(tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text(nt(CLAIM))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"<Ann> <likes> <Bob> .\n<Bob> <likes> <Ann> .\n"))
    built = build_knowledge_base([tmp_path / "a.nt", tmp_path / "b.txt.gz"], tmp_path / "kb", progress=False)
    assert facts_of(built) == {("Ann", "likes", "Bob"), ("Bob", "likes", "Ann")}
    assert built.report.dropped == {"duplicate": 1}


def test_many_blocks_and_gzip_members_read_as_one_file(tmp_path: Path) -> None:
    lines = [f"<subject {number}> <number> <{number}> .\n" for number in range(400_000)]
    content = "".join(lines[:-1]).encode() + b"x" * 100 + b"\n" + lines[-1].removesuffix("\n").encode()
    cut = len(content) // 3
    built = build(tmp_path, gzip.compress(content[:cut], 1) + gzip.compress(content[cut:], 1), "f.txt")
    assert built.report.facts == 400_000
    assert built.report.malformed[0].startswith(f"{tmp_path}/f.txt:400000: ")


def test_a_highly_compressed_file_is_read_in_bounded_pieces(tmp_path: Path) -> None:
    content = b"<a> <b> <c> .\n" * 3_000_000
    path = tmp_path / "zeros.gz"
    path.write_bytes(gzip.compress(content, 6))
    pieces = list(sources.Source(path).blocks())
    assert max(map(len, pieces)) < 3 * sources.BLOCK_BYTES
    assert b"".join(pieces) == content


@pytest.mark.parametrize("name", ["facts.dat", "facts.txt", "facts"])
def test_n_triples_are_known_by_their_content(tmp_path: Path, name: str) -> None:
    assert facts_of(build(tmp_path, nt(CLAIM), name)) == {("Ann", "likes", "Bob")}


def test_ready_made_facts_are_known_by_their_content_too(tmp_path: Path) -> None:
    assert facts_of(build(tmp_path, "\n<a> <b> <c> .\n", "facts.dat")) == {("a", "b", "c")}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.nt", b"", "is empty"),
        ("empty.nt.gz", gzip.compress(b"", mtime=0), "is empty"),
        ("blank.nt", b"\n\n# nothing\n", "is not N-Triples: it has only blank lines"),
        ("blank.txt", b"\n\n", "is not ready-made facts"),
        ("facts.nt", b"<a> <b> <c> .\n", "is not N-Triples: line 1: not a triple"),
        ("prose.txt", b"Once upon a time.\n", "is not ready-made facts: line 1"),
        ("prose.md", b"Once upon a time.\n", "is neither N-Triples nor ready-made facts"),
        ("cut.nt.gz", gzip.compress(nt(CLAIM).encode(), mtime=0)[:-9], "is a truncated gzip file"),
        ("bad.nt.gz", gzip.compress(nt(CLAIM).encode(), mtime=0)[:-8] + b"checksum", "corrupt gzip file"),
        ("cut.nt.bz2", bz2.compress(nt(CLAIM).encode())[:-9], "is a truncated bzip2 file"),
        ("other.nt.xz", lzma.compress(nt(CLAIM).encode()), "is compressed with xz"),
        ("none.nt", nt().encode(), "no fact in 3 lines, dropped: 3 unused name"),
    ],
)
def test_a_source_that_cannot_be_used_is_told_precisely(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        build(tmp_path, content, name)
    assert not (tmp_path / "kb").exists() or list((tmp_path / "kb").iterdir()) == []


def test_missing_files_folders_and_wrong_sizes_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.nt does not exist"):
        build_knowledge_base([tmp_path / "no.nt"], tmp_path / "kb")
    with pytest.raises(InputError, match="is a folder"):
        build_knowledge_base([tmp_path], tmp_path / "kb")
    with pytest.raises(InputError, match="no source"):
        build_knowledge_base([], tmp_path / "kb")
    with pytest.raises(InputError, match="'much' is no size"):
        build_knowledge_base([SAMPLE], tmp_path / "kb", memory="much")


def test_a_failed_build_leaves_the_one_before_untouched(tmp_path: Path) -> None:
    built = build(tmp_path, nt(CLAIM))
    with pytest.raises(InputError):
        build(tmp_path, nt())
    assert facts_of(built) == {("Ann", "likes", "Bob")}
