"""An answer by an alias of a gold answer in the index is right; another entity's alias is not."""

from pathlib import Path

from support.tiny_model import tiny_index

from refactx.eval.answers import Gold, score
from refactx.eval.names import find_holders, possible_aliases, with_aliases
from refactx.eval.questions import Question
from refactx.eval.run import look_up

FACTS = [
    "<JFK (alias)> <alias of> <John F. Kennedy (president)>",
    "<JFK (alias)> <alias of> <John F. Kennedy International Airport>",
    "<UK (alias)> <alias of> <United Kingdom>",
    "<USA> <capital> <Washington, D.C.>",
]


def question(*golds: Gold) -> Question:
    return Question(id="q1", source="set", text="Who?", answers=golds)


def test_what_may_be_an_alias_in_an_answer() -> None:
    assert possible_aliases("the UK, JFK and the U.S.") == {
        *("the UK, JFK and the U.S", "UK, JFK and the U.S", "the UK", "UK", "JFK", "the U.S", "U.S"),
        *("the UK, JFK and the U.S.", "UK, JFK and the U.S.", "the U.S.", "U.S."),
    }
    assert possible_aliases("") == possible_aliases(" . ") == set()
    assert possible_aliases("word " * 50) == set(), "a sentence is no name"


def test_only_a_leading_article_is_left_out() -> None:
    assert possible_aliases("Santa Cruz") == {"Santa Cruz"}
    assert possible_aliases("A Santa Cruz") == {"A Santa Cruz", "Santa Cruz"}


def test_an_alias_is_looked_up_with_more_capitals() -> None:
    assert possible_aliases("the usa and barack obama") == {
        *("the usa and barack obama", "The Usa And Barack Obama", "usa and barack obama", "Usa And Barack Obama"),
        *("the usa", "The Usa", "usa", "Usa", "USA", "barack obama", "Barack Obama"),
    }
    assert "U.K." in possible_aliases("u.k.")
    assert possible_aliases("Usa") == {"Usa", "USA"}


def test_an_alias_in_the_index_leads_to_all_its_entities() -> None:
    holders = find_holders(tiny_index(FACTS), {"JFK", "USA", "nobody <here>"})
    assert {text: set(names) for text, names in holders.items()} == {
        "JFK": {"John F. Kennedy (president)", "John F. Kennedy International Airport"},
        "USA": set(),  # a name, but not an alias
        "nobody <here>": set(),
    }


def test_what_a_run_looks_up_is_the_same_at_once_and_from_its_file(tmp_path: Path) -> None:
    def find(texts: list[str]) -> dict[str, tuple[str, ...]]:
        return find_holders(tiny_index(FACTS), texts)

    file, texts = tmp_path / "aliases.json", {"UK", "nobody"}
    assert look_up(file, texts, find, list) == look_up(file, texts, find, list)
    assert look_up(tmp_path / "types.json", texts, find, type) == {"UK": list, "nobody": list}


def test_an_alias_of_a_gold_answer_is_that_answer() -> None:
    holders = {
        "JFK": ("John F. Kennedy (president)", "John F. Kennedy International Airport"),
        "UK": ("United Kingdom",),
    }
    named = {"Q9696": ("John F. Kennedy (president)",), "Q1": ("Kennedy (town)",)}
    asked = question(Gold("Kennedy", "Q9696"))
    assert score("JFK", asked.answers).f1 == 0.0
    assert score("JFK", with_aliases(asked, holders, named).answers).f1 == 1.0
    assert score("UK", with_aliases(asked, holders, named).answers).f1 == 0.0
    # An id that the index has distinguishes entities of the same name.
    assert with_aliases(question(Gold("John F. Kennedy", "Q1")), holders, named).answers[0].aliases == ()
    # Without one, the name decides.
    assert score("JFK", with_aliases(question(Gold("John F. Kennedy")), holders, {}).answers).exact
    both = with_aliases(question(Gold("John F. Kennedy"), Gold("United Kingdom")), holders, {}).answers
    assert score("the UK and JFK", both).exact
