"""The text of a query with its answer: what is written, when, and that the answer is the query's result."""

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.query.check import HUB
from support.query.memory_index import RowsIndex
from support.query.sample_world import (
    ASKED,
    CLAIMS,
    END,
    FILM,
    KUBRICK,
    PERU,
    PROPERTIES,
    SHORT,
    Script,
    answers,
    world,
)
from support.query.twin import CLAIMS as RANDOM
from support.query.twin import ENTITIES, PREDICATES, Graph, SetFacts, with_inverse
from support.query.world import FakeScore, WorldIndex, overlap

from refactx.decoding.machine import Machine
from refactx.decoding.states import Free
from refactx.engines.engine import TreeReading
from refactx.fact import verbalise
from refactx.ranking.encoders import WordEncoder
from refactx.ranking.ranker import Ranker
from refactx.selection.answer_lines import up_to_object
from refactx.selection.channel import Channel, QuerySources
from refactx.selection.mentions import FoldedTokens, QueryWords
from refactx.selection.query_answers import QueryAnswers, first_answer, try_answer
from refactx.selection.weights import Weights
from refactx.walks.answered import answer_query
from refactx.walks.facts import TreeFacts
from refactx.walks.language import QueryError, read_line

INDEX = world()
TREES = TreeReading.ROWS
SHORTS = "How many short films did Stanley Kubrick direct?"
NARROWED = " which <instance of> <short film>"
FILMS = f"list <{KUBRICK}> <director of>"


def begin(question: str, of_line: Any, **options: Any) -> tuple[str, QueryAnswers]:
    """The text that begins with a query, and the queries of it."""
    found = answers(INDEX, question, FakeScore(INDEX.tokenizer, of_line), **options)
    return text_of(INDEX.run(found.begin(TREES))), found


def text_of(ids: Sequence[int]) -> str:
    assert not ids or tuple(ids[-len(END) :]) == END
    return INDEX.tokenizer.decode(list(ids[: -len(END)]))


def after(text: str) -> Free:
    state = INDEX.machine.run(INDEX.tokenizer.encode(text), 0)
    assert isinstance(state, Free)
    return state


def after_fact(
    question: str, of_line: Any, facts: Sequence[tuple[str, str, str]], ends: str = " .\n", **options: Any
) -> tuple[str, QueryAnswers]:
    found = answers(INDEX, question, FakeScore(INDEX.tokenizer, of_line), **options)
    state = after("\n".join(f"Fact:{verbalise(*fact)} ." for fact in facts).removesuffix(" .") + ends)
    return text_of(INDEX.run(found.after_fact(state, TREES))), found


@pytest.mark.parametrize("question", ASKED)
def test_the_text_is_the_query_with_its_answer(question: str) -> None:
    line, answer = ASKED[question]
    text, found = begin(question, Script(line))
    assert text == f"Query: {line} .\nAnswer: {answer}"
    [answered] = found.channel.answered
    again = answer_query(read_line(line), INDEX.facts)
    assert (answered.line, answered.result, answered.answer) == (line, again.result, answer)
    assert answered.confidence is not None
    assert answered.confidence >= found.channel.weights.min_confidence


@pytest.mark.parametrize("question", ASKED)
def test_nothing_is_written_below_the_threshold(question: str) -> None:
    line, _ = ASKED[question]
    for weight, is_written in ((20.0, True), (0.0, False)):
        text, found = begin(question, Script(line, weight))
        assert bool(text) == bool(found.channel.answered) == is_written
    _, found = begin(question, Script(line))
    confidence = found.channel.answered[0].confidence
    assert confidence is not None
    assert begin(question, Script(line), min_confidence=confidence)[0]
    assert not begin(question, Script(line), min_confidence=confidence + 1e-9)[0]


def test_questions_for_a_list_have_facts() -> None:
    text, found = begin("Which films did Stanley Kubrick direct?", Script(FILMS))
    assert (text, found.channel.answered) == ("", [])


def test_questions_that_name_nothing_have_facts() -> None:
    text, found = begin("How many are there?", Script("count"), min_confidence=-1e9)
    assert (text, found.channel.answered) == ("", [])


def test_a_query_without_an_answer_gives_way_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The instances of a narrower class are counted alone, so films cannot be narrowed to short ones."""
    monkeypatch.setattr(TreeFacts, "size", 1 << 60)  # too large to be scanned for them
    tiny = [("tiny film (n)", "subclass of", SHORT), *((f"t{n} (n)", "instance of", "tiny film (n)") for n in range(3))]
    index, line = WorldIndex([*CLAIMS, *tiny], PROPERTIES, 2), ASKED[SHORTS][0]
    with pytest.raises(QueryError, match=HUB):
        answer_query(read_line(line), index.facts)
    scores = {f"count <Stanley Kubrick> <director of>{end}": n for n, end in enumerate((NARROWED, ""), 1)}
    score = FakeScore(index.tokenizer, lambda line: -scores.get(line, 2 if line == "count <Stanley Kubrick>" else 20))
    found = answers(index, SHORTS, score)
    text = text_of(index.run(found.begin(TREES)))
    assert scores.keys() <= set(score.asked)
    assert text == f"Query: count <{KUBRICK}> <director of> .\nAnswer: 10"
    assert len(found.channel.answered) == 1


class TestAfterAFact:
    FACT = (KUBRICK, "director of", "Lolita (film)")
    QUESTION = "Which films did Stanley Kubrick direct?"

    def test_a_long_list_becomes_a_query(self) -> None:
        films = "; ".join(o for _, o in sorted(listed(FILMS)))
        text, found = after_fact(self.QUESTION, Script(FILMS), [self.FACT])
        head, _, answer = text.partition("\nAnswer: ")
        assert head == f"Query: {FILMS} ."
        assert sorted(answer.split("; ")) == sorted(films.split("; "))
        assert len(answer.split("; ")) == 10
        assert [one.line for one in found.channel.answered] == [FILMS]

    @pytest.mark.parametrize(("values", "is_query"), [(9, True), (10, False), (99, False)])
    def test_a_short_one_stays(self, values: int, is_query: bool) -> None:
        text, found = after_fact(self.QUESTION, Script(FILMS), [self.FACT], values=values)
        assert bool(text) == bool(found.channel.answered) == is_query

    @pytest.mark.parametrize(("most", "is_query"), [(8, True), (9, False)])
    def test_one_that_does_not_fit_becomes_a_query(self, most: int, is_query: bool) -> None:
        found = answers(INDEX, self.QUESTION, FakeScore(INDEX.tokenizer, Script(FILMS)), values=99)
        state = after(f"Fact:{verbalise(*self.FACT)} .\n")
        text = text_of(INDEX.run(found.after_fact(state, TREES, fits=lambda more: more <= most)))
        assert text.startswith(f"Query: {FILMS} .") == bool(found.channel.answered) == is_query

    def test_one_object_never_does(self) -> None:
        found = answers(INDEX, "Who is the spouse of Stanley Kubrick?", FakeScore(INDEX.tokenizer, Script(FILMS)))
        state = after(f"Fact:{verbalise(KUBRICK, 'spouse', 'Christiane (n)')} .\n")
        assert not INDEX.run(found.after_fact(state, TREES, fits=lambda more: False))

    def test_the_meaning_of_the_question_counts_for_the_list_too(self) -> None:
        for question, is_written in ((self.QUESTION, True), ("Which films are by Stanley Kubrick?", False)):
            text, _ = after_fact(question, Script(FILMS, 2.0), [self.FACT], ranker=Ranker(WordEncoder()))
            assert bool(text) == is_written

    def test_a_list_that_the_question_narrows_becomes_a_query(self) -> None:
        line = f"{FILMS} which <instance of> <subclass of>* <{SHORT}>"
        text, _ = after_fact("Which short films did Stanley Kubrick direct?", Script(line), [self.FACT], values=99)
        head, _, answer = text.partition("\nAnswer: ")
        assert head == f"Query: {line} ."
        assert set(answer.split("; ")) == {"Flying Padre", "Day of the Fight"}

    def test_nothing_is_written_below_the_threshold(self) -> None:
        for weight, is_written in ((20.0, True), (0.5, False)):
            text, found = after_fact(self.QUESTION, Script(FILMS, weight), [self.FACT])
            assert bool(text) == bool(found.channel.answered) == is_written
        line = f"{FILMS} which <instance of> <subclass of>* <{SHORT}>"
        text, _ = after_fact("Which short films did Stanley Kubrick direct?", Script(line, 0.5), [self.FACT])
        assert not text

    def test_a_second_fact_never_does(self) -> None:
        second = (KUBRICK, "director of", "Spartacus (film)")
        text, found = after_fact(self.QUESTION, Script(FILMS), [self.FACT, second])
        assert (text, found.channel.answered) == ("", [])

    def test_there_is_at_most_one_query(self) -> None:
        _, found = after_fact(self.QUESTION, Script(FILMS), [self.FACT])
        state = after(f"Fact:{verbalise(*self.FACT)} .\n")
        assert not INDEX.run(found.after_fact(state, TREES))
        assert len(found.channel.answered) == 1

    def test_it_begins_on_a_new_line(self) -> None:
        for ends in (" .", " .\n"):
            found = answers(INDEX, self.QUESTION, FakeScore(INDEX.tokenizer, Script(FILMS)))
            before = f"Fact:{verbalise(*self.FACT)}{ends}"
            ids = INDEX.run(found.after_fact(after(before), TREES))
            lines = (before + text_of(ids)).split("\n")
            assert [line.partition(":")[0] for line in lines] == ["Fact", "Query", "Answer"]

    def test_the_subject_need_not_be_named(self) -> None:
        text, _ = after_fact("Which films are by the director of Lolita?", Script(FILMS), [self.FACT])
        assert text.startswith(f"Query: {FILMS} .\n")


def listed(line: str) -> list[tuple[str, str]]:
    return [(one, one.partition(" (")[0]) for one in answer_query(read_line(line), INDEX.facts).result.values]


WORDS = QueryWords(
    heads={"count": ["how many"], "ask": ["is"], "most": ["most"], "least": ["least"]}, operators={"over": ["over"]}
)
QUESTIONS = st.builds(
    lambda head, words: " ".join([head, *words]),
    st.sampled_from(["how many", "is", "the most", "the least", "what", "is how many"]),
    st.lists(st.sampled_from([*(name.partition(" (")[0] for name in ENTITIES), *PREDICATES, "7", "1990"]), max_size=4),
)


def answers_of(claims: Graph, question: str, min_confidence: float) -> tuple[RowsIndex, QueryAnswers]:
    index: Any = RowsIndex([(1, with_inverse(claims))])
    weights = Weights(facts_of_property=2, min_confidence=min_confidence)
    channel = Channel(examples=(), question=(), lead=0, text=question, marker="Answer:", weights=weights)
    tokens = FoldedTokens(index.tokenizer.token_bytes)
    sources = QuerySources(facts=TreeFacts(index), words=WORDS, tokens=tokens, end=END)
    return index, QueryAnswers(Machine(index), channel, sources, FakeScore(index.tokenizer, overlap(question)))


def run(index: RowsIndex, steps: Any) -> Sequence[int]:
    return WorldIndex.run(index, steps)  # type: ignore[arg-type]


@settings(max_examples=60)
@given(RANDOM, QUESTIONS, st.sampled_from([-1e9, 0.0, 4.0]), st.data())
def test_whatever_the_graph_and_the_question_the_answer_is_the_querys_result(
    claims: Graph, question: str, min_confidence: float, data: st.DataObject
) -> None:
    index, found = answers_of(claims, question, min_confidence)
    machine = Machine(index)
    ids = run(index, found.begin(TREES))
    if not ids and data.draw(st.booleans()):
        fact = data.draw(st.sampled_from(sorted(claims)))
        state: Any = machine.run(index.tokenizer.encode(f"Fact:{verbalise(*fact)} .\n"), 0)
        ids = run(index, found.after_fact(state, TREES))
    assert len(found.channel.answered) == bool(ids)
    for one in found.channel.answered:
        assert tuple(ids[-len(END) :]) == END
        query, newline, answer = index.tokenizer.decode(list(ids[: -len(END)])).partition("\n")
        assert newline
        line = query.removeprefix("Query: ")
        assert (query, answer) == (f"Query: {one.line} .", f"Answer: {one.answer}")
        assert answer_query(read_line(line), found.facts).answer == one.answer != ""
        assert one.confidence is not None
        assert one.confidence >= min_confidence


def test_the_likeliest_query_alone_may_take_a_scan() -> None:
    claims = frozenset((name, "p", hub) for hub in ("A", "B") for name in ("C", "D")) | {("E", "q", "C")}
    lines = ("list <A> <p of> which <q> <F>", "list <B> <p of>", "list <A> <p>", "list <C> <p>")
    queries = [(read_line(line), confidence) for confidence, line in enumerate(lines)]
    facts = SetFacts(claims, 1, size=5)
    found = first_answer(queries, facts)
    assert found is not None
    assert (found.line, found.confidence, len(facts.scans)) == ("list <C> <p>", 3, 1)
    found = first_answer(queries[1:], facts)
    assert found is not None
    assert found.line == "list <B> <p of>"
    assert first_answer(queries[:3], facts) is None


def test_try_answer_refuses_what_has_no_result() -> None:
    refused = f"list <{PERU}> <spouse>"
    with pytest.raises(QueryError):
        answer_query(read_line(refused), INDEX.facts)
    assert try_answer(read_line(refused), INDEX.facts) is None
    assert try_answer(read_line(f"ask <{PERU}> <capital> <Santiago (city)>"), INDEX.facts) is not None
    assert any(fact[2] == FILM for fact in CLAIMS)


class TestWhatAnswersNothing:
    """The question's own names, and all members of a class where one is asked for."""

    CLAIMS = (
        *((name, "instance of", "department") for name in ("Sales", "Hardware")),
        *((name, "instance of", "sensor") for name in ("S1", "S2")),
        ("S1", "responsible", "Sales"),
        ("S2", "responsible", "Hardware"),
        ("S1", "title", "S1"),
    )
    PROPERTIES: ClassVar = {
        "instance of": ("http://www.w3.org/1999/02/22-rdf-syntax-ns#type", "entity", "has instance"),
        "responsible": ("P1", "entity", "responsible of"),
        "title": ("P2", "text", ""),
    }

    def answer(self, question: str, *facts: tuple[str, str, str]) -> str:
        index = WorldIndex(with_inverse(self.CLAIMS), self.PROPERTIES)  # type: ignore[arg-type]
        score, ranker = FakeScore(index.tokenizer, lambda line: -9.0), Ranker(WordEncoder())
        found = answers(index, question, score, ranker=ranker)
        text = "\n".join(f"Fact:{verbalise(*fact)} ." for fact in facts)
        state = index.machine.run(index.tokenizer.encode(f"{text}\n"), 0)
        assert isinstance(state, Free)
        unknown = index.tokenizer.encode("Answer: I don't know.")
        ids = found.objects(state, unknown)
        return index.tokenizer.decode(list(ids)[: len(ids) - len(END)]).removeprefix("Answer: ")

    def test_of_two_properties_of_one_subject_the_likelier_answers(self) -> None:
        text = "\n".join(f"Fact:{verbalise(*fact)} ." for fact in (*self.ALL, ("department", "instance of", "kind")))
        claims = (*self.CLAIMS, ("department", "instance of", "kind"))
        index = WorldIndex(with_inverse(claims), self.PROPERTIES)  # type: ignore[arg-type]
        found = answers(index, "Which departments are in the data?", FakeScore(index.tokenizer, lambda line: -9.0))
        state = index.machine.run(index.tokenizer.encode(f"{text}\n"), 0)
        assert isinstance(state, Free)
        for fact, gain in zip(state.facts, (10.0, 10.0, 5.0), strict=True):
            found.channel.evidence[up_to_object(index.machine, fact.tokens)] = gain
        assert index.tokenizer.decode(list(found.objects(state))).startswith("Answer: Sales; Hardware")

    ALL = tuple(("department", "has instance", name) for name in ("Sales", "Hardware"))

    @pytest.mark.parametrize(
        ("question", "expected"),
        [
            ("Which department is responsible for S1?", "I don't know."),
            ("Which departments are responsible for S1?", "I don't know."),
            ("Which department is it?", "I don't know."),
            ("How many departments are there?", "I don't know."),
            ("Which departments are there?", "Sales; Hardware"),
            ("List all departments", "Sales; Hardware"),
        ],
    )
    def test_all_of_a_class_are_an_answer_to_a_question_for_all(self, question: str, expected: str) -> None:
        assert self.answer(question, *self.ALL) == expected

    def test_what_is_asked_for_and_words_of_its_own_name_do_not_narrow_a_class(self) -> None:
        code = "Sharpness of Cheese Code"
        claims = {("Mild", "instance of", code), ("Sharp", "instance of", code), ("S1", "instance of", "cheese")}
        claims |= {("S2", "instance of", "value")}
        index = WorldIndex(with_inverse(claims), self.PROPERTIES)  # type: ignore[arg-type]
        question, score = "Which values are there for the sharpness of cheese?", FakeScore(index.tokenizer, len)
        found = answers(index, question, score)
        assert {one.name for one in found.mentions.entities} == {"value", "cheese", code}
        text = "\n".join(f"Fact:{verbalise(code, 'has instance', name)} ." for name in ("Mild", "Sharp"))
        state = index.machine.run(index.tokenizer.encode(f"{text}\n"), 0)
        assert isinstance(state, Free)
        ids = found.objects(state, index.tokenizer.encode("Answer: I don't know."))
        assert index.tokenizer.decode(list(ids)).startswith("Answer: Mild; Sharp")

    def test_what_the_question_names_is_one_if_it_asks_which(self) -> None:
        fact = ("Sales", "responsible of", "S1")
        assert self.answer("Which sensor S1 has Sales?", fact) == "I don't know."
        assert self.answer("Which of Sales or Hardware is S1 of?", ("S1", "responsible", "Sales")) == "Sales"
        assert self.answer("What has Sales?", fact) == "S1"

    def test_a_question_whether_there_is_any_is_answered_by_one(self) -> None:
        assert self.answer("Has S1 a title?", ("S1", "title", "S1")) == "yes"
        assert self.answer("Is S1 responsible for Hardware?", ("S1", "responsible", "Sales")) == "no"

    def test_things_of_another_class_than_is_asked_for_are_none(self) -> None:
        fact = ("Sales", "responsible of", "S1")
        assert self.answer("Which department has Sales?", fact) == "I don't know."
        assert self.answer("Which sensor has Sales?", fact) == "S1"

    def test_a_things_own_name_is_one_if_the_question_asks_for_it(self) -> None:
        own = ("S1", "title", "S1")
        assert self.answer("Which department has S1?", own) == "I don't know."
        assert self.answer("Which department has S1 or S3?", own) == "I don't know."
        assert self.answer("What is the title of S1 or S3?", own) == "S1"
