"""Sources in every compression, broken sources, and lines in common form, for which both parsers agree."""

import bz2
import gzip
import io
import random
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ingest.knowledge_runs import build_knowledge_base
from support.ingest.quiet import QUIET
from support.ingest.wikidata_twin import parse_exactly

from refactx.errors import InputError
from refactx.ingest import sources
from refactx.ingest.parsers.parsed import cast_rows
from refactx.ingest.parsers.wikidata import parse_block
from refactx.ingest.source_options import Selection
from refactx.ingest.sources import STANDARD_INPUT, Source

TEXT = "".join(f"<subject {number}> <is> <{number * 7919 % 5000}> .\n" for number in range(20_000)).encode()
Compress = Callable[[bytes], bytes]
COMPRESSIONS: dict[str, Compress] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "zstandard": lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data),
    "none": bytes,
}


def write_source(folder: Path, content: bytes, name: str = "facts") -> Source:
    path = folder / name
    path.write_bytes(content)
    return Source(path)


def archive(*names: str, text: str = "") -> bytes:
    with zipfile.ZipFile(content := io.BytesIO(), "w") as made:
        for name in names:
            made.writestr(name, text)
    return content.getvalue()


@pytest.mark.parametrize("kind", COMPRESSIONS)
@pytest.mark.parametrize("members", [1, 3])
def test_a_file_reads_as_its_text_in_any_compression_and_number_of_members(
    tmp_path: Path, kind: str, members: int
) -> None:
    content = b"".join(COMPRESSIONS[kind](TEXT) for _ in range(members))
    source = write_source(tmp_path, content)
    read: list[int] = []
    assert b"".join(source.blocks(read.append)) == TEXT * members
    assert 0.9 * len(content) <= sum(read) <= len(content)


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_standard_input_is_read_once_whatever_its_compression(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    stream = io.TextIOWrapper(io.BufferedReader(io.BytesIO(COMPRESSIONS[kind](TEXT))))  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "stdin", stream)
    built = build_knowledge_base([STANDARD_INPUT], tmp_path / "kb", resources=QUIET)
    assert built.report.facts == built.report.lines_read == 20_000
    with pytest.raises(InputError, match="given more than once"):
        build_knowledge_base([STANDARD_INPUT, STANDARD_INPUT], tmp_path / "kb", resources=QUIET)


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "zstandard"])
@pytest.mark.parametrize("lost", [1, 4, 9, 2_000, 30_000])
def test_a_truncated_archive_is_an_error_wherever_it_ends(tmp_path: Path, kind: str, lost: int) -> None:
    content = COMPRESSIONS[kind](TEXT)
    for whole in (b"", content):  # alone, and after a whole member
        with pytest.raises(InputError, match=f"facts is a truncated {kind} file; .* lines were read from it"):
            list(write_source(tmp_path, whole + content[:-lost]).blocks())


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "zstandard"])
def test_a_corrupt_archive_is_an_error(tmp_path: Path, kind: str) -> None:
    content = bytearray(COMPRESSIONS[kind](TEXT))
    content[len(content) // 2] ^= 0xFF
    with pytest.raises(InputError, match=f"facts is a corrupt {kind} file"):
        list(write_source(tmp_path, bytes(content)).blocks())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (TEXT.decode().encode("utf-16"), "is UTF-16: give --encoding utf-16"),
        ("<a> <b> <c> .\n".encode("utf-16-le"), r"or UTF-16: give --encoding utf-16"),
        (archive("facts.nt", text="<http://x/word/xl/> ."), "is compressed with zip, .* unpack it, or use gzip"),
        (
            archive("[Content_Types].xml", "word/document.xml", "xl/a"),
            "is a document of Word, .* export its data as CSV",
        ),
        (archive("[Content_Types].xml", "xl/workbook.xml"), "is a workbook of Excel .*: save its sheet as CSV"),
        (
            archive("mimetype", text="application/vnd.oasis.opendocument.spreadsheet"),
            "is a workbook of .*: save its sheet as CSV",
        ),
        (archive("mimetype", text="application/vnd.oasis.opendocument.text"), "is a document of"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "is a file of Word or Excel from before 2007"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF\0\t\t\n", "seems to be a JPEG image: give a file of RDF .*csv"),
        (b"\x89PNG\r\n\x1a\n", "seems to be a PNG image"),
        (gzip.compress(b"%PDF-1.4\n", mtime=0), "seems to be a PDF file"),
        (b"\x7fELF\2\1\1" + bytes(9), "seems to be a binary file"),
        (b"", "is empty"),
    ],
)
def test_what_cannot_be_read_is_an_error(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(write_source(tmp_path, content).blocks())


@pytest.mark.parametrize("content", [b"<a\0> <b> <c> .\n", b"PAR1" + bytes(9)])
def test_a_stray_nul_makes_no_text_binary_and_parquet_is_read(tmp_path: Path, content: bytes) -> None:
    assert list(write_source(tmp_path, content).blocks()) == [content]


def test_lines_may_end_as_on_any_system_also_between_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(3)
    lines = [f"line {number}" for number in range(3_000)]
    content = "\ufeff" + "".join(line + chance.choice(["\n", "\r\n", "\r"]) for line in lines)
    monkeypatch.setattr("refactx.ingest.sources.CHUNK_BYTES", 7)
    monkeypatch.setattr(sources, "BLOCK_BYTES", 100)
    blocks = list(write_source(tmp_path, content.encode()).blocks())
    assert b"".join(blocks).decode().split("\n")[:-1] == lines
    assert all(block.endswith(b"\n") for block in blocks)
    assert len(blocks) > 100


def test_a_line_of_ten_megabytes_is_a_line_like_any_other(tmp_path: Path) -> None:
    long = b"x" * 10_000_000
    for name, line in (
        ("f.txt", b"<a> <is> <%b> .\n"),
        ("f.nt", b'<http://www.wikidata.org/entity/Q1> <http://p> "%b" .\n'),
    ):
        content = line % b"y" + line % long + b"junk " + long + b"\n" + line % b"z"
        source = write_source(tmp_path, content, name)
        if name == "f.txt":
            report = build_knowledge_base([source.path], tmp_path / "kb", resources=QUIET).report
            assert (report.facts, report.cut) == (3, 1)
            assert report.malformed[0].startswith(f"{source.path}:3: not <subject>")
            assert len(report.malformed[0]) < 300
        else:
            parsed = parse_block(content, 1)
            assert (parsed.lines, parsed.statements, [line for line, _ in parsed.faults]) == (4, 3, [3])


E = "http://www.wikidata.org/entity/"
SUBJECTS = st.sampled_from(
    [
        f"<{E}Q42>",
        f"<{E}P31>",
        f"<{E}Q042>",
        f"<{E}L7>",
        f"<{E}Q{'9' * 18}>",
        f"<{E}Q{'9' * 19}>",
        f"<https{E[4:]}Q5>",
        "_:b1",
    ]
    + [
        "<https://en.wikipedia.org/wiki/Caf%C3%A9_%22x%22>",
        "<https://de.wikipedia.org/wiki/A>",
        "<x y>",
        "<https://en.wikipedia.org/wiki/%20>",
        "<https://en.wikipedia.org/wiki/>",
        "<https://www.wikidata.org/wiki/Special:EntityData/Q42>",
    ]
)
PREDICATES = st.sampled_from(
    [f"<http://www.wikidata.org/prop/direct/{p}>" for p in ("P31", "P1", "P01", "Q1")]
    + ["<http://www.w3.org/2000/01/rdf-schema#label>", "<http://schema.org/description>", "<http://schema.org/about>"]
    + [
        "<http://www.w3.org/2004/02/skos/core#altLabel>",
        "<http://wikiba.se/ontology#propertyType>",
        "<http://schema.org/name>",
        "<http://www.w3.org/2002/07/owl#sameAs>",
        "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>",
    ]
    + [
        "<http://www.wikidata.org/prop/direct-normalized/P1>",
        "<p>",
        "<https://www.wikidata.org/prop/direct/P31>",
        '<http://a"b>',
    ]
)
LITERALS = st.builds(
    '"{}"{}'.format,
    st.lists(
        st.sampled_from(
            [
                *'aé <>@^."',
                "\\",
                '\\"',
                "\\n",
                "\\u00e9",
                "\\uD83D",
                "\\uD83D\\uDE00",
                "\\U0001F600",
                "\\x",
                "\r",
                "\u200b",
                "e\u0301",
            ]
        ),
        max_size=6,
    ).map("".join)
    | st.sampled_from(
        [
            "1956-10-20T00:00:00Z",
            "1956-01-01T00:00:00Z",
            "-0199-01-01T00:00:00Z",
            "+175",
            "-0",
            "+0.50",
            "007",
            "1e5",
            "Point(13.4 52.5)",
        ]
    ),
    st.sampled_from(["", "@en", "@EN-gb", "@mul", "@de", "@", "@en_x", '"', " "])
    | st.sampled_from(["string", "decimal", "dateTime", "double", "token", ""]).map(
        lambda t: f"^^<http://www.w3.org/2001/XMLSchema#{t}>"
    )
    | st.just("^^<http://www.opengis.net/ont/geosparql#wktLiteral>"),
)
OBJECTS = (
    LITERALS
    | SUBJECTS
    | st.sampled_from(
        [
            "<http://commons.wikimedia.org/wiki/Special:FilePath/A.jpg>",
            "<http://www.wikidata.org/.well-known/genid/0a>",
            "<http://wikiba.se/ontology#ExternalId>",
            "<http://www.wikidata.org/prop/novalue/P1>",
            f"<{E}E10>",
            "<rel>",
            f"<{E}Q42> <x:g>",
        ]
    )
)
LINES = st.builds(
    "{} {} {}{}".format,
    SUBJECTS,
    PREDICATES,
    OBJECTS,
    st.sampled_from([" ."] * 8 + [".", " . # x", "  .", "", " ..", " .\r"]),
)


SELECTIONS = st.builds(
    Selection,
    properties=st.none() | st.just(frozenset({"P31"})),
    languages=st.sampled_from([("en", "mul"), ("de",), ("mul",), ("en-gb", "de", "en")]),
    inverse=st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(LINES | st.sampled_from(["", "# c", "<", '"', "\\", " .", "> > > ."]), min_size=1, max_size=30),
    st.booleans(),
    SELECTIONS,
)
def test_lines_in_common_form_give_what_the_grammar_gives(lines: list[str], ended: bool, selection: Selection) -> None:
    block = ("\n".join(lines) + "\n" * ended).encode()
    if not block:
        return
    quick, exact = (parse(block, 5, selection) for parse in (parse_block, parse_exactly))
    assert quick.lines == exact.lines
    assert quick.statements == exact.statements
    assert quick.faults == exact.faults
    assert +quick.dropped == +exact.dropped
    assert quick.tables.keys() == exact.tables.keys()
    for name, rows in exact.tables.items():
        assert rows_of(quick.tables[name]) == rows_of(cast_rows(name, rows))


def rows_of(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(zip(*table.to_pydict().values(), strict=True))
