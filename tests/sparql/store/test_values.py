"""Values in a store: a row shows what the fact has, and numbers compare as numbers."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad, QuerySolutions, Store

from refactx.sparql.store.triples import literal, value_literal

SUBJECT, PREDICATE = NamedNode("urn:s"), NamedNode("urn:p")
CODES = [
    "12E4",
    "0E12",
    "1e5",
    "1E400",
    "007",
    "+5",
    "1_000",
    "0x1F",
    ".5",
    "5.",
    "-0",
    "13,798",
    "00",
    "-007",
    "1e999",
]
LONG = [
    "12345678901234567890",
    "9" * 30,
    "0.1234567890123456789012",
    "3.141592653589793238462643383279",
    "-" + "8" * 99,
]


def row(value: Literal, condition: str) -> tuple[str, bool]:
    """Return a value as a row of a store shows it, and whether a condition holds for it."""
    store = Store()
    store.add(Quad(SUBJECT, PREDICATE, value))
    found = store.query(f"SELECT ?o (COALESCE({condition}, false) AS ?holds) {{ ?s ?p ?o }}")
    assert isinstance(found, QuerySolutions)
    ((shown, holds),) = found
    assert isinstance(shown, Literal)
    assert isinstance(holds, Literal)
    return shown.value, holds.value == "true"


@pytest.mark.parametrize("kind", ["quantity", "literal", "mixed", "text"])
@pytest.mark.parametrize("text", [*CODES, *LONG, "A7", "NaN", "INF", "-INF"])
def test_codes_and_long_numbers_are_shown_as_they_are(text: str, kind: str) -> None:
    assert row(literal(text, kind), "true")[0] == text


@pytest.mark.parametrize("text", CODES)
def test_a_code_of_a_ready_made_fact_is_no_number_and_no_year(text: str) -> None:
    assert value_literal(text, None) is None


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**19), max_value=10**19))
def test_numbers_are_shown_without_zeros_at_the_end_and_compare(number: Decimal) -> None:
    text = format(number, "f")
    if not number:
        text = text.removeprefix("-")
    shown, holds = row(literal(text, "quantity"), f"?o = {text} && ?o > {number - 1:f} && ?o < {number + 1:f}")
    assert (Decimal(shown), holds) == (number, True)
    assert shown == text.rstrip("0").rstrip(".")


@given(st.integers(-(10**20), 10**20))
def test_whole_numbers_beyond_64_bits_compare(number: int) -> None:
    assert row(literal(str(number), "quantity"), f"?o > {number - 1}.0") == (str(number), True)


@given(st.floats(allow_nan=False, allow_infinity=False).filter(lambda one: "e" in repr(one)))
def test_numbers_with_an_exponent_as_an_ingest_writes_them_are_doubles(number: float) -> None:
    shown, holds = row(literal(repr(number), "quantity"), f"?o = {number!r}")
    assert (float(shown), holds) == (number, True)
