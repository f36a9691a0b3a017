"""Graphs with IRIs, and tables with keys: memories, placeholders, policies and tables of results have their ids."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from support.ingest.living_index import LivingIndex
from support.memory.graph import build
from support.memory.letters import LetterEncoder

from refactx.ask.conversation import Message
from refactx.cli.main import cli
from refactx.cli.sparql import links_by_id
from refactx.errors import InputError
from refactx.fact import Link
from refactx.index.index import Index
from refactx.ingest.source_options import Selection, TableOptions
from refactx.iris import entity_term
from refactx.sparql import with_iris
from refactx.sparql.engines import open_engine
from refactx.sparql.labels import LabelError, ids_of
from refactx.sparql.packs import make_writer
from refactx.sparql.packs.prompt import WritingTask, load_sparql_prompt
from refactx.sparql.placeholders.entry import Memory, ResolvedMentions
from refactx.sparql.placeholders.index_names import IndexNames, IndexResolver
from refactx.sparql.placeholders.name_memory import NameMemory
from refactx.sparql.placeholders.opening import open_memory
from refactx.sparql.placeholders.resolver import FactFeasibility, MemoryResolver
from refactx.sparql.placeholders.text import Dialect, Placeholder, Refusal, Style, read_pgmr, to_pgmr
from refactx.sparql.store import build_store
from refactx.walks import TreeFacts, read_line, to_sparql
from refactx.walks.language import QueryError

EX = "http://example.org/Places#"
TURTLE = """
@prefix : <http://example.org/Places#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix schema: <http://schema.org/> .
:PAK rdfs:label "Pakistan" ; a :Country ; :capital :Islamabad ; :code "PK" .
:PER rdfs:label "Peru" ; a :Country ; :capital :Lima ; :code "PE" .
:P12 rdfs:label "Palau" ; a :Country ; :code "PW" .
:Lima schema:description "city in Peru" .
:Lima2 rdfs:label "Lima" ; schema:description "kind of bean" ; a :Plant .
:capital rdfs:label "capital" ; rdfs:comment "seat of government" .
"""
TABLE = "key,country,capital,code\nPAK,Pakistan,Islamabad,PK\nPER,Peru,Lima,PE\nP12,Palau,,PW\n"
KEYED = TableOptions(subjects=("country",), ids=("key",))


class Place(NamedTuple):
    """An index of one of these, and what its ids begin with."""

    living: LivingIndex
    begin: str

    def id(self, local: str) -> str:
        return self.begin + local

    def text(self, query: str) -> str:
        """Return a query with terms in place of `ex:PAK`."""
        return re.sub(r"\bex:(\w+)", lambda match: entity_term(self.id(match[1])), query)


def made(url: str, folder: Path, kind: str, name: str = "") -> Place:
    living = LivingIndex(url, folder, name or kind)
    if kind == "graph":
        (folder / "graph.ttl").write_text(TURTLE)
        living.ingest_from(folder / "graph.ttl", selection=Selection(inverse=True), replace=True)
        return Place(living, EX)
    (folder / "table.csv").write_text(TABLE)
    living.ingest_from(folder / "table.csv", selection=Selection(tables=KEYED), replace=True)
    return Place(living, "")


@pytest.fixture(scope="module", params=["graph", "table"])
def place(request: pytest.FixtureRequest, module_url: str, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return made(module_url, tmp_path_factory.mktemp("place"), request.param)


@pytest.fixture(scope="module")
def index(place: Place) -> Iterator[Index]:
    build(place.living, LetterEncoder())
    with place.living.open() as opened:
        build_store(opened)
        yield opened


@pytest.fixture(scope="module", params=["vectors", "names"])
def memory(index: Index, request: pytest.FixtureRequest) -> Memory:
    return open_memory(index, LetterEncoder()) if request.param == "vectors" else NameMemory(index)


def test_entries_have_ids_and_kinds_of_the_index(place: Place, memory: Memory) -> None:
    mentions = [Placeholder("entity", "pakistan"), Placeholder("entity", "Palau"), Placeholder("relation", "Capital")]
    found = [[(one.id, one.kind) for one in some] for some in memory.exact(mentions)]
    expected = [("PAK", "entity"), ("P12", "entity"), ("capital", "relation")]
    assert found == [[(place.id(local), kind)] for local, kind in expected]
    assert memory.exact([Placeholder("relation", "Palau"), Placeholder("entity", "capital")]) == [[], []]


def test_the_nearest_are_of_the_kind(place: Place, memory: Memory) -> None:
    entities, relations = memory.nearest([Placeholder("entity", "Pakistann"), Placeholder("relation", "capitals")], 2)
    assert (entities[0].entry.id, relations[0].entry.id) == (place.id("PAK"), place.id("capital"))
    assert {one.entry.kind for one in entities} == {"entity"}
    assert {one.entry.kind for one in relations} == {"relation"}
    (pakistan,), (peru,) = memory.exact([Placeholder("entity", "Pakistan"), Placeholder("entity", "Peru")])
    alike = memory.similarities(Placeholder("entity", "Pakistann"), [pakistan, peru])
    assert alike[0] > max(alike[1], 0)


def test_an_entry_that_the_index_has_no_more_goes_with_the_next_build(module_url: str, tmp_path: Path) -> None:
    place = made(module_url, tmp_path, "table", "shrinking")
    build(place.living, LetterEncoder())
    (tmp_path / "gone.csv").write_text("key,country,capital,code\nPER,Peru,Lima,PE\n")
    place.living.forget_from(tmp_path / "gone.csv", selection=Selection(tables=KEYED))
    build(place.living, LetterEncoder())
    with place.living.open() as opened:
        found = open_memory(opened, LetterEncoder())
        assert [len(some) for some in found.exact([Placeholder("entity", "Peru"), Placeholder("entity", "Palau")])] == [
            0,
            1,
        ]


def test_a_query_with_placeholders_runs_on_the_store(place: Place, index: Index, memory: Memory) -> None:
    text = "SELECT ?x { wd:entity1 wdt:relation1 ?x }\nentity1 = [ENT] Peruu [/ENT]\nrelation1 = [REL] codes [/REL]"
    query = read_pgmr(text)
    found = MemoryResolver(memory, tau=0.3, feasible=FactFeasibility(index), must_match=True).resolve_query(query)
    assert isinstance(found, ResolvedMentions)
    sparql = query.with_ids(found.ids)
    assert sparql == place.text("SELECT ?x { ex:PER ex:code ?x }")
    engine = open_engine(index, "store")
    result = engine.run(sparql)
    assert not isinstance(result, bool)
    assert [str(row[0]) for row in result.rows] == ['"PE"']
    engine.close()


@pytest.mark.parametrize("dialect", ["block", "inline"])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT ?x { ex:PER ex:code ?x }",
        "SELECT ?x { ?x ex:code|ex:capital 'Lima' FILTER(?x != ex:PAK && STRLEN(STR(?x)) > 1) }",
        "SELECT ?l { VALUES ?x { ex:PAK ex:PER } ?x <http://www.w3.org/2000/01/rdf-schema#label> ?l ; ex:code ?y }",
        "ASK { GRAPH <http://e.org/g> { ex:PAK ex:code 'x'^^<http://e.org/t>, <http://e.org/nothing> } }",
    ],
)
def test_a_query_becomes_pgmr_text_and_the_same_query_again(
    place: Place, index: Index, query: str, dialect: Dialect
) -> None:
    sparql = place.text(query)
    text = to_pgmr(sparql, IndexNames(index), Style(dialect=dialect))
    assert not re.search(r"(PAK|PER|code|capital)>", text)
    assert read_pgmr(text).resolved(IndexResolver(index)) == sparql


def test_prefixes_of_ones_own_are_read_too(index: Index, place: Place) -> None:
    text = to_pgmr(f"PREFIX : <{place.begin or 'urn:refactx:id:'}> ASK {{ :PAK :code ?x }}", IndexNames(index))
    assert read_pgmr(text).resolved(IndexResolver(index)).endswith(place.text("ASK { ex:PAK ex:code ?x }"))


def test_a_name_means_things_of_its_kind_alone(index: Index) -> None:
    mentions = [Placeholder("relation", "Peru"), Placeholder("entity", "capital"), Placeholder("entity", "")]
    assert all(isinstance(one, Refusal) for one in IndexResolver(index).resolve(mentions))


def test_parts_of_statements_are_wikidatas_alone(place: Place) -> None:
    query = read_pgmr("ASK { ?x p:relation1 ?y }\nrelation1 = [REL] code [/REL]")
    with pytest.raises(QueryError, match=r"p:relation1 is a part of a statement.*write wdt:relation1"):
        query.with_ids({"relation1": place.id("code")})
    with pytest.raises(QueryError, match=r"relation1 = \[REL\] code \[/REL\] has no id"):
        query.with_ids({})


class Scripted:
    """A model with one reply."""

    def __init__(self, reply: str) -> None:
        self.reply, self.asked = reply, list[Sequence[Message]]()

    def generate(self, messages: Sequence[Message], max_new_tokens: int) -> str:
        self.asked.append(messages)
        return self.reply


TASK = WritingTask(question="What is the code of Peru?")


def test_ids_that_the_index_does_not_have_are_made_up(place: Place, index: Index) -> None:
    reply = place.text("PREFIX x: <http://x.org/> SELECT ?x { ex:PER ex:code ?x ; x:made 1 ; <urn:refactx:id:up> 2 }")
    written = make_writer("ids", index, model=Scripted(reply)).write(TASK)
    assert written.sparql == reply
    assert written.made_up == ("http://x.org/made", "up")


def test_rag_gives_ids_as_sparql_writes_them(place: Place, index: Index) -> None:
    model = Scripted("ASK { }")
    written = make_writer("rag", index, model=model, memory=NameMemory(index)).write(TASK)
    assert place.id("PER") in {one.id for one in written.given}
    assert place.text("ex:PER = Peru") in str(model.asked[0][-1]["content"])


def test_names_of_a_constrained_query_are_resolved(place: Place, index: Index) -> None:
    writer = make_writer("constrained", index, model=Scripted("SELECT ?x { <Peru> <code> ?x }"))
    written = writer.write(TASK)
    assert written.sparql == place.text("SELECT ?x { ex:PER ex:code ?x }")
    assert {name: (one.entry.id, one.entry.kind) for name, one in written.choices.items()} == {
        "<Peru>": (place.id("PER"), "entity"),
        "<code>": (place.id("code"), "relation"),
    }


@pytest.mark.parametrize("more", ["<http://example.org/Places#PAK> ?p ?x", "?x <urn:refactx:id:code> ?y"])
def test_placeholders_admit_no_other_ids(index: Index, more: str) -> None:
    names = "entity1 = [ENT] Peru [/ENT]\nrelation1 = [REL] capital [/REL]"
    reply = f"SELECT ?x {{ wd:entity1 wdt:relation1 ?x . {more} }}\n{names}"
    written = make_writer("placeholders", index, model=Scripted(reply), memory=NameMemory(index)).write(TASK)
    assert written.sparql is None
    assert "stands for no name" in written.reason


def test_properties_are_known_for_hints_and_completions(index: Index) -> None:
    names = TreeFacts(index)
    assert not names.linker.has_no_properties
    assert "capital" in names.linker.predicates_beginning("cap")
    with pytest.raises(LabelError, match="<capitol> is no property of the index: did you mean <capital>"):
        with_iris("SELECT ?x { <Peru> <capitol> ?x }", names)


def test_tables_show_labels_with_pages_or_keys(place: Place, index: Index) -> None:
    given = ["sparql", "SELECT ?x { ?x <code> 'PE' }", "--db", place.living.url, "--index", place.living.name]
    done = CliRunner().invoke(cli, given, catch_exceptions=False)
    assert done.stdout.splitlines() == ["x", f"Peru {place.id('PER')}"]


def test_an_example_of_a_prompt_may_have_any_ids(tmp_path: Path) -> None:
    texts = [
        f"[{form}]\nsystem = 's'\nuser = '''{texts.user}'''\n" for form, texts in load_sparql_prompt().texts.items()
    ]
    example = (
        "[[example]]\nquestion = 'q'\nsparql = 'SELECT ?x { <http://e.org/Peru> <http://e.org/code> ?x }'\n"
        '[example.names]\n"http://e.org/Peru" = "Peru (country)"\n"http://e.org/code" = "code"\n'
    )
    path = tmp_path / "own.toml"
    path.write_text("".join([*texts, example]))
    own = load_sparql_prompt(str(path))
    assert own.messages("constrained", "Who?")[2]["content"] == "SPARQL: SELECT ?x { <Peru (country)> <code> ?x }\n"
    said = str(own.messages("placeholders", "Who?")[2]["content"])
    assert said.splitlines()[1:] == ["entity1 = [ENT] Peru [/ENT] country", "relation1 = [REL] code [/REL]"]
    path.write_text("".join([*texts, example.replace('"http://e.org/code"', '"http://e.org/cod"')]))
    with pytest.raises(InputError, match=r"has http://e.org/cod, http://e.org/code not both in its query"):
        load_sparql_prompt(str(path))


def test_ids_of_a_query_have_the_kinds_of_their_places() -> None:
    found = ids_of("PREFIX e: <http://e.org/> SELECT ?x { e:a e:p/^<http://e.org/q> ?x FILTER(e:f(?x) > '1'^^e:t) }")
    assert (found.entities, found.properties) == ({"http://e.org/a"}, {"http://e.org/p", "http://e.org/q"})
    assert ids_of("SELECT ?x { <http://e.org/a> rdfs:label").all == {"http://e.org/a"}


def test_queries_and_rows_of_a_wikibase_have_its_own_iris(module_url: str, tmp_path: Path) -> None:
    kb = "https://kb.example.org/"
    labels = {"Q1": "Ann", "Q2": "Bo", "P2": "knows"}
    lines = [
        f"<{kb}entity/Q1> <{kb}prop/direct/P2> <{kb}entity/Q2> .",
        *(
            f'<{kb}entity/{id_}> <http://www.w3.org/2000/01/rdf-schema#label> "{one}"@en .'
            for id_, one in labels.items()
        ),
    ]
    (tmp_path / "kb.nt").write_text("\n".join(lines))
    living = LivingIndex(module_url, tmp_path, "kb")
    living.ingest_from(tmp_path / "kb.nt", selection=Selection(inverse=True), replace=True)
    with living.open() as opened:
        build_store(opened)
        facts = TreeFacts(opened)
        sparql = to_sparql(read_line("list <Ann> <knows>"), facts)
        assert f"PREFIX wd: <{kb}entity/>\nPREFIX wdt: <{kb}prop/direct/>" in sparql
        for name in ("store", "tree"):
            engine = open_engine(opened, name)
            for query in (
                sparql,
                "SELECT DISTINCT ?x { wd:Q1 wdt:P2 ?x }",
                f"SELECT DISTINCT ?x {{ <{kb}entity/Q1> wdt:P2 ?x }}",
            ):
                found = engine.run(query)
                assert not isinstance(found, bool) and [str(row[0]) for row in found.rows] == [f"<{kb}entity/Q2>"], (
                    query
                )
            assert engine.run(f"ASK {{ <{kb}entity/Q1> <{kb}prop/direct/P2> <{kb}entity/Q2> }}") is True
            engine.close()
        assert links_by_id(facts, [f"{kb}entity/Q2"]) == {f"{kb}entity/Q2": Link("Bo", "Q2", f"{kb}entity/Q2")}
    shown = CliRunner().invoke(cli, ["sparql", "SELECT ?x { <Ann> <knows> ?x }", "--index", "kb", "--db", module_url])
    assert shown.exit_code == 0 and f"Bo {kb}entity/Q2" in shown.stdout, shown.output
