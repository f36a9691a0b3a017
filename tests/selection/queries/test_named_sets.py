"""Sets of a class in a place, with a bound: a query has all that a question names."""

import pytest
from support.query.world import FakeScore, WorldIndex, overlap, result_of

from refactx.ask.prompt import load_prompt
from refactx.engines.engine import TreeReading
from refactx.selection.mentions import find_mention_spans, find_mentions
from refactx.selection.queries import QuerySearch
from refactx.selection.query_lines import LineScores
from refactx.walks.language import read_line

CLUB, TEAM = "football club (organization)", "association football club (team)"
CYPRUS, MALTA, ROMANIA, RIVER = "Cyprus (country)", "Malta (country)", "Romania (country)", "river (watercourse)"
FOUNDED = [(f"Club {n}", CYPRUS if n % 3 else MALTA, 1900 + n) for n in range(90)]
PROPERTIES = {
    "instance of": ("P31", "entity", "has instance"),
    "subclass of": ("P279", "entity", "has subclass"),
    "country": ("P17", "entity", "country of"),
    "twinned with": ("P190", "entity", "twin of"),
    "inception": ("P571", "time", ""),
    "length": ("P2043", "quantity", ""),
}
CLAIMS = {
    *((name, "instance of", TEAM) for name, _, _ in FOUNDED),
    *((name, "country", place) for name, place, _ in FOUNDED),
    *((name, "inception", str(year)) for name, _, year in FOUNDED),
    (TEAM, "subclass of", CLUB),
    ("The Old Boys", "instance of", CLUB),
    ("The Young Boys", "instance of", CLUB),
    ("Club 1", "twinned with", CYPRUS),
    *((name, "instance of", RIVER) for name in ("Olt", "Prut", "Rhine")),
    *((name, "country", ROMANIA) for name in ("Olt", "Prut")),
    *(("Olt", "length", "615"), ("Prut", "length", "953"), ("Rhine", "length", "1230")),
    ("The River (film)", "length", "124"),
    ("România (alias)", "alias of", ROMANIA),
    ("Romania (alias)", "alias of", "Byzantine Empire"),
    ("Byzantine Empire", "inception", "0395"),
}
INDEX = WorldIndex(CLAIMS, PROPERTIES)  # type: ignore[arg-type]
WORDS = load_prompt("wikidata").words
assert WORDS is not None


def search_for(question: str) -> QuerySearch:
    assert WORDS is not None
    return QuerySearch(
        facts=INDEX.facts,
        words=WORDS,
        question=question,
        mentions=INDEX.mentions(question, WORDS),
        scores=LineScores(INDEX.tokenizer, FakeScore(INDEX.tokenizer, overlap(question)), TreeReading.ROWS, "Query:"),
    )


def likeliest(question: str) -> str:
    search = search_for(question)
    found = [one for head in search.heads for one in result_of(search.candidates(head))]
    return max(found, key=lambda one: one.score).line


@pytest.mark.parametrize(
    ("question", "line"),
    [
        (
            "How many football clubs in Cyprus were founded after 1960?",
            "count <football club> <has instance> which <country> <Cyprus> which <inception> over <1960>",
        ),
        (
            "How many football clubs in Malta were founded in 1948?",
            "count <football club> <has instance> which <country> <Malta> which <inception> equals <1948>",
        ),
        (
            "How many football clubs in Malta were founded in the 1960s?",
            "count <football club> <has instance> which <country> <Malta> "
            "which <inception> over <1959> which <inception> under <1970>",
        ),
        ("What is the longest river in Romania?", "most <river> <has instance> which <country> <Romania> by <length>"),
    ],
)
def test_a_query_has_the_class_the_place_and_the_bound(question: str, line: str) -> None:
    assert likeliest(question) == line


def test_a_class_of_few_stands_for_a_narrower_one_of_many() -> None:
    assert TEAM in [one.name for one in search_for("How many football clubs are there?").classes]
    assert [one.name for one in search_for("How many rivers are there?").classes] == [RIVER]


def test_what_leads_hardly_any_member_to_a_place_is_no_filter() -> None:
    search = search_for("How many football clubs in Cyprus are there?")
    [class_] = [one for one in search.classes if one.name == TEAM]
    found = search.conditions.of(search.conditions.base_of(class_))
    assert {one.which.hops[0].predicate for one in found if one.mention.name == CYPRUS} == {"country"}


def test_names_and_bounds_that_a_query_leaves_out_count_against_it() -> None:
    search = search_for("How many football clubs in Cyprus were founded after 1960?")
    costs = [
        search.left_out(read_line(line))
        for line in (
            f"count <{TEAM}> <has instance> which <country> <{CYPRUS}> which <inception> over <1960>",
            f"count <{TEAM}> <has instance> which <inception> over <1960>",
            f"count <{TEAM}> <has instance>",
        )
    ]
    assert costs == [0.0, costs[1], 2 * costs[1]]
    assert costs[1] > 0


def test_an_article_in_small_letters_is_no_part_of_a_name() -> None:
    assert WORDS is not None
    machine, tokens = INDEX.machine, INDEX.folded

    def named(question: str) -> set[str]:
        spans = find_mention_spans(machine, machine.begin(0), tokens, question, WORDS.is_function)
        return {one.name for one in find_mentions(machine, INDEX.facts, question, spans).entities}

    assert RIVER in named("List the rivers of Romania.")
    assert "The River (film)" not in named("List the rivers of Romania.")
    assert "The River (film)" in named("How long is The River?")
    assert "The River (film)" in named("how long is the river")


def test_a_name_is_taken_as_it_is_spelt_before_its_alias_with_other_accents() -> None:
    assert WORDS is not None
    found = [one for one in INDEX.mentions("Which rivers are in Romania?", WORDS).entities if one.name == ROMANIA]
    assert [one.called for one in found] == ["Romania"]
