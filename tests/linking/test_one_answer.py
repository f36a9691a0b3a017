"""What people write for a name means one thing, whoever asks: queries, facts, SPARQL, HTTP, MCP, policies and questions.

`TABLE` has names with predicates, and the ids that they mean; an id that is missing means that all of them refuse.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from mcp import Client
from support.ingest.graph_twin import Line, written
from support.ingest.tiny import opened_tiny
from support.server.running import Running, running

import refactx
from refactx.ask.browse import browse
from refactx.ask.prompt import read_words
from refactx.cli.main import cli
from refactx.decoding.machine import Machine
from refactx.fact import clean_part
from refactx.ingest.source_options import Selection
from refactx.iris import id_of_term
from refactx.mcp import fact_server
from refactx.selection.channel import Channel, QuerySources
from refactx.selection.mentions import FoldedTokens, QueryWords, find_mentions, with_names
from refactx.selection.query_answers import QueryAnswers
from refactx.sparql import LabelError, with_iris
from refactx.sparql.placeholders import FactFeasibility, MemoryResolver, NameMemory, Placeholder, ResolvedMentions
from refactx.sparql.placeholders.resolver import MentionPattern
from refactx.sparql.syntax.tokens import tokens_of
from refactx.walks import QueryError, TreeFacts, answer_query, read_line, resolve

NAMES = {
    "Q1": ("Ann Lee", "a poet", ("Annie",)),
    "Q2": ("Ann Lee", "a town", ()),
    "Q3": ("Vincent van Gogh", "Dutch painter", ("Van Gogh",)),
    "Q4": ("J. R. R. Tolkien", "writer", ("Tolkien",)),
    "Q5": ("Antonín Dvořák", "", ()),
    "Q6": ("New York City", "largest city", ("NYC", "Big Apple")),
    "Q7": ("Gothams", "baseball club", ("New York",)),
    "Q8": ("body_part", "", ()),
    "Q9": ("human", "", ("person",)),
    "Q10": ("Bob", "", ()),
    "Q11": ("Washington", "a state", ()),
    "Q12": ("George Washington", "first president", ("Washington",)),
    "Q13": ("UTC+01:00", "time zone", ("CET",)),
    "Q14": ("Côte d’Ivoire", "", ("Ivory Coast", "コートジボワール")),
    "Q15": ("People's Republic of China", "", ("中国", "China")),
    "Q16": ("Republic of China", "an island", ("China",)),
    "Q17": ("AC/DC", "a band", ("Jeopardy!", "M*A*S*H")),
    "Q18": ("Ham Topping", "", ()),
    "Q19": ("Parma Ham Topping", "", ()),
    "Q20": ("Anchovies Topping", "", ()),
    "Q21": ("Olive Topping", "", ()),
    "Q22": ("Garlic Topping", "", ()),
    "Q23": ("The Hague", "a city", ()),
    "Q24": ("Beatles, The", "a rock group", ("Fab Four, The",)),
    "Q25": ("Doe, John", "", ()),
    "Q26": ("Doe Jane", "", ()),
    "P31": ("instance of", "", ("is a",)),
    "P26": ("spouse", "", ("wife",)),
    "P19": ("place of birth", "", ("birthplace",)),
}
CLAIMS = [(id_, "P31", "Q9") for id_ in ("Q1", "Q3", "Q4", "Q5", "Q6", "Q7", "Q8", *(f"Q{at}" for at in range(10, 27)))]
CLAIMS += [("Q1", "P26", "Q10"), ("Q1", "P19", "Q6"), ("Q12", "P26", "Q1"), ("Q11", "P19", "Q6"), ("Q11", "P19", "Q7")]
CLAIMS += [("Q2", "P31", "Q8")]
TABLE: list[tuple[str, str, str, str]] = [
    ("Vincent van Gogh (Dutch painter)", "instance of", "Q3", "P31"),  # as the index has them
    ("Vincent van Gogh", "instance of", "Q3", "P31"),  # without the description
    ("vincent van gogh", "instance of", "Q3", "P31"),  # in another case
    ("VINCENT VAN GOGH", "instance of", "Q3", "P31"),
    ("Vincent Van Gogh", "instance of", "Q3", "P31"),
    ("vincent_van_gogh", "instance of", "Q3", "P31"),  # with underscores
    ("van gogh, vincent", "instance of", "Q3", "P31"),  # as in lists
    ("vincent van gogh (dutch painter)", "instance of", "Q3", "P31"),
    ("van gogh", "instance of", "Q3", "P31"),  # an alias
    ("Van Gogh", "instance of", "Q3", "P31"),
    ("j r r tolkien", "instance of", "Q4", "P31"),  # without full stops
    ("J R R Tolkien", "instance of", "Q4", "P31"),
    ("J.R.R. Tolkien", "instance of", "Q4", "P31"),
    ("JRR Tolkien", "instance of", "Q4", "P31"),
    ("Tolkien, J. R. R.", "instance of", "Q4", "P31"),
    ("tolkien", "instance of", "Q4", "P31"),
    ("Antonin Dvorak", "instance of", "Q5", "P31"),  # without accents
    ("antonin dvorak", "instance of", "Q5", "P31"),
    ("Dvořák, Antonín", "instance of", "Q5", "P31"),
    ("ANTONÍN DVOŘÁK", "instance of", "Q5", "P31"),
    ("new york city", "instance of", "Q6", "P31"),
    ("new_york_city", "Instance Of", "Q6", "P31"),
    ("nyc", "instance of", "Q6", "P31"),
    ("big apple", "instance of", "Q6", "P31"),
    ("new york", "instance of", "Q7", "P31"),
    ("body part", "instance of", "Q8", "P31"),
    ("Body Part", "instance of", "Q8", "P31"),
    ("BodyPart", "instance_of", "Q8", "P31"),
    ("bob", "instance of", "Q10", "P31"),
    ("Ann Lee", "spouse", "Q1", "P26"),  # of two, the one that has it
    ("ann lee", "spouse", "Q1", "P26"),
    ("Lee, Ann", "Spouse", "Q1", "P26"),
    ("Ann Lee", "place of birth", "Q1", "P19"),
    ("annie", "wife", "Q1", "P26"),  # aliases of both
    ("Annie", "birthplace", "Q1", "P19"),
    ("washington", "spouse", "Q12", "P26"),  # an alias, if that has it
    ("washington", "place of birth", "Q11", "P19"),
    ("Vincent", "is a", "Q3", "P31"),  # a part of one name alone
    ("Dvorak", "instance of", "Q5", "P31"),
    ("York City", "instance of", "Q6", "P31"),
    ("Lee", "spouse", "Q1", "P26"),
    ("Republic", "instance of", "", "P31"),  # of several
    ("ham", "instance of", "Q18", "P31"),  # of one, but for the word that says its kind
    ("anchovy", "instance of", "Q20", "P31"),
    ("parma", "instance of", "Q19", "P31"),
    ("topping", "instance of", "", "P31"),
    ("Vincent van Goh", "instance of", "", "P31"),  # errors of typing
    ("Nobody Knows", "instance of", "", "P31"),
    ("Hague, The", "instance of", "Q23", "P31"),  # articles before and behind
    ("the hague", "instance of", "Q23", "P31"),
    ("hague,the", "instance of", "Q23", "P31"),
    ("The Beatles", "instance of", "Q24", "P31"),
    ("the beatles", "instance of", "Q24", "P31"),
    ("Beatles, The", "instance of", "Q24", "P31"),
    ("the Fab Four", "instance of", "Q24", "P31"),
    ("John Doe", "instance of", "Q25", "P31"),
    ("john doe", "instance of", "Q25", "P31"),
    ("Jane Doe", "instance of", "", "P31"),
    ("Q4", "P31", "Q4", "P31"),  # ids, as people write them
    ("q4", "p31", "Q4", "P31"),
    ("wd:Q4", "wdt:P31", "Q4", "P31"),
    ("wikidata.org/wiki/Q4", "instance of", "Q4", "P31"),
    ("https://www.wikidata.org/wiki/Q4", "https://www.wikidata.org/wiki/Property:P31", "Q4", "P31"),
    ("http://www.wikidata.org/entity/Q4", "http://www.wikidata.org/prop/direct/P31", "Q4", "P31"),
    ("Q404", "instance of", "", "P31"),
    ("wd:Q404", "instance of", "", "P31"),
    ("UTC+01:00", "instance of", "Q13", "P31"),  # what has a scheme, as IRIs do
    ("utc+01:00", "instance of", "Q13", "P31"),
    ("UTC+01:00 (time zone)", "instance of", "Q13", "P31"),
    ("cote d'ivoire", "instance of", "Q14", "P31"),  # apostrophes of all kinds, or none
    ("Cote D Ivoire", "instance of", "Q14", "P31"),
    ("peoples republic of china", "instance of", "Q15", "P31"),
    ("People’s Republic of China", "instance of", "Q15", "P31"),
    ("China, People's Republic of", "instance of", "Q15", "P31"),
    ("コートジボワール", "instance of", "Q14", "P31"),  # letters of any script
    ("中国", "instance of", "Q15", "P31"),
    ("日本", "instance of", "", "P31"),
    ("Anton\u0069\u0301n Dvo\u0159a\u0301k", "instance of", "Q5", "P31"),  # other forms of Unicode
    ("ＢＯＢ", "instance of", "Q10", "P31"),
    ("Bob\u200b", "instance of", "Q10", "P31"),
    ("  Bob  ", "  instance   of ", "Q10", "P31"),
    ("“Bob”", "instance-of", "Q10", "P31"),
    ("'Bob'", "instanceOf", "Q10", "P31"),
    ("«Bob»", "instance of", "Q10", "P31"),
    ("ac dc", "instance of", "Q17", "P31"),
    ("jeopardy", "instance of", "Q17", "P31"),
    ("MASH", "instance of", "Q17", "P31"),
    ("Lee,Ann", "Wife", "Q1", "P26"),
    ("Bob (a town)", "instance of", "", "P31"),  # another description
    ("Bobs", "instance of", "Q10", "P31"),  # another number
    ("China", "instance of", "Q16", "P31"),  # of two, the one with most facts: it is described
    ("Ann", "instance of", "Q1", "P31"),  # a part of a name
    ("x" * 1500, "instance of", "", "P31"),
]


@dataclass(frozen=True)
class World:
    """The index of the names, and a server on it."""

    index: refactx.Index
    facts: TreeFacts
    server: Running

    @cached_property
    def machine(self) -> Machine:
        return Machine(self.index)

    @cached_property
    def folded(self) -> FoldedTokens:
        return FoldedTokens(self.index.tokenizer.token_bytes)


@pytest.fixture(scope="module")
def world(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    lines: list[Line] = [("label", id_, label, "en") for id_, (label, _, _) in NAMES.items()]
    lines += [("description", id_, text, "en") for id_, (_, text, _) in NAMES.items() if text]
    lines += [("alias", id_, alias, "en") for id_, (_, _, aliases) in NAMES.items() for alias in aliases]
    lines += [("claim", *claim) for claim in CLAIMS]
    source, inverse = tmp_path_factory.mktemp("linking") / "graph.nt", Selection(inverse=True)
    with (
        opened_tiny(module_url, source, map(written, lines), selection=inverse) as index,
        running(index=index) as server,
    ):
        yield World(index, TreeFacts(index), server)


Answer = tuple[str, str]
"""The ids of an entity and a predicate; the first is empty if the name has no meaning."""


def of_query(world: World, name: str, predicate: str) -> Answer:
    query, _ = resolve(read_line(f"list <{name}> <{predicate}>"), world.facts)
    ids = world.facts.ids([query.start, query.hops[0].predicate])
    return ids.get(query.start, ""), ids.get(query.hops[0].predicate, "")


def of_facts(world: World, name: str, predicate: str) -> Answer:
    found = browse(world.index, world.facts, subject=name, predicate=predicate)
    if not found.properties or found.subject is None:
        return "", "P31"
    return found.subject.id or "", found.properties[0].predicate.id or ""


def of_http(world: World, name: str, predicate: str) -> Answer:
    found = world.server.get("/v1/facts", params={"subject": name, "predicate": predicate}).json()
    return _of_document(found, "P31")


def _of_document(found: dict[str, Any], unknown: str) -> Answer:
    """Return the answer in a document of facts; without a subject it does not have the predicate."""
    if not found["properties"]:
        return "", unknown
    return found["subject"]["id"], found["properties"][0]["id"]


def of_sparql(world: World, name: str, predicate: str) -> Answer:
    text = f"SELECT ?x {{ <{name}> <{predicate}> ?x }}"
    try:
        sparql = with_iris(text, world.facts).sparql
    except LabelError as error:
        assert "is the name of nothing in the index" in str(error)
        return "", "P31"
    entity, relation = (id_of_term(token.text) for token in tokens_of(sparql) if token.kind in ("name", "iri"))
    return entity, relation


def of_prefix(world: World, name: str, predicate: str) -> Answer:
    found = CliRunner().invoke(cli, ["facts", f"<{name}> <{predicate}> <", "--db", world.index.database.url, "--json"])
    completions = json.loads(found.stdout)["completions"]
    if not completions:
        return "", "P31"
    subject, relation, *_ = completions[0]["text"].lstrip(" <").split("> <")
    ids = world.facts.ids([subject, relation])
    return ids[subject], ids[relation]


def of_mcp(world: World, name: str, predicate: str) -> Answer:
    async def ask() -> Answer:
        async with Client(fact_server(world.index)) as client:
            result = await client.call_tool("facts", {"subject": name, "predicate": predicate})
            return _of_document(result.structured_content or {}, "P31")

    return anyio.run(ask)


def of_ask(world: World, name: str, predicate: str) -> Answer:
    """What a question names; which predicate it asks for is up to the model."""
    question = clean_part(f"Who is {name}?")
    channel = Channel(examples=(), question=(), lead=0, text=question)
    sources = QuerySources(facts=world.facts, words=QueryWords.of(read_words("en")), tokens=world.folded)
    found = QueryAnswers(world.machine, channel, sources).mentions
    relation = world.facts.linker.predicate(" ".join(predicate.split()))
    assert relation is not None
    named = sorted(
        found.entities, key=lambda one: (-bool(world.facts.counts([one.name], relation.name)[0]), -one.share)
    )
    ids = world.facts.ids([*(one.name for one in named[:1]), relation.name])
    return ids[named[0].name] if named else "", ids[relation.name]


def of_placeholders(world: World, name: str, predicate: str) -> Answer:
    resolver = MemoryResolver(NameMemory(world.index), feasible=FactFeasibility(world.index))
    mentions = {"entity1": Placeholder("entity", name), "relation1": Placeholder("relation", predicate)}
    found = resolver.resolve_mentions(mentions, [MentionPattern("entity1", "relation1")])
    if not isinstance(found, ResolvedMentions):
        return "", "P31"
    return found.ids["entity1"], found.ids["relation1"]


DOORS: dict[str, Callable[[World, str, str], Answer]] = {
    "query": of_query,
    "facts": of_facts,
    "HTTP": of_http,
    "MCP": of_mcp,
    "SPARQL": of_sparql,
    "prefix": of_prefix,
    "placeholders": of_placeholders,
    "ask": of_ask,
}
ONLY_NEAR = {"Vincent van Goh", "Bobs"}
"""What placeholders may mean by their letters alone: thresholds decide."""
OTHERS_IN_TEXT = {"Bob (a town)", "Vincent van Goh"}
"""What a question has as a name with other words."""
LEFT_OUT = {"placeholders": ONLY_NEAR, "ask": OTHERS_IN_TEXT}


@pytest.mark.parametrize("door", DOORS)
def test_a_name_means_the_same_at_each_door(world: World, door: str) -> None:
    rows = [row for row in TABLE if row[0] not in LEFT_OUT.get(door, ())]
    found = {row[:2]: DOORS[door](world, *row[:2]) for row in rows}
    expected = {(name, predicate): (entity, relation) for name, predicate, entity, relation in rows}
    assert {one: (found[one], expected[one]) for one in expected if found[one] != expected[one]} == {}


def test_a_note_says_which_name_a_part_is_taken_for(world: World) -> None:
    (note,) = [
        one.note for one in resolve(read_line("list <Vincent> <is a>"), world.facts)[1] if one.label == "Vincent"
    ]
    assert note == "<Vincent> is taken as <Vincent van Gogh (Dutch painter)>"


def test_suggestions_say_that_they_are_aliases(world: World) -> None:
    suggested = "did you mean <New York City (largest city)>, <New York> (alias of <Gothams (baseball club)>)?"
    with pytest.raises(LabelError) as error:
        with_iris("ASK { <New York Citi> <instance of> ?x }", world.facts)
    assert str(error.value).endswith(suggested)
    with pytest.raises(QueryError) as other:
        answer_query(read_line("list <New York Citi> <instance of>"), world.facts)
    assert str(other.value).endswith(suggested)


def test_of_several_entities_the_others_are_named_at_each_door(world: World) -> None:
    note = (
        "<washington> is taken as <Washington (a state)>; 1 other has this name: <George Washington (first president)>"
    )
    (query,) = [one.note for one in resolve(read_line("list <washington> <instance of>"), world.facts)[1]]
    text = "SELECT ?x { <washington> <instance of> ?x }"
    (sparql,) = [one.note for one in with_iris(text, world.facts).resolved]
    browsed = browse(world.index, world.facts, subject="washington", predicate="instance of").resolved
    served = world.server.post("/v1/sparql", {"query": text}).json()
    assert (query, sparql, browsed and browsed.note, served["note"]) == (note, note, note, note)
    others = ["George Washington (first president)"]
    assert world.server.get("/v1/facts", params={"subject": "washington"}).json()["resolved"]["others"] == others
    assert world.server.post("/v1/sparql", {"query": f"ASK {text[10:]}"}).json()["note"] == note
    query_of_people = world.server.post("/v1/query", {"question": "list <washington> <instance of>"}).json()
    assert query_of_people["resolved"][0]["others"] == others


def test_where_a_meaning_has_to_be_clear_the_names_are_shown(world: World) -> None:
    shown = r"several entities: write one of <Washington \(a state\)> .*<George Washington \(first president\)>"
    with pytest.raises(LabelError, match=shown):
        with_iris("ASK { <washington> <instance of> ?x }", world.facts, clearly=True)


def test_a_name_of_a_predicate_that_a_subject_lacks_is_met_with_names_like_it(world: World) -> None:
    found = world.server.get("/v1/facts", params={"subject": "Bob", "predicate": "instance"}).json()
    assert found["near"] == ["instance of"]


def test_an_iri_of_any_scheme_stays_unless_the_index_has_this_name(world: World) -> None:
    text = "PREFIX a: <UTC+01:00> SELECT ?x { <isbn:1> <geo:1,2> ?x . ?x <tel:+1> a:b }"
    assert with_iris(text, world.facts).sparql == text


@pytest.mark.parametrize(
    ("question", "meant"),
    [
        ("Where was Ann Lee born?", {"Q1", "Q2"}),
        ("Where was Ann Lee (a poet) born?", {"Q1"}),
        ("Is Ann Lee (a town) a town, or Bob?", {"Q2", "Q10"}),
        ("Is it (Ann Lee (a town))?", {"Q2"}),
        ("Is Ann Lee (a poet) in Ann Lee (a town)?", {"Q1", "Q2"}),
        ("Is Ann Lee (a king) it?", {"Q1", "Q2"}),
        ("Who is Q2?", {"Q2"}),
        ("Who is wikidata.org/wiki/Q1?", {"Q1"}),
        ("Is UTC+01:00 in Q6?", {"Q13", "Q6"}),
        ("Who is Q404?", set()),
    ],
)
def test_an_id_or_a_whole_name_in_a_question_means_one_thing(world: World, question: str, meant: set[str]) -> None:
    named = with_names(world.machine, world.folded, question, world.facts)
    for text in (question, named):
        channel = Channel(examples=(), question=(), lead=0, text=text)
        sources = QuerySources(facts=world.facts, words=QueryWords.of(read_words("en")), tokens=world.folded)
        found = QueryAnswers(world.machine, channel, sources)
        assert set(world.facts.ids([one.name for one in found.mentions.entities]).values()) == meant
        subjects = [
            one.name
            for span in found.subject_spans
            for one in find_mentions(world.machine, world.facts, text, [span]).entities
        ]
        assert set(world.facts.ids(subjects).values()) == meant


def test_the_ids_in_a_question_are_read_as_names(world: World) -> None:
    for question, read in [
        ("What is the P26 of q4?", "What is the spouse of J. R. R. Tolkien (writer)?"),
        ("Is https://www.wikidata.org/wiki/Q10 UTC+01:00?", "Is Bob UTC+01:00?"),
        ("Is Q404 in Q2, or wd:Q2?", "Is Q404 in Ann Lee (a town), or Ann Lee (a town)?"),
        ("Who is Bob?", "Who is Bob?"),
    ]:
        assert with_names(world.machine, world.folded, question, world.facts) == read
