"""Packs: their files, their rules, and the queries that rules look at."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import NamedNode, Quad, QuerySolutions, Store

from refactx.errors import InputError
from refactx.sparql.engines import QueryRefusedError, SparqlSyntaxError
from refactx.sparql.engines.checking import view_query
from refactx.sparql.packs.pack import Pack, PackTable, built_in_packs, load_pack, read_rules
from refactx.sparql.packs.rules import Rule, SchemaTerm
from refactx.sparql.packs.validation import check_pack
from refactx.sparql.syntax.view import (
    CallView,
    QueryView,
    iri_of,
    parts,
    variables,
)

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


PREFIXES = {"ex": "http://e.org/", "l": "http://l.org/"}
GRAPHS, SERVICES = {"ONE": "http://g.org/1", "TWO": "http://g.org/2"}, {"FAR": "http://s.org/"}
SCHEMA = {
    "http://e.org/name": SchemaTerm(
        iri="http://e.org/name", kind="property", range=("http://www.w3.org/2001/XMLSchema#string",)
    ),
    "http://e.org/owns": SchemaTerm(
        iri="http://e.org/owns", kind="property", domain=("http://e.org/Person",), range=("http://e.org/Dog",)
    ),
    "http://e.org/Puppy": SchemaTerm(iri="http://e.org/Puppy", kind="class", parents=("http://e.org/Dog",)),
}


def rules_of(text: str) -> tuple[Rule, ...]:
    return read_rules(PackTable("rules.toml", tomllib.loads(text)), PREFIXES, GRAPHS, SERVICES, {"P": None})


def found(check: str, body: str) -> list[str]:
    """The texts and hints of what a check finds in the patterns of a query."""
    [rule] = rules_of(f'[[rule]]\nid = "r"\ntext = "t"\n[[rule.check]]\n{check}')
    declared = "".join(f"PREFIX {name}: <{iri}> " for name, iri in PREFIXES.items())
    findings = rule.findings(view_query(f"{declared} SELECT * {{ {body} }}"), SCHEMA)
    return [f"{one.text} -> {one.hint}" for one in findings]


ONE, TWO, FAR = "GRAPH <http://g.org/1>", "GRAPH <http://g.org/2>", "SERVICE <http://s.org/>"
PLACE = 'kind = "place"\nnames = ["ex:name", "ex:Dog", "l:*"]\n'
NAMES = {
    "in one": PLACE + 'in = ["ONE"]',
    "in one or outside": PLACE + 'in = ["ONE", "outside"]',
    "in the service": PLACE + 'in = ["FAR"]',
    "not in two": PLACE + 'not_in = ["TWO"]',
    "no graph": 'kind = "no_graph"\nservice = "FAR"',
    "shared": 'kind = "shared"\nservice = "FAR"',
    "direction": 'kind = "direction"\nproperty = "ex:above"\nsubject = ["up*"]\nobject = ["down*"]',
    "reach": 'kind = "reach"\nproperty = "ex:to"\nend = "subject"\npath = ["ex:of", "ex:in"]\nnever = ["ex:bank"]',
    "values": 'kind = "values"\nproperty = "ex:in"\nend = "object"\nonly = ["ex:bank", "ex:shop"]',
    "once": 'kind = "once"\nproperty = "ex:to"\nwhy = "one leads to one"',
    "apart": 'kind = "apart"\none = ["ex:joy"]\nother = ["ex:worth"]\nunless = ["ex:both"]\nwhy = "these differ"',
    "connected": 'kind = "connected"',
    "no literal": 'kind = "no_literal"\nproperties = ["ex:name"]',
    "compared": 'kind = "compared"\nproperties = ["ex:name"]',
    "any case": 'kind = "compared"\nproperties = ["ex:name"]\nany_case = true',
    "types": 'kind = "types"\ndisjoint = ["ex:Person", "ex:Dog"]\nends = [{property = "ex:barks", subject = "ex:Dog"}]',
}


@pytest.mark.parametrize(
    ("check", "body"),
    [
        ("in one", f"{ONE} {{ ?x ex:name ?y }}"),
        ("in one", "GRAPH ?g { ?x ex:name ?y }"),
        ("in one or outside", f"?x a ex:Dog . {ONE} {{ ?x a ex:Dog }}"),
        ("in the service", f"{FAR} {{ ?x ex:name ?y }}"),
        ("not in two", f"?x l:any ?y . {ONE} {{ ?x l:any ?y }}"),
        ("no graph", f"{FAR} {{ ?x ex:a ?y }} {ONE} {{ ?x ex:b ?y }}"),
        ("shared", f"{FAR} {{ ?x ex:a ?y }} ?y ex:b ?z"),
        ("shared", f"{FAR} {{ ?x ex:a ?y }}"),
        ("direction", "?upper ex:above ?downer . ?x ex:above ?y"),
        ("reach", "?a ex:to ?b . ?b ex:of ?c . ?c ex:in ex:bank . ?a ex:of ?d . ?d ex:in ex:shop"),
        ("values", "?x ex:in ex:shop . ?y ex:in ?z"),
        ("once", "?x ex:to ?y . ?z ex:to ?w"),
        ("once", "{ ?x ex:to ?y } UNION { ?x ex:to ?z }"),
        ("apart", "?x ex:joy ?y . ?z ex:worth ?w"),
        ("apart", "?x ex:joy ?y ; ex:worth ?w ; ex:both ?v"),
        ("connected", "?x ex:a ?y . ?y ex:b ?z OPTIONAL { ?z ex:c ?w }"),
        ("connected", "?x ex:a ?y . ?z ex:b ?w FILTER(STR(?y) = STR(?w))"),
        ("connected", "?x ex:a ex:joy . ex:joy ex:name ?y"),
        ("no literal", '?x ex:name ?y FILTER(STR(?y) = "a")'),
        ("compared", '?x ex:name ?y FILTER(STR(?y) = "a" && ?x = ex:a)'),
        ("any case", '?x ex:name ?y FILTER(REGEX(STR(?y), "a", "i"))'),
        ("types", "?p ex:owns ?d . ?d a ex:Puppy ; ex:barks ?l ; ex:name ?n"),
    ],
)
def test_right_patterns_pass(check: str, body: str) -> None:
    assert found(NAMES[check], body) == []


@pytest.mark.parametrize(
    ("check", "body", "parts"),
    [
        ("in one", "?x ex:name ?y", ["ex:name stands outside of any GRAPH", "GRAPH <http://g.org/1> { ... }"]),
        ("in one", f"{TWO} {{ ?x a ex:Dog }}", ["ex:Dog stands in GRAPH <http://g.org/2>"]),
        ("in one or outside", f"{FAR} {{ ?x l:any ?y }}", ["l:any stands in SERVICE <http://s.org/>", "outside"]),
        ("in the service", f"{ONE} {{ ?x ex:name ?y }}", ["SERVICE <http://s.org/> { ... }"]),
        ("not in two", f"{TWO} {{ ?x ex:name ?y }}", ["move the pattern with ex:name out of <http://g.org/2>"]),
        ("no graph", f"{FAR} {{ {ONE} {{ ?x ex:a ?y }} }}", ["SERVICE <http://s.org/> has GRAPH <http://g.org/1>"]),
        ("shared", f"{FAR} {{ ?x ex:a ?y }} ?z ex:b ?w", ["shares no variable"]),
        ("direction", "?x ex:above ?upper", ["the wrong way round", "?upper ex:above ?x"]),
        ("direction", "?x ^ex:above ?downer", ["the wrong way round", "?x ex:above ?downer"]),
        ("reach", "?a ex:to ?b . ?a ex:of ?c . ?c ex:in ex:bank", ["?a leads to ex:bank", "?b and ?a change places"]),
        ("values", "?x ex:in ex:house", ["ex:in has no value ex:house", "ex:bank, ex:shop"]),
        ("values", "ex:bank ex:in ?x", ["ex:bank is at the wrong end of ex:in", "?x ex:in ex:bank"]),
        ("once", "?x ex:to ?y ; ex:to ?z", ["one leads to one", "another variable in place of ?x"]),
        ("apart", "?x ex:joy ?y ; ex:worth ?w", ["these differ", "another variable in place of ?x"]),
        ("connected", "?x ex:a ?y . ?z ex:b ?w", ["fall into 2 parts", "?x ex:a ?y has none with ?z ex:b ?w"]),
        ("connected", "?x ex:a ex:joy . ?y ex:a ex:joy", ["fall into 2 parts"]),
        ("no literal", '?x ex:name "a"@it', ['FILTER(STR(?text) = "a")']),
        ("compared", '?x ex:name ?y FILTER(?y = "a")', ["write STR(?y) in place of ?y"]),
        ("compared", '?x ex:name ?y FILTER(?y IN ("a", "b"))', ["write STR(?y) in place of ?y"]),
        ("any case", '?x ex:name ?y FILTER(REGEX(STR(?y), "a"))', ['"i")']),
        ("types", "?p ex:owns ?d . ?p ex:barks ?l", ["?p is of two kinds", "ex:Person", "ex:Dog"]),
        ("types", "?d ex:owns ?p . ?d a ex:Puppy", ["?d is of two kinds"]),
        ("types", "?x ex:name ?y . ?y ex:owns ?d", ["?y is of two kinds", "a text or number"]),
        ("types", "?y ^ex:name ?x . ?y ex:any ?z", ["?y is of two kinds", "a resource by"]),
    ],
)
def test_wrong_patterns_are_found(check: str, body: str, parts: list[str]) -> None:
    [one] = found(NAMES[check], body)
    assert all(part in one for part in parts), one


def test_rules_go_into_prompts_by_pattern() -> None:
    always, some = rules_of(
        '[[rule]]\nid = "a"\ntext = "one\\n  line"\n[[rule]]\nid = "b"\ntext = "two"\npatterns = ["P"]'
    )
    assert always.text == "one line"
    assert [always.applies_to({}), some.applies_to({}), some.applies_to({"P": 0.5})] == [True, False, True]


@pytest.mark.parametrize(
    ("check", "complaint"),
    [
        ('kind = "pleace"', "kind = 'pleace': expected one of"),
        ('kind = "place"\nnames = ["ex:a"]\nin = ["THREE"]', "among FAR, ONE, TWO, outside"),
        ('kind = "place"\nnames = ["nope:a"]\nin = ["ONE"]', "and nope:a is neither"),
        ('kind = "place"\nnames = ["ex:a"]\nin = ["ONE"]\nwhy = "x"', "why, which is unknown"),
        ('kind = "no_graph"\nservice = "ONE"', "expected one of FAR"),
        ('kind = "values"\nproperty = "ex:a"\nend = "left"\nonly = ["ex:b"]', "subject or object"),
        ('kind = "compared"\nproperties = ["ex:a"]\nany_case = 1', "true or false"),
        (
            'kind = "types"\ndisjoint = ["ex:A"]\nends = [{property = "ex:a", subjcet = "ex:A"}]',
            "subjcet, which is unknown",
        ),
    ],
)
def test_a_check_that_cannot_be_read_is_named(check: str, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        rules_of(f'[[rule]]\nid = "first"\ntext = "t"\n[[rule.check]]\n{check}')
    assert complaint in str(caught.value)
    assert "rule 1 (first)" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[[rule]]\nid = "a"\n[[rule]]\nid = "a"', "expected each id once"),
        ('[[rule]]\nid = "a"\npatterns = ["Q"]', "Q is none"),
        ('version = 2\n[[rule]]\nid = "a"', "expected 1"),
        ('[[rule]]\nid = "a"\nchekc = []', "chekc, which is unknown"),
    ],
)
def test_a_rule_that_cannot_be_read_is_named(text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        rules_of(text)


def test_every_rule_of_liita_has_text_and_its_names_are_known() -> None:
    pack = load_pack("liita")
    assert all(rule.text for rule in pack.rules)
    written = "\n".join(rule.text for rule in pack.rules)
    for iri in (*pack.graphs.values(), *pack.services.values()):
        assert f"<{iri}>" in written


NODES, PROPERTIES = [f"n:{n}" for n in range(4)], [f"p:{n}" for n in range(3)]

steps = st.sampled_from(PROPERTIES).flatmap(lambda name: st.sampled_from([f"<{name}>", f"<{name}>+", f"<{name}>?"]))
paths = st.recursive(
    steps,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("/".join).map("({})".format),
        st.tuples(inner, inner).map("|".join).map("({})".format),
        inner.map("^({})".format),
    ),
    max_leaves=4,
)
triples = st.tuples(*map(st.sampled_from, (NODES, PROPERTIES, NODES)))


def written(query: QueryView, group: int = 0) -> str:
    """The patterns of a group as SPARQL again: those of a union as its branches."""
    found = [pattern.text.replace("_:", "?_") for pattern in query.patterns if pattern.group == group]
    unions: dict[int | None, list[str]] = {}
    for inner in query.inside(group):
        unions.setdefault(inner.union, []).append(f"{{ {written(query, inner.number)} }}")
    return " . ".join(found + [" UNION ".join(branches) for branches in unions.values()])


@settings(max_examples=40, deadline=None)
@given(paths, st.lists(triples, max_size=8))
def test_a_path_taken_apart_has_the_same_pairs(path: str, facts: list[tuple[str, str, str]]) -> None:
    store = Store()
    store.extend(Quad(*map(NamedNode, fact)) for fact in facts)

    def pairs(body: str) -> set[tuple[str, str]]:
        rows = store.query(f"SELECT DISTINCT ?a ?b {{ VALUES ?a {{ {' '.join(f'<{n}>' for n in NODES)} }} {body} }}")
        assert isinstance(rows, QuerySolutions)
        return {(str(row["a"]), str(row["b"])) for row in rows}

    assert pairs(written(view_query(f"SELECT * {{ ?a {path} ?b }}"))) == pairs(f"?a {path} ?b")


def test_a_closure_over_several_steps_closes_each() -> None:
    assert [p.text for p in view_query("ASK { ?a (<p:1>/<p:2>)* ?b }").patterns] == ["?a <p:1>* _:1", "_:1 <p:2>* ?b"]
    assert [p.text for p in view_query("ASK { ?a !(<p:1>|<p:2>) ?b }").patterns] == ["?a !(<p:1>|<p:2>) ?b"]


def test_patterns_know_their_graph_and_service() -> None:
    query = view_query(
        "SELECT * { ?a <p:1> ?b . GRAPH <g:1> { ?a <p:2> ?b SERVICE <s:1> { ?a <p:3> ?b GRAPH ?g { ?a <p:4> ?b } } } }"
    )
    places = {pattern.predicate: (pattern.graph, pattern.service) for pattern in query.patterns}
    assert places == {
        "<p:1>": (None, None),
        "<p:2>": ("<g:1>", None),
        "<p:3>": (None, "<s:1>"),
        "<p:4>": ("?g", "<s:1>"),
    }
    assert query.selected == ("?a", "?b", "?g")


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("?a <p:1> ?b FILTER(?a = 1)", "?a ?b"),
        ("?a <p:1> ?b OPTIONAL { ?b <p:2> ?c FILTER(?a = 1) }", "?a ?b ?c"),
        ("?a <p:1> ?b { ?b <p:2> ?c FILTER(?a = 1) }", "?b ?c"),
        ("?a <p:1> ?b SERVICE <s:1> { ?b <p:2> ?c FILTER(?a = 1) }", "?b ?c"),
        ("?a <p:1> ?b FILTER NOT EXISTS { ?b <p:2> ?c FILTER(?a = 1) }", "?a ?b ?c"),
        ("?a <p:1> ?b { SELECT ?c { ?c <p:2> ?d } } BIND(?a AS ?e) FILTER(?a = 1)", "?a ?b ?c ?e"),
        ("?a <p:1> ?b MINUS { ?a <p:2> ?c } FILTER(?a = 1)", "?a ?b"),
        ("GRAPH ?g { ?a <p:1> ?b } VALUES ?v { 1 } FILTER(?a = 1)", "?a ?b ?g ?v"),
    ],
)
def test_a_filter_sees_the_variables_of_its_group(body: str, seen: str) -> None:
    query = view_query(f"SELECT * {{ {body} }}")
    [last] = [one for one in query.conditions if one.kind == "filter" and "?a" in variables(one.expression)]
    assert sorted(query.in_scope(last.group)) == seen.split()


def test_what_is_excluded_does_not_have_to_match() -> None:
    query = view_query(
        "ASK { ?a <p:1> ?b OPTIONAL { ?a <p:2> ?c } MINUS { ?a <p:3> ?c } FILTER NOT EXISTS { ?a <p:4> ?c } }"
    )
    assert [p.predicate for p in query.patterns if query.has_to_match(p.group)] == ["<p:1>", "<p:2>"]


def test_expressions_are_calls() -> None:
    query = view_query(
        "SELECT ?k (COUNT(DISTINCT ?a) AS ?n) { ?a <p:1> ?b BIND(IF(BOUND(?a), 1 + 2, <f:1>(?b)) AS ?k) "
        'FILTER(?a NOT IN (1, 2) || !REGEX(STR(?b), "x", "i")) } GROUP BY ?k HAVING(COUNT(*) > 1) ORDER BY DESC(?n)'
    )
    found = {one.kind: one for one in query.conditions}
    assert found["select"].expression == CallView("COUNT", ("?a",), distinct=True)
    assert found["select"].variable == "?n"
    assert found["group"].expression == "?k"
    assert found["bind"].variable == "?k"
    assert {part.name for part in parts(found["filter"].expression) if isinstance(part, CallView)} == {
        "||", "!", "IN", "REGEX", "STR"
    }  # fmt: skip
    assert {part.name for part in parts(found["bind"].expression) if isinstance(part, CallView)} == {
        "IF", "BOUND", "+", "<f:1>"
    }  # fmt: skip


def test_names_have_their_prefix_and_bases_are_resolved() -> None:
    query = view_query(
        "PREFIX ex: <http://e.org/> BASE <http://b.org/> ASK { ex:a wdt:P31 <c> . VALUES ?v { ex:d UNDEF } }"
    )
    assert query.names == (
        ("ex", "http://e.org/a"),
        ("wdt", "http://www.wikidata.org/prop/direct/P31"),
        ("ex", "http://e.org/d"),
    )
    assert "http://b.org/c" in query.iris
    assert view_query("ASK { ?x <p:1> 5 , '6'^^xsd:int }").iris == ("p:1", "http://www.w3.org/2001/XMLSchema#int")
    assert query.prefixes == {"ex": "http://e.org/"}
    assert query.data[0].rows == (("<http://e.org/d>",), (None,))


def test_terms_are_told_apart() -> None:
    assert (iri_of("<a:b>"), iri_of('"<a:b>"')) == ("a:b", None)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("SELECT ?x { ?x", SparqlSyntaxError),
        ("ASK { nope:a <p:1> ?b }", SparqlSyntaxError),
        ("CONSTRUCT { ?a <p:1> ?b } WHERE { ?a <p:1> ?b }", QueryRefusedError),
        ("ASK { ?a !(<p:1>|^<p:2>) ?b }", QueryRefusedError),
        ("ASK " + "{" * 300 + "}" * 300, QueryRefusedError),
    ],
)
def test_what_is_no_query_is_refused(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        view_query(text)
