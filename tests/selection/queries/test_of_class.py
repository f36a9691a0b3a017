"""Lists of a class that the question names, after a fact that makes the question less likely."""

from hypothesis import given, settings
from support.query.check import HUB
from support.query.choice import CLASSES, Asked, mentions_of, some_asked
from support.query.sample_world import KUBRICK, SHORT, Script, answers, world
from support.query.world import FakeScore, result_of

from refactx.decoding.states import Free
from refactx.engines.engine import TreeReading
from refactx.fact import verbalise
from refactx.ranking.encoders import WordEncoder
from refactx.ranking.ranker import Ranker
from refactx.selection.queries import QuerySearch
from refactx.selection.weights import Weights
from refactx.walks.evaluate import evaluate_walk
from refactx.walks.language import Hop, QueryError

QUESTION = "Which short films did Stanley Kubrick direct?"
SHORTS = f"list <{KUBRICK}> <director of> which <instance of> <subclass of>* <{SHORT}>"


@settings(max_examples=60)
@given(some_asked())
def test_lists_of_a_class_have_members_and_a_filter_apart_from_the_start(asked: Asked) -> None:
    search: QuerySearch = asked.search()
    instances = asked.facts.inverse_of("p") if asked.words is CLASSES else None
    names = [one.name for one in asked.mentions.entities]
    classes = {one for one in names if instances and asked.facts.counts([one], instances)[0] > 1}
    found = result_of(search.rank(search.of_class()))
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    for one in found:
        values = [which.value for which in one.query.which]
        assert one.query.head == "list"
        assert one.query.start in names
        assert set(values) <= set(names) - {one.query.start}
        assert len(set(values)) == len(values) > 0
        assert classes - {one.query.start} or one.query.hops == (Hop(instances or ""),)
        try:
            assert evaluate_walk(one.query, asked.facts).values
        except QueryError as error:
            assert HUB in str(error)


def test_after_a_fact_nothing_is_scored_if_no_query_can_follow() -> None:
    index = world()
    score = FakeScore(index.tokenizer, Script(SHORTS, 20.0))
    found = answers(index, "Who is the spouse of Stanley Kubrick?", score, values=99)
    state = index.machine.run(index.tokenizer.encode(f"Fact:{verbalise(KUBRICK, 'spouse', 'Christiane (n)')} .\n"), 0)
    assert isinstance(state, Free)
    found.channel.evidence[()] = 5.0
    assert not index.run(found.after_fact(state, TreeReading.ROWS))
    assert score.asked == []


def after(confidence: float | None, weight: float = 20.0, question: str = QUESTION, by_words: bool = False) -> str:
    """What follows a fact that does not fit, given how much likelier than no fact it makes the question."""
    index = world()
    score = FakeScore(index.tokenizer, Script(SHORTS, weight))
    found = answers(index, question, score, values=99, ranker=Ranker(WordEncoder()) if by_words else None)
    state = index.machine.run(index.tokenizer.encode(f"Fact:{verbalise(KUBRICK, 'spouse', 'Christiane (n)')} .\n"), 0)
    assert isinstance(state, Free)
    if confidence is not None:
        found.channel.evidence[()] = confidence
    ids = index.run(found.after_fact(state, TreeReading.ROWS))
    return index.tokenizer.decode(list(ids))


def test_the_likelier_of_the_fact_and_the_list_answers() -> None:
    assert after(confidence=None).startswith(f"Query: {SHORTS} .")
    assert after(confidence=5.0).startswith(f"Query: {SHORTS} .")
    assert not after(confidence=50.0)


def test_a_list_whose_predicate_is_near_to_the_question_in_meaning_is_likelier() -> None:
    def most(question: str) -> float:
        return max(n / 4 for n in range(100) if after(confidence=n / 4, question=question, by_words=True))

    assert most(QUESTION) > most("Which short films did Stanley Kubrick make?") + Weights().meaning / 2


def test_a_list_below_the_threshold_does_not() -> None:
    assert not after(confidence=0.0, weight=3.0)


def test_a_class_that_the_predicate_says_is_no_filter() -> None:
    claims = frozenset({("A", "p", "C"), ("B", "p", "C"), ("D", "p", "A"), ("D", "q", "B")})
    asked = Asked(claims, mentions_of(["D", "C"]), CLASSES)
    assert {one.line for one in asked.search().of_class()} >= {"list <D> <p> which <p> <C>"}
    named = mentions_of(["D", "C"])
    named.entities[1:] = [type(named.entities[1])(2, 3, "C", "p", 1.0)]  # type: ignore[index]
    assert "list <D> <p> which <p> <p>" not in {one.line for one in Asked(claims, named, CLASSES).search().of_class()}


def test_facts_are_about_the_thing_that_a_question_names_not_about_its_kind() -> None:
    index = world()
    found = answers(index, QUESTION, FakeScore(index.tokenizer, Script(SHORTS, 20.0)), values=99)
    named = {index.machine.text_of(one.state.prefix).decode().strip() for one in found.spans}
    about = {index.machine.text_of(one.state.prefix).decode().strip() for one in found.subject_spans}
    assert any(text.startswith("<short film") for text in named)
    assert about == {text for text in named if not text.startswith("<short film")} != set()
