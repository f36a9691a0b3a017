"""Queries that a model writes by itself: they are held to the facts, and their results are the answers."""

from collections.abc import Iterator
from typing import Any

import pytest
from support.query.memory_index import RowsIndex
from support.thinking_model import TURNS, Script, scripted_model, thinking_tokenizer
from support.tiny_asker import chat_tokenizer
from support.tiny_model import one_thread  # noqa: F401

from refactx.ask.answer import unlinked
from refactx.ask.asker import Asker
from refactx.ask.prompt import Prompt, load_prompt
from refactx.errors import InputError
from refactx.walks import TreeFacts

GRAPH = frozenset([("A", "p", "B"), ("A", "p", "C"), ("B", "n", "7"), ("C", "x", "b")])


class LinkedRows(RowsIndex):
    """An index whose facts have no ids."""

    links = staticmethod(unlinked)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A function that asks a question of a model that writes a text."""
    monkeypatch.setattr("refactx.ask.asker.facts_of", TreeFacts)
    running = list[Any]()

    def ask(text: str, prompt: Prompt | None = None, thinks: bool = False, **options: Any) -> Any:
        asked = load_prompt("taught") if prompt is None else prompt
        tokenizer = thinking_tokenizer("option") if thinks else chat_tokenizer(TURNS)
        model = scripted_model(tokenizer)
        running.append(model)
        told, script = model.__enter__()
        assert isinstance(script, Script)
        script.say(len(asked.ids(tokenizer, "Who?", think=thinks)), text)
        return Asker(told, tokenizer, LinkedRows([(1, GRAPH)]), asked).ask("Who?", max_new_tokens=120, **options)

    yield ask
    for model in running:
        model.__exit__(None, None, None)


def test_the_result_of_a_query_is_the_answer_and_the_end(said: Any) -> None:
    answer = said("Query: count <A> <p> .\nAnswer: 5 and more")
    assert (answer.text, answer.answer) == ("Query: count <A> <p> .\nAnswer: 2", "2")
    assert answer.finish_reason == "stop"
    (query,) = answer.queries
    assert (query.line, query.answer, query.confidence) == ("count <A> <p>", "2", None)


def test_a_list_may_follow_its_first_fact(said: Any) -> None:
    answer = said("Fact: <A> <p> <C> .\nQuery: list <A> <p> .")
    assert sorted(answer.answer.split("; ")) == ["B", "C"]
    assert [fact.text for fact in answer.facts] == ["<A> <p> <C> ."]


def test_names_that_are_not_there_cannot_be_written(said: Any) -> None:
    answer = said("Query: count <A> <n> .")
    assert answer.queries == () or all("<n>" not in query.line for query in answer.queries)
    assert "<A> <n>" not in answer.text


def test_a_text_without_a_query_is_the_models(said: Any) -> None:
    answer = said("Fact: <A> <p> <C> .\nAnswer: C")
    assert (answer.answer, answer.queries) == ("C", ())


def test_a_prompt_with_a_channel_leaves_no_queries_to_the_model(said: Any) -> None:
    prompt = Prompt(system="Be true.", channel="Fact: <A> <p> Question: who?")
    answer = said("Query: count <A> <p> .\nAnswer: 5", prompt, channel=False)
    assert answer.text.rstrip().endswith("Answer: 5")
    assert (answer.answer, answer.queries) == ("I don't know.", ()), "nothing proves it"


def test_a_query_in_a_thought_does_not_end_it(said: Any) -> None:
    answer = said("Query: count <A> <p> .</think>\n\nQuery: count <B> <n> .", thinks=True, think=60)
    assert answer.thought == "Query: count <A> <p> ."
    assert (answer.answer, [query.line for query in answer.queries]) == ("1", ["count <B> <n>"])


@pytest.mark.parametrize("beams", [{"num_beams": 2}, {"fact_beams": 2}])
def test_beams_are_refused(said: Any, beams: dict[str, int]) -> None:
    with pytest.raises(InputError, match="writes queries by itself"):
        said("", **beams)
