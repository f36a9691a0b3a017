"""Questions to an index in PostgreSQL with a tiny model: the texts, answers and queries of `Asker.ask` agree."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.channel_runs import EXAMPLES, llama
from support.loop_runs import other_model
from support.shared_index import build
from support.tiny_asker import chat_tokenizer
from support.tiny_model import one_thread  # noqa: F401

from refactx.ask.answer import Answer
from refactx.ask.asker import Asker
from refactx.ask.prompt import Prompt
from refactx.documents import query_document
from refactx.errors import InputError
from refactx.index.index import Index
from refactx.index.open import open_index
from refactx.selection.mentions import QueryWords
from refactx.walks.answered import answer_query
from refactx.walks.facts import TreeFacts
from refactx.walks.language import read_line

WORDS = QueryWords(heads={"count": ["how many"]})
PROMPT = Prompt(
    system="Be true.",
    channel=EXAMPLES,
    queries="Query: count <a> <b> Question: how many b?",
    words=WORDS,
    min_confidence=-1e9,
)
QUESTIONS = (
    "how many property 1 has Entity 005?",
    "how many property 3 has entity 017?",
    "what is Entity 005? Fact:",
    "how many are there?",
)


@pytest.fixture
def index(db_url: str, tmp_path: Path) -> Iterator[Index]:
    build(db_url, tmp_path)
    with open_index("small", db_url) as opened:
        yield opened


def asker(index: Index, prompt: Prompt = PROMPT, model: Any = None) -> Asker:
    return Asker(model or llama(), chat_tokenizer(), index, prompt)


def ask(one: Asker, question: str, **options: Any) -> Answer:
    return one.ask(question, max_new_tokens=300, **options)


def shown(answer: Answer | InputError) -> Any:
    assert isinstance(answer, Answer)
    confidence = answer.confidence if answer.confidence is None else pytest.approx(answer.confidence, abs=1e-3)
    queries = [
        replace(query_document(query), confidence=None) for query in answer.queries
    ]  # sums in another order differ a little
    return answer.text, answer.answer, queries, answer.facts, confidence


def test_answers_of_queries(index: Index) -> None:
    """A question that asks for none has facts. All questions at a time have the answers that each has alone."""
    one, facts = asker(index), TreeFacts(index)
    answers = [ask(one, question) for question in QUESTIONS]
    assert [len(answer.queries) for answer in answers] == [1, 1, 0, 0]
    for answer in answers[:2]:
        [query] = answer.queries
        assert answer.text == f"Query: {query.line} .\nAnswer: {query.answer}"
        assert (answer.answer, answer.confidence, answer.facts) == (query.answer, query.confidence, ())
        assert answer.finish_reason == "stop"
        assert answer_query(read_line(query.line), facts).answer == query.answer
        assert all(index.complete(f"<{f.subject.label}> <{f.predicate.label}> <") for f in query.facts)
    starts = [(answer.queries[0].query.head, answer.queries[0].query.start) for answer in answers[:2]]
    assert starts == [("count", "Entity 005"), ("count", "Entity 017")]
    assert not any("Query:" in answer.text for answer in answers[2:])
    together = list(asker(index).ask_all(QUESTIONS, batch_size=3, max_new_tokens=300))
    assert list(map(shown, together)) == list(map(shown, answers))


@pytest.mark.parametrize("kind", ["sliding window", "alibi", "state space"])
def test_models_with_windows_biases_and_states_ask_for_queries(index: Index, kind: str) -> None:
    assert ask(asker(index, model=other_model(kind)), QUESTIONS[0], min_confidence=-1e9).queries


def test_when_there_are_no_queries(index: Index) -> None:
    """Without a channel, words, or examples, and below the threshold."""
    question = QUESTIONS[0]
    assert ask(asker(index), question).queries
    for options in ({"channel": False}, {"fact_beams": 2}, {"min_confidence": 1e9}, {"free": True}):
        assert not ask(asker(index), question, **options).queries
    for prompt in (replace(PROMPT, words=None), replace(PROMPT, queries=""), replace(PROMPT, channel="")):
        assert not ask(asker(index, prompt), question).queries
