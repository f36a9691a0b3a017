"""The choice among statements: what a question names narrows them, what it leaves open is the answer."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refactx.ask.prompt import load_prompt
from refactx.selection.mentions import QueryWords
from refactx.selection.statements import Span, StatementAnswer, StatementChoice, StatementWords, TimeNames, spans_of
from refactx.walks.language import Statement

_PROMPT = load_prompt("wikidata")
assert _PROMPT.words is not None
ENGLISH: QueryWords = _PROMPT.words
NAMES = TimeNames(
    starts=frozenset(["start time"]),
    ends=frozenset(["end time"]),
    points=frozenset(["point in time"]),
    ordinals=frozenset(["series ordinal"]),
)


def _of(object_: str, *qualifiers: tuple[str, str]) -> Statement:
    return Statement(object_, qualifiers)


MAYORS = [
    _of("Ann Lee", ("start time", "1986"), ("end time", "1990-04-30"), ("series ordinal", "14")),
    _of("Bob Ray", ("start time", "1990-04-30"), ("end time", "1994"), ("series ordinal", "15")),
    _of("Cay Fox", ("start time", "1994"), ("series ordinal", "16")),
]
SHIRTS = [
    _of("Reds", ("start time", "1986"), ("series ordinal", "10")),
    _of("Blues", ("start time", "1990"), ("series ordinal", "7")),
    _of("Greens", ("start time", "1994"), ("series ordinal", "9")),
]
UNNUMBERED = [Statement(one.object, one.qualifiers[:-1]) for one in MAYORS]
AWARDS = [
    _of("Golden Cup", ("point in time", "1984"), ("for work", "The Hill"), ("together with", "Dan Orr")),
    _of("Golden Cup", ("point in time", "1990"), ("for work", "The Lake")),
    _of("Silver Cup", ("point in time", "1988"), ("for work", "The Lake")),
]
PEOPLE = [_of("1200", ("point in time", "1950")), _of("900", ("point in time", "1987"))]


def _answer(
    question: str,
    statements: Sequence[Statement],
    named: Sequence[str] = (),
    subject: str = "Springfield",
    words: QueryWords = ENGLISH,
) -> StatementAnswer | None:
    def nearness(names: Sequence[str]) -> list[float]:
        return [float(sum(word in question.lower() for word in name.split())) for name in names]

    return StatementChoice(
        question=question,
        words=words.statements,
        names=NAMES,
        named=frozenset(named),
        called=(subject, *named),
        heads=words.heads_of(question),
        nearness=nearness,
    ).answer(statements)


@pytest.mark.parametrize(
    ("question", "statements", "named", "expected"),
    [
        ("Who was mayor of Springfield in 1988?", MAYORS, (), ("Ann Lee",)),
        ("Who was mayor of Springfield in 1990?", MAYORS, (), ("Ann Lee", "Bob Ray")),
        ("Who was mayor of Springfield on 3 May 1990?", MAYORS, (), ("Bob Ray",)),
        ("Who was mayor of Springfield in 1930?", MAYORS, (), ()),
        ("Who is the mayor of Springfield now?", MAYORS, (), ("Cay Fox",)),
        ("Who was the first mayor of Springfield?", MAYORS, (), ()),  # the numbers tell that it is not there
        ("Who was the second mayor of Springfield?", MAYORS, (), ()),
        ("Who was the first mayor of Springfield?", UNNUMBERED, (), ("Ann Lee",)),
        ("Who was the second mayor of Springfield?", UNNUMBERED, (), ("Bob Ray",)),
        ("Who was the last mayor of Springfield?", MAYORS, (), ("Cay Fox",)),
        ("How many awards did Springfield win as the second mayor?", MAYORS, (), ()),
        ("What was the first team?", SHIRTS, (), ("Reds",)),  # the numbers are those of shirts
        ("What was the third team?", SHIRTS, (), ("Greens",)),
        ("Who was the 16th mayor of Springfield?", MAYORS, (), ("Cay Fox",)),
        ("Since when was Bob Ray mayor of Springfield?", MAYORS, ("Bob Ray",), ("1990-04-30",)),
        ("Until when was Bob Ray mayor of Springfield?", MAYORS, ("Bob Ray",), ("1994",)),
        ("Was Ann Lee mayor of Springfield in 1988?", MAYORS, ("Ann Lee",), ("yes",)),
        ("Was Ann Lee mayor of Springfield in 1996?", MAYORS, ("Ann Lee",), ("no",)),
        ("Which Golden Cup did Springfield win for The Hill?", AWARDS, ("The Hill",), ("Golden Cup",)),
        ("For which work did Springfield win the Silver Cup?", AWARDS, ("Silver Cup",), ("The Lake",)),
        ("When did Springfield win the Golden Cup?", AWARDS, ("Golden Cup",), ("1984", "1990")),
        ("When did Springfield win the Golden Cup for The Lake?", AWARDS, ("Golden Cup", "The Lake"), ("1990",)),
        ("How many awards did Springfield win from 1984 to 1988?", AWARDS, (), ("2",)),
        ("How many awards did Springfield win before 1988?", AWARDS, (), ("1",)),
        ("How many times did Springfield win the Golden Cup?", AWARDS, ("Golden Cup",), ("2",)),
        ("How many different cups did Springfield win since 1980?", AWARDS, (), ("2",)),
        ("Did Springfield win the Golden Cup before the Silver Cup?", AWARDS, ("Golden Cup", "Silver Cup"), ("yes",)),
        (
            "Which did it win first, the Silver Cup or the Golden Cup?",
            AWARDS,
            ("Golden Cup", "Silver Cup"),
            ("Golden Cup",),
        ),
        ("Did the population of Springfield grow from 1950 to 1987?", PEOPLE, (), ("no",)),
        ("How many people lived in Springfield in 1950?", PEOPLE, (), ("1200",)),
        ("What is the latest population of Springfield?", PEOPLE, (), ("900",)),
    ],
)
def test_what_a_question_names_narrows_statements(
    question: str, statements: Sequence[Statement], named: Sequence[str], expected: tuple[str, ...]
) -> None:
    answer = _answer(question, statements, named)
    assert answer is not None
    assert answer.values == expected
    assert set(answer.statements) <= set(statements)


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("Who was mayor of Springfield?", ()),
        ("Was Ann Lee mayor of Springfield?", ("Ann Lee",)),
        ("List the mayors.", ()),
    ],
)
def test_a_question_without_a_time_a_place_or_a_qualifier_is_left_to_facts(question: str, named: Sequence[str]) -> None:
    assert _answer(question, MAYORS, named) is None


def test_a_number_in_a_name_is_no_time() -> None:
    answer = _answer("How many cups did Luis (born 1978) win before 1985?", AWARDS, subject="Luis (born 1978)")
    assert answer is not None
    assert answer.values == ("1",)


@pytest.mark.parametrize(
    ("language", "question", "expected"),
    [
        ("de", "Wer war 1988 Bürgermeister von Springfield?", ("Ann Lee",)),
        ("de", "Wer war der dritte Bürgermeister von Springfield?", ("Cay Fox",)),
        ("fr", "Qui était maire de Springfield le 3 mai 1990 ?", ("Bob Ray",)),
        ("es", "¿Quién fue el primer alcalde de Springfield?", ("Ann Lee",)),
    ],
)
def test_in_other_languages(language: str, question: str, expected: tuple[str, ...]) -> None:
    answer = _answer(question, UNNUMBERED, words=ENGLISH.of_question(question, language))
    assert answer is not None
    assert answer.values == expected


@pytest.mark.parametrize(
    ("table", "wrong"),
    [
        ("x", "statements"),
        ({"patterns": {"whenever": []}}, "whenever"),
        ({"nth": 3}, "nth"),
        ({"more": []}, "statements"),
    ],
)
def test_words_that_are_not_valid_are_refused(table: object, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        StatementWords.of(table)


@given(
    st.lists(st.tuples(st.integers(1000, 1060), st.integers(0, 30), st.booleans()), min_size=1, max_size=8),
    st.integers(1000, 1099),
)
def test_a_year_chooses_the_statements_that_overlap_it(rows: list[tuple[int, int, bool]], year: int) -> None:
    statements = [
        _of(f"N{at}", ("start time", str(first)), *([] if is_open else [("end time", str(first + more))]))
        for at, (first, more, is_open) in enumerate(rows)
    ]
    expected = tuple(
        f"N{at}"
        for at, (first, more, is_open) in enumerate(rows)
        if first <= year and (is_open or year <= first + more)
    )
    answer = _answer(f"Who was mayor of Springfield in {year}?", statements)
    assert answer is not None
    assert answer.values == expected


def test_times_are_days_months_and_years() -> None:
    words = ENGLISH.statements
    assert (
        spans_of("on May 3rd, 1990?", words) == spans_of("on 1990-05-03?", words) == [Span((1990, 5, 3), (1990, 5, 4))]
    )
    assert spans_of("in June 1990", words) == [Span((1990, 6, 1), (1990, 7, 0))]
    assert spans_of("12,000 people, 1990s, no. 20145", words) == []


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ("Who is the mayor of Springfield now?", ("Cay Fox",)),
        ("Who was mayor of Springfield in 1990?", ("Ann Lee",)),
        ("Who was mayor of Springfield in 1992?", ()),
        ("Who was mayor of Springfield in 1985?", ("Cay Fox",)),
        ("Who was the first mayor of Springfield?", ("Cay Fox",)),
    ],
)
def test_a_statement_with_an_unknown_end_is_over(question: str, values: tuple[str, ...]) -> None:
    """When it ended is unknown, so it is known to hold only when it began."""
    some = [
        _of("Ann Lee", ("start time", "1990"), ("end time", "unknown")),
        _of("Bob Ray", ("end time", "unknown")),
        _of("Cay Fox", ("start time", "1985")),
    ]
    answer = _answer(
        question,
        some if "now" in question else [some[0], some[1], _of("Cay Fox", ("start time", "1985"), ("end time", "1986"))],
    )
    assert answer is not None
    assert answer.values == values


def test_nobody_knows_when_an_unknown_end_was() -> None:
    answer = _answer(
        "Until when was Ann Lee mayor of Springfield?", [_of("Ann Lee", ("end time", "unknown"))], ["Ann Lee"]
    )
    assert answer == StatementAnswer("qualifier", (), (_of("Ann Lee", ("end time", "unknown")),))
