"""The text of queries: every query can be written and read back, and errors say what was expected."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refactx.walks.language import (
    BOUNDS,
    DURATION,
    HEADS,
    OPERATORS,
    Groups,
    Hop,
    MemberValue,
    Query,
    QueryError,
    StatementFilter,
    Walk,
    WalkFilter,
    read_line,
    write_line,
)

NAMES = st.sampled_from(["Ann", "by", "count", ".", "which", "a (b)", "3", "-1.5", "starts with", "52.51°N, 13.38°E"])
NUMERIC = ("equals", *BOUNDS)
PLAIN = st.builds(Hop, NAMES, st.sampled_from(["", "+", "*"]))
STATEMENTS = st.one_of(
    *(
        st.builds(StatementFilter, st.just(word), st.tuples(*[NAMES] * size))
        for word, size in {"at": 1, "between": 2, "now": 0, "earliest": 0, "latest": 0, "being": 1}.items()
    ),
    st.builds(StatementFilter, st.just("with"), st.tuples(NAMES, NAMES), st.sampled_from(OPERATORS)),
)
NARROWED = st.builds(
    Hop, NAMES, st.just(""), st.lists(STATEMENTS, max_size=2).map(tuple), st.none() | st.just(DURATION) | NAMES
)
HOPS = st.lists(PLAIN | NARROWED, max_size=3).map(tuple)
FILTER = st.builds(WalkFilter, HOPS, st.sampled_from(OPERATORS), NAMES, st.just(()) | HOPS, negated=st.booleans())
COUNTED = st.builds(
    WalkFilter, HOPS.filter(bool), st.sampled_from(NUMERIC), NAMES, st.just(()) | HOPS, st.just(True), st.booleans()
)
EITHER = st.builds(
    WalkFilter,
    HOPS,
    st.sampled_from(OPERATORS),
    NAMES,
    negated=st.booleans(),
    also=st.lists(NAMES, min_size=1, max_size=2).map(tuple),
)
FILTERS = st.lists(FILTER | COUNTED | EITHER, max_size=3).map(tuple)
GROUPS = st.builds(Groups, HOPS.filter(bool)) | st.builds(
    Groups,
    HOPS.filter(bool),
    st.sampled_from(NUMERIC),
    NAMES,
    st.sampled_from(["most", "least"]),
    st.integers(0, 9),
)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    head: Any = draw(st.sampled_from(HEADS))
    hops, which, also = draw(HOPS), draw(FILTERS), draw(st.lists(NAMES, max_size=2).map(tuple))
    hops = hops[:1] if head == "ask" else hops
    value = st.builds(MemberValue, NAMES, st.booleans(), via=st.lists(NAMES, max_size=2).map(tuple))
    if hops and not hops[-1].closure:
        value |= st.builds(MemberValue, NAMES | st.just(DURATION), its=st.just(True))
    if head == "difference":
        minus, by = Walk(draw(NAMES), draw(HOPS)), draw(value)
        needs_by = not (hops and minus.hops) or draw(st.booleans())
        return Query(head, draw(NAMES), hops, by=by if needs_by else None, minus=minus)
    if not hops and not also and (head != "ask" or not which):
        hops = (Hop(draw(NAMES)),)
    is_sorted = head in ("most", "least")
    by = draw(value) if is_sorted or head in ("sum", "average") else None
    per = draw(st.none() | GROUPS) if head in ("count", "sum", "average") else None
    if is_sorted and draw(st.booleans()):
        per = Groups(draw(HOPS.filter(bool)))
    show = draw(st.lists(value, max_size=2).map(tuple)) if head == "list" or (is_sorted and not per) else ()
    return Query(head, draw(NAMES), hops, which, by, draw(st.integers(1, 30)) if is_sorted else 1, also, per, show)


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
        "list <film> <has instance> which <country> <France> or <Italy> which <year> over <1990> or <1980>",
        "most <lamp> <has instance> by <price>/<amount> show <price>/<currency> count <maker>/<office>",
        "list <girl group> <has instance> which starts with <v>",
        "list <Springfield> <mayor> at <1990>",
        "list <Springfield> <mayor> between <1990> and <1995-06>",
        "list <Springfield> <mayor> being <Ann> its <start time>",
        "list <Springfield> <mayor> being <Ann> its duration",
        "list <Springfield> <mayor> now <spouse>",
        "list <film> <has instance> which <award received> with <for work> <X> with <year> over <1990> <Oscar>",
        "ask <Springfield> <mayor> at <1990> <Ann>",
        "ask <Ann> not <spouse> <Bob> and count <child> over <2>",
        "list <actor> <has instance> which count <actor of> over <Ann> <actor of>",
        "list <film> <has instance> which not <director> is <X> <director> which not contains <a>",
        "most <Nile> or <Amazon> by <length>",
        "least 2 <Springfield> <mayor> by its <start time> show its <end time> <spouse> count <child>",
        "most <Springfield> <mayor> by its duration",
        "average <person> <has instance> by <salary> per <department> over <3000> most 3",
        "count <person> <has instance> per <employer> <city> least",
        "difference <Nile> and <Amazon> by <length>",
        "difference <Berlin> <population> at <2000> and <Berlin> <population> at <1990>",
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
        ("most <a> <b> by <c> <d>", "the end, ` .`"),
        ("most <a> <b> by", "one predicate"),
        ("ask <a> <b> <c> <d> <e> which", "the end in place of"),
        ("list <a> <b>+ now", "leave out its statements"),
        ("list <a> <b> between <1990> <1995>", "`and` and another time"),
        ("list <a> <b> at", "a name in brackets after `at`"),
        ("list <a> <b> its", "a qualifier in brackets, or `duration`"),
        ("list <a> <b> which count <c> <d>", "`which count` is followed by"),
        ("list <a> <b> which count over <3>", "`which count` is followed by"),
        ("list <a> <b> per <c>", "are those of count"),
        ("count <a> <b> per", "a predicate in brackets after `per`"),
        ("count <a> <b> show <c>", "are those of list"),
        ("most <a> <b> by <c> per <d> over <3>", "have no bound"),
        ("sum <a> <b>", "sum and average end in"),
        ("most <a> or <b> by its <c>", "the statements of the last predicate"),
        ("difference <a> <b>", "one of two walks"),
        ("difference <a> and <b>", "one of values"),
        ("list <a> <b> and <c>", "'and' in place of the end"),
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
