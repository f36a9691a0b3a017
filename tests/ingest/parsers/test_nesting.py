"""How deep texts are nested, against a count one by one; entities of XML; and what is nested too deep, in every format."""

import json
from pathlib import Path

import pyoxigraph
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refactx.errors import InputError
from refactx.ingest.parsers.formats import format_of, open_sources
from refactx.ingest.parsers.nesting import MOST_NESTED, within_bounds
from refactx.ingest.source_options import Selection, TableOptions
from refactx.ingest.sources import Format, Inputs, Source

DEEP = MOST_NESTED + 100
TEXTS = {
    "a.jsonld": '{"@context": {"@vocab": "http://e/"}, "p":' * DEEP + "1" + "}" * DEEP,
    "b.jsonl": '{"name": "x", "p": ' + "[" * DEEP + "]" * DEEP + "}",
    "c.jsonl": "[" * DEEP + '{"name": 1}' + "]" * DEEP,
    "d.ttl": "<x:s> <x:p> " + "[ <x:p> " * DEEP + "1" + "]" * DEEP + " .",
    "e.ttl": "<x:s> <x:p> " + "(" * DEEP + ")" * DEEP + " .",
    "f.ttl": "<x:s> <x:p> " + "<<( <x:s> <x:p> " * DEEP + "1" + ")>>" * DEEP + " .",
    "g.trig": "<x:g> { <x:s> <x:p> " + "[ <x:p> " * DEEP + "1" + "]" * DEEP + " }",
    "h.n3": "<x:s> <x:p> " + "{ <x:s> <x:p> " * DEEP + "1" + "}" * DEEP + " .",
    "i.rdf": '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/">'
    + "<rdf:Description><e:p>" * DEEP
    + "</e:p></rdf:Description>" * DEEP
    + "</rdf:RDF>",
    "j.graphml": "<graphml>" + "<graph>" * DEEP + "</graph>" * DEEP + "</graphml>",
}


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_nested_too_deep_is_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(TEXTS[name])
    selection = Selection(tables=TableOptions(subjects=("name",)))
    with pytest.raises(InputError, match=f"{name}:1: more than {MOST_NESTED} .* are nested") as error:
        for source in open_sources(Inputs((Source(tmp_path / name),)), selection, 1):
            list(source.read(lambda _: None))
    assert "\n" not in str(error.value)


def test_triple_terms_in_lines_are_malformed(tmp_path: Path) -> None:
    """Lines are not read by recursion; the recognition of the format does not read them by it either."""
    line = "<x:s> <x:p> " + "<<( <x:s> <x:p> " * 30_000 + "<x:o>" + ")>>" * 30_000 + " .\n"
    (tmp_path / "a.nt").write_text(line + "<x:s> <x:p> <x:o> .\n")
    assert format_of(Source(tmp_path / "a.nt")) == "N-Triples"


JSON = st.recursive(
    st.text('a[]{}"\\\n') | st.integers(),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text('[{"\\'), one, max_size=3),
    max_leaves=20,
)


def depth_of(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


def is_within(text: str, form: Format, most: int, cut: int) -> bool:
    """Whether a text passes with another bound, given in two blocks."""
    data = text.encode()
    at = data.find(b"\n", cut) + 1
    blocks = [block for block in (data[:at], data[at:]) if block]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("refactx.ingest.parsers.nesting.MOST_NESTED", most)
        try:
            return list(within_bounds(iter(blocks), form, "a")) == blocks
        except InputError:
            return False


@given(JSON, st.integers(0, 5), st.integers(0, 60))
def test_the_depth_of_json_is_that_of_its_values(value: object, most: int, cut: int) -> None:
    assert is_within(json.dumps(value, indent=1), "JSON-LD", most, cut) == (depth_of(value) <= most)


PIECES = [
    '"[(" ', "'{' ", '"""([\n"" \\" (""" ', "'''[\n''' ", "<x:a[(> ", "# [[( \"\n", '"\\"[" ', "x:a\\( ", "5 ",
]  # fmt: skip
"""Parts of Turtle whose brackets are none."""


@given(st.lists(st.sampled_from(PIECES), max_size=8), st.integers(1, 5), st.integers(0, 5), st.integers(0, 60))
def test_brackets_in_texts_of_turtle_do_not_count(pieces: list[str], deep: int, most: int, cut: int) -> None:
    text = "@prefix x: <x:> .\nx:s x:p " + "(\n" * deep + " ".join(pieces) + " 1 " + ")" * deep + " .\n"
    assert list(pyoxigraph.parse(text, format=pyoxigraph.RdfFormat.TURTLE, lenient=True))
    assert is_within(text, "Turtle", most, cut) == (deep <= most)


def entities(*values: str) -> str:
    return "".join(f'<!ENTITY e{number} "{value}">' for number, value in enumerate(values))


def rdf(declared: str, text: str) -> str:
    return (
        f'<?xml version="1.0"?>\n<!DOCTYPE rdf:RDF [\n{declared}]>\n'
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/">'
        f'<rdf:Description rdf:about="{text}"><e:p>1</e:p></rdf:Description></rdf:RDF>'
    )


def test_entities_as_ontologies_have_them_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.owl").write_text(rdf(entities("http://e.org/", "&e0;pizza#", "a &amp; b"), "&e1;Ham"))
    (source,) = open_sources(Inputs((Source(tmp_path / "a.owl"),)), Selection(), 1)
    assert sum(parsed.statements for parsed in source.read(lambda _: None)) == 1


@pytest.mark.parametrize("declared", ["{}", "<!-- {} -->", "<!ENTITY % p 'x'>{}"])
def test_entities_that_grow_are_refused_before_they_are_read(tmp_path: Path, declared: str) -> None:
    growing = entities("text", *(f"&e{number};" * 20 for number in range(12)))
    (tmp_path / "a.rdf").write_text(rdf(declared.format(growing), "http://e/a"))
    with pytest.raises(InputError, match=r"a\.rdf:3: the entity 'e3' stands for 65,680"):
        list(open_sources(Inputs((Source(tmp_path / "a.rdf"),)), Selection(), 1)[0].read(lambda _: None))
