"""Free text that would end without its answer goes on to it, once, whatever the mode; other text is left as it is."""

from typing import Any

import pytest
import torch
from support.tiny_model import one_thread, prompts, tiny_model, tiny_tokenizer  # noqa: F401
from test_asker import tiny_asker
from transformers import LogitsProcessorList

from refactx.asking.answer_line import AnswerLine

MARKER = "Answer:"


def ending_model(weight: float = 100.0) -> Any:
    """A random model that likes to end its texts."""
    model = tiny_model()
    model.get_output_embeddings().weight.data[tiny_tokenizer().eos_token_id] *= weight
    return model


def texts(model: Any, *given: str, line: bool = True, **options: Any) -> list[str]:
    """What is written behind some prompts."""
    inputs, tokenizer = prompts(*given), tiny_tokenizer()
    length = inputs["input_ids"].shape[1]
    processors = [AnswerLine(tokenizer, MARKER, {tokenizer.eos_token_id}, length)] if line else []
    out = model.generate(**inputs, logits_processor=LogitsProcessorList(processors), max_new_tokens=40, **options)
    return [tokenizer.decode(row[length:], skip_special_tokens=True) for row in out.tolist()]


@pytest.mark.parametrize("options", [{"do_sample": False}, {"num_beams": 3, "do_sample": False}])
@pytest.mark.parametrize("given", [["a"], ["b c", "a", "in p"]])
def test_a_text_that_ends_has_its_answer_once(given: list[str], options: dict[str, Any]) -> None:
    written = texts(ending_model(), *given, **options)
    before = texts(ending_model(), *given, line=False, **options)
    assert all(text.count(MARKER) == 1 for text in written), written
    assert not any(MARKER in text for text in before)
    if "num_beams" not in options:
        for text, plain in zip(written, before, strict=True):
            assert text.startswith(plain), "up to there it is the model's own"
            assert text[len(plain) :].startswith(MARKER if not plain or plain.endswith("\n") else f"\n{MARKER}")


def test_a_text_that_does_not_end_is_left_alone() -> None:
    model = ending_model(0.0)
    assert texts(model, "a", "b", do_sample=False) == texts(model, "a", "b", do_sample=False, line=False)


def test_a_text_with_an_answer_may_end() -> None:
    tokenizer = tiny_tokenizer()
    end = tokenizer.eos_token_id
    ids = torch.tensor([tokenizer.encode(f"a b\n{MARKER} b", add_special_tokens=False)])
    scores = torch.zeros(1, 300)
    scores[0, end] = 1.0
    line = AnswerLine(tokenizer, MARKER, {end}, 1)
    assert torch.equal(line(ids, scores.clone()), scores)
    # one in the prompt is no answer
    assert line(ids, scores.clone())[0, end] == 1.0
    behind = AnswerLine(tokenizer, MARKER, {end}, ids.shape[1])
    assert behind(ids, scores.clone())[0, end] == -torch.inf


def test_free_questions_are_answered_and_grounded_ones_as_before() -> None:
    asker = tiny_asker(ending_model())
    answer = asker.ask("hello", max_new_tokens=40, free=True)
    assert answer.text.count(MARKER) == 1
    assert answer.finish_reason == "stop"
    assert MARKER not in asker.ask("hello", max_new_tokens=40).text
