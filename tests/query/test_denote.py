"""Queries mean on a set of facts what they mean by brute force."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.query.check import check
from support.query.twin import ASKED, Graph, SetFacts

from refactx.query.denote import Limits, denote
from refactx.query.line import read_line
from refactx.query.walk import Query, QueryError


@settings(max_examples=600)
@given(ASKED)
def test_any_query_has_the_answer_of_brute_force(asked: tuple[Graph, Query]) -> None:
    claims, query = asked
    check(query, SetFacts(claims), claims)


@settings(max_examples=400)
@given(ASKED, st.integers(0, 4), st.booleans())
def test_hubs_are_counted_read_from_the_other_side_or_refused(
    asked: tuple[Graph, Query], limit: int, other_side: bool
) -> None:
    claims, query = asked
    with pytest.MonkeyPatch.context() as patch:
        if other_side:  # however few members there are
            patch.setattr("refactx.query.sides.FEW", -1)
            patch.setattr("refactx.query.sides.FEWER", 0)
        check(query, SetFacts(claims, limit), claims, has_hubs=True)
