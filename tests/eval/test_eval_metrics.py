"""The metrics of answers, on examples that were computed by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refactx.eval.answers import NOTHING, Gold, contains, items, match, outcome, same, score
from refactx.eval.normalise import normalise


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1956-10-20", "October 20, 1956"),
        ("1956-10-20", "20 October 1956"),
        ("1956-10-20", "the 20th of Oct. 1956"),
        ("1956-10-20T00:00:00Z", "Oct 20 1956"),
        ("1956-10", "October 1956"),
        ("200 BCE", "200 B.C."),
        ("AD 79", "79"),
        ("1,234,567", "1234567"),
        ("1\u202f234\u202f567", "1234567.0"),
        ("2.65e+09", "2.65 billion"),
        ("three", "3"),
        ("Twenty-one", "21"),
        ("5 kilometres", "5 km"),
        ("12 square kilometers", "12 km²"),
        ("10 per cent", "10%"),
        ("UTC−05:00", "GMT-5"),
        ("Dead Man's Chest", "dead mans chest"),
        ("Washington, D.C.", "Washington DC"),
        ("J.R.R. Tolkien", "J. R. R. Tolkien"),
        ("Cats & Dogs", "cats and dogs"),
        ("São Tomé", "Sao Tome"),
        ("America/New_York", "america new york"),
        ("C++", "c++"),
        ("8848 metre", "8,848m"),
        ("5 km", "5km"),
        ("170 cm", "170cm"),
        ("12 km²", "12km²"),
        ("150", "one hundred fifty"),
        ("105", "one hundred and five"),
        ("365", "three hundred sixty-five"),
        ("2500", "two thousand five hundred"),
        ("1250021", "one million two hundred and fifty thousand twenty one"),
        ("1000000", "a million"),
        ("100", "a hundred"),
        ("1900", "nineteen hundred"),
        ("0.5", ".5"),
        ("-0.5", "-.5"),
        ("Łódź", "Lodz"),
        ("Tromsø", "Tromso"),
        ("Đà Nẵng", "Da Nang"),
        ("Diyarbakır", "Diyarbakir"),
        ("Ærøskøbing", "Aeroskobing"),
        ("Þórshöfn", "Thorshofn"),
        ("Gießen", "Giessen"),
        ("Hawaiʻi", "Hawaii"),
        ("Qurʾan", "Quran"),
        ("1956-10-20", "20.10.1956"),
        ("1956-10-02", "2. 10. 1956"),
        ("1956-10-20", "20. October 1956"),
        ("1956-10-20", "20/10/1956"),
        ("1956-10-20", "10/20/1956"),
        ("1956-10-20", "20-10-1956"),
        ("1956-10-20", "1956.10.20"),
        ("1234567", "1 234 567"),
        ("1234567", "1.234.567"),
        ("1234567", "1'234'567"),
        ("12500", "12 500"),
        ("12500 m", "12 500 metres"),
    ],
)
def test_equal_answers_in_two_forms(one: str, other: str) -> None:
    assert normalise(one) == normalise(other) != ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("UTC+5", "UTC-5"),
        ("-21", "21"),
        ("C++", "C"),
        ("1956-10-20", "1956-10-21"),
        ("08650", "8650"),
        ("1.5", "15"),
        ("May", "March"),
        ("200 BC", "200"),
        ("13 October 1956", "13-10-1956x"),
        ("Serie A", "Serie B"),
        ("Serie A", "Serie"),
        ("100", "one hundred fifty"),
        ("3000", "one thousand and two thousand"),
        ("iPhone 5", "iPhone 5s"),
        ("B-52", "B-52m"),
        ("1956-10-05", "5/10/1956"),
        ("1956-05-10", "5/10/1956"),
        ("1234.567", "1234567"),
        ("Boeing 747 400", "Boeing 747400"),
        ("12 500 600 70", "12500600 70"),
    ],
)
def test_answers_that_differ(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


def test_an_invalid_date_is_not_changed() -> None:
    assert normalise("45 May 1956") == ("45", "1956-05")
    assert normalise("1956-13-20") == ("1956-13-20",)


def test_a_gold_year_is_met_by_a_date_but_a_gold_date_not_by_its_year() -> None:
    assert same("1956", "20 October 1956")
    assert same("1956-01-01", "1956")
    assert not same("1956-10-20", "1956")
    assert not same("195", "1956")


@pytest.mark.parametrize(
    ("gold", "said"),
    [
        ("-0043-03-15T00:00:00Z", "44-03-15 BCE"),  # as the index has it
        ("-0043-03-15T00:00:00Z", "March 15, 44 BC"),
        ("-0199-01-01T00:00:00Z", "200 BCE"),
        ("0000-01-01T00:00:00Z", "1 BC"),
        ("44-03-15 BCE", "15 March 44 BC"),
        ("44-03 BCE", "March 44 BC"),
        ("44 BC", "15 March 44 B.C."),
        ("1046-01-20 BCE", "20 January 1046 BC"),
        ("0014-08-19T00:00:00Z", "August 19, 14 AD"),
        ("0014-08-19T00:00:00Z", "19 August AD 14"),
        ("0033-01-01T00:00:00Z", "33 AD"),
        ("0033-01-01T00:00:00Z", "AD 33"),
        ("0800-01-01", "800"),
        ("0800-12-25T00:00:00Z", "25 December 800"),
        ("33", "3 April AD 33"),
    ],
)
def test_dates_before_christ_and_early_years(gold: str, said: str) -> None:
    assert same(gold, said)
    assert score(f"It was {said}.", [Gold(gold)]).hit


@pytest.mark.parametrize(
    ("gold", "said"),
    [
        ("-0043-03-15T00:00:00Z", "43-03-15 BCE"),
        ("-0043-03-15T00:00:00Z", "15 March 44"),
        ("44-03-15 BCE", "44 BC"),
        ("0044-01-01", "44 BC"),
        ("44 BC", "44"),
        ("44", "44 BC"),
        ("1939", "1939-45"),
        ("24", "24-07"),
    ],
)
def test_early_dates_that_differ(gold: str, said: str) -> None:
    assert not score(said, [Gold(gold)]).hit


def test_a_unit_may_be_missing_on_either_side_but_not_differ() -> None:
    assert same("170", "170 cm")
    assert same("170 cm", "170")
    assert not same("170 kg", "170 cm")
    assert not same("3", "3 Idiots")


def test_a_qualifier_counts_only_where_both_have_one() -> None:
    assert same("Jackie Simpson (linebacker)", "Jackie Simpson")
    assert same("Jackie Simpson", "Jackie Simpson (linebacker)")
    assert not same("Jackie Simpson (linebacker)", "Jackie Simpson (actor)")
    assert same("Günter Grass", "Günter Grass (German novelist, poet (1927-2015))")
    assert same("Wake Up (Hilary Duff song)", "Wake Up (Hilary Duff song) (2005 single)")
    assert not same("Wake Up (Hilary Duff song)", "Wake Up (novel) (2005 single)")
    assert same("Oslo (", "Oslo")


def test_items_are_cut_at_separators_but_not_inside_names_dates_numbers_and_parentheses() -> None:
    assert items("Finnish, Swedish, and Sámi") == ["finnish", "swedish", "sami"]
    assert items("A; B | C\nD / E") == ["a", "b", "c", "d", "e"]
    assert items("1,234 and 5,678,901") == ["1,234", "5,678,901"]
    assert items("October 20, 1956 and 1 May 1960") == ["1956-10-20", "1960-05-01"]
    assert items("Bern (city, capital and seat), Zug") == ["bern (city, capital and seat)", "zug"]
    assert items("Washington, D.C., Trinidad and Tobago", ["Washington, D.C.", "Trinidad and Tobago"]) == [
        "washington, d.c.",
        "trinidad and tobago",
    ]
    assert items("Grass (novelist, poet (1927, 2015)), Böll") == ["grass (novelist, poet (1927, 2015))", "boll"]
    assert items("Bern (city, Zug") == ["bern (city", "zug"], (
        "a parenthesis that is never closed holds nothing together"
    )
    assert items("one hundred and five") == ["one hundred and five"]
    assert items("one hundred and two thousand, one thousand and two") == [
        "one hundred and two thousand",
        "one thousand and two",
    ]
    assert items("one hundred and two hundred and Bern") == ["one hundred", "two hundred", "bern"]
    assert items("one thousand and Tennessee") == ["one thousand", "tennessee"]
    assert items("Bern, BERN, the Bern") == ["bern"]
    assert items(" , and .") == []


LIST = ("Ann Lee", "Bo Berg", "Cy Fox")
MARKS = [
    "",
    "- ",
    "* ",
    "• ",
    "– ",
    "+ ",
    "> ",
    "{n}. ",
    "{n}) ",
    "({n}) ",
    "[{n}] ",
    "**{n}.** ",
    "{n}\\. ",
    "{n}: ",
] + ["{n} - ", "{n}.", "#{n} ", "{a}) ", "({a}) ", "{a}. ", "{n}\ufe0f\u20e3 "]


@pytest.mark.parametrize("between", ["\n", "\n\n", ";\n", ",\n"])
@pytest.mark.parametrize("mark", MARKS)
def test_a_list_is_the_same_list_with_any_marks(mark: str, between: str) -> None:
    said = between.join(mark.format(n=n, a="abc"[n - 1]) + name for n, name in enumerate(LIST, 1))
    assert score(said, [Gold(name) for name in LIST]).exact
    assert score(said.replace(LIST[1], "Dan Zorn"), [Gold(name) for name in LIST]).f1 == pytest.approx(2 / 3)


def test_numbers_in_a_line_are_marks_and_a_name_may_begin_with_one() -> None:
    assert items("1. Ann Lee 2. Bo Berg") == items("Ann Lee; Bo Berg")
    assert items("1. Ann Lee") == ["ann lee"]
    for known in ("1. FC Köln", "A. Lee"):
        assert score(known, [Gold(known)]).exact
    assert score("1. FC Köln\n2. Bundesliga", [Gold("1. FC Köln"), Gold("2. Bundesliga")]).exact
    assert score("1. 1. FC Köln\n2. Bundesliga", [Gold("1. FC Köln"), Gold("Bundesliga")]).exact
    assert items("1. May 1956", ["1956-05-01"]) == ["1956-05-01"]
    assert items("Apollo 1. Ann flew") == ["apollo 1. ann flew"]


def test_a_text_contains_consecutive_whole_tokens_outside_parentheses() -> None:
    assert contains("Bern", "The capital is Bern.")
    assert not contains("Bern", "Bernard")
    assert not contains("New York City", "York City, New")
    assert not contains("Switzerland", "Bern (capital of Switzerland)")
    assert contains("Madonna (album)", "It was Madonna.")
    assert contains("Switzerland", "(Switzerland)"), "nothing else is said"
    assert contains("1956-10-20", "She was born on October 20, 1956.")


def test_a_letter_at_the_end_of_a_name_is_not_an_article() -> None:
    assert not score("Hepatitis B", [Gold("Hepatitis A")]).hit
    assert not score("vitamin C; vitamin D", [Gold("Vitamin A")]).hit
    assert score("It is vitamin A.", [Gold("Vitamin A")]).hit
    assert score("Star Is Born", [Gold("A Star Is Born")]).exact
    assert normalise("The The") == ("the",)


def test_the_score_of_a_list() -> None:
    golds = [Gold("Finnish"), Gold("Swedish")]
    assert score("Finnish and Swedish", golds).exact
    part = score("Finnish", golds)
    assert (part.hit, part.exact, part.precision, part.recall) == (True, False, 1.0, 0.5)
    assert math.isclose(part.f1, 2 / 3)
    mixed = score("Finnish, Danish, Norwegian", golds)  # p = 1/3, r = 1/2
    assert math.isclose(mixed.f1, 0.4)
    assert score("Danish", golds) == NOTHING


def test_a_sentence_is_a_hit_but_not_exact() -> None:
    sentence = score("The capital is Bern", [Gold("Bern")])
    assert (sentence.hit, sentence.exact, sentence.f1) == (True, False, 0.0)


def test_a_gold_answer_within_another_name_is_not_a_hit() -> None:
    virginia = [Gold("Virginia", "Q1370", ("Virginia (state of the United States)",))]
    names = ["West Virginia (state of the United States)", "Charleston"]
    assert not score("West Virginia", virginia, names).hit
    assert not score("Charleston and West Virginia (state of the United States).", virginia, names).hit
    assert score("West Virginia; the state of Virginia", virginia, names).hit
    assert score("It is in Virginia", virginia, names).hit
    assert score("Virginia", virginia, ["Virginia (novel)"]).exact
    school = "Columbia University School of the Arts"
    assert not score(school, [Gold("Columbia University")], [school]).hit
    assert score("The capital is Bern.", [Gold("Bern")], ["Switzerland", "capital", "Bern"]).hit


def test_an_alias_is_as_good_as_the_gold_answer_and_counts_once() -> None:
    golds = [Gold("United Kingdom", "Q145", ("UK", "Great Britain")), Gold("", "Q142", ("France",)), Gold("")]
    assert score("France and the UK", golds).exact
    assert score("UK; United Kingdom", golds).recall == 0.5
    assert score("UK; United Kingdom", golds).precision == 1.0


def test_a_name_of_a_fact_is_one_wrong_item_and_not_two() -> None:
    assert score("Bern, Trinidad and Tobago", [Gold("Bern")]).precision == pytest.approx(1 / 3)
    assert score("Bern, Trinidad and Tobago", [Gold("Bern")], ["Trinidad and Tobago"]).precision == 0.5


def test_gold_answers_in_two_forms_count_once() -> None:
    assert score("1956", [Gold("1956"), Gold("1956.0")]).exact


@pytest.mark.parametrize(
    ("answer", "gold", "right"),
    [
        ("Yes.", "yes", True),
        ("No, he wasn't.", "false", True),
        ("true", "yes", True),
        ("Yes", "no", False),
        ("Oslo", "no", False),
        ("No he was not", "no", True),
        ("No I don't think so", "no", True),
        ("**Yes**, Obama was.", "yes", True),
        ("Yes\nObama was.", "yes", True),
        ("No Country for Old Men", "no", False),
        ("True Grit", "yes", False),
    ],
)
def test_yes_and_no(answer: str, gold: str, right: bool) -> None:
    assert score(answer, [Gold(gold)]).hit is right
    assert score(answer, [Gold(gold)]).f1 == float(right)


def test_no_is_an_ordinary_word_if_the_gold_answer_is_not_yes_or_no() -> None:
    assert not score("No man's land", [Gold("Dr. No")]).hit


@pytest.mark.parametrize(
    ("answer", "at_limit", "expected"),
    [
        ("Bern", False, "given"),
        ("I don't know.", False, "unknown"),
        ("I don’t know", False, "unknown"),
        ("I don't know who that is", False, "unknown"),
        ("Unknown Pleasures", False, "given"),
        ("unknown", False, "unknown"),
        ("...", False, "none"),
        ("Ber", True, "cut off"),
    ],
)
def test_the_outcome_of_a_question(answer: str, at_limit: bool, expected: str) -> None:
    assert outcome(answer, at_limit) == expected


def test_a_gold_answer_always_counts_as_given() -> None:
    golds = [Gold("", "Q1", ("Unknown (2011 film)", "Unknown"))]
    assert outcome("Unknown.", False, golds=golds) == "given"
    assert outcome("I don't know.", False, golds=golds) == "unknown"


NAMES = st.sampled_from(
    [
        "", "?", "Bern", "Bern (city)", "Bern (Indiana)", "the Bern", "Wake Up (song) (2005 single)", "Wake Up (song)",
        "Wake Up", "1956", "1956-01-01", "20 October 1956", "1956-10-20", "170", "170 cm", "170 kg", "3 Idiots", "44 BC",
        "March 15, 44 BC", "iPhone 5", "Serie A", "C++", "2 km (race)", "2",
    ]
)  # fmt: skip


@given(st.lists(st.lists(NAMES, max_size=3), max_size=6), st.lists(NAMES, max_size=6))
def test_many_names_are_equal_where_each_pair_is(golds: list[list[str]], said: list[str]) -> None:
    found, wanted = match(golds, said)
    assert found == [any(same(name, item) for name in names for item in said) for names in golds]
    assert wanted == [any(same(name, item) for names in golds for name in names) for item in said]
