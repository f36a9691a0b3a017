"""Values of facts in SPARQL: dates are compared as periods, numbers as numbers, and both are read back."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refactx.walks.language import BOUNDS, Operator, ValueKind
from refactx.walks.sparql_values import comparison, filters_of_days, lexical_day, number_text
from refactx.walks.values import Comparison, parse_time

DATES = st.builds(
    lambda year, rest, before: f"{year:04}{rest}" + (" BCE" if before else ""),
    st.integers(1, 2100),
    st.sampled_from(["", "-01", "-02", "-12", "-01-01", "-02-28", "-03-01", "-06-30", "-12-31"]),
    st.booleans(),
)
BOUND = re.compile(r'(<=|>=|<|>|=) "([^"]*)"')
CALENDAR: Any = {"=": "__eq__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}


@given(st.sampled_from(["equals", *BOUNDS]), DATES, st.lists(DATES))
def test_dates_compare_in_sparql_as_in_facts_and_are_read_back(
    operator: Operator, date: str, others: list[str]
) -> None:
    bounds = []
    for sign, lexical in BOUND.findall(comparison("?v", operator, date, "time")):
        day = lexical_day(lexical)
        assert day is not None
        bounds.append((sign, day))
    [(read_operator, read_date)] = filters_of_days(bounds)
    assert read_operator == {"from": "over", "up to": "under"}.get(
        operator, operator
    )  # what is not before is over another
    for other in [date, read_date, *others]:
        period = parse_time(other)
        assert period is not None
        expected = Comparison(operator, date, "time", "").matches(other)
        assert Comparison(read_operator, read_date, "time", "").matches(other) == expected
        assert all(getattr(period.first, CALENDAR[sign])(day) for sign, day in bounds) == expected


@pytest.mark.parametrize(
    ("operator", "value", "kind", "expression"),
    [
        ("is", "1956", "time", '?v = "1956-00-00T00:00:00Z"^^xsd:dateTime'),
        ("is", "1956-10", "time", '?v = "1956-10-00T00:00:00Z"^^xsd:dateTime'),
        ("is", "200 BCE", "time", '?v >= "-0199-01-01T00:00:00Z"^^xsd:dateTime && ?v < "-0198-01-01T00:00:00Z"^^xsd:dateTime'),
        ("under", "1956-02", "time", '?v < "1956-02-01T00:00:00Z"^^xsd:dateTime'),
        ("over", "1956-02", "time", '?v >= "1956-03-01T00:00:00Z"^^xsd:dateTime'),
        ("from", "1956-02", "time", '?v >= "1956-02-01T00:00:00Z"^^xsd:dateTime'),
        ("up to", "1956-02", "time", '?v < "1956-03-01T00:00:00Z"^^xsd:dateTime'),
        ("up to", "1956-02-03", "time", '?v <= "1956-02-03T00:00:00Z"^^xsd:dateTime'),
        ("over", "13,798", "quantity", "?v > 13798"),
        ("from", "13,798", "quantity", "?v >= 13798"),
        ("equals", "-0.440", "quantity", "?v = -0.440"),
        ("under", "0.0000000253509908054", "quantity", "?v < 2.53509908054E-8"),
        ("over", "6.02e+23", "quantity", "?v > 6.02E+23"),
        ("over", "7", "literal", '?v > 7 || ?v >= "0008-01-01T00:00:00Z"^^xsd:dateTime'),
        ("is", "3°S, 15.4°W (Moon)", "coordinates",
         '?v = "<http://www.wikidata.org/entity/Q405> Point(-15.4 -3)"^^geo:wktLiteral'),
        ("equals", 'Say "Hi"', "text", 'LCASE(STR(?v)) = "say \\"hi\\""'),
        ("is", "Hi", "text", 'STR(?v) = "Hi"'),
    ],
)  # fmt: skip
def test_expressions_of_values(operator: Operator, value: str, kind: ValueKind, expression: str) -> None:
    assert comparison("?v", operator, value, kind) == expression


@pytest.mark.long
@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20))
def test_numbers_keep_their_value(number: Any) -> None:
    text = number_text(str(number))
    assert text is not None
    assert Comparison("equals", text, "quantity", "").matches(f"{number:f}")
