"""Sources: malformed lines, ready-made facts, several files and members, files that cannot be used."""

import bz2
import gzip
import lzma
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.ingest.knowledge_runs import CLAIM, SAMPLE, build, build_knowledge_base, facts_of, nt
from support.ingest.quiet import QUIET

from refactx.build import sources_of
from refactx.errors import InputError
from refactx.fact import clean_part
from refactx.ingest import Resources, sources
from refactx.ingest.parsers import formats as ready_made
from refactx.ingest.source_options import TableOptions


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


def test_odd_ready_made_lines_are_facts_or_dropped_for_a_reason(tmp_path: Path) -> None:
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
    parsed = ready_made.parse_ready_made("".join(f"<{c}> <{c}x> <x {c}> .\n" for c in letters).encode(), 1)
    expected = Counter((clean_part(c), clean_part(c + "x"), clean_part("x " + c)) for c in letters if clean_part(c))
    assert Counter(zip(*parsed.tables["ready"].to_pydict().values(), strict=True)) == expected


def test_sources_of_several_kinds_add_up(tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text(nt(CLAIM))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"<Ann> <likes> <Bob> .\n<Bob> <likes> <Ann> .\n"))
    built = build_knowledge_base([tmp_path / "a.nt", tmp_path / "b.txt.gz"], tmp_path / "kb", resources=QUIET)
    assert facts_of(built) == {("Ann", "likes", "Bob"), ("Bob", "likes", "Ann")}
    assert built.report.dropped == {"duplicate": 1}


def test_demo_is_the_sample_unless_there_is_a_file_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (sample,) = sources_of(["demo"], TableOptions())
    assert isinstance(sample, Path) and sample.name == "wikidata-sample.nt.gz" and sample.is_file()
    (tmp_path / "demo").write_text("<Ann> <likes> <Bob> .\n")
    assert sources_of(["demo"], TableOptions()) == (Path("demo"),)


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
def test_a_source_that_cannot_be_used_is_a_precise_error(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        build(tmp_path, content, name)
    assert not (tmp_path / "kb").exists() or list((tmp_path / "kb").iterdir()) == []


def test_missing_files_folders_and_wrong_sizes_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.nt does not exist"):
        build_knowledge_base([tmp_path / "no.nt"], tmp_path / "kb")
    with pytest.raises(InputError, match="is a folder"):
        build_knowledge_base([tmp_path], tmp_path / "kb")
    with pytest.raises(InputError, match="no source"):
        build_knowledge_base([], tmp_path / "kb")
    with pytest.raises(InputError, match="'much' is not a size"):
        build_knowledge_base([SAMPLE], tmp_path / "kb", resources=Resources(memory="much"))


def test_a_failed_build_leaves_the_one_before_untouched(tmp_path: Path) -> None:
    built = build(tmp_path, nt(CLAIM))
    with pytest.raises(InputError):
        build(tmp_path, nt())
    assert facts_of(built) == {("Ann", "likes", "Bob")}
