"""The text of queries: every query can be written and read back, and errors say what was expected."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refactx.walks.language import HEADS, OPERATORS, Hop, OrderBy, Query, QueryError, WalkFilter, read_line, write_line

NAMES = st.sampled_from(["Ann", "by", "count", ".", "which", "a (b)", "3", "-1.5", "starts with", "52.51°N, 13.38°E"])
HOPS = st.lists(st.builds(Hop, NAMES, st.sampled_from(["", "+", "*"])), max_size=3).map(tuple)
FILTERS = st.lists(st.builds(WalkFilter, HOPS, st.sampled_from(OPERATORS), NAMES), max_size=3).map(tuple)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    head: Any = draw(st.sampled_from(HEADS))
    hops, which = draw(HOPS), draw(FILTERS)
    by = draw(st.builds(OrderBy, NAMES, st.booleans())) if head in ("most", "least") else None
    hops = hops[:1] if head == "ask" else hops
    if not hops and (head != "ask" or not which):
        hops = (Hop(draw(NAMES)),)
    return Query(head, draw(NAMES), hops, which, by, draw(st.integers(1, 30)) if by else 1)


@given(queries())
def test_a_query_is_the_one_that_its_line_reads_as(query: Query) -> None:
    assert read_line(write_line(query)) == query
    assert read_line(f"  {write_line(query)} .\n") == query


@pytest.mark.parametrize(
    "line",
    [
        "list <Danny Boyle> <director of> which <publication date> over <2008>",
        "ask <George Orwell> <occupation> <poet> and <occupation> <war correspondent>",
        "ask <Ann> <age> over <30>",
        "ask <Toronto> <located in>+ which is <Ontario>",
        "ask <Ann> is <Bob>",
        "most 3 <river> <has instance> which <continent> <Africa> by <length>",
        "least <country> <subclass of (inverse)>* <has instance> by count <official language>",
        "list <girl group> <has instance> which starts with <v>",
    ],
)
def test_lines_as_people_write_them(line: str) -> None:
    assert write_line(read_line(line)) == line


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", "the end in place of one of list, count"),
        ("how many <a> <b>", "'how' in place of one of list, count"),
        ("list", "the end in place of a name"),
        ("list <a>", "at least one predicate"),
        ("list <a>+ <b>", "not after the start <a>"),
        ("list <a> <b> which", "the end in place of"),
        ("list <a> <b> which <c>", "an operator"),
        ("list <a> <b> which <c> over", "a value in brackets"),
        ("list <a> <b> by <c>", "most and least"),
        ("most <a> <b>", "most and least"),
        ("most 0 <a> <b> by <c>", "at least 1"),
        ("list 3 <a> <b>", "only queries for most and least"),
        ("most <a> <b> by <c> <d>", "one predicate"),
        ("ask <a> <b> <c> <d> <e> which", "the end in place of"),
        ("list <a> <b> . list", "the end, ` .`"),
        ("list <a> <b", "cannot be read from '<b'"),
        ("list <a> < >", "without visible text"),
        (f"most {5000 * '9'} <a> <b> by <c>", "at most 9 digits"),
        (f"list <a> {100_000 * '<b> '}", "the query has 400,009 characters: write it with at most 10,000"),
    ],
)
def test_what_is_no_query_is_refused_with_what_was_expected(line: str, complaint: str) -> None:
    with pytest.raises(QueryError) as error:
        read_line(line)
    assert complaint in str(error.value)
