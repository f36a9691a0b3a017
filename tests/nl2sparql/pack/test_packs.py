"""Packs: those that come with ReFactX are right, and what is wrong with a folder is said with its file and line."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from refactx.errors import InputError
from refactx.nl2sparql.pack import Pack, built_in_packs, load_pack
from refactx.nl2sparql.validation import check_pack

ROOT = Path(__file__).parents[3]
HEAD = 'version = 1\nname = "x"\n'


def folder_of(path: Path, **files: str) -> Path:
    """Write a pack: `pack` is `pack.toml`, `examples` is `examples.jsonl` and so on."""
    for name, text in {"pack": HEAD, **files}.items():
        (path / f"{name}{'.jsonl' if name in ('examples', 'schema') else '.toml'}").write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", built_in_packs())
def test_a_built_in_pack_has_nothing_wrong(name: str) -> None:
    """Some of its examples are checked; tests/nl2sparql/validation has all of LiITA's."""
    pack = load_pack(name)
    assert check_pack(replace(pack, examples=pack.examples[::8])).problems == ()
    assert pack.examples and pack.patterns and pack.rules and pack.schema and pack.endpoint


def test_the_packs_are_those_of_the_folder() -> None:
    assert (
        set(built_in_packs())
        == {path.parent.name for path in ROOT.glob("prompts/packs/*/pack.toml")}
        >= {"liita", "wikidata"}
    )


def test_all_files_of_packs_are_in_packages() -> None:
    """The wheel has what the patterns of package data match, below `refactx.prompts`."""
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"][
        "refactx.prompts"
    ]
    matched = {path for pattern in patterns for path in (ROOT / "prompts").glob(pattern)}
    assert {path for path in (ROOT / "prompts" / "packs").rglob("*") if path.is_file()} <= matched


def test_each_example_of_liita_can_be_asked_in_italian() -> None:
    assert [one.id for one in load_pack("liita").examples if not one.variants.get("it")] == []


def test_an_empty_folder_is_a_pack_when_it_has_a_head(tmp_path: Path) -> None:
    pack = load_pack(folder_of(tmp_path))
    assert (pack.name, pack.languages, pack.examples, pack.endpoint) == ("x", ("en",), (), None)


PATTERN = '[[pattern]]\nname = "P"\n'
EXAMPLE = {"id": "1", "question": "q", "sparql": "ASK { ?s ?p ?o }"}
BROKEN = {
    "no version": ({"pack": 'name = "x"'}, ["pack.toml", "has no version", "whole number"]),
    "a later version": ({"pack": 'version = 9\nname = "x"'}, ["pack.toml", "version = 9", "version 1"]),
    "no TOML": ({"pack": "version = \n"}, ["pack.toml", "is not TOML", "line 1"]),
    "an unknown key": ({"pack": HEAD + "colour = 1"}, ["pack.toml", "colour", "expected version, name"]),
    "no IRI": ({"pack": HEAD + '[graphs]\nG = "a b"'}, ["pack.toml, graphs:", "G = 'a b'", "an IRI"]),
    "no prefix": ({"pack": HEAD + 'vocabularies = ["v"]'}, ["pack.toml", "vocabulary v", "[prefixes]"]),
    "no service": ({"pack": HEAD + '[gives]\nS = ["Label"]'}, ["pack.toml", "S in [gives]", "[services]"]),
    "a weight": ({"patterns": PATTERN + "weight = 2"}, ["patterns.toml, pattern 1 (P)", "weight = 2", "from 0 to 1"]),
    "words": ({"patterns": PATTERN + 'words = {en = "a"}'}, ["pattern 1 (P), words:", "en = 'a'", "list of texts"]),
    "a star": (
        {"patterns": '[[pattern]]\nname = "P"\nwords.en = [\n"a",\n"b*c"\n]'},
        ["patterns.toml, line 5, pattern 1 (P) has the word 'b*c'", "`*` stands at the beginning or the end of a word"],
    ),
    "gaps": ({"patterns": PATTERN + 'hints.en = ["a ... ... b"]'}, ["line 3", "`...` stands between words"]),
    "brackets": ({"pack": "a = " + 5000 * "[" + 5000 * "]"}, ["pack.toml is not TOML: it has too many brackets"]),
    "digits": ({"pack": f"version = {5000 * '9'}"}, ["pack.toml is not TOML: it has a number of too many digits"]),
    "digits in JSON": ({"examples": f'{{"id": {5000 * "9"}}}'}, ["examples.jsonl, line 1 has too many digits"]),
    "brackets in JSON": ({"examples": 100_000 * "["}, ["examples.jsonl, line 1 has too many brackets"]),
    "twice": ({"patterns": PATTERN + PATTERN}, ["pattern 2 (P)", "each name once"]),
    "implied": ({"patterns": PATTERN + "implies = {Q = 1.0}"}, ["P implies Q", "no pattern"]),
    "no JSON": ({"examples": json.dumps(EXAMPLE) + "\n{"}, ["examples.jsonl, line 2", "is not JSON"]),
    "no object": ({"examples": "[]"}, ["examples.jsonl, line 1", "list", "an object"]),
    "no query": (
        {"examples": json.dumps(EXAMPLE | {"sparql": ""})},
        ["examples.jsonl, line 1", "sparql = ''", "a text"],
    ),
    "its pattern": (
        {"examples": json.dumps(EXAMPLE | {"patterns": {"Z": 1}})},
        ["line 1", "pattern Z", "patterns.toml"],
    ),
    "the same id": ({"examples": 2 * (json.dumps(EXAMPLE) + "\n")}, ["examples.jsonl, line 2", "id 1", "once"]),
    "a kind": (
        {"schema": '{"iri": "http://e.org/a", "kind": "thing"}'},
        ["schema.jsonl, line 1", "'thing'", "class, property"],
    ),
    "a rule": ({"rules": '[[rule]]\nid = "r"\npatterns = ["P"]'}, ["rules.toml, rule 1 (r)", "P"]),
}


@pytest.mark.parametrize(("files", "expected"), BROKEN.values(), ids=BROKEN)
def test_what_is_wrong_with_a_pack_is_said_in_one_line(
    tmp_path: Path, files: dict[str, str], expected: list[str]
) -> None:
    with pytest.raises(InputError) as raised:
        load_pack(folder_of(tmp_path, **files))
    message = str(raised.value)
    assert [part for part in expected if part not in message] == [], message
    assert "\n" not in message


def test_an_example_may_have_lines(tmp_path: Path) -> None:
    lines = json.dumps(EXAMPLE, indent=2) + "\n\n" + json.dumps(EXAMPLE | {"id": "2"})
    assert [one.id for one in load_pack(folder_of(tmp_path, examples=lines)).examples] == ["1", "2"]
    with pytest.raises(InputError, match="line 8 has the id 1"):
        load_pack(folder_of(tmp_path, examples=lines + "\n" + json.dumps(EXAMPLE)))


def test_a_name_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no pack nowhere: expected one of liita, wikidata"):
        load_pack("nowhere")
    with pytest.raises(InputError, match=r"is no pack: expected a folder with a pack\.toml"):
        load_pack(tmp_path)


def test_the_fingerprint_is_that_of_the_files(tmp_path: Path) -> None:
    one = load_pack(folder_of(tmp_path)).fingerprint
    assert load_pack(tmp_path).fingerprint == one
    folder_of(tmp_path, examples=json.dumps(EXAMPLE))
    assert load_pack(tmp_path).fingerprint != one


def test_names_are_shortened_by_the_longest_prefix_and_expanded_again() -> None:
    prefixes = {"a": "http://e.org/", "b": "http://e.org/b/"}
    pack = Pack(name="x", title="x", version=1, languages=("en",), base="", prefixes=prefixes)
    assert [pack.shorten(f"http://e.org/{rest}") for rest in ("c", "b/c", "b/c/d")] == [
        "a:c",
        "b:c",
        "<http://e.org/b/c/d>",
    ]
    assert [pack.expand(name) for name in ("a:c", "b:c", "no:c", "c")] == [
        "http://e.org/c",
        "http://e.org/b/c",
        None,
        None,
    ]
