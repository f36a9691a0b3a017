"""Askers with a channel: it works with histories, streams and batches, and is left out if it cannot work."""

import logging
from typing import Any

import pytest
from support.channel_runs import EXAMPLES, GRAPH, channel, llama
from support.loop_runs import other_model
from support.tiny_asker import LinkedIndex, chat_tokenizer
from support.tiny_model import (
    one_thread,  # noqa: F401
    prompts,
    tiny_fact_tokenizer,
    tiny_index,
    tiny_tokenizer,
)

from refactx.ask.answer import Answer
from refactx.ask.asker import Asker
from refactx.ask.grounded import ground
from refactx.ask.prompt import Example, Generation, Prompt
from refactx.errors import InputError

WITH_CHANNEL = Prompt(system="Be true.", channel=EXAMPLES)


def asker(prompt: Prompt = WITH_CHANNEL, model: Any = None) -> Asker:
    return Asker(model or llama(), chat_tokenizer(), LinkedIndex(tiny_fact_tokenizer(), GRAPH), prompt)


def shown(answer: Answer | InputError) -> Any:
    assert isinstance(answer, Answer)
    return answer.question, answer.text, [fact.text for fact in answer.facts], answer.tokens, answer.forward_passes


ASKED = ("Fact:", "What? Fact:", "hello", "Is it so? Fact: <B", "a Fact: <Ann>")


class TestAsking:
    def test_many_questions_get_the_answers_of_each_alone(self) -> None:
        alone = [shown(asker().ask(text, max_new_tokens=25)) for text in ASKED]
        batches = asker().ask_all(ASKED, batch_size=4, max_new_tokens=25)
        assert [shown(answer)[:-1] for answer in batches] == [one[:-1] for one in alone]  # (others take part in passes)
        one = asker()
        assert [shown(one.ask(text, max_new_tokens=25)) for text in ASKED] == alone

    @pytest.mark.parametrize("options", [{"channel": False}, {"num_beams": 2}, {"fact_beams": 2}, {"free": True}])
    def test_the_channel_can_be_left_out(self, options: dict[str, Any]) -> None:
        """It is left out if it is turned off, with beams, for free text, and if the prompt has no examples."""
        without = asker(Prompt(system="Be true."))
        plain = options if "channel" not in options else {}
        for question in ASKED[:2]:
            assert shown(asker().ask(question, max_new_tokens=30, **options)) == shown(
                without.ask(question, max_new_tokens=30, **plain)
            )

    @pytest.mark.parametrize("answer", ["b", "I don't know.", "Fact: <Ann> <p> <b> .\nAnswer: b", "two\nlines", ""])
    @pytest.mark.parametrize("options", [{}, {"temperature": 1.5, "seed": 3}])
    def test_after_any_earlier_answers_a_text_begins_with_a_fact(self, answer: str, options: dict[str, Any]) -> None:
        history = [Example("Who?", answer), Example("And what?", answer)]
        found = asker().ask("hello", max_new_tokens=40, history=history, **options)
        assert found.text.startswith("Fact: <")
        assert found.facts

    @pytest.mark.parametrize("options", [{"channel": False}, {"num_beams": 2}, {"fact_beams": 2}])
    def test_an_answer_without_a_fact_is_not_known(self, options: dict[str, Any]) -> None:
        for question in ("hello", "so", "who"):
            found = asker().ask(question, max_new_tokens=30, **options)
            assert found.facts or found.unknown or found.finish_reason == "length"

    def test_the_channel_changes_answers(self) -> None:
        found, plain = (asker().ask("Fact:", max_new_tokens=50, channel=on) for on in (True, False))
        assert found.text != plain.text
        assert "\nAnswer:" in found.text or "\nFact:" in found.text

    def test_works_with_a_history_and_a_stream(self) -> None:
        first, pieces = asker().ask("Fact:", max_new_tokens=40), []
        one = asker()
        again = one.ask(
            "Who? Fact:", history=[Example("Fact:", first.text)], max_new_tokens=40, streamer=one.stream(pieces.append)
        )
        assert again.facts
        assert {fact.text for fact in again.facts} <= {f"{fact} ." for fact in GRAPH}
        assert pieces

    @pytest.mark.long
    @pytest.mark.parametrize("kind", ["sliding window", "alibi", "state space"])
    def test_models_with_windows_biases_and_states_have_a_channel(
        self, kind: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.WARNING, "refactx"):
            answers = list(asker(model=other_model(kind)).ask_all(ASKED[:2], batch_size=2, max_new_tokens=25))
        assert "not chosen by the question" not in caplog.text
        texts = [answer.text for answer in answers if isinstance(answer, Answer)]
        assert texts == [asker(model=other_model(kind)).ask(text, max_new_tokens=25).text for text in ASKED[:2]]

    def test_is_for_one_text_without_beams(self) -> None:
        index = tiny_index(GRAPH)
        grounded, chosen = ground(llama(), tiny_tokenizer(), index), channel(index)
        for options in ({"fact_beams": 2}, {"num_beams": 2}, {"num_return_sequences": 2, "do_sample": True}):
            with pytest.raises(InputError, match="channel"):
                grounded.generate(**prompts("a Fact:"), channel=chosen, max_new_tokens=5, **options)
        with pytest.raises(InputError, match="each row a channel of its own"):
            grounded.generate(**prompts("a Fact:", "b"), channel=chosen, max_new_tokens=5)
        assert not Generation(num_beams=2).uses_channel
        assert Generation().uses_channel
