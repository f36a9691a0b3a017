"""The text that statements of the tree answer: its facts with their qualifiers, and its answer."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.query.memory_index import RowsIndex
from support.query.sample_world import END, answers
from support.query.world import FakeScore, Properties, WorldIndex, overlap

from refactx.ask.prompt import load_prompt
from refactx.engines.engine import TreeReading
from refactx.fact import Qualifiers, qualifiers_of, split_fact, verbalise
from refactx.selection import statement_answers
from refactx.selection.statement_answers import statements_of
from refactx.walks.facts import TreeFacts
from refactx.walks.language import Statement

PROPERTIES: Properties = {
    "mayor": ("P6", "entity", "mayor of"),
    "award received": ("P166", "entity", "award received by"),
    "start time": ("P580", "time", ""),
    "end time": ("P582", "time", ""),
    "point in time": ("P585", "time", ""),
    "for work": ("P1686", "entity", ""),
    "population": ("P1082", "quantity", ""),
    "instance of": ("P31", "entity", "has instance"),
    "position held": ("P39", "entity", "position held by"),
    "series ordinal": ("P1545", "text", ""),
    "place of birth": ("P19", "entity", "birthplace of"),
}
TOWN, ANN, BOB = "Springfield (city)", "Ann Lee (politician)", "Bob Ray (politician)"
CUP, FILM = "Golden Cup (award)", "The Lake (film)"
CHAIR, SEA, RIVER = "Chair of Ruritania (office)", "Strelsau (town)", "Zenda (town)"
STATEMENTS: dict[tuple[str, str, str], Qualifiers] = {
    (TOWN, "mayor", ANN): (("start time", "1986"), ("end time", "1990")),
    (TOWN, "mayor", BOB): (("start time", "1990"), ("end time", "1994")),
    (ANN, "award received", CUP): (("point in time", "1984"), ("for work", FILM)),
    (TOWN, "population", "1200"): (("point in time", "1950"),),
    (TOWN, "population", "900"): (("point in time", "1987"),),
    (ANN, "position held", CHAIR): (("start time", "1990"), ("end time", "1995"), ("series ordinal", "11")),
    (BOB, "position held", CHAIR): (("start time", "1995"), ("end time", "1999"), ("series ordinal", "12")),
}
OTHERS = {
    (ANN, "place of birth", SEA),
    (BOB, "place of birth", RIVER),
    (FILM, "instance of", "film"),
    (CUP, "instance of", "award"),
    (TOWN, "instance of", "city"),
}


class StatedIndex(WorldIndex):
    """Claims of which some have qualifiers."""

    has_statements = True

    def __init__(self, claims: set[Any], stated: Sequence[tuple[str, str, str, Qualifiers]]) -> None:
        super().__init__(claims, PROPERTIES)
        flat = [(*fact, *(part for pair in qualifiers for part in pair)) for *fact, qualifiers in stated]
        RowsIndex.__init__(self, [(1, frozenset([*self.graph, *flat]))], self.tokenizer)  # type: ignore[list-item]


INDEX = StatedIndex({*STATEMENTS, *OTHERS}, [(*fact, some) for fact, some in STATEMENTS.items()])


WORDS = load_prompt("wikidata").words
assert WORDS is not None


def _of(question: str) -> Any:
    found = answers(INDEX, question, FakeScore(INDEX.tokenizer, overlap(question)), min_confidence=3.0)
    found._words = WORDS
    return found


def _text(ids: Sequence[int]) -> str:
    assert not ids or tuple(ids[-len(END) :]) == END
    return INDEX.tokenizer.decode(list(ids[: -len(END)]))


def _after(question: str, subject: str, predicate: str, confidence: float = 20.0) -> str:
    begun = INDEX.tokenizer.encode_after(INDEX.trigger, f" <{subject}> <{predicate}>")
    ids = _of(question).of_statements(begun, confidence)
    return _text([*begun, *ids]) if ids else ""


@pytest.mark.parametrize(
    ("question", "subject", "predicate", "expected"),
    [
        (
            "Who was mayor of Springfield in 1988?",
            TOWN,
            "mayor",
            f" <{TOWN}> <mayor> <{ANN}> <start time> <1986> <end time> <1990> .\nAnswer: Ann Lee",
        ),
        (
            "Since when was Bob Ray mayor of Springfield?",
            TOWN,
            "mayor",
            f" <{TOWN}> <mayor> <{BOB}> <start time> <1990> <end time> <1994> .\nAnswer: 1990",
        ),
        (
            "For which work did Ann Lee receive the Golden Cup?",
            ANN,
            "award received",
            f" <{ANN}> <award received> <{CUP}> <point in time> <1984> <for work> <{FILM}> .\nAnswer: The Lake",
        ),
        (
            "Of which city was Bob Ray mayor in 1991?",
            BOB,
            "mayor of",
            f" <{BOB}> <mayor of> <{TOWN}> .\nFact: <{TOWN}> <mayor> <{BOB}> <start time> <1990> <end time> <1994> .\n"
            "Answer: Springfield",
        ),
    ],
)
def test_the_rest_of_a_text_is_the_statement_and_its_answer(
    question: str, subject: str, predicate: str, expected: str
) -> None:
    assert _after(question, subject, predicate) == expected


def test_nothing_holds_at_a_time_that_no_statement_has() -> None:
    text = _after("Who was mayor of Springfield in 1930?", TOWN, "mayor")
    assert text.endswith("\nAnswer: ")  # this channel has no words for what it does not know


@pytest.mark.parametrize(("question", "confidence"), [("Who was mayor of Springfield?", 20.0), ("And in 1988?", 1.0)])
def test_other_questions_and_unlikely_facts_are_left_to_the_model(question: str, confidence: float) -> None:
    found = _of(question)
    begun = INDEX.tokenizer.encode_after(INDEX.trigger, f" <{TOWN}> <mayor>")
    if confidence < 3:
        object.__setattr__(found.channel, "unknown", "I don't know.")
    assert found.of_statements(begun, confidence) == ()


def test_a_comparison_is_a_whole_text() -> None:
    found = _of("Did the population of Springfield grow from 1950 to 1987?")
    text = _text(INDEX.run(found.begin(TreeReading.ROWS)))
    assert text == (
        f"Fact: <{TOWN}> <population> <1200> <point in time> <1950> .\n"
        f"Fact: <{TOWN}> <population> <900> <point in time> <1987> .\nAnswer: no"
    )


HELD = {
    name: f"Fact: <{name}> <position held> <{CHAIR}> <start time> <{start}> <end time> <{end}> <series ordinal> <{n}> .\n"
    for name, start, end, n in [(ANN, 1990, 1995, 11), (BOB, 1995, 1999, 12)]
}


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Who held the position 12th Chair of Ruritania?", f"{HELD[BOB]}Answer: Bob Ray"),
        ("Who held the position Chair of Ruritania in 1992?", f"{HELD[ANN]}Answer: Ann Lee"),
        ("Who held the position Chair of Ruritania second?", ""),  # the numbers tell that it is not there
        ("Who was the last to hold the position Chair of Ruritania?", f"{HELD[BOB]}Answer: Bob Ray"),
        ("When was the position of 12th Chair of Ruritania held?", f"{HELD[BOB]}Answer: 1995"),
        (
            "What was the place of birth of the 11th Chair of Ruritania?",
            f"{HELD[ANN]}Fact: <{ANN}> <place of birth> <{SEA}> .\nAnswer: Strelsau",
        ),
        (
            "What was the place of birth of who held the position Chair of Ruritania in 1997?",
            f"{HELD[BOB]}Fact: <{BOB}> <place of birth> <{RIVER}> .\nAnswer: Zenda",
        ),
        ("Who held the position 13th Chair of Ruritania?", ""),
        ("Who held the position Chair of Ruritania in 1920?", ""),
        ("Who held the position Chair of Ruritania?", ""),
        ("How many held the position Chair of Ruritania in 1992?", f"{HELD[ANN]}Answer: 1"),
    ],
)
def test_one_of_several_that_a_fact_leads_back_to_is_told_by_time_or_order(question: str, expected: str) -> None:
    assert _text(INDEX.run(_of(question).begin(TreeReading.ROWS))) == expected


def test_long_lists_are_not_read_for_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_answers, "MOST_READ", 1)
    assert _text(INDEX.run(_of("Who held the position 12th Chair of Ruritania?").begin(TreeReading.ROWS))) == ""


NAMES = ("a", "b (x)", "c", "d")
_PAIRS = st.lists(st.tuples(st.sampled_from(["start time", "for work"]), st.sampled_from(NAMES)), max_size=3)
_STATED = st.lists(
    st.tuples(
        st.sampled_from(NAMES), st.sampled_from(["mayor", "award received"]), st.sampled_from(NAMES), _PAIRS.map(tuple)
    ),
    min_size=1,
    max_size=12,
)


@given(_STATED)
def test_the_tree_has_the_statements_that_were_given(stated: list[tuple[str, str, str, Qualifiers]]) -> None:
    index = StatedIndex({one[:3] for one in stated}, [one for one in stated if one[3]])
    facts = TreeFacts(index)  # type: ignore[arg-type]
    for subject, predicate in {(one[0], one[1]) for one in stated}:
        own = {Statement(one[2], one[3]) for one in stated if one[:2] == (subject, predicate)}
        qualified = {one.object for one in own if one.qualifiers}
        expected = {one for one in own if one.qualifiers or one.object not in qualified}
        assert set(statements_of(facts, subject, predicate)) == expected
        assert sorted({value for _, value in facts.objects([subject], predicate)}) == sorted(
            {one.object for one in own}
        )
        for one in own:  # and from the other side
            inverse = facts.inverse_of(predicate)
            assert inverse is not None
            back = {some.qualifiers for some in statements_of(facts, one.object, inverse) if some.object == subject}
            assert one.qualifiers in back or (not one.qualifiers and one.object in qualified)


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=4).map(tuple))
def test_a_statement_is_read_as_it_is_written(qualifiers: Qualifiers) -> None:
    text = verbalise("s", "p", "o (x)", qualifiers)
    assert (split_fact(text), qualifiers_of(text + " .")) == (("s", "p", "o (x)"), qualifiers)
