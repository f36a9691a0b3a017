"""N-Triples: the grammar line by line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refactx.ingest.parsers.ntriples import (
    TRIPLE_TERM,
    Triple,
    empty_line,
    other_syntax,
    parse_line,
    triples_of,
    unescape,
    without_graphs,
)
from refactx.ingest.parsers.parsed import Parsed, decode_lines

OBJECTS = [
    ("<http://e/o>", Triple("http://e/s", "http://e/p", node="http://e/o")),
    ("_:b1.x", Triple("http://e/s", "http://e/p", node="_:b1.x")),
    ('"plain"', Triple("http://e/s", "http://e/p", text="plain")),
    ('""', Triple("http://e/s", "http://e/p", text="")),
    ('"colour"@en-GB', Triple("http://e/s", "http://e/p", text="colour", language="en-GB")),
    ('"colour"@en-GB--ltr', Triple("http://e/s", "http://e/p", text="colour", language="en-GB")),
    ('<<( <x:s> <x:p> "o" )>>', Triple("http://e/s", "http://e/p", node=TRIPLE_TERM)),
    ("<<( _:s <x:p> <<(<x:s> <x:p> _:o)>> )>>", Triple("http://e/s", "http://e/p", node=TRIPLE_TERM)),
    ('"1"^^<http://t/int>', Triple("http://e/s", "http://e/p", text="1", datatype="http://t/int")),
    (r'"a \"quoted\" word"@en', Triple("http://e/s", "http://e/p", text='a "quoted" word', language="en")),
    (r'"two\nlines\\"', Triple("http://e/s", "http://e/p", text="two\nlines\\")),
    (r'"\u00e9\U0001F600"', Triple("http://e/s", "http://e/p", text="é😀")),
    ('"> <http://x> . #"', Triple("http://e/s", "http://e/p", text="> <http://x> . #")),
    (r"<http://e/\u00e9>", Triple("http://e/s", "http://e/p", node="http://e/é")),
    ("<http://url%5Cbad?c=привет>", Triple("http://e/s", "http://e/p", node="http://url%5Cbad?c=привет")),
]


@pytest.mark.parametrize(("written", "triple"), OBJECTS)
@pytest.mark.parametrize("form", ["<http://e/s> <http://e/p> {} .", "\t<http://e/s>\t<http://e/p> {}. # it's so\r"])
def test_every_kind_of_object_is_read_in_any_white_space(form: str, written: str, triple: Triple) -> None:
    assert parse_line(form.format(written)) == triple


def test_a_subject_may_be_a_blank_node() -> None:
    assert parse_line("_:s <x:p> <x:o> .") == Triple("_:s", "x:p", "x:o")


LABEL_STARTS = [
    *(
        "AZ",
        "az",
        "\u00c0\u00d6",
        "\u00d8\u00f6",
        "\u00f8\u02ff",
        "\u0370\u037d",
        "\u037f\u1fff",
        "\u200c\u200d",
        "\u2070\u218f",
    ),
    *("\u2c00\u2fef", "\u3001\ud7ff", "\uf900\ufdcf", "\ufdf0\ufffd", "\U00010000\U000effff", "__", "09"),
]
"""The ranges of PN_CHARS_U and digits in the grammar, and what may follow them."""
LABEL_REST = [*LABEL_STARTS, "--", "\u00b7\u00b7", "\u0300\u036f", "\u203f\u2040"]


def letters(ranges: list[str]) -> st.SearchStrategy[str]:
    return st.sampled_from(ranges).flatmap(
        lambda ends: st.characters(min_codepoint=ord(ends[0]), max_codepoint=ord(ends[1]))
    )


@given(letters(LABEL_STARTS), st.text(letters([*LABEL_REST, ".."]), max_size=4), letters(LABEL_REST))
def test_labels_of_blank_nodes_are_those_of_the_grammar(first: str, middle: str, last: str) -> None:
    for label in (f"_:{first}", f"_:{first}{middle}{last}"):
        assert parse_line(f"{label} <x:p> {label} .") == Triple(label, "x:p", label)


@pytest.mark.parametrize("label", ["-a", "\u0301a", "a.", "\u00d7", "a\u037e", "a b", ":a", ".a", "\u3000"])
def test_other_labels_are_malformed(label: str) -> None:
    assert parse_line(f"_:{label} <x:p> <x:o> .") is None


@pytest.mark.parametrize(
    "line",
    [
        "<< <x:s> <x:p> <x:o> >> <x:p> <x:o> .",
        "<<( <x:s> <x:p> <x:o> )>> <x:p> <x:o> .",
        "<x:s> <<( <x:s> <x:p> <x:o> )>> <x:o> .",
        "<x:s> <x:p> << <x:s> <x:p> <x:o> >> .",
        "<x:s> <x:p> <<( <<( <x:s> <x:p> <x:o> )>> <x:p> <x:o> )>> .",
        '<x:s> <x:p> "a"@en--unk .',
        '<x:s> <x:p> "a"@en--LTR .',
        '<x:s> <x:p> "a"@cantbethislong .',
        '<x:s> <x:p> "a"^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#langString> .',
        '<x:s> <x:p> "a"^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#dirLangString> .',
        "<x:s> <x:p> <x:o>",
        "<x:s> <x:p> .",
        "<s> <p> <o> .",
        '<x:s> <x:p> "open .',
        r'<x:s> <x:p> "wrong \x escape" .',
        r'<x:s> <x:p> "beyond \U00110000" .',
        r'<x:s> <x:p> "half \uD83D a pair" .',
        r'<x:s> <x:p> "far beyond \UFFFFFFFF" .',
        "<x:s> <x:p> <with space> .",
        '<x:s> "p" <x:o> .',
        "<x:s> <x:p> <<( <x:o> )>> .",
        "<<" + ">> <x:p> <<" * 10_000,
        "<x:s> <x:p> <x:o> <x:graph> .",
        '<x:s> <x:p> "1"@ .',
        "<x:s> <x:p> <x:o> . <x:s> <x:p> <x:o> .",
    ],
)
def test_what_the_grammar_forbids_is_no_triple(line: str) -> None:
    assert parse_line(line) is None
    assert empty_line(line) is None


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("<x:s> <x:p> <x:a b> .", "an IRI has a space in it (write %20): <x:a b>"),
        (r"<x:\u00e9> <x:a\tb> <x:o> .", r"an IRI has '\\' in it (write %5C): <x:a\tb>"),
        ('<x:a"b> <x:p> "o" .', """an IRI has '"' in it (write %22): <x:a"b>"""),
        ("<x:s> <x:p> <x:a\tb> .", r"an IRI has '\t' in it (write %09): <x:a b>"),
        (r'<x:\u00e9> <x:p> "<x:a b>" x .', r'not a triple: <x:\u00e9> <x:p> "<x:a b>" x .'),
        ("<s s> <p> <o> .", "not a triple: <s s> <p> <o> ."),
    ],
)
def test_a_line_says_which_character_its_iri_may_not_have(line: str, fault: str) -> None:
    result = Parsed(lines=0)
    assert list(triples_of(line.encode(), 7, result)) == []
    assert result.faults == [(7, fault)]


def test_a_long_literal_full_of_escapes_is_read() -> None:
    triple = parse_line('<x:s> <x:p> "' + r"\"" * 1_000_000 + '" .')
    assert triple is not None
    assert triple.text == '"' * 1_000_000


def test_a_surrogate_pair_is_the_character_it_means() -> None:
    assert unescape(r"\uD83D\uDE00") == "😀"


def test_blank_lines_and_comments_are_distinguished() -> None:
    assert [empty_line(line) for line in ("", " \t\r", "# x", "  # x", "\ufeff")] == [
        "blank",
        "blank",
        "comment",
        "comment",
        "blank",
    ]
    assert [empty_line(line) for line in ('VERSION "1.2"', "VERSION '1.2' # x\r", "VERSION 1.2")] == [
        "comment",
        "comment",
        None,
    ]


@pytest.mark.parametrize(
    ("line", "syntax"),
    [
        ("<x:s> <x:p> <x:o> ;", "Turtle"),
        ('<x:s> <x:p> "a; b"@en--ltr , "c" .', "Turtle"),
        ("@prefix x: <x:> .", "Turtle"),
        ("base <x:>", "Turtle"),
        ('@version "1.2" .', "Turtle"),
        ("<x:s> <x:p> <x:o> <x:g> .", "N-Quads"),
        (r'_:b <x:p> "a \" b"^^<x:t> _:g . # c', "N-Quads"),
        ("<x:s> <x:p> <<( <x:s> <x:p> <x:o> )>> <x:g>.", "N-Quads"),
        ("<x:s> <x:p> <x:o>", None),
        ("base of <x>", None),
        ("nonsense ;", None),
    ],
)
def test_a_line_of_another_syntax_is_known(line: str, syntax: str | None) -> None:
    assert other_syntax(line) == syntax


def test_a_quad_is_a_triple_without_its_graph() -> None:
    lines = [
        "<x:s> <x:p> <x:o> <x:g> .",
        '<x:s> <x:p> "<a> <b> ."@en _:g .',
        "<x:s> <x:p> <x:o> .",
        "# <a> <b> <c> <d> .",
    ]
    triples = ["<x:s> <x:p> <x:o> .", '<x:s> <x:p> "<a> <b> ."@en .', *lines[2:]]
    assert without_graphs("\n".join(lines).encode()).decode() == "\n".join(triples)


def test_only_line_feeds_end_a_line() -> None:
    assert decode_lines("a\u2028b\x0bc\nd".encode()) == ["a\u2028b\x0bc", "d"]
