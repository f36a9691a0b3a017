"""Graphs of any kind: IRIs as ids, names of all sources, blank nodes, lists and restrictions, in every syntax of RDF."""

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pyoxigraph
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, RdfFormat, Triple
from support.ingest.knowledge_runs import build_knowledge_base
from support.ingest.quiet import QUIET

from refactx.errors import InputError
from refactx.ingest.knowledge.knowledge_base import KnowledgeBase
from refactx.ingest.profile import PREFIXES, local_name, read_profile
from refactx.ingest.source_options import Selection, TableOptions, properties_of

Fact = tuple[str, str, str]
EX = "http://example.org/acme#"
ACME = """
@prefix : <http://example.org/acme#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:AcmeRobotics a :Company ; rdfs:label "Acme Robotics"@en, "Acme Robotik"@de ;
  :headOffice [ :city :Graz ; :street "Hauptplatz 1" ] ; :founded "1999"^^xsd:gYear ; :products ( :K7 :K9 ) .
:AnnLee :worksFor :AcmeRobotics ; :salary 12.50 ; :active true ; :breakTime "PT1H"^^xsd:duration .
:worksFor owl:inverseOf :employs ; a owl:ObjectProperty .
"""
SYNTAXES = {
    "nt": RdfFormat.N_TRIPLES, "nq": RdfFormat.N_QUADS, "ttl": RdfFormat.TURTLE, "trig": RdfFormat.TRIG,
    "rdf": RdfFormat.RDF_XML, "jsonld": RdfFormat.JSON_LD, "n3": RdfFormat.N3,
}  # fmt: skip


def built(folder: Path, content: str | bytes, name: str = "graph.ttl", **options: object) -> KnowledgeBase:
    folder.mkdir(exist_ok=True)
    source = folder / name
    source.write_bytes(content.encode() if isinstance(content, str) else content)
    selection = Selection(**options)  # type: ignore[arg-type]  # the options of each test
    base = build_knowledge_base([source], folder / "knowledge", selection=selection, resources=QUIET)
    report = base.report
    assert report.lines_read == report.kept + sum(report.dropped.values()), report
    assert all(count > 0 for count in report.dropped.values())
    return base


def facts_of(base: KnowledgeBase) -> set[Fact]:
    """The facts without qualifiers (`test_nodes` has the others)."""
    units = pq.read_table(base.folder / "units.parquet")["text"].to_pylist()
    rows = [row for row in pq.read_table(base.folder / "facts.parquet").to_pylist() if row.get("tail", -1) < 0]
    facts = [(units[row["subject"]], units[row["predicate"]], units[row["object"]]) for row in rows]
    assert len(set(facts)) == len(facts)
    return set(facts)


def ids_of(base: KnowledgeBase) -> dict[str, str]:
    rows = pq.read_table(base.folder / "names.parquet").to_pylist()
    return {row["name"]: row["id"] for row in rows}


def graph(*lines: str) -> str:
    prefixes = {"": EX, **{name: PREFIXES[name] for name in ("rdf", "rdfs", "owl", "skos", "schema")}}
    return "\n".join([*(f"PREFIX {name}: <{iri}>" for name, iri in prefixes.items()), *lines])


def test_a_graph_of_ones_own_has_names_values_paths_and_lists(tmp_path: Path) -> None:
    base = built(tmp_path, ACME)
    assert facts_of(base) == {
        ("Acme Robotics", "instance of", "Company"),
        ("Acme Robotics", "head office: city", "Graz"),
        ("Acme Robotics", "head office: street", "Hauptplatz 1"),
        ("Acme Robotics", "founded", "1999"),
        ("Acme Robotics", "products", "K7"),
        ("Acme Robotics", "products", "K9"),
        ("Acme Robotics", "products: 1", "K7"),
        ("Acme Robotics", "products: 2", "K9"),
        ("Ann Lee", "works for", "Acme Robotics"),
        ("Ann Lee", "salary", "12.50"),
        ("Ann Lee", "active", "true"),
        ("Ann Lee", "break time", "PT1H"),
    }
    ids = ids_of(base)
    assert ids["Acme Robotics"] == EX + "AcmeRobotics"
    assert ids["works for"] == EX + "worksFor"
    assert ids["head office: city"] == f"<{EX}headOffice>/<{EX}city>"


def nested(value: object) -> str:
    return f"( {' '.join(map(nested, value))} )" if isinstance(value, list) else str(value)


def members(value: object, places: str = "") -> list[tuple[str, str]]:
    """The predicates and objects that a list within lists says, by its places and flat."""
    if not isinstance(value, list):
        return [("points", str(value)), (f"points{places}", str(value))]
    return [one for place, inner in enumerate(value, 1) for one in members(inner, f"{places}: {place}")]


@pytest.mark.parametrize(
    "value",
    [
        [[15.4, 47.1], [14.3, 48.3]],
        [[[1, 2], [3, 4], [5, 6]], [[7, 8]]],
        [1, [2, 3], [[4], 5]],
        [[[[[[[1, 2]]]]]]],
    ],
)
def test_lists_within_lists_are_facts(tmp_path: Path, value: object) -> None:
    base = built(tmp_path, graph(f":route :points {nested(value)} ."))
    assert facts_of(base) == {("route", predicate, object_) for predicate, object_ in members(value)}


@pytest.mark.parametrize(
    "lines",
    [
        [":route :points ( ( ( ( ( ( ( ( ( ( 1 2 ) ) ) ) ) ) ) ) ) ) ."],
        ["_:l rdf:first 1 ; rdf:rest () . :route :points ( _:l _:l ) ."],
        ["_:l rdf:first _:l ; rdf:rest () . :route :points _:l ."],
    ],
)
def test_members_of_lists_that_are_not_followed_are_counted(tmp_path: Path, lines: list[str]) -> None:
    base = built(tmp_path, graph(*lines, ":route :number 'R1' ."))
    assert facts_of(base) == {("route", "number", "R1")}
    assert base.report.dropped["nested list"]


@pytest.mark.parametrize("says", ["owl:intersectionOf {}", "owl:equivalentClass [ owl:intersectionOf {} ]"])
def test_a_class_that_is_an_intersection_itself_says_what_an_equivalent_one_does(tmp_path: Path, says: str) -> None:
    parts = "( :Drink [ a owl:Restriction ; owl:onProperty :madeFrom ; owl:hasValue :Plum ] )"
    base = built(tmp_path, graph(f":Wine a owl:Class ; {says.format(parts)} .", ":x a :Wine ."))
    assert facts_of(base) == {
        ("Wine", "subclass of", "Drink"),
        ("Wine", "made from", "Plum"),
        ("x", "instance of", "Wine"),
    }


def test_a_class_that_is_a_restriction_itself_says_it(tmp_path: Path) -> None:
    base = built(tmp_path, graph(":Wine a owl:Restriction ; owl:onProperty :madeFrom ; owl:someValuesFrom :Grape ."))
    assert facts_of(base) == {("Wine", "made from", "Grape")}


def test_only_the_properties_that_are_wanted_are_facts(tmp_path: Path) -> None:
    (tmp_path / "wanted.txt").write_text(f"{EX}address  # with the parts of the address\n# a comment\n{EX}it's\n")
    wanted = properties_of(str(tmp_path / "wanted.txt"))
    assert wanted == {f"{EX}address", f"{EX}it's"} and properties_of(f"{EX}address,{EX}it's") == wanted
    content = graph(":Ann :address [ :city 'Graz' ] ; :worksFor :Acme ; :address 'here' .", f":Bo <{EX}it's> :Ann .")
    base = built(tmp_path, content, properties=wanted)
    assert facts_of(base) == {("Ann", "address: city", "Graz"), ("Ann", "address", "here"), ("Bo", "it's", "Ann")}
    assert base.report.dropped["other property"] == 1
    with pytest.raises(InputError, match="neither a list of properties nor a file"):
        properties_of("address")


def test_inverse_facts_are_named_by_the_graph_or_by_rule(tmp_path: Path) -> None:
    base = built(tmp_path, ACME, inverse=True)
    assert {
        ("Acme Robotics", "employs", "Ann Lee"),
        ("Graz", "head office: city of", "Acme Robotics"),
        ("Company", "has instance", "Acme Robotics"),
    } <= facts_of(base)
    # `employs` is no predicate of a fact of its own, and still has the id of its property.
    assert ids_of(base)["employs"] == EX + "employs"


@pytest.mark.parametrize("suffix", SYNTAXES)
def test_every_syntax_gives_the_same_facts_and_ids(tmp_path: Path, suffix: str) -> None:
    triples = [quad.triple for quad in pyoxigraph.parse(ACME, format=RdfFormat.TURTLE)]
    written = pyoxigraph.serialize(triples, format=SYNTAXES[suffix])
    assert written is not None
    expected = built(tmp_path / "turtle", ACME, inverse=True)
    found = built(tmp_path / "other", written, f"graph.{suffix}", inverse=True)
    assert facts_of(found) == facts_of(expected)
    assert ids_of(found) == ids_of(expected)
    # The content says what it is, not the name.
    renamed = built(tmp_path / "renamed", written, "graph.ttl", inverse=True)
    assert facts_of(renamed) == facts_of(expected)


def test_labels_come_by_language_then_by_predicate_and_the_others_are_aliases(tmp_path: Path) -> None:
    text = graph(
        ':a skos:prefLabel "360n" ; rdfs:label "Net Content"@en ; :p :b .',
        ':b rdfs:label "A New Hope", "Star Wars"@en, "Guerra"@pt ; :p :c .',
        ':c schema:name "Third" ; rdfs:label "Erste"@de ; :p :d .',
        ':d rdfs:label "Nur deutsch"@de ; :p :a .',
        ':e schema:givenName "Sheldon" ; schema:familyName "Cooper" ; :p :a .',
    )
    facts = facts_of(built(tmp_path, text, aliases=True))
    assert ("Net Content", "p", "Star Wars") in facts
    assert ("A New Hope (alias)", "alias of", "Star Wars") in facts
    assert ("360n (alias)", "alias of", "Net Content") in facts
    assert ("Star Wars", "p", "Third") in facts
    assert ("Third", "p", "d") in facts
    assert ("Sheldon Cooper", "family name", "Cooper") in facts
    in_german = facts_of(built(tmp_path / "de", text, languages=("de",)))
    assert ("Erste", "p", "Nur deutsch") in in_german


def test_names_of_several_things_get_what_tells_them_apart(tmp_path: Path) -> None:
    text = graph(
        ':paris rdfs:label "Paris" ; schema:description "capital of France" ; :in :x .',
        ':paris2 rdfs:label "Paris" ; a :Myth ; :in :x .',
        ':paris3 rdfs:label "Paris" ; :in :x .',
        ':paris4 rdfs:label "Paris" ; a :Town ; :in :x .',
        ':paris5 rdfs:label "Paris" ; a :Town ; :in :x .',
    )
    base = built(tmp_path, text)
    ids = ids_of(base)
    named = {name: id_ for name, id_ in ids.items() if name.startswith("Paris")}
    assert named == {
        "Paris (capital of France)": EX + "paris",
        "Paris (Myth)": EX + "paris2",
        "Paris (paris3)": EX + "paris3",
        "Paris (paris4)": EX + "paris4",
        "Paris (paris5)": EX + "paris5",
    }
    assert base.report.collisions == 5


def test_classes_say_facts_by_restrictions_and_axioms_are_left_out(tmp_path: Path) -> None:
    text = graph(
        ":Pizza a owl:Class . :topping a owl:ObjectProperty .",
        ":Margherita rdfs:subClassOf :Pizza, [ a owl:Restriction ; owl:onProperty :topping ; owl:someValuesFrom :Tomato ],",
        "  [ a owl:Restriction ; owl:onProperty :country ; owl:hasValue :Italy ],",
        "  [ a owl:Restriction ; owl:onProperty :topping ; owl:allValuesFrom [ owl:unionOf (:Tomato :Ham) ] ] .",
        ":Cheesy owl:equivalentClass [ owl:intersectionOf (:Pizza",
        "  [ owl:onProperty :topping ; owl:someValuesFrom :Cheese ]) ] .",
        ":topping rdfs:range [ a owl:Class ; owl:unionOf (:Vegetable :Meat) ] .",
        ":Tomato owl:disjointWith :Ham .",
    )
    base = built(tmp_path, text)
    assert facts_of(base) == {
        ("Margherita", "subclass of", "Pizza"),
        ("Margherita", "topping", "Tomato"),
        ("Margherita", "country", "Italy"),
        ("Cheesy", "subclass of", "Pizza"),
        ("Cheesy", "topping", "Cheese"),
        ("topping", "range", "Vegetable"),
        ("topping", "range", "Meat"),
    }
    assert base.report.dropped["OWL axiom"] > 0


def test_nodes_that_nothing_leads_to_are_counted_and_cycles_end(tmp_path: Path) -> None:
    text = graph(
        ":a :p [ :q _:x ] .",
        "_:x :r _:y . _:y :r _:x . _:y :value 5 .",
        "_:lost :p 1 . _:lost2 :p _:lost3 . _:lost3 :p _:lost2 .",
        '_:named rdfs:label "A named node" ; :p :a .',
        ":a :measure [ rdf:value 7 ] .",
    )
    base = built(tmp_path, text)
    assert facts_of(base) == {
        ("a", "p: q: r: value", "5"),
        ("A named node", "p", "a"),
        ("a", "measure", "7"),
    }
    assert base.report.dropped["anonymous node"] == 3
    assert "no named thing leads to" in base.report.notes[0]


def test_named_graphs_are_read_or_selected(tmp_path: Path) -> None:
    quads = (
        "\n".join(f"<{EX}{s}> <{EX}p> <{EX}o> <{EX}g{g}> ." for s, g in (("a", 1), ("b", 2)))
        + f"\n<{EX}c> <{EX}p> <{EX}o> ."
    )
    assert {s for s, _, _ in facts_of(built(tmp_path / "all", quads, "g.nq"))} == {"a", "b", "c"}
    one = built(tmp_path / "one", quads, "g.nq", graphs=(EX + "g1", "default"))
    assert {s for s, _, _ in facts_of(one)} == {"a", "c"}
    assert one.report.dropped == {"other graph": 1}
    with pytest.raises(InputError, match="no triple in the graphs"):
        built(tmp_path / "none", quads, "g.nq", graphs=(EX + "g3",))


def test_another_wikibase_has_the_profile_of_its_data(tmp_path: Path) -> None:
    kb = "https://kb.example.org/"
    lines = [
        f"<{kb}entity/Q1> <{kb}prop/direct/P2> <{kb}entity/Q3> .",
        f"<{kb}entity/Q1> <{kb}prop/direct/P2> <http://www.wikidata.org/entity/Q3> .",
        *(
            f'<{kb}entity/{id_}> <{PREFIXES["rdfs"]}label> "{name}"@en .'
            for id_, name in (("Q1", "a"), ("P2", "p"), ("Q3", "b"))
        ),
    ]
    base = built(tmp_path, "\n".join(lines), "kb.nt")
    assert facts_of(base) == {("a", "p", "b")}
    assert ids_of(base) == {"a": "Q1", "p": "P2", "b": "Q3"}
    assert base.report.selection["profile"] == {"name": "wikibase", "base": kb}
    assert base.report.dropped == {"url": 1}


def test_a_profile_of_ones_own_names_predicates_and_errors_name_the_key(tmp_path: Path) -> None:
    text = graph(':a :title "The A" ; rdfs:label "a label" ; :secret 1 ; :p :b .')
    file = tmp_path / "own.toml"
    file.write_text(f'labels = ["{EX}title"]\nleft_out = ["{EX}secret"]\n[names]\n"{EX}p" = "is beside"\n')
    assert facts_of(built(tmp_path, text, profile=read_profile(str(file)))) == {
        ("The A", "is beside", "b"),
        ("The A", "label", "a label"),
    }
    file.write_text('lables = ["rdfs:label"]\n')
    with pytest.raises(InputError, match="'lables', which no profile has: did you mean labels"):
        read_profile(str(file))
    file.write_text("labels = 3\n")
    with pytest.raises(InputError, match="labels is not a list of IRIs"):
        read_profile(str(file))
    with pytest.raises(InputError, match="neither a profile nor a file"):
        read_profile("wikidta")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "@prefix : <http://e.org/> .\n:a :p <http://e.org/with space> .",
            "graph.ttl is not Turtle: triple 1: an IRI has a space in it",
        ),
        ('@prefix : <http://e.org/> .\n"a literal" :p :b .', "graph.ttl:2"),
        ("@prefix : <http://e.org/> .\n", "it has no triples"),
        ("@prefix owl: <http://www.w3.org/2002/07/owl#> .\n<http://e.org/a> a owl:Class .", "no fact in 1 line"),
    ],
)
def test_a_graph_that_cannot_be_read_is_one_clear_line(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        built(tmp_path, content)
    assert "\n" not in str(raised.value)
    assert not list((tmp_path / "knowledge").glob("*.parquet"))


def test_names_of_iris_are_their_last_parts_in_words() -> None:
    ends = {
        "hasTopping": "has topping", "FourCheesesTopping": "Four Cheeses Topping", "inMYA": "in MYA",
        "Graz_(city)": "Graz (city)", "x#y": "y", "K7": "K7", "DietTypeCode-HALAL": "Diet Type Code-HALAL", "": "http://e.org/",
        "Ann_McAdam": "Ann McAdam", "AnnMcAdam": "Ann McAdam", "Old+Town": "Old Town", "C++": "C++", "C%2B%2B_Now": "C++ Now",
        "1+1": "1+1", "is_partOf": "is part of", "New_DeLorean": "New DeLorean",
    }  # fmt: skip
    assert {end: local_name(f"http://e.org/{end}") for end in ends} == ends


def test_things_keep_the_capitals_of_their_names_and_predicates_do_not(tmp_path: Path) -> None:
    base = built(tmp_path, graph(":Charles_de_Gaulle :is_partOf :iPhone_SE, :annLee, <http://e.org/Formula+1> ."))
    assert facts_of(base) == {("Charles de Gaulle", "is part of", one) for one in ("iPhone SE", "ann lee", "Formula 1")}


def test_things_without_a_label_are_named_by_predicates_of_the_graph(tmp_path: Path) -> None:
    """The best predicate that a thing has, in the best language; a title that half of the things share names none."""
    text = graph(
        ":a1 :desc 'Bern Belp Airport' ; :description 'small' ; :code 'BRN' ; :routeTo :a2, :b .",
        ":a2 :desc 'Zurich Airport' ; :code 'ZRH' .",
        ":p1 :hasName 'Anna'@en, 'Ana'@es ; :title 'CEO' ; :knows :p2, :p3 .",
        ":p2 :first_name 'Bo' ; :last_name 'Lee' ; :title 'Agent' ; :knows :p1 .",
        ":p3 rdfs:label 'Cy' ; :name 'C.' ; :title 'Agent' ; :knows :p4 .",
        ":p4 :title 'Agent' ; :knows [ :name 'no thing' ] .",
    )
    base = built(tmp_path, text)
    assert facts_of(base) == {
        ("Bern Belp Airport", "code", "BRN"), ("Bern Belp Airport", "description", "small"),
        ("Bern Belp Airport", "route to", "Zurich Airport"), ("Bern Belp Airport", "route to", "b"),
        ("Zurich Airport", "code", "ZRH"), ("Anna", "title", "CEO"), ("Anna", "knows", "Bo Lee"), ("Anna", "knows", "Cy"),
        ("Bo Lee", "first name", "Bo"), ("Bo Lee", "last name", "Lee"), ("Bo Lee", "title", "Agent"),
        ("Bo Lee", "knows", "Anna"), ("Cy", "name", "C."), ("Cy", "title", "Agent"), ("Cy", "knows", "p4"),
        ("p4", "title", "Agent"), ("p4", "knows: name", "no thing"),
    }  # fmt: skip
    assert base.report.notes == (
        f"things without a label are named by {EX}hasName and {EX}name (1), then {EX}desc (2)",
    )


@pytest.mark.parametrize("given", ["code", f"{EX}code"])
def test_the_user_may_say_which_predicate_names_things(tmp_path: Path, given: str) -> None:
    text = graph(":a :code 'BRN' ; rdfs:label 'Bern'@en ; :near :b .", ":b rdfs:label 'Belp' .")
    base = built(tmp_path, text, tables=TableOptions(subjects=(given,)))
    assert facts_of(base) == {("BRN", "near", "Belp")}
    assert base.report.selection["profile"]["named_by"] == (given,)
    with pytest.raises(InputError, match=rf"predicate size \(--subject\) .* with texts are {EX}code$"):
        built(tmp_path / "other", text, tables=TableOptions(subjects=("size",)))


def test_names_that_things_share_have_the_shortest_part_of_their_iris_in_brackets(tmp_path: Path) -> None:
    text = graph(
        ":a :first_name 'A' ; :firstName 'B' ; :description 'one', 'two' ; :p <http://e.org/one/x> .",
        "<http://e.org/two/x> :p :a .",
    )
    assert {predicate for _, predicate, _ in facts_of(built(tmp_path, text))} == {
        "first name (first_name)", "first name (firstName)", "description (acme)", "p",
    }  # fmt: skip
    assert {"x (one)", "x (two)"} <= set(ids_of(built(tmp_path / "other", text)))


def test_classes_of_rdf_schema_are_read_as_those_of_owl(tmp_path: Path) -> None:
    """Also the definition of a class that stands straight on it."""
    lines = (
        ":Wine a {} ; owl:intersectionOf ( :Drink [ owl:onProperty :madeFrom ; owl:someValuesFrom :Grape ] ) .",
        ":madeFrom a {} ; rdfs:label 'made of' . :w a :Wine .",
    )
    owl, rdf = (
        facts_of(built(tmp_path / kind[:3], graph(lines[0].format(kind), lines[1].format(property_))))
        for kind, property_ in (("owl:Class", "owl:ObjectProperty"), ("rdfs:Class", "rdf:Property"))
    )
    assert owl == rdf == {
        ("Wine", "subclass of", "Drink"), ("Wine", "made of", "Grape"), ("w", "instance of", "Wine"),
    }  # fmt: skip


def test_a_class_has_its_members_whatever_their_number_and_a_hub_is_told(tmp_path: Path) -> None:
    lines = [f":a{at} a :Airport ; :country :Chile ." for at in range(3)]
    base = built(tmp_path, graph(*lines), inverse=True, inverse_limit=2)
    members = {("Airport", "has instance", f"a{at}") for at in range(3)}
    assert {fact for fact in facts_of(base) if fact[0][0] != "a"} == members
    assert base.report.not_inverted["hub"] == 3
    assert base.report.notes == (
        "--inverse-limit: 1 object has more than 2 claims of one predicate (hubs), such as Chile (country: 3): these claims "
        "are counted, and have no inverse facts",
    )
    rows = "name,country\n" + "".join(f"a{at},Chile\n" for at in range(3))
    options = TableOptions(subjects=("name",), rows_of=("airports",))
    base = built(tmp_path / "table", rows, "airports.csv", inverse=True, inverse_limit=2, tables=options)
    assert {fact for fact in facts_of(base) if fact[1] == "has row"} == {
        ("airports", "has row", one) for *_, one in members
    }


# --- A twin of one's own: few things, in all combinations.

NODES = [NamedNode(EX + name) for name in ("a", "b", "c", "oneThing")] + [BlankNode(name) for name in ("x", "y")]
PROPERTIES = [NamedNode(EX + name) for name in ("p", "q", "worksFor")]
LABEL, TYPE = NamedNode(PREFIXES["rdfs"] + "label"), NamedNode(PREFIXES["rdf"] + "type")
LITERALS = [
    Literal("5", datatype=NamedNode("http://www.w3.org/2001/XMLSchema#integer")),
    Literal("text"),
    Literal("x", language="fr"),
]
triples_of_nodes = st.builds(
    Triple, st.sampled_from(NODES), st.sampled_from(PROPERTIES), st.sampled_from([*NODES, *LITERALS])
)
labels = st.builds(
    Triple, st.sampled_from(NODES), st.just(LABEL), st.sampled_from([Literal("One"), Literal("Two", language="en")])
)
types = st.builds(
    Triple, st.sampled_from(NODES[:4]), st.just(TYPE), st.sampled_from([NamedNode(EX + "Kind"), NamedNode(EX + "Sort")])
)


def named_by_twin(triples: Sequence[Triple]) -> dict[object, str]:
    """The names of things, by brute force; blank nodes only with a label."""
    found: defaultdict[object, list[tuple[bool, str]]] = defaultdict(list)
    kinds: defaultdict[object, list[str]] = defaultdict(list)
    for subject, predicate, object_ in triples:
        if predicate == LABEL:
            found[subject].append((object_.language is None, object_.value))
        if predicate == TYPE:
            kinds[subject].append(local_name(object_.value))
    used = {part for triple in triples if triple.predicate != LABEL for part in (triple.subject, triple.object)}
    things = {part for part in used | set(found) if isinstance(part, NamedNode) or found[part]}
    label = {one: min(found[one])[1] if found[one] else local_name(one.value) for one in things}
    names: dict[object, str] = {}
    for name, same in itertools.groupby(
        sorted(things, key=lambda one: (label[one], str(one))), key=lambda one: label[one]
    ):
        group = list(same)
        brackets = {
            one: [
                *(sorted(kinds[one])[:1]),
                *([local_name(one.value)] if isinstance(one, NamedNode) else []),
                one.value if isinstance(one, NamedNode) else f"_:{one.value}",
            ]
            for one in group
        }
        if len(group) == 1:
            names[group[0]] = name
            continue
        waiting = group
        while waiting:
            brackets = {
                one: [text for text in brackets[one] if text != name]
                or [one.value if isinstance(one, NamedNode) else f"_:{one.value}"]
                for one in waiting
            }
            count = Counter(brackets[one][0] for one in waiting)
            for one in waiting:
                if count[brackets[one][0]] == 1:
                    names[one] = f"{name} ({brackets[one][0]})"
            waiting = [one for one in waiting if count[brackets[one][0]] > 1]
            brackets = {one: brackets[one][1:] for one in waiting}
    return names


def facts_of_twin(triples: Sequence[Triple]) -> set[Fact]:
    names = named_by_twin(triples)
    claims = [triple for triple in triples if triple.predicate != LABEL]
    facts: set[Fact] = set()

    def follow(root: str, path: tuple[str, ...], triple: Triple, seen: tuple[object, ...]) -> None:
        step = "instance of" if triple.predicate == TYPE else local_name(triple.predicate.value)
        steps = (*path, step.removeprefix(f"{path[-1]} ") if path else step)
        if isinstance(triple.object, Literal):
            if triple.object.language in (None, "en"):
                facts.add((root, ": ".join(steps), triple.object.value))
        elif triple.object in names:
            facts.add((root, ": ".join(steps), names[triple.object]))
        elif triple.object not in seen and len(steps) < 9:
            for below in claims:
                if below.subject == triple.object:
                    follow(root, steps, below, (*seen, triple.object))

    for triple in claims:
        if triple.subject in names:
            follow(names[triple.subject], (), triple, ())
    return facts


@pytest.mark.long
@settings(max_examples=30)  # each is a whole ingest
@given(st.lists(st.one_of(triples_of_nodes, labels, types), min_size=1, max_size=12), st.sampled_from(sorted(SYNTAXES)))
def test_any_graph_in_any_syntax_gives_the_facts_of_the_twin(
    tmp_path_factory: pytest.TempPathFactory, triples: list[Triple], suffix: str
) -> None:
    triples = list(dict.fromkeys(triples))
    expected = facts_of_twin(triples)
    written = pyoxigraph.serialize(triples, format=SYNTAXES[suffix])
    folder = tmp_path_factory.mktemp("graph")
    if not expected:
        with pytest.raises(InputError, match="no fact"):
            built(folder, written or b"", f"g.{suffix}")
        return
    base = built(folder, written or b"", f"g.{suffix}")
    found = {tuple(re.sub(r"_:[0-9a-f]{6}(\w+)", r"_:\1", part) for part in fact) for fact in facts_of(base)}
    assert found == expected
    ids = ids_of(base)
    assert {name: id_ for name, id_ in ids.items() if id_.startswith(EX)}.items() <= {
        **{name: one.value for one, name in named_by_twin(triples).items() if isinstance(one, NamedNode)},
        **{local_name(one.value): one.value for one in PROPERTIES},
    }.items()
