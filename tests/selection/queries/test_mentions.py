"""The entities, predicates and numbers that a question names."""

from collections.abc import Iterable
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.query.name_search import TOKENIZERS, tokenizer_of
from support.query.world import Properties, WorldIndex

from refactx.selection.mentions import MOST_ENTITIES, Mentions, QueryWords

PROPERTIES: Properties = {
    "capital": ("P36", "entity", "capital of"),
    "nickname": ("P1449", "text", ""),
    "date of birth": ("P569", "time", ""),
}
WORDS = QueryWords(function=frozenset(["is", "it", "in", "the", "what", "of", "a"]))


def about(name: str, count: int = 1) -> list[tuple[str, str, str]]:
    return [(name, "nickname", f"b{number}") for number in range(count)]


def alias(name: str, entity: str) -> tuple[str, str, str]:
    return (f"{name} (alias)", "alias of", entity)


def mentioned(question: str, facts: Iterable[tuple[str, str, str]], kind: str = "tiny") -> Mentions:
    return WorldIndex(facts, PROPERTIES, tokenizer=tokenizer_of(kind)).mentions(question, WORDS)


def shares(found: Mentions) -> dict[str, float]:
    return {one.name: one.share for one in found.entities}


@pytest.mark.parametrize("kind", TOKENIZERS)
class TestShares:
    def test_are_of_the_facts_of_all_with_the_name(self, kind: str) -> None:
        facts = [*about("Bo (n)", 6), *about('Bo ("x")', 3), *about("Bo", 1), *about("Bob", 9)]
        found = mentioned("is Bo in?", facts, kind)
        assert shares(found) == pytest.approx({"Bo (n)": 0.6, 'Bo ("x")': 0.3, "Bo": 0.1})
        assert {(one.start, one.stop, one.called) for one in found.entities} == {(3, 5, "Bo")}

    def test_some_of_many_are_those_with_most_facts(self, kind: str) -> None:
        facts = [fact for count in range(1, 8) for fact in about(f"Bo (n{count})", count)]
        found = shares(mentioned("is Bo in?", facts, kind))
        assert found == pytest.approx({f"Bo (n{count})": count / 28 for count in (7, 6, 5)})
        assert len(found) == MOST_ENTITIES

    def test_an_alias_counts_for_its_entity(self, kind: str) -> None:
        facts = [*about("Ann Lee (n)", 3), alias("Al", "Ann Lee (n)"), *about("Al (film)", 1)]
        found = mentioned("is Al in?", facts, kind)
        assert shares(found) == pytest.approx({"Ann Lee (n)": 0.75, "Al (film)": 0.25})
        assert {one.called for one in found.entities} == {"Al"}
        [one] = mentioned("is ann lee in?", facts, kind).entities
        assert (one.called, one.share) == ("Ann Lee", 1)


@settings(max_examples=25)
@given(
    st.dictionaries(
        st.sampled_from(['Bo ("x")', "Bo (n)", "Bo", "Bo Ann (n)", "Ann", "Ann ((a) b)", "bo"]), st.integers(1, 4)
    ),
    st.sampled_from(["is bo in Ann?", "Bo Ann and BO", "ann"]),
)
def test_mentions_do_not_depend_on_the_tokenizer(counts: dict[str, int], question: str) -> None:
    facts = [fact for name, count in counts.items() for fact in about(name, count)] + [*about("z")]
    found = [{(m.start, m.stop, m.name): m.share for m in mentioned(question, facts, k).entities} for k in TOKENIZERS]
    assert all(one == pytest.approx(found[0]) for one in found)
    for start, stop, name in found[0]:
        same = [n for n in counts if n.partition(" (")[0] == name.partition(" (")[0]]
        assert found[0][start, stop, name] == pytest.approx(counts[name] / sum(counts[n] for n in same))


class TestPredicates:
    FACTS = (
        *about("Peru"),
        *about("nickname"),
        *about("Capital (film)"),
        *about("date of birth"),
        ("Peru", "capital", "Lima"),
    )

    def test_are_no_entities(self) -> None:
        found = mentioned("what is the date of birth of the nickname of Peru?", self.FACTS)
        assert found.predicates == {"date of birth", "nickname"}
        assert set(shares(found)) == {"Peru"}

    def test_only_those_of_the_graph_count(self) -> None:
        found = mentioned("the capital of Peru", self.FACTS)
        assert not found.predicates, "no fact begins with it"
        assert set(shares(found)) == {"Capital (film)", "Peru"}


class TestSpelling:
    def test_names_in_another_case_are_left_out_beside_those_as_they_stand(self) -> None:
        facts = [*about("Country (album)"), *about("country (state)")]
        assert set(shares(mentioned("a country", facts))) == {"country (state)"}
        assert set(shares(mentioned("a Country", facts))) == {"Country (album)"}
        assert set(shares(mentioned("COUNTRY", facts))) == {"Country (album)", "country (state)"}

    def test_an_alias_counts_as_it_is_spelt(self) -> None:
        facts = [*about("state (n)"), alias("Country", "state (n)"), *about("country (place)")]
        assert set(shares(mentioned("a country", facts))) == {"country (place)"}
        assert set(shares(mentioned("a Country", facts))) == {"state (n)"}

    def test_a_name_in_another_case_stays_if_it_is_the_only_one(self) -> None:
        assert set(shares(mentioned("is peru in", about("Peru (state)")))) == {"Peru (state)"}

    def test_other_places_do_not_matter(self) -> None:
        found = mentioned("peru or ann", [*about("Peru"), *about("Ann"), *about("ann")])
        assert set(shares(found)) == {"Peru", "ann"}


def test_underscores_are_spaces() -> None:
    found = mentioned("is Barack_Obama in", about("Barack Obama (n)"))
    assert [(one.start, one.stop, one.name) for one in found.entities] == [(3, 15, "Barack Obama (n)")]


def test_function_words_alone_are_no_names() -> None:
    assert not mentioned("what is it", [*about("It (film)"), *about("It")]).entities


def test_numbers_within_names_are_none() -> None:
    facts = [*about("Apollo 11"), *about("1990"), *about("500 Days (film)")]
    assert mentioned("had Apollo 11 more than 3 of 500 days in 1990?", facts).numbers == ["3", "1990"]
    assert mentioned("had Apollo 12 more?", facts).numbers == ["12"]


def test_an_entity_that_two_names_lead_to_has_its_greater_share() -> None:
    for own, other in (("Ann", "ann"), ("ann", "Ann")):
        facts = [*about(f"{own} (n)", 3), alias(other, f"{own} (n)"), *about(f"{other} (x)", 9)]
        found = mentioned("ANN", facts)
        assert shares(found) == pytest.approx({f"{own} (n)": 1.0, f"{other} (x)": 0.75})


def test_a_question_without_names() -> None:
    found = mentioned("what is in?", about("Peru"))
    assert (list(found.entities), found.predicates, list(found.numbers)) == ([], frozenset(), [])


class TestPlurals:
    """A table is called by a plural, which a question has in the singular."""

    OF_TABLES: ClassVar[Properties] = {"row of": ("P31", "entity", "has row"), "price": ("P1", "quantity", "")}

    def named(self, question: str, *tables: str, others: Iterable[tuple[str, str, str]] = ()) -> set[str]:
        rows = [
            fact for table in tables for name in (f"{table} 1", f"{table} 2") for fact in ((name, "row of", table),)
        ]
        index = WorldIndex([*rows, *((row, "price", "3") for row, _, _ in rows), *others], self.OF_TABLES)
        words = QueryWords(function=WORDS.function | {"which", "has"}, class_of="P31")
        return {one.name for one in index.mentions(question, words).entities}

    @pytest.mark.parametrize(
        ("table", "one"), [("products", "product"), ("companies", "company"), ("boxes", "box"), ("people", "person")]
    )
    def test_of_classes_are_named_by_the_singular(self, table: str, one: str) -> None:
        for asked in (one, one.title(), table):
            assert self.named(f"which {asked} has the price?", table, "orders") == {table}

    def test_of_other_things_are_not(self) -> None:
        assert self.named("which road is in it?", "orders", others=[("Roads", "price", "1")]) == set()

    def test_give_way_to_what_is_called_so(self) -> None:
        assert self.named("which product is it?", "products", others=[("product", "price", "1")]) == {"product"}
