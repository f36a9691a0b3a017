"""Literals compare as what they stand for."""

import re
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refactx.linking.names import bare_name
from refactx.walks.language import BOUNDS, OPERATORS, QueryError, ValueKind
from refactx.walks.values import (
    Comparison,
    Coordinates,
    order_of,
    parse_coordinates,
    parse_quantity,
    parse_time,
    sort_key,
    time_between,
    written_number,
)

YEARS = st.integers(1, 3000) | st.integers(1, 10**11)
MONTHS, DAYS = st.integers(1, 12), st.integers(1, 31)
NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**12), max_value=10**12)


@st.composite
def times(draw: st.DrawFn) -> str:
    """A time as facts write it, with any precision."""
    parts = [str(draw(YEARS)), *(f"{draw(some):02}" for some in (MONTHS, DAYS)[: draw(st.integers(0, 2))])]
    clock = draw(st.sampled_from(["", "T10:30:00Z", " 23:59", "T00:00:00.25+01:00"])) if len(parts) == 3 else ""
    return "-".join(parts) + clock + draw(st.sampled_from(["", " BCE"]))


def compared(literal: str, value: str, kind: ValueKind = "time") -> list[bool | None]:
    return [Comparison(operator, value, kind, "<p>").matches(literal) for operator in ("under", "equals", "over")]


@given(times(), times())
def test_of_two_times_one_is_under_equal_or_over(one: str, other: str) -> None:
    assert sorted(map(bool, compared(one, other))) == [False, False, True]
    assert compared(one, one) == [False, True, False]


@given(times(), times())
def test_from_and_up_to_admit_what_is_not_on_the_other_side(one: str, other: str) -> None:
    under, _, over = compared(one, other)
    admitted = [Comparison(operator, other, "time", "<p>").matches(one) for operator in ("from", "up to")]
    assert admitted == [not under, not over]
    numbers = [Comparison(operator, "15 mm", "quantity", "<p>").matches("1.5 cm") for operator in ("from", "up to")]
    assert numbers == [True, True]


@given(times(), times())
def test_what_is_over_a_time_is_sorted_after_it(one: str, other: str) -> None:
    under, _, over = compared(one, other)
    one_key: Any = sort_key(one, "time")
    other_key: Any = sort_key(other, "time")
    assert not over or one_key > other_key
    assert under == (one_key < other_key)


@given(YEARS, MONTHS, DAYS, st.sampled_from(["", " BCE"]))
def test_a_day_equals_its_month_and_its_year(year: int, month: int, day: int, era: str) -> None:
    written = [f"{year}{era}", f"{year}-{month:02}{era}", f"{year}-{month:02}-{day:02}{era}"]
    for value, literal in pairwise(written):
        assert compared(literal, value)[1] is True
    assert compared(written[2], written[0])[1] is True


@given(st.integers(-2000, 2000), st.integers(-2000, 2000))
def test_years_are_in_the_order_of_history(one: int, other: int) -> None:
    """-1 is 1 BCE, 1 is 1 CE; there is no year 0."""
    years = [f"{-year} BCE" if year < 0 else str(year) for year in (one or 1, other or 1)]
    assert compared(years[0], years[1]).index(True) == ((one or 1) > (other or 1)) - ((one or 1) < (other or 1)) + 1


@pytest.mark.parametrize(
    "line",
    [
        "1956-10-20 over 1956-10-19",
        "1956-10-20 equals 1956",
        "1956-10-20 equals 1956-10",
        "1956 under 1956-10-20",
        "2008-12-31 equals 2008",
        "2009-01-01 over 2008",
        "2009 over 2008-12-31",
        "44-03-15 BCE equals 44 BCE",
        "44-03-15 BCE equals 44 BC",
        "44-03-15 BCE over 44-03-14 BCE",
        "200 BCE over 201 BCE",
        "13798000000 BCE under 200 BCE",
        "0987 equals 987",
    ],
)
def test_times_as_people_compare_them(line: str) -> None:
    match = re.fullmatch("(.+) (under|equals|over) (.+)", line)
    assert match is not None
    literal, operator, value = match.groups()
    assert compared(literal, value)[("under", "equals", "over").index(operator)] is True
    assert compared(literal, value, "literal") == compared(literal, value)


@given(NUMBERS, NUMBERS)
def test_quantities_compare_as_numbers(one: Decimal, other: Decimal) -> None:
    assert compared(f"{one:f}", f"{other:f}", "quantity") == [one < other, one == other, one > other]
    assert parse_quantity(f"{one:,f}") == parse_quantity(f"{one:f}") == one


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_number_alone_compares_alike_as_a_year_and_as_a_quantity(one: int, other: int) -> None:
    readings = {tuple(compared(str(one), str(other), kind)) for kind in ("time", "quantity", "literal", "mixed")}
    assert len(readings) == 1


def test_coordinates_are_equal_as_numbers_on_one_body() -> None:
    assert parse_coordinates("52.51°N, 13.38°E") == Coordinates(Decimal("52.51"), Decimal("13.38"), "")
    equals_moon, equals_earth = (
        Comparison("equals", value, "literal", "<p>") for value in ("3°S, 15.40°W (moon)", "3°S, 15.4°W")
    )
    assert equals_moon.matches("3.0°S, 15.4°W (Moon)")
    assert not equals_earth.matches("3.0°S, 15.4°W (Moon)")


def test_names_are_compared_without_description_and_case() -> None:
    name = "Danny Boyle (English film director)"
    for operator, value, matches in [
        ("starts with", "danny b", True),
        ("starts with", "boyle", False),
        ("contains", "BOYLE", True),
        ("contains", "film", False),
        ("equals", "danny boyle", True),
        ("equals", name, True),
        ("is", "Danny Boyle", False),
        ("is", name, True),
    ]:
        compare: Any = operator
        assert Comparison(compare, value, "entity", "<p>").matches(name) is matches, (operator, value)
    assert Comparison("contains", "(2)", "text", "<p>").matches("Part (2)") is True
    assert bare_name("(2)") == "(2)"


@pytest.mark.parametrize(
    ("operator", "value", "kind", "complaint"),
    [
        ("over", "Bob", "time", "the values of <p> are times: <Bob> cannot be compared"),
        ("over", "Bob", "literal", "are literals: <Bob>"),
        ("equals", "1956-10", "quantity", "are quantities: <1956-10>"),
        ("equals", "1956", "coordinates", "are coordinates: <1956>"),
        ("under", "3", "coordinates", "of which none is under another"),
        ("over", "3", "entity", "are entities, of which none is over another"),
        ("over", "c", "text", "are literals: <c> cannot be compared"),
    ],
)
def test_kinds_that_do_not_compare_are_refused(operator: Any, value: str, kind: ValueKind, complaint: str) -> None:
    with pytest.raises(QueryError) as error:
        Comparison(operator, value, kind, "<p>")
    assert complaint in str(error.value)


def test_literals_of_unknown_kind_are_compared_if_one_of_them_can_be() -> None:
    comparison = Comparison("over", "2008", "literal", "<p>")
    comparison.check(["Bob", "2009-01-01"])
    comparison.check([])
    with pytest.raises(QueryError, match="such as <Bob>: <2008> cannot"):
        comparison.check(["Bob", "Ann"])


@pytest.mark.parametrize(
    ("values", "kind", "complaint"),
    [
        (["1"], "entity", "which have no order"),
        (["1", "Bob"], "literal", "<Bob> is neither a time nor a quantity"),
        (["1956-10", "-1"], "mixed", "<1956-10> is a time, <-1> a quantity"),
    ],
)
def test_values_without_one_order_cannot_be_sorted(values: list[str], kind: ValueKind, complaint: str) -> None:
    with pytest.raises(QueryError) as error:
        order_of(values, kind, "<p>")
    assert complaint in str(error.value)


@given(st.sampled_from(OPERATORS), st.text(max_size=9), st.text(max_size=9))
def test_any_texts_can_be_compared_or_are_refused(operator: Any, literal: str, value: str) -> None:
    try:
        Comparison(operator, value, "literal", "<p>").matches(literal)
    except QueryError:
        assert operator in BOUNDS


def test_times_of_day_compare_and_sort_within_their_day() -> None:
    moments = ["2024-03-01", "2024-03-01 09:15", "2024-03-01T10:30:00Z", "2024-03-01T10:30:00.25+01:00", "2024-03-02"]
    for one, other in pairwise(moments):
        assert compared(one, other)[0] is True
    assert [Comparison("equals", "2024-03-01", "time", "<x>").matches(one) for one in moments] == [True] * 4 + [False]
    assert Comparison("equals", "2024-03-01T00:00:00Z", "time", "<x>").matches("2024-03-01")
    assert parse_time("2024-03-01T25:00") is None
    assert time_between("2024-03-01T10:30:00-05:00", "2024-03-03 08:00") == "2 days"


def test_numbers_beyond_all_reason_are_text() -> None:
    assert parse_quantity("1e9999") is not None and parse_quantity("1e1000000") is None
    assert written_number(Decimal("-0.0000001")) == "0"
