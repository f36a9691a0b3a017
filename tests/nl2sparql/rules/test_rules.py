"""Rules: each kind of check finds what it is for, lets right queries through, and bad tables are refused."""

import tomllib

import pytest

from refactx.errors import InputError
from refactx.nl2sparql.pack import SchemaTerm, load_pack
from refactx.nl2sparql.parsed import parse
from refactx.nl2sparql.rule_checks import Rule
from refactx.nl2sparql.rules import Table, read_rules

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
    return read_rules(Table("rules.toml", tomllib.loads(text)), PREFIXES, GRAPHS, SERVICES, {"P": None})


def found(check: str, body: str) -> list[str]:
    """The texts and hints of what a check finds in the patterns of a query."""
    [rule] = rules_of(f'[[rule]]\nid = "r"\ntext = "t"\n[[rule.check]]\n{check}')
    declared = "".join(f"PREFIX {name}: <{iri}> " for name, iri in PREFIXES.items())
    findings = rule.findings(parse(f"{declared} SELECT * {{ {body} }}"), SCHEMA)
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
