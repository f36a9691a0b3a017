"""Answers that another thread ends, and the caller's system message."""

from threading import Event, Thread
from typing import Any

import pytest
from support.tiny_asker import FACTS, LinkedIndex, chat_tokenizer, tiny_asker
from support.tiny_model import tiny_fact_tokenizer, tiny_model

from refactx.ask.answer import Answer
from refactx.ask.asker import Asker
from refactx.ask.prompt import Example, Prompt
from refactx.decoding.stream import TextPiece


@pytest.mark.parametrize("options", [{}, {"free": True}, {"fact_beams": 2}])
def test_a_cancelled_answer_ends_and_leaves_the_others_as_they_are(options: dict[str, Any]) -> None:
    alone = tiny_asker().ask("hello Fact:", max_new_tokens=40, **options)
    asker, stop, answers = tiny_asker(), Event(), dict[str, Answer]()

    def ask(question: str, **more: Any) -> None:
        answers[question] = asker.ask(question, max_new_tokens=40, **options, **more)

    def count(piece: TextPiece) -> None:
        stop.set()

    streamer = asker.stream(count, free="free" in options)
    threads = [
        Thread(target=ask, args=("Fact:",), kwargs={"cancelled": stop.is_set, "streamer": streamer}),
        Thread(target=ask, args=("hello Fact:",)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers["Fact:"].finish_reason == "interrupted"
    assert answers["Fact:"].tokens < 40
    assert (answers["hello Fact:"].text, answers["hello Fact:"].facts) == (alone.text, alone.facts)
    assert not asker._writer.scheduler.running


def test_an_answer_that_was_cancelled_before_it_began_has_no_text() -> None:
    answer = tiny_asker().ask("Fact:", max_new_tokens=10, cancelled=lambda: True)
    assert (answer.text, answer.finish_reason, answer.forward_passes) == ("", "interrupted", 0)


def test_beams_over_the_whole_text_can_be_cancelled() -> None:
    answer = tiny_asker().ask("Fact:", max_new_tokens=40, num_beams=2, cancelled=lambda: True)
    assert (answer.tokens, answer.finish_reason) == (1, "interrupted")


def test_the_text_of_the_callers_system_message_is_data_and_follows_that_of_the_prompt() -> None:
    prompt = Prompt(system="Be true.", examples=(Example("a", "b"),))
    assert prompt.messages("c", system="Be kind.")[0]["content"] == "Be true.\n\nBe kind."
    tokenizer = chat_tokenizer()
    text = tokenizer.decode(prompt.ids(tokenizer, "c", system="kind </s> too"))
    assert text.split() == ["Be", "true.", "kind", "too", "a", "b", "c"]


def test_the_prefix_of_a_system_message_is_computed_once() -> None:
    model, read = tiny_model(), list[int]()
    index = LinkedIndex(tiny_fact_tokenizer(), FACTS)
    asker = Asker(model, chat_tokenizer(), index, Prompt(system="Be true and be long, too."))
    first = asker.ask("What? Fact:", max_new_tokens=10, system="Be kind and be brief.")
    model.register_forward_pre_hook(lambda _, args, kwargs: read.append(kwargs["input_ids"].numel()), with_kwargs=True)
    again = asker.ask("What? Fact:", max_new_tokens=10, system="Be kind and be brief.")
    assert (again.text, again.facts) == (first.text, first.facts)
    assert read[0] < 10


def test_the_latest_turns_that_fit_are_kept() -> None:
    model = tiny_model()
    model.config.max_position_embeddings = 120
    asker = tiny_asker(model)
    for turns in range(12):
        history = [Example("a b c d", "e f g h")] * turns
        answer = asker.ask("Fact:", max_new_tokens=2, history=history)
        fits = [
            n for n in range(turns + 1) if len(asker._inputs._prompt.ids(asker._tokenizer, "Fact:", history[n:])) <= 118
        ]
        assert answer.turns_left_out == fits[0]


def test_a_piece_that_completes_a_fact_has_the_fact() -> None:
    asker, pieces = tiny_asker(), list[TextPiece]()
    answer = asker.ask("Fact:", max_new_tokens=40, streamer=asker.stream(pieces.append))
    assert answer.facts
    assert [piece.fact for piece in pieces if piece.completes] == list(answer.facts)
