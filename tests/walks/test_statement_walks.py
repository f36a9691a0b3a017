"""Walks over statements, groups and tables have the answers of their SPARQL, and say what they cannot answer."""

import pytest
from support.query.lines import is_written, line_of, machine_of
from support.query.statement_world import StatementIndex, differences
from support.query.twin import SetFacts

from refactx.walks.answered import answer_query
from refactx.walks.evaluate import Result, WalkLimits, evaluate_walk
from refactx.walks.language import DURATION, QueryError, Statement, read_line
from refactx.walks.measures import difference
from refactx.walks.statements import TimeNames, span_of


def test_random_walks_have_the_answers_of_their_sparql() -> None:
    outcomes, different = differences(160, seed=7)
    assert not different
    assert outcomes["same"] > 80


START, END, POINT, ORDINAL = "start time", "end time", "point in time", "series ordinal"
SPRINGFIELD = "Springfield"
INDEX = StatementIndex(
    [
        (SPRINGFIELD, "mayor", "Ann", ((START, "1990"), (END, "1994"), (ORDINAL, "16"))),
        (SPRINGFIELD, "mayor", "Bob", ((START, "1994"), (END, "1998-05"))),
        (SPRINGFIELD, "mayor", "Cay", ((START, "1998-05-02"), (END, "2002-05-02"))),
        (SPRINGFIELD, "mayor", "Dan", ((START, "2002-05-02"),)),
        (SPRINGFIELD, "population", "100", ((POINT, "1990"),)),
        (SPRINGFIELD, "population", "120", ((POINT, "2000"),)),
        ("Ann", "award", "Oscar", (("for work", "Film"), (POINT, "1991"))),
        ("Ann", "award", "Bear", (("for work", "Play"),)),
        ("Ann", "height", "170 centimetre", ()),
        ("Bob", "height", "1.8 metre", ()),
        ("Cay", "height", "2 furlong of cloth", ()),
        *((name, "boss", "Dan", ()) for name in ("Ann", "Bob", "Cay")),
        ("Dan", "boss", "Eve", ()),
        ("Film", "born", "1990", ()),
    ],
    frozenset((SPRINGFIELD, "mayor", name) for name in ("Ann", "Bob", "Cay")),
)
FACTS = INDEX.facts


def answer(line: str, limits: WalkLimits | None = None) -> Result:
    return evaluate_walk(read_line(line), FACTS, limits or WalkLimits())


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("list <Springfield> <mayor> at <1992>", ["Ann"]),
        ("list <Springfield> <mayor> at <1994-03-01>", ["Ann", "Bob"]),  # a year's end is in all of it
        ("list <Springfield> <mayor> at <1998>", ["Bob", "Cay"]),
        ("list <Springfield> <mayor> at <1998-06>", ["Cay"]),
        ("list <Springfield> <mayor> at <2030>", ["Dan"]),
        ("list <Springfield> <mayor> at <1850>", []),
        ("list <Springfield> <mayor> between <1991> and <1993>", ["Ann"]),
        ("list <Springfield> <mayor> now", ["Dan"]),
        ("list <Springfield> <mayor> earliest", ["Ann"]),
        ("list <Springfield> <mayor> with <end time> over <1990> latest", ["Cay"]),
        ("list <Springfield> <mayor> with <series ordinal> <16>", ["Ann"]),
        ("list <Springfield> <mayor> being <Ann> its <start time>", ["1990"]),
        ("list <Springfield> <mayor> being <Ann> its duration", ["4 years"]),
        ("list <Springfield> <mayor> being <Cay> its duration", ["1461 days"]),
        ("list <Springfield> <mayor> being <Dan> its duration", []),
        ("list <Springfield> <mayor> its duration which over <1000 days>", ["4 years", "1461 days"]),
        ("most 2 <Springfield> <mayor> by its duration", ["Bob", "Ann"]),
        ("most <Springfield> <mayor> by its <start time>", ["Dan"]),
        ("list <Springfield> <population> at <1990>", ["100"]),
        ("list <Ann> <award> with <for work> <Film>", ["Oscar"]),
        ("list <Ann> <award> its <for work> <born>", ["1990"]),
        ("difference <Springfield> <population> at <2000> and <Springfield> <population> at <1990>", ["20"]),
        ("list <Dan> <boss of> which not <height> over <175 cm>", ["Ann", "Cay"]),  # no unit for cloth
        ("list <Dan> <boss of> which <height> over <Ann> <height>", ["Bob"]),
        ("list <Dan> <boss of> which count <award> equals <0>", ["Bob", "Cay"]),
        ("most <Ann> or <Bob> by <height>", ["Bob"]),
        ("difference <Bob> and <Ann> by <height>", ["0.1 metre"]),
        ("difference <Dan> and <Eve> by count <boss of>", ["2"]),
        ("sum <Ann> or <Bob> by <height>", ["350 centimetre"]),
        ("average <Ann> or <Bob> by <height>", ["175 centimetre"]),
    ],
)
def test_a_line_has_its_answer(line: str, values: list[str]) -> None:
    assert sorted(answer(line).values) == sorted(values)


def test_groups_are_counted_bounded_and_sorted() -> None:
    line = "count <Ann> or <Bob> or <Dan> per <boss>"
    assert [*zip(answer(line).values, answer(line).sorted_by, strict=True)] == [("Dan", "2"), ("Eve", "1")]
    assert answer(f"{line} over <1>").values == ("Dan",)
    assert answer(f"{line} least 1").values == ("Eve",)
    assert answer_query(read_line(line), FACTS).answer == "Dan: 2; Eve: 1"
    best = answer("most <Ann> or <Bob> by <height> per <boss>")
    assert (best.values, best.sorted_by, best.columns, best.cells) == (
        ("Bob",),
        ("1.8 metre",),
        ("boss",),
        ((("Dan",),),),
    )
    total = answer("sum <Ann> or <Bob> by <height> per <boss>")
    assert total.sorted_by == ("350 centimetre",)
    assert ("Bob", "height", "1.8 metre") in total.facts
    assert answer("list <Ann> or <Bob> show count <award>").cells == ((("2",),), (("0",),))


def test_a_table_has_a_row_for_each_statement_with_its_proof() -> None:
    found = answer("list <Springfield> <mayor> at <1994> show its <start time> its duration <height>")
    assert sorted(zip(found.values, found.cells, strict=True)) == [
        ("Ann", (("1990",), ("4 years",), ("170 centimetre",))),
        ("Bob", (("1994",), ("4 years",), ("1.8 metre",))),
    ]
    assert found.columns == ("start time", "duration", "height")
    stated = dict(zip(found.facts, found.qualifiers, strict=True))
    assert stated[SPRINGFIELD, "mayor", "Bob"] == ((START, "1994"), (END, "1998-05"))
    linked = answer_query(read_line("list <Springfield> <mayor> now"), FACTS).facts[0]
    assert [name.label for name, _ in linked.qualifiers] == [START]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("list <Springfield> <mayor> at <Ann>", "<Ann> is no time"),
        ("list <Springfield> <mayor> between <1995> and <1990>", "<1990> is before <1995>"),
        ("list <Springfield> <mayor> its <strt time>", "has the qualifier <strt time>: did you mean <start time>"),
        ("list <Springfield> <mayor> with <of> <A>", "no statement with <mayor> has the qualifier <of>"),
        ("sum <Springfield> <mayor> by its <start time>", "are times, which have no sum"),
        ("most <Ann> or <Cay> by <height>", "some are in <centimetre>, and others in <furlong of cloth>"),
        ("list <Dan> <boss of> which <height> over <5 kg>", "<5 kg> cannot be compared"),
        (
            "difference <Springfield> <population> and <Springfield> <population> at <1990>",
            "has <100>, <120>: narrow it",
        ),
        ("list <Dan> <boss of> which count <award> over <many>", "cannot be compared"),
        ("average <Ann> or <Bob> by <award>", "are entities, which have no order"),
    ],
)
def test_what_cannot_be_answered_says_why(line: str, complaint: str) -> None:
    with pytest.raises(QueryError) as error:
        answer(line)
    assert complaint in str(error.value)


@pytest.mark.parametrize("line", ["count <Dan> <boss of> per <award>", "list <Dan> <boss of> which not <award> <Bear>"])
def test_what_needs_all_members_is_refused_beyond_a_limit(line: str) -> None:
    with pytest.raises(QueryError, match="more than 2 facts have to be read"):
        answer(line, WalkLimits(reads=2))


def test_an_index_without_statements_has_no_qualifiers() -> None:
    facts = SetFacts(frozenset({("A", "p", "B")}))
    with pytest.raises(QueryError, match="the statements of <p> have no qualifiers in this index"):
        evaluate_walk(read_line("list <A> <p> at <1990>"), facts)
    assert evaluate_walk(read_line("list <A> <p> now"), facts).values == ("B",)


def test_a_model_may_write_walks_over_statements() -> None:
    machine = machine_of(INDEX, FACTS)
    for line in (
        "list <Springfield> <mayor> at <1992-05> .",
        "list <Springfield> <mayor> being <Dan> its <start time> .",
        "count <Ann> <award> with <for work> <Film> .",
        "list <Springfield> <mayor> latest <boss> .",
        "list <Springfield> <mayor> .",
    ):
        assert is_written(machine, line), line
    for line in (
        "list <Springfield> <mayor> its <for work> .",  # no such qualifier
        "list <Ann> <boss> at <1990> .",  # no statements
        "list <Springfield> <mayor> at <Ann> .",
        "most <Springfield> <mayor> now by <height> .",  # sorted sets are made by plain facts
    ):
        assert not is_written(machine, line), line


@pytest.mark.parametrize("seed", range(40))
def test_a_line_that_a_model_may_write_is_answered_or_refused(seed: int) -> None:
    line = line_of(machine_of(INDEX, FACTS), seed)
    try:
        evaluate_walk(read_line(line), FACTS)
    except QueryError as error:
        assert "cannot be" in str(error) or "has the predicate" in str(error) or "no order" in str(error), line


@pytest.mark.parametrize(
    ("begun", "ended", "years"),
    [
        (["1940"], ["1950s"], [1940]),  # the end is known, but not when
        (["1990s"], ["2005"], [2005]),
        (["1940"], ["1950s", "1951"], [*range(1940, 1952)]),
        (["20th century"], [], []),
        ([], ["1942"], [*range(1935, 1943)]),
    ],
)
def test_a_bound_that_is_no_period_is_unknown(begun: list[str], ended: list[str], years: list[int]) -> None:
    names = TimeNames(starts=frozenset([START]), ends=frozenset([END]))
    stated = Statement("x", (*((START, one) for one in begun), *((END, one) for one in ended)))
    assert [year for year in range(1935, 2010) if span_of(str(year), str(year)).has(names.span(stated))] == years
    assert bool(names.current([stated])) == (not ended)


def test_a_duration_is_from_the_first_start_to_the_last_end() -> None:
    names = TimeNames(starts=frozenset([START]), ends=frozenset([END]))
    stated = Statement("x", ((START, "1001"), (START, "999"), (END, "1100"), (END, "44 BCE")))
    assert names.values(stated, DURATION) == ["101 years"]


def test_times_that_are_no_periods_have_no_difference() -> None:
    with pytest.raises(QueryError, match="which have no difference"):
        difference(["20th century"], ["1990"], "time", "<born>")
