"""Batches of questions, conversations, sampling, and generations that `until` ends."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
import torch
from support.tiny_asker import tiny_asker
from support.tiny_model import tiny_model, tiny_tokenizer

from refactx.ask.answer import Answer
from refactx.ask.asker import Asker
from refactx.ask.prompt import Example, Generation, Prompt
from refactx.ask.writer import MOST_SHARED
from refactx.errors import InputError

QUESTIONS = ("Fact:", "What? Fact:", "hello", "Is it so, that it is as long as this is? Fact: <B", "a")


def shown(answer: Answer | InputError) -> Any:
    assert isinstance(answer, Answer)
    return answer.question, answer.text, [fact.text for fact in answer.facts], answer.tokens, answer.finish_reason


@pytest.mark.parametrize("options", [{}, {"free": True}, {"num_beams": 2}, {"fact_beams": 2}])
def test_answers_of_a_batch_are_those_of_single_questions(options: dict[str, Any]) -> None:
    batches = list(tiny_asker().ask_all(QUESTIONS, batch_size=3, max_new_tokens=25, **options))
    asker = tiny_asker()
    assert [shown(answer) for answer in batches] == [
        shown(asker.ask(question, max_new_tokens=25, **options)) for question in QUESTIONS
    ]


def test_the_passes_and_seconds_of_each_answer_are_its_own() -> None:
    alone = [tiny_asker().ask(question, max_new_tokens=9) for question in QUESTIONS]
    answers = list(tiny_asker().ask_all(QUESTIONS, batch_size=len(QUESTIONS), max_new_tokens=9))
    for one, answer in zip(alone, answers, strict=True):
        assert isinstance(answer, Answer)
        assert answer.forward_passes == one.forward_passes
        assert answer.seconds > 0


def test_a_question_begins_when_another_is_answered() -> None:
    asker, order = tiny_asker(), list[str]()

    def until(ids: Any) -> bool:
        order.append("".join(asker._tokenizer.decode(ids[0][9:]).split())[:5])  # after "Be true. "
        return False

    answers = list(asker.ask_all(["first", "again", "third"], batch_size=2, max_new_tokens=30, until=until))
    assert [answer.tokens for answer in answers if isinstance(answer, Answer)] == [30] * 3
    assert order.index("third") > min(at for at, name in enumerate(order) if order[at:].count(name) == 1)
    assert order.count("third") == 30
    assert nothing_is_left(asker)


def nothing_is_left(asker: Any) -> bool:
    """Whether the engine has the sequences that texts continue alone."""
    return bool(asker._model.engine._sequences.keys() == set(asker._writer.shared._shared.values()))


def test_askers_of_a_model_share_its_engine() -> None:
    first = tiny_asker()
    others = [Asker(first._model, first._tokenizer, first._index, Prompt(system=text)) for text in "abcdefghijkl"]
    for asker in (first, *others):
        alone = Asker(tiny_model(), first._tokenizer, first._index, asker._prompt)
        assert shown(asker.ask("hello", max_new_tokens=9)) == shown(alone.ask("hello", max_new_tokens=9))
    assert len(first._model.engine._sequences) == MOST_SHARED  # type: ignore[union-attr]


def test_a_question_within_a_question_is_refused() -> None:
    asker = tiny_asker()
    with pytest.raises(RuntimeError, match="cannot write another"):
        asker.ask("hello", max_new_tokens=9, until=lambda _: bool(asker.ask("a", max_new_tokens=1)))
    assert asker.ask("hello", max_new_tokens=9).tokens == 9
    assert nothing_is_left(asker)


def test_inference_mode_of_one_call_does_not_matter_to_the_next() -> None:
    asker = tiny_asker()
    with torch.inference_mode():
        first = asker.ask("Fact:", max_new_tokens=20)
    assert shown(asker.ask("Fact:", max_new_tokens=20)) == shown(first)


def test_after_until_no_other_question_is_begun() -> None:
    answers = list(tiny_asker().ask_all(["hello", "a", "b", "c"], batch_size=2, until=lambda _: True))
    assert [shown(answer)[-1] for answer in answers] == ["interrupted"] * 2


def test_an_iteration_that_is_given_up_leaves_nothing_in_the_engine() -> None:
    asker = tiny_asker()
    answers = asker.ask_all(["hello", "Fact:", "a"], batch_size=2, max_new_tokens=30)
    next(answers)
    answers.close()  # type: ignore[attr-defined]
    assert nothing_is_left(asker)


def test_threads_may_ask_at_once() -> None:
    asker, both = tiny_asker(), Barrier(3)

    def ask(question: str) -> Any:
        both.wait()
        return shown(asker.ask(question, max_new_tokens=30))

    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(ask, QUESTIONS[:3]))
    assert found == [shown(tiny_asker().ask(question, max_new_tokens=30)) for question in QUESTIONS[:3]]


def test_all_batches_continue_one_prefix() -> None:
    model, read = tiny_model(), list[int]()
    model.register_forward_pre_hook(lambda _, args, kwargs: read.append(kwargs["input_ids"].numel()), with_kwargs=True)
    asker = tiny_asker(model)
    list(asker.ask_all(["hello", "a"], batch_size=2, max_new_tokens=1))
    list(asker.ask_all(["What?", "b"], batch_size=2, max_new_tokens=1))
    beginning, *batches = read
    assert beginning > 8, "the system message"
    assert sum(batches) == len("hello a " + "What? b "), "no id is padding, in however many passes they are read"


def test_a_question_that_cannot_be_asked_has_its_error_in_place_of_an_answer() -> None:
    answers = list(tiny_asker().ask_all(["a", " ", "long " * 600, "b"], batch_size=3, max_new_tokens=4))
    assert [isinstance(answer, InputError) for answer in answers] == [False, True, True, False]
    with pytest.raises(InputError, match="batches of 0"):
        list(tiny_asker().ask_all(["a"], batch_size=0))


def test_sampling_is_repeatable_by_its_seed_alone() -> None:
    asker = tiny_asker()

    def sampled(**options: Any) -> str:
        return asker.ask("Fact:", max_new_tokens=30, temperature=1.0, **options).text

    assert sampled(seed=1) == sampled(seed=1) != sampled(seed=2)
    assert len({sampled() for _ in range(4)}) > 1
    assert sampled(top_k=1) == asker.ask("Fact:", max_new_tokens=30).text
    assert sampled(top_p=1e-9, seed=3) == sampled(top_k=1)


@pytest.mark.parametrize(
    "options",
    [
        {"num_beams": 0},
        {"max_new_tokens": 0},
        {"fact_beams": 0},
        {"fact_beams": 2, "num_beams": 2},
        {"fact_length_penalty": -1.0},
        {"temperature": -1.0},
        {"top_k": 5},
        {"seed": 5},
        {"temperature": 1.0, "top_k": 0},
        {"temperature": 1.0, "top_p": 1.5},
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Generation(**options)


def seen(asker: Any, *turns: Example, question: str = "Fact:") -> list[Sequence[int]]:
    """The prompt of a question with a history."""
    ids: list[Sequence[int]] = []
    asker.ask(question, history=turns, max_new_tokens=30, until=lambda row: ids.append(row[0].tolist()) or True)
    return ids


def test_a_history_is_part_of_the_conversation_and_its_facts_may_be_written_again() -> None:
    first = tiny_asker().ask("Fact:", max_new_tokens=40)
    asker = tiny_asker(facts=[first.facts[0].text.removesuffix(" .")])
    again = asker.ask("Fact:", history=[Example("Who? Fact:", first.text)], max_new_tokens=40)
    assert [fact.text for fact in again.facts] == [first.facts[0].text]
    text = asker._tokenizer.decode(seen(asker, Example("Who?", "It </s>is I."))[0])
    assert "Who? Answer: It is I. Fact:" in " ".join(text.split()), "and it cannot bring control tokens"


def test_the_oldest_turns_are_left_out_if_there_is_no_room() -> None:
    asker, long = tiny_asker(), Example("q" * 60, "a" * 60)  # the model has room for 512 ids
    at_once = {"until": lambda _: True}
    assert asker.ask("Fact:", history=[long], max_new_tokens=300, **at_once).turns_left_out == 0
    assert asker.ask("Fact:", history=[long] * 5, max_new_tokens=30, **at_once).turns_left_out == 2
    few = asker.ask("Fact:", history=[long] * 5, max_new_tokens=1000)
    assert few.turns_left_out == 4
    assert few.finish_reason == "length"
    assert few.tokens < 400, "no further than the model has room"


@pytest.mark.parametrize("options", [{}, {"free": True}, {"num_beams": 2}, {"fact_beams": 2}])
def test_until_ends_a_generation(options: dict[str, Any]) -> None:
    lengths: list[int] = []

    def enough(ids: Any) -> bool:
        lengths.append(ids.shape[1])
        return len(lengths) == 5

    answer = tiny_asker().ask("hello", max_new_tokens=100, until=enough, **options)
    assert answer.finish_reason == "interrupted"
    assert answer.tokens == 5
    whole = tiny_asker().ask("hello", max_new_tokens=5, **options)
    assert whole.finish_reason == "length"
    if "num_beams" not in options:
        assert answer.text == whole.text


@pytest.mark.parametrize("pad", ["<pad>", "</s>"])
def test_until_ends_a_batch(pad: str) -> None:
    """Also if the end of sequence pads the rows."""
    model, calls = tiny_model(), list[int]()
    model.generation_config.pad_token_id = tiny_tokenizer().convert_tokens_to_ids(pad)
    questions = ["hello", "Fact:", "What? Fact: <B"]

    def enough(_: Any) -> bool:
        calls.append(1)
        return len(calls) > 40

    answers = list(tiny_asker(model).ask_all(questions, batch_size=3, max_new_tokens=200, until=enough))
    tokens = [answer.tokens for answer in answers if isinstance(answer, Answer)]
    assert [shown(answer)[-1] for answer in answers] == ["interrupted"] * 3
    assert sum(tokens) == 43
    assert len(set(tokens)) > 1
    asker = tiny_asker(model)
    alone = [asker.ask(text, max_new_tokens=count) for text, count in zip(questions, tokens, strict=True)]
    assert [shown(answer)[1:4] for answer in answers] == [shown(answer)[1:4] for answer in alone]
