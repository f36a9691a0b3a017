"""The text of a request: its masks are the machine's however its ids arrive, and an error closes it, and it alone."""

import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny_model import FACTS, ids, tiny_index, tiny_tokenizer
from support.vllm.twins import END, VOCABULARY, Away, chosen, expected, facts_of, params

from refactx.decoding.machine import Machine
from refactx.engines.vllm.text import RequestText
from refactx.errors import CorruptIndexError, IndexChangedError, IndexNotFoundError

PROMPTS = ("so", "a Fact:", "Fact: <Ann> <p> <b> .\nso")
INDEX = tiny_index(FACTS)


def text_of(source: object = INDEX) -> RequestText:
    return RequestText(Machine(source), end=END, vocabulary=VOCABULARY)  # type: ignore[arg-type]


def mask_after(text: RequestText, prompt: list[int], output: list[int]) -> set[int] | None:
    """The ids that may follow, as an engine asks for them."""
    length = len(prompt) + len(output)
    first = text.first_unread(length)
    (mask,) = text.masks(length, len(prompt), [*prompt, *output][first:])
    return None if mask is None else set(mask.tolist())


def written(text: RequestText, prompt: list[int], output: list[int]) -> str:
    """What a closed request writes before its end."""
    added: list[int] = []
    while (mask := mask_after(text, prompt, [*output, *added])) != {END}:
        assert mask is not None and len(mask) == 1
        added += mask
    return INDEX.tokenizer.decode(added)


@settings(max_examples=60, deadline=None)
@given(
    prompt=st.sampled_from(["so", "hello", "in"]),
    seed=st.integers(0, 999),
    steps=st.lists(st.integers(0, 4), min_size=1, max_size=25),
)
def test_masks_are_those_of_brute_force_however_many_ids_come_at_once(prompt: str, seed: int, steps: list[int]) -> None:
    """No new id: the last one was discarded. Now and then the last ids are taken back."""
    dice, text = np.random.default_rng(seed), text_of()
    start, output = tiny_tokenizer()(prompt)["input_ids"], list[int]()
    for number in steps:
        if number == 4:
            del output[-3:]
        for _ in range(number % 4):
            output.append(chosen(expected(INDEX, start, output), dice))
        assert mask_after(text, start, output) == expected(INDEX, start, output)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 999), count=st.integers(1, 6), wrong=st.integers(0, 9))
def test_masks_after_draft_tokens_are_those_after_the_same_ids(seed: int, count: int, wrong: int) -> None:
    """After a draft token that is not allowed, which cannot be chosen, only the end may follow. Drafts are not read."""
    dice, text = np.random.default_rng(seed), text_of()
    prompt, output, drafts = ids("\n"), ids("Fact:"), list[int]()
    for _ in range(count):
        drafts.append(chosen(expected(INDEX, prompt, [*output, *drafts]), dice))
    if wrong < count and (wrong % 2 or expected(INDEX, prompt, [*output, *drafts[:wrong]]) is not None):
        drafts[wrong] = -1 if wrong % 2 else END
        allowed = [expected(INDEX, prompt, [*output, *drafts[:number]]) for number in range(wrong + 1)]
        allowed += [{END}] * (count - wrong)
    else:
        allowed = [expected(INDEX, prompt, [*output, *drafts[:number]]) for number in range(count + 1)]
    found = text.masks(2, 1, [*prompt, *output], drafts)
    assert [None if mask is None else set(mask.tolist()) for mask in found] == allowed
    assert mask_after(text, prompt, output) == allowed[0]


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (None, "the database of the facts cannot be reached"),
        (IndexChangedError("gone"), "the fact being written was retracted"),
        (IndexNotFoundError("dropped"), "the index of the facts was dropped or replaced"),
        (CorruptIndexError("row 7"), "the index of the facts is damaged"),
        (ZeroDivisionError("a bug"), "unexpected error"),
    ],
)
def test_an_error_of_the_index_ends_a_request_with_a_note(
    error: Exception | None, note: str, caplog: pytest.LogCaptureFixture
) -> None:
    source = Away(INDEX)
    text, prompt, output = text_of(source), ids("\n"), ids("Fact:", " <")
    assert mask_after(text, prompt, output[:1]) == set(ids(" <"))
    source.go()
    source.error = error or source.error
    with caplog.at_level(logging.ERROR):
        assert written(text, prompt, output) == f"\n[refactx: {note}]"
    assert len(caplog.records) == 1
    assert "a request was ended" in caplog.text
    assert "secret" not in caplog.text
    source.error = None  # the request is closed all the same
    assert mask_after(text, prompt, [*output, *INDEX.tokenizer.encode(f"\n[refactx: {note}]"), END]) == {END}


def test_a_request_whose_next_id_was_discarded_is_open_again() -> None:
    source = Away(INDEX)
    text, prompt = text_of(source), ids("a", " Fact:")
    source.go()
    closed = mask_after(text, prompt, [])
    assert closed is not None and closed != set(ids(" <"))
    source.error = None
    assert mask_after(text, prompt, []) == set(ids(" <"))


def test_a_request_off_the_tree_is_ended(caplog: pytest.LogCaptureFixture) -> None:
    text, prompt = text_of(), ids("\n")
    assert written(text, prompt, ids("Fact:", " <", "</s>")) == "\n[refactx: the text left the facts]"
    assert "another part of vLLM forced it" in caplog.text


def test_placeholders_are_not_token_ids(caplog: pytest.LogCaptureFixture) -> None:
    text, prompt = text_of(), ids("\n")
    assert mask_after(text, prompt, []) is None
    assert mask_after(text, prompt, [-1]) is not None
    assert "load it with --logits-processors" in caplog.text


def test_wrong_options_that_reach_the_engine_end_the_request(caplog: pytest.LogCaptureFixture) -> None:
    text = facts_of(INDEX).text(params(refactx_max_facts=0))
    assert text is not None
    assert written(text, ids("\n"), []) == "\n[refactx: an option of the request is wrong]"
    assert "refactx_max_facts is 0" in caplog.text


def test_after_the_last_fact_the_text_follows_and_a_further_trigger_ends_the_request() -> None:
    text = facts_of(INDEX).text(params(refactx_max_facts=1, refactx_after_facts="so"))
    assert text is not None
    prompt, dice, output = ids("\n"), np.random.default_rng(0), ids("Fact:")
    while (mask := mask_after(text, prompt, output)) is not None:
        output.append(chosen(mask, dice))
    body = INDEX.tokenizer.decode(output)
    assert body.endswith("\nso")
    assert Machine(INDEX).facts(output, 0)[0].text in body
    assert mask_after(text, prompt, [*output, *ids(" Fact:")]) == {END}


def test_a_model_with_fewer_logits_than_tokens_gets_no_id_without_a_logit() -> None:
    (first,) = ids(" <")
    text = RequestText(Machine(INDEX), end=1, vocabulary=first)
    (mask,) = text.masks(2, 1, ids("\n", "Fact:"))
    assert mask is not None and max(mask) < first


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_prompt_counts_as_in_the_machine(prompt: str) -> None:
    numbers = tiny_tokenizer()(prompt)["input_ids"]
    machine = Machine(INDEX)
    allowed = machine.allowed(machine.start(numbers))
    assert mask_after(text_of(), numbers, []) == (None if allowed is None else set(allowed.tolist()))
